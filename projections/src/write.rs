//! A batch of changes as rows, in one transaction with the positions.

use crate::db::{Db, Error};
use crate::fold::{Changes, Fold, Known, freeze};
use crate::rows::{self, ATTENTION, CONDITION, CONFIG_VERSION, DEVICE, HISTORY, OPERATION, OPERATION_END, ORPHAN, POSITION, Row, STREAM};
use crate::sql::{Dialect, Transaction, Value};
use fleet_fence::Position;
use fleet_lifecycle::device::{Condition, TaskState, tenant_state};
use fleet_lifecycle::{Device, Entity, Sense, Unclaimed, condition_type};
use fleet_schemas::{DeviceId, Severity, Status, StreamId};
use serde_json::json;
use std::collections::BTreeMap;

/// Writes what the fold changed. Nothing is written unless every position stands where this projector left it.
pub(crate) async fn write(db: &Db, fold: &Fold) -> Result<(), Error> {
    let mut t = db.write.begin().await?;
    let changes = &fold.changes;
    positions(&mut t, changes).await?;
    let known: Vec<(&StreamId, &Known)> = changes.streams.iter().filter_map(|s| Some((s, fold.cache.get(s)?))).collect();
    let streams: Result<Vec<Row>, Error> = known.iter().map(|(id, known)| stream(id, known)).collect();
    rows::put(&mut t, &STREAM, streams?).await?;
    let listed = known.iter().filter_map(|(_, k)| Some((k.entity.device()?, *k))).filter(|(d, _)| d.inventory.is_some());
    rows::put(&mut t, &DEVICE, listed.map(|(d, known)| device(d, known)).collect()).await?;
    orphans(&mut t, &known).await?;
    rows::put(&mut t, &CONDITION, conditions(fold)).await?;
    attention(&mut t, fold).await?;
    events(&mut t, changes).await?;
    t.commit().await
}

/// Writes what happened, and forgets it; what it led to is written later.
pub(crate) async fn told(db: &Db, changes: &mut Changes) -> Result<(), Error> {
    let mut t = db.write.begin().await?;
    events(&mut t, changes).await?;
    t.commit().await?;
    changes.history.clear();
    changes.operations.clear();
    changes.configs.clear();
    Ok(())
}

async fn events(t: &mut Transaction, changes: &Changes) -> Result<(), Error> {
    rows::put(t, &HISTORY, history(changes)).await?;
    operations(t, changes).await?;
    let configs: Result<Vec<Row>, Error> = changes.configs.iter().map(config).collect();
    rows::put(t, &CONFIG_VERSION, configs?).await
}

/// Compare-and-set, first of all: of two projectors one waits here, and then finds that the other was there. In order, so that two that wait
/// never wait for each other.
async fn positions(t: &mut Transaction, changes: &Changes) -> Result<(), Error> {
    let mut lock = t.sql("SELECT partition, next FROM position WHERE ");
    lock.among("partition", changes.positions.keys().copied()).push(" ORDER BY partition");
    if t.dialect() == Dialect::Postgres {
        lock.push(" FOR UPDATE");
    }
    let lines = t.all(lock).await?;
    let found =
        lines.iter().map(|row| Ok((row.number("partition")?, row.number("next")?))).collect::<Result<BTreeMap<u32, u64>, Error>>()?;
    if let Some((partition, _)) = changes.positions.iter().find(|(p, (before, _))| found.get(p) != Some(before)) {
        return Err(Error::Overtaken { partition: *partition });
    }
    let row = |(partition, (_, position)): (&u32, &(u64, Position))| -> Result<Row, Error> {
        let state = postcard::to_allocvec(position).map_err(|e| Error::Corrupt(e.to_string()))?;
        Ok(vec![(*partition).into(), position.next.into(), state.into()])
    };
    let moved: Result<Vec<Row>, Error> = changes.positions.iter().map(row).collect();
    rows::put(t, &POSITION, moved?).await
}

fn stream(id: &StreamId, known: &Known) -> Result<Row, Error> {
    Ok(vec![
        id.to_string().into(),
        known.head.version.into(),
        known.head.hash.0.as_slice().into(),
        freeze(&known.entity)?.into(),
        known.at.into(),
        known.stopped.clone().into(),
    ])
}

fn device(device: &Device, known: &Known) -> Row {
    let inventory = device.inventory.as_ref();
    vec![
        device.id.0.into(),
        device.name().into(),
        device.site.as_ref().map_or_else(String::new, |s| s.to_string()).into(),
        inventory.map_or_else(String::new, |i| i.role.clone()).into(),
        device.phase.map(|p| p.as_str()).into(),
        device.phase_since.into(),
        device.owner.as_str().into(),
        tenant_state(device.phase, device.impaired()).into(),
        inventory.and_then(|i| i.rack.clone()).into(),
        inventory.and_then(|i| i.slurm_node.clone()).into(),
        Value::Json(bad(device)),
        Value::Int(device.tasks.values().filter(|t| t.state == TaskState::Open).count() as i64),
        known.head.version.into(),
        known.at.into(),
    ]
}

/// The conditions that stand the wrong way, or are not known.
fn bad(device: &Device) -> String {
    let rows: Vec<_> = device
        .conditions
        .iter()
        .filter(|c| wrong(c))
        .map(|c| json!({"type": c.r#type, "status": c.status.as_str(), "reason": c.reason}))
        .collect();
    serde_json::Value::from(rows).to_string()
}

/// Whether it stands the wrong way, or is not known.
fn wrong(c: &Condition) -> bool {
    match condition_type(&c.r#type).map(|t| t.sense) {
        Some(Sense::Readiness) => c.status != Status::True,
        Some(Sense::Problem) => c.status != Status::False,
        Some(Sense::Fact) => false,
        // Of a type that a site registered: the decider gave it its severity, Info unless it stands the wrong way.
        None => c.severity != Severity::Info,
    }
}

fn conditions(fold: &Fold) -> Vec<Row> {
    let find = |(device, r#type, subject): &(DeviceId, String, String)| {
        let Entity::Device(state) = &fold.cache.get(&StreamId::Device(*device))?.entity else { return None };
        Some(condition(*device, state.conditions.get(r#type, subject)?))
    };
    fold.changes.conditions.iter().filter_map(find).collect()
}

fn condition(device: DeviceId, c: &Condition) -> Row {
    vec![
        device.0.into(),
        c.r#type.to_string().into(),
        c.subject.to_string().into(),
        c.status.as_str().into(),
        c.reason.to_string().into(),
        c.message.to_string().into(),
        c.severity.as_str().into(),
        Value::Words(c.effects.iter().map(|e| e.as_str().to_owned()).collect()),
        c.source.to_string().into(),
        c.site.to_string().into(),
        c.observed_at.into(),
        c.last_transition_at.into(),
        c.confirmed_live.into(),
        wrong(c).into(),
    ]
}

async fn attention(t: &mut Transaction, fold: &Fold) -> Result<(), Error> {
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for (device, name) in &fold.changes.attention {
        let state = fold.cache.get(&StreamId::Device(*device)).and_then(|k| k.entity.device());
        let Some(item) = state.and_then(|d| d.attention.get(name)) else {
            gone.push(vec![device.0.into(), name.into()]);
            continue;
        };
        let seen = item.acknowledged.as_ref();
        there.push(vec![
            device.0.into(),
            name.into(),
            item.why.to_string().into(),
            Value::Words(item.ways_out.iter().map(ToString::to_string).collect()),
            item.since.into(),
            seen.map(|a| a.by.to_string()).into(),
            seen.map(|a| a.at).into(),
            seen.map(|a| a.reason.to_string()).into(),
        ]);
    }
    rows::remove(t, &ATTENTION, gone).await?;
    rows::put(t, &ATTENTION, there).await
}

/// Unclaimed things: a row while one is there and unclaimed, none after.
async fn orphans(t: &mut Transaction, known: &[(&StreamId, &Known)]) -> Result<(), Error> {
    let key = |thing: &Unclaimed| -> Row { vec![thing.site.as_str().into(), thing.source.as_str().into(), (*thing.native_id).into()] };
    let (mut there, mut gone) = (Vec::new(), Vec::new());
    for thing in known.iter().filter_map(|(_, k)| k.entity.unclaimed()) {
        match thing.since {
            Some(since) => there.push([key(thing), vec![thing.detail.to_string().into(), since.into()]].concat()),
            None => gone.push(key(thing)),
        }
    }
    rows::remove(t, &ORPHAN, gone).await?;
    rows::put(t, &ORPHAN, there).await
}

fn history(changes: &Changes) -> Vec<Row> {
    let row = |told: &crate::fold::Told| {
        vec![
            told.stream.to_string().into(),
            told.offset.into(),
            told.partition.into(),
            told.version.into(),
            told.at.into(),
            (&told.outcome).into(),
            told.hash.0.as_slice().into(),
            told.record.as_slice().into(),
        ]
    };
    changes.history.iter().map(row).collect()
}

fn config(told: &crate::fold::ConfigTold) -> Result<Row, Error> {
    let sealed = told.sealed.as_ref().map(postcard::to_allocvec).transpose().map_err(|e| Error::Corrupt(e.to_string()))?;
    Ok(vec![told.stream.to_string().into(), told.version.into(), told.state.as_slice().into(), sealed.into()])
}

/// One that began and ended within the batch is a row at once.
async fn operations(t: &mut Transaction, changes: &Changes) -> Result<(), Error> {
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for (id, told) in &changes.operations {
        let end = told.ended.as_ref();
        let state = end.map_or("running", |(e, _)| e.state.as_str());
        let message = end.map_or("", |(e, _)| &e.message);
        let ended_at: Value = end.map(|(_, at)| *at).into();
        match &told.started {
            Some((started, at)) => begun.push(vec![
                id.0.into(),
                told.device.0.into(),
                (&started.verb).into(),
                state.into(),
                (&started.by).into(),
                (&started.reason).into(),
                message.into(),
                (*at).into(),
                ended_at,
                started.deadline.into(),
            ]),
            None => ended.push(vec![id.0.into(), state.into(), message.into(), ended_at]),
        }
    }
    rows::put(t, &OPERATION, begun).await?;
    rows::change(t, &OPERATION_END, ended).await
}
