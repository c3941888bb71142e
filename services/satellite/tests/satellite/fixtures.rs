//! Every recorded answer, through `translate_file`.

use std::collections::{BTreeMap, BTreeSet};

use fleet_satellite::{DeviceList, FileOptions, translate_file};
use fleet_schemas::Source;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

use crate::harness::{fixtures, listed};

fn read(path: &str) -> String {
    std::fs::read_to_string(fixtures(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn tsv(path: &str) -> Vec<BTreeMap<String, String>> {
    let text = read(path);
    let mut lines = text.lines().map(|l| l.split('\t').map(str::to_owned).collect::<Vec<_>>());
    let header = lines.next().unwrap();
    lines.map(|row| header.iter().cloned().zip(row.into_iter().chain(std::iter::repeat_with(String::new))).collect()).collect()
}

fn slurm(text: &str) -> Vec<Value> {
    translate_file(Source::Slurm, &FileOptions::default(), text)
}

/// `True Idle` of one line; empty = the line does not say.
fn condition(line: &Value, r#type: &str) -> String {
    let found = line["conditions"].as_array().unwrap().iter().find(|c| c["type"] == r#type);
    found.map_or(String::new(), |c| format!("{} {}", c["status"].as_str().unwrap(), c["reason"].as_str().unwrap()))
}

fn named<'a>(lines: &'a [Value], name: &str) -> &'a Value {
    lines.iter().find(|l| l["name"] == name).unwrap_or_else(|| panic!("no {name} in {lines:?}"))
}

const FOLDERS: [&str; 6] =
    ["22.05.8/v0.0.36", "22.05.8/v0.0.37", "22.05.8/v0.0.38", "24.11.5/v0.0.40", "24.11.5/v0.0.41", "24.11.5/v0.0.42"];

#[test]
fn every_row_of_the_expected_table() {
    let rows = tsv("slurm/EXPECTED.tsv");
    assert_eq!(rows.len(), 114);
    for row in rows {
        let lines = slurm(&read(&format!("slurm/{}", row["file"])));
        let line = named(&lines, &row["node"]);
        assert_eq!(condition(line, "SlurmSchedulable"), format!("{} {}", row["SlurmSchedulable"], row["reason"]), "{row:?}");
        let drained = condition(line, "SlurmDrained");
        let expected = if row["SlurmDrained"].is_empty() { "Unknown" } else { &row["SlurmDrained"] };
        assert_eq!(drained.split(' ').next(), Some(expected), "{row:?}");
        let tokens: Vec<&str> = line["native"]["state"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(tokens.join("+"), row["tokens"], "{row:?}");
        let own = line["native"]["reason"].as_str().is_some_and(|r| r.starts_with("fleet:"));
        assert_eq!(own, row["own_mark_in_reason"] == "yes", "{row:?}");
    }
}

/// What a row of an index stands for: the file it names, possibly one of another folder, or a text.
fn answer(folder: &str, row: &BTreeMap<String, String>) -> Option<(String, String)> {
    let name = row["file"].trim_start_matches("= ");
    let path = match (name.strip_prefix("../"), name.is_empty()) {
        (_, true) => return Some((String::new(), row["text_body"].clone())),
        (Some(other), _) => format!("slurm/{}/{other}", folder.split('/').next().unwrap()),
        (None, _) => format!("slurm/{folder}/{name}"),
    };
    (!name.ends_with(".jsonl")).then(|| (path.clone(), read(&path)))
}

#[test]
fn every_recorded_answer_names_its_nodes_or_says_why_it_cannot() {
    let (mut nodes, mut others) = (0, 0);
    for folder in FOLDERS {
        let version = folder.split('/').nth(1).unwrap();
        for row in tsv(&format!("slurm/{folder}/INDEX.tsv")) {
            let Some((path, text)) = answer(folder, &row) else { continue };
            let options =
                FileOptions { api_version: Some(version.into()), http_status: row["status"].parse().ok(), ..FileOptions::default() };
            let lines = translate_file(Source::Slurm, &options, &text);
            let file = path.rsplit('/').next().unwrap();
            if file == "nodes.json" || (file.starts_with("node_") && !file.starts_with("node_update")) {
                assert!(lines.iter().all(|l| l["name"].is_string() && l["conditions"].as_array().unwrap().len() == 4), "{path}: {lines:?}");
                nodes += 1;
            } else {
                assert!(
                    lines.len() == 1 && lines[0].get("conditions").is_none() && lines[0]["error"]["meaning"].is_string(),
                    "{path}: {lines:?}"
                );
                others += 1;
            }
        }
    }
    assert!(nodes > 100 && others > 200, "{nodes} {others}");
}

#[test]
fn refusals_mean_what_section_4_says() {
    for (folder, name, class, reason) in [
        ("22.05.8/v0.0.38", "err_expired_token_nodes", "Transient", "ControllerDown"),
        ("22.05.8/v0.0.38", "err_slurmctld_down_nodes", "Transient", "ControllerDown"),
        ("22.05.8/v0.0.38", "err_slurmctld_down_node", "Transient", "ControllerDown"),
        ("22.05.8/v0.0.38", "err_no_auth", "Permanent", "NoData"),
        ("22.05.8/v0.0.38", "err_unknown_node", "Permanent", "NoData"),
        ("22.05.8/v0.0.38", "err_unsupported_api_version", "Permanent", "NoData"),
        ("22.05.8/v0.0.37", "err_garbage_token", "Transient", "ControllerDown"),
        ("24.11.5/v0.0.42", "err_expired_token_nodes", "Permanent", "NoData"),
        ("24.11.5/v0.0.40", "err_bad_signature", "Permanent", "NoData"),
        ("24.11.5/v0.0.42", "err_slurmctld_down_nodes", "Transient", "ControllerDown"),
        ("24.11.5/v0.0.42", "err_slurmctld_down_submit", "Transient", "ControllerDown"),
        ("24.11.5/v0.0.42", "err_unknown_node", "Permanent", "NoData"),
        ("24.11.5/v0.0.42", "node_update_err_not_admin", "Permanent", "PermissionDenied"),
        ("24.11.5/v0.0.42", "ping", "Malformed", "NoData"),
    ] {
        let rows = tsv(&format!("slurm/{folder}/INDEX.tsv"));
        let row = rows.iter().find(|r| r["name"] == name).unwrap_or_else(|| panic!("{folder} {name}"));
        let options = FileOptions { http_status: row["status"].parse().ok(), ..FileOptions::default() };
        let error = translate_file(Source::Slurm, &options, &answer(folder, row).unwrap().1)[0]["error"].clone();
        assert_eq!((error["class"].as_str(), error["reason"].as_str()), (Some(class), Some(reason)), "{folder} {name}: {error}");
    }
}

#[test]
fn partitions_decide_row_12() {
    let nodes = read("slurm/24.11.5/v0.0.42/node_IDLE.json");
    let all = read("slurm/24.11.5/v0.0.42/partitions.json");
    let empty = r#"{"partitions":[],"errors":[],"warnings":[]}"#.to_owned();
    let down = all.replace("\"UP\"", "\"DOWN\"");
    for (partitions, expected) in [
        (Some(all), "True Idle"),
        (Some(down), "False PartitionDown"),
        (Some(empty), "Unknown NoData"),
        // One partition alone, DOWN or INACTIVE: the node's other one is not in the list.
        (Some(read("slurm/24.11.5/v0.0.42/partition_DOWN.json")), "Unknown NoData"),
        (Some(read("slurm/24.11.5/v0.0.42/partition_INACTIVE.json")), "Unknown NoData"),
        (None, "True Idle"),
    ] {
        let options = FileOptions { partitions: partitions.clone(), ..FileOptions::default() };
        assert_eq!(condition(&translate_file(Source::Slurm, &options, &nodes)[0], "SlurmSchedulable"), expected, "{partitions:?}");
    }
    let old = read("slurm/22.05.8/v0.0.38/node_IDLE.json");
    for (file, expected) in [
        ("22.05.8/v0.0.38/partitions.json", "True Idle"),
        ("22.05.8/v0.0.37/partitions.json", "True Idle"),
        ("22.05.8/v0.0.38/partition_DOWN.json", "Unknown NoData"),
        ("22.05.8/v0.0.38/partition_DRAIN.json", "Unknown NoData"),
        // v0.0.36 says no state at all.
        ("22.05.8/v0.0.36/partitions.json", "Unknown NoData"),
    ] {
        let options = FileOptions { partitions: Some(read(&format!("slurm/{file}"))), ..FileOptions::default() };
        assert_eq!(condition(&translate_file(Source::Slurm, &options, &old)[0], "SlurmSchedulable"), expected, "{file}");
    }
}

#[test]
fn options_say_what_the_answer_cannot() {
    let bare =
        json!({"nodes": [{"name": "gpu01", "state": ["IDLE"], "cpus": 8, "alloc_cpus": 0, "partitions": ["b"]}], "errors": []}).to_string();
    let meaning = |lines: Vec<Value>| lines[0]["error"]["meaning"].as_str().unwrap_or_default().to_owned();
    assert!(meaning(slurm(&bare)).contains("--api-version"));
    let with =
        |version: &str| translate_file(Source::Slurm, &FileOptions { api_version: Some(version.into()), ..FileOptions::default() }, &bare);
    assert_eq!(condition(&with("v0.0.42")[0], "SlurmSchedulable"), "True Idle");
    // Read as the old family, the state is no text: this node is unknown, and a member all the same.
    assert_eq!(condition(&with("v0.0.38")[0], "SlurmSchedulable"), "Unknown NoData");
    assert_eq!(condition(&with("v0.0.38")[0], "SlurmMember"), "True Listed");
    assert!(meaning(with("latest")).contains("no API version"));
    // A recorded exchange brings its status; a text body its own words.
    let exchange =
        json!({"request": {"method": "GET", "path": "/x"}, "response": {"status": 401, "body": "Authentication failure"}}).to_string();
    assert_eq!(meaning(slurm(&exchange)), "GET /x: 401 Authentication failure (the token is refused)");
    // With a device list only its devices are spoken of, also those that are not there.
    let devices = Some(DeviceList { devices: vec![listed(1, "gpu02"), listed(2, "gpu99")] });
    let lines =
        translate_file(Source::Slurm, &FileOptions { devices, ..FileOptions::default() }, &read("slurm/24.11.5/v0.0.42/nodes.json"));
    assert_eq!(lines.iter().map(|l| condition(l, "SlurmMember")).collect::<Vec<_>>(), ["True Listed", "Unknown NoData"]);
    let native = &lines[0]["native"];
    assert!(native["slurmd_start_time"].as_str().unwrap().starts_with("2026-11-30T") && native["reason"].is_null(), "{native}");
    let json = serde_json::to_string(&DeviceList { devices: vec![listed(1, "gpu02")] }).unwrap();
    assert_eq!(serde_json::from_str::<DeviceList>(&json).unwrap().devices[0], listed(1, "gpu02"));
}

/// Shuffles every array and adds a field to every object, but for objects of names (whose keys are data).
fn disturb(value: &mut Value, rng: &mut StdRng) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(|i| disturb(i, rng));
            items.shuffle(rng);
        }
        Value::Object(fields) => {
            fields.values_mut().for_each(|f| disturb(f, rng));
            fields.insert(format!("unheard_of_{}", rng.random::<u16>()), json!({"set": [1, "DRAIN"]}));
        }
        _ => {}
    }
}

#[test]
fn order_and_unknown_fields_do_not_matter() {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(7);
    println!("SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let sorted = |mut lines: Vec<Value>| {
        lines.sort_by_key(|l| l["name"].to_string());
        lines
    };
    let slurm_files = tsv("slurm/EXPECTED.tsv").into_iter().map(|r| (Source::Slurm, format!("slurm/{}", r["file"])));
    let netbox_files = NETBOX_DEVICES.iter().map(|f| (Source::Netbox, format!("netbox/{f}")));
    for (system, file) in slurm_files.chain(netbox_files) {
        let text = read(&file);
        let expected = sorted(translate_file(system, &FileOptions::default(), &text));
        for _ in 0..3 {
            let mut body: Value = serde_json::from_str(&text).unwrap();
            disturb(&mut body, &mut rng);
            assert_eq!(sorted(translate_file(system, &FileOptions::default(), &body.to_string())), expected, "{file}");
        }
    }
}

/// NetBox answers with whole devices in them. All others name none.
/// (`bulk_patch.json` has them too, but its recording was shortened inside.)
const NETBOX_DEVICES: [&str; 12] = [
    "create_duplicate_serial_ok.json",
    "create_unnamed.json",
    "device_detail.json",
    "devices_list_limit2.json",
    "devices_omit.json",
    "fieldchoices_create_default_status.json",
    "fieldchoices_custom_status_ok.json",
    "if_none_match.json",
    "patch_changelog_message.json",
    "patch_if_match_ok.json",
    "patch_noop.json",
    "vc_member_add.json",
];

#[test]
fn every_recorded_netbox_answer_names_its_devices_or_says_why_it_cannot() {
    for file in files("netbox").into_iter().filter(|f| f.ends_with(".json")) {
        let lines = translate_file(Source::Netbox, &FileOptions::default(), &read(&file));
        if NETBOX_DEVICES.contains(&file.trim_start_matches("netbox/")) {
            assert!(!lines.is_empty() && lines.iter().all(|l| l["conditions"].as_array().unwrap().len() == 2), "{file}: {lines:?}");
        } else {
            assert!(lines.len() == 1 && lines[0]["error"]["meaning"].is_string(), "{file}: {lines:?}");
        }
    }
    let first = |file: &str| translate_file(Source::Netbox, &FileOptions::default(), &read(&format!("netbox/{file}")))[0].clone();
    let whole = first("device_detail.json");
    assert_eq!(
        (condition(&whole, "InventoryMatched"), condition(&whole, "IdentityConflict")),
        ("True Complete".into(), "False SerialUnique".into())
    );
    let expected = json!({
        "instance": "file", "netbox_id": 1, "name": "gpu-00000", "display": "gpu-00000 (AT000000)", "site": "dc1", "role": "gpu-node",
        "device_type": "xe9680", "serial": "SN0000000", "asset_tag": "AT000000", "rack": "R00", "position_tenths": 10, "face": "front",
        "status": "active", "fleet_phase": null, "tenant": "tenant-a", "tags": ["gpu", "managed"], "slurm_node": null, "slurm_node_from": null,
    });
    assert_eq!(whole["native"], expected);
    let unnamed = first("create_unnamed.json");
    assert_eq!(unnamed["name"], "Supermicro SYS-821GE (102)");
    assert_eq!((condition(&unnamed, "InventoryMatched"), &unnamed["native"]["name"]), ("False SerialMissing".into(), &Value::Null));
    assert_eq!(unnamed["conditions"][0]["message"], "no serial; no name; no rack");
    let error = |file: &str| first(file)["error"].clone();
    assert_eq!(error("auth_bad_403.json")["reason"], "PermissionDenied");
    assert!(error("devices_brief.json")["meaning"].as_str().unwrap().contains("missing field"));
    assert_eq!(error("filter_status_bad_400.json")["class"], "Permanent");
    let two = read("netbox/devices_list_limit2.json").replace("SN0000001", "SN0000000");
    let lines = translate_file(Source::Netbox, &FileOptions::default(), &two);
    assert!(lines.iter().all(|l| condition(l, "IdentityConflict") == "True SerialShared"), "{lines:?}");
}

/// Every file below a folder of fixtures, as `slurm/…`.
fn files(folder: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(fixtures(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() { found.extend(files(&path)) } else { _ = found.insert(path) }
    }
    found
}

#[test]
fn every_fixture_is_used_or_listed_with_a_reason() {
    let indexed = FOLDERS.iter().flat_map(|folder| {
        let rows = tsv(&format!("slurm/{folder}/INDEX.tsv")).into_iter().filter_map(|row| answer(folder, &row));
        rows.map(|(path, _)| path).chain([format!("slurm/{folder}/INDEX.tsv")])
    });
    let mut used: BTreeSet<String> = indexed.collect();
    used.extend(tsv("slurm/EXPECTED.tsv").into_iter().map(|r| format!("slurm/{}", r["file"])));
    used.extend(files("netbox").into_iter().filter(|f| f.ends_with(".json")));
    // Read by the tests of `src/slurm/token.rs` and by those above.
    used.extend(files("slurm/tokens"));
    used.insert("slurm/EXPECTED.tsv".into());
    let all: BTreeSet<String> = files("slurm").into_iter().chain(files("netbox")).collect();
    let list = include_str!("../unused-fixtures.txt").lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    let unused: BTreeSet<String> = list
        .map(|line| {
            let (file, reason) = line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}"));
            assert!(reason.len() > 10, "{line}");
            file.to_owned()
        })
        .collect();
    assert_eq!(
        all.difference(&used).cloned().collect::<BTreeSet<_>>(),
        unused,
        "left: what no test uses; right: tests/unused-fixtures.txt"
    );
}
