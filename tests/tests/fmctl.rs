//! What people type: the README's commands as they stand there, names of every kind, and what is refused before anything is done.

use axum::http::{HeaderMap, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Json, Router};
use fleet_tests::{Running, binary, configure, crypto, repository, until};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tempfile::TempDir;

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs `fleet-manager` in a folder.
fn manager(folder: &Path, args: &[&str]) -> Output {
    Command::new(binary("fleet-manager")).current_dir(folder).args(args).stdin(Stdio::null()).output().unwrap()
}

/// Every line in a shell of its own after the `export` lines, against the world of `make run`. A line that does not end with 0 says
/// with what in its remark.
#[tokio::test(flavor = "multi_thread")]
async fn the_readme_does_what_it_says() {
    crypto();
    let folder = TempDir::new().unwrap();
    let makefile = fs::read_to_string(repository("Makefile")).unwrap();
    let world = makefile.lines().find_map(|l| l.strip_prefix("SIM ?= ")).unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", world]).await.unwrap();
    fs::create_dir(hub.data.join("bin")).unwrap();
    for program in ["fmctl", "fleet-manager"] {
        std::os::unix::fs::symlink(binary(program), hub.data.join("bin").join(program)).unwrap();
    }
    let readme = fs::read_to_string(repository("README.md")).unwrap();
    let block = readme.split("```").find(|b| b.starts_with("sh\nexport ")).unwrap();
    let lines: Vec<_> = block.lines().skip(1).filter(|l| !l.is_empty()).collect();
    let (exports, commands): (Vec<_>, Vec<_>) = lines.into_iter().partition(|l| l.starts_with("export "));
    assert!(commands.len() > 12, "{block}");
    for line in commands {
        let said = line.split_once("exit ").map(|(_, rest)| rest.chars().take_while(char::is_ascii_digit).collect::<String>());
        let expected: i32 = said.map_or(0, |code| code.parse().unwrap());
        let (script, at) = (format!("{}\n{line}", exports.join("\n")), folder.path().to_owned());
        let run = move || Command::new("sh").current_dir(at).arg("-c").arg(script).stdin(Stdio::null()).output().unwrap();
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        assert_eq!(output.status.code(), Some(expected), "{line}\n{}\n{}", text(&output), hub.log());
    }
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}

/// A wait outlives its token, and a hub that has no time for it: the hub here takes the second token only once the first has been used.
#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_ended_meanwhile_is_fetched_anew() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=1,devices=1,people=false"]).await.unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (issued, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let metadata = json!({"issuer": url, "token_endpoint": format!("{url}/oauth/token")});
    let token = move || async move { Json(json!({"access_token": format!("t{}", issued.fetch_add(1, SeqCst) + 1)})) };
    let device = move |headers: HeaderMap| async move {
        match (headers["authorization"].to_str().unwrap(), asked.fetch_add(1, SeqCst)) {
            ("Bearer t1", 0) => Json(json!({"lifecycle": {"phase": "Draining"}})).into_response(),
            ("Bearer t1", 1) => (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], Json(json!({"detail": "later"}))).into_response(),
            ("Bearer t2", _) => Json(json!({"lifecycle": {"phase": "Ready"}})).into_response(),
            _ => (StatusCode::UNAUTHORIZED, Json(json!({"detail": "the token has expired"}))).into_response(),
        }
    };
    let router = Router::new()
        .route("/.well-known/oauth-authorization-server", get(move || async move { Json(metadata) }))
        .route("/oauth/token", post(token))
        .route("/api/v1/devices/gpu001", get(device));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let context = fs::read_to_string(hub.context()).unwrap().replace(&hub.url, &url);
    fs::write(hub.context(), context).unwrap();
    let output = hub.fmctl(&["wait", "device/gpu001", "--for", "phase=Ready", "--timeout", "30s"]).await.unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

/// A name is one segment of a path, whatever is in it: `x/../gpu009` once drained gpu009.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_means_the_device_that_has_it_and_no_other() {
    crypto();
    let folder = TempDir::new().unwrap();
    let options = fleet_sim::Options { sites: 1, devices: 12, seed: 1, people: false, pace: 10.0 };
    let sim = fleet_sim::start(options).await.unwrap();
    let names = ["a/b", "a b", "a?b#c", "100%", "%2e%2e", "a\\b;c&d=e+f", "Gerät", "say \"x\"", "a AND b = c"];
    for (number, name) in names.iter().enumerate() {
        let device = sim.world.device_named(&format!("gpu{:03}", number + 1)).unwrap();
        sim.world.rename_device(device.id, Some(name), "alice");
    }
    let hub = Running::start(&folder.path().join("data"), &["--config", configure(&sim, folder.path()).to_str().unwrap()]).await.unwrap();
    let fmctl = async |args: &[&str]| hub.fmctl(args).await.unwrap();
    for name in names {
        let wait = fmctl(&["wait", &format!("device/{name}"), "--for", "phase=Discovered", "--timeout", "60s"]).await;
        assert_eq!(wait.status.code(), Some(0), "{name}: {}", text(&wait));
        for looked in [["describe", "device", name].as_slice(), &["why", name], &["timeline", name], &["history", name]] {
            let seen = fmctl(looked).await;
            assert_eq!(seen.status.code(), Some(0), "{looked:?}: {}", text(&seen));
        }
        let whole: Value = serde_json::from_slice(&fmctl(&["why", name, "-o", "json"]).await.stdout).unwrap();
        assert_eq!(whole["name"], name);
        let held = fmctl(&["hold", name, "--reason", "x", "--name", "k"]).await;
        assert!(text(&held).contains("accepted"), "{name}: {}", text(&held));
        let quoted = format!("name = \"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""));
        let listed = fmctl(&["get", "devices", "--filter", &quoted, "-o", "name"]).await;
        assert_eq!(text(&listed).trim_end(), name);
        let conditions = fmctl(&["get", "conditions", "--device", name, "--no-headers"]).await;
        assert!(text(&conditions).lines().all(|l| l.starts_with(name)), "{}", text(&conditions));
    }
    let before = text(&fmctl(&["history", "gpu010", "--no-headers"]).await);
    for (name, code) in [("x/../gpu010", 3), ("./gpu010", 3), ("gpu010/", 3), ("gpu010?x=", 3), ("..", 2), (".", 2), ("", 2)] {
        let refused = fmctl(&["hold", name, "--reason", "x", "--name", "k"]).await;
        assert_eq!(refused.status.code(), Some(code), "{name}: {}", text(&refused));
    }
    assert_eq!(text(&fmctl(&["history", "gpu010", "--no-headers"]).await), before, "nobody else's name did anything");
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_typed_wrong_is_refused_and_says_what_is_right() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=1,devices=24,people=false,pace=10"]).await.unwrap();
    let first = hub.fmctl(&["wait", "device/gpu003", "--for", "SlurmMember=true", "--timeout", "60s"]).await.unwrap();
    assert_eq!(first.status.code(), Some(0), "{}", text(&first));
    let rows: &[(&[&str], i32, &str)] = &[
        (&["wait", "device/gpu003", "--for", "phase=Nope"], 2, "InService"),
        (&["wait", "device/gpu003", "--for", "SlurmMembre=True"], 2, "SlurmMember"),
        (&["wait", "device/gpu003", "--for", "SlurmMember=Yes"], 2, "Unknown"),
        (&["wait", "device/gpu003", "--for", "drained=maybe"], 2, "true, false"),
        (&["wait", "device/gpu003", "--for", "colour=red"], 2, "drained"),
        (&["wait", "operation/x", "--for", "verb=drain"], 2, "state"),
        (&["wait", "rack/r1", "--for", "phase=Ready"], 2, "operation/"),
        (&["wait", "device/gpu003", "--for", "phase=Ready", "--timeout", "9999999999999999h"], 2, "no span"),
        (&["wait", "device/gpu003", "--for", "phase=Ready", "--timeout", "5µ"], 2, "no span"),
        (&["wait", "device/gpu003", "--for", "phase=Ready", "--timeout", "0s"], 7, "resume: fmctl wait"),
        (&["wait", "device/nobody", "--for", "phase=Ready", "--timeout", "1s"], 3, "nobody"),
        (&["get", "devices", "--filter", "phase = Nope"], 2, "InService"),
        (&["get", "devices", "--filter", "owner = nobody"], 2, "filter"),
        (&["get", "devices", "--site", "No Site"], 2, "filter"),
        (&["get", "devices", "--state", "running"], 2, "--state"),
        (&["get", "devices", "--device", "gpu003"], 2, "--device"),
        (&["get", "operations", "--filter", "state = nope"], 2, "running"),
        (&["get", "attention", "--device", "gpu003"], 2, "filter, site, max"),
        (&["get", "denials", "--filter", "client = x"], 2, "--filter"),
        (&["acknowledge", "gpu003:drain", "--reason", "known"], 4, "nothing waits for a person"),
        (&["acknowledge", "gpu003", "--reason", "known"], 3, "<device>:<item>"),
        (&["auth", "can-i", "everything"], 2, "device:read"),
        (&["get", "operations", "--site", "sim1"], 2, "--site"),
        (&["get", "conditions", "--device", "gpu003", "--filter", "type = SlurmMember"], 2, "--filter"),
        (&["get", "sites", "--filter", "site = sim1"], 2, "--filter"),
        (&["get", "sites", "--max", "3"], 2, "--max"),
        (&["get", "devices", "--site", "sim1", "--filter", "phase = Discovered"], 0, "gpu003"),
    ];
    for (args, code, said) in rows {
        let output = hub.fmctl(args).await.unwrap();
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
    let undecided = hub.fmctl(&["site", "baseline", "sim1", "--only", "gpu003,gpu777", "--yes"]).await.unwrap();
    assert_eq!(undecided.status.code(), Some(3), "one of those named is not there");
    for said in ["gpu777 is not in the preview", "1 taken over, 0 refused, 0 undecided"] {
        assert!(text(&undecided).contains(said), "{}", text(&undecided));
    }
    let preview = text(&hub.fmctl(&["site", "baseline", "sim1", "--preview", "--no-headers"]).await.unwrap());
    let undecided = preview.lines().filter(|l| l.split_whitespace().nth(1) == Some("-")).count();
    let rest = hub.fmctl(&["site", "baseline", "sim1", "--yes"]).await.unwrap();
    assert!(text(&rest).contains(&format!(", {undecided} undecided")) && undecided > 0, "{}", text(&rest));
    assert_eq!(hub.stop().await.unwrap(), Some(0));
}

/// Each of dev's users asks what it may do; what one may not stands in the list that the auditor reads.
#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_its_rights_and_the_auditor_what_was_denied() {
    crypto();
    let folder = TempDir::new().unwrap();
    let hub = Running::start(&folder.path().join("data"), &["--sim", "sites=1,devices=1,people=false"]).await.unwrap();
    let user = |name: &str| hub.data.join(name).to_string_lossy().into_owned();
    let (operator, auditor) = (user("fmctl.toml"), user("user-auditor.toml"));
    let rows: &[(&str, &[&str], i32, &str)] = &[
        (&operator, &["whoami"], 0, "user-operator"),
        (&operator, &["whoami"], 0, "device-lifecycle:create  *"),
        (&operator, &["auth", "can-i", "device:update", "--site", "sim1"], 0, "yes"),
        (&operator, &["auth", "can-i", "device:update", "--site", "sim9"], 6, "no\n"),
        (&auditor, &["auth", "can-i", "device:update"], 6, "the token has not the scope device:update"),
        (&auditor, &["get", "attention"], 0, "WAYS OUT"),
        (&operator, &["get", "denials"], 6, "audit:read"),
    ];
    for (context, args, code, said) in rows {
        let args = [&["--context", context, "-o", "wide"], *args].concat();
        let output = hub.fmctl(&args).await.unwrap();
        assert_eq!(output.status.code(), Some(*code), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(said), "{args:?}: {}", text(&output));
    }
    // It is written by and by.
    until("the denial", || async {
        let output = hub.fmctl(&["--context", &auditor, "get", "denials"]).await.map_err(|e| e.to_string())?;
        if text(&output).contains("/audit/denials") { Ok(()) } else { Err(text(&output)) }
    })
    .await;
}

/// `fmctl completion bash | true`.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child =
        Command::new(binary("fmctl")).args(["completion", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output)), (Some(0), String::new()));
}

const CONFIGURATION: &str = r#"resync_seconds = 900
[[sites]]
name = "s1"
[sites.slurm]
url = "http://127.0.0.1:1/slurm"
jwt_file = "token"
interval_seconds = 60
[sites.roles.gpu-node]
scheduler = "slurm"
[[sites]]
name = "s2"
[[netbox]]
instance = "main"
url = "http://127.0.0.1:1/netbox"
token_file = "token"
sites = ["s1"]
window_seconds = 600
[[netbox]]
instance = "other"
url = "http://127.0.0.1:1/other"
token_file = "token"
sites = ["s2"]
"#;

#[test]
fn config_check_and_dev_refuse_the_same_and_nothing_is_made() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("my.toml");
    fs::write(folder.path().join("token"), "x").unwrap();
    fs::write(&file, CONFIGURATION).unwrap();
    let fine = manager(folder.path(), &["config", "check", "my.toml"]);
    assert_eq!(fine.status.code(), Some(0), "{}", text(&fine));
    let rows = [
        ("instance = \"other\"", "instance = \"main\"", "`main`"),
        ("instance = \"other\"", "instance = \"\"", "``"),
        ("instance = \"other\"", "instance = \" \"", "` `"),
        ("instance = \"other\"", "instance = \"main \"", "`main `"),
        ("http://127.0.0.1:1/netbox", "http://user:hunter2@127.0.0.1:1", "no user and no password"),
        ("http://127.0.0.1:1/slurm", "http://user:hunter2@127.0.0.1:1", "no user and no password"),
        ("http://127.0.0.1:1/netbox\"", "http://user:hunter2@127.0.0.1:1", "TOML parse error"),
        ("\"http://127.0.0.1:1/netbox\"", "[\"http://user:hunter2@127.0.0.1:1\"]", "expected a string"),
        ("resync_seconds = 900", "resync_seconds = \"http://user:hunter2@127.0.0.1:1\"", "expected an integer"),
        ("http://127.0.0.1:1/netbox", "ftp://127.0.0.1", "http(s)://"),
        ("http://127.0.0.1:1/slurm", "127.0.0.1", "slurm of s1"),
        ("interval_seconds = 60", "interval_seconds = 0", "0 s for slurm"),
        ("interval_seconds = 60", "interval_seconds = 18446744073709551615", "too large"),
        ("window_seconds = 600", "window_seconds = 0", "window_seconds is 0"),
        ("window_seconds = 600", "sweep_seconds = 0", "sweep_seconds is 0"),
        ("window_seconds = 600", "interval_seconds = 0", "0 s for netbox"),
        ("window_seconds = 600", "deadline_seconds = 0", "deadline_seconds is 0"),
        ("resync_seconds = 900", "resync_seconds = 0", "resync_seconds is 0"),
        ("scheduler = \"slurm\"", "scheduler = \"slurm\"\nburn_in = \"week\"", "burn_in: week"),
        ("scheduler = \"slurm\"", "scheduler = \"cron\"", "cron"),
        ("sites = [\"s2\"]", "sites = [\"s1\"]", "two NetBoxes"),
        ("sites = [\"s2\"]", "sites = []", "none is named"),
    ];
    for (from, to, said) in rows {
        assert!(CONFIGURATION.contains(from), "{from}");
        fs::write(&file, CONFIGURATION.replacen(from, to, 1)).unwrap();
        for args in
            [["config", "check", "my.toml"].as_slice(), &["dev", "--data", "data", "--listen", "127.0.0.1:0", "--config", "my.toml"]]
        {
            let refused = manager(folder.path(), args);
            assert_eq!(refused.status.code(), Some(1), "{args:?}, {to}: {}", text(&refused));
            assert!(text(&refused).contains(said), "{args:?}, {to}: {}", text(&refused));
            assert!(!text(&refused).contains("hunter2"), "{}", text(&refused));
        }
        assert!(!folder.path().join("data").exists(), "{to}");
    }
}

#[test]
fn wrong_arguments_of_the_server_are_usage_errors_and_nothing_is_made() {
    let folder = TempDir::new().unwrap();
    let rows: &[&[&str]] = &[
        &["--sim", "sites=0"],
        &["--sim", "sites=x"],
        &["--sim", "sites"],
        &["--sim", "colour=red"],
        &["--sim", "pace=0"],
        &["--sim", "pace=NaN"],
        &["--sim", "sites=1", "--config", "my.toml"],
        &["--listen", "0.0.0.0:0"],
        &["--metrics", "0.0.0.0:0"],
    ];
    for row in rows {
        let refused = manager(folder.path(), &[&["dev", "--data", "data"], *row].concat());
        assert_eq!(refused.status.code(), Some(2), "{row:?}: {}", text(&refused));
        assert!(!folder.path().join("data").exists(), "{row:?}");
    }
    assert_eq!(manager(folder.path(), &["translate", "redfish", "x.json"]).status.code(), Some(2));
}

#[test]
fn a_device_list_is_a_list_of_names_and_holds_for_every_answer() {
    let folder = TempDir::new().unwrap();
    let old = repository("tests/fixtures/slurm/22.05.8/v0.0.36/node_IDLE.json");
    let rows = [
        ("gpu01", 0, 1),
        ("gpu02\n gpu01 ", 0, 1),
        (r#"["gpu01"]"#, 0, 1),
        (r#"[{"name": "x", "slurm_node": "gpu01"}]"#, 0, 1),
        ("gpu02", 0, 0),
        (r#"["gpu02"]"#, 0, 0),
        (r#"{"items": []}"#, 1, 0),
        (r#"[{"id": 7}]"#, 1, 0),
        ("[1, 2]", 1, 0),
        ("[", 1, 0),
        ("7", 1, 0),
        ("", 1, 0),
    ];
    for (list, code, lines) in rows {
        fs::write(folder.path().join("list"), list).unwrap();
        let output = manager(folder.path(), &["translate", "slurm", old.to_str().unwrap(), "--device-list", "list"]);
        assert_eq!(output.status.code(), Some(code), "{list}: {}", text(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), lines, "{list}: {}", text(&output));
    }
}
