//! One fleet in both databases: every question has the same answer, every list the same order and the same places.

use crate::place::{Place, generations};
use crate::rebuild::{cancelled, caught_up, history};
use crate::world::{World, device};
use fleet_journal::{Clock, Topics};
use fleet_log::Record;
use fleet_projections::filter::{ATTENTION_FIELDS, CONDITION_FIELDS, DEVICE_FIELDS, Expr, Field, Kind, OPERATION_FIELDS, Op, Operand};
use fleet_projections::{
    AttentionFilter, AttentionRow, ConditionFilter, ConditionRow, DeviceFilter, DeviceRow, Key, OperationFilter, OperationRow,
    OrphanFilter, Page, Point, Reads, Sort,
};
use fleet_schemas::*;
use std::fmt::Debug;

const OPS: [Op; 6] = [Op::Equal, Op::Unequal, Op::Less, Op::Greater, Op::AtMost, Op::AtLeast];

/// Values that some lines have, that none has, and that look like something else.
fn values(kind: Kind, id: &[u8]) -> Vec<Operand> {
    let texts = |all: &[&str]| all.iter().map(|t| Operand::Text((*t).to_owned())).collect();
    match kind {
        Kind::Text => texts(&["", "gpu03", "gpu", "slurm", "drain", "r1", "x' OR '1'='1", "ü%_"]),
        Kind::Word(_) => texts(&["InService", "Draining", "True", "Warning", "running", "succeeded", "sim1", "s1", "vendor", "nobody"]),
        Kind::Type => texts(&["SlurmMember", "SlurmSchedulable", "InventoryVanished", "Nothing"]),
        Kind::Time => [0, 1, crate::world::START.0, crate::world::START.0 + 60_000_000, 4_000_000_000_000_000].map(Operand::Number).into(),
        Kind::Number => [-1, 0, 3, 5, i64::MAX].map(Operand::Number).into(),
        Kind::Id => vec![Operand::Id(id.to_vec()), Operand::Id(vec![7; 16])],
        Kind::Conditions | Kind::Bad => vec![],
    }
}

/// Everything that can be asked of one field, and its opposite.
fn asked(fields: &'static [Field], id: &[u8]) -> Vec<Expr> {
    let mut out = Vec::new();
    for field in fields {
        let term = |op, value, key: Option<&str>| Expr::Term { field, key: key.map(str::to_owned), op, value };
        match field.kind {
            Kind::Conditions => {
                for r#type in ["SlurmMember", "InventoryVanished"] {
                    out.push(term(Op::Has, Operand::Text(r#type.into()), None));
                    for op in [Op::Equal, Op::Unequal] {
                        out.push(term(op, Operand::Text("True".into()), Some(r#type)));
                    }
                    out.push(term(Op::Has, Operand::Any, Some(r#type)));
                }
                out.push(term(Op::Has, Operand::Any, None));
            }
            Kind::Bad => {
                let types = ["SlurmMember", "SlurmSchedulable", "InventoryVanished"].map(|t| Operand::Text(t.into()));
                out.extend(types.into_iter().chain([Operand::Any]).map(|value| term(Op::Has, value, None)));
            }
            kind => {
                out.push(term(Op::Has, Operand::Any, None));
                for value in values(kind, id) {
                    if matches!(kind, Kind::Text) {
                        out.push(term(Op::Has, value.clone(), None));
                    }
                    out.extend(OPS.iter().map(|op| term(*op, value.clone(), None)));
                }
            }
        }
    }
    let not: Vec<_> = out.iter().map(|e| Expr::Not(Box::new(e.clone()))).collect();
    let either = out.windows(2).step_by(7).map(|w| Expr::Or(w.to_vec())).collect::<Vec<_>>();
    let both = not.windows(2).step_by(5).map(|w| Expr::And(w.to_vec())).collect::<Vec<_>>();
    [out, not, either, both].concat()
}

/// The same question to both.
struct Two {
    file: Reads,
    schema: Reads,
}

impl Two {
    /// Every line in an order, page by page: lines and places must be the same.
    async fn walk<T: PartialEq + Debug, F>(&self, what: &str, sort: &Sort, page: F) -> usize
    where
        F: AsyncFn(&Reads, Option<Vec<Key>>) -> Page<T>,
    {
        let (mut after, mut lines): (Option<Vec<Key>>, _) = (None, 0);
        loop {
            let (ours, theirs) = (page(&self.file, after.clone()).await, page(&self.schema, after).await);
            assert_eq!(ours.rows, theirs.rows, "{what}, {sort:?}");
            assert_eq!(ours.next, theirs.next, "{what}, {sort:?}");
            assert!(ours.next.as_ref().is_none_or(|place| sort.fits(place)), "{what}, {sort:?}");
            lines += ours.rows.len();
            match ours.next {
                Some(next) => after = Some(next),
                None => return lines,
            }
        }
    }
}

/// The members of an object have no order.
fn normal(mut page: Page<DeviceRow>) -> Page<DeviceRow> {
    for row in &mut page.rows {
        row.conditions_bad = serde_json::from_str::<serde_json::Value>(&row.conditions_bad).unwrap().to_string();
    }
    page
}

fn orders(fields: &'static [Field], sort: fn(Option<(&'static Field, bool)>) -> Sort) -> Vec<Sort> {
    let by = fields.iter().filter(|f| f.orders()).flat_map(|f| [sort(Some((f, false))), sort(Some((f, true)))]);
    std::iter::once(sort(None)).chain(by).collect()
}

async fn lists(two: &Two, id: DeviceId) {
    let site = two.file.device_row(id).await.unwrap().unwrap().site;
    let (bytes, sites) = (id.0.as_bytes(), [None, Some(vec![site.clone()]), Some(vec![site, "s2".to_owned()]), Some(vec![])]);
    for sort in orders(DEVICE_FIELDS, DeviceRow::sort) {
        let page = async |r: &Reads, after: Option<Vec<Key>>| {
            normal(r.device_page(&DeviceFilter::default(), &sort, after.as_deref(), 5).await.unwrap())
        };
        assert_eq!(two.walk("devices", &sort, page).await, 12);
    }
    for sort in orders(CONDITION_FIELDS, ConditionRow::sort) {
        let page =
            async |r: &Reads, after: Option<Vec<Key>>| r.conditions(&ConditionFilter::default(), &sort, after.as_deref(), 9).await.unwrap();
        assert!(two.walk("conditions", &sort, page).await > 12);
    }
    for sort in orders(OPERATION_FIELDS, OperationRow::sort) {
        let page =
            async |r: &Reads, after: Option<Vec<Key>>| r.operations(&OperationFilter::default(), &sort, after.as_deref(), 3).await.unwrap();
        assert!(two.walk("operations", &sort, page).await > 4);
    }
    for sort in orders(ATTENTION_FIELDS, AttentionRow::sort) {
        let page =
            async |r: &Reads, after: Option<Vec<Key>>| r.attention(&AttentionFilter::default(), &sort, after.as_deref(), 2).await.unwrap();
        two.walk("attention", &sort, page).await;
    }
    for sites in sites {
        let filter = DeviceFilter { sites: sites.clone(), ..Default::default() };
        let (a, b) = (two.file.count_devices(&filter).await.unwrap(), two.schema.count_devices(&filter).await.unwrap());
        assert_eq!((a, a), (b, if sites.as_ref().is_some_and(Vec::is_empty) { 0 } else { 12 }), "{sites:?}");
    }
    filters(two, bytes).await;
}

async fn filters(two: &Two, id: &[u8]) {
    let (mut asked_of, mut found) = (0, 0);
    let sort = DeviceRow::sort(None);
    for matching in asked(DEVICE_FIELDS, id) {
        let filter = DeviceFilter { matching: Some(matching), ..Default::default() };
        let page = async |r: &Reads, after: Option<Vec<Key>>| normal(r.device_page(&filter, &sort, after.as_deref(), 50).await.unwrap());
        let lines = two.walk(&format!("{filter:?}"), &sort, page).await;
        assert_eq!(two.schema.count_devices(&filter).await.unwrap(), lines as i64);
        (asked_of, found) = (asked_of + 1, found + usize::from(lines > 0 && lines < 12));
    }
    assert!(asked_of > 300 && found > 50, "{found} of {asked_of} filters choose some devices and not others");
    let sort = ConditionRow::sort(None);
    for matching in asked(CONDITION_FIELDS, id) {
        let filter = ConditionFilter { matching: Some(matching), ..Default::default() };
        let page = async |r: &Reads, after: Option<Vec<Key>>| r.conditions(&filter, &sort, after.as_deref(), 500).await.unwrap();
        two.walk(&format!("{filter:?}"), &sort, page).await;
    }
    let sort = OperationRow::sort(None);
    for matching in asked(OPERATION_FIELDS, id) {
        let filter = OperationFilter { matching: Some(matching), ..Default::default() };
        let page = async |r: &Reads, after: Option<Vec<Key>>| r.operations(&filter, &sort, after.as_deref(), 500).await.unwrap();
        two.walk(&format!("{filter:?}"), &sort, page).await;
    }
    let sort = AttentionRow::sort(None);
    for matching in asked(ATTENTION_FIELDS, id) {
        let filter = AttentionFilter { matching: Some(matching), ..Default::default() };
        let page = async |r: &Reads, after: Option<Vec<Key>>| r.attention(&filter, &sort, after.as_deref(), 500).await.unwrap();
        two.walk(&format!("{filter:?}"), &sort, page).await;
    }
}

/// An answer as text, which both must give.
macro_rules! same {
    ($two:expr, $reads:ident => $question:expr) => {{
        let (ours, theirs) = (
            {
                let $reads = &$two.file;
                format!("{:?}", $question)
            },
            {
                let $reads = &$two.schema;
                format!("{:?}", $question)
            },
        );
        assert_eq!(ours, theirs, stringify!($question));
        ours
    }};
}

async fn single(two: &Two, at: Timestamp) {
    for i in 1..=13 {
        let StreamId::Device(id) = device(i) else { unreachable!() };
        same!(two, r => r.device(id).await.unwrap());
        same!(two, r => r.first_decision(id).await.unwrap());
        same!(two, r => r.device_then(id, Point::Version(3)).await.unwrap());
        same!(two, r => r.device_then(id, Point::At(at)).await.unwrap());
        same!(two, r => r.history(&device(i), None, 3).await.unwrap());
        same!(two, r => r.history(&device(i), Some(20), 100).await.unwrap());
        let row = async |r: &Reads| r.device_row(id).await.unwrap().map(|row| normal(Page { rows: vec![row], next: None }).rows);
        same!(two, r => row(r).await);
    }
    let ids: Vec<_> = (1..=5).filter_map(|i| if let StreamId::Device(id) = device(i) { Some(id) } else { None }).collect();
    let site = two.file.sites().await.unwrap()[0].id.clone();
    same!(two, r => r.sites().await.unwrap());
    same!(two, r => r.site(&site).await.unwrap());
    same!(two, r => r.configs(&site).await.unwrap());
    same!(two, r => r.device_list(site.as_str()).await.unwrap());
    same!(two, r => r.devices_with_plans().await.unwrap());
    let by_id = async |r: &Reads| {
        let mut found = r.devices_by_id(site.as_str(), &ids).await.unwrap();
        found.sort_by_key(|l| l.id);
        found
    };
    same!(two, r => by_id(r).await);
    let by_name = async |r: &Reads| {
        let mut found = r.devices_by_name(site.as_str(), &["gpu03", "gpu07", "nobody"]).await.unwrap();
        found.sort_by_key(|l| l.id);
        found
    };
    same!(two, r => by_name(r).await);
    same!(two, r => r.orphans(&OrphanFilter::default(), None, 10).await.unwrap());
    let some = OrphanFilter { sites: Some(vec!["s1".into()]), source: Some("slurm".into()), ..Default::default() };
    same!(two, r => r.orphans(&some, Some(["s1", "a", "b"]), 10).await.unwrap());
    let parked = same!(two, r => r.parked(false, 10).await.unwrap());
    assert!(parked.contains("who knows"), "{parked}");
    same!(two, r => r.parked_one("fm.commands.v1", 3, 4).await.unwrap());
    same!(two, r => r.parked(true, 10).await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn every_question_has_the_same_answer_in_both_databases() {
    let Some(place) = Place::schemas("postgres::questions::every_question_has_the_same_answer_in_both_databases") else { return };
    let folder = Place::folder();
    let world = World::new().await;
    history(&world).await;
    let (topic, at) = (Topics::embedded().at(topics::PARKED, 0), world.clock.now());
    let parked = |offset| Parked {
        topic: "fm.commands.v1".into(),
        partition: 3,
        offset,
        key: b"device/x".to_vec().into(),
        value: vec![0, 159, 146, 150].into(),
        parked_by: "decider".into(),
        why: "who knows".into(),
        parked_at: at,
        hash: Hash([7; 32]),
    };
    let records = [parked(4), parked(5), parked(4)].map(|p| Record { key: "device/x".into(), value: encode(&p).into() });
    world.log.append(topic, records.into()).await.unwrap();
    let (file, schema) = (generations(&folder, world.log.clone()).await.unwrap(), generations(&place, world.log.clone()).await.unwrap());
    for all in [&file, &schema] {
        all.feed().await.unwrap();
        caught_up(all, &world).await;
    }
    let two = Two { file: file.reads().borrow().clone(), schema: schema.reads().borrow().clone() };
    for reads in [&two.file, &two.schema] {
        crate::world::until(|| async {
            let parked = reads.parked(false, 10).await.unwrap().len();
            if parked == 2 { Ok(()) } else { Err(format!("{parked} parked")) }
        })
        .await;
    }
    let StreamId::Device(id) = device(3) else { unreachable!() };
    lists(&two, id).await;
    single(&two, at).await;
    for all in [&file, &schema] {
        all.watch(cancelled()).await.unwrap();
    }
}
