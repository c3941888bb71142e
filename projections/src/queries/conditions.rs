//! Conditions over the fleet.

use super::{Reads, uuid};
use crate::db::Error;
use fleet_schemas::{DeviceId, Timestamp};
use sqlx::{QueryBuilder, Row, Sqlite};

/// One condition of one device, as last said. Staleness of its source is the caller's to add.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionRow {
    /// The device.
    pub device: DeviceId,
    /// The device's name.
    pub name: String,
    /// Type.
    pub r#type: String,
    /// Subject.
    pub subject: String,
    /// Status.
    pub status: String,
    /// Reason.
    pub reason: String,
    /// For people.
    pub message: String,
    /// Severity.
    pub severity: String,
    /// Who says so.
    pub source: String,
    /// Where.
    pub site: String,
    /// When it was seen.
    pub observed_at: Timestamp,
    /// When the status last changed.
    pub last_transition_at: Timestamp,
}

impl Reads {
    /// Conditions of one type, after `after` (status, device, subject), at these sites.
    pub async fn conditions(
        &self,
        r#type: &str,
        status: Option<&str>,
        sites: Option<&[String]>,
        after: Option<(&str, DeviceId, &str)>,
        limit: u32,
    ) -> Result<Vec<ConditionRow>, Error> {
        let mut q: QueryBuilder<Sqlite> = QueryBuilder::new(
            "SELECT c.device, d.name, c.type, c.subject, c.status, c.reason, c.message, c.severity, c.source, c.site, c.observed_at, c.last_transition_at
             FROM condition c JOIN device d ON d.id = c.device WHERE c.type = ",
        );
        q.push_bind(r#type.to_owned());
        if let Some(status) = status {
            q.push(" AND c.status = ").push_bind(status.to_owned());
        }
        if let Some(sites) = sites {
            q.push(" AND d.site IN (");
            let mut list = q.separated(", ");
            for site in sites {
                list.push_bind(site.clone());
            }
            q.push(")");
        }
        if let Some((status, device, subject)) = after {
            q.push(" AND (c.status, c.device, c.subject) > (").push_bind(status.to_owned()).push(", ");
            q.push_bind(device.0.as_bytes().to_vec()).push(", ").push_bind(subject.to_owned()).push(")");
        }
        q.push(" ORDER BY c.status, c.device, c.subject LIMIT ").push_bind(limit);
        let rows = q.build().fetch_all(&self.db.read).await?;
        let row = |r: &sqlx::sqlite::SqliteRow| {
            Ok(ConditionRow {
                device: DeviceId(uuid(r.try_get("device")?)?),
                name: r.try_get("name")?,
                r#type: r.try_get("type")?,
                subject: r.try_get("subject")?,
                status: r.try_get("status")?,
                reason: r.try_get("reason")?,
                message: r.try_get("message")?,
                severity: r.try_get("severity")?,
                source: r.try_get("source")?,
                site: r.try_get("site")?,
                observed_at: Timestamp(r.try_get("observed_at")?),
                last_transition_at: Timestamp(r.try_get("last_transition_at")?),
            })
        };
        rows.iter().map(row).collect()
    }
}
