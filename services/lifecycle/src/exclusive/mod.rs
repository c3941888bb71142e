//! A name that only one device may have: a serial, a SLURM NodeName at a site. [`Exclusive`] is its state: who holds it, who waits. The
//! first who takes it holds it; the others wait in the order in which they came, and the next becomes the holder when it is given back.

mod decide;
mod react;

pub use decide::{TOLD, decide};
pub use react::react;

use fleet_schemas::{DeviceId, ExclusiveEvent, ExclusiveKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The state of a name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exclusive {
    /// What kind of name.
    pub kind: ExclusiveKind,
    /// The name.
    pub value: Arc<str>,
    /// Whose it is.
    pub holder: Option<DeviceId>,
    /// Who claims it as well, longest first.
    pub waiting: Vec<DeviceId>,
}

impl Exclusive {
    /// A name that nobody has claimed.
    pub fn new(kind: ExclusiveKind, value: Arc<str>) -> Self {
        Self { kind, value, holder: None, waiting: Vec::new() }
    }

    /// Whether this device holds it, or waits for it.
    fn claims(&self, device: DeviceId) -> bool {
        self.holder == Some(device) || self.waiting.contains(&device)
    }
}

/// Folds an event in.
pub fn evolve(name: &mut Exclusive, event: &ExclusiveEvent) {
    match event {
        ExclusiveEvent::Granted(e) => {
            name.holder = Some(e.to);
            name.waiting.retain(|w| *w != e.to);
        }
        ExclusiveEvent::Contested(e) => {
            if name.holder != Some(e.by) && !name.waiting.contains(&e.by) {
                name.waiting.push(e.by);
            }
        }
        ExclusiveEvent::GivenBack(e) => {
            name.holder = name.holder.filter(|h| *h != e.device);
            name.waiting.retain(|w| *w != e.device);
        }
    }
}
