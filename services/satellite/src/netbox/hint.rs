//! NetBox's webhooks: a hint to look now, never data. Whoever can send one is believed for no more than that.

use aws_lc_rs::hmac;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Header with the hexadecimal HMAC-SHA512 of the body.
pub const SIGNATURE: &str = "x-hook-signature";
/// Deliveries that are remembered: NetBox signs neither a time nor a number, so a replay is told by its content alone.
const REMEMBERED: usize = 4096;

/// What a delivery came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Something that we read may have changed: look.
    Look,
    /// The same as before.
    Repeated,
    /// About something that no inventory record shows.
    NothingToUs,
}

/// Why a delivery is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadHint {
    /// The signature is absent or not the body's.
    #[error("the signature is not that of the body under our secret")]
    Signature,
    /// The body is no webhook of NetBox.
    #[error("the body is no webhook of NetBox: event, object_type or model, data.id, request.id or request_id")]
    Body,
}

/// Verifies deliveries of one NetBox.
pub struct Hints {
    key: hmac::Key,
    seen: Mutex<VecDeque<String>>,
}

/// Shapes of 4.7 and before it.
#[derive(Deserialize)]
struct Delivery {
    event: String,
    object_type: Option<String>,
    model: Option<String>,
    request: Option<Request>,
    request_id: Option<String>,
    data: Data,
}

#[derive(Deserialize)]
struct Request {
    id: String,
}

#[derive(Deserialize)]
struct Data {
    id: i64,
}

impl Hints {
    /// With the secret that NetBox signs with.
    pub fn new(secret: &SecretString) -> Self {
        Self { key: hmac::Key::new(hmac::HMAC_SHA512, secret.expose_secret().as_bytes()), seen: Mutex::default() }
    }

    /// Judges a delivery.
    pub fn take(&self, signature: Option<&str>, body: &[u8]) -> Result<Hint, BadHint> {
        let tag = signature.and_then(unhex).ok_or(BadHint::Signature)?;
        hmac::verify(&self.key, body, &tag).map_err(|_| BadHint::Signature)?;
        let delivery: Delivery = serde_json::from_slice(body).map_err(|_| BadHint::Body)?;
        let kind = delivery.object_type.or(delivery.model).ok_or(BadHint::Body)?;
        let request = delivery.request.map(|r| r.id).or(delivery.request_id).ok_or(BadHint::Body)?;
        if !WATCHED.contains(&kind.rsplit('.').next().unwrap_or_default()) {
            return Ok(Hint::NothingToUs);
        }
        let name = format!("{request} {kind} {} {}", delivery.data.id, delivery.event);
        let mut seen = self.seen.lock().unwrap_or_else(|e| e.into_inner());
        if seen.contains(&name) {
            return Ok(Hint::Repeated);
        }
        if seen.len() == REMEMBERED {
            seen.pop_front();
        }
        seen.push_back(name);
        Ok(Hint::Look)
    }
}

/// Objects whose change can make an inventory record another one.
const WATCHED: &[&str] = &["device", "site", "rack", "devicerole", "devicetype", "tenant", "tag"];

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim().as_bytes();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).ok()?, 16).ok();
    (digits.len() == 128).then(|| digits.chunks(2).map(pair).collect()).flatten()
}
