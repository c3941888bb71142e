//! The lists: nodes, partitions, reservations, ping, in each version's shape.

use std::fmt::Write as _;
use std::sync::LazyLock;

use super::{Asked, SlurmFace, Trouble, Version, hostlist, refusals};
use crate::http::Answer;
use crate::shape::{Shape, Slot, plain, text, text_or_null, texts};
use crate::world::{Cluster, Release, Reservation, SlurmNode};

static NODE_42: LazyLock<Shape<SlurmNode>> = LazyLock::new(|| Shape::parse(include_str!("shapes/node_24.shape"), NODE));
static NODE_40: LazyLock<Shape<SlurmNode>> =
    LazyLock::new(|| Shape::parse(include_str!("shapes/node_24.shape"), NODE).without(&["gpu_spec", "res_cores_per_gpu"]));
static NODE_38: LazyLock<Shape<SlurmNode>> = LazyLock::new(|| Shape::parse(include_str!("shapes/node_22.shape"), NODE));
static NODE_36: LazyLock<Shape<SlurmNode>> = LazyLock::new(|| Shape::parse(include_str!("shapes/node_36.shape"), NODE));

static PARTITION_42: LazyLock<Shape<PartitionView>> = LazyLock::new(|| Shape::parse(include_str!("shapes/partition_24.shape"), PARTITION));
static PARTITION_40: LazyLock<Shape<PartitionView>> =
    LazyLock::new(|| Shape::parse(include_str!("shapes/partition_24.shape"), PARTITION).without(&["select_type"]));
static PARTITION_38: LazyLock<Shape<PartitionView>> = LazyLock::new(|| Shape::parse(include_str!("shapes/partition_38.shape"), PARTITION));
static PARTITION_37: LazyLock<Shape<PartitionView>> = LazyLock::new(|| Shape::parse(include_str!("shapes/partition_37.shape"), PARTITION));
static PARTITION_36: LazyLock<Shape<PartitionView>> = LazyLock::new(|| Shape::parse(include_str!("shapes/partition_36.shape"), PARTITION));

static RESERVATION_24: LazyLock<Shape<Reservation>> =
    LazyLock::new(|| Shape::parse(include_str!("shapes/reservation_24.shape"), RESERVATION));
static RESERVATION_22: LazyLock<Shape<Reservation>> =
    LazyLock::new(|| Shape::parse(include_str!("shapes/reservation_22.shape"), RESERVATION));

const NODE: &[(&str, Slot<SlurmNode>)] = &[
    ("name", |n, o| text(o, &n.name)),
    ("tokens", |n, o| texts(o, &n.tokens)),
    ("state_22", |n, o| text(o, &n.base().to_lowercase())),
    // v0.0.36 loses the flags, and more.
    ("state_36", |n, o| match n.base() {
        "MIXED" => text(o, "allocated"),
        "UNKNOWN" => text(o, "invalid"),
        base => text(o, &base.to_lowercase()),
    }),
    ("flags", |n, o| texts(o, &n.tokens.iter().filter(|t| *t != n.base()).collect::<Vec<_>>())),
    ("reason", |n, o| text(o, &n.reason)),
    ("reason_user", |n, o| text(o, &n.reason_user)),
    ("reason_user_or_null", |n, o| text_or_null(o, Some(n.reason_user.as_str()).filter(|u| !u.is_empty()))),
    ("reason_changed_at", |n, o| plain(o, n.reason_changed_at)),
    ("cpus", |n, o| plain(o, n.cpus)),
    ("cpu_load", |n, o| plain(o, n.alloc_cpus * 100 + 12)),
    ("free_mem", |n, o| plain(o, 2_040_000 - n.alloc_cpus * 15_000)),
    ("alloc_cpus", |n, o| plain(o, n.alloc_cpus)),
    ("idle_cpus", |n, o| plain(o, n.cpus - n.alloc_cpus)),
    ("alloc_memory", |n, o| plain(o, n.alloc_cpus * 16_000)),
    ("tres_used", |n, o| plain(o, format_args!("\"{}\"", tres_used(n)))),
    ("tres_used_or_null", |n, o| text_or_null(o, Some(tres_used(n)).filter(|t| !t.is_empty()).as_deref())),
    ("gres", |n, o| text(o, &n.gres)),
    ("gres_used", |n, o| plain(o, format_args!("\"gpu:h200:{}(IDX:{})\"", n.alloc_cpus / 16, gpus_used(n)))),
    ("partitions", |n, o| texts(o, &n.partitions)),
    ("features", |n, o| texts(o, &n.features)),
    ("features_text", |n, o| text(o, &n.features.join(","))),
    ("port", |n, o| plain(o, n.port)),
    ("slurmd_start_time", |n, o| plain(o, n.slurmd_start_time)),
    ("boot_time", |n, o| plain(o, n.boot_time)),
    ("last_busy", |n, o| plain(o, n.last_busy)),
    ("reservation", |n, o| text(o, &n.reservation)),
];

fn tres_used(node: &SlurmNode) -> String {
    if node.alloc_cpus == 0 { String::new() } else { format!("cpu={},mem={}M", node.alloc_cpus, node.alloc_cpus * 16_000) }
}

fn gpus_used(node: &SlurmNode) -> String {
    match node.alloc_cpus / 16 {
        0 => "N/A".to_owned(),
        1 => "0".to_owned(),
        n => format!("0-{}", n - 1),
    }
}

/// A partition with what follows from the cluster's nodes.
struct PartitionView {
    name: String,
    state: String,
    tier: u32,
    nodes: String,
    total: usize,
    online: usize,
}

const PARTITION: &[(&str, Slot<PartitionView>)] = &[
    ("name", |p, o| text(o, &p.name)),
    ("state", |p, o| text(o, &p.state)),
    ("tier", |p, o| plain(o, p.tier)),
    ("nodes", |p, o| text(o, &p.nodes)),
    ("total_nodes", |p, o| plain(o, p.total)),
    ("nodes_online", |p, o| plain(o, p.online)),
    ("total_cpus", |p, o| plain(o, p.total * 128)),
    ("tres", |p, o| plain(o, format_args!("\"cpu={0},mem={1}G,node={2},billing={0}\"", p.total * 128, p.total * 2000, p.total))),
    ("flags", |p, o| o.push_str(if p.name == "batch" { r#"["default"]"# } else { "[]" })),
];

const RESERVATION: &[(&str, Slot<Reservation>)] = &[
    ("name", |r, o| text(o, &r.name)),
    ("nodes", |r, o| text(o, &hostlist::compress(r.nodes.iter().map(String::as_str)))),
    ("count", |r, o| plain(o, r.nodes.len())),
    ("cores", |r, o| plain(o, r.nodes.len() * 128)),
    ("tres", |r, o| plain(o, format_args!("\"cpu={}\"", r.nodes.len() * 128))),
    ("flags", |r, o| o.push_str(if r.maintenance { r#"["MAINT","IGNORE_JOBS","SPEC_NODES"]"# } else { r#"["SPEC_NODES"]"# })),
    ("start", |r, o| plain(o, r.start)),
    ("end", |r, o| plain(o, r.start + 36_000)),
];

impl SlurmFace {
    /// GET. `empty` = lists without entries.
    pub(super) fn read(&self, version: Version, asked: Asked<'_>, update_time: Option<&str>, empty: bool) -> Answer {
        let now = chrono::Utc::now().timestamp();
        let state = self.world.lock();
        let Some(cluster) = state.cluster(&self.site) else { return Answer::text(404, super::NOT_FOUND) };
        match asked {
            Asked::Ping => ping(version, true),
            Asked::Nodes if update_time.is_some() && version.0 == 40 => refusals::unreadable_query(version),
            Asked::Nodes if version.0 > 40 && unchanged(cluster, update_time) => Answer::json(304, ""),
            Asked::Nodes => {
                list(version, "nodes", &each(cluster.nodes.values().filter(|n| !empty && !n.has("FUTURE")), version.node()), now)
            }
            Asked::Node(name) => match cluster.nodes.get(name).filter(|n| !n.has("FUTURE")) {
                Some(node) => list(version, "nodes", &each(std::iter::once(node), version.node()), now),
                None => refusals::refuse(version, asked, Trouble::Unknown, false),
            },
            Asked::Partitions if empty => list(version, "partitions", "", now),
            Asked::Partitions => list(version, "partitions", &each(partitions(cluster).iter(), version.partition()), now),
            Asked::Partition(name) => match partitions(cluster).iter().find(|p| p.name == name) {
                Some(one) => list(version, "partitions", &each(std::iter::once(one), version.partition()), now),
                None => refusals::refuse(version, asked, Trouble::Unknown, false),
            },
            Asked::Reservations => {
                let shape = if version.release() == Release::V24 { &*RESERVATION_24 } else { &*RESERVATION_22 };
                list(version, "reservations", &each(cluster.reservations.iter().filter(|_| !empty), shape), now)
            }
        }
    }
}

impl Version {
    fn node(self) -> &'static Shape<SlurmNode> {
        match self.0 {
            36 => &NODE_36,
            37 | 38 => &NODE_38,
            40 => &NODE_40,
            _ => &NODE_42,
        }
    }

    fn partition(self) -> &'static Shape<PartitionView> {
        match self.0 {
            36 => &PARTITION_36,
            37 => &PARTITION_37,
            38 => &PARTITION_38,
            40 => &PARTITION_40,
            _ => &PARTITION_42,
        }
    }
}

/// slurmctld's rule for "no change since then": at least a second must lie between.
fn unchanged(cluster: &Cluster, update_time: Option<&str>) -> bool {
    update_time.and_then(|t| t.parse::<i64>().ok()).is_some_and(|since| cluster.changed_at < since)
}

fn partitions(cluster: &Cluster) -> Vec<PartitionView> {
    let nodes = hostlist::compress(cluster.nodes.keys().map(String::as_str));
    let (total, online) = (cluster.nodes.len(), cluster.nodes.values().filter(|n| n.base() != "DOWN").count());
    let view = |p: &crate::world::Partition| PartitionView {
        name: p.name.clone(),
        state: p.state.clone(),
        tier: p.tier,
        nodes: nodes.clone(),
        total,
        online,
    };
    cluster.partitions.iter().map(view).collect()
}

fn each<'a, T: 'a>(items: impl Iterator<Item = &'a T>, shape: &Shape<T>) -> String {
    let mut out = String::new();
    for item in items {
        if !out.is_empty() {
            out.push(',');
        }
        shape.write(item, None, &mut out);
    }
    out
}

/// A good answer with one list; `now` is slurmctld's time in unix seconds.
pub(super) fn list(version: Version, key: &str, items: &str, now: i64) -> Answer {
    let meta = version.meta();
    let mut out = String::with_capacity(items.len() + 1000);
    let written = match version.release() {
        Release::V22 => write!(out, r#"{{"meta":{meta},"errors":[],"{key}":[{items}]}}"#),
        Release::V24 => {
            let warnings = match key {
                "partitions" => {
                    r#"{"description":"Slurm accounting storage is disabled. Could not query the following: [TRES].","source":""}"#
                }
                _ => "",
            };
            let last_update = format!(r#"{{"set":true,"infinite":false,"number":{now}}}"#);
            write!(out, r#"{{"{key}":[{items}],"last_update":{last_update},"meta":{meta},"errors":[],"warnings":[{warnings}]}}"#)
        }
    };
    // Writing to a String cannot fail.
    debug_assert!(written.is_ok());
    Answer::json(200, out)
}

/// The ping answer; 24.11 gives it with 200 also when the controller is down.
pub(super) fn ping(version: Version, up: bool) -> Answer {
    let (word, meta) = (if up { "UP" } else { "DOWN" }, version.meta());
    let body = match version.0 {
        0..40 => format!(
            r#"{{"meta":{meta},"errors":[],"pings":[{{"hostname":"head01","ping":"{word}","status":{},"mode":"primary"}}]}}"#,
            u8::from(!up)
        ),
        number => {
            let (responding, primary) =
                if number >= 42 { (format!(r#""responding":{up},"#), r#","primary":true"#) } else { (String::new(), "") };
            let ping = format!(r#"{{"hostname":"head01","pinged":"{word}",{responding}"latency":1948,"mode":"primary"{primary}}}"#);
            format!(r#"{{"pings":[{ping}],"meta":{meta},"errors":[],"warnings":[]}}"#)
        }
    };
    Answer::json(200, body)
}
