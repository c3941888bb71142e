//! Input that cannot be used is kept where people can see it, and the stream goes on.

use crate::partition::{Desk, End, retry};
use fleet_log::{Record, Stored};
use fleet_schemas::{Hash, Parked, encode, topics as names};
use serde_bytes::ByteBuf;

/// Bytes that a parked input may have in its record: an input as large as a record may be does not fit one more.
const MOST: usize = 900 << 10;

/// Parks `input`. Only when the log has it may the input be passed over, so this waits and repeats for as long as it takes.
pub(crate) async fn park(desk: &Desk, input: &Stored, why: &str) -> Result<(), End> {
    tracing::error!(input = %input.at, offset = input.offset, why, "input parked");
    metrics::counter!("fm_parked_total").increment(1);
    let parked = Parked {
        topic: input.at.topic.to_string(),
        partition: input.at.partition,
        offset: input.offset,
        key: ByteBuf::from(input.record.key.to_vec()),
        value: ByteBuf::from(input.record.value.to_vec()),
        hash: Hash::of(&input.record.value),
        parked_by: "decider".into(),
        why: why.into(),
        parked_at: desk.config.clock.now(),
    };
    let mut bytes = encode(&parked);
    if bytes.len() > MOST {
        // Its hash and its place say what it was, as long as its topic keeps it.
        bytes = encode(&Parked { value: ByteBuf::new(), ..parked });
    }
    let record = Record { key: input.record.key.clone(), value: bytes.into() };
    let at = desk.config.topics.at(names::PARKED, 0);
    retry(desk, || desk.config.append(at.clone(), vec![record.clone()])).await
}
