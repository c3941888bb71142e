//! The conditions that a device has.

use super::Condition;
use serde::{Deserialize, Serialize};

/// Ordered by type and subject. A device has few: a list of them takes a third of the memory of a tree.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Conditions(Vec<Condition>);

impl Conditions {
    /// The condition of this type about this subject.
    pub fn get(&self, r#type: &str, subject: &str) -> Option<&Condition> {
        self.place(r#type, subject).ok().map(|i| &self.0[i])
    }

    /// All of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Condition> {
        self.0.iter()
    }

    /// It stands so from now on.
    pub(super) fn set(&mut self, condition: Condition) {
        match self.place(&condition.r#type, &condition.subject) {
            Ok(i) => self.0[i] = condition,
            Err(i) => {
                self.0.reserve_exact(1);
                self.0.insert(i, condition);
            }
        }
    }

    fn place(&self, r#type: &str, subject: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|c| (c.r#type.as_str(), c.subject.as_str()).cmp(&(r#type, subject)))
    }
}
