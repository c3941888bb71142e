//! User-data: where it may be seen, and that it is nowhere else.

use super::*;
use fleet_hub::vault::{Error, MasterKey, UserData, Vault};
use fleet_journal::Topics;
use fleet_log::{EventLog, Item, sqlite::SqliteLog};
use fleet_schemas::{JournalRecord, StreamId, topics};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

/// 24 bytes, so that its base64 stands whole in the base64 of whatever it is planted in at a multiple of three.
const CANARY: &str = "canary-4f1d9c-never-seen";
const IN_BASE64: &str = "Y2FuYXJ5LTRmMWQ5Yy1uZXZlci1zZWVu";

fn planted(i: usize) -> String {
    // `#cloud-config\n#` and so on: 15 bytes before the canary.
    let text = format!("#cloud-config\n#{CANARY}\n# {i}\n");
    let body = Command::new("base64").arg("-w0").stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn();
    let mut body = body.unwrap();
    std::io::Write::write_all(&mut body.stdin.take().unwrap(), text.as_bytes()).unwrap();
    let encoded = String::from_utf8(body.wait_with_output().unwrap().stdout).unwrap();
    assert!(encoded.contains(IN_BASE64), "{encoded}");
    encoded
}

fn holds(bytes: &[u8]) -> bool {
    let hex: String = CANARY.bytes().map(|b| format!("{b:02x}")).collect();
    let list: Vec<_> = CANARY.bytes().map(|b| b.to_string()).collect();
    let forms = [CANARY.to_owned(), IN_BASE64.to_owned(), hex, list.join(","), list.join(", ")];
    forms.iter().any(|form| bytes.windows(form.len()).any(|w| w == form.as_bytes()))
}

fn files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()) {
        if entry.is_dir() { files(&entry, out) } else { out.push(entry) }
    }
}

/// Every file of the folder, and the log beside it.
fn scan(folder: &Path) -> usize {
    let mut all = Vec::new();
    files(folder, &mut all);
    for file in &all {
        assert!(!holds(&std::fs::read(file).unwrap()), "{} holds user-data", file.display());
    }
    all.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn planted_user_data_is_in_the_one_answer_and_nowhere_else() {
    assert!(holds(format!("x{CANARY}y").as_bytes()) && holds(planted(0).as_bytes()), "the scan finds what is there");
    crypto();
    let folder = TempDir::new().unwrap();
    let data = folder.path().join("data");
    let metrics = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sim = ["--sim", "sites=2,devices=8,people=false,pace=10", "--metrics", &metrics];
    let hub = Running::start_with(&data, &sim, &[("RUST_LOG", "trace,sqlx=debug,hyper=info")]).await.unwrap();
    let (hpc, all) = (client(&hub, ALL, &["*"]), client(&hub, &fleet_hub::access::SCOPES.join(" "), &["*"]));
    until("the site", || async { if get(&hpc, LIST).await.status.is_success() { Ok(()) } else { Err(()) } }).await;

    let mut answers = vec![post(&hpc, json!({"device_role": "gpu-node", "user_data": planted(0)})).await];
    for i in 1..4 {
        answers.push(patch(&hpc, "gpu-node", json!({"user_data": planted(i)})).await);
    }
    answers.push(post(&hpc, json!({"device_role": "gpu-node", "user_data": planted(5)})).await);
    answers.push(send(&hpc, Method::PATCH, &format!("{LIST}gpu-node/?dry_run=true"), json!({"user_data": planted(6)}), &[]).await);
    for wrong in [
        json!({"user_data": format!("{}!", planted(7))}),
        json!({"user_data": planted(7), "image": 7}),
        json!({"user_data": "QUFB".repeat(20_000) + &planted(7)}),
    ] {
        answers.push(patch(&hpc, "gpu-node", wrong).await);
    }
    let one = get(&hpc, &format!("{LIST}gpu-node/")).await;
    assert_eq!(one.body["user_data"], json!(planted(3)), "{}", one.body);
    assert_eq!(get(&hpc, &format!("{LIST}gpu-node/?version=2")).await.body["user_data"], json!(planted(1)));

    for path in
        ["/admin/parked", "/admin/projections", "/devices", "/sites", "/sites/sim1", "/operations", "/sites/sim1/slurm-bootstrap-configs"]
    {
        answers.push(get(&all, &format!("/api/v1{path}")).await);
    }
    let device = answers.iter().find_map(|a| Some(a.body["items"][0]["id"].as_str()?.to_owned())).unwrap();
    answers.push(all.command(&device, "provision", json!({})).await.unwrap());
    for what in ["", "/history", "/timeline", "/why"] {
        answers.push(get(&all, &format!("/api/v1/devices/{device}{what}")).await);
    }
    for answer in &answers {
        assert!(!holds(format!("{} {:?}", answer.body, answer.headers).as_bytes()), "{}", answer.body);
    }
    let text = reqwest::Client::new().get(format!("http://{metrics}/metrics")).send().await.unwrap().text().await.unwrap();
    assert!(text.contains("fm_http_requests_total") && !holds(text.as_bytes()));
    assert!(scan(folder.path()) > 8, "while it runs");
    let log = std::fs::read_to_string(data.with_extension("log")).unwrap();
    assert!(log.contains("TRACE"), "the log was as talkative as it can be");
    assert_eq!(hub.stop().await.unwrap(), Some(0));
    scan(folder.path());
    let replayed = Command::new(fleet_tests::binary("fleet-manager")).args(["replay", "--verify", "--data"]).arg(&data).output().unwrap();
    assert!(replayed.status.success() && !holds(&replayed.stdout), "{}", String::from_utf8_lossy(&replayed.stdout));
    for (file, mode) in [("keys/master.key", 0o600), ("vault/vault.sqlite", 0o600), ("vault", 0o700), ("keys", 0o700)] {
        assert_eq!(std::fs::metadata(data.join(file)).unwrap().permissions().mode() & 0o777, mode, "{file}");
    }
}

/// The decisions on a stream of partition 0: outcome code, what was seen, actor, version.
async fn decisions(data: &Path, stream: &str) -> Vec<(String, String, String, u64)> {
    let log = SqliteLog::open_read_only(&data.join("log")).unwrap();
    let mut reader = log.read(&[(Topics::embedded().at(topics::JOURNAL, 0), 0)]);
    let mut out = Vec::new();
    while let Ok(Item::Record(stored)) = reader.next().await {
        if let JournalRecord::Decision(d) = JournalRecord::decode(&stored.record.value).unwrap()
            && d.stream.to_string() == stream
        {
            out.push((d.outcome.code, d.outcome.seen, d.actor.subject, d.version));
        }
    }
    out
}

#[tokio::test(flavor = "multi_thread")]
async fn every_read_of_user_data_stands_in_the_journal_with_who_and_which() {
    let bed = bed().await;
    let path = format!("{LIST}gpu-node/");
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    assert_eq!(patch(&bed.hpc, "gpu-node", json!({"gres": null})).await.status.as_u16(), 200);
    get(&bed.hpc, LIST).await;
    get(&bed.hpc, &path).await;
    get(&bed.hpc, &format!("{path}?version=1")).await;
    get(&client(&bed.hub, ALL, &["sim2"]), &path).await;
    get(&client(&bed.hub, "device:read", &["*"]), &path).await;
    assert_eq!(patch(&bed.hpc, "gpu-node", json!({"user_data": null})).await.status.as_u16(), 200);
    get(&bed.hpc, &path).await;
    let noted = |seen: &str, version| ("user-data-read".to_owned(), seen.to_owned(), "user-hpc".to_owned(), version);
    let made = |version| (String::new(), String::new(), "user-hpc".to_owned(), version);
    let expected = [made(1), made(2), noted("version 2", 2), noted("version 1", 2), made(3)];
    assert_eq!(decisions(&bed.hub.data, "bootstrap-config/sim1/gpu-node").await, expected);
}

/// Reads are not requests: however many there are, a change is taken the same day.
#[tokio::test(flavor = "multi_thread")]
async fn many_reads_take_no_room_from_changes() {
    let bed = bed().await;
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    let path = format!("{LIST}gpu-node/");
    let reads = (0..2_100).map(|_| get(&bed.hpc, &path));
    let mut all = futures::StreamExt::buffer_unordered(futures::stream::iter(reads), 64);
    while let Some(answer) = futures::StreamExt::next(&mut all).await {
        assert_eq!(answer.status.as_u16(), 200, "{}", answer.body);
    }
    assert_eq!(patch(&bed.hpc, "gpu-node", json!({"gres": null})).await.status.as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn erased_is_unreadable_in_every_version_and_new_user_data_is_not() {
    let bed = bed().await;
    let path = format!("{LIST}gpu-node/");
    let erase = async |role: &'static str| {
        let data = bed.hub.data.clone();
        let run = move || {
            let mut command = Command::new(fleet_tests::binary("fleet-manager"));
            command.args(["vault", "erase", "--data"]).arg(data).args(["sim1", role]).output().unwrap()
        };
        tokio::task::spawn_blocking(run).await.unwrap()
    };
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    assert_eq!(patch(&bed.hpc, "gpu-node", json!({"user_data": "Zm9v"})).await.status.as_u16(), 200);
    assert_eq!(post(&bed.hpc, json!({"device_role": "other", "user_data": "Zm9v"})).await.status.as_u16(), 201);
    assert_eq!(erase("nobody").await.status.code(), Some(1), "nothing to erase is no success");
    let erased = erase("gpu-node").await;
    assert!(erased.status.success(), "{}", String::from_utf8_lossy(&erased.stderr));
    for query in ["", "?version=1", "?version=2"] {
        let gone = get(&bed.hpc, &format!("{path}{query}")).await;
        assert_eq!((status(&gone), gone.body.get("user_data")), ((410, "user-data-erased"), None), "{query}: {}", gone.body);
    }
    assert_eq!(get(&bed.hpc, LIST).await.body["items"].as_array().unwrap().len(), 2, "the rest of it stands");
    assert_eq!(get(&bed.hpc, &path.replace("gpu-node", "other")).await.body["user_data"], "Zm9v");
    let renewed = patch(&bed.hpc, "gpu-node", json!({"user_data": "Zm9v"})).await;
    assert_eq!((renewed.status.as_u16(), &renewed.body["version"]), (200, &json!(3)), "{}", renewed.body);
    assert_eq!(get(&bed.hpc, &path).await.body["user_data"], "Zm9v");
    assert_eq!(get(&bed.hpc, &format!("{path}?version=2")).await.status.as_u16(), 410);
}

/// It all survives a restart and a rebuild of the read model; without its master key, or with another, a vault is not opened.
#[tokio::test(flavor = "multi_thread")]
async fn a_restart_and_a_rebuild_keep_every_version_and_a_lost_master_key_is_said() {
    let bed = bed().await;
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    assert_eq!(patch(&bed.hpc, "gpu-node", json!({"user_data": null})).await.status.as_u16(), 200);
    let admin = client(&bed.hub, "admin", &["*"]);
    let built = admin.post("/admin/projections/rebuild", &json!({})).await.unwrap();
    assert_eq!((&built.body["equal"], &built.body["flipped"]), (&json!(true), &json!(true)), "{}", built.body);
    let Bed { folder, hub, .. } = bed;
    assert_eq!(hub.stop().await.unwrap(), Some(0));
    let hub = start(folder.path()).await;
    let hpc = client(&hub, ALL, &["*"]);
    assert_eq!(get(&hpc, &format!("{LIST}gpu-node/")).await.body["user_data"], Value::Null);
    assert_eq!(get(&hpc, &format!("{LIST}gpu-node/?version=1")).await.body["user_data"], full()["user_data"]);
    assert_eq!(hub.stop().await.unwrap(), Some(0));
    let key = folder.path().join("data/keys/master.key");
    let kept = std::fs::read(&key).unwrap();
    std::fs::remove_file(&key).unwrap();
    let refused = async |told: &str| {
        let why = Running::start(&folder.path().join("data"), &["--sim", "sites=1,devices=1"]).await.err().unwrap().to_string();
        assert!(why.contains(told), "{why}");
    };
    refused("put the key file back").await;
    assert!(!key.exists(), "no key is made up");
    std::fs::write(&key, "bm90IGEga2V5").unwrap();
    refused("holds no master key").await;
    std::fs::write(&key, "MDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDA=").unwrap();
    refused("not the one that this vault was made with").await;
    std::fs::write(&key, kept).unwrap();
    start(folder.path()).await;
}

fn stream(role: &str) -> StreamId {
    format!("bootstrap-config/sim1/{role}").parse().unwrap()
}

async fn vault(folder: &Path) -> Vault {
    let (key, file) = (folder.join("master.key"), folder.join("vault.sqlite"));
    Vault::open_file(&file, MasterKey::read_or_make(&key, &file).unwrap()).await.unwrap()
}

#[tokio::test]
async fn a_seal_is_of_its_configuration_and_tells_equal_from_other_and_nothing_else() {
    let folder = TempDir::new().unwrap();
    let vault = vault(folder.path()).await;
    let data = |text: &str| UserData(text.as_bytes().to_vec());
    let (a, b) = (vault.seal(&stream("a"), &data("x")).await.unwrap(), vault.seal(&stream("b"), &data("x")).await.unwrap());
    assert_eq!(a, vault.seal(&stream("a"), &data("x")).await.unwrap(), "a repeat is the same request");
    assert!(a.key != b.key && a.digest != b.digest && a.ciphertext != b.ciphertext, "no two configurations share a key");
    let other = vault.seal(&stream("a"), &data("y")).await.unwrap();
    assert!(a.nonce != other.nonce && a.digest != other.digest);
    let plain: [u8; 32] = fleet_schemas::Hash::of(b"x").0;
    assert_ne!(a.digest.0, plain, "a digest that anybody could compute would give short user-data away");
    assert_eq!(vault.open(&stream("a"), &a).await.unwrap().0, b"x");
    assert!(matches!(vault.open(&stream("b"), &a).await, Err(Error::Erased(_))), "another configuration has no such key");
    let mut bent = a.clone();
    bent.ciphertext[0] ^= 1;
    assert!(matches!(vault.open(&stream("a"), &bent).await, Err(Error::Damaged)));
    bent = a.clone();
    bent.nonce.pop();
    assert!(matches!(vault.open(&stream("a"), &bent).await, Err(Error::Damaged)));
    let file = folder.path().join("vault.sqlite");
    let wrapped: Vec<u8> = rusqlite::Connection::open(&file)
        .unwrap()
        .query_row("SELECT wrapped FROM data_key WHERE config LIKE '%/a'", [], |r| r.get(0))
        .unwrap();
    assert_eq!(fleet_hub::vault::erase(&file, &stream("a")).await.unwrap(), 1);
    assert!(matches!(vault.open(&stream("a"), &a).await, Err(Error::Erased(_))), "also for who has the vault open");
    let mut left = Vec::new();
    files(folder.path(), &mut left);
    for path in left {
        assert!(!std::fs::read(&path).unwrap().windows(wrapped.len()).any(|w| w == wrapped), "{} still holds the key", path.display());
    }
}
