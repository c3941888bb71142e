//! Why a request is refused. The code is part of the API.

use std::borrow::Cow;

/// A refusal, in words that help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Stable code, kebab-case.
    pub code: &'static str,
    /// The guard that refused.
    pub guard: &'static str,
    /// What it expected.
    pub expected: Cow<'static, str>,
    /// What it saw.
    pub seen: Cow<'static, str>,
    /// What would help.
    pub helps: Cow<'static, str>,
}

impl Refusal {
    /// A refusal by `guard`.
    pub fn new(
        code: &'static str,
        guard: &'static str,
        expected: impl Into<Cow<'static, str>>,
        seen: impl Into<Cow<'static, str>>,
        helps: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { code, guard, expected: expected.into(), seen: seen.into(), helps: helps.into() }
    }

    /// Something that this build does not have yet.
    pub fn not_available(what: &str) -> Self {
        Self::new("not-available", "built", "something this version can do", what.to_owned(), "a later version; see the release notes")
    }
}
