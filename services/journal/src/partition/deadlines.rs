//! Deadlines: one fires only when the inputs have been read up to an end that was taken after it fell due. Nobody waits for that end: what
//! comes meanwhile is decided.

use super::{Desk, timers::Timers};
use fleet_log::{Error, Fut};
use fleet_schemas::{Inputs, Timestamp, topics as names};
use futures::FutureExt;

/// See the module.
#[derive(Default)]
pub(crate) struct Deadlines {
    /// Where the inputs end, being asked for deadlines up to then.
    asking: Option<(Timestamp, Fut<'static, Result<Inputs, Error>>)>,
    /// Deadlines up to `0` may fire once the inputs are read up to `1`.
    barrier: Option<(Timestamp, Inputs)>,
}

impl Deadlines {
    /// When the next one falls due, unless one that did is being seen to.
    pub(crate) fn next(&self, timers: &Timers) -> Option<Timestamp> {
        timers.next().filter(|_| self.barrier.is_none() && self.asking.is_none())
    }

    /// Up to when they may fire, with inputs read as far as `passed`.
    pub(crate) fn ripe(&mut self, desk: &Desk, timers: &Timers, now: Timestamp, passed: &Inputs) -> Option<Timestamp> {
        if self.next(timers).is_some_and(|due| due <= now) {
            self.asking = Some((now, ends(desk)));
        }
        // Without a wait; told or not.
        let _ = self.told().now_or_never();
        let (until, _) = self.barrier.take_if(|(_, ends)| passed.commands >= ends.commands && passed.observations >= ends.observations)?;
        Some(until)
    }

    /// Until it is known where the inputs end, if that is asked. Cancel safe.
    pub(crate) async fn told(&mut self) {
        let Some((until, ends)) = &mut self.asking else { return std::future::pending().await };
        match ends.await {
            Ok(ends) => self.barrier = Some((*until, ends)),
            Err(error) => tracing::warn!(%error, "the end of the inputs cannot be told; deadlines wait"),
        }
        self.asking = None;
    }
}

/// Where the inputs end now.
fn ends(desk: &Desk) -> Fut<'static, Result<Inputs, Error>> {
    let (log, commands) = (desk.config.log.clone(), desk.config.topics.at(names::COMMANDS, desk.partition));
    let observations = desk.config.topics.at(names::OBSERVATIONS, desk.partition);
    Box::pin(async move {
        let (commands, observations) = tokio::try_join!(log.bounds(commands), log.bounds(observations))?;
        Ok(Inputs { commands: commands.end, observations: observations.end })
    })
}
