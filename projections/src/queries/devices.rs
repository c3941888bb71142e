//! Devices: the list, and one whole.

use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, finish, found, keys, order, reach};
use super::{Reads, hash, uuid};
use crate::db::{Db, Error};
use crate::fold::thaw;
use fleet_lifecycle::Device;
use fleet_schemas::{DeviceId, Hash, StreamId, Timestamp};
use sqlx::{QueryBuilder, Row, Sqlite, sqlite::SqliteRow};
use std::sync::Arc;

/// One line of the list.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceRow {
    /// Its id.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// Site.
    pub site: String,
    /// Role.
    pub role: String,
    /// Phase, where it has one.
    pub phase: Option<String>,
    /// Since when.
    pub phase_since: Timestamp,
    /// Whose it is.
    pub owner: String,
    /// What a tenant is told.
    pub tenant_state: String,
    /// Rack.
    pub rack: Option<String>,
    /// SLURM NodeName.
    pub slurm_node: Option<String>,
    /// Conditions that stand the wrong way or are unknown: JSON `[{type, status, reason}]`.
    pub conditions_bad: String,
    /// Version.
    pub version: u64,
    /// When the version last changed.
    pub updated_at: Timestamp,
}

/// Which devices. All that are given must hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeviceFilter {
    /// At one of these sites; `None` = anywhere.
    pub sites: Option<Vec<String>>,
    /// With exactly this name.
    pub name: Option<String>,
    /// With this phase.
    pub phase: Option<String>,
    /// Of which this holds.
    pub matching: Option<Expr>,
}

/// After which line a page begins: lists are ordered by name, then id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// Name of the last line.
    pub name: String,
    /// Its id.
    pub id: DeviceId,
}

/// A device whole.
#[derive(Clone, Debug)]
pub struct DeviceDoc {
    /// Its state.
    pub state: Arc<Device>,
    /// Its version.
    pub version: u64,
    /// Hash of its last accepted record.
    pub hash: Hash,
    /// When its version last changed.
    pub updated_at: Timestamp,
    /// Why nothing further of it is believed.
    pub stopped: Option<String>,
}

const COLUMNS: &str = "d.id, d.name, d.site, d.role, d.phase, d.phase_since, d.owner, d.tenant_state, d.rack, d.slurm_node, d.conditions_bad, d.version, d.updated_at";

impl DeviceRow {
    /// The order where none is asked for, or by a field.
    pub fn sort(by: Option<(&'static Field, bool)>) -> Sort {
        match by {
            None => Sort::by(&["d.name", "d.id"], false),
            Some((field, descending)) => Sort::field(field, descending, &["d.id"]),
        }
    }
}

impl Reads {
    /// One page, ordered by name and id.
    pub async fn devices(&self, filter: &DeviceFilter, after: Option<&ListCursor>, limit: u32) -> Result<Vec<DeviceRow>, Error> {
        let after = after.map(|a| [Key::Text(a.name.clone()), Key::Bytes(a.id.0.as_bytes().to_vec())]);
        let page = self.device_page(filter, &DeviceRow::sort(None), after.as_ref().map(<[_; 2]>::as_slice), limit).await?;
        Ok(page.rows)
    }

    /// One page, in any order.
    pub async fn device_page(
        &self,
        filter: &DeviceFilter,
        sort: &Sort,
        after: Option<&[Key]>,
        limit: u32,
    ) -> Result<Page<DeviceRow>, Error> {
        found(&self.db, list(filter, sort, after, limit), sort, limit, row).await
    }

    /// How many.
    pub async fn count_devices(&self, filter: &DeviceFilter) -> Result<i64, Error> {
        Ok(select("count(*)", filter).build_query_scalar().fetch_one(&self.db.read).await?)
    }

    /// One device whole.
    pub async fn device(&self, id: DeviceId) -> Result<Option<DeviceDoc>, Error> {
        let stream = StreamId::Device(id);
        let found = sqlx::query("SELECT version, hash, state, at, stopped FROM stream WHERE id = $1")
            .bind(stream.to_string())
            .fetch_optional(&self.db.read)
            .await?;
        let Some(found) = found else { return Ok(None) };
        let Some(state) = thaw(&stream, &found.try_get::<Vec<u8>, _>("state")?)?.device().cloned() else { return Ok(None) };
        Ok(state.inventory.is_some().then_some(DeviceDoc {
            state,
            version: found.try_get::<i64, _>("version")? as u64,
            hash: hash(found.try_get("hash")?)?,
            updated_at: Timestamp(found.try_get("at")?),
            stopped: found.try_get("stopped")?,
        }))
    }

    /// The line of one device.
    pub async fn device_row(&self, id: DeviceId) -> Result<Option<DeviceRow>, Error> {
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new(format!("SELECT {COLUMNS} FROM device d WHERE d.id = "));
        q.push_bind(id.0.as_bytes().to_vec());
        q.build().fetch_optional(&self.db.read).await?.as_ref().map(row).transpose()
    }

    /// Devices with work orders whose effect is not seen yet.
    pub async fn devices_with_plans(&self) -> Result<Vec<DeviceId>, Error> {
        let ids: Vec<(Vec<u8>,)> = sqlx::query_as("SELECT id FROM device WHERE plans > 0 ORDER BY id").fetch_all(&self.db.read).await?;
        ids.into_iter().map(|(id,)| Ok(DeviceId(uuid(id)?))).collect()
    }

    /// Every device of a site, for its agents.
    pub async fn device_list(&self, site: &str) -> Result<Vec<Listed>, Error> {
        let mut q = QueryBuilder::new("SELECT id, name, slurm_node FROM device WHERE site = ");
        q.push_bind(site.to_owned()).push(" ORDER BY name, id");
        listed(&self.db, q).await
    }

    /// Those devices of a site that have one of these ids.
    pub async fn devices_by_id(&self, site: &str, ids: &[DeviceId]) -> Result<Vec<Listed>, Error> {
        if ids.is_empty() { Ok(vec![]) } else { listed(&self.db, by_id(site, ids)).await }
    }

    /// Those devices of a site that have one of these names.
    pub async fn devices_by_name(&self, site: &str, names: &[&str]) -> Result<Vec<Listed>, Error> {
        if names.is_empty() { Ok(vec![]) } else { listed(&self.db, by_name(site, names)).await }
    }
}

/// A device as its site's agents have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: DeviceId,
    /// What people call it.
    pub name: String,
    /// SLURM NodeName.
    pub slurm_node: Option<String>,
}

async fn listed(db: &Db, mut q: QueryBuilder<Sqlite>) -> Result<Vec<Listed>, Error> {
    let rows: Vec<(Vec<u8>, String, Option<String>)> = q.build_query_as().fetch_all(&db.read).await?;
    rows.into_iter().map(|(id, name, slurm_node)| Ok(Listed { id: DeviceId(uuid(id)?), name, slurm_node })).collect()
}

pub(super) fn by_id(site: &str, ids: &[DeviceId]) -> QueryBuilder<Sqlite> {
    // The site does not choose the index: the ids do.
    among("+site", site, "id", ids.iter().map(|id| id.0.as_bytes().to_vec()))
}

pub(super) fn by_name(site: &str, names: &[&str]) -> QueryBuilder<Sqlite> {
    among("site", site, "name", names.iter().map(|name| (*name).to_owned()))
}

fn among<'q, T: sqlx::Encode<'q, Sqlite> + sqlx::Type<Sqlite> + 'q>(
    at: &str,
    site: &str,
    column: &str,
    values: impl Iterator<Item = T>,
) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT id, name, slurm_node FROM device WHERE {at} = "));
    q.push_bind(site.to_owned()).push(format!(" AND {column} IN ("));
    let mut list = q.separated(", ");
    for value in values {
        list.push_bind(value);
    }
    q.push(")");
    q
}

/// The page's ids first, which an index has beside what most lists are narrowed by; then their lines.
pub(super) fn list(filter: &DeviceFilter, sort: &Sort, after: Option<&[Key]>, limit: u32) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT {COLUMNS}{} FROM (SELECT d.id AS hit FROM device d WHERE 1 = 1", keys(sort)));
    narrow(&mut q, filter);
    finish(&mut q, sort, after, limit);
    q.push(format!(") JOIN device d ON d.id = hit ORDER BY {}", order(sort)));
    q
}

pub(super) fn select(columns: &str, filter: &DeviceFilter) -> QueryBuilder<Sqlite> {
    let mut q = QueryBuilder::new(format!("SELECT {columns} FROM device d WHERE 1 = 1"));
    narrow(&mut q, filter);
    q
}

fn narrow(q: &mut QueryBuilder<Sqlite>, filter: &DeviceFilter) {
    reach(q, "d.site", filter.sites.as_deref(), true);
    for (column, value) in [("d.name", &filter.name), ("d.phase", &filter.phase)] {
        if let Some(value) = value {
            q.push(format!(" AND {column} = ")).push_bind(value.clone());
        }
    }
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(q);
    }
}

fn row(r: &SqliteRow) -> Result<DeviceRow, Error> {
    Ok(DeviceRow {
        id: DeviceId(uuid(r.try_get("id")?)?),
        name: r.try_get("name")?,
        site: r.try_get("site")?,
        role: r.try_get("role")?,
        phase: r.try_get("phase")?,
        phase_since: Timestamp(r.try_get("phase_since")?),
        owner: r.try_get("owner")?,
        tenant_state: r.try_get("tenant_state")?,
        rack: r.try_get("rack")?,
        slurm_node: r.try_get("slurm_node")?,
        conditions_bad: r.try_get("conditions_bad")?,
        version: r.try_get::<i64, _>("version")? as u64,
        updated_at: Timestamp(r.try_get("updated_at")?),
    })
}
