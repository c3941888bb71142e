//! A rebuild: the next generation is filled beside the one that serves, compared, and let serve.

use crate::compare::{Difference, compare};
use crate::db::{Db, Error};
use crate::generations::{Generations, LEVEL, Rebuilt};
use crate::projector::Projector;
use crate::shelf::Slot;
use crate::store::Turn;
use std::{collections::BTreeMap, time::Duration, time::Instant};

impl Generations {
    /// Fills the next generation while this one serves, compares both at the same position, and flips. Where they differ it flips
    /// only if `flip_anyway`: the new one is what the journal says, but a person should know why the old one was not. The one that
    /// does not serve then stands beside, in place of any before it.
    pub async fn rebuild(&self, flip_anyway: bool) -> Result<Rebuilt, Error> {
        let _one = self.rebuilding.lock().await;
        let mut turn = self.store.turn(&self.control).await?;
        let rebuilt = self.rebuild_in(&mut turn, flip_anyway).await;
        turn.end().await;
        rebuilt
    }

    async fn rebuild_in(&self, turn: &mut Turn, flip_anyway: bool) -> Result<Rebuilt, Error> {
        self.clear(turn).await?;
        let number = self.control.next_number().await?;
        self.store.remove(&self.control, number).await?;
        let rebuilt = self.fill(turn, number, flip_anyway).await;
        if let Err(error) = &rebuilt
            && self.control.numbers().await.is_ok_and(|n| n.active != number && n.standby != Some(number))
        {
            tracing::warn!(%error, generation = number, "a rebuild did not come to its end; what it made is removed");
            self.store.remove(&self.control, number).await?;
        }
        rebuilt
    }

    async fn fill(&self, turn: &mut Turn, number: i64, flip_anyway: bool) -> Result<Rebuilt, Error> {
        let started = Instant::now();
        let next = Slot::new(number, self.store.open(&self.control, number).await?);
        let mut projector = Projector::new(next.db.clone(), self.log.clone(), self.journal.clone()).await?;
        let ends = self.ends().await?;
        projector.run_to(&ends).await?;
        next.db.measure().await?;
        let took = started.elapsed();
        // From here on the old one stands still, so that both can be brought to the same position and compared.
        let mut shelf = self.shelf.lock().await;
        let seen = self.follow(&mut shelf).await?;
        let fed = shelf.active.feed.is_some();
        self.level(&shelf.active.db, fed, &ends).await?;
        shelf.active.pause().await?;
        let counted = async {
            let _still = shelf.active.db.still().await?;
            let differences = self.settle(&shelf.active.db, &mut projector, &next.db).await?;
            let count =
                async |table: &str| next.db.read.one(next.db.read.sql(format!("SELECT count(*) AS n FROM {table}"))).await?.int("n");
            let counts = (count("history").await?, count("device").await?, count("condition").await?);
            let flipped = differences.is_empty() || flip_anyway;
            // Still held: whoever follows the flip finds nothing in the old one that the new one has not.
            shelf.standby = Some(next);
            if let Err(error) = self.put(turn, seen, &mut shelf, flipped).await {
                shelf.standby = None;
                return Err(error);
            }
            Ok::<_, Error>((differences, counts, flipped))
        };
        let counted = counted.await;
        drop(projector);
        if fed {
            self.feed_all(&mut shelf).await?;
        }
        let (differences, (decisions, devices, conditions), flipped) = counted?;
        Ok(Rebuilt { generation: number, decisions, devices, conditions, took, differences, flipped })
    }

    /// Until the one that serves has what the new one has: a stop, or a log that is far away, may have left it behind. One that cannot be
    /// brought there is compared as it is, and the differences say so.
    async fn level(&self, serves: &Db, fed: bool, ends: &BTreeMap<u32, u64>) -> Result<(), Error> {
        if !fed {
            let caught_up = async { Projector::new(serves.clone(), self.log.clone(), self.journal.clone()).await?.run_to(ends).await };
            if let Err(error) = caught_up.await {
                tracing::warn!(%error, "the generation that serves is compared as it stands");
            }
        }
        let until = Instant::now() + LEVEL;
        let behind = |standing: &BTreeMap<u32, u64>| ends.iter().any(|(p, end)| standing.get(p).is_some_and(|next| next < end));
        while behind(&self.standing(serves).await?) && fed && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Brings the new generation to where the old one stands, and compares them.
    async fn settle(&self, serves: &Db, projector: &mut Projector, next: &Db) -> Result<Vec<Difference>, Error> {
        // A journal that was restored from a backup may end before the old generation does: then they differ.
        let ends = self.ends().await?;
        let standing = self.standing(serves).await?.into_iter().map(|(p, next)| (p, next.min(ends.get(&p).copied().unwrap_or(0))));
        projector.run_to(&standing.collect()).await?;
        compare(serves, next).await
    }

    async fn ends(&self) -> Result<BTreeMap<u32, u64>, Error> {
        let mut ends = BTreeMap::new();
        for at in &self.journal {
            ends.insert(at.partition, self.log.bounds(at.clone()).await?.end);
        }
        Ok(ends)
    }
}
