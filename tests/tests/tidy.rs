//! What no compiler checks: floors, sizes, names, links, and that the documents say what the code says.

use fleet_tests::repository;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &str, wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    fn walk(folder: &Path, out: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() && !name.starts_with('.') && name != "target" && name != "data" {
                walk(&path, out);
            } else if path.is_file() {
                out.push(path);
            }
        }
    }
    let mut out = Vec::new();
    walk(&repository(folder), &mut out);
    out.retain(|p| wanted(p));
    out.sort();
    assert!(!out.is_empty(), "nothing found under {folder}");
    out
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e == extension)
}

pub(crate) fn rust() -> Vec<PathBuf> {
    files(".", |p| has_extension(p, "rs"))
}

/// Direct dependencies of each crate of ours on others of ours, and on a few telling libraries.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let mut out = BTreeMap::new();
    for path in files(".", |p| p.file_name().is_some_and(|n| n == "Cargo.toml")) {
        let manifest: toml::Table = toml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        // What has a workspace of its own is no part of the product: the peers of the bench.
        let package = manifest.get("package").filter(|_| !manifest.contains_key("workspace"));
        let Some(name) = package.and_then(|p| p.get("name")).and_then(|n| n.as_str()) else { continue };
        let dependencies = manifest.get("dependencies").and_then(|d| d.as_table()).map(|d| d.keys().cloned().collect()).unwrap_or_default();
        out.insert(name.to_owned(), dependencies);
    }
    out
}

/// A crate may use only the floors below it; and these must never be found where they are named.
#[test]
fn floors_are_kept() {
    let floors: &[(&str, u8, &[&str])] = &[
        ("fleet-schemas", 0, &["tokio", "reqwest", "sqlx", "rusqlite", "axum"]),
        ("fleet-log", 0, &["fleet-schemas"]),
        ("fleet-fence", 1, &["tokio", "sqlx", "reqwest", "rusqlite"]),
        ("fleet-lifecycle", 1, &["tokio", "sqlx", "reqwest", "rdkafka", "rand", "uuid", "chrono"]),
        ("fleet-journal", 2, &["axum", "sqlx"]),
        ("fleet-projections", 2, &["axum", "reqwest", "rdkafka"]),
        ("fleet-satellite", 2, &["fleet-lifecycle", "fleet-journal", "fleet-projections", "fleet-hub"]),
        ("fleet-sim", 2, &["fleet-schemas", "fleet-log", "fleet-fence", "fleet-lifecycle"]),
        ("fleet-hub", 3, &["fleet-satellite", "reqwest"]),
        ("fleet-manager", 4, &[]),
        (
            "fmctl",
            4,
            &["fleet-log", "fleet-fence", "fleet-lifecycle", "fleet-journal", "fleet-projections", "fleet-hub", "fleet-satellite"],
        ),
    ];
    let found = manifests();
    let floor: BTreeMap<_, _> = floors.iter().map(|(name, floor, _)| (*name, *floor)).collect();
    for (name, own, never) in floors {
        let dependencies = found.get(*name).unwrap_or_else(|| panic!("{name} has no manifest"));
        for dependency in dependencies {
            assert!(!never.contains(&dependency.as_str()), "{name} must never import {dependency}");
            if let Some(below) = floor.get(dependency.as_str()) {
                assert!(below < own, "{name} (floor {own}) may not use {dependency} (floor {below})");
            }
        }
    }
    let unlisted: Vec<_> = found.keys().filter(|n| !floor.contains_key(n.as_str()) && n.as_str() != "fleet-tests").collect();
    assert!(unlisted.is_empty(), "these crates stand on no floor: {unlisted:?}");
}

/// The table of floors in the architecture page names every crate.
#[test]
fn the_architecture_page_names_every_crate() {
    let page = fs::read_to_string(repository("docs/ARCHITECTURE.md")).unwrap();
    for name in manifests().keys().filter(|n| *n != "fleet-tests") {
        assert!(page.contains(&format!("`{name}`")), "docs/ARCHITECTURE.md does not name {name}");
    }
}

#[test]
fn a_file_fits_in_400_lines() {
    for path in rust() {
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() <= 400, "{} has {} lines", path.display(), text.lines().count());
    }
}

/// The lifecycle is pure: no clock, no chance, no wildcard over our own words.
#[test]
fn the_lifecycle_is_pure() {
    for path in files("services/lifecycle/src", |p| has_extension(p, "rs")) {
        let text = fs::read_to_string(&path).unwrap();
        for banned in ["SystemTime", "Instant::now", "rand::", "std::fs", "std::net", "std::env", "unsafe", "todo!", "unimplemented!"] {
            assert!(!text.contains(banned), "{}: {banned}", path.display());
        }
    }
}

/// Names that say nothing, or something else here.
#[test]
fn banned_names_are_not_types_or_modules() {
    let banned = ["Node", "Job", "Message", "Handler", "Manager", "Helper", "Util", "Utils", "Aggregate", "Saga"];
    for path in rust() {
        let text = fs::read_to_string(&path).unwrap();
        for line in text.lines().map(str::trim_start) {
            let declared =
                ["pub struct ", "pub enum ", "pub trait ", "struct ", "enum ", "trait ", "pub(crate) struct ", "pub(crate) enum "];
            let Some(rest) = declared.iter().find_map(|d| line.strip_prefix(d)) else { continue };
            let name: String = rest.chars().take_while(|c| c.is_alphanumeric()).collect();
            assert!(!banned.contains(&name.as_str()) && !name.ends_with("Service"), "{}: {line}", path.display());
        }
        for word in banned {
            let module = format!("mod {};", word.to_lowercase());
            assert!(!text.contains(&module), "{}: {module}", path.display());
        }
    }
}

/// Links between documents lead somewhere.
#[test]
fn links_in_documents_lead_somewhere() {
    let documents = files(".", |p| has_extension(p, "md") && !p.to_string_lossy().contains("/fixtures/"));
    for path in documents {
        let text = fs::read_to_string(&path).unwrap();
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") || file.contains(' ') {
                continue;
            }
            let target = path.parent().unwrap_or(Path::new(".")).join(file);
            assert!(target.exists(), "{} links to {file}, which is not there", path.display());
        }
    }
}

/// A contract page says who answers for it and when it was last looked at; a gap has an owner.
#[test]
fn contract_pages_are_complete() {
    for path in files("docs/contracts", |p| has_extension(p, "md")) {
        let text = fs::read_to_string(&path).unwrap();
        for heading in ["Kind", "Version", "Owners", "What flows", "What breaks", "Enforcement", "Last reviewed", "Gaps", "Changes"] {
            assert!(text.contains(heading), "{} has no `{heading}`", path.display());
        }
        let gaps = text.split("## Gaps").nth(1).unwrap_or_default().split("\n## ").next().unwrap_or_default();
        for gap in gaps.lines().filter(|l| l.starts_with("- ")) {
            assert!(gap.contains("owner:"), "{}: a gap without an owner: {gap}", path.display());
        }
    }
}

/// Nothing of the machine it was written on, and no secret.
#[test]
fn no_machine_and_no_secret_in_the_repository() {
    let keys = ["-----BEGIN PRIVATE KEY-----", "-----BEGIN EC PRIVATE KEY-----"];
    let home = ["/ro", "ot/"].concat();
    for path in files(".", |p| !p.to_string_lossy().contains("/fixtures/")) {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let is_this = path.ends_with("tests/tidy.rs") || path.ends_with("access/keys.rs");
        assert!(is_this || keys.iter().all(|k| !text.contains(k)), "{} holds a private key", path.display());
        let named = text.lines().find(|l| l.contains(&home) && !l.contains("HOME") && !l.contains("$LAB"));
        let scripts = path.to_string_lossy().contains("tests/labs");
        assert!(scripts || named.is_none(), "{}: {}", path.display(), named.unwrap_or_default());
    }
}

/// The tests that the developers' page names for field reports are there.
#[test]
fn field_reports_name_tests_that_exist() {
    let page = fs::read_to_string(repository("docs/CONTRIBUTING.md")).unwrap();
    let rows: Vec<_> = page.split("## Field reports").nth(1).unwrap().lines().filter(|l| l.starts_with("| ")).skip(1).collect();
    let code: String = rust().iter().map(|p| fs::read_to_string(p).unwrap()).collect();
    for row in &rows {
        for named in row.split('`').skip(1).step_by(2) {
            let there = match named.split_once("::") {
                Some((_, test)) => code.contains(&format!("fn {test}(")),
                None => repository(named).exists(),
            };
            assert!(there, "{named} is not there: {row}");
        }
    }
    assert!(rows.len() >= 10, "a field report is gone");
}

/// 0.9.0 leaves TCP to hold back statements of more than one write for 40 ms. Who takes a later one: docs/adr/0013.
#[test]
fn the_database_driver_sends_at_once() {
    let lock = fs::read_to_string(repository("Cargo.lock")).unwrap();
    let version = lock.split("name = \"sqlx-core\"\nversion = \"").nth(1).and_then(|rest| rest.split('"').next());
    assert!(version.is_some_and(|version| version.starts_with("0.8.")), "sqlx-core {version:?}");
}
