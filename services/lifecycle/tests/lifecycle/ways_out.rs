//! Nothing is a dead end: every (Quarantined, stage) and every phase that this build reaches has a verb that leads on.

use crate::dsl::*;
use fleet_schemas::{Ask, Phase, Stage, verbs};

fn quarantined_at(stage: Stage) -> Story {
    given([discovered(), put(Phase::Quarantined, Some(stage)), seen(slurm("DOWN")), drained()])
}

/// Verbs that are granted and change the phase, with where they lead.
fn leads(story: &Story) -> Vec<String> {
    let mut out = Vec::new();
    for verb in verbs::TABLE {
        let ask: Ask = verbs::plain(verb.name).unwrap();
        let asked = story.clone().when(ask);
        let led = asked.device().phase.filter(|to| Some(*to) != story.device().phase);
        out.extend(led.map(|to| format!("{} -> {to}", verb.name)));
    }
    out
}

#[test]
fn of_quarantine_by_stage() {
    use Stage::*;
    for stage in Stage::ALL {
        let expected: &[&str] = match stage {
            Validate | BurnIn | Activate | Fault => &["validate -> Ready", "maintain -> Maintenance"],
            Enrol | Provision | Adopt | Decommission => &["maintain -> Maintenance"],
        };
        assert_eq!(leads(&quarantined_at(*stage)), expected, "{stage}");
    }
}

/// The stages that decisions of this build leave behind, each reached by itself, with the way that its failure asks for.
#[test]
fn stages_that_are_reached_today_lead_back_to_service() {
    let reached: [(Stage, Given); 4] = [
        (Stage::Fault, quarantined().and(drained())),
        (Stage::Fault, in_service().and(asked(quarantine())).and(drained())),
        (Stage::Fault, ready().and(asked(quarantine()))),
        (Stage::Activate, ready().and(asked(activate())).and(seen(slurm("DOWN"))).and(after(fleet_schemas::DAY)).and(drained())),
    ];
    for (stage, before) in reached {
        let story = given([before]).stands_in(Phase::Quarantined);
        assert_eq!(story.device().stage, Some(stage));
        story.when(validate()).stands_in(Phase::Ready).when(activate()).stands_in(Phase::InService);
    }
}

#[test]
fn of_every_phase_that_is_reached_today() {
    let rows: [(Phase, Given, &[&str]); 7] = [
        (Phase::Discovered, discovered(), &["quarantine -> Quarantined", "maintain -> Maintenance"]),
        (Phase::Ready, ready(), &["activate -> InService", "quarantine -> Quarantined", "maintain -> Maintenance"]),
        (Phase::InService, in_service(), &["drain -> Draining", "quarantine -> Draining", "maintain -> Draining"]),
        (Phase::Draining, draining(), &["resume -> InService"]),
        (Phase::Draining, draining().and(drained()), &["resume -> InService", "quarantine -> Quarantined"]),
        (Phase::Quarantined, quarantined(), &["maintain -> Maintenance"]),
        (Phase::Maintenance, in_maintenance(), &["quarantine -> Quarantined", "end-maintenance -> Ready"]),
    ];
    for (phase, before, expected) in rows {
        let story = given([before]).stands_in(phase);
        assert_eq!(leads(&story), expected, "{phase}");
    }
}
