//! A schema registry: a real one, Apicurio, by tests/labs/schema-registry.sh. It needs a JDK of 21 or later.

use fleet_log::{EventLog, Item, kafka::KafkaLog};
use fleet_schemas::topics as names;
use fleet_tests::{Fleet, Proxy, Stand, Way, free_port, repository, until};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

struct Registry {
    home: PathBuf,
    port: u16,
}

impl Registry {
    /// None where no JDK of 21 or later is found.
    fn start(folder: &Path) -> Option<Self> {
        let registry = Self { home: folder.join("registry"), port: free_port() };
        let done = registry.script("up");
        let text = String::from_utf8_lossy(&done.stderr).into_owned();
        if text.contains("no JDK 21 or newer") {
            return None;
        }
        assert!(done.status.success(), "{text}");
        Some(registry)
    }

    fn script(&self, what: &str) -> std::process::Output {
        let mut command = Command::new("bash");
        command.arg(repository("tests/labs/schema-registry.sh")).arg(what);
        command.env("REGISTRY_LAB_HOME", &self.home).env("REGISTRY_LAB_PORT", self.port.to_string()).output().unwrap()
    }

    fn url(&self) -> String {
        url(self.port)
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}/apis/ccompat/v7")
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.script("down");
    }
}

/// Field report 10 (schema-registry#601, #880; karapace#98): what breaks readers is refused, by us before the registry; and a hub publishes
/// nothing under a schema that nobody registered.
#[tokio::test(flavor = "multi_thread")]
async fn schemas_are_checked_registered_and_stand_in_the_frame() {
    let home = TempDir::new().unwrap();
    let Some(registry) = Registry::start(home.path()) else {
        println!("skipped: schemas_are_checked_registered_and_stand_in_the_frame: no JDK of 21 or later is here");
        return;
    };
    let Stand { folder, sim, database: _database, brokers: _brokers, mut fleet, .. } = Stand::quiet(4, 1, true).await.unwrap();
    let proxy = Proxy::start(0, registry.port).unwrap();
    let file = folder.path().join("hub-0/hub.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("[log]\n", &format!("[log]\nregistry = \"{}\"\n", url(proxy.port)))).unwrap();
    let says = |args: &[&str]| fleet.manager(0, args).map_or_else(|e| e.to_string(), |text| text);
    let unknown = says(&["hub", "--config", "hub.toml"]);
    assert!(unknown.contains("fleet-manager schemas register"), "{unknown}");
    let checked = says(&["schemas", "check", "--config", "hub.toml"]);
    assert!(checked.contains("DeviceState in device-state.v1: as published; "), "{checked}");
    let registered = says(&["schemas", "register", "--config", "hub.toml"]);
    assert!(registered.contains("DeviceState: id "), "{registered}");
    assert_eq!(registered.replace('\n', ""), says(&["schemas", "register", "--config", "hub.toml"]).replace('\n', ""), "again, the same");
    assert!(says(&["schemas", "check", "--config", "hub.toml"]).contains("the registry takes it"));
    // Away: the hub does all else, and publishes when it is back.
    proxy.turn(Way::Cut);
    fleet.start(0).await.unwrap();
    fleet.start_satellite().await.unwrap();
    fleet.shows(0, 4).await.unwrap();
    let (log, topics) = fleet.log_of_hubs().await.unwrap();
    for partition in 0..topics.partitions - 1 {
        assert_eq!(log.bounds(topics.at(names::DEVICE_STATE, partition)).await.unwrap().end, 0, "published without a frame");
    }
    proxy.turn(Way::Open);
    framed(&fleet, &registry).await;
    fleet.end_satellite();
    fleet.stop(0).await.unwrap();
    breaking(&fleet, &registry).await;
    sim.stop().await;
}

/// A record of the state topic begins with the id under which the registry gives its schema.
async fn framed(fleet: &Fleet, registry: &Registry) {
    let log = KafkaLog::open(fleet.kafka.clone()).await.unwrap();
    let specs = fleet_journal::Topics::specs_kafka();
    log.look(&specs).unwrap();
    let topics = fleet_journal::Topics::kafka();
    let id = until("a device's state is published", || async {
        for partition in 0..24 {
            if let Ok(Item::Record(r)) = log.read(&[(topics.at(names::DEVICE_STATE, partition), 0)]).next().await {
                assert_eq!(r.record.value[0], 0, "Confluent's magic byte");
                return Ok(i32::from_be_bytes(r.record.value[1..5].try_into().unwrap()));
            }
        }
        Err("nothing yet")
    })
    .await;
    let answer: Value = reqwest::get(format!("{}/schemas/ids/{id}", registry.url())).await.unwrap().json().await.unwrap();
    let schema: Value = serde_json::from_str(answer["schema"].as_str().unwrap()).unwrap();
    assert_eq!(schema["name"], "DeviceState");
}

/// Somebody registered what our records could not be read with: `check` says so, and `register` registers nothing.
async fn breaking(fleet: &Fleet, registry: &Registry) {
    let client = reqwest::Client::new();
    let subject = format!("{}fm.device-events.v1-fm.v1.DeviceHeld", fleet.kafka.prefix);
    let latest: Value =
        client.get(format!("{}/subjects/{subject}/versions/latest", registry.url())).send().await.unwrap().json().await.unwrap();
    let mut schema: Value = serde_json::from_str(latest["schema"].as_str().unwrap_or_else(|| panic!("{latest}"))).unwrap();
    let required = json!({"name": "why", "type": "string"});
    schema["fields"].as_array_mut().unwrap().push(required);
    let url = format!("{}/config/{subject}", registry.url());
    client.put(url).json(&json!({"compatibility": "NONE"})).send().await.unwrap().error_for_status().unwrap();
    let body = json!({"schema": schema.to_string(), "schemaType": "AVRO"});
    let url = format!("{}/subjects/{subject}/versions", registry.url());
    client.post(url).json(&body).send().await.unwrap().error_for_status().unwrap();
    let url = format!("{}/config/{subject}", registry.url());
    client.put(url).json(&json!({"compatibility": "FULL_TRANSITIVE"})).send().await.unwrap().error_for_status().unwrap();
    let refused = fleet.manager(0, &["schemas", "check", "--config", "hub.toml"]).unwrap_err().to_string();
    assert!(refused.contains("DeviceHeld in device-events.v1: as published; BREAKS FULL_TRANSITIVE"), "{refused}");
    let refused = fleet.manager(0, &["schemas", "register", "--config", "hub.toml"]).unwrap_err().to_string();
    assert!(refused.contains("nothing was registered"), "{refused}");
}
