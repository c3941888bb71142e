//! `apply -f`: bootstrap configurations from a file. The whole file is read and checked before anything is asked.

use crate::api::Api;
use crate::configs::of_site;
use crate::exit::Failure;
use crate::output::{Output, field, print};
use base64::{Engine, engine::general_purpose::STANDARD};
use clap::ArgMatches;
use reqwest::Method;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};
use similar::TextDiff;
use std::path::{Path, PathBuf};

/// One document. Absent = leave, null = clear. It may hold user-data: it is never printed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    site_id: String,
    device_role: String,
    #[serde(default, deserialize_with = "given")]
    image: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    flavor: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    features: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    gres: Option<Value>,
    #[serde(default, deserialize_with = "given")]
    user_data: Option<Value>,
    user_data_file: Option<PathBuf>,
}

/// Tells null from absent.
fn given<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(d).map(Some)
}

/// What is to be so.
struct Wanted {
    site: String,
    role: String,
    fields: Map<String, Value>,
}

/// `apply`.
pub async fn apply(api: &Api, m: &ArgMatches, output: &Output) -> Result<(), Failure> {
    let file = m.get_one::<String>("file").cloned().unwrap_or_default();
    let (dry_run, diff) = (m.get_flag("dry-run"), m.get_flag("diff"));
    let wanted = read(Path::new(&file))?;
    let (mut bodies, mut rows, mut failed) = (Vec::new(), Vec::new(), None);
    for one in &wanted {
        match apply_one(api, one, dry_run, diff).await {
            Ok((outcome, body)) => {
                for warning in body["warnings"].as_array().into_iter().flatten() {
                    output.say(&format!("{}/{}: {}", one.site, one.role, warning.as_str().unwrap_or_default()));
                }
                rows.push(vec![
                    format!("{}/{}", one.site, one.role),
                    outcome.into(),
                    format!("v{}", field(&body, "version")),
                    field(&body, "adoptable"),
                ]);
                bodies.push(body);
            }
            Err(Failure { code, text, .. }) => {
                failed = Some(Failure::new(code, format!("{}/{}: {text}", one.site, one.role)));
                break;
            }
        }
    }
    // What was done before a failure is done, and shown.
    let told = (diff && dry_run) || (failed.is_some() && rows.is_empty());
    if !told && !output.whole(&json!({ "items": bodies }))? {
        output.table(&["config", "outcome", "version", "adoptable"], rows)?;
    }
    failed.map_or(Ok(()), Err)
}

async fn apply_one(api: &Api, wanted: &Wanted, dry_run: bool, diff: bool) -> Result<(&'static str, Value), Failure> {
    let standing = of_site(api, &wanted.site).await?.into_iter().find(|c| c["device_role"] == wanted.role.as_str());
    if diff || dry_run {
        let would = ask(api, wanted, standing.as_ref(), true).await?;
        if diff {
            print(&difference(wanted, standing.as_ref(), &would))?;
        }
        if dry_run {
            let outcome = match (&standing, field(&would, "would").is_empty()) {
                (_, true) => "unchanged",
                (None, false) => "would be created",
                (Some(_), false) => "would change",
            };
            return Ok((outcome, would));
        }
    }
    let body = ask(api, wanted, standing.as_ref(), false).await?;
    let outcome = match &standing {
        None => "created",
        Some(before) if before["version"] == body["version"] => "unchanged",
        Some(_) => "changed",
    };
    Ok((outcome, body))
}

/// Creates or patches; a patch rests on the version that was seen, so that nobody else's change is written over unseen.
async fn ask(api: &Api, wanted: &Wanted, standing: Option<&Value>, dry_run: bool) -> Result<Value, Failure> {
    let query: &[(&str, &str)] = if dry_run { &[("dry_run", "true")] } else { &[] };
    let list = ["sites", &wanted.site, "slurm-bootstrap-configs"];
    let answer = match standing {
        None => {
            let mut body = wanted.fields.clone();
            body.insert("device_role".into(), json!(wanted.role));
            api.write(Method::POST, &list, query, &body.into(), &[]).await?
        }
        Some(before) => {
            let seen = [("if-match", format!("\"v{}\"", before["version"]))];
            let one = [list.as_slice(), &[&wanted.role]].concat();
            api.write(Method::PATCH, &one, query, &wanted.fields.clone().into(), &seen).await?
        }
    };
    if answer.status == reqwest::StatusCode::ACCEPTED {
        return Err(Failure::new(crate::exit::PENDING, "not decided yet; `fmctl get configs` shows when it is"));
    }
    Ok(answer.body)
}

fn difference(wanted: &Wanted, before: Option<&Value>, after: &Value) -> String {
    let (old, new) = (before.map_or_else(String::new, text), text(after));
    let name = format!("{}/{}", wanted.site, wanted.role);
    let version = before.map_or_else(|| "none".to_owned(), |b| format!("v{}", b["version"]));
    TextDiff::from_lines(&old, &new).unified_diff().header(&format!("{name} {version}"), &format!("{name} as applied")).to_string()
}

/// What people compare: the fields, and of user-data its digest alone.
fn text(config: &Value) -> String {
    let mut out = String::new();
    for name in ["image", "flavor", "gres", "user_data_sha256"] {
        out.push_str(&format!("{name}: {}\n", config[name]));
    }
    let features: Vec<_> = config["features"].as_array().into_iter().flatten().map(|f| format!("- {f}\n")).collect();
    out.push_str(&if features.is_empty() { "features: []\n".to_owned() } else { format!("features:\n{}", features.concat()) });
    out
}

/// Every document of a file; a path in it counts from the file.
fn read(file: &Path) -> Result<Vec<Wanted>, Failure> {
    let name = file.display().to_string();
    let text = std::fs::read_to_string(file).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    let mut out = Vec::new();
    for (i, document) in serde_yaml_ng::Deserializer::from_str(&text).enumerate() {
        let at = |e: String| Failure::usage(format!("{name}, document {}: {e}", i + 1));
        let value = serde_yaml_ng::Value::deserialize(document).map_err(|e| at(e.to_string()))?;
        // What stands behind a last `---`.
        if value.is_null() {
            continue;
        }
        let document: Document = serde_yaml_ng::from_value(value).map_err(|e| at(e.to_string()))?;
        out.push(document.wanted(file.parent().unwrap_or(Path::new("."))).map_err(at)?);
    }
    if out.is_empty() { Err(Failure::usage(format!("{name} holds no document"))) } else { Ok(out) }
}

impl Document {
    fn wanted(self, base: &Path) -> Result<Wanted, String> {
        let user_data = match (self.user_data, self.user_data_file) {
            (Some(_), Some(_)) => return Err("user_data and user_data_file: give one of them".into()),
            (given, None) => given,
            (None, Some(path)) => {
                let path = base.join(path);
                let bytes = std::fs::read(&path).map_err(|e| format!("user_data_file: {}: {e}", path.display()))?;
                Some(json!(STANDARD.encode(bytes)))
            }
        };
        let each =
            [("image", self.image), ("flavor", self.flavor), ("features", self.features), ("gres", self.gres), ("user_data", user_data)];
        let fields = each.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        Ok(Wanted { site: self.site_id, role: self.device_role, fields })
    }
}
