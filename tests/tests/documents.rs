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

#[test]
fn the_settings_page_has_every_key_of_the_configuration_files() {
    let path = repository("docs/SETTINGS.md");
    let told = std::process::Command::new(fleet_tests::binary("fleet-manager")).args(["config", "settings"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    if std::env::var_os("FM_BLESS").is_some() {
        std::fs::write(&path, &told).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == told, "docs/SETTINGS.md differs from `fleet-manager config settings`; FM_BLESS=1 writes it anew");
    for key in ["`tls.cert_file`", "`issuers[].grants[].group`", "`netbox[].sweep_seconds`", "`sites[].roles.<name>.scheduler`"] {
        assert!(page.contains(key), "{key} is not in the page");
    }
}

#[test]
fn the_charts_values_are_what_a_hub_reads() {
    let sites = ["lhr1".parse().unwrap()];
    let text = std::fs::read_to_string(repository("infra/charts/hub/values.yaml")).unwrap();
    let clients = fleet_hub::access::Clients::roster(&text, &sites).unwrap();
    let told = |c: &fleet_hub::access::Client| format!("{} {} {}", c.client, c.source.map_or("-", |s| s.as_str()), c.scopes.join(" "));
    let want = [
        "slurm-agent-lhr1 slurm device:update device-condition:create",
        "netbox-agent-main netbox observation:create",
        "temporal-worker-lhr1 - slurm-bootstrap-config:read",
    ];
    assert_eq!(clients.iter().map(told).collect::<Vec<_>>(), want);
    assert!(clients.iter().all(|c| c.sites == ["lhr1"]), "{clients:?}");
    fleet_hub::access::Clients::new(clients).unwrap();
    // Public halves alone: a private one would have `d`.
    assert!(!text.contains(" d: ") && !text.contains("\"d\":"));
    let satellite = std::fs::read_to_string(repository("infra/charts/satellite/values.yaml")).unwrap();
    assert!(satellite.contains("slurm-agent-lhr1") && satellite.contains("netbox-agent-main"));
}

#[test]
fn the_api_page_names_every_code_of_an_error() {
    let page = std::fs::read_to_string(repository("docs/API.md")).unwrap();
    let mut codes = std::collections::BTreeSet::new();
    for path in crate::tidy::rust().into_iter().filter(|p| p.to_string_lossy().contains("/hub/src/")) {
        let text = std::fs::read_to_string(path).unwrap();
        for after in text.split("StatusCode::").skip(1) {
            let code = after.split_once(", \"").filter(|(status, _)| status.chars().all(|c| c.is_ascii_uppercase() || c == '_'));
            codes.extend(code.and_then(|(_, rest)| rest.split_once('"')).map(|(code, _)| code.to_owned()));
        }
    }
    assert!(codes.len() > 20, "{codes:?}");
    let missing: Vec<_> = codes.iter().filter(|c| !page.contains(&format!("`{c}`"))).collect();
    assert!(missing.is_empty(), "docs/API.md does not name {missing:?}");
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
