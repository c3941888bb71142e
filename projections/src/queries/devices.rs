//! Devices: the list, and one whole.

use super::Reads;
use super::filter::{Expr, Field};
use super::page::{Key, Page, Sort, finish, found, keys, order, reach};
use crate::db::{Db, Error};
use crate::fold::thaw;
use crate::sql::{Dialect, Kind, Line, Sql};
use fleet_lifecycle::Device;
use fleet_schemas::{DeviceId, Hash, StreamId, Timestamp};
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
            None => Sort::by(&[("d.name", Kind::Text), ("d.id", Kind::Uuid)], false),
            Some((field, descending)) => Sort::field(field, descending, &[("d.id", Kind::Uuid)]),
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
        found(&self.db, list(&self.db, filter, sort, after, limit)?, sort, limit, row).await
    }

    /// How many.
    pub async fn count_devices(&self, filter: &DeviceFilter) -> Result<i64, Error> {
        self.db.read.one(select(&self.db, "count(*) AS n", filter)).await?.int("n")
    }

    /// One device whole.
    pub async fn device(&self, id: DeviceId) -> Result<Option<DeviceDoc>, Error> {
        let stream = StreamId::Device(id);
        let sql = self.db.read.sql("SELECT version, hash, state, at, stopped FROM stream WHERE id = $1").with(stream.to_string());
        let Some(found) = self.db.read.optional(sql).await? else { return Ok(None) };
        let Some(state) = thaw(&stream, &found.bytes("state")?)?.device().cloned() else { return Ok(None) };
        Ok(state.inventory.is_some().then_some(DeviceDoc {
            state,
            version: found.number("version")?,
            hash: found.hash("hash")?,
            updated_at: found.time("at")?,
            stopped: found.opt_text("stopped")?,
        }))
    }

    /// The line of one device.
    pub async fn device_row(&self, id: DeviceId) -> Result<Option<DeviceRow>, Error> {
        let sql = self.db.read.sql(format!("SELECT {COLUMNS} FROM device d WHERE d.id = $1")).with(id.0);
        self.db.read.optional(sql).await?.as_ref().map(row).transpose()
    }

    /// Devices with work orders whose effect is not seen yet.
    pub async fn devices_with_plans(&self) -> Result<Vec<DeviceId>, Error> {
        let rows = self.db.read.all(self.db.read.sql("SELECT id FROM device WHERE plans > 0 ORDER BY id")).await?;
        rows.iter().map(|row| Ok(DeviceId(row.uuid("id")?))).collect()
    }

    /// Every device of a site, for its agents.
    pub async fn device_list(&self, site: &str) -> Result<Vec<Listed>, Error> {
        listed(&self.db, self.db.read.sql("SELECT id, name, slurm_node FROM device WHERE site = $1 ORDER BY name, id").with(site)).await
    }

    /// Those devices of a site that have one of these ids.
    pub async fn devices_by_id(&self, site: &str, ids: &[DeviceId]) -> Result<Vec<Listed>, Error> {
        if ids.is_empty() { Ok(vec![]) } else { listed(&self.db, by_id(&self.db, site, ids)).await }
    }

    /// Those devices of a site that have one of these names.
    pub async fn devices_by_name(&self, site: &str, names: &[&str]) -> Result<Vec<Listed>, Error> {
        if names.is_empty() { Ok(vec![]) } else { listed(&self.db, by_name(&self.db, site, names)).await }
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

async fn listed(db: &Db, q: Sql) -> Result<Vec<Listed>, Error> {
    let row = |r: &Line| Ok(Listed { id: DeviceId(r.uuid("id")?), name: r.text("name")?, slurm_node: r.opt_text("slurm_node")? });
    db.read.all(q).await?.iter().map(row).collect()
}

pub(super) fn by_id(db: &Db, site: &str, ids: &[DeviceId]) -> Sql {
    // The site does not choose the index: the ids do.
    let at = if db.read.dialect() == Dialect::Sqlite { "+site" } else { "site" };
    let mut q = db.read.sql(format!("SELECT id, name, slurm_node FROM device WHERE {at} = "));
    q.bind(site).push(" AND ").among("id", ids.iter().map(|id| id.0));
    q
}

pub(super) fn by_name(db: &Db, site: &str, names: &[&str]) -> Sql {
    let mut q = db.read.sql("SELECT id, name, slurm_node FROM device WHERE site = ");
    q.bind(site).push(" AND ").among("name", names.iter().copied());
    q
}

/// The page's ids first, which an index has beside what most lists are narrowed by; then their lines.
pub(super) fn list(db: &Db, filter: &DeviceFilter, sort: &Sort, after: Option<&[Key]>, limit: u32) -> Result<Sql, Error> {
    let mut q = db.read.sql(format!("SELECT {COLUMNS}{} FROM (SELECT d.id AS hit FROM device d WHERE 1 = 1", keys(db, sort)));
    narrow(&mut q, filter);
    finish(&mut q, sort, after, limit)?;
    let order = order(q.dialect, sort);
    // SQLite takes a CROSS JOIN from left to right; left to itself it may walk all devices in order and look each up in the page.
    q.push(format!(") AS page CROSS JOIN device d WHERE d.id = page.hit ORDER BY {order}"));
    Ok(q)
}

pub(super) fn select(db: &Db, columns: &str, filter: &DeviceFilter) -> Sql {
    let mut q = db.read.sql(format!("SELECT {columns} FROM device d WHERE 1 = 1"));
    narrow(&mut q, filter);
    q
}

fn narrow(q: &mut Sql, filter: &DeviceFilter) {
    reach(q, "d.site", filter.sites.as_deref(), true);
    for (column, value) in [("d.name", &filter.name), ("d.phase", &filter.phase)] {
        if let Some(value) = value {
            q.push(format!(" AND {column} = ")).bind(value);
        }
    }
    if let Some(matching) = &filter.matching {
        q.push(" AND ");
        matching.push(q);
    }
}

fn row(r: &Line) -> Result<DeviceRow, Error> {
    Ok(DeviceRow {
        id: DeviceId(r.uuid("id")?),
        name: r.text("name")?,
        site: r.text("site")?,
        role: r.text("role")?,
        phase: r.opt_text("phase")?,
        phase_since: r.time("phase_since")?,
        owner: r.text("owner")?,
        tenant_state: r.text("tenant_state")?,
        rack: r.opt_text("rack")?,
        slurm_node: r.opt_text("slurm_node")?,
        conditions_bad: r.json("conditions_bad")?,
        version: r.number("version")?,
        updated_at: r.time("updated_at")?,
    })
}
