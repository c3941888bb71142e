//! `object-changes`, the feed of record. Ids are given out when a transaction begins, rows appear when it commits, up to a minute later: a
//! mark by id or time skips them for good (section 2). So each poll reads a window of time again and knows which ids it has seen.

use super::client::{Keyed, Param, Session, in_words};
use super::row::{Choice, PHASE_FIELD, custom_text};
use super::state::{Known, State};
use crate::ClientError;
use fleet_schemas::{Micros, StatusEdit, Timestamp};
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;
use std::collections::{BTreeSet, HashSet};

const PATH: &str = "/api/core/object-changes/";
const DEVICE: &str = "dcim.device";
/// Changes of these make devices dirty; interfaces, addresses and the like do not touch an inventory record.
const TYPES: [&str; 6] = [DEVICE, "dcim.site", "dcim.rack", "dcim.devicerole", "dcim.devicetype", "tenancy.tenant"];

/// How far the feed was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Feed {
    /// The newest time seen; `None` = NetBox had no change yet.
    mark: Option<Timestamp>,
    /// Ids seen, from the window before the mark on.
    seen: BTreeSet<i64>,
}

/// One change, without the objects.
#[derive(Debug, Deserialize)]
pub(crate) struct Change {
    id: i64,
    #[serde(deserialize_with = "time")]
    time: Timestamp,
    #[serde(default)]
    user_name: String,
    request_id: String,
    action: Choice,
    changed_object_type: String,
    changed_object_id: i64,
}

#[derive(Deserialize)]
struct Snapshots {
    id: i64,
    prechange_data: Value,
    postchange_data: Value,
}

#[derive(Deserialize)]
struct Newest {
    #[serde(deserialize_with = "time")]
    time: Timestamp,
}

impl Keyed for Change {
    fn id(&self) -> i64 {
        self.id
    }
}

impl Keyed for Snapshots {
    fn id(&self) -> i64 {
        self.id
    }
}

/// Times are parsed, never compared as text: NetBox writes them in three forms.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
}

/// The feed as it stands: the newest change is the mark, what the window before it shows is seen. What still sits in an open transaction is
/// not, and will come.
pub(crate) async fn begin(session: &Session<'_>, window: Micros) -> Result<Feed, ClientError> {
    let newest: Option<Newest> = session.first(PATH, &[Param::Ordering("-time"), Param::Fields("id,time"), Param::Limit(1)]).await?;
    let feed = Feed { mark: newest.map(|n| n.time), seen: BTreeSet::new() };
    Ok(poll(session, &feed, window).await?.feed)
}

/// What a poll read.
pub(crate) struct Polled {
    /// The changes not seen before, by id.
    pub(crate) changes: Vec<Change>,
    /// Names those not seen before that cannot be read: only a sweep shows what they did.
    pub(crate) unreadable: Option<ClientError>,
    /// How far the feed is read now.
    pub(crate) feed: Feed,
}

/// Reads the window again.
pub(crate) async fn poll(session: &Session<'_>, feed: &Feed, window: Micros) -> Result<Polled, ClientError> {
    let from = feed.mark.map(|mark| mark.plus(-window));
    let mut params: Vec<Param> = from.map(Param::TimeAfter).into_iter().collect();
    params.extend(TYPES.map(Param::ChangedType));
    params.push(Param::Fields("id,time,user_name,request_id,action,changed_object_type,changed_object_id"));
    let filter = |c: &Change| TYPES.contains(&c.changed_object_type.as_str()) && from.is_none_or(|from| c.time >= from);
    let mut rows = session.walk(PATH, &params, filter).await?;
    let mark = rows.read.iter().map(|c| c.time).max().max(feed.mark);
    let kept = |c: &&Change| mark.is_some_and(|mark| c.time >= mark.plus(-window));
    let seen = rows.read.iter().filter(kept).map(|c| c.id).chain(rows.unreadable.iter().map(|row| row.id)).collect();
    rows.read.retain(|c| !feed.seen.contains(&c.id));
    rows.unreadable.retain(|row| !feed.seen.contains(&row.id));
    let failed =
        || ClientError::malformed(&format!("GET {PATH}"), format!("200, and changes that cannot be read: {}", in_words(&rows.unreadable)));
    let unreadable = (!rows.unreadable.is_empty()).then(failed);
    Ok(Polled { changes: rows.read, unreadable, feed: Feed { mark, seen } })
}

/// Takes changes over into `state`: what they make dirty, and the edits that people made. `ours` are the request ids of our own writes.
pub(crate) async fn note(session: &Session<'_>, state: &mut State, changes: &[Change], ours: &HashSet<String>) -> Result<(), ClientError> {
    for change in changes {
        for id in touched(state, change) {
            let dirty = state.dirty.entry(id).or_default();
            if change.changed_object_type == DEVICE && change.action.value == "delete" {
                dirty.deleted_by = Some(change.user_name.clone());
            }
        }
    }
    let edit = |c: &&Change| c.changed_object_type == DEVICE && c.action.value == "update" && !ours.contains(&c.request_id);
    let edits: Vec<&Change> = changes.iter().filter(edit).collect();
    let ids: Vec<i64> = edits.iter().map(|c| c.id).collect();
    let snapshots = session.by_ids::<Snapshots>(PATH, "id,prechange_data,postchange_data", &ids).await?;
    if !snapshots.unreadable.is_empty() {
        tracing::warn!(changes = in_words(&snapshots.unreadable), "edits in NetBox cannot be read");
    }
    for change in edits {
        let found = snapshots.read.iter().filter(|s| s.id == change.id).flat_map(|s| status_edits(change, s));
        if let Some(dirty) = state.dirty.get_mut(&change.changed_object_id) {
            dirty.edits.extend(found);
        }
    }
    Ok(())
}

/// The devices that a change concerns, by relation.
fn touched(state: &State, change: &Change) -> Vec<i64> {
    let id = change.changed_object_id;
    let of = |relation: fn(&Known, i64) -> bool| state.known.iter().filter(|(_, k)| relation(k, id)).map(|(d, _)| *d).collect();
    match change.changed_object_type.as_str() {
        DEVICE => vec![id],
        "dcim.site" => of(|k, id| k.site_id == id),
        "dcim.rack" => of(|k, id| k.rack == Some(id)),
        "dcim.devicerole" => of(|k, id| k.role == id),
        "dcim.devicetype" => of(|k, id| k.device_type == id),
        _ => of(|k, id| k.tenant == Some(id)),
    }
}

/// What a person changed of the two fields that the lifecycle reads.
fn status_edits(change: &Change, snapshots: &Snapshots) -> Vec<StatusEdit> {
    let value = |data: &Value, pointer: &str| data.pointer(pointer).and_then(custom_text);
    let (before, after) = (&snapshots.prechange_data, &snapshots.postchange_data);
    let values = [("status", "/status"), (PHASE_FIELD, "/custom_fields/fleet_phase")].map(|(f, p)| (f, value(before, p), value(after, p)));
    let edited = values.into_iter().filter(|(_, before, after)| before != after);
    edited
        .map(|(field, before, after)| StatusEdit {
            change_id: change.id,
            request_id: change.request_id.clone(),
            user: change.user_name.clone(),
            field: field.into(),
            before: before.unwrap_or_default(),
            after: after.unwrap_or_default(),
            at: change.time,
        })
        .collect()
}
