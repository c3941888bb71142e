//! NetBox's change log: one record per write that changed something.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Device;

/// What was done to the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
    /// NetBox's value and label.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Create => ("create", "Created"),
            Self::Update => ("update", "Updated"),
            Self::Delete => ("delete", "Deleted"),
        }
    }
}

/// One record; ids are given out when the write begins, records appear when it commits.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) id: u64,
    pub(crate) time: DateTime<Utc>,
    pub(crate) user: String,
    pub(crate) request_id: Uuid,
    pub(crate) action: Action,
    pub(crate) device: u64,
    /// The reason that came with the write.
    pub(crate) note: String,
    pub(crate) before: Option<Arc<Device>>,
    pub(crate) after: Option<Arc<Device>>,
}
