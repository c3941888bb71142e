//! What can be asked of a name that only one device may have. Nothing of it is ever refused: a device has the name in NetBox already.

use super::{Exclusive, evolve};
use crate::{Refusal, wrong_stream::*};
use fleet_schemas::{Ask, Contested, DeviceId, ExclusiveEvent, GivenBack, Granted};

/// Waiting devices that are told of a new holder: one event each, some 30 KiB in one decision. More than this claim a name only where
/// the name means nothing (a serial that a vendor put into every machine); who waits behind them learns of it when its turn comes nearer.
pub const TOLD: usize = 256;

/// Judges a request. Repeats, and a giving back by who never took it, change nothing.
pub fn decide(name: &Exclusive, ask: &Ask) -> Result<Vec<ExclusiveEvent>, Refusal> {
    match ask {
        Ask::Take(a) => Ok(take(name, a.device)),
        Ask::GiveBack(a) => Ok(give_back(name, a.device)),
        for_device!() | for_site!() | for_config!() => Err(wrong_stream(ask, "a name")),
    }
}

fn take(name: &Exclusive, device: DeviceId) -> Vec<ExclusiveEvent> {
    match name.holder {
        _ if name.claims(device) => vec![],
        None => vec![Granted { to: device }.into()],
        Some(holder) => vec![Contested { by: device, holder, place: name.waiting.len() as u64 + 1 }.into()],
    }
}

/// Whoever it concerns is told anew how things stand.
fn give_back(name: &Exclusive, device: DeviceId) -> Vec<ExclusiveEvent> {
    if !name.claims(device) {
        return vec![];
    }
    let first = name.waiting.first().copied();
    let mut events = vec![GivenBack { device }.into()];
    let mut after = name.clone();
    evolve(&mut after, &events[0]);
    let next = after.holder.or(after.waiting.first().copied());
    let Some(holder) = next else { return events };
    let changed = after.holder.is_none();
    if changed {
        let granted = Granted { to: holder }.into();
        evolve(&mut after, &granted);
        events.push(granted);
    }
    let contested = |(i, by): (usize, &DeviceId)| Contested { by: *by, holder, place: i as u64 + 1 }.into();
    match after.waiting.as_slice() {
        // Undisputed now: the holder is told so, where the event above does not say it.
        [] if !changed => events.push(Granted { to: holder }.into()),
        [] => {}
        waiting if changed => events.extend(waiting.iter().take(TOLD).enumerate().map(contested)),
        // The holder stays; it is told of another than the one that went only if that one was first.
        waiting if first == Some(device) => events.extend(waiting.iter().take(1).enumerate().map(contested)),
        _ => {}
    }
    events
}
