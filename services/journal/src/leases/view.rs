//! What one hub has heard of all, and what follows from it. Pure: times come in as arguments.

use super::DEAD;
use fleet_schemas::{BootId, Inputs, Lease};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::{Duration, Instant};

/// Beats unbroken for so long make a hub one to prefer: what comes and goes moves no partitions.
const SEASONED: Duration = Duration::from_secs(60);
/// While our own beat is older than this, we accuse nobody.
const FRESH: Duration = Duration::from_secs(1);
/// A preferred hub that does not claim in this time is late; the next in its order is given as much again.
const LATE: Duration = Duration::from_secs(3);

pub(super) struct View {
    own: BootId,
    name: String,
    begun: Instant,
    /// Our beats that did not come back yet, and when each was sent.
    sent: VecDeque<(u64, Instant)>,
    /// When the last of our beats that came back was sent: by then we had read what all the others said before it.
    back: Option<Instant>,
    hubs: HashMap<BootId, Seen>,
    /// Since when nobody lists a partition.
    free: HashMap<u32, Instant>,
}

struct Seen {
    name: String,
    beat: u64,
    at: Instant,
    since: Instant,
    leads: BTreeMap<u32, Inputs>,
    declines: BTreeSet<u32>,
}

impl View {
    pub(super) fn new(own: BootId, name: String, begun: Instant) -> Self {
        Self { own, name, begun, sent: VecDeque::new(), back: None, hubs: HashMap::new(), free: HashMap::new() }
    }

    pub(super) fn sent(&mut self, beat: u64, now: Instant) {
        self.sent.push_back((beat, now));
        // What is older proves nothing any more.
        while self.sent.front().is_some_and(|(_, at)| now.duration_since(*at) > DEAD) {
            self.sent.pop_front();
        }
    }

    pub(super) fn heard(&mut self, lease: Lease, now: Instant) {
        let leads: BTreeMap<u32, Inputs> = lease.leads.into_iter().map(|l| (l.partition, l.decided)).collect();
        if lease.boot == self.own
            && let Some(nth) = self.sent.iter().position(|(beat, _)| *beat == lease.beat)
        {
            self.back = self.sent.drain(..=nth).next_back().map(|(_, at)| at);
        }
        if lease.bye {
            self.hubs.remove(&lease.boot);
            return;
        }
        let declines: BTreeSet<u32> = lease.declines.into_iter().collect();
        self.hubs.retain(|_, seen| now.duration_since(seen.at) < SEASONED * 10);
        match self.hubs.get_mut(&lease.boot) {
            Some(seen) if lease.beat <= seen.beat => {}
            Some(seen) => {
                let broken = now.duration_since(seen.at) >= DEAD;
                (seen.beat, seen.leads, seen.declines) = (lease.beat, leads, declines);
                seen.since = if broken { now } else { seen.since };
                seen.at = now;
            }
            None => {
                self.hubs.insert(lease.boot, Seen { name: lease.hub, beat: lease.beat, at: now, since: now, leads, declines });
            }
        }
    }

    fn alive(&self, now: Instant) -> impl Iterator<Item = (&BootId, &Seen)> {
        self.hubs.iter().filter(move |(_, seen)| now.duration_since(seen.at) < DEAD)
    }

    pub(super) fn live(&self, now: Instant) -> usize {
        self.alive(now).count()
    }

    /// How far the others have decided what they lead.
    pub(super) fn decided(&self, now: Instant) -> BTreeMap<u32, Inputs> {
        let mut furthest: BTreeMap<u32, Inputs> = BTreeMap::new();
        for (partition, decided) in self.alive(now).filter(|(boot, _)| **boot != self.own).flat_map(|(_, seen)| &seen.leads) {
            match furthest.get_mut(partition) {
                Some(known) if known.observations >= decided.observations => {}
                _ => drop(furthest.insert(*partition, decided.clone())),
            }
        }
        furthest
    }

    /// What this hub is to claim and keep. `leading`: what it leads; `standing`: the last answer.
    pub(super) fn mine(&mut self, partitions: u32, leading: &BTreeSet<u32>, standing: &BTreeSet<u32>, now: Instant) -> BTreeSet<u32> {
        // Not when it was read: a process that was paused reads what was said meanwhile, and its own last words of before.
        if self.back.is_none_or(|sent| now.duration_since(sent) >= FRESH) {
            return leading.clone();
        }
        let order = self.order(now);
        let mut mine = BTreeSet::new();
        for p in 0..partitions {
            let listed = self.alive(now).any(|(boot, seen)| *boot != self.own && seen.leads.contains_key(&p));
            let preferred = rank(&order, p, &self.name, self.own);
            let others = order.names.iter().filter(|(_, boot, declines)| *boot != self.own && !declines.contains(&p)).count();
            let is_mine = if leading.contains(&p) {
                self.free.remove(&p);
                // Given back only to one who is there to take it, and seasoned.
                preferred == Some(0) || order.seasoned < 2 || others == 0 || preferred.is_none()
            } else if listed {
                self.free.remove(&p);
                false
            } else {
                let free = now.duration_since(*self.free.entry(p).or_insert(now));
                let listened = now.duration_since(self.begun) >= DEAD;
                let turn = preferred.map_or(LATE * (order.names.len() as u32 + 1), |nth| LATE * nth);
                listened && (standing.contains(&p) || free >= turn)
            };
            if is_mine {
                mine.insert(p);
            }
        }
        mine
    }

    /// Whom to prefer: the seasoned; all that live where nobody is.
    fn order(&self, now: Instant) -> Order {
        let names = |old: bool| -> Vec<(String, BootId, BTreeSet<u32>)> {
            let some = self.alive(now).filter(|(_, seen)| !old || now.duration_since(seen.since) >= SEASONED);
            some.map(|(boot, seen)| (seen.name.clone(), *boot, seen.declines.clone())).collect()
        };
        let seasoned = names(true);
        let count = seasoned.len();
        Order { names: if seasoned.is_empty() { names(false) } else { seasoned }, seasoned: count }
    }
}

struct Order {
    names: Vec<(String, BootId, BTreeSet<u32>)>,
    seasoned: usize,
}

/// Our place among those to prefer for `p`; none where we are not one of them.
fn rank(order: &Order, p: u32, name: &str, own: BootId) -> Option<u32> {
    let weight = |name: &str, boot: BootId| {
        let mut hasher = DefaultHasher::new();
        (name, p).hash(&mut hasher);
        (hasher.finish(), boot.0)
    };
    let ours = weight(name, own);
    let counts = order.names.iter().any(|(_, boot, _)| *boot == own);
    let before = |(n, boot, declines): &&(String, BootId, BTreeSet<u32>)| !declines.contains(&p) && weight(n, *boot) > ours;
    counts.then(|| order.names.iter().filter(before).count() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fleet_schemas::{Led, Timestamp};

    const PARTITIONS: u32 = 24;

    /// Hubs that hear each other; each leads at once what it is to lead.
    struct World {
        now: Instant,
        views: Vec<(View, BTreeSet<u32>)>,
        beat: u64,
        mute: BTreeSet<usize>,
        /// What a hub does not lead, and says so.
        declines: HashMap<usize, Vec<u32>>,
    }

    fn boot(i: usize) -> BootId {
        BootId(uuid::Uuid::from_u128(i as u128 + 1))
    }

    impl World {
        fn new(hubs: usize) -> Self {
            let now = Instant::now();
            let mut world = Self { now, views: vec![], beat: 0, mute: BTreeSet::new(), declines: HashMap::new() };
            (0..hubs).for_each(|_| world.join());
            world
        }

        fn join(&mut self) {
            let i = self.views.len();
            self.views.push((View::new(boot(i), format!("hub-{i}"), self.now), BTreeSet::new()));
        }

        /// A quarter of a second passes, so many times.
        fn pass(&mut self, quarters: u32) {
            for _ in 0..quarters {
                self.now += Duration::from_millis(250);
                self.beat += 1;
                let beats: Vec<Lease> = self
                    .views
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| !self.mute.contains(i))
                    .map(|(i, (_, leads))| self.lease(i, leads))
                    .collect();
                for (i, (view, leads)) in self.views.iter_mut().enumerate() {
                    if !self.mute.contains(&i) {
                        view.sent(self.beat, self.now);
                        beats.iter().for_each(|b| view.heard(b.clone(), self.now));
                        let mut now_mine = view.mine(PARTITIONS, leads, leads, self.now);
                        now_mine.retain(|p| !self.declines.get(&i).is_some_and(|d| d.contains(p)));
                        *leads = now_mine;
                    }
                }
            }
        }

        fn lease(&self, i: usize, leads: &BTreeSet<u32>) -> Lease {
            let leads = leads.iter().map(|p| Led { partition: *p, decided: Inputs { commands: 0, observations: 0 } }).collect();
            Lease {
                hub: format!("hub-{i}"),
                boot: boot(i),
                beat: self.beat,
                leads,
                declines: self.declines.get(&i).cloned().unwrap_or_default(),
                bye: false,
                at: Timestamp(0),
            }
        }

        /// How many of the living lead each partition.
        fn leaders(&self) -> Vec<usize> {
            let living = |i: &usize| !self.mute.contains(i);
            (0..PARTITIONS).map(|p| self.views.iter().enumerate().filter(|(i, (_, l))| living(i) && l.contains(&p)).count()).collect()
        }

        fn shares(&self) -> Vec<usize> {
            self.views.iter().map(|(_, l)| l.len()).collect()
        }
    }

    #[test]
    fn every_partition_has_one_leader_and_each_hub_a_share() {
        let mut world = World::new(3);
        world.pass(40);
        assert_eq!(world.leaders(), vec![1; PARTITIONS as usize]);
        assert!(world.shares().iter().all(|s| *s >= 3), "{:?}", world.shares());
    }

    #[test]
    fn what_a_dead_hub_led_is_led_again_and_nothing_else_moves() {
        let mut world = World::new(3);
        world.pass(400);
        let before: Vec<_> = world.views.iter().map(|(_, l)| l.clone()).collect();
        world.mute.insert(1);
        world.pass(10);
        assert_eq!(world.leaders(), vec![1; PARTITIONS as usize], "2.5 s after its last beat");
        for i in [0, 2] {
            assert!(world.views[i].1.is_superset(&before[i]), "hub {i} kept what it led");
        }
    }

    #[test]
    fn one_that_joins_is_given_its_share_only_after_a_minute() {
        let mut world = World::new(2);
        world.pass(400);
        world.join();
        world.pass(200);
        assert_eq!(world.shares()[2], 0, "50 s");
        world.pass(80);
        assert!(world.shares()[2] >= 3, "{:?}", world.shares());
        assert_eq!(world.leaders(), vec![1; PARTITIONS as usize]);
    }

    #[test]
    fn what_was_given_back_is_left_to_the_one_it_was_given_to() {
        let mut world = World::new(1);
        world.pass(400);
        world.join();
        world.pass(238);
        assert_eq!(world.shares(), [24, 0], "just before the minute");
        let (mut gave, patience) = (BTreeSet::new(), world.now + Duration::from_secs(5));
        while gave.is_empty() && world.now < patience {
            let before = world.views[0].1.clone();
            // The other one does not take it yet.
            world.pass(1);
            gave = before.difference(&world.views[0].1).copied().collect();
            world.views[1].1.clear();
        }
        assert!(!gave.is_empty(), "nothing was given back");
        for _ in 0..4 {
            world.pass(1);
            world.views[1].1.clear();
            assert!(world.views[0].1.is_disjoint(&gave), "taken back within a second");
        }
    }

    #[test]
    fn what_a_hub_cannot_lead_another_leads_without_a_break() {
        let mut world = World::new(2);
        world.pass(400);
        let cannot: Vec<u32> = world.views[0].1.iter().copied().take(4).collect();
        world.declines.insert(0, cannot.clone());
        world.pass(40);
        for _ in 0..100 {
            world.pass(1);
            assert_eq!(world.leaders(), vec![1; PARTITIONS as usize], "{:?}", world.shares());
        }
        assert!(cannot.iter().all(|p| world.views[1].1.contains(p)));
    }

    #[test]
    fn one_whose_own_beat_does_not_come_back_accuses_nobody() {
        let mut world = World::new(2);
        world.pass(400);
        let (view, leads) = &mut world.views[0];
        let later = world.now + Duration::from_secs(30);
        assert_eq!(view.mine(PARTITIONS, leads, leads, later), *leads, "nothing was heard for 30 s: it keeps, and takes nothing");
    }

    #[test]
    fn one_that_was_paused_believes_nothing_before_its_own_next_beat_came_back() {
        let mut world = World::new(2);
        world.pass(400);
        world.mute.insert(0);
        world.pass(40);
        assert_eq!(world.leaders(), vec![1; PARTITIONS as usize], "the other took over");
        // It wakes, and reads the first thing that was said after it fell asleep: its leases of then.
        let old = world.lease(1, &BTreeSet::new());
        let (view, leads) = &mut world.views[0];
        let standing = std::mem::take(leads);
        view.heard(old, world.now);
        assert_eq!(view.mine(PARTITIONS, &BTreeSet::new(), &standing, world.now), BTreeSet::new(), "it claims nothing of what it led");
    }
}
