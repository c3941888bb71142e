//! A batch of changes as rows, in one transaction with the positions.

use crate::db::{Db, Error};
use crate::fold::{Changes, Fold, Known, freeze};
use crate::orphans;
use fleet_lifecycle::device::{Condition, TaskState, tenant_state};
use fleet_lifecycle::{Device, Entity, Sense, condition_type};
use fleet_schemas::{Effect, Severity, Status, StreamId};
use serde_json::json;
use sqlx::{QueryBuilder, Sqlite, SqliteConnection};
use std::sync::Arc;

/// Rows that one statement carries, the most first: so few that each is parsed once and kept.
const ROWS: [usize; 4] = [64, 16, 4, 1];

/// Cuts rows into as few statements as these sizes allow.
fn statements<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = ROWS.into_iter().find(|size| *size <= rows.len())?;
        let (some, rest) = rows.split_at(size);
        rows = rest;
        Some(some)
    })
}

/// Writes what the fold changed. Nothing is written unless every position stands where this projector left it.
pub(crate) async fn write(db: &Db, fold: &Fold) -> Result<(), Error> {
    let mut transaction = db.write.begin_with("BEGIN IMMEDIATE").await?;
    let changes = &fold.changes;
    positions(&mut transaction, changes).await?;
    let known: Vec<(&StreamId, &Known)> = changes.streams.iter().filter_map(|s| Some((s, fold.cache.get(s)?))).collect();
    streams(&mut transaction, &known).await?;
    let devices: Vec<_> = known.iter().filter_map(|(_, k)| Some((k.entity.device()?, *k))).collect();
    device_rows(&mut transaction, &devices).await?;
    orphans::write(&mut transaction, &known).await?;
    conditions(&mut transaction, fold).await?;
    attention(&mut transaction, fold).await?;
    history(&mut transaction, changes).await?;
    operations(&mut transaction, changes).await?;
    configs(&mut transaction, changes).await?;
    transaction.commit().await?;
    Ok(())
}

/// Writes what happened, and forgets it; what it led to is written later.
pub(crate) async fn told(db: &Db, changes: &mut Changes) -> Result<(), Error> {
    let mut transaction = db.write.begin_with("BEGIN IMMEDIATE").await?;
    history(&mut transaction, changes).await?;
    operations(&mut transaction, changes).await?;
    configs(&mut transaction, changes).await?;
    transaction.commit().await?;
    changes.history.clear();
    changes.operations.clear();
    changes.configs.clear();
    Ok(())
}

async fn positions(c: &mut SqliteConnection, changes: &Changes) -> Result<(), Error> {
    for (partition, (before, position)) in &changes.positions {
        let state = postcard::to_allocvec(position).map_err(|e| Error::Corrupt(e.to_string()))?;
        let done = sqlx::query("UPDATE position SET next = $2, state = $3 WHERE partition = $1 AND next = $4")
            .bind(*partition)
            .bind(position.next as i64)
            .bind(state)
            .bind(*before as i64)
            .execute(&mut *c)
            .await?;
        if done.rows_affected() != 1 {
            return Err(Error::Overtaken { partition: *partition });
        }
    }
    Ok(())
}

async fn streams(c: &mut SqliteConnection, known: &[(&StreamId, &Known)]) -> Result<(), Error> {
    for rows in statements(known) {
        let frozen: Result<Vec<_>, _> = rows.iter().map(|(_, k)| freeze(&k.entity)).collect();
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new("INSERT INTO stream (id, version, hash, state, at, stopped) ");
        q.push_values(rows.iter().zip(frozen?), |mut row, ((id, known), state)| {
            row.push_bind(id.to_string())
                .push_bind(known.head.version as i64)
                .push_bind(known.head.hash.0.to_vec())
                .push_bind(state)
                .push_bind(known.at.0)
                .push_bind(known.stopped.clone());
        });
        q.push(" ON CONFLICT (id) DO UPDATE SET version = excluded.version, hash = excluded.hash, state = excluded.state, at = excluded.at, stopped = excluded.stopped");
        q.build().execute(&mut *c).await?;
    }
    Ok(())
}

async fn device_rows(c: &mut SqliteConnection, devices: &[(&Arc<Device>, &Known)]) -> Result<(), Error> {
    let listed: Vec<_> = devices.iter().filter(|(d, _)| d.inventory.is_some()).collect();
    for rows in statements(&listed) {
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new(
            "INSERT INTO device (id, name, site, role, phase, phase_since, owner, tenant_state, rack, slurm_node, conditions_bad, plans, version, updated_at) ",
        );
        q.push_values(rows, |mut row, (device, known)| {
            let inventory = device.inventory.as_ref();
            row.push_bind(device.id.0.as_bytes().to_vec())
                .push_bind(device.name())
                .push_bind(device.site.as_ref().map_or_else(String::new, |s| s.to_string()))
                .push_bind(inventory.map_or_else(String::new, |i| i.role.clone()))
                .push_bind(device.phase.map(|p| p.as_str()))
                .push_bind(device.phase_since.0)
                .push_bind(device.owner.as_str())
                .push_bind(tenant_state(device.phase, impaired(device)))
                .push_bind(inventory.and_then(|i| i.rack.clone()))
                .push_bind(inventory.and_then(|i| i.slurm_node.clone()))
                .push_bind(bad(device))
                .push_bind(device.tasks.values().filter(|t| t.state == TaskState::Open).count() as i64)
                .push_bind(known.head.version as i64)
                .push_bind(known.at.0);
        });
        q.push(
            " ON CONFLICT (id) DO UPDATE SET name = excluded.name, site = excluded.site, role = excluded.role, phase = excluded.phase,
              phase_since = excluded.phase_since, owner = excluded.owner, tenant_state = excluded.tenant_state, rack = excluded.rack,
              slurm_node = excluded.slurm_node, conditions_bad = excluded.conditions_bad, plans = excluded.plans, version = excluded.version, updated_at = excluded.updated_at",
        );
        q.build().execute(&mut *c).await?;
    }
    Ok(())
}

/// Whether an effect bears on what a tenant gets.
fn impaired(device: &Device) -> bool {
    [Effect::RequireDrain, Effect::Fatal, Effect::PreventAllocation].into_iter().any(|e| device.effect(e).is_some())
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

async fn conditions(c: &mut SqliteConnection, fold: &Fold) -> Result<(), Error> {
    let find = |(device, r#type, subject): &(fleet_schemas::DeviceId, String, String)| {
        let Entity::Device(state) = &fold.cache.get(&StreamId::Device(*device))?.entity else { return None };
        Some((*device, state.conditions.get(r#type, subject)?))
    };
    let changed: Vec<_> = fold.changes.conditions.iter().filter_map(find).collect();
    for rows in statements(&changed) {
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new(
            "INSERT INTO condition (device, type, subject, status, reason, message, severity, effects, source, site, observed_at, last_transition_at, confirmed_live, wrong) ",
        );
        q.push_values(rows, |mut row, (device, c)| {
            row.push_bind(device.0.as_bytes().to_vec())
                .push_bind(c.r#type.clone())
                .push_bind(c.subject.clone())
                .push_bind(c.status.as_str())
                .push_bind(c.reason.clone())
                .push_bind(c.message.clone())
                .push_bind(c.severity.as_str())
                .push_bind(json!(c.effects.iter().map(|e| e.as_str()).collect::<Vec<_>>()).to_string())
                .push_bind(c.source.clone())
                .push_bind(c.site.to_string())
                .push_bind(c.observed_at.0)
                .push_bind(c.last_transition_at.0)
                .push_bind(c.confirmed_live)
                .push_bind(wrong(c));
        });
        q.push(
            " ON CONFLICT (device, type, subject) DO UPDATE SET status = excluded.status, reason = excluded.reason, message = excluded.message,
              severity = excluded.severity, effects = excluded.effects, source = excluded.source, site = excluded.site,
              observed_at = excluded.observed_at, last_transition_at = excluded.last_transition_at, confirmed_live = excluded.confirmed_live,
              wrong = excluded.wrong",
        );
        q.build().execute(&mut *c).await?;
    }
    Ok(())
}

async fn attention(c: &mut SqliteConnection, fold: &Fold) -> Result<(), Error> {
    for (device, name) in &fold.changes.attention {
        let id = device.0.as_bytes().to_vec();
        let state = fold.cache.get(&StreamId::Device(*device)).and_then(|k| k.entity.device());
        let Some(item) = state.and_then(|d| d.attention.get(name)) else {
            sqlx::query("DELETE FROM attention WHERE device = $1 AND item = $2").bind(id).bind(name).execute(&mut *c).await?;
            continue;
        };
        let seen = item.acknowledged.as_ref();
        sqlx::query("INSERT OR REPLACE INTO attention VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
            .bind(id)
            .bind(name)
            .bind(&item.why)
            .bind(json!(item.ways_out).to_string())
            .bind(item.since.0)
            .bind(seen.map(|a| a.by.clone()))
            .bind(seen.map(|a| a.at.0))
            .bind(seen.map(|a| a.reason.clone()))
            .execute(&mut *c)
            .await?;
    }
    Ok(())
}

async fn history(c: &mut SqliteConnection, changes: &Changes) -> Result<(), Error> {
    for rows in statements(&changes.history) {
        let mut q: QueryBuilder<Sqlite> =
            QueryBuilder::new("INSERT INTO history (stream, partition, offset, version, at, outcome, hash, record) ");
        q.push_values(rows, |mut row, told| {
            row.push_bind(told.stream.to_string())
                .push_bind(told.partition)
                .push_bind(told.offset as i64)
                .push_bind(told.version as i64)
                .push_bind(told.at.0)
                .push_bind(&told.outcome)
                .push_bind(told.hash.0.to_vec())
                .push_bind(&told.record);
        });
        q.build().execute(&mut *c).await?;
    }
    Ok(())
}

async fn configs(c: &mut SqliteConnection, changes: &Changes) -> Result<(), Error> {
    for told in &changes.configs {
        let sealed = told.sealed.as_ref().map(postcard::to_allocvec).transpose().map_err(|e| Error::Corrupt(e.to_string()))?;
        sqlx::query("INSERT INTO config_version (stream, version, state, sealed) VALUES ($1, $2, $3, $4)")
            .bind(told.stream.to_string())
            .bind(told.version as i64)
            .bind(&told.state)
            .bind(sealed)
            .execute(&mut *c)
            .await?;
    }
    Ok(())
}

async fn operations(c: &mut SqliteConnection, changes: &Changes) -> Result<(), Error> {
    for (id, told) in &changes.operations {
        if let Some((started, at)) = &told.started {
            sqlx::query(
                "INSERT INTO operation (id, device, verb, state, by_whom, reason, message, started_at, deadline) VALUES ($1, $2, $3, 'running', $4, $5, '', $6, $7)",
            )
            .bind(id.0.as_bytes().to_vec())
            .bind(told.device.0.as_bytes().to_vec())
            .bind(&started.verb)
            .bind(&started.by)
            .bind(&started.reason)
            .bind(at.0)
            .bind(started.deadline.map(|d| d.0))
            .execute(&mut *c)
            .await?;
        }
        if let Some((ended, at)) = &told.ended {
            sqlx::query("UPDATE operation SET state = $2, message = $3, ended_at = $4 WHERE id = $1")
                .bind(id.0.as_bytes().to_vec())
                .bind(ended.state.as_str())
                .bind(&ended.message)
                .bind(at.0)
                .execute(&mut *c)
                .await?;
        }
    }
    Ok(())
}
