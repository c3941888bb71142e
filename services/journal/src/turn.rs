//! What runs only where a partition is led: whoever follows the journal of a partition and writes elsewhere runs at one hub at a time, as
//! far as the leases can tell. What it writes must bear a second one all the same.

use crate::Turns;
use fleet_log::Error;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Runs `run` whenever it is this hub's turn to lead `partition`, with a token that is cancelled when the turn is over; until `cancel`.
///
/// # Errors
/// Those of `run`.
pub async fn in_turn<F: Future<Output = Result<(), Error>>>(
    mut turns: watch::Receiver<Arc<Turns>>,
    partition: u32,
    cancel: CancellationToken,
    run: impl Fn(CancellationToken) -> F,
) -> Result<(), Error> {
    while !cancel.is_cancelled() {
        tokio::select! {
            () = cancel.cancelled() => return Ok(()),
            () = until(&mut turns, |t| t.mine.contains(&partition)) => {}
        }
        let turn = cancel.child_token();
        let running = run(turn.clone());
        tokio::pin!(running);
        tokio::select! {
            outcome = &mut running => outcome?,
            () = until(&mut turns, |t| !t.mine.contains(&partition)) => {
                turn.cancel();
                running.await?;
            }
        }
    }
    Ok(())
}

/// A hub that is alone has no leases: nobody tells of turns, and what is so stays so.
async fn until(turns: &mut watch::Receiver<Arc<Turns>>, so: impl Fn(&Turns) -> bool) {
    if turns.wait_for(|t| so(t)).await.is_err() {
        std::future::pending::<()>().await;
    }
}
