//! Asking slurmrestd: which version it speaks, the two lists, and one node where its absence must be confirmed.

use super::answer::{self, check, entries};
use super::translate::{Confirmed, Listing, Partitions};
use super::{Settings, version::ApiVersion};
use crate::error::{ClientError, ErrorClass};
use crate::http::{Answer, Http, secret_header};
use fleet_schemas::LookFault;
use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret, SecretString};
use std::time::Duration;

/// slurmrestd itself waits 10 s for a controller that hangs; a shorter deadline would hide what it says (rule 2).
const SHORTEST: Duration = Duration::from_secs(15);

/// One site's slurmrestd. Only GET is sent.
pub(crate) struct Client {
    http: Http,
    user: String,
    version: Option<ApiVersion>,
}

impl Client {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ClientError> {
        Ok(Self { http: Http::new(&settings.url, settings.deadline.max(SHORTEST))?, user: settings.user.clone(), version: None })
    }

    /// The version that is spoken, once it was found.
    pub(crate) fn version(&self) -> Option<ApiVersion> {
        self.version
    }

    /// Nodes and partitions, one call each. After a failure the version is looked up again.
    pub(crate) async fn list(&mut self, token: &SecretString) -> Result<Listing, ClientError> {
        let version = match self.version.take() {
            Some(version) => version,
            None => self.discover(token).await?,
        };
        let nodes = self.get(&format!("/slurm/{version}/nodes"), token).await?;
        let list = check(&nodes, Some(version), "nodes")?;
        if list.is_empty() {
            let came = "200 without errors, and no node: an empty cluster looks like a missing right";
            return Err(ClientError::new(ErrorClass::Permanent, nodes.asked.as_str(), came, LookFault::NoData));
        }
        let entries = entries(&list, version);
        let partitions = self.get(&format!("/slurm/{version}/partitions"), token).await?;
        let partitions = answer::partitions(&check(&partitions, Some(version), "partitions")?);
        self.version = Some(version);
        Ok(Listing { entries, partitions: Partitions::Known(partitions), confirmed: Default::default() })
    }

    /// Whether SLURM knows a node that its list does not have. `name` was checked to be a NodeName.
    pub(crate) async fn confirm(&self, name: &str, token: &SecretString) -> Confirmed {
        let Some(version) = self.version else { return Confirmed::NotKnown("no API version".into()) };
        let answer = match self.get(&format!("/slurm/{version}/node/{name}"), token).await {
            Ok(answer) => answer,
            Err(error) => return Confirmed::NotKnown(error.to_string()),
        };
        if answer::says_unknown_node(&answer) {
            return Confirmed::Absent;
        }
        match check(&answer, Some(version), "nodes").map(|list| entries(&list, version).remove(name)) {
            Ok(Some(entry)) => Confirmed::Present(Box::new(entry)),
            Ok(None) => Confirmed::NotKnown(format!("{}: 200 without errors, and without it", answer.asked)),
            Err(error) => Confirmed::NotKnown(error.to_string()),
        }
    }

    async fn discover(&self, token: &SecretString) -> Result<ApiVersion, ClientError> {
        let answer = self.get("/openapi/v3", token).await?;
        if answer.code != 200 {
            // Any list will do: what matters is what the status and the text mean.
            return Err(check(&answer, None, "nodes")
                .err()
                .unwrap_or_else(|| ClientError::malformed(&answer.asked, answer.code.to_string())));
        }
        let spec = serde_json::from_str(&answer.body).map_err(|e| ClientError::malformed(&answer.asked, format!("200, no JSON: {e}")))?;
        let version = ApiVersion::choose(&spec).map_err(|served| {
            let came = format!("it serves {}; we speak v0.0.37, v0.0.38, v0.0.40 and up", if served.is_empty() { "none" } else { &served });
            ClientError::new(ErrorClass::Permanent, answer.asked.as_str(), came, LookFault::ApiTooOld)
        })?;
        tracing::info!(%version, "SLURM's API version");
        Ok(version)
    }

    async fn get(&self, path: &str, token: &SecretString) -> Result<Answer, ClientError> {
        let bad = |_| ClientError::new(ErrorClass::Permanent, "user name", "no HTTP header can carry it", LookFault::NoData);
        let user = HeaderValue::from_str(&self.user).map_err(bad)?;
        // 22.05 wants both, later releases ignore the name of an ordinary user's token.
        let headers = [("X-SLURM-USER-NAME", user), ("X-SLURM-USER-TOKEN", secret_header(token.expose_secret())?)];
        self.http.get(path, &headers, token).await
    }
}
