//! Webhooks as the real NetBox sends them: recorded bytes, with their signatures.

use crate::harness::fixtures;
use fleet_satellite::netbox::{BadHint, Hint, Hints};
use secrecy::SecretString;

fn delivery(name: &str) -> (String, Vec<u8>) {
    let exchange: serde_json::Value =
        serde_json::from_slice(&std::fs::read(fixtures("netbox").join(format!("webhook_{name}.json"))).unwrap()).unwrap();
    let headers = exchange["request"]["headers"].as_object().unwrap();
    let signature = headers.iter().find(|(k, _)| k.eq_ignore_ascii_case("x-hook-signature")).unwrap().1.as_str().unwrap().to_owned();
    (signature, std::fs::read(fixtures("netbox").join(format!("webhook_{name}.raw"))).unwrap())
}

fn hints() -> Hints {
    Hints::new(&SecretString::from("lab-hook-secret"))
}

#[test]
fn what_netbox_signed_is_a_hint_once() {
    let hints = hints();
    for name in ["created", "updated", "deleted"] {
        let (signature, body) = delivery(name);
        assert_eq!(hints.take(Some(&signature), &body), Ok(Hint::Look), "{name}");
        assert_eq!(hints.take(Some(&signature), &body), Ok(Hint::Repeated), "{name} replayed");
    }
}

#[test]
fn what_is_not_signed_or_changed_is_refused() {
    let (signature, body) = delivery("updated");
    let mut changed = body.clone();
    changed[20] ^= 1;
    let other = Hints::new(&SecretString::from("another secret"));
    assert_eq!(other.take(Some(&signature), &body), Err(BadHint::Signature));
    for (signature, body) in [(None, &body), (Some(""), &body), (Some("00"), &body), (Some(signature.as_str()), &changed)] {
        assert_eq!(hints().take(signature, body), Err(BadHint::Signature));
    }
}
