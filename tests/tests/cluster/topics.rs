//! Topics that are missing, or not as they must be.

use fleet_journal::Topics;
use fleet_log::EventLog;
use fleet_log::kafka::KafkaLog;
use fleet_tests::Stand;

/// A hub refuses what differs, saying what `topics apply` would do; `apply` does what may be done, and refuses the rest.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_or_differs_is_named_and_mended_or_refused() {
    let Stand { folder, sim, brokers, fleet, .. } = Stand::quiet(4, 1, false).await.unwrap();
    let says = |args: &[&str]| fleet.manager(0, args).map_or_else(|e| e.to_string(), |text| text);
    assert!(says(&["topics", "plan", "--config", "hub.toml"]).contains("all as they must be"));
    // Another fleet's prefix: nothing is there.
    let file = folder.path().join("hub-0/hub.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("prefix = \"c.\"", "prefix = \"d.\"")).unwrap();
    let refused = says(&["hub", "--config", "hub.toml"]);
    // Who mistyped the prefix is not told to found another journal.
    assert!(refused.contains("none of the topics is there") && refused.contains("apply nothing"), "{refused}");
    assert!(says(&["topics", "plan", "--config", "hub.toml"]).contains("create  d.fm.journal.v1"), "a plan makes all of them");
    // One of them is there, with other partitions and another retention.
    let other = KafkaLog::open(fleet_log::kafka::Options { prefix: "d.".into(), ..brokers.options() }).await.unwrap();
    let mut specs = Topics::specs_kafka();
    let commands = specs.iter_mut().find(|s| s.name.ends_with("commands.v1")).unwrap();
    commands.retention = None;
    let commands = commands.clone();
    let journal = specs.iter_mut().find(|s| s.name.ends_with("journal.v1")).unwrap();
    journal.partitions = 7;
    let journal = journal.clone();
    other.ensure(&[commands, journal]).await.unwrap();
    let plan = says(&["topics", "plan", "--config", "hub.toml"]);
    assert!(plan.contains("refuse  d.fm.journal.v1: partition count is 7, must be 25"), "{plan}");
    assert!(plan.contains("set     d.fm.commands.v1: retention.ms = 1209600000 (is -1)"), "{plan}");
    let refused = says(&["topics", "apply", "--config", "hub.toml"]);
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(says(&["topics", "plan", "--config", "hub.toml"]).contains("create  d.fm.observations.v1"), "nothing was made");
    // The right number of partitions on a third prefix: what can be set is set, and the journal founded.
    std::fs::write(&file, text.replace("prefix = \"c.\"", "prefix = \"e.\"")).unwrap();
    let third = KafkaLog::open(fleet_log::kafka::Options { prefix: "e.".into(), ..brokers.options() }).await.unwrap();
    let mut specs = Topics::specs_kafka();
    specs.iter_mut().for_each(|s| s.retention = None);
    third.ensure(&specs).await.unwrap();
    let unfounded = says(&["hub", "--config", "hub.toml"]);
    assert!(unfounded.contains("retention.ms"), "{unfounded}");
    let applied = says(&["topics", "apply", "--config", "hub.toml"]);
    assert!(applied.contains("stands in 25 partitions"), "{applied}");
    assert!(says(&["topics", "plan", "--config", "hub.toml"]).contains("all as they must be"));
    sim.stop().await;
}
