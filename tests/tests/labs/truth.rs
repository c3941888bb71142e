//! The truth, fetched straight from NetBox (REST, page by page) and from SLURM (`scontrol`, so that not even the way of reading is
//! shared with the product), and the read API held against it, device by device.

use crate::story::{Cluster, Device, PATIENCE, Story};
use fleet_tests::until_within;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The fewest devices that count as a fleet here.
const FEWEST: usize = 199;
/// Devices asked for at the same time.
const WIDTH: usize = 8;

/// A node as `scontrol -o show node` prints it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SlurmNode {
    /// Base state and flags.
    pub tokens: BTreeSet<String>,
    /// CPUs, and those with work.
    pub cpus: i64,
    pub alloc_cpus: i64,
    pub partitions: BTreeSet<String>,
    pub features: BTreeSet<String>,
    pub gres: String,
    /// Reason and who set it.
    pub reason: Option<(String, String)>,
}

impl SlurmNode {
    /// Whether it has this token.
    pub fn is(&self, token: &str) -> bool {
        self.tokens.contains(token)
    }
}

/// The nodes of a cluster by name.
pub async fn nodes(cluster: &Cluster) -> Result<BTreeMap<String, SlurmNode>, String> {
    let text = cluster.lab.typed("scontrol -o show node").await.map_err(|e| e.to_string())?;
    text.lines().filter(|l| l.starts_with("NodeName=")).map(node).collect()
}

/// `NodeName=gpu01 … State=IDLE+DRAIN … Reason=free text [root@2026-11-30T17:27:47]`.
fn node(line: &str) -> Result<(String, SlurmNode), String> {
    let value = |name: &str| -> Result<&str, String> {
        let start = line.find(&format!(" {name}=")).ok_or_else(|| format!("no {name} in: {line}"))?;
        Ok(line[start + name.len() + 2..].split(' ').next().unwrap_or_default())
    };
    let number = |name: &str| value(name)?.parse::<i64>().map_err(|e| format!("{name}: {e}"));
    let words = |text: &str, by: char| -> BTreeSet<String> { text.split(by).map(str::to_owned).collect() };
    let reason = line.split_once(" Reason=").and_then(|(_, rest)| {
        let (reason, by) = rest.split(']').next()?.rsplit_once(" [")?;
        Some((reason.to_owned(), by.split('@').next()?.to_owned()))
    });
    let name = line.trim_start_matches("NodeName=").split(' ').next().unwrap_or_default();
    let read = SlurmNode {
        tokens: words(value("State")?, '+'),
        cpus: number("CPUTot")?,
        alloc_cpus: number("CPUAlloc")?,
        partitions: words(value("Partitions")?, ','),
        features: words(value("AvailableFeatures")?, ','),
        gres: value("Gres")?.to_owned(),
        reason,
    };
    Ok((name.to_owned(), read))
}

/// Waits until the read API equals the truth of this moment.
pub async fn equals(story: &Story, when: &str) {
    story.step(&format!("the read API equals the truth: {when}"));
    let count = until_within(PATIENCE, &format!("the read API equals the truth ({when})"), || differences(story)).await;
    println!("   {count} devices equal");
}

/// Compares everything once; gives the number of devices, or the first differences.
async fn differences(story: &Story) -> Result<usize, Vec<String>> {
    let fail = |why: String| vec![why];
    let rows = story.labs.netbox.all("/dcim/devices/").await.map_err(|e| fail(e.to_string()))?;
    let mut clusters = BTreeMap::new();
    for cluster in &story.clusters {
        clusters.insert(cluster.site, nodes(cluster).await.map_err(fail)?);
    }
    let api = story.api().await;
    let listed = api.all("/devices").await.map_err(|e| fail(e.to_string()))?;
    let ids: Vec<String> = listed.iter().filter_map(|d| d["id"].as_str().map(str::to_owned)).collect();
    let shown = stream::iter(&ids).map(|id| story.device(id)).buffered(WIDTH).try_collect::<Vec<_>>().await.map_err(fail)?;
    let mut shown: BTreeMap<i64, (Value, Device)> =
        listed.into_iter().zip(shown).filter_map(|(item, device)| Some((device.netbox_id()?, (item, device)))).collect();
    let mut found = Vec::new();
    for row in &rows {
        match row["id"].as_i64().and_then(|id| shown.remove(&id)) {
            Some((item, device)) => found.extend(differs(row, &item, &device, &clusters)),
            None => found.push(format!("{} is missing", row["name"])),
        }
    }
    // What NetBox has no more is not forgotten.
    found.extend(shown.values().filter_map(|(_, device)| device.has("InventoryVanished", "True", "Deleted").err()));
    let sites: BTreeSet<_> = rows.iter().filter_map(|r| r["site"]["slug"].as_str()).collect();
    if rows.len() < FEWEST || sites.len() != 4 {
        found.push(format!("the truth is too small to show anything: {} devices at {sites:?}", rows.len()));
    }
    found.truncate(5);
    if found.is_empty() { Ok(rows.len()) } else { Err(found) }
}

/// One device: its item in the list and its own page against NetBox's row and SLURM's node.
fn differs(row: &Value, item: &Value, device: &Device, clusters: &BTreeMap<&str, BTreeMap<String, SlurmNode>>) -> Vec<String> {
    let name = row["name"].as_str().unwrap_or_default();
    let site = row["site"]["slug"].as_str().unwrap_or_default();
    let link = row["custom_fields"]["slurm_node"].as_str();
    let mut found = Vec::new();
    for (pointer, wanted) in
        [("/name", &row["name"]), ("/site", &row["site"]["slug"]), ("/role", &row["role"]["slug"]), ("/rack", &row["rack"]["name"])]
    {
        if item.pointer(pointer).unwrap_or(&Value::Null) != wanted {
            found.push(format!("in the list {pointer} is {:?}, not {wanted}", item.pointer(pointer)));
        }
    }
    for (pointer, wanted) in inventory(row) {
        found.extend(device.at(pointer, &wanted).err());
    }
    let links = device.0["identity"]["links"].as_array().cloned().unwrap_or_default();
    let shown = links.iter().find(|l| l["system"] == "slurm").and_then(|l| l["id"].as_str());
    if shown != link {
        found.push(format!("its SLURM link is {shown:?}, not {link:?}"));
    }
    let node = link.and_then(|link| clusters.get(site)?.get(link));
    found.extend(scheduler(device, link, node));
    match (link, clusters.contains_key(site)) {
        (Some(_), true) => match conditions(node) {
            Ok(stated) => found.extend(stated.iter().filter_map(|(t, s, r)| device.has(t, s, r).err())),
            Err(other) => found.push(other),
        },
        // Nobody looks there.
        _ => found.extend(SLURM_TYPES.iter().filter(|t| !device.condition(t).is_null()).map(|t| format!("{t} is stated at {site}"))),
    }
    found.extend(device.has("IdentityConflict", "False", "SerialUnique").err());
    let complete = if row["rack"].is_null() { ("False", "RackMissing") } else { ("True", "Complete") };
    found.extend(device.has("InventoryMatched", complete.0, complete.1).err());
    found.into_iter().map(|f| format!("{name}: {f}")).collect()
}

/// What NetBox's row says, by where the API shows it.
fn inventory(row: &Value) -> Vec<(&'static str, Value)> {
    let mut tags: Vec<&str> = row["tags"].as_array().into_iter().flatten().filter_map(|t| t["slug"].as_str()).collect();
    tags.sort_unstable();
    vec![
        ("/name", row["name"].clone()),
        ("/inventory/name", row["name"].clone()),
        ("/inventory/display", row["display"].clone()),
        ("/inventory/site", row["site"]["slug"].clone()),
        ("/inventory/role", row["role"]["slug"].clone()),
        ("/inventory/device_type", row["device_type"]["slug"].clone()),
        ("/identity/serial", row["serial"].clone()),
        ("/identity/asset_tag", row["asset_tag"].clone()),
        ("/inventory/rack", row["rack"]["name"].clone()),
        ("/inventory/position", row["position"].clone()),
        ("/inventory/face", row["face"]["value"].clone()),
        ("/inventory/status", row["status"]["value"].clone()),
        ("/inventory/tenant", row["tenant"]["slug"].clone()),
        ("/inventory/fleet_phase", row["custom_fields"]["fleet_phase"]["value"].clone()),
        ("/inventory/tags", json!(tags)),
    ]
}

/// Section `scheduler` against SLURM's own words.
fn scheduler(device: &Device, link: Option<&str>, node: Option<&SlurmNode>) -> Vec<String> {
    let Some(node) = node else { return device.at("/scheduler", &Value::Null).err().into_iter().collect() };
    let mut wanted = vec![
        ("/scheduler/slurm_node", json!(link)),
        ("/scheduler/state", json!(node.tokens)),
        ("/scheduler/cpus", json!(node.cpus)),
        ("/scheduler/alloc_cpus", json!(node.alloc_cpus)),
        ("/scheduler/partitions", json!(node.partitions)),
        ("/scheduler/features", json!(node.features)),
        ("/scheduler/gres", json!(node.gres)),
        ("/scheduler/reason", json!(node.reason.as_ref().map(|(reason, _)| reason))),
    ];
    // Without a reason 24.11's REST names a user all the same, and scontrol none.
    wanted.extend(node.reason.as_ref().map(|(_, user)| ("/scheduler/user", json!(user))));
    wanted.iter().filter_map(|(pointer, wanted)| device.at(pointer, wanted).err()).collect()
}

const SLURM_TYPES: [&str; 4] = ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"];
type Stated = [(&'static str, &'static str, &'static str); 4];

/// The four conditions, restated for the states in which these labs stay. `Err` = another one, which passes or is to be restated here.
pub fn conditions(node: Option<&SlurmNode>) -> Result<Stated, String> {
    let Some(n) = node else { return Ok(SLURM_TYPES.map(|t| (t, "False", "NotMember"))) };
    let known = ["IDLE", "MIXED", "ALLOCATED", "DOWN", "DRAIN", "NOT_RESPONDING"];
    if let Some(other) = n.tokens.iter().find(|t| !known.contains(&t.as_str())) {
        return Err(format!("{other} is not restated"));
    }
    let (drain, busy) = (n.is("DRAIN"), n.alloc_cpus > 0);
    let schedulable = match () {
        () if n.is("DOWN") && n.is("NOT_RESPONDING") => ("False", "NotResponding"),
        () if n.is("DOWN") => ("False", "Down"),
        () if drain && busy => ("False", "Draining"),
        () if drain => ("False", "Drained"),
        () if n.is("NOT_RESPONDING") => ("False", "NotResponding"),
        () if n.alloc_cpus == n.cpus => ("True", "Allocated"),
        () if busy => ("True", "Mixed"),
        () => ("True", "Idle"),
    };
    let drained = match () {
        () if !drain => ("False", "NotDraining"),
        () if busy => ("False", "Draining"),
        () if n.is("IDLE") => ("True", "Drained"),
        () => ("False", "NotIdle"),
    };
    let own = n.reason.as_ref().is_some_and(|(reason, _)| reason.starts_with("fleet:"));
    let foreign = match () {
        () if !drain => ("False", "NotDraining"),
        () if own => ("False", "OwnDrain"),
        () => ("True", "ForeignDrain"),
    };
    let [member, s, d, f] = SLURM_TYPES;
    Ok([(member, "True", "Listed"), (s, schedulable.0, schedulable.1), (d, drained.0, drained.1), (f, foreign.0, foreign.1)])
}

/// What an answer to the list of nodes says of one node, in either family's shape: its tokens and its CPUs with work.
pub fn told(body: &[u8], name: &str) -> Option<(BTreeSet<String>, i64)> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let node = body["nodes"].as_array()?.iter().find(|n| n["name"] == name)?;
    let words = |v: &Value| -> Vec<String> {
        let list = v.as_array().cloned().unwrap_or_else(|| vec![v.clone()]);
        list.iter().filter_map(|w| w.as_str().map(str::to_uppercase)).collect()
    };
    let tokens = words(&node["state"]).into_iter().chain(words(&node["state_flags"])).collect();
    Some((tokens, node["alloc_cpus"].as_i64()?))
}
