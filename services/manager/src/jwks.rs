//! The published keys of an outside issuer, over HTTPS.

use anyhow::{Context, anyhow, bail};
use fleet_hub::access::outside::KeySource;
use fleet_log::Fut;
use fleet_schemas::safe_way;
use std::{path::Path, time::Duration};

/// A whole answer, body included.
const DEADLINE: Duration = Duration::from_secs(10);
/// A key set has a few kB.
const MOST: usize = 1 << 20;

/// See the module.
pub struct Published {
    url: String,
    client: reqwest::Client,
}

impl Published {
    /// Nothing is asked yet.
    pub fn new(url: &str, ca_file: Option<&Path>) -> anyhow::Result<Self> {
        safe_way(url).map_err(|e| anyhow!("jwks_url: {e}"))?;
        let mut builder = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(DEADLINE);
        if let Some(file) = ca_file {
            let pem = std::fs::read(file).with_context(|| file.display().to_string())?;
            builder = builder.tls_certs_only(reqwest::Certificate::from_pem_bundle(&pem)?);
        }
        Ok(Self { url: url.into(), client: builder.build()? })
    }

    async fn get(&self) -> anyhow::Result<jsonwebtoken::jwk::JwkSet> {
        let mut response = self.client.get(&self.url).send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await? {
            body.extend_from_slice(&piece);
            if body.len() > MOST {
                bail!("more than {MOST} bytes");
            }
        }
        Ok(serde_json::from_slice(&body)?)
    }
}

impl KeySource for Published {
    fn fetch(&self) -> Fut<'_, Result<jsonwebtoken::jwk::JwkSet, String>> {
        Box::pin(async { self.get().await.map_err(|e| format!("{}: {e:#}", self.url)) })
    }
}
