//! The downstream example, tests/downstream/consumer.py, as a process: what it built is what the journal gives.

#![allow(clippy::unwrap_used, reason = "part of tests, which say what failed by panicking")]

use crate::{Fleet, repository, until};
use fleet_hub::published;
use fleet_journal::{Applied, Ledger, Rules};
use fleet_log::Item;
use fleet_schemas::{Event, StreamId, topics as names};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::{Child, Command, Stdio};

/// A consumer of a fleet's public topics.
pub struct Consumer<'a> {
    /// Whose.
    pub fleet: &'a Fleet,
    /// Its file.
    pub table: &'a str,
}

fn python(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var("FM_PYTHON").unwrap_or_else(|_| "python3".into()));
    command.arg(repository("tests/downstream/consumer.py")).args(args).stdin(Stdio::null());
    command
}

impl Consumer<'_> {
    fn start(&self, idle: &[&str]) -> Child {
        let schemas = repository("schemas/avro/published");
        let k = &self.fleet.kafka;
        let args = ["--brokers", &k.bootstrap, "--prefix", &k.prefix, "--schemas", schemas.to_str().unwrap(), "--table", self.table];
        python(&args).args(idle).spawn().unwrap()
    }

    /// Reads so many records further, and is killed.
    pub async fn killed_after(&self, records: i64) {
        let (before, mut child) = (self.read().unwrap_or(0), self.start(&[]));
        until("the consumer has read further", || async {
            let read = self.read().map_err(|e| e.to_string())?;
            if read >= before + records { Ok(()) } else { Err(format!("{read} records")) }
        })
        .await;
        assert!(child.try_wait().unwrap().is_none(), "the consumer ended by itself");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Records that are in its tables.
    fn read(&self) -> rusqlite::Result<i64> {
        let table = rusqlite::Connection::open_with_flags(self.table, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        table.query_row("SELECT coalesce(sum(count), 0) FROM tally", [], |r| r.get(0))
    }

    /// Reads until nothing comes any more; gives its tables.
    pub fn tables(&self) -> Value {
        assert!(self.start(&["--idle", "5"]).wait().unwrap().success(), "the consumer found a fault");
        let dumped = python(&["--table", self.table, "--dump"]).output().unwrap();
        serde_json::from_slice(&dumped.stdout).unwrap()
    }

    /// It counted, for each topic and subject, what the journal gives; and its conditions are those of the states.
    pub async fn is_complete(&self, mine: &Value) {
        let (log, topics) = self.fleet.log_of_hubs().await.unwrap();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for partition in 1..topics.partitions {
            let mut reader = log.read(&[(topics.at(names::JOURNAL, partition), 0)]);
            let mut ledger = Ledger::new(partition, Rules::default());
            while let Item::Record(stored) = reader.next().await.unwrap() {
                let Applied::Decision(decision) = ledger.apply(&stored).unwrap() else { continue };
                for payload in &decision.events {
                    let event = Event::decode(&decision.stream, payload).unwrap();
                    if let Some((topic, _)) = published(&decision.stream, &event) {
                        *counts.entry(format!("{} {}", names::name(topic), decision.stream)).or_default() += 1;
                    }
                }
            }
            agrees(&ledger, mine);
        }
        assert_eq!(mine["seqs"], json!(counts), "what was counted, and what the journal gives");
    }
}

fn agrees(ledger: &Ledger, mine: &Value) {
    for (id, stream) in &ledger.streams {
        let (StreamId::Device(device), Some(state)) = (id, stream.entity.device()) else { continue };
        for c in state.conditions.iter() {
            let told = &mine["conditions"][format!("{device} {} {}", c.r#type, c.subject)];
            assert_eq!(*told, json!([c.status.as_str(), c.reason]), "{device} {}", c.r#type);
        }
        if state.inventory.is_some() {
            assert_eq!(mine["devices"][device.to_string()]["version"], json!(stream.head.version), "{device}: version of its state");
        }
    }
}
