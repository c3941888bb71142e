//! Every list in its default order walks an index: it sorts nothing, and reads no table from end to end. On SQLite as its planner says
//! of empty tables; on PostgreSQL, which decides by what the tables hold, over a fleet of 20,000 devices.

use super::filter::{CONDITION_FIELDS, DEVICE_FIELDS, Expr, Field, OPERATION_FIELDS, Op, Operand};
use super::page::{Key, finish, keys};
use super::{AttentionFilter, AttentionRow, ConditionFilter, ConditionRow, DeviceFilter, DeviceRow, OperationFilter, OperationRow, Sort};
use super::{attention, conditions, devices, operations};
use crate::db::Db;
use crate::sql::{Dialect, Kind, Sql};
use crate::trial::{Trial, fleet};

/// The plan of a question, in the words of its database.
async fn plan(db: &Db, q: Sql) -> String {
    let (explain, column) = match q.dialect {
        Dialect::Sqlite => ("EXPLAIN QUERY PLAN", "detail"),
        Dialect::Postgres => ("EXPLAIN", "QUERY PLAN"),
    };
    let lines = db.read.all(Sql { text: format!("{explain} {}", q.text), ..q }).await.unwrap();
    lines.iter().map(|line| line.text(column).unwrap()).collect::<Vec<_>>().join("; ")
}

/// Lines that PostgreSQL expects to put into order. Of a handful that an index found, a sort is no more work than to walk an index.
fn sorted(plan: &str) -> u64 {
    let rows = |node: &str| node.split("rows=").nth(1)?.split(' ').next()?.parse().ok();
    plan.split("; ").filter(|node| node.contains("Sort  (")).filter_map(rows).max().unwrap_or(0)
}

/// As many as a rack has.
const HANDFUL: u64 = 64;

fn text(word: &str) -> Operand {
    Operand::Text(word.into())
}

/// A place in a list, somewhere in its middle.
fn middle(sort: &Sort) -> Vec<Key> {
    let key = |kind| match kind {
        Kind::Uuid => Key::Bytes(vec![0x80; 16]),
        Kind::Time => Key::Number(1_800_000_000_000_000),
        Kind::Int => Key::Number(1),
        Kind::Bool | Kind::Text | Kind::Bytes | Kind::Json | Kind::Words => Key::Text("gpu10000".into()),
    };
    sort.terms.iter().map(|term| key(term.kind)).collect()
}

fn sites(names: &[&str]) -> Option<Vec<String>> {
    Some(names.iter().map(|n| (*n).to_owned()).collect())
}

/// The lists that people ask for, each in its default order.
fn lists(db: &Db) -> Vec<(Sql, Sort)> {
    let mut queries = Vec::new();
    for sites in [None, sites(&["s1"]), sites(&["s1", "s2"])] {
        for name in [None, Some(("phase", "Ready")), Some(("role", "gpu")), Some(("rack", "r1"))] {
            let matching = name.and_then(|(field, word)| Expr::equal(DEVICE_FIELDS, field, text(word)));
            let filter = DeviceFilter { sites: sites.clone(), matching, ..Default::default() };
            // The ids of a page; its lines are looked up by them.
            queries.push((devices::select(db, "d.id AS hit", &filter), DeviceRow::sort(None)));
        }
        for name in [None, Some(("type", "SlurmMember")), Some(("severity", "Warning"))] {
            let matching = name.and_then(|(field, word)| Expr::equal(CONDITION_FIELDS, field, text(word)));
            let sort = ConditionRow::sort(None);
            let filter = ConditionFilter { sites: sites.clone(), matching };
            queries.push((conditions::select(db, &keys(db, &sort)[1..], &filter), sort));
        }
        let sort = AttentionRow::sort(None);
        let filter = AttentionFilter { sites: sites.clone(), matching: None };
        queries.push((attention::select(db, &keys(db, &sort)[1..], &filter), sort));
        for name in [None, Some(("state", text("running"))), Some(("device", Operand::Id(vec![1; 16])))] {
            let matching = name.and_then(|(field, value)| Expr::equal(OPERATION_FIELDS, field, value));
            let sort = OperationRow::sort(None);
            let filter = OperationFilter { sites: sites.clone(), matching, ..Default::default() };
            queries.push((operations::select(db, &keys(db, &sort)[1..], &filter), sort));
        }
    }
    queries
}

/// The first page of each list and one in its middle, with their texts.
fn pages(db: &Db) -> Vec<(Sql, String)> {
    let page = |(q, sort): (Sql, Sort)| {
        [None, Some(middle(&sort))].map(|after| {
            let mut q = q.clone();
            finish(&mut q, &sort, after.as_deref(), 50).unwrap();
            let text = q.text.clone();
            (q, text)
        })
    };
    lists(db).into_iter().flat_map(page).collect()
}

/// The list of devices as it is asked: the first page, and one in the middle.
fn whole(db: &Db) -> [Sql; 2] {
    let sort = DeviceRow::sort(None);
    [None, Some(middle(&sort))].map(|after| devices::list(db, &DeviceFilter::default(), &sort, after.as_deref(), 50).unwrap())
}

#[tokio::test]
async fn the_default_orders_sort_nothing() {
    let trial = Trial::file().await;
    let db = &trial.db;
    for (q, sql) in pages(db) {
        let plan = plan(db, q).await;
        let walks = plan.contains("USING INDEX") || plan.contains("USING COVERING INDEX") || plan.contains("PRIMARY KEY");
        assert!(walks && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
    for whole in whole(db) {
        let whole = plan(db, whole).await;
        // The ids of the page come in order; then its lines are put into it again.
        let (ids, lines) = whole.split_once("SCAN page").unwrap();
        assert!(ids.contains("INDEX") && !ids.contains("TEMP B-TREE") && lines.contains("SEARCH d USING PRIMARY KEY"), "{whole}");
    }
}

#[tokio::test]
async fn the_default_orders_sort_nothing_on_postgres() {
    let Some(trial) = Trial::schema("queries::plans::the_default_orders_sort_nothing_on_postgres").await else { return };
    let db = &trial.db;
    fleet(db).await;
    for (q, sql) in pages(db) {
        let plan = plan(db, q).await;
        let walks = plan.contains("Index Scan") || plan.contains("Index Only Scan");
        assert!(walks && sorted(&plan) <= HANDFUL && !plan.contains("Seq Scan"), "{sql}\n{plan}");
    }
    for whole in whole(db) {
        let whole = plan(db, whole).await;
        assert!(whole.contains("device_by_name") && whole.contains("device_pkey") && !whole.contains("Seq Scan"), "{whole}");
    }
}

/// A batch names up to 500 devices of a site that may have thousands.
#[tokio::test]
async fn devices_that_a_batch_names_are_looked_up_one_by_one() {
    let trial = Trial::file().await;
    let db = &trial.db;
    let id = fleet_schemas::DeviceId::from_netbox("n", 1);
    assert_eq!(plan(db, devices::by_id(db, "s1", &[id, id])).await, "SEARCH device USING PRIMARY KEY (id=?)");
    let named = plan(db, devices::by_name(db, "s1", &["a", "b"])).await;
    assert!(named.contains("INDEX device_by_site (site=? AND name=?)"), "{named}");
}

#[tokio::test]
async fn what_is_looked_up_is_found_by_its_key_on_postgres() {
    let Some(trial) = Trial::schema("queries::plans::what_is_looked_up_is_found_by_its_key_on_postgres").await else { return };
    let db = &trial.db;
    fleet(db).await;
    let id = fleet_schemas::DeviceId::from_netbox("n", 1);
    let by_id = plan(db, devices::by_id(db, "s1", &[id, id])).await;
    assert!(by_id.contains("device_pkey") && !by_id.contains("Seq Scan"), "{by_id}");
    let by_name = plan(db, devices::by_name(db, "s1", &["gpu00001", "gpu00021"])).await;
    assert!(by_name.contains("device_by_") && !by_name.contains("Seq Scan"), "{by_name}");
    let rows = [
        ("SELECT id FROM device WHERE plans > 0 ORDER BY id", "device_by_plans"),
        ("SELECT * FROM history WHERE stream = 'a' AND \"offset\" < 9 ORDER BY \"offset\" DESC LIMIT 5", "history_pkey"),
        ("SELECT id, state FROM stream WHERE id >= 'site/' AND id < 'site0' ORDER BY id", "stream_pkey"),
        ("SELECT * FROM stream WHERE id = 'device/x'", "stream_pkey"),
    ];
    for (sql, index) in rows {
        let plan = plan(db, db.read.sql(sql)).await;
        assert!(plan.contains(index) && sorted(&plan) <= HANDFUL && !plan.contains("Seq Scan"), "{sql}\n{plan}");
    }
}

/// What a fleet has few of is found by an index of its own; and by which.
fn few() -> Vec<(Option<Vec<String>>, Expr, &'static str)> {
    let bad = |value| Expr::Term { field: Field::find(DEVICE_FIELDS, "conditions_bad").unwrap(), key: None, op: Op::Has, value };
    let rack = || Expr::equal(DEVICE_FIELDS, "rack", text("r1")).unwrap();
    vec![
        (None, rack(), "device_by_rack"),
        (sites(&["s1", "s2"]), rack(), "device_by_rack"),
        (None, bad(text("SlurmSchedulable")), "condition_wrong"),
        (sites(&["s1"]), bad(text("SlurmSchedulable")), "condition_wrong"),
        (None, bad(Operand::Any), "device_not_well"),
        (sites(&["s1"]), bad(Operand::Any), "device_not_well_by_site"),
        (sites(&["s1", "s2"]), bad(Operand::Any), "device_not_well"),
    ]
}

async fn found_by_its_index(db: &Db) {
    let sort = DeviceRow::sort(None);
    for (sites, matching, index) in few() {
        let filter = DeviceFilter { sites, matching: Some(matching), ..Default::default() };
        let plan = plan(db, devices::list(db, &filter, &sort, None, 50).unwrap()).await;
        assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{filter:?}\n{plan}");
    }
}

#[tokio::test]
async fn a_rack_and_a_condition_that_stands_wrong_are_found_by_their_index() {
    found_by_its_index(&Trial::file().await.db).await;
}

#[tokio::test]
async fn a_rack_and_a_condition_that_stands_wrong_are_found_by_their_index_on_postgres() {
    let test = "queries::plans::a_rack_and_a_condition_that_stands_wrong_are_found_by_their_index_on_postgres";
    let Some(trial) = Trial::schema(test).await else { return };
    fleet(&trial.db).await;
    found_by_its_index(&trial.db).await;
}
