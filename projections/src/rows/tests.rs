//! Rows as they come out are rows as they went in, whichever way they were written.

use super::*;
use crate::compare::compare;
use crate::db::Db;
use crate::trial::Trial;
use fleet_schemas::Timestamp;
use uuid::Uuid;

/// Texts that a quoting, an encoding or a shell could get wrong.
const ODD: [&str; 6] = ["", "'; DROP TABLE device; --", "\"\\{},NULL", "line\nand\ttab", "ünïcödé 漢字 🚀", "$1 \\u0041"];

fn odd(i: usize) -> &'static str {
    ODD[i % ODD.len()]
}

fn id(i: usize) -> Uuid {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, &i.to_be_bytes())
}

fn devices(rows: usize) -> Vec<Row> {
    let device = |i: usize| {
        vec![
            id(i).into(),
            format!("gpu{i:05}{}", odd(i)).into(),
            odd(i + 1).into(),
            odd(i + 2).into(),
            (!i.is_multiple_of(3)).then(|| odd(i)).into(),
            Timestamp(1_800_000_000_000_001 + i as i64).into(),
            "ours".into(),
            "running".into(),
            (!i.is_multiple_of(2)).then(|| odd(i)).into(),
            (!i.is_multiple_of(5)).then(|| odd(i)).into(),
            Value::Json(serde_json::json!([{"type": odd(i), "reason": odd(i + 1)}]).to_string()),
            Value::Int(i as i64),
            Value::Int(i64::MAX - i as i64),
            Timestamp(-(i as i64)).into(),
        ]
    };
    (0..rows).map(device).collect()
}

fn conditions(rows: usize) -> Vec<Row> {
    let condition = |i: usize| {
        vec![
            id(i / 3).into(),
            ["A", "B", "C"][i % 3].into(),
            odd(i).into(),
            "True".into(),
            odd(i).into(),
            odd(i + 1).into(),
            "Info".into(),
            Value::Words((0..i % 4).map(|w| odd(i + w).to_owned()).collect()),
            "slurm".into(),
            "s1".into(),
            Timestamp(i as i64).into(),
            Timestamp(0).into(),
            i.is_multiple_of(2).into(),
            i.is_multiple_of(7).into(),
        ]
    };
    (0..rows).map(condition).collect()
}

fn history(rows: usize) -> Vec<Row> {
    let told = |i: usize| {
        let record: Vec<u8> = (0..i % 300).map(|b| b as u8).collect();
        let (stream, hash) = (format!("device/{}", id(i % 100)), vec![i as u8; 32]);
        vec![
            stream.into(),
            Value::Int(i as i64),
            1_u32.into(),
            1_u64.into(),
            Timestamp(5).into(),
            "accepted".into(),
            hash.into(),
            record.into(),
        ]
    };
    (0..rows).map(told).collect()
}

async fn fill(db: &Db, rows: usize) {
    let mut t = db.write.begin().await.unwrap();
    put(&mut t, &DEVICE, devices(rows)).await.unwrap();
    put(&mut t, &CONDITION, conditions(rows)).await.unwrap();
    put(&mut t, &HISTORY, history(rows)).await.unwrap();
    t.commit().await.unwrap();
}

/// Some again in a second batch, changed; twice within it, of which the last counts; and some taken away.
async fn change_some(db: &Db) {
    let mut t = db.write.begin().await.unwrap();
    let mut again = devices(40);
    again.iter_mut().for_each(|row| row[1] = "before".into());
    again.extend(devices(20).into_iter().map(|mut row| {
        row[1] = "renamed".into();
        row
    }));
    put(&mut t, &DEVICE, again).await.unwrap();
    remove(&mut t, &CONDITION, conditions(9)).await.unwrap();
    let begun = |i: usize| vec![id(i).into(), id(0).into(), "drain".into(), "running".into(), "a".into(), odd(i).into(), "".into()];
    let begun = |i: usize| [begun(i), vec![Timestamp(1).into(), Value::Null, Some(Timestamp(9)).into()]].concat();
    put(&mut t, &OPERATION, (0..6).map(begun).collect()).await.unwrap();
    let ended = (0..3).map(|i| vec![id(i).into(), "succeeded".into(), odd(i).into(), Timestamp(7).into()]);
    change(&mut t, &OPERATION_END, ended.collect()).await.unwrap();
    t.commit().await.unwrap();
}

async fn same(test: &str, rows: usize) {
    let Some(schema) = Trial::schema(test).await else { return };
    let file = Trial::file().await;
    for db in [&file.db, &schema.db] {
        fill(db, rows).await;
        change_some(db).await;
    }
    assert_eq!(compare(&file.db, &schema.db).await.unwrap(), []);
    let renamed = "SELECT count(*) AS n FROM device WHERE name = 'renamed'";
    for db in [&file.db, &schema.db] {
        assert_eq!(db.read.one(db.read.sql(renamed)).await.unwrap().int("n").unwrap(), 20);
    }
}

#[tokio::test]
async fn a_live_batch_is_the_same_in_both_databases() {
    same("rows::tests::a_live_batch_is_the_same_in_both_databases", 1500).await;
}

#[tokio::test]
async fn a_batch_that_is_copied_is_the_same_in_both_databases() {
    same("rows::tests::a_batch_that_is_copied_is_the_same_in_both_databases", COPY + COPIED).await;
}

/// Nor does the length of a name, of which an index takes so much and no more.
#[tokio::test]
async fn a_name_longer_than_an_index_takes_is_cut() {
    let Some(schema) = Trial::schema("rows::tests::a_name_longer_than_an_index_takes_is_cut").await else { return };
    // No compression helps.
    let long: String = (0..200).map(|i| format!("{}é", id(i))).collect();
    for rows in [2, COPY] {
        let (mut devices, mut conditions) = (devices(rows), conditions(rows));
        for column in [1, 2, 4, 8] {
            devices[0][column] = long.as_str().into();
        }
        // Two that are one when they are cut.
        for (row, tail) in [(0, "a"), (1, "b")] {
            conditions[row][1] = "A".into();
            conditions[row][2] = format!("{long}{tail}").into();
        }
        let mut t = schema.db.write.begin().await.unwrap();
        put(&mut t, &DEVICE, devices).await.unwrap();
        put(&mut t, &CONDITION, conditions).await.unwrap();
        t.commit().await.unwrap();
    }
    let row = schema.db.read.one(schema.db.read.sql("SELECT name FROM device WHERE id = $1").with(id(0))).await.unwrap();
    let name = row.text("name").unwrap();
    assert!(long.starts_with(&name) && (LONGEST - 1..=LONGEST).contains(&name.len()), "{} bytes", name.len());
}

/// What an outside system puts into a name does not hold up the projector.
#[tokio::test]
async fn a_nul_is_shown_as_what_cannot_be_shown() {
    let Some(schema) = Trial::schema("rows::tests::a_nul_is_shown_as_what_cannot_be_shown").await else { return };
    for rows in [1, COPY] {
        let mut devices = devices(rows);
        devices[0][1] = "a\0b".into();
        devices[0][10] = Value::Json(serde_json::json!(["a\0b"]).to_string());
        let mut conditions = conditions(rows);
        conditions[0][7] = Value::Words(vec!["a\0b".into()]);
        let mut t = schema.db.write.begin().await.unwrap();
        put(&mut t, &DEVICE, devices).await.unwrap();
        put(&mut t, &CONDITION, conditions).await.unwrap();
        t.commit().await.unwrap();
        let sql =
            "SELECT d.name, d.conditions_bad, c.effects FROM device d JOIN condition c ON c.device = d.id WHERE d.id = $1 AND c.type = 'A'";
        let row = schema.db.read.one(schema.db.read.sql(sql).with(id(0))).await.unwrap();
        assert_eq!(row.text("name").unwrap(), "a\u{fffd}b");
        assert!(row.json("conditions_bad").unwrap().contains('\u{fffd}'));
        assert_eq!(row.words("effects").unwrap(), ["a\u{fffd}b"]);
    }
}
