//! Route × principal × site, by walking the document that the routes themselves make: a route without a case here fails.

use crate::api::{Bed, bed};
use fleet_hub::access::implied_by;
use fleet_tests::Api;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What a token of another site meets.
#[derive(Clone, Copy, Debug)]
enum Elsewhere {
    /// The same: the thing belongs to no site.
    Same,
    /// An empty list.
    Empty,
    /// It is not there.
    Missing,
    /// It is told that it has no right there.
    Forbidden,
}

use Elsewhere::{Empty, Forbidden, Missing, Same};

/// A request that is understood: values for the path, a query, a body; and what a token of another site meets.
struct Case {
    operation: &'static str,
    path: &'static [(&'static str, &'static str)],
    query: &'static str,
    body: Option<Value>,
    elsewhere: Elsewhere,
}

const fn case(
    operation: &'static str,
    path: &'static [(&'static str, &'static str)],
    query: &'static str,
    body: Option<Value>,
    elsewhere: Elsewhere,
) -> Case {
    Case { operation, path, query, body, elsewhere }
}

const DEVICE: &[(&str, &str)] = &[("id", "<device>")];
const SITE: &[(&str, &str)] = &[("site", "sim1")];

const CONFIG: &[(&str, &str)] = &[("site", "sim1"), ("config", "gpu-node")];

fn cases() -> Vec<Case> {
    let hold = json!({"command": "hold", "reason": "test", "dry_run": true});
    let of_type = json!({"name": "Leak", "sense": "problem", "severity": "warning", "writers": ["w"], "about": "a leak"});
    let freeze = json!({"name": "f", "reason": "test"});
    let why = || Some(json!({"reason": "test"}));
    let config = json!({"device_role": "gpu-node", "image": "ubuntu", "flavor": "gpu"});
    let condition = json!({"type": "SlurmSchedulable", "status": "True", "reason": "Idle"});
    let parked: &[(&str, &str)] = &[("id", "fm.commands.v1:0:0")];
    vec![
        case("listDevices", &[], "filter=site%20%3D%20sim1", None, Empty),
        case("getDevice", DEVICE, "", None, Missing),
        case("getWhy", DEVICE, "", None, Missing),
        case("listHistory", DEVICE, "", None, Missing),
        case("listTimeline", DEVICE, "", None, Missing),
        case("listConditionsOfDevice", DEVICE, "", None, Missing),
        case("giveCommand", DEVICE, "", Some(hold), Missing),
        case("listConditions", &[], "filter=site%20%3D%20sim1", None, Empty),
        case("listOperations", &[], "filter=site%20%3D%20sim1", None, Empty),
        case("getOperation", &[("id", "<operation>")], "", None, Missing),
        case("listAttention", &[], "filter=site%20%3D%20sim1", None, Empty),
        case("acknowledgeAttention", &[("id", "<device>:drain")], "", why(), Missing),
        case("whoami", &[], "", None, Same),
        case("canI", &[], "scope=admin", None, Same),
        case("listSites", &[], "", None, Same),
        case("getSite", SITE, "", None, Missing),
        case("changeSite", SITE, "dry_run=true", Some(json!({"owners": {"roles": {"a": "b"}}})), Forbidden),
        case("listRoleProfiles", SITE, "", None, Missing),
        case("getRoleProfile", &[("site", "sim1"), ("role", "gpu-node")], "", None, Missing),
        case("changeRoleProfile", &[("site", "sim1"), ("role", "gpu-node")], "dry_run=true", Some(json!({"dhcp": "kea"})), Forbidden),
        case("listFreezes", SITE, "", None, Missing),
        case("placeFreeze", SITE, "dry_run=true", Some(freeze), Forbidden),
        case("liftFreeze", &[("site", "sim1"), ("name", "f")], "dry_run=true", None, Forbidden),
        case("listTypes", SITE, "", None, Missing),
        case("registerType", SITE, "dry_run=true", Some(of_type), Forbidden),
        case("previewBaseline", SITE, "", None, Missing),
        case("confirmBaseline", SITE, "", Some(json!({"devices": [{"id": "<device>", "phase": "Ready"}], "reason": "test"})), Missing),
        case("listBootstrapConfigs", SITE, "", None, Missing),
        case("createBootstrapConfig", SITE, "dry_run=true", Some(config.clone()), Forbidden),
        case("updateNamedBootstrapConfig", SITE, "dry_run=true", Some(config), Forbidden),
        case("getBootstrapConfig", CONFIG, "", None, Missing),
        case("updateBootstrapConfig", CONFIG, "dry_run=true", Some(json!({"image": "x"})), Forbidden),
        case("retireBootstrapConfig", CONFIG, "dry_run=true", None, Forbidden),
        case("patchDevice", DEVICE, "", Some(json!({"annotations": {"a": "b"}})), Missing),
        case("reportCondition", DEVICE, "", Some(condition), Missing),
        case("patchDevices", SITE, "", Some(json!({"devices": []})), Forbidden),
        case("reportConditions", SITE, "", Some(json!({"conditions": []})), Forbidden),
        case("handOver", SITE, "", Some(json!({"items": []})), Forbidden),
        case("listOrphans", &[], "site=sim1", None, Empty),
        case("listDenials", &[], "", None, Same),
        case("listParked", &[], "", None, Same),
        case("getParked", parked, "", None, Same),
        case("replayParked", parked, "", why(), Same),
        case("discardParked", parked, "", why(), Same),
        case("listGenerations", &[], "", None, Same),
        case("rebuildGeneration", &[], "", Some(json!({})), Same),
        case("flipGeneration", &[], "", None, Same),
        case("rollBackGeneration", &[], "", None, Same),
        case("dropGeneration", &[], "", None, Same),
    ]
}

/// One operation of the document, made concrete.
struct Asked {
    name: String,
    method: Method,
    path: String,
    scope: Option<String>,
    public: bool,
    body: Option<Vec<u8>>,
    elsewhere: Elsewhere,
}

impl Asked {
    /// Whom the gateway hears: those whom the roster knows for a source. Everything else anybody may ask who has the right.
    fn by(&self, bed: &Bed, scope: &str, sites: &[&str]) -> Api {
        let gateway = self.path.contains(":batch") || (self.method == Method::POST && self.path.ends_with("/conditions"));
        let client = if gateway { "slurm-agent-sim1" } else { "somebody" };
        Api::with_token(&bed.hub.url, &bed.hub.token(client, scope, sites).unwrap()).unwrap()
    }
}

/// Every operation of the document; without a case, a public one is asked as it stands.
fn every(document: &Value, fill: &[(&str, String)]) -> Vec<Asked> {
    let cases = cases();
    let filled = |text: &str| fill.iter().fold(text.to_owned(), |text, (mark, value)| text.replace(mark, value));
    let mut used = BTreeSet::new();
    let mut out = Vec::new();
    for (template, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            let security = operation["security"].as_array().unwrap();
            let public = security.is_empty();
            let case = cases.iter().find(|c| c.operation == id.trim_end_matches("Bare"));
            assert!(public || case.is_some(), "{method} {template} ({id}) has no case: say what a token of another site meets");
            used.extend(case.map(|c| c.operation));
            let mut path = template.clone();
            for (name, value) in case.map_or(&[][..], |c| c.path) {
                path = path.replace(&format!("{{{name}}}"), &filled(value));
            }
            if let Some(query) = case.map(|c| c.query).filter(|q| !q.is_empty()) {
                path = format!("{path}?{query}");
            }
            assert!(public || !path.contains('{'), "{path} is not filled");
            out.push(Asked {
                name: format!("{method} {template}"),
                method: method.to_uppercase().parse().unwrap(),
                path,
                scope: security.first().and_then(|s| s["token"][0].as_str()).map(str::to_owned),
                public,
                body: case.and_then(|c| c.body.as_ref()).map(|b| filled(&b.to_string()).into_bytes()),
                elsewhere: case.map_or(Same, |c| c.elsewhere),
            });
        }
    }
    let idle: Vec<_> = cases.iter().map(|c| c.operation).filter(|c| !used.contains(c)).collect();
    assert!(idle.is_empty(), "cases of no route: {idle:?}");
    out
}

async fn ask(api: &Api, asked: &Asked) -> (StatusCode, Value) {
    let answer = api.send(asked.method.clone(), &asked.path, asked.body.as_deref(), &[]).await.unwrap();
    (answer.status, answer.body)
}

fn code(body: &Value) -> Option<&str> {
    body["code"].as_str()
}

async fn scopes(bed: &Bed, asked: &Asked) {
    let all = fleet_hub::access::SCOPES;
    let nobody = Api::with_token(&bed.hub.url, "nonsense").unwrap();
    let (status, _) = ask(&nobody, asked).await;
    assert_eq!(status == StatusCode::UNAUTHORIZED, !asked.public, "{} without a token: {status}", asked.name);
    if asked.public {
        return;
    }
    for scope in all {
        let (status, body) = ask(&asked.by(bed, scope, &["*"]), asked).await;
        let lacks = code(&body) == Some("scope-missing");
        // Who writes devices may look at them.
        let fits = asked.scope.as_deref().is_none_or(|needed| needed == *scope || implied_by(needed).contains(scope));
        assert_eq!((lacks, status == StatusCode::FORBIDDEN), (!fits, !fits), "{} with {scope}: {status} {body}", asked.name);
        assert!(!fits || (status != StatusCode::UNAUTHORIZED && !status.is_server_error()), "{}: {status} {body}", asked.name);
    }
    let implied = implied_by(asked.scope.as_deref().unwrap_or_default());
    let others: Vec<_> = all.iter().filter(|s| Some(**s) != asked.scope.as_deref() && !implied.contains(*s)).copied().collect();
    let (status, body) = ask(&asked.by(bed, &others.join(" "), &["*"]), asked).await;
    let needs = asked.scope.is_some();
    assert_eq!((status == StatusCode::FORBIDDEN, code(&body) == Some("scope-missing")), (needs, needs), "{}: {body}", asked.name);
}

async fn sites(bed: &Bed, asked: &Asked) {
    if asked.public {
        return;
    }
    let right = asked.scope.as_deref().unwrap_or_default();
    let (own, body) = ask(&asked.by(bed, right, &["sim1"]), asked).await;
    assert!(own != StatusCode::UNAUTHORIZED && own != StatusCode::FORBIDDEN, "{} at its own site: {own} {body}", asked.name);
    // A parked input that is not there is missing for everybody.
    let there = matches!(asked.elsewhere, Same) || own != StatusCode::NOT_FOUND;
    assert!(there, "{} at its own site: {own} {body}", asked.name);
    for (whose, far) in [("another site", &["sim2"][..]), ("an unknown site", &["mars"]), ("no site", &[])] {
        let (status, body) = ask(&asked.by(bed, right, far), asked).await;
        let met = match asked.elsewhere {
            Same => {
                status.is_success() == own.is_success() || status == own || status == StatusCode::CONFLICT || own == StatusCode::CONFLICT
            }
            Empty => status == StatusCode::OK && body["items"] == json!([]),
            Missing => status == StatusCode::NOT_FOUND,
            Forbidden => status == StatusCode::FORBIDDEN && code(&body) == Some("out-of-reach"),
        };
        assert!(met, "{} by a token of {whose}: {:?} expected, {status} {body}", asked.name, asked.elsewhere);
        assert!(status != StatusCode::UNAUTHORIZED && !status.is_server_error());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_by_every_principal_at_every_site() {
    let bed = bed().await;
    let list = bed.api.get("/devices?filter=phase%20%3D%20InService%20AND%20site%20%3D%20sim1&limit=1").await.unwrap();
    let device = list["items"][0]["id"].as_str().unwrap().to_owned();
    let drained = bed.api.command(&device, "drain", json!({})).await.unwrap();
    let operation = drained.body["operation"].as_str().unwrap().to_owned();
    let read = [("fleet-consistency-token", drained.token.as_deref().unwrap())];
    assert_eq!(bed.api.send(Method::GET, "/api/v1/devices?limit=1", None, &read).await.unwrap().status, StatusCode::OK);
    let config = json!({"device_role": "gpu-node", "image": "ubuntu", "flavor": "gpu"});
    let made = bed.client("slurm-bootstrap-config:create", &["sim1"]).post("/sites/sim1/slurm-bootstrap-configs/", &config).await.unwrap();
    assert_eq!(made.status, StatusCode::CREATED, "{}", made.body);
    let document: Value = reqwest::get(format!("{}/openapi.json", bed.hub.url)).await.unwrap().json().await.unwrap();
    let all = every(&document, &[("<device>", device), ("<operation>", operation)]);
    assert!(all.len() > 50, "{} operations", all.len());
    for asked in &all {
        scopes(&bed, asked).await;
        sites(&bed, asked).await;
    }
}
