//! Every path, answer and refusal.

use super::*;

fn header<'a>(answer: &'a Answer, name: &str) -> &'a str {
    answer.headers.get(name).map_or("", |v| v.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn created_shown_changed_and_retired_by_both_forms_of_each_path() {
    let bed = bed().await;
    let hpc = &bed.hpc;
    assert_eq!(get(hpc, LIST).await.body["items"], json!([]));
    let made = post(hpc, full()).await;
    assert_eq!((made.status.as_u16(), header(&made, "location")), (201, format!("{LIST}gpu-node/").as_str()), "{}", made.body);
    assert_eq!((header(&made, "etag"), made.token.is_some()), ("\"v1\"", true));
    for (name, value) in [
        ("site_id", json!("sim1")),
        ("device_role", json!("gpu-node")),
        ("version", json!(1)),
        ("image", json!("ubuntu-22.04")),
        ("flavor", json!("bm.h100")),
        ("features", json!(["h100", "ib"])),
        ("gres", json!("gpu:h100:8")),
        ("adoptable", json!(true)),
        ("not_adoptable", json!([])),
        ("updated_by", json!("user-hpc")),
    ] {
        assert_eq!(made.body[name], value, "{name}");
    }
    assert_eq!(made.body["user_data_sha256"].as_str().unwrap().len(), 64);
    assert!(made.body.get("user_data").is_none() && made.body.get("warnings").is_none(), "{}", made.body);
    assert_eq!(status(&post(hpc, full()).await), (409, "already-exists"));

    let id = made.body["id"].as_str().unwrap();
    for name in ["gpu-node", id] {
        for path in [format!("{LIST}{name}/"), format!("{LIST}{name}")] {
            let one = get(hpc, &path).await;
            assert_eq!((one.status.as_u16(), &one.body["user_data"]), (200, &full()["user_data"]), "{path}: {}", one.body);
            assert_eq!((header(&one, "etag"), header(&one, "cache-control")), ("\"v1\"", "no-store"));
        }
    }
    for path in [LIST, LIST.trim_end_matches('/')] {
        let list = get(hpc, path).await;
        assert_eq!((list.body["items"].as_array().unwrap().len(), list.body["items"][0].get("user_data")), (1, None), "{}", list.body);
        assert!(list.body["meta"]["sources"].is_array());
    }

    let changed = send(hpc, Method::PATCH, LIST, json!({"device_role": "gpu-node", "gres": null}), &[]).await;
    assert_eq!(
        (changed.status.as_u16(), &changed.body["version"], &changed.body["gres"]),
        (200, &json!(2), &Value::Null),
        "{}",
        changed.body
    );
    let changed = patch(hpc, id, json!({"device_role": "gpu-node", "features": null})).await;
    assert_eq!((&changed.body["version"], &changed.body["features"]), (&json!(3), &json!([])));
    let same = patch(hpc, "gpu-node", json!({"features": [], "image": "ubuntu-22.04", "user_data": full()["user_data"]})).await;
    assert_eq!(
        (same.status.as_u16(), &same.body["version"], header(&same, "etag")),
        (200, &json!(3), "\"v3\""),
        "nothing changed: no version"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn retired_it_is_gone_and_created_again_it_counts_on_and_keeps_every_version() {
    let bed = bed().await;
    let hpc = &bed.hpc;
    assert_eq!(post(hpc, full()).await.status.as_u16(), 201);
    for body in [json!({"gres": null}), json!({"features": null})] {
        assert_eq!(patch(hpc, "gpu-node", body).await.status.as_u16(), 200);
    }
    let gone = send(hpc, Method::DELETE, &format!("{LIST}gpu-node"), Value::Null, &[]).await;
    assert_eq!((gone.status.as_u16(), &gone.body["retired"], &gone.body["version"]), (200, &json!(true), &json!(4)), "{}", gone.body);
    let now = get(hpc, &format!("{LIST}gpu-node/")).await;
    assert_eq!((status(&now), &now.body["retired_version"]), ((404, "not-found"), &json!(4)));
    assert_eq!(get(hpc, LIST).await.body["items"], json!([]));
    for (role, method) in [("gpu-node", Method::DELETE), ("gpu-node", Method::PATCH), ("nobody", Method::PATCH), ("nobody", Method::DELETE)]
    {
        let body = if method == Method::PATCH { json!({"gres": null}) } else { Value::Null };
        assert_eq!(send(hpc, method.clone(), &format!("{LIST}{role}/"), body, &[]).await.status.as_u16(), 404, "{method} {role}");
    }
    let again = post(hpc, json!({"device_role": "gpu-node"})).await;
    assert_eq!(
        (again.status.as_u16(), &again.body["version"], &again.body["user_data_sha256"]),
        (201, &json!(5), &Value::Null),
        "the count goes on"
    );
    for (version, image) in [(1, json!("ubuntu-22.04")), (2, json!("ubuntu-22.04")), (5, Value::Null)] {
        let old = get(hpc, &format!("{LIST}gpu-node/?version={version}")).await;
        assert_eq!((&old.body["version"], &old.body["image"]), (&json!(version), &image), "every version is kept: {}", old.body);
        let data = if version == 5 { Value::Null } else { full()["user_data"].clone() };
        assert_eq!(old.body["user_data"], data, "with the user-data that it had");
    }
    for version in ["4", "6", "0", "18446744073709551615"] {
        assert_eq!(get(hpc, &format!("{LIST}gpu-node/?version={version}")).await.status.as_u16(), 404, "{version}");
    }
    let bad = get(hpc, &format!("{LIST}gpu-node/?version=new")).await;
    assert_eq!((status(&bad), &bad.body["field"]), ((400, "invalid"), &json!("version")));
}

/// Field report 18.
#[tokio::test(flavor = "multi_thread")]
async fn a_null_image_is_taken_with_a_warning_and_provision_is_refused_with_the_field() {
    let bed = bed().await;
    let device = bed.hub.api().await.unwrap().get("/devices?filter=site%20%3D%20sim1%20AND%20role%20%3D%20gpu-node&limit=1").await.unwrap();
    let device = device["items"][0]["id"].as_str().unwrap().to_owned();
    let operator = bed.hub.api().await.unwrap();
    let provision = async || operator.command(&device, "provision", json!({})).await.unwrap();
    let none = provision().await;
    assert_eq!((status(&none), &none.body["seen"]), ((409, "bootstrap-config-not-adoptable"), &json!("none")), "{}", none.body);
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    let whole = until("the decider of the device to know", || async {
        Some(provision().await).filter(|a| a.body["code"] == "not-available").ok_or("not yet")
    })
    .await;
    assert_eq!(whole.status.as_u16(), 409);
    let emptied = patch(&bed.hpc, "gpu-node", json!({"image": null})).await;
    assert_eq!((emptied.status.as_u16(), &emptied.body["adoptable"]), (200, &json!(false)), "{}", emptied.body);
    assert_eq!(emptied.body["not_adoptable"][0]["field"], "image");
    assert!(emptied.body["warnings"][0].as_str().unwrap().starts_with("image: "), "{}", emptied.body);
    let refused = until("the refusal", || async {
        Some(provision().await).filter(|a| a.body["code"] == "bootstrap-config-not-adoptable").ok_or("not yet")
    })
    .await;
    assert_eq!((refused.status.as_u16(), refused.body["seen"].as_str()), (409, Some("version 2: image is null")), "{}", refused.body);
    let pinned = get(&bed.hpc, &format!("{LIST}gpu-node/?version=1")).await;
    assert_eq!(pinned.body["image"], "ubuntu-22.04", "the version that a running operation has read is untouched");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_named_and_nothing_is_half_applied() {
    let bed = bed().await;
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    let long = "QUFB".repeat(16_384);
    let rows = [
        (json!({"colour": "red"}), "colour"),
        (json!({"image": 7}), "image"),
        (json!({"image": ""}), "image"),
        (json!({"flavor": "a\u{7}"}), "flavor"),
        (json!({"features": "ib"}), "features"),
        (json!({"features": ["a b"]}), "features"),
        (json!({"features": ["a", "a"]}), "features"),
        (json!({"user_data": "no base64!"}), "user_data"),
        (json!({"user_data": ""}), "user_data"),
        (json!({"user_data": long}), "user_data"),
        (json!({"version": 3}), "version"),
        (json!({"device_role": "other"}), "device_role"),
        (json!([]), "body"),
    ];
    for (body, field) in &rows {
        let answer = patch(&bed.hpc, "gpu-node", body.clone()).await;
        assert_eq!((status(&answer), &answer.body["field"]), ((400, "invalid"), &json!(field)), "{field}: {}", answer.body);
    }
    for (body, field) in
        [(json!({}), "device_role"), (json!({"device_role": "GPU"}), "device_role"), (json!({"device_role": "a/b"}), "device_role")]
    {
        for method in [Method::POST, Method::PATCH] {
            let answer = send(&bed.hpc, method, LIST, body.clone(), &[]).await;
            assert_eq!((status(&answer), &answer.body["field"]), ((400, "invalid"), &json!(field)), "{}", answer.body);
        }
    }
    for path in ["?x=1", "gpu-node/?fields=image"] {
        assert_eq!(get(&bed.hpc, &format!("{LIST}{path}")).await.status.as_u16(), 400, "{path}");
    }
    assert_eq!(send(&bed.hpc, Method::POST, &format!("{LIST}?dry_run=perhaps"), full(), &[]).await.body["field"], "dry_run");
    assert_eq!(send(&bed.hpc, Method::PUT, LIST, full(), &[]).await.status.as_u16(), 405);
    let one = get(&bed.hpc, &format!("{LIST}gpu-node/")).await;
    assert_eq!((&one.body["version"], &one.body["user_data"]), (&json!(1), &full()["user_data"]), "nothing was applied");
}

/// 65,535 characters are 49,149 bytes and two of padding: the most that Nova takes goes through every store and back.
#[tokio::test(flavor = "multi_thread")]
async fn the_largest_user_data_comes_back_whole() {
    let bed = bed().await;
    let most = format!("{}QUE=", "QUFB".repeat(16_382));
    assert_eq!(most.len(), 65_532);
    assert_eq!(post(&bed.hpc, json!({"device_role": "big", "user_data": most})).await.status.as_u16(), 201);
    assert_eq!(get(&bed.hpc, &format!("{LIST}big/")).await.body["user_data"], json!(most));
    let lines: Vec<_> = most.as_bytes().chunks(76).map(|l| String::from_utf8_lossy(l).into_owned()).collect();
    let broken = post(&bed.hpc, json!({"device_role": "lines", "user_data": lines[..800].join("\n")})).await;
    assert_eq!(broken.status.as_u16(), 201, "as `base64` writes it: {}", broken.body);
    assert_eq!(get(&bed.hpc, &format!("{LIST}lines/")).await.body["user_data"], json!(most[..800 * 76]));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_versions_tokens_and_rehearsals_as_of_every_write() {
    let bed = bed().await;
    let key = [("idempotency-key", "k-1")];
    let first = send(&bed.hpc, Method::POST, LIST, full(), &key).await;
    let again = send(&bed.hpc, Method::POST, LIST.trim_end_matches('/'), full(), &key).await;
    assert_eq!((first.status, &first.body), (again.status, &again.body), "a repeat is answered as the first was, user-data and all");
    let other = json!({"device_role": "gpu-node", "image": "other"});
    assert_eq!(status(&send(&bed.hpc, Method::POST, LIST, other.clone(), &key).await), (422, "idempotency-key-reused"));
    let patched = send(&bed.hpc, Method::PATCH, LIST, other, &key).await;
    assert_eq!(
        (patched.status.as_u16(), &patched.body["version"]),
        (200, &json!(2)),
        "the same key under another method is another: {}",
        patched.body
    );
    let repeat = send(&bed.hpc, Method::POST, LIST, full(), &key).await;
    assert_eq!((repeat.status.as_u16(), &repeat.body["version"]), (201, &json!(1)), "also after a change");

    let path = format!("{LIST}gpu-node/");
    let stale = send(&bed.hpc, Method::PATCH, &path, json!({"image": "x"}), &[("if-match", "\"v1\"")]).await;
    assert_eq!(status(&stale), (412, "version-conflict"));
    get(&bed.hpc, &path).await;
    let fresh = send(&bed.hpc, Method::PATCH, &path, json!({"image": "x"}), &[("if-match", "\"v2\"")]).await;
    assert_eq!((fresh.status.as_u16(), &fresh.body["version"]), (200, &json!(3)), "a read between is no change: {}", fresh.body);
    let token = fresh.token.unwrap();
    let read = send(&bed.hpc, Method::GET, &path, Value::Null, &[("fleet-consistency-token", &token)]).await;
    assert_eq!(read.body["version"], 3);
    let far = send(&bed.hpc, Method::GET, LIST, Value::Null, &[("fleet-consistency-token", "0:99999999")]).await;
    assert_eq!(status(&far), (503, "projection-lagging"));

    let would = send(&bed.hpc, Method::PATCH, &format!("{path}?dry_run=true&reason=look"), json!({"flavor": null}), &[]).await;
    assert_eq!(
        (would.status.as_u16(), &would.body["dry_run"], &would.body["would"]),
        (200, &json!(true), &json!("BootstrapConfigChanged")),
        "{}",
        would.body
    );
    assert_eq!((&would.body["version"], &would.body["adoptable"]), (&json!(4), &json!(false)));
    let refused = send(&bed.hpc, Method::POST, &format!("{LIST}?dry_run=true"), full(), &[]).await;
    assert_eq!((status(&refused), &refused.body["dry_run"]), ((409, "already-exists"), &json!(true)));
    assert_eq!(get(&bed.hpc, &path).await.body["version"], 3, "a rehearsal changes nothing");
    let later = send(&bed.hpc, Method::PATCH, &path, json!({"gres": "gpu:8"}), &[("prefer", "respond-async")]).await;
    assert_eq!((later.status.as_u16(), header(&later, "location")), (202, path.as_str()));
    until("the patch", || async { Some(get(&bed.hpc, &path).await).filter(|a| a.body["gres"] == "gpu:8").ok_or("not yet") }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_needs_its_scope_and_its_site() {
    let bed = bed().await;
    assert_eq!(post(&bed.hpc, full()).await.status.as_u16(), 201);
    let one = format!("{LIST}gpu-node/");
    let routes = [
        (Method::GET, LIST, "slurm-bootstrap-config:read"),
        (Method::POST, LIST, "slurm-bootstrap-config:create"),
        (Method::PATCH, LIST, "slurm-bootstrap-config:update"),
        (Method::GET, &one, "slurm-bootstrap-config:read"),
        (Method::PATCH, &one, "slurm-bootstrap-config:update"),
        (Method::DELETE, &one, "slurm-bootstrap-config:update"),
    ];
    let body = |method: &Method| if *method == Method::GET { Value::Null } else { json!({"device_role": "gpu-node"}) };
    for (method, path, scope) in routes {
        let others: Vec<_> = fleet_hub::access::SCOPES.iter().filter(|s| **s != scope).copied().collect();
        for path in [path, path.trim_end_matches('/')] {
            let without = send(&client(&bed.hub, &others.join(" "), &["*"]), method.clone(), path, body(&method), &[]).await;
            assert_eq!(status(&without), (403, "scope-missing"), "{method} {path}");
            let elsewhere = send(&client(&bed.hub, scope, &["sim2"]), method.clone(), path, body(&method), &[]).await;
            let expected = if method == Method::GET { (404, "not-found") } else { (403, "out-of-reach") };
            assert_eq!(status(&elsewhere), expected, "{method} {path}");
            let nowhere = send(&client(&bed.hub, scope, &[]), method.clone(), path, body(&method), &[]).await;
            assert_eq!(status(&nowhere), expected, "{method} {path}");
            let stranger = send(&Api::with_token(&bed.hub.url, "nonsense").unwrap(), method.clone(), path, body(&method), &[]).await;
            assert_eq!(stranger.status.as_u16(), 401, "{method} {path}");
            let nosuch = send(&client(&bed.hub, scope, &["*"]), method.clone(), &path.replace("sim1", "mars"), body(&method), &[]).await;
            assert_eq!(nosuch.status.as_u16(), 404, "{method} {path}: {}", nosuch.body);
        }
        if method != Method::DELETE {
            let with = send(&client(&bed.hub, scope, &["sim1"]), method.clone(), path, body(&method), &[]).await;
            assert!(with.status.is_success() || with.status.as_u16() == 409, "{method} {path}: {}", with.body);
        }
    }
    let there = client(&bed.hub, ALL, &["sim2"]);
    assert_eq!(get(&there, &one.replace("sim1", "sim2")).await.status.as_u16(), 404, "a role's configuration is its site's own");
}
