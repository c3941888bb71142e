//! Reading along while another hub leads: when it is our turn, everything is known already.

use super::{BEAT, Desk, End, Phase, claim, tail::Tail};

/// Until it is this hub's turn. Alone, it is at once.
pub(super) async fn stand_by(desk: &Desk, tail: &mut Tail) -> Result<(), End> {
    if desk.mine() {
        return Ok(());
    }
    claim::catch_up(desk, tail).await?;
    let mut turns = desk.turns.clone();
    loop {
        desk.progress();
        desk.status.send_modify(|s| {
            (s.phase, s.term) = (Phase::Standby, tail.ledger.position.term);
            (s.stats.decisions, s.stats.fenced, s.stats.streams) = (tail.ledger.decisions, tail.ledger.fenced, tail.ledger.streams.len());
            (s.stats.commands, s.stats.observations) = (tail.ledger.inputs.commands, tail.ledger.inputs.observations);
        });
        tokio::select! {
            biased;
            () = desk.cancel.cancelled() => return Err(End::Cancelled),
            turn = turns.wait_for(|t| t.mine.contains(&desk.partition)) => return turn.map(|_| ()).map_err(|_| End::Cancelled),
            met = tail.step(desk) => met?,
            () = tokio::time::sleep(BEAT) => desk.outcomes.sweep(),
        }
    }
}
