//! Which API versions a slurmrestd serves, and which of them we speak (section 1).

use serde_json::Value;
use std::{collections::BTreeSet, fmt};

/// An API version, by its last number: 42 = `v0.0.42`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ApiVersion(pub(crate) u32);

/// Newest first: the versions that were measured. v0.0.39 (SLURM 23.02) never was; v0.0.36 loses every flag.
const MEASURED: [u32; 8] = [45, 44, 43, 42, 41, 40, 38, 37];

impl ApiVersion {
    /// `v0.0.42`, also at the end of a longer text (`data_parser/v0.0.42+complex`).
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let digits = text.split_once("v0.0.")?.1;
        digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok().map(Self)
    }

    /// Whether it has the shapes of 22.05: state text and flags, bare numbers, comma lists.
    pub(crate) fn is_old_family(self) -> bool {
        self.0 < 39
    }

    /// Whether we believe what it says.
    pub(crate) fn is_usable(self) -> bool {
        MEASURED.contains(&self.0) || self.0 > MEASURED[0]
    }

    /// Which of the versions in `/openapi/v3` to speak: the newest that was measured, else the oldest of the newer ones.
    /// `Err` has what is served.
    pub(crate) fn choose(openapi: &Value) -> Result<Self, String> {
        let paths = openapi.get("paths").and_then(Value::as_object).into_iter().flat_map(|p| p.keys());
        let nodes = paths.filter(|p| p.starts_with("/slurm/v0.0.") && p.trim_end_matches('/').ends_with("/nodes"));
        let served: BTreeSet<Self> = nodes.filter_map(|p| Self::parse(p)).collect();
        let measured = MEASURED.iter().map(|n| Self(*n)).find(|v| served.contains(v));
        let newer = || served.iter().copied().find(|v| v.is_usable());
        measured.or_else(newer).ok_or_else(|| served.iter().map(Self::to_string).collect::<Vec<_>>().join(", "))
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v0.0.{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_newest_measured_version_is_spoken() {
        for (served, chosen) in [
            (&[36, 37, 38][..], Ok(38)),
            (&[40, 41, 42], Ok(42)),
            (&[42, 43, 44, 45, 46], Ok(45)),
            (&[46, 47], Ok(46)),
            (&[36, 39], Err("v0.0.36, v0.0.39")),
            (&[], Err("")),
        ] {
            let paths: serde_json::Map<String, Value> = served.iter().map(|n| (format!("/slurm/v0.0.{n}/nodes/"), json!({}))).collect();
            let got = ApiVersion::choose(&json!({ "paths": paths })).map(|v| v.0);
            assert_eq!(got, chosen.map_err(str::to_owned), "{served:?}");
        }
    }

    /// The recorded path lists are `[{path, methods}]`, cut out of `/openapi/v3`.
    #[test]
    fn recorded_path_lists_name_their_version() {
        for (folder, chosen) in [
            ("22.05.8/v0.0.36", Err("v0.0.36".to_owned())),
            ("22.05.8/v0.0.37", Ok(ApiVersion(37))),
            ("22.05.8/v0.0.38", Ok(ApiVersion(38))),
            ("24.11.5/v0.0.40", Ok(ApiVersion(40))),
            ("24.11.5/v0.0.41", Ok(ApiVersion(41))),
            ("24.11.5/v0.0.42", Ok(ApiVersion(42))),
        ] {
            let file = format!("{}/../../tests/fixtures/slurm/{folder}/openapi_paths.json", env!("CARGO_MANIFEST_DIR"));
            let rows: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
            let paths: serde_json::Map<String, Value> = rows.iter().map(|r| (r["path"].as_str().unwrap().to_owned(), json!({}))).collect();
            assert_eq!(ApiVersion::choose(&json!({ "paths": paths })), chosen, "{folder}");
        }
    }
}
