//! What happens by itself: work starts and ends, slurmctld notices silent nodes, flags go.

use std::time::{Duration, Instant};

use rand::Rng;

use super::{Cluster, Moment, SlurmNode, World};

/// Seconds at a real site between two looks.
const TICK: f64 = 0.5;
/// Seconds that a schedulable idle node waits for work, in the mean.
const IDLE_FOR: f64 = 60.0;

/// Runs the world for ever. `users` = people submit work, too.
pub(crate) async fn run(world: std::sync::Arc<World>, users: bool) {
    let pause = world.span(TICK).clamp(Duration::from_millis(10), Duration::from_millis(500));
    loop {
        tokio::time::sleep(pause).await;
        let starts = users.then(|| (pause.as_secs_f64() * world.pace / IDLE_FOR).min(1.0));
        world.tick(starts);
    }
}

impl World {
    /// One look at every node. `starts` = the chance that work starts on an idle one.
    fn tick(&self, starts: Option<f64>) {
        let mut guard = self.lock();
        let state = &mut *guard;
        for cluster in &mut state.clusters {
            let open = cluster.partitions.iter().any(|p| p.state == "UP");
            let mut at = Moment::now(self.pace, cluster.release, 0.0);
            let Cluster { nodes, changed_at, .. } = cluster;
            for node in nodes.values_mut() {
                at.dice = state.rng.random();
                let mut changed = pass_time(node, &at);
                if let Some(chance) = starts
                    && open
                    && node.plain()
                    && node.alloc_cpus == 0
                    && node.slurmd_alive
                    && state.rng.random_bool(chance)
                {
                    node.use_cpus([16, 64, 128, 128][state.rng.random_range(0..4)]);
                    node.timers.work_ends = Some(at.after(30.0, 180.0));
                    changed = true;
                }
                if changed {
                    *changed_at = at.unix;
                }
            }
        }
    }
}

/// What is due on one node. True = something changed.
fn pass_time(node: &mut SlurmNode, at: &Moment) -> bool {
    let due = |timer: &mut Option<Instant>| timer.take_if(|t| *t <= at.instant).is_some();
    let mut changed = false;
    if due(&mut node.timers.work_ends) {
        node.use_cpus(0);
        node.last_busy = at.unix;
        node.add("COMPLETING");
        node.timers.completed = Some(at.after(1.0, 3.0));
        changed = true;
    }
    if due(&mut node.timers.completed) {
        node.remove("COMPLETING");
        changed = true;
    }
    if due(&mut node.timers.settled) {
        node.remove("NOT_RESPONDING");
        changed = true;
    }
    if due(&mut node.timers.silent) {
        node.add("NOT_RESPONDING");
        changed = true;
    }
    if due(&mut node.timers.given_up) {
        node.give_up(at);
        changed = true;
    }
    changed
}
