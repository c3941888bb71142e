//! Lists as a stranger asks them: filters, orders, pages, fields, counts.

use crate::api::{Bed, bed};
use fleet_tests::encoded;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

async fn list(bed: &Bed, path: &str, filter: &str) -> Vec<Value> {
    bed.api.all(&format!("{path}?filter={}", encoded(filter))).await.unwrap()
}

/// The types that stand wrong.
fn wrong(device: &Value) -> Vec<&str> {
    device["conditions_bad"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect()
}

/// Every list that a filter gives is the part of the whole that it describes, told by another hand.
#[tokio::test(flavor = "multi_thread")]
async fn a_filter_gives_what_it_says_and_nothing_else() {
    let bed = bed().await;
    // What is drained keeps its phase whatever the simulator does.
    let id = bed.in_service().await;
    assert_eq!(bed.api.command(&id, "drain", json!({})).await.unwrap().status, StatusCode::OK);
    let all = bed.api.all("/devices").await.unwrap();
    let (name, rack) = (all[5]["name"].as_str().unwrap().to_owned(), all[5]["rack"].as_str().unwrap().to_owned());
    let part = name[1..].to_owned();
    // A type that stands wrong somewhere, and where: the rows below are about something.
    let (ill, at) = all.iter().find_map(|d| Some((*wrong(d).first()?, d["site"].as_str()?))).expect("something stands wrong");
    type Says<'a> = Box<dyn Fn(&Value) -> bool + 'a>;
    let rows: Vec<(String, Says<'_>)> = vec![
        (format!("name = {name}"), {
            let name = name.clone();
            Box::new(move |d| d["name"] == name.as_str())
        }),
        (format!("name != {name}"), {
            let name = name.clone();
            Box::new(move |d| d["name"] != name.as_str())
        }),
        (format!("name : {part}"), {
            let part = part.clone();
            Box::new(move |d| d["name"].as_str().unwrap().contains(&part))
        }),
        (format!("name > {name}"), {
            let name = name.clone();
            Box::new(move |d| d["name"].as_str().unwrap() > name.as_str())
        }),
        (format!("rack = {rack}"), {
            let rack = rack.clone();
            Box::new(move |d| d["rack"] == rack.as_str())
        }),
        ("phase = InService".into(), Box::new(|d| d["phase"] == "InService")),
        ("phase != InService".into(), Box::new(|d| d["phase"] != "InService")),
        ("NOT phase = InService".into(), Box::new(|d| d["phase"] != "InService")),
        ("phase:*".into(), Box::new(|d| d["phase"].is_string())),
        ("NOT phase:*".into(), Box::new(|d| d["phase"].is_null())),
        ("phase = Draining OR phase = Discovered".into(), Box::new(|d| d["phase"] == "Draining" || d["phase"] == "Discovered")),
        (
            "site = sim1 AND (phase = Draining OR phase = InService)".into(),
            Box::new(|d| d["site"] == "sim1" && (d["phase"] == "Draining" || d["phase"] == "InService")),
        ),
        ("tenant_state = running OR owner = vendor".into(), Box::new(|d| d["tenant_state"] == "running")),
        ("conditions_bad:*".into(), Box::new(|d| !wrong(d).is_empty())),
        ("NOT conditions_bad:*".into(), Box::new(|d| wrong(d).is_empty())),
        (format!("conditions_bad:{ill}"), Box::new(|d| wrong(d).contains(&ill))),
        (format!("NOT conditions_bad:{ill}"), Box::new(|d| !wrong(d).contains(&ill))),
        (format!("NOT (site = {at} AND NOT conditions_bad:{ill})"), Box::new(|d| d["site"] != at || wrong(d).contains(&ill))),
        ("version < 0".into(), Box::new(|_| false)),
        ("updated_at > 2001-01-01T00:00:00Z".into(), Box::new(|_| true)),
    ];
    for (filter, says) in rows {
        let got: Vec<_> = list(&bed, "/devices", &filter).await.iter().map(|d| d["id"].clone()).collect();
        let expected: Vec<_> = all.iter().filter(|d| says(d)).map(|d| d["id"].clone()).collect();
        assert_eq!(got, expected, "{filter}");
    }
    assert!(list(&bed, "/devices", "condition.SlurmMember = True").await.len() > 5);
    let (with, without) = ("condition.SlurmMember = True", "condition.SlurmMember != True");
    assert_eq!(list(&bed, "/devices", with).await.len() + list(&bed, "/devices", without).await.len(), all.len());
    let conditions = list(&bed, "/conditions", "type = SlurmMember AND site = sim1").await;
    assert!(!conditions.is_empty() && conditions.iter().all(|c| c["type"] == "SlurmMember" && c["site"] == "sim1"));
    let of_one = list(&bed, "/conditions", &format!("device = {id}")).await;
    assert_eq!(of_one.len(), bed.api.get(&format!("/devices/{id}/conditions")).await.unwrap()["items"].as_array().unwrap().len());
    let drains = list(&bed, "/operations", &format!("device = {id} AND verb = drain AND state = running")).await;
    assert_eq!(drains.len(), 1);
    assert_eq!(list(&bed, "/operations", "state != running AND verb = drain").await.len(), 0);
    // A value is a value, whatever it looks like.
    assert_eq!(list(&bed, "/devices", r#"name = "x' OR '1'='1""#).await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_order_walks_every_line_once() {
    let bed = bed().await;
    for (path, orders) in [
        ("/devices", &["name", "name desc", "site", "phase desc", "rack", "updated_at desc", "version", "slurm_node", "tenant_state"][..]),
        ("/conditions", &["type", "observed_at desc", "name", "severity desc", "status", "device"]),
        ("/operations", &["started_at", "ended_at desc", "verb"]),
    ] {
        let count = bed.api.get(&format!("{path}?count=true&limit=1")).await.unwrap()["total"].as_u64().unwrap();
        for order in orders {
            let (mut seen, mut cursor) = (Vec::new(), String::new());
            loop {
                let page = bed.api.get(&format!("{path}?limit=7&order_by={}{cursor}", encoded(order))).await.unwrap();
                seen.extend(page["items"].as_array().unwrap().clone());
                match page["next_cursor"].as_str() {
                    Some(next) => cursor = format!("&cursor={next}"),
                    None => break,
                }
            }
            let identity = |v: &Value| format!("{} {} {} {}", v["id"], v["device"], v["type"], v["subject"]);
            let distinct: std::collections::BTreeSet<_> = seen.iter().map(identity).collect();
            assert_eq!((distinct.len(), seen.len() as u64), (seen.len(), count), "{path} {order}");
            let field = order.split(' ').next().unwrap();
            let keys: Vec<_> = seen.iter().filter(|v| !v[field].is_null() && v[field].is_string()).map(|v| v[field].to_string()).collect();
            let ordered = |w: &[String]| if order.ends_with("desc") { w[0] >= w[1] } else { w[0] <= w[1] };
            // A device's stale sources change what is shown, never where it stands.
            assert!(keys.windows(2).all(ordered) || field == "status", "{path} {order}: {keys:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_is_bound_and_fields_are_named() {
    let bed = bed().await;
    let id = bed.in_service().await;
    let page = bed.api.get("/devices?limit=5&order_by=site&filter=phase%3A*").await.unwrap();
    let cursor = page["next_cursor"].as_str().unwrap().to_owned();
    assert!(bed.api.get(&format!("/devices?limit=9&order_by=site&filter=phase%3A*&cursor={cursor}")).await.is_ok());
    let rows: &[(String, &str)] = &[
        (format!("/devices?limit=5&filter=phase%3A*&cursor={cursor}"), "cursor"),
        (format!("/devices?limit=5&order_by=site&cursor={cursor}"), "cursor"),
        (format!("/devices?limit=5&order_by=site+desc&filter=phase%3A*&cursor={cursor}"), "cursor"),
        ("/devices?order_by=colour".into(), "order_by"),
        ("/devices?order_by=condition".into(), "order_by"),
        ("/devices?order_by=name+down".into(), "order_by"),
        ("/devices?fields=name,colour".into(), "fields"),
        ("/devices?count=yes".into(), "count"),
        (format!("/devices/{id}?fields=lifecycle,colour"), "fields"),
        ("/operations?fields=colour".into(), "fields"),
        ("/conditions?order_by=effects".into(), "order_by"),
    ];
    for (path, field) in rows {
        let answer = bed.api.send(Method::GET, &format!("/api/v1{path}"), None, &[]).await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.body["field"].as_str()), (400, Some(*field)), "{path}: {}", answer.body);
    }
    let keys = |v: &Value| v.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let some = bed.api.get("/devices?limit=2&fields=phase,name").await.unwrap();
    assert_eq!(keys(&some["items"][0]), ["name", "phase"]);
    assert_eq!(keys(&bed.api.get(&format!("/devices/{id}?fields=version,lifecycle")).await.unwrap()), ["lifecycle", "version"]);
    // Every name that may be asked for is there.
    let whole = bed.api.get(&format!("/devices/{id}")).await.unwrap();
    assert_eq!(keys(&bed.api.get(&format!("/devices/{id}?fields={}", keys(&whole).join(","))).await.unwrap()), keys(&whole));
    for path in ["/devices", "/conditions"] {
        let item = bed.api.get(&format!("{path}?limit=1")).await.unwrap()["items"][0].take();
        let same = bed.api.get(&format!("{path}?limit=1&fields={}", keys(&item).join(","))).await.unwrap()["items"][0].take();
        assert_eq!(keys(&same), keys(&item));
    }
    let told = bed.api.send(Method::GET, "/api/v1/devices?filter=phase%20%3D%20Nope", None, &[]).await.unwrap().body;
    assert_eq!((&told["position"], &told["field"]), (&json!(9), &json!("filter")), "{told}");
    let next = reqwest::Client::new().get(format!("{}/api/v1/devices?limit=3&filter=phase%3A*&order_by=name", bed.hub.url));
    let next = next.bearer_auth(crate::api::token(&bed.hub, "device:read", &["*"])).send().await.unwrap();
    let link = next.headers()["link"].to_str().unwrap().to_owned();
    assert!(link.starts_with("<?limit=3&filter=phase%3A*&order_by=name&cursor=") && link.ends_with(">; rel=\"next\""), "{link}");
}
