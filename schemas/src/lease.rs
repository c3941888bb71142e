//! The record by which hubs tell each other that they live, and what they lead. Nothing is safe because of it: the fence is.

use crate::{BootId, Inputs, Timestamp};

record! {
    /// A hub lives.
    pub struct Lease in "lease" {
        /// Its name, the same after a restart.
        hub: String,
        /// This start of it.
        boot: BootId,
        /// Counts its beats.
        beat: u64,
        /// What it leads.
        leads: Vec<Led>,
        /// What it would not lead, whoever prefers it: partitions that it has stopped, or all of them.
        declines: Vec<u32>,
        /// It goes: what it led is free.
        bye: bool,
        /// When, by its clock.
        at: Timestamp,
    }
}
record! {
    /// A partition that a hub leads.
    pub struct Led {
        /// The partition.
        partition: u32,
        /// How far it has decided the inputs.
        decided: Inputs,
    }
}
