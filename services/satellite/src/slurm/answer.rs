//! Reading answers: what an error means (section 4), and both families' shapes of nodes and partitions (section 2) as one.

use super::ApiVersion;
use crate::error::{ClientError, ErrorClass, short};
use crate::http::Answer;
use fleet_schemas::{LookFault, Timestamp};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use std::collections::{BTreeMap, BTreeSet};

/// What we read of a SLURM node, whichever version said it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlurmNode {
    pub(crate) name: String,
    /// Base state and flags, upper case; unknown ones are kept.
    pub(crate) tokens: BTreeSet<String>,
    pub(crate) cpus: i64,
    pub(crate) alloc_cpus: i64,
    pub(crate) partitions: BTreeSet<String>,
    pub(crate) features: BTreeSet<String>,
    pub(crate) gres: Option<String>,
    pub(crate) reservation: Option<String>,
    pub(crate) slurmd_start_time: Option<Timestamp>,
    pub(crate) reason: Option<String>,
    pub(crate) reason_user: Option<String>,
    pub(crate) reason_changed_at: Option<Timestamp>,
}

/// An entry of a list: a node, or why what stands under a name cannot be read.
pub(crate) type Entry = Result<SlurmNode, String>;

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(default)]
    errors: Vec<Value>,
    #[serde(borrow, default)]
    nodes: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    partitions: Option<Vec<&'a RawValue>>,
}

/// The list `key` (`nodes` or `partitions`) of an error-free answer. Status, errors and the key count together (rule 1).
pub(crate) fn check<'a>(answer: &'a Answer, version: Option<ApiVersion>, key: &str) -> Result<Vec<&'a RawValue>, ClientError> {
    let body = match serde_json::from_str::<Body<'_>>(&answer.body) {
        Ok(body) => body,
        Err(_) if answer.code != 200 => return Err(refusal(answer, version, &[])),
        Err(error) => return Err(ClientError::malformed(&answer.asked, format!("200, and a body that cannot be read: {error}"))),
    };
    if answer.code != 200 || !body.errors.is_empty() {
        return Err(refusal(answer, version, &body.errors));
    }
    let list = if key == "nodes" { body.nodes } else { body.partitions };
    list.ok_or_else(|| ClientError::malformed(&answer.asked, format!("200 without errors, and no `{key}`")))
}

/// Whether the answer to `GET node/NAME` says that there is no such node: 2018, or on 24.11 a 200 with error number 0 and no `nodes`.
pub(crate) fn says_unknown_node(answer: &Answer) -> bool {
    let Ok(body) = serde_json::from_str::<Body<'_>>(&answer.body) else { return false };
    let numbers: Vec<i64> = body.errors.iter().filter_map(number_of).collect();
    let failed = |e: &Value| e.get("description").and_then(Value::as_str).is_some_and(|d| d.starts_with("Failure to query node "));
    numbers.contains(&2018) || (answer.code == 200 && numbers == [0] && body.nodes.is_none() && body.errors.iter().all(failed))
}

/// The number of an error has three names on 22.05.
fn number_of(error: &Value) -> Option<i64> {
    ["error_number", "errno", "error_code"].iter().find_map(|name| error.get(name)?.as_i64())
}

fn refusal(answer: &Answer, version: Option<ApiVersion>, errors: &[Value]) -> ClientError {
    let (code, numbers) = (answer.code, errors.iter().filter_map(number_of).collect::<Vec<_>>());
    let any = |known: &[i64]| numbers.iter().any(|n| known.contains(n));
    let old = version.is_some_and(ApiVersion::is_old_family);
    let (class, fault, hint) = match code {
        401 | 511 => (ErrorClass::Permanent, LookFault::NoData, " (the token is refused)"),
        _ if any(&[1007]) => (ErrorClass::Permanent, LookFault::NoData, " (the token is refused)"),
        403 => (ErrorClass::Permanent, LookFault::PermissionDenied, ""),
        _ if any(&[2002, 2010]) => (ErrorClass::Permanent, LookFault::PermissionDenied, ""),
        502 => (ErrorClass::Transient, LookFault::ControllerDown, ""),
        // 104 is what the first call after slurmctld's death reads on 24.11.
        _ if any(&[1800, 5004, 104]) => (ErrorClass::Transient, LookFault::ControllerDown, ""),
        500 if old && any(&[-1]) => (
            ErrorClass::Transient,
            LookFault::ControllerDown,
            " (slurmctld does not answer, or refuses the token: on 22.05 they look the same)",
        ),
        429 | 500.. if !any(&[2018]) => (ErrorClass::Transient, LookFault::NoData, ""),
        _ => (ErrorClass::Permanent, LookFault::NoData, ""),
    };
    let words = |e: &Value| {
        let text = |key: &str| e.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
        let parts = [number_of(e).map(|n| n.to_string()), text("error").map(str::to_owned), text("description").map(|d| format!("({d})"))];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let said = if errors.is_empty() { short(&answer.body) } else { errors.iter().map(words).collect::<Vec<_>>().join("; ") };
    ClientError::new(class, answer.asked.as_str(), format!("{code} {}{hint}", said.chars().take(180).collect::<String>()), fault)
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Deserialize)]
struct RawSlurmNode {
    name: String,
    state: Value,
    #[serde(default)]
    state_flags: Option<Vec<String>>,
    #[serde(default)]
    cpus: Value,
    #[serde(default)]
    alloc_cpus: Value,
    #[serde(default)]
    partitions: Vec<String>,
    #[serde(default)]
    features: Value,
    #[serde(default)]
    gres: Option<String>,
    #[serde(default)]
    reservation: Option<String>,
    #[serde(default)]
    slurmd_start_time: Value,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    reason_set_by_user: Option<String>,
    #[serde(default)]
    reason_changed_at: Value,
}

/// The entries of a node list by name. One that cannot be read stays, as such; one without even a name is only logged.
pub(crate) fn entries(list: &[&RawValue], version: ApiVersion) -> BTreeMap<String, Entry> {
    let named = |raw: &&RawValue| match serde_json::from_str::<Name>(raw.get()) {
        Ok(Name { name }) => Some((name, entry(raw, version))),
        Err(error) => {
            tracing::warn!(%error, "an entry of SLURM's node list has no name");
            None
        }
    };
    list.iter().filter_map(named).collect()
}

fn entry(raw: &RawValue, version: ApiVersion) -> Entry {
    let raw: RawSlurmNode = serde_json::from_str(raw.get()).map_err(|e| e.to_string())?;
    let words = if version.is_old_family() { raw.old_words()? } else { raw.new_words()? };
    let text = |text: Option<String>| text.filter(|t| !t.is_empty());
    Ok(SlurmNode {
        tokens: words.into_iter().map(|w| w.to_uppercase()).collect(),
        // Without it nobody can say that a node is idle.
        alloc_cpus: number(&raw.alloc_cpus).ok_or("alloc_cpus is missing")?,
        cpus: number(&raw.cpus).ok_or("cpus is missing")?,
        partitions: raw.partitions.into_iter().collect(),
        features: texts(&raw.features, version)?.into_iter().collect(),
        gres: text(raw.gres),
        reservation: text(raw.reservation),
        slurmd_start_time: time(&raw.slurmd_start_time),
        reason: text(raw.reason),
        reason_user: text(raw.reason_set_by_user),
        reason_changed_at: time(&raw.reason_changed_at),
        name: raw.name,
    })
}

impl RawSlurmNode {
    /// v0.0.37, v0.0.38: `"idle"` and `["DRAIN"]`. A drained node without its flags would read idle, so they must be there.
    fn old_words(&self) -> Result<Vec<String>, String> {
        let state = self.state.as_str().filter(|s| !s.is_empty()).ok_or("state is no text")?;
        let flags = self.state_flags.as_ref().ok_or("state_flags is missing")?;
        Ok(std::iter::once(state.to_owned()).chain(flags.iter().cloned()).collect())
    }

    /// v0.0.40 and up: `["IDLE","DRAIN"]`.
    fn new_words(&self) -> Result<Vec<String>, String> {
        let words = self.state.as_array().filter(|s| !s.is_empty()).ok_or("state is no list of words")?;
        words.iter().map(|w| w.as_str().map(str::to_owned).ok_or_else(|| "state is no list of words".into())).collect()
    }
}

/// `"a,b"` in the old family, `["a","b"]` in the new one.
fn texts(value: &Value, version: ApiVersion) -> Result<Vec<String>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(list) if version.is_old_family() => Ok(list.split(',').filter(|t| !t.is_empty()).map(str::to_owned).collect()),
        Value::Array(list) => list.iter().map(|t| t.as_str().map(str::to_owned).ok_or_else(|| "features are no texts".into())).collect(),
        _ => Err("features are no list".into()),
    }
}

/// A number that may be unset: bare or `{set,infinite,number}`, with the sentinels that turn up in either (section 2).
fn number(value: &Value) -> Option<i64> {
    let flag = |name: &str| value.get(name).and_then(Value::as_bool);
    let bare = match value {
        Value::Object(_) if flag("set") == Some(false) || flag("infinite") == Some(true) => None,
        Value::Object(fields) => fields.get("number").and_then(Value::as_i64),
        other => other.as_i64(),
    };
    bare.filter(|n| *n >= 0 && !matches!(n, 4_294_967_294 | 4_294_967_295))
}

/// Seconds as an instant. 0 means never, also where it is `set`.
fn time(value: &Value) -> Option<Timestamp> {
    const END_OF_YEAR_9999: i64 = 253_402_300_799;
    number(value).filter(|n| (1..=END_OF_YEAR_9999).contains(n)).map(Timestamp::from_seconds)
}

#[derive(Deserialize)]
struct RawPartition {
    name: String,
    #[serde(default)]
    state: Option<String>,
    #[serde(default)]
    partition: Option<RawPartitionState>,
}

#[derive(Deserialize)]
struct RawPartitionState {
    state: Vec<String>,
}

/// Partitions by name: whether they are UP. What cannot be read is left out, and so counts as not known.
pub(crate) fn partitions(list: &[&RawValue]) -> BTreeMap<String, bool> {
    let read = |raw: &&RawValue| {
        let raw = serde_json::from_str::<RawPartition>(raw.get()).ok()?;
        let words = raw.partition.map(|p| p.state).or(raw.state.map(|s| vec![s]))?;
        Some((raw.name, !words.is_empty() && words.iter().all(|w| w.eq_ignore_ascii_case("UP"))))
    };
    list.iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_and_times_lie_in_known_ways() {
        for (value, as_number, as_time) in [
            (json!(7), Some(7), Some(7)),
            (json!(0), Some(0), None),
            (json!(-1), None, None),
            (json!(null), None, None),
            (json!(4_294_967_294_u64), None, None),
            (json!(18_446_744_073_709_551_614_u64), None, None),
            (json!({"set": true, "infinite": false, "number": 7}), Some(7), Some(7)),
            (json!({"set": true, "infinite": false, "number": 0}), Some(0), None),
            (json!({"set": false, "infinite": false, "number": 7}), None, None),
            (json!({"set": false, "infinite": true, "number": 0}), None, None),
            (json!({"set": true, "infinite": false, "number": 4_294_967_294_u64}), None, None),
            (json!({"set": true, "infinite": false, "number": 4_294_967_295_u64}), None, None),
        ] {
            assert_eq!((number(&value), time(&value)), (as_number, as_time.map(Timestamp::from_seconds)), "{value}");
        }
    }
}
