//! What the machine itself allows, measured beside ours.

use crate::bed::Bed;
use crate::table::{Ground, Spread, Table};
use fleet_log::Record;
use fleet_schemas::topics as names;
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(2);

/// The floor of everything that is durable before it is answered.
pub async fn measure(bed: &Bed, table: &mut Table) {
    match bed.ground {
        Ground::Embedded => sqlite(table),
        Ground::Cluster | Ground::Replicated => kafka(bed, table).await,
    }
}

/// One record, where nobody reads, acknowledged by every broker that has to.
async fn kafka(bed: &Bed, table: &mut Table) {
    let (at, started, mut samples) = (bed.at(names::DEVICE_EVENTS, 0), Instant::now(), Vec::new());
    while started.elapsed() < FOR {
        let one = Instant::now();
        bed.log.append(at.clone(), vec![Record { key: "floor".into(), value: vec![0; 64].into() }]).await.unwrap();
        samples.push(one.elapsed());
    }
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    table.row("floor: one Kafka record, acknowledged", "–", format!("{rate:.0}/s, {}", Spread::new(samples).text()), "the floor");
}

/// One row, one synced commit.
fn sqlite(table: &mut Table) {
    let folder = tempfile::TempDir::new().unwrap();
    let db = rusqlite::Connection::open(folder.path().join("floor.sqlite")).unwrap();
    db.pragma_update(None, "journal_mode", "wal").unwrap();
    db.pragma_update(None, "synchronous", "full").unwrap();
    db.execute_batch("CREATE TABLE t (a INTEGER PRIMARY KEY, b BLOB)").unwrap();
    let (started, mut samples) = (Instant::now(), Vec::new());
    while started.elapsed() < FOR {
        let one = Instant::now();
        db.execute("INSERT INTO t (b) VALUES (zeroblob(64))", []).unwrap();
        samples.push(one.elapsed());
    }
    let rate = samples.len() as f64 / started.elapsed().as_secs_f64();
    table.row("floor: one synced SQLite commit", "–", format!("{rate:.0}/s, {}", Spread::new(samples).text()), "the floor");
}
