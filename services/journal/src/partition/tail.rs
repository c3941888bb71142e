//! Reading the journal: every record goes through the ledger, whoever wrote it.

use super::{Desk, End, timers::Timers};
use crate::ask::{Question, States};
use crate::{Ledger, ledger::Applied};
use fleet_fence::NextN;
use fleet_log::{Item, ReadError, ReadFault, Reader};
use fleet_schemas::{StreamId, topics as names};
use std::time::Instant;
use tokio::sync::mpsc;

/// The ledger, the reader that feeds it, and the timers of its streams.
pub(crate) struct Tail {
    pub(crate) ledger: Ledger,
    pub(crate) timers: Timers,
    reader: Box<dyn Reader>,
    /// When the log last said anything: a record, its end, or why it cannot be read.
    pub(crate) heard: Instant,
    asked: Option<mpsc::Receiver<Question>>,
    /// Asked for states of further on than was read.
    early: Vec<States>,
}

impl Tail {
    pub(crate) fn new(desk: &Desk, ledger: Ledger) -> Self {
        let reader = reader(desk, &ledger);
        Self {
            ledger,
            timers: Timers::default(),
            reader,
            heard: Instant::now(),
            asked: desk.outcomes.asked(desk.partition),
            early: Vec::new(),
        }
    }

    /// Reads and applies one record, if there is one; or answers a question. Cancel safe: nothing is awaited
    /// between taking a record and applying it.
    pub(crate) async fn step(&mut self, desk: &Desk) -> Result<(), End> {
        let read = tokio::select! {
            biased;
            read = self.reader.next() => read,
            question = asked(&mut self.asked) => {
                self.answer(desk, question);
                return Ok(());
            }
        };
        self.heard = Instant::now();
        match read {
            Ok(Item::End { .. }) => Ok(()),
            Ok(Item::Record(stored)) => {
                let fenced = self.ledger.fenced;
                let applied = self.ledger.apply(&stored).map_err(End::Stopped)?;
                if self.ledger.fenced > fenced {
                    metrics::counter!("fm_fenced_records_total").increment(1);
                }
                if let Applied::Decision(decision) = applied {
                    self.applied(desk, &decision, stored.offset);
                }
                self.tell_states();
                Ok(())
            }
            Err(ReadError { fault: ReadFault::Io(why), .. }) => {
                // A new reader goes on where this one broke; whoever awaits a record has a deadline of its own.
                tracing::warn!(partition = desk.partition, why, "reading the journal is tried again");
                // First of all: whoever drops this half-way has a reader that goes on.
                self.reader = reader(desk, &self.ledger);
                tokio::time::sleep(std::time::Duration::from_millis(200)).await;
                Ok(())
            }
            Err(e) => Err(End::Stopped(format!("{e}; the journal lost records, or another one stands here: restore it from a backup"))),
        }
    }

    fn answer(&mut self, desk: &Desk, question: Question) {
        match question {
            Question::Command(command, stream) => {
                if let Some(answer) = self.ledger.streams.get(&stream).and_then(|s| s.memory.get(&command)) {
                    desk.outcomes.tell(command, answer, true);
                }
            }
            Question::States(asked) => {
                self.early.push(asked);
                self.tell_states();
            }
        }
    }

    /// Tells those whose offset has been read by now; who left is forgotten.
    fn tell_states(&mut self) {
        let next = self.ledger.position.next;
        for States { streams, tell, .. } in self.early.extract_if(.., |asked| asked.read <= next || asked.tell.is_closed()) {
            let state = |s: &StreamId| self.ledger.streams.get(s).map(|s| (s.entity.clone(), s.head));
            // A closed one has nobody to tell.
            let _ = tell.send(streams.iter().filter_map(state).collect());
        }
    }

    fn applied(&mut self, desk: &Desk, decision: &fleet_schemas::Decision, offset: u64) {
        let Some(stream) = self.ledger.streams.get(&decision.stream) else { return };
        self.timers.set(&decision.stream, &stream.entity);
        if let Some(command) = decision.cause.command {
            match stream.memory.get(&command) {
                Some(answer) if answer.decision == decision.id => desk.outcomes.tell(command, answer, false),
                _ => desk.outcomes.tell_decision(decision, (desk.partition, offset)),
            }
        }
    }

    /// The n that this term's next record must have, or why we lead no more.
    pub(crate) fn standing(&self, desk: &Desk, term: u64) -> Result<u64, End> {
        let position = &self.ledger.position;
        match position.n {
            NextN::Is(n) if position.term == term && position.claimant == Some(desk.boot) => Ok(n),
            NextN::Over if position.term == term => Err(End::SteppedDown("a record of our term is missing".into())),
            NextN::Is(_) | NextN::Over => Err(End::SteppedDown(format!("term {} was claimed above our {term}", position.term))),
        }
    }
}

async fn asked(asked: &mut Option<mpsc::Receiver<Question>>) -> Question {
    match asked {
        Some(asked) => match asked.recv().await {
            Some(asked) => asked,
            None => std::future::pending().await,
        },
        None => std::future::pending().await,
    }
}

fn reader(desk: &Desk, ledger: &Ledger) -> Box<dyn Reader> {
    desk.config.log.read(&[(desk.config.topics.at(names::JOURNAL, desk.partition), ledger.position.next)])
}
