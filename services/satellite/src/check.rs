//! What `satellite doctor` finds: one line a question, with its fix where the answer is wrong.

use fleet_schemas::{Micros, SECOND};

/// One question and its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was asked.
    pub what: &'static str,
    /// What was found.
    pub found: String,
    /// What would help; `None` = it is as it should be.
    pub fix: Option<String>,
}

impl Check {
    /// As it should be.
    pub fn fine(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, found: found.into(), fix: None }
    }

    /// Not as it should be.
    pub fn wrong(what: &'static str, found: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { what, found: found.into(), fix: Some(fix.into()) }
    }
}

/// A span of time for people.
pub(crate) fn span(micros: Micros) -> String {
    let seconds = micros / SECOND;
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7200.. => format!("{} hours", seconds / 3600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} s"),
    }
}
