//! The generations that a process has open: the one that serves, and the one beside it.

use crate::control::{Control, Numbers};
use crate::db::{Db, Error};
use crate::projector::Progress;
use crate::queries::Reads;
use crate::store::Store;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// One generation, open.
pub(crate) struct Slot {
    pub(crate) number: i64,
    pub(crate) db: Db,
    pub(crate) progress: watch::Receiver<Progress>,
    /// Whether it can be fed, as far as is known.
    pub(crate) fit: bool,
    pub(crate) feed: Option<(CancellationToken, JoinHandle<Result<(), Error>>)>,
}

impl Slot {
    pub(crate) fn new(number: i64, db: Db) -> Self {
        Self { number, db, progress: watch::channel(Progress::default()).1, fit: true, feed: None }
    }

    pub(crate) fn reads(&self) -> Reads {
        Reads::new(self.db.clone(), self.number, self.progress.clone())
    }

    /// Ends its feed.
    pub(crate) async fn pause(&mut self) -> Result<(), Error> {
        if let Some((cancel, task)) = self.feed.take() {
            cancel.cancel();
            task.await.map_err(|e| Error::Corrupt(format!("the projector panicked: {e}")))??;
        }
        Ok(())
    }

    /// Lets it go: its connections close when the last request that uses them ends.
    pub(crate) async fn let_go(mut self) {
        if let Err(error) = self.pause().await {
            tracing::warn!(%error, generation = self.number, "the feed of a generation that is let go had failed");
        }
    }
}

/// See the module.
pub(crate) struct Shelf {
    pub(crate) active: Slot,
    pub(crate) standby: Option<Slot>,
    /// One that stands beside and cannot be opened here: another program's, which runs beside us.
    pub(crate) unopened: Option<i64>,
    /// What control named, and only a newer program can read: what we have is read on, until we are replaced.
    foreign: Option<Numbers>,
}

impl Shelf {
    /// Opens what control names. A generation of an earlier format is put out of service: a new and empty one takes its place.
    pub(crate) async fn open(store: &Store, control: &Control) -> Result<Self, Error> {
        store.others(control).await?;
        let mut numbers = control.numbers().await?;
        let db = match store.open(control, numbers.active).await {
            Err(Error::Format { path, found }) if store.outdated(found) => {
                let error = Error::Format { path, found };
                tracing::warn!(%error, "the read model is made anew from the journal");
                numbers = replace(store, control, numbers).await?;
                store.open(control, numbers.active).await?
            }
            opened => opened?,
        };
        let mut shelf = Self { active: Slot::new(numbers.active, db), standby: None, unopened: None, foreign: None };
        shelf.open_beside(store, control, numbers.standby).await?;
        Ok(shelf)
    }

    /// As control would have it.
    pub(crate) fn numbers(&self) -> Numbers {
        Numbers { active: self.active.number, standby: self.standby.as_ref().map(|s| s.number).or(self.unopened) }
    }

    /// Opens the one beside. What cannot be opened goes where nobody else may want it.
    pub(crate) async fn open_beside(&mut self, store: &Store, control: &Control, number: Option<i64>) -> Result<(), Error> {
        (self.standby, self.unopened) = (None, None);
        let Some(number) = number.filter(|n| *n != self.active.number) else { return Ok(()) };
        match store.open(control, number).await {
            Ok(db) => self.standby = Some(Slot::new(number, db)),
            Err(error) if store.shared() => {
                tracing::warn!(%error, "the generation that does not serve cannot be opened here");
                self.unopened = Some(number);
            }
            Err(error) => {
                tracing::warn!(%error, "the generation that does not serve is dropped");
                store.remove(control, number).await?;
                let seen = Numbers { active: self.active.number, standby: Some(number) };
                control.renumber(seen, Numbers { active: self.active.number, standby: None }).await?;
            }
        }
        Ok(())
    }

    /// Opens what another process let serve or stand beside, and lets go of what it took away.
    pub(crate) async fn follow(&mut self, store: &Store, control: &Control) -> Result<bool, Error> {
        let numbers = control.numbers().await?;
        if !store.shared() || numbers == self.numbers() || self.foreign == Some(numbers) {
            return Ok(false);
        }
        if numbers.active != self.active.number {
            let next = match self.standby.take() {
                Some(standby) if standby.number == numbers.active => standby,
                other => {
                    let opened = store.open(control, numbers.active).await;
                    self.standby = other;
                    self.foreign = matches!(opened, Err(Error::Format { .. })).then_some(numbers);
                    Slot::new(numbers.active, opened?)
                }
            };
            let before = std::mem::replace(&mut self.active, next);
            if let Some(other) = self.standby.replace(before) {
                other.let_go().await;
            }
        }
        if self.standby.as_ref().map(|s| s.number) != numbers.standby {
            if let Some(standby) = self.standby.take() {
                standby.let_go().await;
            }
            self.open_beside(store, control, numbers.standby).await?;
        }
        tracing::info!(
            generation = self.active.number,
            standby = numbers.standby,
            "the generations that another process named are taken up"
        );
        Ok(true)
    }
}

/// Puts the generation that serves out of service. Where others still read it, it stands beside.
async fn replace(store: &Store, control: &Control, seen: Numbers) -> Result<Numbers, Error> {
    let mut turn = store.turn(control).await?;
    let replaced = async {
        let next = control.next_number().await?;
        store.remove(control, next).await?;
        store.open(control, next).await?.close().await;
        let numbers = Numbers { active: next, standby: store.shared().then_some(seen.active) };
        match turn.renumber(seen, numbers).await {
            // Another process of this version was here first.
            Err(Error::Moved) => control.numbers().await,
            done => done.map(|()| numbers),
        }
    };
    let replaced = replaced.await;
    turn.end().await;
    store.others(control).await?;
    replaced
}
