//! A fleet that already runs is taken over: what the evidence proposes, and a person confirms.

use crate::story::{PATIENCE, Story};
use crate::truth::{self, SlurmNode};
use fleet_tests::until_within;
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A member of dc2's cluster, whose NetBox status is set against SLURM for a while.
const DISPUTED: (&str, i64) = ("gpu14", 14);

/// Previews, confirms, and looks at what became of it.
pub async fn each_phase_with_its_evidence(story: &Story) {
    story.step("baseline");
    let netbox = &story.labs.netbox;
    let path = format!("/dcim/devices/{}/", DISPUTED.1);
    netbox.change(Method::PATCH, &path, &json!({"status": "failed"})).await.unwrap();
    story.until("the disputed status", DISPUTED.0, |d| d.at("/inventory/status", &"failed".into())).await;
    for site in ["dc1", "dc2", "dc3"] {
        preview(story, site).await;
    }
    netbox.change(Method::PATCH, &path, &json!({"status": "active"})).await.unwrap();
    story.until("the status agrees again", DISPUTED.0, |d| d.at("/inventory/status", &"active".into())).await;

    let (code, text) = story.fmctl(&["site", "baseline", "dc1", "--yes", "--reason", "labs"]).await;
    assert!(code == 0 && text.contains("4 taken over, 0 refused"), "{code} {text}");
    let api = story.api().await;
    for site in ["dc2", "dc3"] {
        let (proposed, _) = proposals(story, site).await.unwrap();
        let expected = proposed.values().filter(|i| i["phase"].is_string()).count();
        assert_eq!(api.baseline(site).await.unwrap(), expected, "{site}");
    }
    let refused = story.fmctl(&["get", "devices", "--site", "dc4", "--filter", "phase = Discovered", "-o", "name"]).await;
    assert_eq!((refused.0, refused.1.trim()), (0, ""), "dc4 has no profile, and so no phase");
    for (device, phase) in
        [("gpu01", "InService"), ("gpu02", "InService"), ("gpu22", "Quarantined"), ("gpu03", "Ready"), ("gpu15", "Discovered")]
    {
        story.until("its phase", device, |d| d.phase(phase)).await;
    }
    let quarantined = story.device("gpu22").await.unwrap();
    quarantined.at("/lifecycle/stage", &"fault".into()).unwrap();
    quarantined.at("/lifecycle/cause", &"Baseline".into()).unwrap();
}

/// The preview of a site says of every device what the truth says.
async fn preview(story: &Story, site: &str) {
    let counts = until_within(PATIENCE, &format!("the preview of {site}"), || async {
        let (shown, rows) = proposals(story, site).await?;
        let cluster = story.clusters.iter().find(|c| c.site == site);
        let nodes = match cluster {
            Some(cluster) => Some(truth::nodes(cluster).await?),
            None => None,
        };
        if shown.len() != rows.len() {
            return Err(format!("{} of {} devices are shown", shown.len(), rows.len()));
        }
        let mut counts = BTreeMap::<String, usize>::new();
        for row in &rows {
            let name = row["name"].as_str().unwrap_or_default();
            let item = shown.get(name).ok_or_else(|| format!("{name} is not shown"))?;
            let (phase, says) = expected(row, nodes.as_ref())?;
            agrees(item, phase, &says).map_err(|why| format!("{name}: {why}: {item}"))?;
            *counts.entry(phase.unwrap_or("undecided").to_owned()).or_default() += 1;
        }
        Ok::<_, String>(counts)
    })
    .await;
    println!("   {site}: {counts:?}");
}

/// The preview by name, and NetBox's rows.
async fn proposals(story: &Story, site: &str) -> Result<(BTreeMap<String, Value>, Vec<Value>), String> {
    let said = |e: anyhow::Error| e.to_string();
    let rows = story.labs.netbox.all(&format!("/dcim/devices/?site={site}")).await.map_err(said)?;
    let body = story.api().await.get(&format!("/sites/{site}/baseline")).await.map_err(said)?;
    let items = body["items"].as_array().cloned().unwrap_or_default();
    Ok((items.into_iter().map(|i| (i["name"].as_str().unwrap_or_default().to_owned(), i)).collect(), rows))
}

/// A phase, and what evidence or problem must say.
type Expected = (Option<&'static str>, Vec<String>);

/// The map of the baseline, restated.
fn expected(row: &Value, nodes: Option<&BTreeMap<String, SlurmNode>>) -> Result<Expected, String> {
    let status = row["status"]["value"].as_str().unwrap_or_default();
    let node = nodes.zip(row["custom_fields"]["slurm_node"].as_str()).and_then(|(nodes, link)| nodes.get(link));
    let mut says = vec![format!("NetBox status {status}")];
    if nodes.is_some() {
        let [(_, member, _), (_, schedulable, reason), ..] = truth::conditions(node)?;
        says.extend([format!("SlurmMember {member}"), format!("SlurmSchedulable {schedulable} ({reason})")]);
    }
    // The seed's own words for phases are none of ours.
    let no_evidence = "fleet_phase `planned` is no phase of ours: no evidence".to_owned();
    Ok(match (status, nodes, node) {
        ("active", None, _) => (Some("Ready"), [says, vec![no_evidence]].concat()),
        ("active", Some(_), Some(_)) => (Some("InService"), [says, vec![no_evidence]].concat()),
        ("active", Some(_), None) => (None, [says, vec!["NetBox says active, SlurmMember is False".into()]].concat()),
        (other, Some(_), Some(_)) => (None, [says, vec![format!("NetBox says {other}, SLURM would start jobs on it")]].concat()),
        ("failed", _, None) => (Some("Quarantined"), [says, vec![no_evidence]].concat()),
        (other, _, None) => (None, [says, vec![format!("NetBox status {other} says nothing of a device that runs")]].concat()),
        (_, None, Some(_)) => unreachable!("no nodes, no node"),
    })
}

fn agrees(item: &Value, phase: Option<&str>, says: &[String]) -> Result<(), String> {
    if item["phase"].as_str() != phase {
        return Err(format!("proposed {}, expected {phase:?}", item["phase"]));
    }
    if item["problem"].is_null() != phase.is_some() {
        return Err("it has a phase and a problem, or neither".into());
    }
    let words = format!("{} {}", item["evidence"], item["problem"]);
    match says.iter().find(|s| !words.contains(s.as_str())) {
        Some(missing) => Err(format!("nothing says `{missing}`")),
        None => Ok(()),
    }
}
