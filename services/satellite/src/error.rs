//! What went wrong at an outside system, in a form that can be shown: what was asked, what came back, no secrets.

use fleet_schemas::LookFault;

/// Longest text kept of what came back.
const LONGEST: usize = 300;

/// What an error says about asking again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// It may work by itself the next time: time-outs, 5xx, a controller that is down.
    Transient,
    /// It will not work before somebody changes something: a wrong key, a missing right, an API that is too old.
    Permanent,
    /// It may or may not have been done. Only a write can end like this; a look at the system decides.
    Ambiguous,
    /// Something came back that is not what the API promises. Reported, never half used.
    Malformed,
}

/// A failed call, or a failed look. Shown as `<asked>: <came>`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{asked}: {came}")]
pub struct ClientError {
    /// Whether asking again can help.
    pub class: ErrorClass,
    /// Method and path, as `GET /slurm/v0.0.42/nodes`.
    pub asked: String,
    /// Status and text that came back, one line of at most 300 characters, secrets removed.
    pub came: String,
    /// The same in the words of the freshness records (knowledge/slurm.md section 8, row 0).
    pub fault: LookFault,
}

impl ClientError {
    /// An error of `class`; `came` is cut to one line of 300 characters.
    pub fn new(class: ErrorClass, asked: impl Into<String>, came: impl AsRef<str>, fault: LookFault) -> Self {
        Self { class, asked: asked.into(), came: short(came.as_ref()), fault }
    }

    /// An answer that is not what the API promises.
    pub(crate) fn malformed(asked: &str, came: impl AsRef<str>) -> Self {
        Self::new(ErrorClass::Malformed, asked, came, LookFault::NoData)
    }
}

/// One line of at most 300 characters.
pub(crate) fn short(text: &str) -> String {
    let words: Vec<&str> = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let line = words.join(" ");
    match line.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", &line[..line[..at].char_indices().next_back().map_or(0, |(i, _)| i)]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_one_short_line() {
        assert_eq!(short("502\n\tBad  gateway\0x"), "502 Bad gateway x");
        let long = short(&"ü".repeat(5000));
        assert_eq!((long.chars().count(), long.ends_with('…')), (300, true));
    }
}
