//! What only one device may have: names, how they are claimed, and what their streams tell. And things that no device claims.

use crate::{DeviceId, ExclusiveKind, SourceSeq, StreamId};

/// Characters that the value of an exclusive stream, and a native id, may have at most.
const LONGEST: usize = 200;

record! {
    /// Something that only one device may have.
    pub struct ExclusiveName {
        /// serial or slurm-name.
        kind: ExclusiveKind,
        /// The serial, normalised; or `site/NodeName`.
        value: String,
    }
}

impl ExclusiveName {
    /// The name that a device's serial is; none where it names no machine.
    pub fn serial(serial: &str) -> Option<Self> {
        let value = real_serial(serial).filter(|v| usable(v))?;
        Some(Self { kind: ExclusiveKind::Serial, value })
    }

    /// The name that a SLURM NodeName at a site is.
    pub fn slurm(site: &crate::SiteId, node: &str) -> Option<Self> {
        let value = format!("{site}/{}", node.trim());
        (!node.trim().is_empty() && usable(&value)).then_some(Self { kind: ExclusiveKind::SlurmName, value })
    }

    /// The stream that says whose it is.
    pub fn stream(&self) -> StreamId {
        StreamId::Exclusive { kind: self.kind, value: self.value.as_str().into() }
    }
}

impl std::fmt::Display for ExclusiveName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.kind, self.value)
    }
}

/// A text that may stand in a stream's key.
pub(crate) fn usable(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= LONGEST && !text.chars().any(char::is_control)
}

/// What vendors and people put where no serial is. Compared without case and white space around.
const PLACEHOLDERS: [&str; 22] = [
    "0123456789",
    "1234567890",
    "123456789",
    "12345678",
    "chassis serial number",
    "default string",
    "empty",
    "invalid",
    "n/a",
    "na",
    "none",
    "not applicable",
    "not available",
    "not specified",
    "null",
    "serial",
    "serial number",
    "system serial number",
    "tbd",
    "to be filled by o.e.m.",
    "to be filled by oem",
    "unknown",
];

/// A serial as serials are compared: without case and white space around. None where it names no machine: a placeholder, or one character
/// again and again (0, ....., xxxx).
pub fn real_serial(serial: &str) -> Option<String> {
    let serial = serial.trim().to_lowercase();
    let mut characters = serial.chars();
    let first = characters.next();
    let alike = characters.all(|c| Some(c) == first);
    (!alike && !PLACEHOLDERS.contains(&serial.as_str())).then_some(serial)
}

record! {
    /// A device has this name now: it becomes the holder, or waits behind the others. A repeat changes nothing.
    pub struct Take in "command" {
        /// The device.
        device: DeviceId,
    }
}
record! {
    /// A device has this name no more. One that neither holds nor waits changes nothing.
    pub struct GiveBack in "command" {
        /// The device.
        device: DeviceId,
    }
}
record! {
    /// To a device: the name is its own, and nobody else claims it.
    pub struct ExclusiveGranted in "command" {
        /// The name.
        name: ExclusiveName,
    }
}
record! {
    /// To a device: another one claims the name as well.
    pub struct ExclusiveContested in "command" {
        /// The name.
        name: ExclusiveName,
        /// The other device.
        other: DeviceId,
        /// Whether the device that is told this holds the name; else the other one does.
        held: bool,
    }
}

payloads! {
    /// What the decision of one stream tells another. It travels with the commands, and cannot be refused.
    pub enum Notice { ExclusiveGranted, ExclusiveContested }
}

record! {
    /// The name is this device's, and nobody waits for it.
    pub struct Granted in "event" {
        /// The device.
        to: DeviceId,
    }
}
record! {
    /// A device waits for a name that another one holds.
    pub struct Contested in "event" {
        /// Who waits.
        by: DeviceId,
        /// Who holds it.
        holder: DeviceId,
        /// Place among those who wait, from 1.
        place: u64,
    }
}
record! {
    /// A device has the name no more, or waits for it no more.
    pub struct GivenBack in "event" {
        /// The device.
        device: DeviceId,
    }
}

payloads! {
    /// What can happen to a name that only one device may have.
    pub enum ExclusiveEvent { Granted, Contested, GivenBack }
}

record! {
    /// The names that a device claims are others now.
    pub struct ClaimsChanged in "event" {
        /// Names that it has now, and had not.
        take: Vec<ExclusiveName>,
        /// Names that it has no more.
        give_back: Vec<ExclusiveName>,
    }
}
record! {
    /// Whose a name is that this device claims.
    pub struct GrantChanged in "event" {
        /// The name.
        name: ExclusiveName,
        /// Whether this device holds it.
        held: bool,
        /// Another device that claims it as well.
        other: Option<DeviceId>,
    }
}

record! {
    /// A source shows a thing that no device claims, or shows or leaves it unclaimed no more.
    pub struct UnclaimedSeen in "observation" {
        /// Whether it is there, and unclaimed.
        present: bool,
        /// What it looks like, for people; the same from look to look.
        detail: String,
    }
}
record! {
    /// A thing that no device claims came up, or looks otherwise than before.
    pub struct UnclaimedOpened in "event" {
        /// What it looks like.
        detail: String,
        /// Order of the observation.
        source_seq: SourceSeq,
    }
}
record! {
    /// It is claimed now, or gone.
    pub struct UnclaimedClosed in "event" {
        /// Order of the observation.
        source_seq: SourceSeq,
    }
}

payloads! {
    /// What can happen to a thing that no device claims.
    pub enum UnclaimedEvent { UnclaimedOpened, UnclaimedClosed }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_claim_nothing_and_case_does_not_matter() {
        for serial in ["", " ", "0", "None", "N/A", "To be filled by O.E.M.", "0123456789", "....", "XXXXXX", " none ", "-", "a\u{0}b"] {
            assert_eq!(ExclusiveName::serial(serial), None, "{serial}");
        }
        assert_eq!(ExclusiveName::serial(" SN7a ").map(|n| n.to_string()), Some("serial/sn7a".into()));
    }

    #[test]
    fn a_stream_is_read_back_whatever_its_value_holds() {
        for name in [ExclusiveName::serial("A/b c").unwrap(), ExclusiveName::slurm(&"lhr1".parse().unwrap(), "gpu01").unwrap()] {
            let stream = name.stream();
            assert_eq!(stream.to_string(), format!("exclusive/{name}"));
            assert_eq!(stream.to_string().parse::<StreamId>().unwrap(), stream);
            assert!((1..5).contains(&stream.partition(5)), "not among the reference streams");
        }
        for text in ["exclusive/serial/", "exclusive/colour/x", "exclusive/serial", "unclaimed/lhr1/slurm/", "unclaimed/lhr1/x/n"] {
            assert!(text.parse::<StreamId>().is_err(), "{text}");
        }
        let thing: StreamId = "unclaimed/lhr1/slurm/gpu/01".parse().unwrap();
        assert_eq!(thing.to_string(), "unclaimed/lhr1/slurm/gpu/01");
    }
}
