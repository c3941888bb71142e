//! Tables in the documents are generated from the code; `FM_BLESS=1` writes them anew.

use fleet_lifecycle::edges::{EDGES, Need, Trigger};
use fleet_lifecycle::{Sense, condition_types};
use fleet_schemas::{Phase, verbs};
use fleet_tests::repository;

#[test]
fn the_lifecycle_page_says_what_the_code_says() {
    let path = repository("docs/LIFECYCLE.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    let before = page.clone();
    for (name, table) in [("edges", edges()), ("verbs", verb_table()), ("conditions", conditions())] {
        let (open, close) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
        let (head, rest) = page.split_once(&open).unwrap_or_else(|| panic!("no place for {name}"));
        let (_, tail) = rest.split_once(&close).unwrap();
        page = format!("{head}{open}{table}{close}{tail}");
    }
    if std::env::var_os("FM_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert!(page == before || std::env::var_os("FM_BLESS").is_some(), "docs/LIFECYCLE.md differs from the code; FM_BLESS=1 writes it anew");
}

fn phases(list: &[Phase]) -> String {
    if list.is_empty() { "–".into() } else { list.iter().map(|p| p.as_str()).collect::<Vec<_>>().join(", ") }
}

fn edges() -> String {
    let mut out = String::from("| # | kind | from | to | by | needs beyond its kind | here |\n|---|---|---|---|---|---|---|\n");
    for e in EDGES {
        let by = match e.trigger {
            Trigger::Verb(verb) => format!("`{verb}`"),
            Trigger::Observed => "what agents see".into(),
        };
        let need = |n: &Need| match n {
            Need::Evidence => "evidence that agrees".to_owned(),
            Need::WorkloadProof => "workload proof".into(),
            Need::NoForeignDrain => "no foreign drain".into(),
            Need::NoEffect(effect) => format!("no {effect}"),
            Need::StageLeadsTo(phase) => format!("a stage that leads to {phase}"),
            Need::SuitesPassed => "no suite named, or passed".into(),
            Need::TargetBuilt => "a target that is built".into(),
            Need::Grants => "every name that it claims its own".into(),
        };
        let needs: Vec<_> = e.needs.iter().map(need).collect();
        let here = if e.built { "yes" } else { "not yet" };
        let kind = format!("{:?}", e.kind).to_lowercase();
        out.push_str(&format!(
            "| {} | {kind} | {} | {} | {by} | {} | {here} |\n",
            e.number,
            phases(e.from),
            phases(e.to),
            needs.join("; ")
        ));
    }
    out
}

fn verb_table() -> String {
    let mut out = String::from("| verb | what | parameters | here |\n|---|---|---|---|\n");
    for v in verbs::TABLE {
        let param = |p: &verbs::Param| match p.default {
            Some(default) => format!("`{}` ({}; {default})", p.name, p.help),
            None => format!("`{}` ({})", p.name, p.help),
        };
        let params: Vec<_> = v.params.iter().map(param).collect();
        out.push_str(&format!(
            "| `{}` | {} | {} | {} |\n",
            v.name,
            v.help,
            params.join(", "),
            if v.built { "yes" } else { "refused `not-available`" }
        ));
    }
    out
}

fn conditions() -> String {
    let mut out = String::from("| type | source | good when | severity | effects while it holds | says |\n|---|---|---|---|---|---|\n");
    for t in condition_types() {
        let good = match t.sense {
            Sense::Readiness => "True",
            Sense::Problem => "False",
            Sense::Fact => "– (a fact)",
        };
        let effects: Vec<_> = t.effects.iter().map(|e| e.as_str()).collect();
        out.push_str(&format!("| `{}` | {} | {good} | {} | {} | {} |\n", t.name, t.source, t.severity, effects.join(", "), t.about));
    }
    out
}
