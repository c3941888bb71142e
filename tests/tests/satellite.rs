//! Hub and satellite as processes: what `satellite doctor` and `config check` say, webhooks, TLS with a CA of the site's own, and whose
//! folder is whose.

use fleet_tests::{Pair, Rhythm, World, binary, crypto, until};
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

struct Bed {
    sim: fleet_sim::Sim,
    folder: TempDir,
    world: World,
    pair: Pair,
}

async fn bed(rhythm: Rhythm) -> Bed {
    crypto();
    let options = fleet_sim::Options { sites: 1, devices: 12, people: false, pace: 0.001, ..Default::default() };
    let (sim, folder) = (fleet_sim::start(options).await.unwrap(), TempDir::new().unwrap());
    let world = World::simulated(&sim, folder.path()).unwrap();
    let pair = Pair::prepare(folder.path(), &world, rhythm).unwrap();
    Bed { sim, folder, world, pair }
}

impl Bed {
    fn satellite_toml(&self) -> std::path::PathBuf {
        self.folder.path().join("satellite/satellite.toml")
    }

    /// Changes a file by replacing a text that must be there.
    fn edit(&self, file: &str, from: &str, to: &str) {
        let path = self.folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no `{from}`:\n{text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }

    async fn devices(&self) -> usize {
        let api = self.pair.api().await.unwrap();
        let want = self.sim.world.devices().len();
        until("every device", || async {
            let found = api.all("/devices").await.map_err(|e| e.to_string())?.len();
            if found == want { Ok(found) } else { Err(format!("{found} devices")) }
        })
        .await
    }
}

async fn manager(folder: &Path, args: &[&str]) -> (i32, String) {
    let (folder, args) = (folder.to_owned(), args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
    let run = move || Command::new(binary("fleet-manager")).current_dir(folder).args(args).output().unwrap();
    let Output { status, stdout, stderr } = tokio::task::spawn_blocking(run).await.unwrap();
    (status.code().unwrap_or(-1), String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_doctor_says_what_is_wrong_and_what_helps() {
    let mut bed = bed(Rhythm::QUICK).await;
    let doctor = || async { manager(&bed.folder.path().join("satellite"), &["satellite", "doctor", "--config", "satellite.toml"]).await };
    let (code, text) = doctor().await;
    assert!(code == 1 && text.contains("WRONG  hub") && text.contains("hub.url"), "no hub runs: {code} {text}");
    bed.pair.start_hub().await.unwrap();
    let doctor = || async { manager(&bed.folder.path().join("satellite"), &["satellite", "doctor", "--config", "satellite.toml"]).await };
    let (code, text) = doctor().await;
    assert!(code == 0 && text.contains("everything is there\n"), "{code} {text}");
    for line in [
        "knows this client",
        "sim1: this client speaks of it",
        "clock",
        "nodes",
        "partitions",
        "SLURM token",
        "custom field `slurm_node`",
        "change feed",
    ] {
        assert!(text.contains(line), "`{line}` is not in {text}");
    }
    // A site that the roster does not have for this client; and asking left nothing among the denials.
    let sites = "sites = [\"sim1\"]";
    bed.edit("satellite/satellite.toml", sites, "sites = [\"sim1\", \"sim2\"]");
    let (code, text) = doctor().await;
    assert!(code == 1 && text.contains("sim2 is not this client's; its sites: sim1"), "{code} {text}");
    bed.edit("satellite/satellite.toml", "sites = [\"sim1\", \"sim2\"]", sites);
    assert_eq!(bed.pair.api().await.unwrap().get("/audit/denials").await.unwrap()["items"], serde_json::json!([]));
    let jwt = bed.world.places[0].slurm.as_ref().unwrap().2.clone();
    let good = std::fs::read_to_string(&jwt).unwrap();
    std::fs::write(&jwt, include_str!("../fixtures/slurm/tokens/expired_2023.jwt")).unwrap();
    let (code, text) = doctor().await;
    assert!(code == 1 && text.contains("expired at 2023") && text.contains("scontrol token"), "{code} {text}");
    std::fs::write(&jwt, good).unwrap();
    std::fs::write(&bed.world.netbox.2, "nbt_no.such").unwrap();
    let (code, text) = doctor().await;
    assert!(code == 1 && text.contains("WRONG  NetBox") && text.contains("bad token"), "{code} {text}");
    std::fs::write(&bed.world.netbox.2, &bed.sim.netbox.token).unwrap();
    // Another key than the roster's; one that is there is not written over.
    let (code, text) = manager(&bed.folder.path().join("satellite"), &["satellite", "keygen", "slurm-agent-sim1"]).await;
    assert!(code == 1 && text.contains("is there already"), "{text}");
    std::fs::remove_file(bed.folder.path().join("satellite/slurm-agent-sim1.pem")).unwrap();
    let (code, _) = manager(&bed.folder.path().join("satellite"), &["satellite", "keygen", "slurm-agent-sim1"]).await;
    assert_eq!(code, 0);
    let (code, text) = doctor().await;
    assert!(code == 1 && text.contains("no key of this client has that kid") && text.contains("public half"), "{code} {text}");
}

/// The configuration is the first word on a role's profile, at every start again; the site's owner has the last.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_sites_owner_set_outlives_a_start_of_the_hub() {
    let mut bed = bed(Rhythm::QUICK).await;
    bed.pair.start_hub().await.unwrap();
    let path = "/sites/sim1/role-profiles/gpu-node/";
    let api = bed.pair.api().await.unwrap();
    let before = api.get(path).await.unwrap();
    assert_eq!((&before["dhcp"], &before["scheduler"]), (&"none".into(), &"slurm".into()), "the configuration's");
    let set = api.send(reqwest::Method::PATCH, &format!("/api/v1{path}"), Some(br#"{"dhcp": "kea"}"#), &[]).await.unwrap();
    assert_eq!((set.status.as_u16(), &set.body["dhcp"]), (200, &"kea".into()), "{}", set.body);
    bed.pair.kill_hub();
    bed.edit("hub/hub.toml", "[sites.roles.gpu-node]", "[sites.roles.late]\nscheduler = \"none\"\n[sites.roles.gpu-node]");
    bed.pair.start_hub().await.unwrap();
    let api = bed.pair.api().await.unwrap();
    // Set at this start: once it shows, everything before it does.
    until("the new role's profile", || async { api.get("/sites/sim1/role-profiles/late/").await.map_err(|e| e.to_string()) }).await;
    assert_eq!(api.get(path).await.unwrap(), set.body);
    assert!(bed.pair.log().contains("was changed since it was first set"), "{}", bed.pair.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signed_webhook_brings_the_next_look_at_once_and_no_other_does() {
    let slow = Rhythm { interval: 3600, list: 3600, resync: 3600, sweep: 3600, window: 60 };
    let mut bed = bed(slow).await;
    let port = fleet_tests::free_port();
    std::fs::write(bed.folder.path().join("satellite/hook.secret"), "lab-hook-secret\n").unwrap();
    bed.edit("satellite/satellite.toml", "list_seconds", &format!("webhooks_listen = \"127.0.0.1:{port}\"\nlist_seconds"));
    bed.edit("satellite/satellite.toml", "[[netbox]]", "[[netbox]]\nwebhook_secret_file = \"hook.secret\"");
    bed.pair.start().await.unwrap();
    bed.devices().await;
    let device = bed.sim.world.devices().into_iter().find(|d| d.name.is_some()).unwrap();
    bed.sim.world.rename_device(device.id, Some("renamed-by-a-person"), "carol");
    let body = include_bytes!("../fixtures/netbox/webhook_updated.raw").to_vec();
    let recorded: serde_json::Value = serde_json::from_str(include_str!("../fixtures/netbox/webhook_updated.json")).unwrap();
    let signature = recorded["request"]["headers"]["X-Hook-Signature"].as_str().unwrap().to_owned();
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let send = |signature: String, path: &str| {
        let request = http.post(format!("http://127.0.0.1:{port}/webhooks/netbox/{path}")).header("x-hook-signature", signature);
        let request = request.body(body.clone());
        async move { request.send().await.unwrap().status().as_u16() }
    };
    assert_eq!(send("00".repeat(64), "sim").await, 401);
    assert_eq!(send(signature.clone(), "another").await, 404);
    let api = bed.pair.api().await.unwrap();
    let named =
        || async { api.get("/devices?filter=name%20%3D%20renamed-by-a-person").await.map(|l| l["items"].as_array().map_or(0, Vec::len)) };
    assert_eq!(named().await.unwrap(), 0, "nobody looked yet");
    assert_eq!(send(signature, "sim").await, 202);
    until("the new name", || async {
        match named().await {
            Ok(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

/// What a server agrees to speak with a client that speaks both.
fn negotiated(at: &str, root: rustls::pki_types::CertificateDer<'static>) -> Option<Vec<u8>> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(root).unwrap();
    let mut config = rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client = rustls::ClientConnection::new(config.into(), "localhost".try_into().unwrap()).unwrap();
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    client.complete_io(&mut stream).unwrap();
    client.alpn_protocol().map(<[u8]>::to_vec)
}

#[tokio::test(flavor = "multi_thread")]
async fn hub_and_satellite_meet_over_tls_under_a_ca_of_the_sites_own() {
    let mut bed = bed(Rhythm::QUICK).await;
    let mut authority = rcgen::CertificateParams::new(vec![]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let ca = authority.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap().signed_by(&key, &issuer).unwrap();
    let file = |name: &str, text: &str| std::fs::write(bed.folder.path().join(name), text).unwrap();
    file("hub/cert.pem", &certificate.pem());
    file("hub/key.pem", &key.serialize_pem());
    file("satellite/ca.pem", &ca.pem());
    let url = bed.pair.url.replace("http://127.0.0.1", "https://localhost");
    bed.edit("hub/hub.toml", "roster =", &format!("url = \"{url}\"\ntls = {{cert_file = \"cert.pem\", key_file = \"key.pem\"}}\nroster ="));
    let plain = bed.pair.url.clone();
    bed.edit("satellite/satellite.toml", &format!("url = \"{plain}\""), &format!("url = \"{url}\"\nca_file = \"ca.pem\""));
    bed.pair.start().await.unwrap();
    let (code, text) = manager(&bed.folder.path().join("satellite"), &["satellite", "doctor", "--config", "satellite.toml"]).await;
    assert!(code == 0, "{text}");
    until("the satellite hands over", || async {
        match bed.pair.queued() {
            Ok((queued, 0)) if queued > 12 => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    // Whoever would rather speak HTTP/2, which is not spoken, is told so before anything is sent.
    let (at, root) = (url.trim_start_matches("https://").to_owned(), ca.der().clone());
    assert_eq!(tokio::task::spawn_blocking(move || negotiated(&at, root)).await.unwrap().as_deref(), Some(&b"http/1.1"[..]));
    // Another CA's word is not taken.
    let other = rcgen::generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    file("other.pem", &other.cert.pem());
    let key = std::fs::read_to_string(bed.pair.data().join("keys/issuer.pem")).unwrap();
    let token = fleet_hub::access::Issuer::new(&url, &[key]).unwrap().issue("reader", "device:read", &["*".into()]).unwrap();
    for (ca, expected) in [("satellite/ca.pem", 0), ("other.pem", 8)] {
        let ca = bed.folder.path().join(ca);
        let run = |url: String, token: String| {
            Command::new(binary("fmctl"))
                .args(["get", "sites"])
                .env("FM_URL", url)
                .env("FM_TOKEN", token)
                .env("FM_CA", ca)
                .output()
                .unwrap()
        };
        let (url, token) = (url.clone(), token.clone());
        let output = tokio::task::spawn_blocking(move || run(url, token)).await.unwrap();
        assert_eq!(output.status.code(), Some(expected), "{output:?}");
    }
    std::fs::write(bed.folder.path().join("satellite/ca.pem"), other.cert.pem()).unwrap();
    let (code, text) = manager(&bed.folder.path().join("satellite"), &["satellite", "doctor", "--config", "satellite.toml"]).await;
    assert!(code == 1 && text.contains("certificate"), "{text}");
    // While the CA rotates, the file holds both.
    std::fs::write(bed.folder.path().join("satellite/ca.pem"), other.cert.pem() + &ca.pem()).unwrap();
    let (code, text) = manager(&bed.folder.path().join("satellite"), &["satellite", "doctor", "--config", "satellite.toml"]).await;
    assert!(code == 0, "{text}");
    // In the clear, beyond loopback, neither of them speaks.
    bed.pair.kill_satellite();
    bed.edit("satellite/satellite.toml", &url, "http://hub.example.net:8480");
    let (code, text) = manager(&bed.folder.path().join("satellite"), &["satellite", "--config", "satellite.toml"]).await;
    assert!(code == 1 && text.contains("https, or http on loopback"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn configurations_are_checked_before_anything_is_made() {
    let bed = bed(Rhythm::QUICK).await;
    let root = bed.folder.path().to_owned();
    for file in ["hub/hub.toml", "satellite/satellite.toml"] {
        let (code, text) = manager(&root, &["config", "check", file]).await;
        assert!(code == 0 && text.trim_end().ends_with("fine"), "{text}");
    }
    let good = |file: &str| std::fs::read_to_string(root.join(file)).unwrap();
    let (hub, satellite, roster) = (good("hub/hub.toml"), good("satellite/satellite.toml"), good("hub/values.yaml"));
    let rows = [
        ("hub/hub.toml", "listen = \"127.0.0.1", "listen = \"0.0.0.0", "beyond loopback a hub speaks TLS alone"),
        ("hub/hub.toml", "roster =", "url = \"https://x/dev\"\nroster =", "an issuer that ends in /dev"),
        ("hub/hub.toml", "netbox = 1", "netbok = 1", "`netbok` is no Source"),
        ("hub/hub.toml", "roster =", "rooster = 1\nroster =", "unknown field `rooster`"),
        ("hub/values.yaml", "site: sim1", "site: sim7", "no site `sim7`"),
        ("hub/values.yaml", "device:update", "slurm-bootstrap-config:create", "no satellite may have scope"),
        ("hub/values.yaml", "kinds: [slurm]", "kinds: [slurmm]", "`slurmm` is no kind"),
        ("hub/values.yaml", "instance: sim, ", "", "kind netbox needs `instance`"),
        ("satellite/satellite.toml", "key_file = ", "kid = ", "`client` and `key_file` say how"),
        ("satellite/satellite.toml", "[hub]\n", "[hub]\nca_file = \"nope.pem\"\n", "nope.pem"),
        ("satellite/satellite.toml", "url = \"http://127.0.0.1", "url = \"http://10.0.0.1", "https, or http on loopback"),
        ("satellite/satellite.toml", "url = \"http://127.0.0.1", "url = \"http://me:canary@127.0.0.1", "no user and no password"),
        ("satellite/satellite.toml", "list_seconds = 5", "list_seconds = 0", "list_seconds is 0"),
        ("satellite/satellite.toml", "instance = \"sim\"", "instance = \" sim\"", "without blanks around it"),
    ];
    for (file, from, to, says) in rows {
        bed.edit(file, from, to);
        let checked = if file.starts_with("hub") { "hub/hub.toml" } else { "satellite/satellite.toml" };
        let (code, text) = manager(&root, &["config", "check", checked]).await;
        assert!(code == 1 && text.contains(says) && !text.contains("canary"), "{file}: {from} → {to}: {code} {text}");
        for (file, text) in [("hub/hub.toml", &hub), ("satellite/satellite.toml", &satellite), ("hub/values.yaml", &roster)] {
            std::fs::write(root.join(file), text).unwrap();
        }
    }
    assert!(!root.join("hub/data").exists() && !bed.satellite_toml().with_file_name("data").exists(), "a check makes nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_developers_folder_is_no_hubs_and_a_hubs_is_no_developers() {
    let mut bed = bed(Rhythm::QUICK).await;
    bed.pair.start_hub().await.unwrap();
    let root = bed.folder.path().to_owned();
    let (code, text) = manager(&root, &["dev", "--data", "hub/data", "--listen", "127.0.0.1:0"]).await;
    assert!(code == 1 && text.contains("the data folder of a hub"), "{text}");
    bed.pair.kill_hub();
    std::fs::remove_dir_all(root.join("hub/data")).unwrap();
    let dev = fleet_tests::Running::start(&root.join("hub/data"), &["--sim", "sites=1,devices=2"]).await.unwrap();
    dev.stop().await.unwrap();
    let (code, text) = manager(&root.join("hub"), &["hub", "--config", "hub.toml"]).await;
    assert!(code == 1 && text.contains("a developer's data folder"), "{text}");
}
