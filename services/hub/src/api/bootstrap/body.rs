//! What a request may say of a configuration.

use crate::vault::UserData;
use crate::{Problem, api::query};
use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_lifecycle::bootstrap::check;
use fleet_schemas::{BootstrapFields, RoleName};
use serde::{Deserialize, Deserializer};

/// Characters that user-data may have in base64: Nova's limit.
const MOST: usize = 65_535;

/// Text in clear. Read from a body and from nowhere else; it can neither be printed nor stored.
#[derive(Deserialize)]
#[serde(transparent)]
struct Clear(String);

/// A create, and a merge-patch: absent = leave, null = clear. For a create both are nothing.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Body {
    #[serde(default)]
    device_role: Option<String>,
    #[serde(default, deserialize_with = "given")]
    image: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    flavor: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    features: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "given")]
    gres: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    user_data: Option<Option<Clear>>,
}

/// Tells null from absent.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(d: D) -> Result<Option<Option<T>>, D::Error> {
    Option::<T>::deserialize(d).map(Some)
}

/// What a body says, checked.
pub(super) struct Said {
    /// The role that it names.
    pub(super) role: Option<RoleName>,
    /// Names of the fields that it names.
    pub(super) set: Vec<String>,
    /// Their values.
    pub(super) fields: BootstrapFields,
    /// User-data, where it gives some.
    pub(super) user_data: Option<UserData>,
}

/// Reads a body; what is wrong is named by its field, and never quoted where it could be user-data.
pub(super) fn read(bytes: &[u8]) -> Result<Said, Problem> {
    // A list would be taken for the fields in their order.
    if bytes.trim_ascii_start().first().is_some_and(|b| *b != b'{') {
        return Err(Problem::invalid("body", "an object"));
    }
    let body: Body = query::body(bytes)?;
    let role = body.device_role.map(|r| role(&r)).transpose()?;
    let named = [
        ("image", body.image.is_some()),
        ("flavor", body.flavor.is_some()),
        ("features", body.features.is_some()),
        ("gres", body.gres.is_some()),
        ("user_data", body.user_data.is_some()),
    ];
    let set = named.into_iter().filter(|(_, named)| *named).map(|(name, _)| name.to_owned()).collect();
    let fields = BootstrapFields {
        image: body.image.flatten(),
        flavor: body.flavor.flatten(),
        features: body.features.flatten().unwrap_or_default(),
        gres: body.gres.flatten(),
    };
    check(&fields).map_err(|bad| Problem::invalid(bad.field, format!("{}; got {}", bad.expected, bad.seen)))?;
    let user_data = body.user_data.flatten().map(|text| decode(&text.0)).transpose()?;
    Ok(Said { role, set, fields, user_data })
}

fn role(text: &str) -> Result<RoleName, Problem> {
    text.parse().map_err(|e: fleet_schemas::BadRoleName| Problem::invalid("device_role", e.to_string()))
}

/// Lines as `base64` breaks them are taken; anything else that is no base64 is not.
fn decode(text: &str) -> Result<UserData, Problem> {
    let bad = |detail: String| Problem::invalid("user_data", detail);
    let length = text.chars().count();
    if length > MOST {
        return Err(bad(format!("at most {MOST} characters of base64; got {length}")));
    }
    if text.is_empty() {
        return Err(bad("base64 of the user-data; null where there is none".into()));
    }
    let whole: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let decoded = STANDARD.decode(whole).map_err(|_| bad("not base64 (RFC 4648, `+` and `/`, padded with `=`)".into()))?;
    Ok(UserData(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_told_from_absent() {
        let said = read(br#"{"image":null,"features":["ib"]}"#).unwrap();
        assert_eq!(
            (said.set, said.fields.image, said.fields.features),
            (vec!["image".to_owned(), "features".into()], None, vec!["ib".to_owned()])
        );
        assert!(said.user_data.is_none() && said.role.is_none());
        assert_eq!(read(b"{}").unwrap().set, Vec::<String>::new());
    }

    #[test]
    fn user_data_is_base64_of_at_most_65535_characters() {
        let said = |text: &str| read(serde_json::json!({ "user_data": text }).to_string().as_bytes());
        assert_eq!(said("aGVs\nbG8=\n").unwrap().user_data.unwrap().0, b"hello");
        assert!(said(&"QUFB".repeat(16_383)).is_ok());
        let long = format!("{}QQ==", "QUFB".repeat(16_383));
        for text in ["", "hello world", "aGVsbG8", "aGVs bG8=", "_-8=", &long] {
            assert_eq!(said(text).err().map(|p| p.status().as_u16()), Some(400), "{}", text.len());
        }
    }
}
