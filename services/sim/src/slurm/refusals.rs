//! What goes wrong, in each release's words (knowledge/slurm.md section 4).

use serde_json::{Value, json};

use super::{Asked, Version, lists};
use crate::http::Answer;
use crate::world::Release;

/// Why a call is refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Wrong key, expired, empty or no JWT.
    Token,
    /// slurmctld does not run.
    Controller,
    /// slurmctld does not answer.
    Hang,
    /// An ordinary user where an administrator is needed.
    Rights,
    /// No such node or partition.
    Unknown,
}

/// The answer to a call that is refused.
pub(super) fn refuse(version: Version, asked: Asked<'_>, trouble: Trouble, writes: bool) -> Answer {
    match (version.release(), asked, trouble) {
        // 24.11 has no words for the reason: it pings a controller that does not answer.
        (Release::V24, Asked::Ping, Trouble::Rights) => lists::ping(version, true),
        (Release::V24, Asked::Ping, _) => lists::ping(version, false),
        (Release::V24, Asked::Partitions, Trouble::Rights) => lists::list(version, "partitions", "", 0),
        (Release::V24, Asked::Node(name), _) if writes => {
            let description = format!("Failure to update node {name}");
            let code = if trouble == Trouble::Unknown { (500, 2018, "Invalid node name specified") } else { v24_code(trouble, writes) };
            v24(version, code, &description, "_update_node")
        }
        (Release::V24, asked, trouble) => v24_read(version, asked, trouble),
        (Release::V22, asked, trouble) => v22(version, asked, trouble),
    }
}

/// An update of a node that slurmctld does not accept: 2028.
pub(super) fn bad_state(version: Version, node: &str) -> Answer {
    v24(version, (500, 2028, "Invalid node state specified"), &format!("Failure to update node {node}"), "_update_node")
}

/// `update_time=` with a number, which v0.0.40 cannot read. The status was measured, the words were not.
pub(super) fn unreadable_query(version: Version) -> Answer {
    v24(version, (500, -1, "Unspecified error"), "Unable to parse query parameter update_time", "_dump_nodes")
}

fn v24_code(trouble: Trouble, writes: bool) -> (u16, i32, &'static str) {
    match trouble {
        Trouble::Token => (511, 1007, "Protocol authentication error"),
        Trouble::Controller => (502, 1800, "Unable to contact slurm controller (connect failure)"),
        Trouble::Hang => (504, 5004, "Socket timed out on send/recv operation"),
        Trouble::Rights if writes => (500, 2010, "Invalid user id"),
        Trouble::Rights => (500, 2002, "Access/permission denied"),
        Trouble::Unknown => (200, 0, "No error"),
    }
}

fn v24_read(version: Version, asked: Asked<'_>, trouble: Trouble) -> Answer {
    let (description, source) = match asked {
        Asked::Nodes => ("Failure to query nodes".to_owned(), "_dump_nodes"),
        Asked::Node(name) => (format!("Failure to query node {name}"), "_dump_nodes"),
        Asked::Partition(name) => (format!("Failure to query partition {name}"), "_dump_partitions"),
        Asked::Partitions => ("Failure to query partitions".to_owned(), "_dump_partitions"),
        Asked::Reservations | Asked::Ping => ("Failure to query reservations".to_owned(), "_dump_reservations"),
    };
    let code = match (asked, trouble) {
        (Asked::Partition(_), Trouble::Unknown) => (422, 9000, "Query empty or not RFC7320 compliant"),
        (_, trouble) => v24_code(trouble, false),
    };
    v24(version, code, &description, source)
}

fn v24(version: Version, (status, number, error): (u16, i32, &str), description: &str, source: &str) -> Answer {
    let error = json!({ "description": description, "error_number": number, "error": error, "source": source });
    Answer::json(status, format!(r#"{{"errors":[{error}],"warnings":[],"meta":{}}}"#, version.meta()))
}

fn v22(version: Version, asked: Asked<'_>, trouble: Trouble) -> Answer {
    let unknown_node = json!([{ "error": "Invalid node name specified", "errno": 2018 }]);
    let unspecified = json!([{ "error": "Unspecified error", "errno": -1 }]);
    let (key, errors): (Option<&str>, Value) = match (asked, trouble) {
        (Asked::Ping, _) if version.0 == 36 => {
            let load = "_op_handler_ping: slurmctld config is unable to load: Unknown error 5005";
            (None, json!([{ "error": load, "errno": 5005 }, { "error": "_op_handler_ping: slurmctld config is missing" }]))
        }
        (Asked::Ping, _) => {
            let load = "slurmctld config is unable to load";
            (None, json!([{ "description": load, "error_number": -1, "error": "Unspecified error", "source": "slurm_load_ctl_conf" }]))
        }
        (Asked::Node(_), Trouble::Unknown) => (Some("nodes"), unknown_node),
        (Asked::Nodes | Asked::Node(_), Trouble::Token) if version.0 == 36 => (Some("nodes"), unknown_node),
        (Asked::Nodes | Asked::Node(_), _) => (Some("nodes"), unspecified),
        (Asked::Partition(_), Trouble::Unknown) => {
            (Some("partitions"), json!([{ "error": "Invalid partition name specified", "errno": 2000 }]))
        }
        (Asked::Partitions | Asked::Partition(_), _) => (Some("partitions"), unspecified),
        (Asked::Reservations, _) => (Some("reservations"), unspecified),
    };
    let list = key.map(|key| format!(r#","{key}":[]"#)).unwrap_or_default();
    Answer::json(500, format!(r#"{{"meta":{},"errors":{errors}{list}}}"#, version.meta()))
}
