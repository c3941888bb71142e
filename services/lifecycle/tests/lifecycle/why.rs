//! Everything that waits can say what for, since when, until when, and who can end it; and every button says why not.

use crate::dsl::*;
use fleet_lifecycle::why::{verdicts, waits};
use fleet_schemas::{DAY, HOUR, MINUTE, verbs};

/// Each thing that is waited for: what; until when; who can end it; what helps.
fn told(story: &Story) -> Vec<String> {
    let line = |w: fleet_lifecycle::why::Waiting| {
        let until = w.until.map_or_else(String::new, |t| format!(" until {}", tell::span(t.since(story.run.now))));
        format!("{}{until} | {} | {}", w.what, w.owner, w.helps)
    };
    waits(story.device(), &story.run.reference).into_iter().map(line).collect()
}

#[test]
fn what_a_device_waits_for() {
    let typed = |story: &Story, why: &str| {
        let (id, _) = story.device().tasks.iter().next().unwrap();
        format!("scontrol update nodename=gpu01 state=drain reason=\"fleet:{id} {why}\"")
    };
    assert_eq!(told(&given([discovered()])), ["a decision what it is | operator | site baseline, or enrol"]);
    assert_eq!(told(&given([in_service()])), [""; 0]);
    assert_eq!(told(&given([ready_without_slurm()])), ["activation | operator | activate"]);

    let story = given([draining(), seen(slurm("ALLOCATED"))]);
    let help = typed(&story, "on purpose");
    let proof = format!("the proof that no work runs, then stay: the node is not drained until +604799s | site | {help}");
    assert_eq!(told(&story), [proof, format!("planned: slurm-drain of gpu01 (on purpose) | site staff | {help}")]);
    assert_eq!(told(&story.seen(slurm("IDLE+DRAIN").own())), ["drained; a decision what next | operator | resume, quarantine"]);

    let story = given([quarantined()]);
    let help = typed(&story, "Baseline");
    assert_eq!(
        told(&story),
        [
            "a way out of quarantine (Baseline) | operator | validate, maintain".to_owned(),
            format!("planned: slurm-drain of gpu01 (Baseline) | site staff | {help}"),
        ]
    );
    let story = given([ready(), asked(activate()), seen(slurm("DOWN"))]);
    assert_eq!(told(&story), ["SLURM to start jobs: SlurmSchedulable is Down until +899s | site | lift what keeps SLURM from it"]);
    let story = given([ready(), asked(maintain_until(START.plus(HOUR)))]);
    assert_eq!(told(&story), ["the end of the maintenance until +3594s | operator | end-maintenance"]);
}

#[test]
fn what_stands_in_its_way_comes_first() {
    let story = given([ready_without_slurm(), asked(hold_until("h", START.plus(HOUR))), meanwhile(goes_stale("netbox"))]);
    assert_eq!(
        told(&story),
        [
            "hold `h` by alice: on purpose until +3596s | alice | unhold --name h",
            "netbox at lhr1 is not fresh: no complete look for 3 intervals of 60 s | site | mend the look at netbox",
            "activation | operator | activate",
        ]
    );
    assert_eq!(
        told(&given([seen(netbox().role("storage"))])),
        ["inventory only: role `storage` has none at lhr1 | site owner | give the role a profile in the site's configuration"]
    );
    let story = given([draining(), seen(slurm("ALLOCATED+DRAIN").own()), after(8 * DAY)]);
    let silent = given([draining(), seen(slurm("IDLE")), meanwhile(goes_stale("slurm"))]);
    assert!(
        told(&silent).iter().any(|w| w.starts_with("the proof that no work runs, then stay: SLURM was not seen freshly")),
        "{:?}",
        told(&silent)
    );
    assert_eq!(told(&story)[0], "draining for more than 7 days | operator | resume, quarantine, end the work");
}

#[test]
fn a_plan_that_a_foreign_drain_blocks_says_so() {
    let story = given([draining(), seen(slurm("IDLE+DRAIN").reason("admin: x"))]);
    assert_eq!(told(&story)[1], "planned: slurm-drain of gpu01 (on purpose) | site staff | wait for the foreign drain to end");
    let story = given([draining(), drained(), asked(resume())]);
    assert_eq!(
        told(&story)[1],
        "planned: slurm-undrain of gpu01 (the device is in service) | site staff | scontrol update nodename=gpu01 state=undrain"
    );
}

/// A button is refused exactly as the verb would be.
#[test]
fn every_button_says_why_not() {
    let stories: [fn() -> Given; 6] = [discovered, in_service, draining, ready, quarantined, in_maintenance];
    for before in stories {
        let story = given([before(), asked(hold("operator")), after(MINUTE)]);
        let judged = verdicts(story.run.entity.device().unwrap(), story.run.version, &story.run.reference, story.run.now);
        let built: Vec<_> = verbs::TABLE.iter().filter(|v| v.built).map(|v| v.name).collect();
        assert_eq!(judged.iter().map(|v| v.verb).collect::<Vec<_>>(), built);
        for verdict in judged {
            let mut asked = story.clone();
            asked.run.now = story.run.now.plus(-fleet_schemas::SECOND);
            let asked = asked.when(verbs::plain(verdict.verb).unwrap());
            assert_eq!(verdict.refusal, asked.came().refusal, "{}", verdict.verb);
        }
    }
}
