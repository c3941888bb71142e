//! The truth table of section 8, as data: what `SlurmSchedulable` is for a set of tokens. The first row that matches wins.

use fleet_schemas::Status::{self, False, True, Unknown};
use std::collections::BTreeSet;

/// What of a node the table looks at.
pub(crate) struct Facts<'a> {
    pub(crate) tokens: &'a BTreeSet<String>,
    pub(crate) cpus: i64,
    pub(crate) alloc_cpus: i64,
    pub(crate) partitions: PartitionsOfNode,
}

/// Row 12's view of a node's partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartitionsOfNode {
    /// At least one is UP.
    SomeUp,
    /// None is.
    NoneUp,
    /// It is in none.
    InNone,
    /// The list was empty or lacks the ones that matter: no rights, not "none".
    NotKnown,
}

/// When a row matches.
enum When {
    /// One of these tokens is there.
    Any(&'static [&'static str]),
    /// One of the first and one of the second.
    Both(&'static [&'static str], &'static [&'static str]),
    /// This token, and work on the node: one of these tokens or allocated CPUs.
    Busy(&'static str, &'static [&'static str]),
    /// The node's partitions are like this.
    Partitions(PartitionsOfNode),
    /// A token that no row and no neutral word knows.
    Unrecognised,
    /// All CPUs have work.
    Full,
}

struct Row {
    number: u8,
    when: When,
    status: Status,
    reason: &'static str,
}

const fn row(number: u8, when: When, status: Status, reason: &'static str) -> Row {
    Row { number, when, status, reason }
}

use When::{Any, Both, Busy, Full, Partitions, Unrecognised};

/// Row 0 (no answer) never gets here. Row 18's `Settling` needs a write of our own, and we write nothing yet.
const TABLE: &[Row] = &[
    row(1, Any(&["FUTURE"]), False, "NotMember"),
    row(2, Any(&["INVALID_REG"]), False, "InvalidRegistration"),
    row(3, Any(&["REBOOT_ISSUED"]), False, "Rebooting"),
    row(4, Both(&["DOWN", "ERROR"], &["POWERED_DOWN"]), False, "ResumeFailed"),
    row(4, Both(&["DOWN", "ERROR"], &["NOT_RESPONDING"]), False, "NotResponding"),
    row(4, Any(&["DOWN", "ERROR"]), False, "Down"),
    row(5, Busy("DRAIN", &["ALLOCATED", "MIXED", "COMPLETING"]), False, "Draining"),
    row(6, Any(&["DRAIN"]), False, "Drained"),
    row(7, Any(&["FAIL"]), False, "Failing"),
    row(8, Any(&["POWER_DOWN", "POWERING_DOWN", "POWER_DRAIN", "POWER_DOWN_ASAP", "POWER_DOWN_FORCE"]), False, "PoweringDown"),
    row(9, Any(&["BLOCKED", "PERFCTRS"]), False, "Blocked"),
    row(10, Any(&["MAINTENANCE"]), False, "MaintReservation"),
    row(11, Any(&["RESERVED"]), False, "Reserved"),
    row(12, Partitions(PartitionsOfNode::NotKnown), Unknown, "NoData"),
    row(12, Partitions(PartitionsOfNode::InNone), False, "NoPartition"),
    row(12, Partitions(PartitionsOfNode::NoneUp), False, "PartitionDown"),
    row(13, Any(&["COMPLETING"]), False, "Completing"),
    row(14, Unrecognised, Unknown, "UnrecognisedState"),
    row(15, Any(&["UNKNOWN"]), Unknown, "NotYetRegistered"),
    row(16, Any(&["POWERING_UP"]), True, "PoweringUp"),
    row(17, Any(&["POWERED_DOWN"]), True, "PoweredDown"),
    row(18, Any(&["NOT_RESPONDING"]), False, "NotResponding"),
    // With DRAIN row 5 or 6 has matched.
    row(19, Any(&["REBOOT_REQUESTED"]), True, "RebootPending"),
    row(20, Any(&["PLANNED"]), True, "Planned"),
    row(21, Any(&["ALLOCATED"]), True, "Allocated"),
    row(21, Full, True, "Allocated"),
    row(22, Any(&["MIXED"]), True, "Mixed"),
    row(22, Any(&["IDLE"]), True, "Idle"),
];

/// Known, and of no meaning here.
const NEUTRAL: &[&str] = &["CLOUD", "DYNAMIC_NORM", "DYNAMIC_FUTURE", "POWER_UP"];

/// What the table says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The row's number in section 8; 0 = no row matched.
    pub(crate) row: u8,
    pub(crate) status: Status,
    pub(crate) reason: &'static str,
    /// Tokens that nobody knows.
    pub(crate) unrecognised: Vec<String>,
}

/// Judges one node.
pub(crate) fn judge(facts: &Facts<'_>) -> Verdict {
    let unrecognised: Vec<String> = facts.tokens.iter().filter(|t| !known(t)).cloned().collect();
    let any = |tokens: &[&str]| tokens.iter().any(|t| facts.tokens.contains(*t));
    let matches = |when: &When| match when {
        Any(tokens) => any(tokens),
        Both(these, those) => any(these) && any(those),
        Busy(token, signs) => any(&[token]) && (any(signs) || facts.alloc_cpus > 0),
        Partitions(like) => facts.partitions == *like,
        Unrecognised => !unrecognised.is_empty(),
        Full => facts.cpus > 0 && facts.alloc_cpus >= facts.cpus,
    };
    let row = TABLE.iter().find(|row| matches(&row.when));
    // Flags without a base state: nothing that we know how to read.
    let (number, status, reason) = row.map_or((0, Unknown, "UnrecognisedState"), |r| (r.number, r.status, r.reason));
    Verdict { row: number, status, reason, unrecognised }
}

fn known(token: &str) -> bool {
    NEUTRAL.contains(&token)
        || TABLE.iter().any(|row| match row.when {
            Any(tokens) => tokens.contains(&token),
            Both(these, those) => these.contains(&token) || those.contains(&token),
            Busy(one, signs) => one == token || signs.contains(&token),
            Partitions(_) | Unrecognised | Full => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(tokens: &str, cpus: (i64, i64), partitions: PartitionsOfNode) -> String {
        let tokens = tokens.split('+').filter(|t| !t.is_empty()).map(str::to_owned).collect();
        let v = judge(&Facts { tokens: &tokens, cpus: cpus.1, alloc_cpus: cpus.0, partitions });
        format!("{} {} {}{}", v.row, v.status, v.reason, v.unrecognised.iter().map(|u| format!(" {u}")).collect::<String>())
    }

    #[test]
    fn every_row_and_its_place() {
        use PartitionsOfNode::{InNone, NoneUp, NotKnown, SomeUp};
        for (tokens, cpus, partitions, expected) in [
            ("IDLE+FUTURE", (0, 8), SomeUp, "1 False NotMember"),
            ("UNKNOWN+DRAIN+INVALID_REG", (0, 8), SomeUp, "2 False InvalidRegistration"),
            ("DOWN+DRAIN+REBOOT_ISSUED", (0, 8), SomeUp, "3 False Rebooting"),
            ("DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING", (0, 8), SomeUp, "4 False ResumeFailed"),
            ("ERROR+NOT_RESPONDING", (0, 8), SomeUp, "4 False NotResponding"),
            ("DOWN+DRAIN", (0, 8), SomeUp, "4 False Down"),
            ("IDLE+DRAIN+COMPLETING", (0, 8), SomeUp, "5 False Draining"),
            ("IDLE+DRAIN", (1, 8), SomeUp, "5 False Draining"),
            ("IDLE+DRAIN+MAINTENANCE+EXTERNAL", (0, 8), NotKnown, "6 False Drained EXTERNAL"),
            ("IDLE+FAIL+POWER_DOWN", (0, 8), SomeUp, "7 False Failing"),
            ("IDLE+POWER_DOWN_FORCE", (0, 8), SomeUp, "8 False PoweringDown"),
            ("IDLE+BLOCKED", (0, 8), SomeUp, "9 False Blocked"),
            ("MIXED+MAINTENANCE+RESERVED", (2, 8), SomeUp, "10 False MaintReservation"),
            ("IDLE+RESERVED", (0, 8), NoneUp, "11 False Reserved"),
            ("IDLE", (0, 8), NotKnown, "12 Unknown NoData"),
            ("IDLE", (0, 8), InNone, "12 False NoPartition"),
            ("IDLE+COMPLETING", (0, 8), NoneUp, "12 False PartitionDown"),
            ("IDLE+COMPLETING+EXTERNAL", (0, 8), SomeUp, "13 False Completing EXTERNAL"),
            ("IDLE+EXTERNAL+TWIRLING", (0, 8), SomeUp, "14 Unknown UnrecognisedState EXTERNAL TWIRLING"),
            ("UNKNOWN+NOT_RESPONDING", (0, 8), SomeUp, "15 Unknown NotYetRegistered"),
            ("IDLE+NOT_RESPONDING+POWERING_UP", (0, 8), SomeUp, "16 True PoweringUp"),
            ("IDLE+POWER_UP+POWERED_DOWN+NOT_RESPONDING", (0, 8), SomeUp, "17 True PoweredDown"),
            ("IDLE+NOT_RESPONDING+REBOOT_REQUESTED", (0, 8), SomeUp, "18 False NotResponding"),
            ("MIXED+REBOOT_REQUESTED+PLANNED", (2, 8), SomeUp, "19 True RebootPending"),
            ("IDLE+PLANNED", (0, 8), SomeUp, "20 True Planned"),
            ("ALLOCATED", (8, 8), SomeUp, "21 True Allocated"),
            ("MIXED", (8, 8), SomeUp, "21 True Allocated"),
            ("MIXED", (2, 8), SomeUp, "22 True Mixed"),
            ("IDLE+CLOUD+DYNAMIC_NORM", (0, 8), SomeUp, "22 True Idle"),
            ("CLOUD", (0, 8), SomeUp, "0 Unknown UnrecognisedState"),
            ("", (0, 8), SomeUp, "0 Unknown UnrecognisedState"),
        ] {
            assert_eq!(verdict(tokens, cpus, partitions), expected, "{tokens}");
        }
    }
}
