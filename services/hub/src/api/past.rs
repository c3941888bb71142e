//! `at=` and `version=`: a device as it was believed at a point of its past, with its sites as they were then.

use super::{devices, query};
use crate::access::Principal;
use crate::{Hub, Problem};
use axum::http::StatusCode;
use fleet_lifecycle::Reference;
use fleet_projections::{DeviceDoc, Point, Reads};
use fleet_schemas::Timestamp;
use serde_json::json;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// How long a read waits for a read model that has not come to the instant yet.
const PATIENCE: Duration = Duration::from_secs(5);

/// A device at a point, now or then.
pub(crate) struct Seen {
    pub(crate) doc: DeviceDoc,
    pub(crate) reference: Arc<Reference>,
    /// The instant that it is seen at.
    pub(crate) now: Timestamp,
    /// Whether that is in the past.
    pub(crate) then: bool,
}

/// The point that a request names, if it names one.
pub(crate) fn point(params: &BTreeMap<String, String>, now: Timestamp) -> Result<Option<Point>, Problem> {
    match (params.get("at"), params.get("version")) {
        (None, None) => Ok(None),
        (Some(_), Some(_)) => Err(Problem::invalid("version", "`at` or `version`, not both")),
        (Some(at), None) => {
            let at: Timestamp = at.parse().map_err(|_| Problem::invalid("at", "an RFC 3339 time"))?;
            if at > now { Err(Problem::invalid("at", format!("{at} lies ahead; it is {now}"))) } else { Ok(Some(Point::At(at))) }
        }
        (None, Some(version)) => {
            let version = version.parse().map_err(|_| Problem::invalid("version", "a whole number, as in the ETag"))?;
            Ok(Some(Point::Version(version)))
        }
    }
}

/// The device that a path names, as it is or was.
pub(crate) async fn see(hub: &Hub, reads: &Reads, principal: &Principal, name: &str, point: Option<Point>) -> Result<Seen, Problem> {
    let doc = devices::find(reads, principal, name).await?;
    let now = hub.journal.clock().now();
    let Some(point) = point else { return Ok(Seen { doc, reference: hub.journal.reference(), now, then: false }) };
    match point {
        Point::At(at) => reached(reads, now, at).await?,
        Point::Version(version) if version > doc.version => {
            let detail = format!("{} has not come to version {version} yet; it has version {}", doc.state.id, doc.version);
            return Err(Problem::missing(detail).with("field", json!("version")));
        }
        Point::Version(_) => {}
    }
    let id = doc.state.id;
    let Some((doc, recorded_at)) = reads.device_then(id, point).await? else {
        let first = reads.first_decision(id).await?;
        let since = first.map_or_else(String::new, |t| format!("; its first decision is of {t}, version 1"));
        return Err(Problem::missing(format!("nothing was known of {id} then{since}")));
    };
    let at = if let Point::At(at) = point { at } else { recorded_at };
    let reference = Arc::new(reads.reference_then(doc.state.sites(), at).await?);
    Ok(Seen { doc, reference, now: at, then: true })
}

/// The read model has what was decided up to `at`.
async fn reached(reads: &Reads, now: Timestamp, at: Timestamp) -> Result<(), Problem> {
    let lag = i64::try_from(reads.lag().as_micros()).unwrap_or(i64::MAX);
    if now.since(at) >= lag && lag != i64::MAX || reads.caught_up(PATIENCE).await {
        return Ok(());
    }
    let detail = format!("the read model has not come to {at} yet");
    Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, query::LAGGING, detail).header("retry-after", "1"))
}
