//! Keys: ECDSA on P-256, made here, kept by their owner.

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

/// A private key with its public half.
pub struct KeyPair {
    /// PKCS#8, PEM.
    pub private_pem: String,
    /// The public half as a JWK with `kid`.
    pub public_jwk: Value,
}

/// Makes a key pair. `kid` is derived from the public half.
pub fn generate_key() -> Result<KeyPair, String> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|e| format!("making a key failed: {e}"))?;
    let der = pair.to_pkcs8v1().map_err(|e| format!("encoding a key failed: {e}"))?;
    Ok(KeyPair { private_pem: pem(der.as_ref()), public_jwk: public_jwk(&pair) })
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|c| String::from_utf8_lossy(c).into_owned()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}

fn public_jwk(pair: &EcdsaKeyPair) -> Value {
    // Uncompressed point: 04 || x || y.
    let point = pair.public_key().as_ref();
    let (x, y) = (URL_SAFE_NO_PAD.encode(&point[1..33]), URL_SAFE_NO_PAD.encode(&point[33..65]));
    let digest =
        aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, format!(r#"{{"crv":"P-256","kty":"EC","x":"{x}","y":"{y}"}}"#).as_bytes());
    json!({"kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": URL_SAFE_NO_PAD.encode(digest.as_ref()), "x": x, "y": y})
}
