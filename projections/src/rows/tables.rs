//! The tables that projectors write. `migrations/` has them for each database; a column that is here alone, or there alone, fails the
//! first test that writes it.

use super::Table;
use crate::sql::Kind::{Bool, Bytes, Int, Json, Text, Time, Uuid, Words};

pub(crate) const POSITION: Table =
    Table { name: "position", columns: &[("partition", Int), ("next", Int), ("state", Bytes)], key: 1, adds: false };

pub(crate) const STREAM: Table = Table {
    name: "stream",
    columns: &[("id", Text), ("version", Int), ("hash", Bytes), ("state", Bytes), ("at", Time), ("stopped", Text)],
    key: 1,
    adds: false,
};

pub(crate) const DEVICE: Table = Table {
    name: "device",
    columns: &[
        ("id", Uuid),
        ("name", Text),
        ("site", Text),
        ("role", Text),
        ("phase", Text),
        ("phase_since", Time),
        ("owner", Text),
        ("tenant_state", Text),
        ("rack", Text),
        ("slurm_node", Text),
        ("conditions_bad", Json),
        ("plans", Int),
        ("version", Int),
        ("updated_at", Time),
    ],
    key: 1,
    adds: false,
};

pub(crate) const CONDITION: Table = Table {
    name: "condition",
    columns: &[
        ("device", Uuid),
        ("type", Text),
        ("subject", Text),
        ("status", Text),
        ("reason", Text),
        ("message", Text),
        ("severity", Text),
        ("effects", Words),
        ("source", Text),
        ("site", Text),
        ("observed_at", Time),
        ("last_transition_at", Time),
        ("confirmed_live", Bool),
        ("wrong", Bool),
    ],
    key: 3,
    adds: false,
};

pub(crate) const ATTENTION: Table = Table {
    name: "attention",
    columns: &[
        ("device", Uuid),
        ("item", Text),
        ("why", Text),
        ("ways_out", Words),
        ("since", Time),
        ("acknowledged_by", Text),
        ("acknowledged_at", Time),
        ("acknowledgement", Text),
    ],
    key: 2,
    adds: false,
};

pub(crate) const HISTORY: Table = Table {
    name: "history",
    columns: &[
        ("stream", Text),
        ("offset", Int),
        ("partition", Int),
        ("version", Int),
        ("at", Time),
        ("outcome", Text),
        ("hash", Bytes),
        ("record", Bytes),
    ],
    key: 2,
    adds: true,
};

pub(crate) const OPERATION: Table = Table {
    name: "operation",
    columns: &[
        ("id", Uuid),
        ("device", Uuid),
        ("verb", Text),
        ("state", Text),
        ("by_whom", Text),
        ("reason", Text),
        ("message", Text),
        ("started_at", Time),
        ("ended_at", Time),
        ("deadline", Time),
    ],
    key: 1,
    adds: true,
};

/// How an operation ended.
pub(crate) const OPERATION_END: Table =
    Table { name: "operation", columns: &[("id", Uuid), ("state", Text), ("message", Text), ("ended_at", Time)], key: 1, adds: false };

pub(crate) const CONFIG_VERSION: Table = Table {
    name: "config_version",
    columns: &[("stream", Text), ("version", Int), ("state", Bytes), ("sealed", Bytes)],
    key: 2,
    adds: true,
};

pub(crate) const ORPHAN: Table = Table {
    name: "orphan",
    columns: &[("site", Text), ("source", Text), ("native_id", Text), ("detail", Text), ("since", Time)],
    key: 3,
    adds: false,
};

/// Every table that is a fold of the journal, for comparing two generations.
pub(crate) const FOLDED: [&Table; 8] = [&STREAM, &DEVICE, &CONDITION, &ATTENTION, &HISTORY, &OPERATION, &CONFIG_VERSION, &ORPHAN];
