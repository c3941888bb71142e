//! What a device can be known by (rule 6): only its id identifies it. Serial, name and rack are evidence, and this judges it.

use super::row::Row;
use crate::agent::report;
use fleet_schemas::{ConditionReport, Status, real_serial};
use std::collections::{BTreeMap, HashMap};

/// Others that a conflict names; a placeholder that we do not know may be the serial of hundreds.
const SHOWN: usize = 20;

/// Which devices share a real serial with others: id → the other ids, ascending.
pub(crate) fn conflicts<'a>(serials: impl Iterator<Item = (i64, Option<&'a str>)>) -> BTreeMap<i64, Vec<i64>> {
    let mut holders: HashMap<String, Vec<i64>> = HashMap::new();
    for (id, serial) in serials {
        if let Some(serial) = serial.and_then(real_serial) {
            holders.entry(serial).or_default().push(id);
        }
    }
    let mut conflicts = BTreeMap::new();
    for ids in holders.into_values().filter(|ids| ids.len() > 1) {
        for id in &ids {
            let mut others: Vec<i64> = ids.iter().copied().filter(|o| o != id).collect();
            others.sort_unstable();
            conflicts.insert(*id, others);
        }
    }
    conflicts
}

/// `InventoryMatched` and `IdentityConflict` of a device.
pub(crate) fn conditions(row: &Row, others: Option<&Vec<i64>>) -> Vec<ConditionReport> {
    let named = row.name.as_deref().is_some_and(|n| !n.trim().is_empty());
    let serial = row.serial();
    let problems: Vec<(&str, String)> = [
        (serial.is_none(), "SerialMissing", "no serial".to_owned()),
        (
            serial.as_deref().is_some_and(|s| real_serial(s).is_none()),
            "SerialPlaceholder",
            format!("serial \"{}\" names no machine", row.serial),
        ),
        (!named, "NameMissing", "no name".to_owned()),
        (row.rack.is_none(), "RackMissing", "no rack".to_owned()),
    ]
    .into_iter()
    .filter_map(|(holds, reason, message)| holds.then_some((reason, message)))
    .collect();
    let matched = match problems.first() {
        None => report("InventoryMatched", Status::True, "Complete", String::new()),
        Some((reason, _)) => {
            let all: Vec<&str> = problems.iter().map(|(_, message)| message.as_str()).collect();
            report("InventoryMatched", Status::False, reason, all.join("; "))
        }
    };
    let conflict = match others {
        None => report("IdentityConflict", Status::False, "SerialUnique", String::new()),
        Some(others) => {
            let mut ids: Vec<String> = others.iter().take(SHOWN).map(i64::to_string).collect();
            if others.len() > SHOWN {
                ids.push(format!("{} more", others.len() - SHOWN));
            }
            report(
                "IdentityConflict",
                Status::True,
                "SerialShared",
                format!("serial \"{}\" is also that of NetBox device {}", row.serial, ids.join(", ")),
            )
        }
    };
    vec![matched, conflict]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_no_serials() {
        for serial in [
            "",
            " ",
            "0",
            "None",
            "N/A",
            "To be filled by O.E.M.",
            "Default string",
            "System Serial Number",
            "0123456789",
            "Not Specified",
            "....",
            "XXXXXX",
            "00000000",
            " none ",
            "-",
        ] {
            assert_eq!(real_serial(serial), None, "{serial}");
        }
        for serial in ["SN0000007", "J1X2Y3Z", "00000001", "01"] {
            assert!(real_serial(serial).is_some(), "{serial}");
        }
    }

    #[test]
    fn conflicts_name_the_others() {
        let serials =
            [(1, Some("A1")), (2, Some("a1 ")), (3, Some("B2")), (4, Some("none")), (5, Some("None")), (6, None), (7, Some("A1"))];
        let expected = BTreeMap::from([(1, vec![2, 7]), (2, vec![1, 7]), (7, vec![1, 2])]);
        assert_eq!(conflicts(serials.into_iter()), expected);
    }
}
