//! The whole of phase × verb as one golden table: what is granted and where it leads, what is refused and with which code. For a
//! device on which everything is well, and for one with a hold, with a silent SLURM, with a foreign drain. Phases that no decision of
//! this build reaches are put there by their history.

use crate::dsl::*;
use fleet_schemas::{Ask, Phase, Stage, verbs};

/// As it would stand in SLURM: drained under our mark out of service, with jobs where it drains, busy in service.
fn healthy(phase: Phase) -> Given {
    let stage = (phase == Phase::Quarantined).then_some(Stage::Fault);
    let drained = || discovered().and(put(Phase::Ready, None)).and(put(Phase::Quarantined, stage)).and(seen(slurm("DOWN"))).and(drained());
    match phase {
        Phase::Discovered => discovered(),
        Phase::InService => discovered().and(put(phase, None)),
        Phase::Draining => drained().and(seen(slurm("ALLOCATED+DRAIN").own())).and(put(phase, None)),
        _ => drained().and(put(phase, stage)),
    }
}

type Variant = (&'static str, fn(Phase) -> Given);

const VARIANTS: [Variant; 4] = [
    ("Everything is well", |phase| put(phase, None)),
    ("A hold stands", |phase| asked(hold("operator")).and(put(phase, None))),
    ("SLURM is silent", |phase| meanwhile(goes_stale("slurm")).and(put(phase, None))),
    ("Somebody else drained it", |phase| seen(slurm("MIXED+DRAIN").reason("admin: memory test")).and(put(phase, None))),
];

fn asks() -> Vec<(&'static str, Ask)> {
    let built = verbs::TABLE.iter().filter(|v| v.built).filter_map(|v| Some((v.name, verbs::plain(v.name)?)));
    [("baseline", baseline(Phase::InService))].into_iter().chain(built).collect()
}

/// Where it led (`Draining/quarantine` is a drain that leads there), `ok` if nowhere, the code if it was refused, and `.` for the code
/// of most: `phase-forbids`.
fn verdict(story: &Story, ask: Ask) -> String {
    let before = story.device().phase;
    let story = story.clone().when(ask);
    let device = story.device();
    match &story.came().refusal {
        Some(refusal) if refusal.code == "phase-forbids" => ".".into(),
        Some(refusal) => refusal.code.into(),
        None if device.phase == before && story.came().all().all(|e| e.name() != "DrainRedirected") => "ok".into(),
        None => format!("-> {}{}", device.phase.unwrap(), device.then.map_or_else(String::new, |t| format!("/{t}"))),
    }
}

/// `put` writes the phase once more behind what the variant did, without a plan: the verb meets the device as it was put.
fn row(phase: Phase, with: fn(Phase) -> Given) -> Vec<String> {
    let story = given([healthy(phase), with(phase)]);
    let verdicts = asks().into_iter().map(|(_, ask)| verdict(&story, ask));
    [phase.to_string()].into_iter().chain(verdicts).collect()
}

fn table(rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..rows[0].len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap()).collect();
    let line = |row: &Vec<String>| {
        row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}  ")).collect::<String>().trim_end().to_owned()
    };
    rows.iter().map(|row| line(row) + "\n").collect()
}

#[test]
fn phase_by_verb() {
    let tables = VARIANTS.map(|(name, with)| {
        let head = [name.to_owned()].into_iter().chain(asks().iter().map(|(verb, _)| (*verb).to_owned())).collect();
        let rows = Phase::ALL.iter().map(|phase| row(*phase, with));
        table(&[head].into_iter().chain(rows).collect::<Vec<_>>())
    });
    insta::assert_snapshot!("phase_by_verb", tables.join("\n"));
}
