//! Rule 6: whose drain it is. A drain is ours if its reason begins with our mark **and** the DRAIN has stood since our write; the first
//! look that shows our mark counts as our write. In doubt it is somebody else's.

use super::answer::SlurmNode;
use fleet_schemas::{ConditionReport, Status, Timestamp};
use serde::{Deserialize, Serialize};

/// Our mark at the beginning of a reason.
pub(crate) const MARK: &str = "fleet:";

/// What slurmctld itself appends to a reason, with a new time (section 5): not a write of anybody.
const SUFFIXES: [&str; 4] = [" : Not responding", " : reboot issued", " : reboot complete", " : reboot timed out"];

/// What is remembered of one SLURM node between looks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Remembered {
    /// Consecutive looks in which no list had it.
    pub(crate) misses: u32,
    /// Its absence was confirmed.
    pub(crate) gone: bool,
    /// GET showed it, though no list does.
    #[serde(default)]
    pub(crate) hidden: bool,
    /// `misses` when GET was last asked.
    pub(crate) asked: Option<u32>,
    /// The last look saw it draining, since then.
    pub(crate) drain_since: Option<Timestamp>,
    /// That drain is ours.
    pub(crate) ours: bool,
    /// Reason and its time at the last look that saw the node.
    pub(crate) reason: Option<String>,
    pub(crate) reason_changed_at: Option<Timestamp>,
    /// The last SlurmSchedulable but for row 13, which holds it for two looks.
    pub(crate) schedulable: Option<(Status, String, String)>,
    /// Consecutive looks with row 13.
    pub(crate) completing: u32,
}

impl Remembered {
    /// Takes a look at `node` in: sets `drain_since`, `ours`, reason. `first` = nothing was remembered of it.
    pub(crate) fn see_drain(&mut self, node: &SlurmNode, first: bool, now: Timestamp) {
        let draining = node.tokens.contains("DRAIN");
        self.ours = draining && self.is_ours(node, first);
        self.drain_since = draining.then(|| self.drain_since.unwrap_or(now));
        self.reason.clone_from(&node.reason);
        self.reason_changed_at = node.reason_changed_at;
    }

    fn is_ours(&self, node: &SlurmNode, first: bool) -> bool {
        let reason = node.reason.as_deref().unwrap_or_default();
        let stood = self.drain_since.is_some() && self.ours;
        // Not stood: either DRAIN is new, or it was foreign. Only a new write with our mark makes it ours.
        reason.starts_with(MARK) && (first || stood || self.was_written(node))
    }

    /// Whether somebody wrote the reason since the last look. An unchanged one under a new DRAIN is a drain without a reason: 24.11 goes
    /// on showing the old reason, perhaps ours.
    fn was_written(&self, node: &SlurmNode) -> bool {
        if (&self.reason, self.reason_changed_at) == (&node.reason, node.reason_changed_at) {
            return false;
        }
        let (before, after) = (self.reason.as_deref().unwrap_or_default(), node.reason.as_deref().unwrap_or_default());
        let appended = SUFFIXES.iter().any(|s| after.ends_with(s)) && typed_part(before) == typed_part(after);
        !appended
    }
}

/// A reason without what slurmctld appended.
fn typed_part(mut reason: &str) -> &str {
    while let Some(rest) = SUFFIXES.iter().find_map(|s| reason.strip_suffix(s)) {
        reason = rest;
    }
    reason
}

/// `SlurmDrainForeign`, from a node and what was remembered with this look.
pub(crate) fn foreign(node: &SlurmNode, remembered: &Remembered) -> ConditionReport {
    let (status, reason) = match (remembered.drain_since, remembered.ours) {
        (None, _) => (Status::False, "NotDraining"),
        (Some(_), true) => (Status::False, "OwnDrain"),
        (Some(_), false) => (Status::True, "ForeignDrain"),
    };
    let message = if remembered.drain_since.is_some() { in_words(node) } else { String::new() };
    crate::agent::report("SlurmDrainForeign", status, reason, message)
}

/// The reason whole, its user and its time.
pub(crate) fn in_words(node: &SlurmNode) -> String {
    let reason = node.reason.as_deref().map_or("without a reason".to_owned(), |r| format!("\"{r}\""));
    let by = node.reason_user.as_deref().map_or(String::new(), |u| format!(", by {u}"));
    let since = node.reason_changed_at.map_or(String::new(), |t| format!(", since {t}"));
    format!("{reason}{by}{since}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at one node, one after the other: tokens, reason, time of the reason; then whose drain it is.
    fn check(looks: &[(&str, &str, i64, &str)]) {
        let mut remembered = None;
        for (at, (tokens, reason, changed, expected)) in looks.iter().enumerate() {
            let node = SlurmNode {
                name: "gpu01".into(),
                tokens: tokens.split('+').map(str::to_owned).collect(),
                reason: Some((*reason).to_owned()).filter(|r| !r.is_empty()),
                reason_changed_at: (*changed > 0).then(|| Timestamp::from_seconds(*changed)),
                ..blank()
            };
            let first = remembered.is_none();
            let mut now = remembered.unwrap_or_default();
            Remembered::see_drain(&mut now, &node, first, Timestamp::from_seconds(1000 + at as i64));
            let whose = match (now.drain_since, now.ours) {
                (None, _) => "none".to_owned(),
                (Some(since), ours) => format!("{}@{}", if ours { "ours" } else { "foreign" }, since.0 / 1_000_000 - 1000),
            };
            assert_eq!(whose, *expected, "look {at} of {looks:?}");
            remembered = Some(now);
        }
    }

    #[test]
    fn what_an_older_build_remembered_is_read() {
        let text = r#"{"misses":3,"gone":true,"drain_since":null,"ours":false,"reason":null,"reason_changed_at":null,"schedulable":null,"completing":0}"#;
        let expected = Remembered { misses: 3, gone: true, ..Remembered::default() };
        assert_eq!(serde_json::from_str::<Remembered>(text).unwrap(), expected);
    }

    fn blank() -> SlurmNode {
        SlurmNode {
            name: String::new(),
            tokens: Default::default(),
            cpus: 0,
            alloc_cpus: 0,
            partitions: Default::default(),
            features: Default::default(),
            gres: None,
            reservation: None,
            slurmd_start_time: None,
            reason: None,
            reason_user: None,
            reason_changed_at: None,
        }
    }

    #[test]
    fn whose_drain() {
        let d = "IDLE+DRAIN";
        // The first look ever counts as our write; without the mark it is foreign.
        check(&[(d, "fleet:1 psu", 10, "ours@0"), (d, "fleet:1 psu", 10, "ours@0")]);
        check(&[(d, "admin: memory", 10, "foreign@0")]);
        check(&[(d, "", 0, "foreign@0")]);
        check(&[(d, "xfleet:1", 10, "foreign@0"), (d, "Fleet:1", 11, "foreign@0")]);
        // It comes back with the old reason (24.11 keeps it): somebody else's.
        check(&[
            (d, "fleet:1", 10, "ours@0"),
            ("IDLE", "fleet:1", 10, "none"),
            (d, "fleet:1", 10, "foreign@2"),
            (d, "fleet:1", 10, "foreign@2"),
        ]);
        // The same on a node first seen undrained.
        check(&[("IDLE", "fleet:1", 10, "none"), (d, "fleet:1", 10, "foreign@1")]);
        // It comes back newly written, with the same words or others, on 24.11 and on 22.05 (which cleared them).
        check(&[(d, "fleet:1", 10, "ours@0"), ("IDLE", "fleet:1", 10, "none"), (d, "fleet:1", 12, "ours@2")]);
        check(&[(d, "fleet:1", 10, "ours@0"), ("IDLE", "", 0, "none"), (d, "fleet:2", 12, "ours@2")]);
        // slurmctld appends to it, time and all.
        check(&[(d, "fleet:1", 10, "ours@0"), ("DOWN+DRAIN", "fleet:1 : Not responding", 12, "ours@0")]);
        // And to a foreign one that shows our old words: still foreign.
        check(&[
            ("IDLE", "fleet:1", 10, "none"),
            (d, "fleet:1", 10, "foreign@1"),
            ("DOWN+DRAIN", "fleet:1 : Not responding", 12, "foreign@1"),
            ("DOWN+DRAIN", "fleet:1 : Not responding : reboot issued", 13, "foreign@1"),
        ]);
        check(&[("IDLE", "fleet:1", 10, "none"), ("DOWN+DRAIN", "fleet:1 : Not responding", 12, "foreign@1")]);
        // Ours is typed over a foreign one, with other words or the same.
        check(&[(d, "admin: x", 10, "foreign@0"), (d, "fleet:2", 12, "ours@0")]);
        check(&[("IDLE", "fleet:1", 10, "none"), (d, "fleet:1", 10, "foreign@1"), (d, "fleet:1", 13, "ours@1")]);
        // A foreign one is typed over ours, which is then lost.
        check(&[(d, "fleet:1", 10, "ours@0"), (d, "admin: x", 12, "foreign@0"), (d, "admin: x", 12, "foreign@0")]);
    }
}
