//! Keys: ECDSA on P-256, made here, kept by their owner.

use aws_lc_rs::encoding::{AsBigEndian, EcPrivateKeyBin};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::jwk::{Jwk, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::Value;

/// A private key with its public half.
pub struct KeyPair {
    /// PKCS#8, PEM.
    pub private_pem: String,
    /// The same as a JWK with `kid`, as stock OAuth libraries read it.
    pub private_jwk: Value,
}

/// Makes a key pair.
pub fn generate_key() -> Result<KeyPair, String> {
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).map_err(|e| format!("making a key failed: {e}"))?;
    let der = pair.to_pkcs8v1().map_err(|e| format!("encoding a key failed: {e}"))?;
    let private_pem = pem(der.as_ref());
    let mut private_jwk = public_jwk(&private_pem)?;
    let secret = AsBigEndian::<EcPrivateKeyBin<'_>>::as_be_bytes(&pair.private_key()).map_err(|e| format!("encoding a key failed: {e}"))?;
    private_jwk["d"] = URL_SAFE_NO_PAD.encode(secret.as_ref()).into();
    Ok(KeyPair { private_pem, private_jwk })
}

/// The public half of a private key (P-256, PKCS#8, PEM) as a JWK; its `kid` is its thumbprint (RFC 7638).
pub fn public_jwk(private_pem: &str) -> Result<Value, String> {
    let key = EncodingKey::from_ec_pem(private_pem.as_bytes()).map_err(|e| format!("the key: {e}"))?;
    let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).map_err(|e| format!("the key: {e}"))?;
    let kid = jwk.thumbprint(ThumbprintHash::SHA256).map_err(|e| format!("the key: {e}"))?;
    jwk.common.key_id = Some(kid);
    jwk.common.public_key_use = Some(PublicKeyUse::Signature);
    serde_json::to_value(jwk).map_err(|e| format!("the key: {e}"))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(|c| String::from_utf8_lossy(c).into_owned()).collect();
    format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", lines.join("\n"))
}
