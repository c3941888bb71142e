//! What goes wrong at SLURM: a node's daemon, the token, the controller.

use crate::drain::shows;
use crate::story::{BOUND, Cluster, Device, INTERVAL, PATIENCE, Story, is_list, replace};
use crate::truth;
use fleet_tests::recorder::{Answered, Call};
use fleet_tests::until_within;
use serde_json::Value;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Devices whose slurmd dies, one of each cluster. No other step touches them.
const KILLED: [&str; 2] = ["gpu13", "gpu14"];
/// From the start of a look to its first call, generously.
const MOMENT: Duration = Duration::from_millis(100);

/// A killed slurmd: not schedulable as soon as SLURM itself says so, in SLURM's own two steps.
pub async fn a_killed_slurmd(story: &Story) {
    let [old, new] = &story.clusters;
    tokio::join!(killed(story, old, KILLED[0]), killed(story, new, KILLED[1]));
}

async fn killed(story: &Story, cluster: &Cluster, device: &str) {
    let lab = &cluster.lab.script;
    let killed = Instant::now();
    lab.run(&["kill", device]).await.unwrap();
    for tokens in [&["NOT_RESPONDING"][..], &["DOWN"]] {
        let gone = |d: &Device| {
            let state = d.0["scheduler"]["state"].as_array().cloned().unwrap_or_default();
            match tokens.iter().find(|t| !state.iter().any(|s| s == **t)) {
                Some(missing) => Err(format!("{state:?} lacks {missing}")),
                None if d.has("SlurmSchedulable", "False", "Down").is_ok() => Ok(()),
                None => d.has("SlurmSchedulable", "False", "NotResponding"),
            }
        };
        let what = format!("{device}: its slurmd killed, {}", tokens.join("+"));
        let found = story.appears(&what, (&cluster.recorder, killed), shows(device, tokens), device, gone).await;
        found.has("SlurmMember", "True", "Listed").unwrap();
        found.phase("InService").unwrap();
    }
    lab.run(&["start", device]).await.unwrap();
    let answering = || async {
        let node = truth::nodes(cluster).await?.remove(device).ok_or("no such node")?;
        if node.is("NOT_RESPONDING") { Err(format!("{:?}", node.tokens)) } else { Ok(node) }
    };
    if until_within(PATIENCE, "its slurmd answers", answering).await.is("DOWN") {
        // 24.11 keeps the reason of the death before, appends to it, and then does not know its own reason again.
        cluster.lab.typed(&format!("scontrol update nodename={device} state=resume")).await.unwrap();
    }
    story.until("its slurmd is back", device, |d| d.has("SlurmSchedulable", "True", "Idle")).await;
}

/// A token whose end has passed is never sent; what it leaves unknown reads so at once, and a fresh one mends it.
pub async fn an_expired_token(story: &Story) {
    story.step("an expired token");
    // 22.05 answers an expired token as it answers for a dead controller.
    let cluster = &story.clusters[0];
    let (site, device) = (cluster.site, "gpu01");
    let expired = cluster.lab.token(1).await.unwrap();
    let end = expiry(&expired);
    until_within(PATIENCE, "the token ends", || async { if now() > end { Ok(()) } else { Err(end) } }).await;
    let written = Instant::now();
    replace(&cluster.jwt_file, &expired);
    let stale = async |wanted: bool| {
        let source = story.source(site, "slurm").await?;
        let d = story.device(device).await?;
        match wanted {
            true if source["fault"] == "TokenExpired" && source["fresh"] == false => d.has("SlurmSchedulable", "Unknown", "TokenExpired"),
            false if source["fault"].is_null() && source["fresh"] == true => d.has("SlurmSchedulable", "True", "Idle"),
            _ => Err(source.to_string()),
        }
    };
    until_within(PATIENCE, "the expired token", || stale(true)).await;
    let seen = Instant::now();
    story.note("dc1: from the expired token's coming to its being seen", written, seen);
    assert!(seen.duration_since(written) <= BOUND, "{:?}", seen.duration_since(written));
    let d = story.device(device).await.unwrap();
    for r#type in ["SlurmMember", "SlurmSchedulable", "SlurmDrained", "SlurmDrainForeign"] {
        d.has(r#type, "Unknown", "TokenExpired").unwrap();
        assert!(d.condition(r#type)["said"].is_string(), "{type} forgot what was said");
    }
    // Time for more looks, told by the other cluster, which is still asked.
    let other = &story.clusters[1];
    let looks = other.looks().len();
    until_within(PATIENCE, "three more looks elsewhere", || async {
        let now = other.looks().len();
        if now >= looks + 3 { Ok(()) } else { Err(now) }
    })
    .await;
    let calls = cluster.recorder.calls();
    assert!(!calls.iter().any(|c| c.token == expired), "the expired token was sent");
    assert!(!calls.iter().any(|c| c.asked_at > seen), "SLURM was asked without a token that counts");

    let mended = Instant::now();
    replace(&cluster.jwt_file, &cluster.lab.token(86_400).await.unwrap());
    until_within(PATIENCE, "the fresh token", || stale(false)).await;
    story.within_bound("dc1: a fresh token", (&cluster.recorder, mended), |c, a| is_list(c) && a.status == 200);
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

/// When a token ends, in seconds.
fn expiry(token: &str) -> i64 {
    let claims = jsonwebtoken::dangerous::insecure_decode::<Value>(token).unwrap().claims;
    claims["exp"].as_i64().unwrap()
}

/// Both controllers are killed and started again.
pub async fn a_controller_that_is_down(story: &Story) {
    story.step("controllers down");
    let [old, new] = &story.clusters;
    tokio::join!(controller_down(story, old, "gpu01"), controller_down(story, new, "gpu02"));
    truth::equals(story, "after the controllers are back").await;
}

/// One look at a site while its controller is down.
struct Sample {
    answered: Instant,
    status: Value,
    reason: Value,
    fault: Value,
}

async fn sample(story: &Story, site: &str, device: &str) -> Sample {
    let source = story.source(site, "slurm").await.unwrap();
    let d = story.device(device).await.unwrap();
    let c = d.condition("SlurmSchedulable");
    Sample { answered: Instant::now(), status: c["status"].clone(), reason: c["reason"].clone(), fault: source["fault"].clone() }
}

async fn controller_down(story: &Story, cluster: &Cluster, device: &str) {
    let site = cluster.site;
    story.until("it is as always", device, |d| d.has("SlurmSchedulable", "True", "Idle")).await;
    let killed = Instant::now();
    cluster.lab.script.run(&["kill", "slurmctld"]).await.unwrap();
    let mut samples = Vec::new();
    loop {
        let s = sample(story, site, device).await;
        let done = s.fault == "ControllerDown" && s.status == "Unknown" && s.reason == "ControllerDown";
        if samples.last().is_none_or(|l: &Sample| l.fault != s.fault) && s.fault == "ControllerDown" {
            let failed = |c: &Call, a: &Answered| c.path.starts_with("/slurm/") && a.status >= 500;
            story.within_bound(&format!("{site}: its controller down"), (&cluster.recorder, killed), failed);
        }
        samples.push(s);
        if done {
            break;
        }
        assert!(killed.elapsed() < PATIENCE, "{site}: {:?}", samples.last().map(|s| (&s.fault, &s.status, &s.reason)));
        // What is sampled has no event to await; a client may ask 200 times a second.
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    // What was said counts until three intervals have passed since the last complete look began.
    let good = |c: &Call| c.answer.as_ref().is_some_and(|a| a.status == 200);
    let calls = cluster.recorder.calls();
    let last_partitions = calls.iter().rev().find(|c| c.path.ends_with("/partitions") && good(c)).expect("there were looks").asked_at;
    let last_look = calls.iter().rev().find(|c| is_list(c) && c.asked_at < last_partitions).expect("nodes come first").asked_at;
    let kept = last_look + 3 * INTERVAL;
    // A look begins a moment before its first call.
    let early: Vec<_> = samples.iter().filter(|s| s.answered + MOMENT < kept).collect();
    assert!(!early.is_empty() && early.iter().all(|s| s.status == "True" && s.reason == "Idle"), "{site}: unknown too early");
    let unknown = samples.iter().find(|s| s.status == "Unknown").expect("the loop ended there").answered;
    story.note(&format!("{site}: from its last look to Unknown"), last_look, unknown);
    assert!(unknown <= kept + BOUND, "{site}: unknown too late");

    let up = Instant::now();
    cluster.lab.up().await.unwrap();
    let recovered = || async {
        let source = story.source(site, "slurm").await?;
        if source["fresh"] != true || !source["fault"].is_null() {
            return Err(source.to_string());
        }
        story.device(device).await?.has("SlurmSchedulable", "True", "Idle")
    };
    until_within(PATIENCE, "the controller is back", recovered).await;
    story.note(&format!("{site}: from `up` to fresh again"), up, Instant::now());
}
