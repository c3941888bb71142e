//! Exit codes, part of the contract: 0 ok, 1 error, 2 usage, 3 not found, 4 refused by the lifecycle, 5 conflict, 6 auth,
//! 7 still pending, 8 unreachable, 9 integrity.

/// Wrong usage.
pub const USAGE: u8 = 2;
/// Not found.
pub const NOT_FOUND: u8 = 3;
/// Still pending.
pub const PENDING: u8 = 7;
/// What should be equal is not.
pub const INTEGRITY: u8 = 9;

/// Why the program ends otherwise than well.
#[derive(Debug)]
pub struct Failure {
    /// Exit code.
    pub code: u8,
    /// What a person is told.
    pub text: String,
    /// When the hub said to ask again.
    pub later: Option<std::time::Duration>,
}

impl Failure {
    /// With a code.
    pub fn new(code: u8, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), later: None }
    }
    /// Wrong usage.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::new(USAGE, text)
    }
    /// Anything else.
    pub fn error(text: impl Into<String>) -> Self {
        Self::new(1, text)
    }
    /// The hub cannot be reached.
    pub fn unreachable(text: impl Into<String>) -> Self {
        Self::new(8, text)
    }
    /// Not let in.
    pub fn auth(text: impl Into<String>) -> Self {
        Self::new(6, text)
    }
}
