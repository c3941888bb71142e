//! A device with holds, as cqrs-es wants it written: the same two commands, with the same refusals, as `commands` of the product's bench.

use cqrs_es::{Aggregate, DomainEvent, event_sink::EventSink};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state; a hold by its name.
#[derive(Default, Serialize, Deserialize)]
pub struct Device {
    holds: BTreeMap<String, Hold>,
}

/// Which hold, why, and who asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hold {
    pub name: String,
    pub reason: String,
    pub actor: String,
}

pub enum Command {
    PlaceHold(Hold),
    LiftHold(Hold),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Event {
    HoldPlaced(Hold),
    HoldLifted(Hold),
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    #[error("a hold named `{0}` is there already")]
    AlreadyHeld(String),
    #[error("there is no hold named `{0}`")]
    NoSuchHold(String),
}

impl DomainEvent for Event {
    fn event_type(&self) -> String {
        match self {
            Self::HoldPlaced(_) => "HoldPlaced".into(),
            Self::HoldLifted(_) => "HoldLifted".into(),
        }
    }
    fn event_version(&self) -> String {
        "1.0".into()
    }
}

impl Aggregate for Device {
    const TYPE: &'static str = "device";
    type Command = Command;
    type Event = Event;
    type Error = Refused;
    type Services = ();

    async fn handle(&mut self, command: Command, (): &(), sink: &EventSink<Self>) -> Result<(), Refused> {
        let event = match command {
            Command::PlaceHold(hold) if self.holds.contains_key(&hold.name) => return Err(Refused::AlreadyHeld(hold.name)),
            Command::LiftHold(hold) if !self.holds.contains_key(&hold.name) => return Err(Refused::NoSuchHold(hold.name)),
            Command::PlaceHold(hold) => Event::HoldPlaced(hold),
            Command::LiftHold(hold) => Event::HoldLifted(hold),
        };
        sink.write(event, self).await;
        Ok(())
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::HoldPlaced(hold) => drop(self.holds.insert(hold.name.clone(), hold)),
            Event::HoldLifted(hold) => drop(self.holds.remove(&hold.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqrs_es::test::TestFramework;

    fn hold() -> Hold {
        Hold { name: "b".into(), reason: "bench".into(), actor: "bench".into() }
    }

    fn check(given: Vec<Event>, when: Command, then: Result<Event, Refused>) {
        let seen = TestFramework::<Device>::with(()).given(given).when(when);
        match then {
            Ok(event) => seen.then_expect_events(vec![event]),
            Err(refused) => seen.then_expect_error(refused),
        }
    }

    #[test]
    fn a_hold_is_placed_once_and_lifted_once() {
        let (placed, lifted) = (Event::HoldPlaced(hold()), Event::HoldLifted(hold()));
        check(vec![], Command::PlaceHold(hold()), Ok(placed.clone()));
        check(vec![placed.clone()], Command::PlaceHold(hold()), Err(Refused::AlreadyHeld("b".into())));
        check(vec![placed.clone()], Command::LiftHold(hold()), Ok(lifted.clone()));
        check(vec![placed, lifted], Command::LiftHold(hold()), Err(Refused::NoSuchHold("b".into())));
        check(vec![], Command::LiftHold(hold()), Err(Refused::NoSuchHold("b".into())));
    }
}
