//! What a NetBox agent needs, asked once.

use super::{Agent, row::SlurmLink};
use crate::{Clock, check::Check};
use fleet_schemas::{MINUTE, Timestamp};

/// The oldest release whose cursors the sweep can follow.
const OLDEST: (u32, u32) = (4, 6);

impl Agent {
    /// Token, version, rights on devices and on the change feed, the link's field, workers that send webhooks. Only GET is sent.
    pub async fn check(self, clock: &dyn Clock) -> Vec<Check> {
        let session = match self.client.session(&self.settings.token_file) {
            Ok(session) => session,
            Err(e) => return vec![Check::wrong("NetBox token", e.to_string(), "put a token into token_file")],
        };
        let mut checks = Vec::new();
        match session.status().await {
            Ok(status) => {
                let version = status["netbox-version"].as_str().unwrap_or("?").to_owned();
                let mut numbers = version.split('.').filter_map(|n| n.parse().ok());
                let new = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= OLDEST;
                let found = format!("{}: {version}", self.settings.url);
                let old = || Check::wrong("NetBox", found.clone(), format!("4.6 or later: sweeps follow its cursors ({OLDEST:?})"));
                checks.push(if new { Check::fine("NetBox", found.clone()) } else { old() });
                checks.push(match status["rq-workers-running"].as_i64() {
                    Some(0) => Check::wrong("workers", "none runs", "start NetBox's rqworker, or no webhook is sent"),
                    n => Check::fine("workers", format!("{} run", n.unwrap_or_default())),
                });
            }
            Err(e) => {
                checks.push(Check::wrong("NetBox", e.to_string(), "check url and token; 403 is a bad token or a missing right"));
                return checks;
            }
        }
        match session.sweep(&self.settings.sites).await {
            Ok(rows) if rows.read.is_empty() => {
                let fix = "bind sites that have devices, or give the token the right to see them: a short list looks like a small fleet";
                checks.push(Check::wrong("devices", "none at these sites", fix));
            }
            Ok(rows) => {
                checks.push(Check::fine("devices", format!("{} at {} sites", rows.read.len(), self.settings.sites.len())));
                if let SlurmLink::CustomField(field) = &self.settings.slurm_link {
                    let have = rows.read.iter().filter(|r| r.custom_fields.contains_key(field)).count();
                    checks.push(if have == 0 {
                        let fix =
                            format!("make a custom field `{field}` of devices (text, filter logic exact), or set slurm_node = \"name\"");
                        Check::wrong("SLURM link", format!("no device has a custom field `{field}`"), fix)
                    } else {
                        Check::fine("SLURM link", format!("custom field `{field}`"))
                    });
                }
                if !rows.unreadable.is_empty() {
                    let found = super::client::in_words(&rows.unreadable);
                    checks.push(Check::wrong("records", format!("cannot be read: {found}"), "report them with `translate`"));
                }
            }
            Err(e) => checks.push(Check::wrong("devices", e.to_string(), "the token needs to view devices")),
        }
        let since = Timestamp(clock.now().0 - MINUTE);
        checks.push(match session.feed_is_there(since).await {
            Ok(()) => Check::fine("change feed", "readable"),
            Err(e) => Check::wrong("change feed", e.to_string(), "the token needs to view object changes"),
        });
        checks
    }
}
