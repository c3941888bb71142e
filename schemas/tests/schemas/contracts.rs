//! The contract files under `avro/` are what the declarations say, nothing published was ever changed, and every later reader
//! reads what every published schema wrote. `FM_BLESS=1 cargo test -p fleet-schemas` writes new files; it never rewrites a published one.

use crate::{avro, blessing};
use fleet_schemas::*;
use std::fs;

struct Contract {
    kind: &'static str,
    name: &'static str,
    text: String,
}

macro_rules! contracts {
    ($($t:ty),*) => { vec![$(Contract { kind: <$t as Record>::KIND, name: <$t as Record>::NAME, text: registry::text::<$t>() }),*] };
}

fn contracts() -> Vec<Contract> {
    every_record!(contracts)
}

fn fingerprint(text: &str) -> String {
    let schema: serde_avro_fast::Schema = text.parse().unwrap();
    Fingerprint(*schema.rabin_fingerprint()).to_string()
}

#[test]
fn every_family_member_is_a_contract() {
    let names: Vec<_> = contracts().iter().map(|c| c.name).collect();
    let events = [DeviceEvent::NAMES, SiteEvent::NAMES, BootstrapConfigEvent::NAMES, ExclusiveEvent::NAMES, UnclaimedEvent::NAMES];
    for family in [Fact::NAMES, Ask::NAMES, Notice::NAMES].into_iter().chain(events) {
        for name in family {
            assert!(names.contains(name), "{name} is missing from every_record!");
        }
    }
}

#[test]
fn contract_files_are_what_the_declarations_say() {
    for c in contracts() {
        let current = avro().join(c.kind).join(format!("{}.avsc", c.name));
        let published = avro().join("published").join(format!("{}.avsc", fingerprint(&c.text)));
        if blessing() {
            fs::create_dir_all(current.parent().unwrap()).unwrap();
            fs::write(&current, &c.text).unwrap();
            if !published.exists() {
                fs::write(&published, &c.text).unwrap();
            }
        }
        // Compared as JSON: the order of keys in the text depends on a feature that any dependency may switch on.
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap_or_default();
        let on_disk = json(&fs::read_to_string(&current).unwrap_or_default());
        assert_eq!(on_disk, json(&c.text), "{} differs from its declaration; FM_BLESS=1 writes it", current.display());
        assert!(published.exists(), "{} was never published; FM_BLESS=1 adds it", published.display());
    }
}

#[test]
fn a_published_file_is_named_by_its_own_fingerprint() {
    for file in fs::read_dir(avro().join("published")).unwrap().map(|f| f.unwrap().path()) {
        let text = fs::read_to_string(&file).unwrap();
        assert_eq!(file.file_stem().unwrap().to_str().unwrap(), fingerprint(&text), "{} was changed after publication", file.display());
    }
}

/// Journal, event and public records: every version reads every other. Commands and observations: today's reads every older.
#[test]
fn no_change_breaks_a_rule() {
    for c in contracts() {
        let today = apache_avro::Schema::parse_str(&c.text).unwrap();
        for old in registry::all().filter(|p| p.name == c.name) {
            let before = apache_avro::Schema::parse_str(&old.text).unwrap();
            let reads = |writer, reader| apache_avro::schema_compatibility::SchemaCompatibility::can_read(writer, reader);
            let path = format!("avro/published/{}.avsc", old.fingerprint);
            reads(&before, &today).unwrap_or_else(|e| panic!("avro/{}/{}.avsc cannot read {path}: {e}", c.kind, c.name));
            if matches!(c.kind, "journal" | "event" | "public") {
                reads(&today, &before).unwrap_or_else(|e| panic!("{path} cannot read avro/{}/{}.avsc: {e}", c.kind, c.name));
            }
        }
    }
}
