//! `/api/core/object-changes/`: the feed of record.

use std::sync::{Arc, LazyLock};

use chrono::{DateTime, Utc};

use super::devices::{BRIEF, DEVICE, SNAPSHOT, View, display, time};
use super::paging::Filter;
use super::{Visit, bad_value, detail};
use crate::http::Answer;
use crate::shape::{Shape, Slot, plain, text};
use crate::world::{Catalog, Change, Device, NetboxFault};

/// A record with what it refers to.
#[derive(Clone)]
struct Record {
    change: Arc<Change>,
    /// The device as it is now; None = it is gone, and so the record's `changed_object` is null.
    now: Option<Arc<Device>>,
    catalog: Arc<Catalog>,
}

static CHANGE: LazyLock<Shape<Record>> = LazyLock::new(|| Shape::parse(include_str!("shapes/change.shape"), SLOTS));

const SLOTS: &[(&str, Slot<Record>)] = &[
    ("id", |r, o| plain(o, r.change.id)),
    ("url", |r, o| plain(o, format_args!("\"{}/api/core/object-changes/{}/\"", r.catalog.base, r.change.id))),
    ("display_url", |r, o| plain(o, format_args!("\"{}/core/changelog/{}/\"", r.catalog.base, r.change.id))),
    ("display", |r, o| {
        let done = r.change.action.words().1.to_lowercase();
        text(o, &format!("DCIM | device {} {done} by {}", r.object(), r.change.user));
    }),
    ("time", |r, o| text(o, &time(r.change.time))),
    ("user", |r, o| {
        // admin is the first user, people come after.
        let id = if r.change.user == "admin" { 1 } else { 2 };
        let url = format!("{}/api/users/users/{id}/", r.catalog.base);
        let user = &r.change.user;
        plain(o, serde_json::json!({ "id": id, "url": url, "display": user, "username": user }));
    }),
    ("user_name", |r, o| text(o, &r.change.user)),
    ("request_id", |r, o| text(o, &r.change.request_id.to_string())),
    ("action", |r, o| {
        let (value, label) = r.change.action.words();
        plain(o, format_args!(r#"{{"value":"{value}","label":"{label}"}}"#));
    }),
    ("device_id", |r, o| plain(o, r.change.device)),
    ("changed_object", |r, o| match &r.now {
        Some(device) => {
            let brief = DEVICE.choose(|name| BRIEF.contains(&name));
            DEVICE.write(&View { device: device.clone(), catalog: r.catalog.clone() }, Some(&brief), o);
        }
        None => o.push_str("null"),
    }),
    ("repr", |r, o| text(o, &r.object())),
    ("message", |r, o| text(o, &r.change.note)),
    ("before", |r, o| r.snapshot(r.change.before.as_ref(), o)),
    ("after", |r, o| r.snapshot(r.change.after.as_ref(), o)),
];

impl Record {
    /// The device's text at the time of the change.
    fn object(&self) -> String {
        let device = self.change.after.as_ref().or(self.change.before.as_ref());
        device.map(|d| display(d, &self.catalog)).unwrap_or_default()
    }

    fn snapshot(&self, device: Option<&Arc<Device>>, out: &mut String) {
        match device {
            Some(device) => SNAPSHOT.write(&View { device: device.clone(), catalog: self.catalog.clone() }, None, out),
            None => out.push_str("{}"),
        }
    }
}

impl Visit<'_> {
    /// A page of records, newest first unless asked otherwise.
    pub(super) fn change_list(&self) -> Result<Answer, Answer> {
        let filters = if self.fault == NetboxFault::IgnoreFilters { Vec::new() } else { self.change_filters()? };
        let rows: Vec<Record> = {
            let state = self.world.lock();
            let record = |change: &Arc<Change>| Record {
                now: state.devices.get(&change.device).cloned(),
                change: change.clone(),
                catalog: self.catalog.clone(),
            };
            state.changes.values().map(record).collect()
        };
        let order = |rows: &mut Vec<Record>, ordering: Option<&str>| match ordering {
            Some("id") => rows.sort_by_key(|r| r.change.id),
            Some("-id") => rows.sort_by_key(|r| std::cmp::Reverse(r.change.id)),
            Some("time") => rows.sort_by_key(|r| (r.change.time, r.change.id)),
            _ => rows.sort_by_key(|r| std::cmp::Reverse((r.change.time, r.change.id))),
        };
        let wanted = self.wanted(&CHANGE, &[]);
        self.page(rows, &filters, |r| r.change.id, order, |r, out| CHANGE.write(r, Some(&wanted), out))
    }

    /// One record, or 404.
    pub(super) fn change(&self, id: u64) -> Result<Answer, Answer> {
        let state = self.world.lock();
        let change = state.changes.get(&id).cloned().ok_or_else(|| detail(404, "No ObjectChange matches the given query."))?;
        let record = Record { now: state.devices.get(&change.device).cloned(), change, catalog: self.catalog.clone() };
        let mut out = String::new();
        CHANGE.write(&record, None, &mut out);
        Ok(Answer::json(200, out))
    }

    fn change_filters(&self) -> Result<Vec<Filter<Record>>, Answer> {
        let mut filters: Vec<Filter<Record>> = Vec::new();
        for (key, value) in &self.call.query {
            let whole = || value.parse::<u64>().map_err(|_| bad_value(key, "Enter a whole number."));
            let at = || value.parse::<DateTime<Utc>>().map_err(|_| bad_value(key, "Enter a valid date/time."));
            let given: Vec<String> = self.call.query.iter().filter(|(k, _)| k == key).map(|(_, v)| v.clone()).collect();
            filters.push(match key.as_str() {
                "id__gt" | "id__gte" | "id__lt" | "id__lte" => {
                    let (bound, way) = (whole()?, key.clone());
                    keeps(move |c| match way.as_str() {
                        "id__gt" => c.id > bound,
                        "id__gte" => c.id >= bound,
                        "id__lt" => c.id < bound,
                        _ => c.id <= bound,
                    })
                }
                "time_after" => at().map(|bound| keeps(move |c| c.time >= bound))?,
                "time_before" => at().map(|bound| keeps(move |c| c.time <= bound))?,
                "id" => keeps(move |c| given.contains(&c.id.to_string())),
                "action" => keeps(move |c| given.iter().any(|a| a == c.action.words().0)),
                "changed_object_type" => keeps(move |_| given.iter().any(|t| t == "dcim.device")),
                "changed_object_id" => keeps(move |c| given.contains(&c.device.to_string())),
                "user" | "user_name" => keeps(move |c| given.contains(&c.user)),
                "request_id" => keeps(move |c| given.contains(&c.request_id.to_string())),
                _ => continue,
            });
        }
        Ok(filters)
    }
}

fn keeps(keeps: impl Fn(&Change) -> bool + 'static) -> Filter<Record> {
    Box::new(move |record| keeps(&record.change))
}
