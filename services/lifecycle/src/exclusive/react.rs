//! What becomes of a name is told to the devices that claim it. Every notice says how things stand, not what changed: the last one counts.

use crate::Reaction;
use fleet_schemas::{DeviceId, ExclusiveContested, ExclusiveEvent, ExclusiveGranted, ExclusiveKind, ExclusiveName, Notice, StreamId};

/// What an event tells other streams. The holder hears of the first who waits alone, so that it does not hear of each of many.
pub fn react(kind: ExclusiveKind, value: &str, event: &ExclusiveEvent) -> Vec<Reaction> {
    let name = || ExclusiveName { kind, value: value.to_owned() };
    let tell = |device: DeviceId, notice: Notice| Reaction::Tell(StreamId::Device(device), notice);
    let contested = |device: DeviceId, other: DeviceId, held: bool| tell(device, ExclusiveContested { name: name(), other, held }.into());
    match event {
        ExclusiveEvent::Granted(e) => vec![tell(e.to, ExclusiveGranted { name: name() }.into())],
        ExclusiveEvent::Contested(e) if e.place == 1 => vec![contested(e.by, e.holder, false), contested(e.holder, e.by, true)],
        ExclusiveEvent::Contested(e) => vec![contested(e.by, e.holder, false)],
        ExclusiveEvent::GivenBack(_) => vec![],
    }
}
