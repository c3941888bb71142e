//! What the machine itself allows, measured beside ours.

use crate::table::{Spread, Table};
use std::time::{Duration, Instant};

const FOR: Duration = Duration::from_secs(2);

/// One row, one synced commit: the floor of everything that is durable before it is answered.
pub fn measure(table: &mut Table) {
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
