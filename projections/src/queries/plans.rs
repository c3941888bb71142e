//! Every list in its default order walks an index: it sorts nothing, and reads no table from end to end.

use super::filter::{CONDITION_FIELDS, DEVICE_FIELDS, Expr, Field, OPERATION_FIELDS, Op, Operand};
use super::page::{Key, finish, keys};
use super::{AttentionFilter, AttentionRow, ConditionFilter, ConditionRow, DeviceFilter, DeviceRow, OperationFilter, OperationRow};
use super::{attention, conditions, devices, operations};
use crate::db::Db;
use sqlx::{AssertSqlSafe, QueryBuilder, Sqlite};

async fn plan(db: &Db, q: QueryBuilder<Sqlite>) -> String {
    let sql = format!("EXPLAIN QUERY PLAN {}", q.sql().as_str());
    let rows: Vec<(i64, i64, i64, String)> = sqlx::query_as(AssertSqlSafe(sql)).fetch_all(&db.read).await.unwrap();
    rows.into_iter().map(|r| r.3).collect::<Vec<_>>().join("; ")
}

fn text(word: &str) -> Operand {
    Operand::Text(word.into())
}

#[tokio::test]
async fn the_default_orders_sort_nothing() {
    let folder = tempfile::TempDir::new().unwrap();
    let db = Db::open(&folder.path().join("read.sqlite")).await.unwrap();
    let sites: [Option<Vec<String>>; 3] = [None, Some(vec!["s1".into()]), Some(vec!["s1".into(), "s2".into()])];
    let mut queries = Vec::new();
    for sites in sites {
        for name in [None, Some(("phase", "Ready")), Some(("role", "gpu")), Some(("rack", "r1"))] {
            let matching = name.and_then(|(field, word)| Expr::equal(DEVICE_FIELDS, field, text(word)));
            let sort = DeviceRow::sort(None);
            let filter = DeviceFilter { sites: sites.clone(), matching, ..Default::default() };
            let plan = plan(&db, devices::list(&filter, &sort, Some(&[Key::Text("x".into()), Key::Bytes(vec![])]), 50)).await;
            // The ids of the page come in order; then its lines are put into it again.
            let (ids, lines) = plan.split_once("SCAN (subquery").unwrap();
            assert!(ids.contains("INDEX") && !ids.contains("TEMP B-TREE") && lines.contains("PRIMARY KEY"), "{plan}");
        }
        for name in [None, Some(("type", "SlurmMember")), Some(("severity", "Warning"))] {
            let matching = name.and_then(|(field, word)| Expr::equal(CONDITION_FIELDS, field, text(word)));
            let sort = ConditionRow::sort(None);
            queries.push((conditions::select(&keys(&sort)[1..], &ConditionFilter { sites: sites.clone(), matching }), sort));
        }
        let sort = AttentionRow::sort(None);
        queries.push((attention::select(&keys(&sort)[1..], &AttentionFilter { sites: sites.clone(), matching: None }), sort));
        for name in [None, Some(("state", text("running"))), Some(("device", Operand::Id(vec![1; 16])))] {
            let matching = name.and_then(|(field, value)| Expr::equal(OPERATION_FIELDS, field, value));
            let sort = OperationRow::sort(None);
            let filter = OperationFilter { sites: sites.clone(), matching, ..Default::default() };
            queries.push((operations::select(&keys(&sort)[1..], &filter), sort));
        }
    }
    for (mut q, sort) in queries {
        let after = vec![Key::Text("x".into()); sort.width()];
        finish(&mut q, &sort, Some(&after), 50);
        let sql = q.sql().as_str().to_owned();
        let plan = plan(&db, q).await;
        let walks = plan.contains("USING INDEX") || plan.contains("USING COVERING INDEX") || plan.contains("PRIMARY KEY");
        assert!(walks && !plan.contains("TEMP B-TREE"), "{sql}\n{plan}");
    }
}

/// A batch names up to 500 devices of a site that may have thousands.
#[tokio::test]
async fn devices_that_a_batch_names_are_looked_up_one_by_one() {
    let folder = tempfile::TempDir::new().unwrap();
    let db = Db::open(&folder.path().join("read.sqlite")).await.unwrap();
    let id = fleet_schemas::DeviceId::from_netbox("n", 1);
    assert_eq!(plan(&db, devices::by_id("s1", &[id, id])).await, "SEARCH device USING PRIMARY KEY (id=?)");
    let plan = plan(&db, devices::by_name("s1", &["a", "b"])).await;
    assert!(plan.contains("INDEX device_by_site (site=? AND name=?)"), "{plan}");
}

/// What a fleet has few of is found by an index of its own.
#[tokio::test]
async fn a_rack_and_a_condition_that_stands_wrong_are_found_by_their_index() {
    let folder = tempfile::TempDir::new().unwrap();
    let db = Db::open(&folder.path().join("read.sqlite")).await.unwrap();
    let sort = DeviceRow::sort(None);
    let bad = |value| Expr::Term { field: Field::find(DEVICE_FIELDS, "conditions_bad").unwrap(), key: None, op: Op::Has, value };
    let rack = || Expr::equal(DEVICE_FIELDS, "rack", text("r1")).unwrap();
    let sites = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
    let rows = [
        (None, rack(), "INDEX device_by_rack"),
        (sites(&["s1", "s2"]), rack(), "INDEX device_by_rack"),
        (None, bad(text("SlurmSchedulable")), "INDEX condition_wrong (type=?)"),
        (sites(&["s1"]), bad(text("SlurmSchedulable")), "INDEX condition_wrong (type=?)"),
        (None, bad(Operand::Any), "INDEX device_not_well"),
        (sites(&["s1"]), bad(Operand::Any), "INDEX device_not_well_by_site (site=?)"),
        (sites(&["s1", "s2"]), bad(Operand::Any), "INDEX device_not_well"),
    ];
    for (sites, matching, index) in rows {
        let filter = DeviceFilter { sites, matching: Some(matching), ..Default::default() };
        let plan = plan(&db, devices::list(&filter, &sort, None, 50)).await;
        assert!(plan.contains(index), "{plan}");
    }
}
