//! Scenarios are conversations: `tests/scenarios/*.txt` says what people type and what happens outside, the `.out` beside it what they
//! see. `FM_BLESS=1` writes the `.out` files anew.
//!
//! ```text
//! # a remark
//! > why gpu003                                    fmctl, as typed; its exit code is shown where it is not 0
//! slurm: gpu003 drain "admin: memory test" by root
//! slurm: gpu003 resume
//! slurm: gpu003 kill | start
//! slurm: gpu003 as planned                        somebody types what `why` says
//! netbox: gpu003 status failed by alice
//! netbox: gpu003 rename gpu003x by alice
//! netbox: gpu003 move sim2
//! netbox: gpu003 delete by alice
//! until gpu003x                                   waits until the product knows that name
//! ```

use fleet_tests::{Running, crypto, repository, until};
use serde_json::Value;
use tempfile::TempDir;

#[tokio::test(flavor = "multi_thread")]
async fn every_scenario_reads_as_its_transcript() {
    crypto();
    let mut files: Vec<_> = std::fs::read_dir(repository("tests/scenarios")).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "txt"));
    files.sort();
    assert!(files.len() >= 5);
    for file in files {
        println!("{}", file.display());
        let seen = play(&std::fs::read_to_string(&file).unwrap()).await;
        let transcript = file.with_extension("out");
        if std::env::var_os("FM_BLESS").is_some() {
            std::fs::write(&transcript, &seen).unwrap();
        }
        let expected = std::fs::read_to_string(&transcript).unwrap_or_default();
        assert_eq!(seen, expected, "{} differs from its transcript; FM_BLESS=1 writes it anew", file.display());
    }
}

struct Stage {
    sim: fleet_sim::Sim,
    hub: Running,
    _folder: TempDir,
}

async fn play(script: &str) -> String {
    let options = fleet_sim::Options { sites: 2, devices: 24, seed: 1, people: false, pace: 20.0 };
    let sim = fleet_sim::start(options).await.unwrap();
    let folder = TempDir::new().unwrap();
    let config = fleet_tests::configure(&sim, folder.path());
    let hub = Running::start(&folder.path().join("data"), &["--config", config.to_str().unwrap()]).await.unwrap();
    let stage = Stage { sim, hub, _folder: folder };
    stage.looked_at().await;
    let mut out = String::new();
    for line in script.lines() {
        out.push_str(&format!("{line}\n"));
        match line.split_once(' ') {
            Some((">", command)) => out.push_str(&stage.fmctl(command).await),
            Some(("slurm:", rest)) => stage.slurm(rest).await,
            Some(("netbox:", rest)) => stage.netbox(rest),
            Some(("until", name)) => stage.known(name).await,
            _ => assert!(line.is_empty() || line.starts_with('#'), "`{line}` is no line of a scenario"),
        }
    }
    out
}

impl Stage {
    /// Until everything that the world has at the start was seen.
    async fn looked_at(&self) {
        let api = self.hub.api().await.unwrap();
        until("the whole world", || async {
            let devices = api.all("/devices").await.map_err(|e| e.to_string())?;
            let members = api.all("/conditions?filter=type%20%3D%20SlurmMember").await.map_err(|e| e.to_string())?;
            let gpu = devices.iter().filter(|d| d["role"] == "gpu-node").count();
            if devices.len() == 24 && members.len() >= gpu { Ok(()) } else { Err(format!("{} {}", devices.len(), members.len())) }
        })
        .await;
    }

    async fn known(&self, name: &str) {
        let api = self.hub.api().await.unwrap();
        until(name, || async { api.get(&format!("/devices/{name}")).await }).await;
    }

    async fn fmctl(&self, command: &str) -> String {
        let words = words(command);
        let output = self.hub.fmctl(&words.iter().map(String::as_str).collect::<Vec<_>>()).await.unwrap();
        let code = output.status.code().unwrap_or(-1);
        let mut text = mask(&format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)));
        if code != 0 {
            text.push_str(&format!("exit {code}\n"));
        }
        text
    }

    fn site_of(&self, name: &str) -> String {
        let device = self.sim.world.device_named(name).unwrap_or_else(|| panic!("there is no {name}"));
        device.site
    }

    async fn slurm(&self, line: &str) {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let (name, world) = (words[0], &self.sim.world);
        let site = self.site_of(name);
        match words[1..] {
            ["drain", reason, "by", user] => world.drain(&site, name, reason, user),
            ["resume"] => assert!(world.resume(&site, name)),
            ["kill"] => world.kill_slurmd(&site, name),
            ["start"] => world.start_slurmd(&site, name),
            ["as", "planned"] => self.as_planned(&site, name).await,
            _ => panic!("`{line}` is nothing that SLURM can be told"),
        }
    }

    /// What a person at the site does: reads the plan, types it.
    async fn as_planned(&self, site: &str, name: &str) {
        let why: Value = self.hub.api().await.unwrap().get(&format!("/devices/{name}/why")).await.unwrap();
        let plan = why["plans"].as_array().unwrap().iter().find(|p| p["state"] == "open").unwrap().clone();
        match plan["kind"].as_str().unwrap() {
            "slurm-drain" => self.sim.world.drain(site, name, plan["mark"].as_str().unwrap(), "root"),
            "slurm-undrain" => self.sim.world.undrain(site, name),
            other => panic!("{other}"),
        }
    }

    fn netbox(&self, line: &str) {
        let words = words(line);
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let world = &self.sim.world;
        let id = world.device_named(words[0]).unwrap_or_else(|| panic!("there is no {}", words[0])).id;
        match words[1..] {
            ["status", status, "by", user] => world.set_status(id, status, user),
            ["rename", name, "by", user] => world.rename_device(id, Some(name), user),
            ["move", site] => world.move_device(id, site),
            ["delete", "by", user] => world.delete_device(id, user),
            _ => panic!("`{line}` is nothing that NetBox can be told"),
        }
    }
}

/// Words, those in double quotes whole.
fn words(text: &str) -> Vec<String> {
    let (mut out, mut quoted) = (Vec::new(), false);
    for part in text.split('"') {
        if quoted {
            out.push(part.to_owned());
        } else {
            out.extend(part.split_whitespace().map(str::to_owned));
        }
        quoted = !quoted;
    }
    out
}

/// What differs from run to run: ids, times, versions.
fn mask(text: &str) -> String {
    let is_id = |w: &str| w.bytes().enumerate().all(|(i, b)| if [8, 13, 18, 23].contains(&i) { b == b'-' } else { b.is_ascii_hexdigit() });
    let is_time = |w: &str| w.ends_with('Z') && w.as_bytes().get(10) == Some(&b'T') && w.as_bytes()[0].is_ascii_digit();
    let is_version = |w: &str| w.len() > 1 && w.starts_with('v') && w[1..].bytes().all(|b| b.is_ascii_digit());
    let line = |l: &str| {
        let l = replace(&replace(l, 36, "<id>", is_id), 27, "<time>", is_time);
        let words: Vec<_> = l.split(' ').collect();
        let mut masked = Vec::new();
        for (i, word) in words.iter().enumerate() {
            masked.push(if is_version(word) { "v<n>" } else { word });
            // In a column, the blanks behind it make up for its digits.
            let column = is_version(word) && words.get(i + 1).is_some_and(|next| next.is_empty());
            masked.extend(std::iter::repeat_n("", if column { word.len() - 2 } else { 0 }));
        }
        let joined = masked.join(" ");
        match joined.split_once("  version ") {
            Some((before, _)) => format!("{before}  version <n>\n"),
            None => format!("{joined}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// Every stretch of `length` characters that is one of `these` becomes `mask`.
fn replace(text: &str, length: usize, mask: &str, these: impl Fn(&str) -> bool) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        match rest.get(..length).filter(|w| w.is_ascii() && these(w)) {
            Some(_) => {
                out.push_str(mask);
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

#[test]
fn the_mask_hides_what_differs_and_nothing_else() {
    let text = "gpu1  019b96d7-7a05-5b8d-9a7a-23d98d70c13c  v7 since 2026-11-30T17:17:18.768904Z reason=\"fleet:019b96d7-7a05-5b8d-9a7a-23d98d70c13c x\"";
    assert_eq!(mask(text), "gpu1  <id>  v<n> since <time> reason=\"fleet:<id> x\"\n");
    assert_eq!(mask("Ready  v9       x"), mask("Ready  v10      x"));
}
