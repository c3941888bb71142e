//! The rule of belief, row by row.

use fleet_fence::{Broken, NextN, Position, Verdict, accept};
use fleet_schemas::*;
use uuid::Uuid;

fn boot(i: u128) -> BootId {
    BootId(Uuid::from_u128(i))
}

fn genesis() -> JournalRecord {
    JournalRecord::Genesis(Genesis { journal: JournalId(Uuid::nil()), partition: 0, created_at: Timestamp(5), from: None })
}

fn claim(term: u64, leader: u128) -> JournalRecord {
    JournalRecord::Claim(Claim { term, leader: Some(boot(leader)), recorded_at: Timestamp(10) })
}

fn progress(term: u64, leader: u128, n: u64) -> JournalRecord {
    let inputs = Inputs { commands: 0, observations: 0 };
    JournalRecord::Progress(Progress { term, leader: boot(leader), n, inputs, last_looks: vec![], recorded_at: Timestamp(7) })
}

fn read(records: &[JournalRecord]) -> (Position, Vec<Verdict>) {
    let mut position = Position::START;
    let verdicts = records.iter().zip(0..).map(|(r, offset)| accept(&mut position, None, offset, r, &r.encode())).collect();
    (position, verdicts)
}

#[test]
fn a_term_is_believed_in_order_without_holes_and_without_repeats() {
    use Verdict::{Accepted, Duplicate, Fenced};
    let (position, verdicts) = read(&[
        genesis(),
        progress(0, 1, 1), // nobody leads yet
        claim(1, 1),
        progress(1, 1, 1),
        progress(1, 1, 1), // again
        progress(1, 2, 2), // not the claimant
        progress(2, 2, 1), // a term nobody claimed
        claim(1, 2),       // too late for this term
        progress(1, 1, 3), // 2 is missing: the term is over
        progress(1, 1, 2), // even when it comes after all
        claim(2, 2),
        progress(1, 1, 4), // a zombie
        progress(2, 2, 1),
    ]);
    assert_eq!(
        verdicts,
        [Accepted, Fenced, Accepted, Accepted, Duplicate, Fenced, Fenced, Fenced, Fenced, Fenced, Accepted, Fenced, Accepted]
    );
    assert_eq!((position.term, position.n, position.next), (2, NextN::Is(2), 13));
    assert_eq!(position.recorded_at, 10, "time never runs back");
}

#[test]
fn a_journal_begins_with_its_genesis_and_has_no_other() {
    let (_, verdicts) = read(&[claim(1, 1)]);
    assert!(matches!(verdicts[0], Verdict::Broken(Broken::Genesis(_))));
    let (position, verdicts) = read(&[genesis(), genesis()]);
    assert!(matches!(verdicts[1], Verdict::Broken(Broken::Genesis(_))));
    assert_eq!(position.next, 1, "a broken partition is not read past");
}

#[test]
fn a_gap_of_offsets_stops_the_partition() {
    let mut position = Position::START;
    let record = genesis();
    let verdict = accept(&mut position, None, 3, &record, &record.encode());
    assert_eq!(verdict, Verdict::Broken(Broken::Offset { wanted: 0, found: 3 }));
}

#[test]
fn a_record_that_is_delivered_again_moves_nothing() {
    let (mut position, _) = read(&[genesis(), claim(1, 1), progress(1, 1, 1)]);
    let before = position.clone();
    for (offset, record) in [genesis(), claim(1, 1), progress(1, 1, 1)].iter().enumerate() {
        assert_eq!(accept(&mut position, None, offset as u64, record, &record.encode()), Verdict::Duplicate);
    }
    assert_eq!(position, before);
}
