//! `/api/dcim/devices/`: how a device looks, which filters there are.

use std::cmp::Ordering;
use std::sync::{Arc, LazyLock};

use chrono::{DateTime, SecondsFormat, Utc};

use super::paging::Filter;
use super::{Visit, bad_value, detail};
use crate::http::Answer;
use crate::shape::{Shape, Slot, plain, text, text_or_null, texts};
use crate::world::{Catalog, Device, NetboxFault, Place};

/// NetBox's stock statuses: value and label.
pub(super) const STATUSES: [(&str, &str); 7] = [
    ("offline", "Offline"),
    ("active", "Active"),
    ("planned", "Planned"),
    ("staged", "Staged"),
    ("failed", "Failed"),
    ("inventory", "Inventory"),
    ("decommissioning", "Decommissioning"),
];

/// The fields of `brief=true`.
pub(super) const BRIEF: [&str; 5] = ["id", "url", "display", "name", "description"];

type Keeps = Filter<Arc<Device>>;

/// A device with what it refers to.
pub(super) struct View {
    pub(super) device: Arc<Device>,
    pub(super) catalog: Arc<Catalog>,
}

pub(super) static DEVICE: LazyLock<Shape<View>> = LazyLock::new(|| Shape::parse(include_str!("shapes/device.shape"), SLOTS));
/// The same device as change records keep it: bare ids and values.
pub(super) static SNAPSHOT: LazyLock<Shape<View>> = LazyLock::new(|| Shape::parse(include_str!("shapes/snapshot.shape"), SLOTS));

const SLOTS: &[(&str, Slot<View>)] = &[
    ("id", |v, o| plain(o, v.device.id)),
    ("url", |v, o| plain(o, format_args!("\"{}/api/dcim/devices/{}/\"", v.catalog.base, v.device.id))),
    ("display_url", |v, o| plain(o, format_args!("\"{}/dcim/devices/{}/\"", v.catalog.base, v.device.id))),
    ("display", |v, o| text(o, &display(&v.device, &v.catalog))),
    ("name", |v, o| text_or_null(o, v.device.name.as_deref())),
    ("serial", |v, o| text(o, &v.device.serial)),
    ("asset_tag", |v, o| text_or_null(o, v.device.asset_tag.as_deref())),
    ("description", |v, o| text(o, &v.device.description)),
    ("device_type", |v, o| nested(o, v.catalog.device_types.find(&v.device.device_type))),
    ("device_type_id", |v, o| bare(o, v.catalog.device_types.find(&v.device.device_type))),
    ("role", |v, o| nested(o, v.catalog.roles.find(&v.device.role))),
    ("role_id", |v, o| bare(o, v.catalog.roles.find(&v.device.role))),
    ("site", |v, o| nested(o, v.catalog.sites.find(&v.device.site))),
    ("site_id", |v, o| bare(o, v.catalog.sites.find(&v.device.site))),
    ("tenant", |v, o| nested(o, v.device.tenant.as_ref().and_then(|t| v.catalog.tenants.find(t)))),
    ("tenant_id", |v, o| bare(o, v.device.tenant.as_ref().and_then(|t| v.catalog.tenants.find(t)))),
    ("rack", |v, o| nested(o, v.device.rack.as_ref().and_then(|r| v.catalog.racks.find(r)))),
    ("rack_id", |v, o| bare(o, v.device.rack.as_ref().and_then(|r| v.catalog.racks.find(r)))),
    ("position", |v, o| text_or_plain(o, v.device.position, plain)),
    ("position_bare", |v, o| text_or_plain(o, v.device.position, |o, p| plain(o, format_args!("\"{p}.0\"")))),
    ("face", |v, o| o.push_str(if v.device.position.is_some() { r#"{"value":"front","label":"Front"}"# } else { "null" })),
    ("face_bare", |v, o| o.push_str(if v.device.position.is_some() { r#""front""# } else { r#""""# })),
    ("status", |v, o| {
        let label = STATUSES.iter().find(|(value, _)| *value == v.device.status).map_or("", |(_, label)| label);
        o.push_str(r#"{"value":"#);
        text(o, &v.device.status);
        plain(o, format_args!(r#","label":"{label}"}}"#));
    }),
    ("status_bare", |v, o| text(o, &v.device.status)),
    ("tags", |v, o| {
        let tags: Vec<&str> = v.device.tags.iter().filter_map(|t| v.catalog.tags.find(t)).map(|t| t.nested.as_str()).collect();
        plain(o, format_args!("[{}]", tags.join(",")));
    }),
    ("tag_names", |v, o| {
        let mut tags = v.device.tags.clone();
        tags.sort();
        texts(o, &tags);
    }),
    // A map of JSON values always prints.
    ("custom_fields", |v, o| o.push_str(&serde_json::to_string(&v.device.custom_fields).unwrap_or_default())),
    ("created", |v, o| text(o, &time(v.device.created))),
    ("last_updated", |v, o| text(o, &time(v.device.last_updated))),
];

/// NetBox's text for a device: name and asset tag; without a name, its make and id.
pub(super) fn display(device: &Device, catalog: &Catalog) -> String {
    match (device.name.as_deref().filter(|n| !n.is_empty()), &device.asset_tag) {
        (Some(name), Some(tag)) => format!("{name} ({tag})"),
        (Some(name), None) => name.to_owned(),
        (None, _) => format!("{} ({})", catalog.device_types.find(&device.device_type).map_or("", |t| &t.name), device.id),
    }
}

/// REST's form of a time.
pub(super) fn time(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// The weak ETag of a single object.
pub(super) fn etag(device: &Device) -> String {
    format!("W/\"{}\"", device.last_updated.to_rfc3339_opts(SecondsFormat::Micros, false))
}

fn nested(out: &mut String, place: Option<&Place>) {
    out.push_str(place.map_or("null", |p| &p.nested));
}

fn bare(out: &mut String, place: Option<&Place>) {
    text_or_plain(out, place.map(|p| p.id), plain);
}

fn text_or_plain<T>(out: &mut String, value: Option<T>, write: impl Fn(&mut String, T)) {
    match value {
        Some(value) => write(out, value),
        None => out.push_str("null"),
    }
}

impl Visit<'_> {
    /// One device, or 404.
    pub(super) fn device(&self, id: u64) -> Result<Answer, Answer> {
        let device = self.world.lock().devices.get(&id).filter(|_| !self.fault.hides(id)).cloned().ok_or_else(no_device)?;
        Ok(self.device_answer(device))
    }

    pub(super) fn device_answer(&self, device: Arc<Device>) -> Answer {
        let etag = etag(&device);
        let view = View { device, catalog: self.catalog.clone() };
        let mut out = String::new();
        DEVICE.write(&view, Some(&self.wanted(&DEVICE, &BRIEF)), &mut out);
        Answer::json(200, out).with("ETag", etag)
    }

    /// A page of devices.
    pub(super) fn device_list(&self) -> Result<Answer, Answer> {
        let filters = if self.fault == NetboxFault::IgnoreFilters { Vec::new() } else { self.device_filters()? };
        let rows: Vec<Arc<Device>> = self.world.lock().devices.values().filter(|d| !self.fault.hides(d.id)).cloned().collect();
        if self.fault == NetboxFault::HalfSweep {
            let first = rows.first().map_or(0, |d| d.id);
            let at = |name: &str| self.call.param(name).and_then(|v| v.parse::<u64>().ok()).unwrap_or(0);
            if at("offset") > 0 || at("start") > first {
                return Err(Answer::json(500, r#"{"error":"simulated fault","exception":"OperationalError"}"#));
            }
        }
        let wanted = self.wanted(&DEVICE, &BRIEF);
        let write = |device: &Arc<Device>, out: &mut String| {
            let view = View { device: device.clone(), catalog: self.catalog.clone() };
            DEVICE.write(&view, Some(&wanted), out);
        };
        self.page(rows, &filters, |d| d.id, |rows, ordering| rows.sort_by(|a, b| compare(a, b, ordering.unwrap_or("name"))), write)
    }

    fn device_filters(&self) -> Result<Vec<Keeps>, Answer> {
        let mut keys: Vec<&str> = self.call.query.iter().map(|(k, _)| k.as_str()).collect();
        keys.sort_unstable();
        keys.dedup();
        let mut filters = Vec::new();
        for key in keys {
            let given = self.call.query.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect();
            filters.extend(self.device_filter(key, given)?);
        }
        Ok(filters)
    }

    /// The filter behind one parameter, which may be given more than once (OR); None = NetBox does not know it and ignores it.
    fn device_filter(&self, key: &str, given: Vec<String>) -> Result<Option<Keeps>, Answer> {
        let catalog = &self.catalog;
        let known = |known: &dyn Fn(&str) -> bool| match given.iter().find(|v| !known(v)) {
            Some(odd) => Err(bad_value(key, &format!("Select a valid choice. {odd} is not one of the available choices."))),
            None => Ok(()),
        };
        match key {
            "status" => known(&|v| STATUSES.iter().any(|(status, _)| *status == v))?,
            "site" => known(&|v| catalog.sites.find(v).is_some())?,
            "role" => known(&|v| catalog.roles.find(v).is_some())?,
            "tag" => known(&|v| catalog.tags.find(v).is_some())?,
            "id" if given.iter().any(|v| v.parse::<u64>().is_err()) => return Err(bad_value(key, "Enter a whole number.")),
            _ => {}
        }
        Ok(Some(match key {
            "id" => keeps(move |d| given.contains(&d.id.to_string())),
            "name" => keeps(move |d| d.name.as_ref().is_some_and(|n| given.contains(n))),
            "serial" => keeps(move |d| given.contains(&d.serial)),
            "asset_tag" => keeps(move |d| d.asset_tag.as_ref().is_some_and(|t| given.contains(t))),
            "status" => keeps(move |d| given.contains(&d.status)),
            "site" => keeps(move |d| given.contains(&d.site)),
            "role" => keeps(move |d| given.contains(&d.role)),
            "tag" => keeps(move |d| given.iter().all(|t| d.tags.contains(t))),
            "site_id" => {
                let sites = catalog.sites.rows().iter().filter(|s| given.contains(&s.id.to_string()));
                let slugs: Vec<String> = sites.map(|s| s.slug.clone()).collect();
                keeps(move |d| slugs.contains(&d.site))
            }
            _ if key.starts_with("cf_") => {
                let field = key.trim_start_matches("cf_").to_owned();
                let value = move |d: &Device| d.custom_fields.get(&field).and_then(|v| v.as_str().map(str::to_owned));
                keeps(move |d| value(d).is_some_and(|v| given.contains(&v)))
            }
            _ if key.starts_with("last_updated") => updated_filter(key, &given)?,
            _ => return Ok(None),
        }))
    }
}

fn keeps(keeps: impl Fn(&Device) -> bool + 'static) -> Keeps {
    Box::new(move |device| keeps(device))
}

/// `last_updated`, `last_updated__gte` and so on.
fn updated_filter(key: &str, given: &[String]) -> Result<Keeps, Answer> {
    let bound = given.last().and_then(|v| v.parse::<DateTime<Utc>>().ok()).ok_or_else(|| bad_value(key, "Enter a valid date/time."))?;
    let passes: fn(Ordering) -> bool = match key {
        "last_updated__gt" => Ordering::is_gt,
        "last_updated__gte" => Ordering::is_ge,
        "last_updated__lt" => Ordering::is_lt,
        "last_updated__lte" => Ordering::is_le,
        _ => Ordering::is_eq,
    };
    Ok(keeps(move |d| passes(d.last_updated.cmp(&bound))))
}

/// NetBox's default order is by name, which is why a rename moves a device across offset pages; null names come last.
fn compare(a: &Device, b: &Device, ordering: &str) -> Ordering {
    let by_name = || (a.name.is_none(), &a.name).cmp(&(b.name.is_none(), &b.name));
    let order = match ordering.trim_start_matches('-') {
        "id" => a.id.cmp(&b.id),
        "last_updated" => a.last_updated.cmp(&b.last_updated),
        "created" => a.created.cmp(&b.created),
        "status" => a.status.cmp(&b.status),
        _ => by_name(),
    };
    let order = if ordering.starts_with('-') { order.reverse() } else { order };
    order.then(a.id.cmp(&b.id))
}

/// 404 with NetBox's text.
pub(super) fn no_device() -> Answer {
    detail(404, "No Device matches the given query.")
}
