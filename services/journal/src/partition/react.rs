//! A reaction becomes a decision: what another stream asks is judged, what it tells is heeded. It never expires; one that was handled is
//! known by its place in the order of the stream that it reacts to, and passed over.

use super::batch::Events;
use super::judge::{Bench, Judged, cause, judged, planned, rejected};
use fleet_lifecycle::Request;
use fleet_log::Stored;
use fleet_schemas::{Ask, Cause, CauseKind, Command, Notice, Outcome, ReactionTo};

impl Bench<'_> {
    /// Judges a reaction. Each leaves a decision, also one that changes nothing: the decision says that it was handled.
    pub(super) fn reaction(&self, command: &Command, to: &ReactionTo, input: &Stored) -> Judged {
        let handled = self.batch.reacted(self.ledger, &command.stream, &to.stream);
        if handled.is_some_and(|highest| highest >= (to.version, to.index)) {
            metrics::counter!("fm_reactions_total", "result" => "repeated").increment(1);
            return Judged::Nothing;
        }
        let cause = Cause {
            command: Some(command.id),
            decision: Some(to.decision),
            index: Some(to.index),
            stream: Some(to.stream.clone()),
            version: Some(to.version),
            ..cause(CauseKind::Reaction, Some(input.offset))
        };
        metrics::counter!("fm_reactions_total", "result" => "handled").increment(1);
        judged(command, cause, input, || self.react(command))
    }

    fn react(&self, command: &Command) -> Result<(Outcome, Events), String> {
        let (state, head) = self.batch.stream(self.ledger, &command.stream);
        let ctx = self.context(&command.stream, head.version, &command.actor, &command.reason);
        if Notice::NAMES.contains(&command.ask.r#type.as_str()) {
            let notice = Notice::decode(&command.ask).map_err(|e| e.to_string())?;
            let heard = (self.rules.heed)(&state, &notice, &ctx);
            return Ok(match heard.note {
                Some(note) => (Outcome::noted(note), Events::default()),
                None => (Outcome::accepted(), planned(self.rules, state, heard.events, &ctx)),
            });
        }
        let ask = Ask::decode(&command.ask).map_err(|e| e.to_string())?;
        Ok(match (self.rules.decide)(&state, &Request { ask, expected_version: None }, &ctx) {
            Ok(events) => (Outcome::accepted(), planned(self.rules, state, events, &ctx)),
            Err(refusal) => (rejected(&refusal), Events::default()),
        })
    }
}
