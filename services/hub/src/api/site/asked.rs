//! A change of a site: its decision, and the site as it then is.

use crate::Problem;
use crate::api::commands::{self, Came};
use crate::api::writing::{Writing, answered};
use axum::response::Response;
use fleet_lifecycle::Site;
use fleet_schemas::{Ask, StreamId};
use serde_json::{Value, json};

impl Writing {
    /// Asks the site, and shows what of it `show` picks; `created` is where the new thing is.
    pub(super) async fn ask(self, ask: &Ask, created: Option<String>, show: impl Fn(&Site, u64) -> Value) -> Result<Response, Problem> {
        let (command, came) = self.put(StreamId::Site(self.site.clone()), ask).await?;
        let answer = match came {
            Came::Pending => return Ok(commands::pending(&command, format!("/api/v1/sites/{}", self.site))),
            Came::Decided(answer) => answer,
        };
        commands::granted(&command, &answer)?;
        if self.dry_run {
            let body = json!({"dry_run": true, "would": answer.decided.outcome.seen, "version": answer.decided.version});
            return Ok(answered(Some(body), None, &answer));
        }
        let reads = self.hub.reads();
        let shown = if commands::shown(&reads, &answer).await { reads.site(&self.site).await? } else { None };
        Ok(answered(shown.map(|(site, version)| show(&site, version)), created, &answer))
    }
}
