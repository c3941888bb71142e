//! A look on its way into the outbox: what is new of it, with its place in the source's order.

use super::{Finished, OutboxError, Run, let_go};
use crate::{ClientError, Complete, Seen};
use fleet_schemas::{Fact, LookFailed, Observation, ObservationId, SiteId, Source, StreamId, SweepCompleted, Timestamp, decode, encode};
use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use uuid::Uuid;

/// See the module.
pub(super) struct Put<'a> {
    pub(super) source: Source,
    pub(super) now: Timestamp,
    pub(super) resync: i64,
    pub(super) keep: i64,
    pub(super) runs: &'a mut BTreeMap<(Source, SiteId), Run>,
    pub(super) db: Transaction<'a>,
}

impl Put<'_> {
    pub(super) fn all(mut self, look: Finished<'_>) -> Result<u64, OutboxError> {
        let Finished { sites, interval, sweep, .. } = look;
        let interval_seconds = i64::try_from(interval.as_secs_f64().ceil() as u64).unwrap_or(i64::MAX);
        let mut queued = 0;
        let_go(&self.db, self.now, self.keep)?;
        let mut unsent = BTreeMap::new();
        for site in sites {
            let lowest = "SELECT coalesce(min(seq), 9223372036854775807) FROM queue WHERE source = ? AND site = ?";
            let lowest: i64 = self.db.query_row(lowest, params![self.source.as_str(), site.as_str()], |row| row.get(0))?;
            unsent.insert(site.clone(), lowest);
        }
        let mut observations = sweep.observations;
        // A batch holds one site; within a site the agent's order stays.
        observations.sort_by(|a, b| a.site.cmp(&b.site));
        for seen in observations {
            let unsent = unsent.get(&seen.site).copied().unwrap_or(i64::MAX);
            queued += u64::from(self.changed_or_due(&seen, unsent)?);
        }
        for Complete { site, count } in sweep.complete {
            queued += self.about_site(&site, SweepCompleted { source: self.source, interval_seconds, count }.into())?;
        }
        if let Some(ClientError { asked, came, fault, .. }) = sweep.failed {
            for site in sites {
                let message = format!("{asked}: {came}");
                queued += self.about_site(site, LookFailed { source: self.source, interval_seconds, fault, message }.into())?;
            }
        }
        for (key, value) in sweep.memory.0 {
            let source = self.source.as_str();
            match value {
                Some(bytes) => {
                    self.db.execute("INSERT OR REPLACE INTO memory (source, key, value) VALUES (?, ?, ?)", params![source, key, bytes])
                }
                None => self.db.execute("DELETE FROM memory WHERE source = ? AND key = ?", params![source, key]),
            }?;
        }
        self.db.commit()?;
        Ok(queued)
    }

    /// What an earlier run owed is said by this one, before its first look.
    pub(super) fn owed(&mut self, site: &SiteId) -> Result<(), OutboxError> {
        let of = params![self.source.as_str(), site.as_str()];
        let rows: Vec<Vec<u8>> = {
            let mut query = self.db.prepare("SELECT bytes FROM owed WHERE source = ? AND site = ? ORDER BY rowid")?;
            query.query_map(of, |r| r.get(0))?.collect::<Result<_, _>>()?
        };
        for bytes in rows {
            let old: Observation = decode(&bytes)?;
            let Ok(fact) = Fact::decode(&old.fact) else { continue };
            self.now = old.observed_at;
            self.queue(&Seen { stream: old.stream, site: site.clone(), native_id: old.native_id, fact, observed_at: old.observed_at })?;
        }
        self.db.execute("DELETE FROM owed WHERE source = ? AND site = ?", of)?;
        Ok(())
    }

    /// Queues what says something new of its stream, or what has not been said for the resync span.
    fn changed_or_due(&mut self, seen: &Seen, unsent: i64) -> Result<bool, OutboxError> {
        let payload = seen.fact.encode();
        let mut digest = Sha256::new();
        for part in [seen.site.as_str().as_bytes(), seen.native_id.as_bytes(), payload.r#type.as_bytes(), &payload.schema.0, &payload.bytes]
        {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let (digest, source, stream) = (digest.finalize().to_vec(), self.source.as_str(), seen.stream.to_string());
        let last = "SELECT digest, at, seq FROM sent WHERE source = ? AND stream = ?";
        let last: Option<(Vec<u8>, i64, i64)> = {
            let mut query = self.db.prepare_cached(last)?;
            query.query_row(params![source, stream], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?
        };
        if let Some((said, at, seq)) = last {
            // A clock that was put back must not silence us: an age below zero is due as well.
            let due = seq < unsent && !(0..self.resync).contains(&self.now.since(Timestamp(at)));
            if said == digest && !due {
                return Ok(false);
            }
        }
        let seq = self.queue(seen)?;
        let keep = "INSERT OR REPLACE INTO sent (source, stream, site, digest, at, seq) VALUES (?, ?, ?, ?, ?, ?)";
        self.db.prepare_cached(keep)?.execute(params![source, stream, seen.site.as_str(), digest, self.now.0, seq])?;
        Ok(true)
    }

    fn about_site(&mut self, site: &SiteId, fact: Fact) -> Result<u64, OutboxError> {
        let (stream, native_id) = (StreamId::Site(site.clone()), site.to_string());
        self.queue(&Seen { stream, site: site.clone(), native_id, fact, observed_at: self.now })?;
        Ok(1)
    }

    fn queue(&mut self, seen: &Seen) -> Result<i64, OutboxError> {
        let run = self.runs.get_mut(&(self.source, seen.site.clone()));
        let run = run.ok_or_else(|| OutboxError::NotClaimed(seen.site.clone(), self.source))?;
        run.seq.counter += 1;
        // Counters of two sites, or sources, of one boot are the same numbers: the name holds all four.
        let name = format!("{}/{}/{}/{}", seen.site, self.source, run.seq.epoch, run.seq.counter);
        let observation = Observation {
            id: ObservationId(Uuid::new_v5(&run.boot.0, name.as_bytes())),
            stream: seen.stream.clone(),
            fact: seen.fact.encode(),
            site: seen.site.clone(),
            source: self.source,
            native_id: seen.native_id.clone(),
            source_seq: run.seq.clone(),
            observed_at: seen.observed_at,
            // Set when it is sent, and by the gateway.
            sent_at: Timestamp::default(),
            received_at: Timestamp::default(),
            client: String::new(),
            trace_id: String::new(),
            reach: Vec::new(),
        };
        let insert = "INSERT INTO queue (source, site, bytes, at, epoch, once) VALUES (?, ?, ?, ?, ?, ?)";
        let (source, epoch, once) = (self.source.as_str(), run.seq.epoch as i64, said_once(&seen.fact));
        self.db.prepare_cached(insert)?.execute(params![source, seen.site.as_str(), encode(&observation), self.now.0, epoch, once])?;
        Ok(self.db.last_insert_rowid())
    }
}

/// Whether a fact is said only once: no later look says it again, so no later look makes up for its loss.
fn said_once(fact: &Fact) -> bool {
    match fact {
        Fact::NetboxDeviceGone(_) => true,
        Fact::NetboxDeviceSeen(seen) => !seen.edits.is_empty(),
        Fact::UnclaimedSeen(seen) => !seen.present,
        Fact::SlurmNodeSeen(_) | Fact::SchedulerSeen(_) | Fact::ConditionsSeen(_) | Fact::SweepCompleted(_) | Fact::LookFailed(_) => false,
    }
}
