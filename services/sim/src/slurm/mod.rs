//! One site's SLURM REST face, release 22.05.8 (v0.0.36-38) or 24.11.5 (v0.0.40-42), as measured (knowledge/slurm.md).

mod hostlist;
mod lists;
mod refusals;
mod update;

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::http::{Answer, Call};
use crate::world::{Release, SlurmFault, World};
use refusals::Trouble;

const NOT_FOUND: &str = "Unable find requested URL. Please view /openapi/v3 for API reference.";
const NO_METHOD: &str = "Requested REST method is not defined at URL. Please view /openapi/v3 for API reference.";

/// What the face knows.
pub(crate) struct SlurmFace {
    pub(crate) world: Arc<World>,
    pub(crate) site: String,
    pub(crate) release: Release,
    pub(crate) jwt: String,
    pub(crate) stop: CancellationToken,
}

/// An API version by its last number: 42 = v0.0.42.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32);

/// What a path asks for.
#[derive(Clone, Copy)]
enum Asked<'a> {
    Nodes,
    Node(&'a str),
    Partitions,
    Partition(&'a str),
    Reservations,
    Ping,
}

/// Answers one request.
pub(crate) async fn answer(face: Arc<SlurmFace>, call: Call) -> Answer {
    face.world.record(&face.site, call.method.as_str(), call.uri.path_and_query().map_or("/", |p| p.as_str()));
    let fault = face.world.lock().cluster(&face.site).map(|c| c.fault).unwrap_or_default();
    if let SlurmFault::Status(status) = fault {
        return Answer::text(status, "simulated fault");
    }
    let Some(token) = face.token(&call) else { return Answer::text(401, "Authentication failure") };
    if call.uri.path().trim_end_matches('/') == "/openapi/v3" && call.method == Method::GET {
        return Answer::json(200, openapi(face.release).to_string());
    }
    let Some((version, asked)) = resolve(face.release, call.uri.path()) else { return Answer::text(404, NOT_FOUND) };
    let writes = match (face.release, &call.method, asked) {
        (_, &Method::GET, _) => false,
        (Release::V24, &Method::POST, Asked::Node(_)) => true,
        (Release::V24, _, _) => return Answer::text(404, NOT_FOUND),
        (Release::V22, _, _) => return Answer::text(405, NO_METHOD),
    };
    if fault == SlurmFault::Hang {
        tokio::select! {
            () = face.stop.cancelled() => {}
            () = tokio::time::sleep(face.world.span(10.0)) => {}
        }
    }
    let trouble = match fault {
        SlurmFault::ControllerDown => Some(Trouble::Controller),
        SlurmFault::Hang => Some(Trouble::Hang),
        SlurmFault::BadToken | SlurmFault::TokenExpired => Some(Trouble::Token),
        _ if token != face.jwt => Some(Trouble::Token),
        SlurmFault::NoRights => Some(Trouble::Rights),
        _ => None,
    };
    let answer = match (trouble, writes) {
        (Some(trouble), _) => refusals::refuse(version, asked, trouble, writes),
        (None, true) => face.update(version, asked, &call),
        (None, false) => face.read(version, asked, call.param("update_time"), fault == SlurmFault::EmptyList),
    };
    if fault == SlurmFault::Truncated { answer.cut() } else { answer }
}

impl SlurmFace {
    /// The token that came, if the request is authenticated at all: 22.05 wants name and token, 24.11 the token alone, also as Bearer.
    fn token<'a>(&self, call: &'a Call) -> Option<&'a str> {
        let token = call.header("x-slurm-user-token");
        match self.release {
            Release::V22 => token.filter(|_| call.header("x-slurm-user-name").is_some()),
            Release::V24 => token.or_else(|| call.header("authorization").and_then(|a| a.strip_prefix("Bearer "))),
        }
    }
}

/// The API versions of a release.
fn versions(release: Release) -> [Version; 3] {
    match release {
        Release::V22 => [Version(36), Version(37), Version(38)],
        Release::V24 => [Version(40), Version(41), Version(42)],
    }
}

fn resolve(release: Release, path: &str) -> Option<(Version, Asked<'_>)> {
    let mut parts = path.strip_prefix("/slurm/v0.0.")?.trim_end_matches('/').split('/');
    let number: u32 = parts.next()?.parse().ok()?;
    let version = versions(release).into_iter().find(|v| v.0 == number)?;
    let asked = match (parts.next()?, parts.next(), parts.next()) {
        ("nodes", None, None) => Asked::Nodes,
        ("node", Some(name), None) => Asked::Node(name),
        ("partitions", None, None) => Asked::Partitions,
        ("partition", Some(name), None) => Asked::Partition(name),
        ("reservations", None, None) if number != 36 => Asked::Reservations,
        ("ping", None, None) => Asked::Ping,
        _ => return None,
    };
    Some((version, asked))
}

/// The part of `/openapi/v3` that tells which versions and calls are served.
fn openapi(release: Release) -> Value {
    let mut paths = Map::new();
    for Version(number) in versions(release) {
        // From v0.0.40 on, collections are documented with a trailing slash.
        let slash = if number >= 40 { "/" } else { "" };
        let lists = ["nodes", "partitions", "reservations", "ping"].into_iter().filter(|l| number != 36 || *l != "reservations");
        for path in lists.map(|l| format!("{l}{slash}")).chain(["node/{node_name}".to_owned(), "partition/{partition_name}".to_owned()]) {
            let operation =
                json!({ "operationId": format!("slurm_v00{number}_get_{}", path.replace(['/', '{', '}'], "")), "responses": {} });
            let mut methods = json!({ "get": operation });
            if number >= 40 && path.starts_with("node/") {
                methods["post"] = json!({ "operationId": format!("slurm_v00{number}_post_node"), "responses": {} });
            }
            paths.insert(format!("/slurm/v0.0.{number}/{path}"), methods);
        }
    }
    json!({ "openapi": "3.0.3", "info": { "title": "Slurm REST API", "version": release.number() }, "paths": paths })
}

impl Version {
    fn release(self) -> Release {
        if self.0 < 40 { Release::V22 } else { Release::V24 }
    }

    /// The `meta` object, which even gets micro and minor the wrong way round as 22.05 and 24.11 do.
    fn meta(self) -> String {
        let number = self.0;
        let meta = match self.release() {
            Release::V22 => {
                let name = if number == 36 { "REST v0.0.36".to_owned() } else { format!("Slurm OpenAPI v0.0.{number}") };
                json!({ "plugin": { "type": format!("openapi/v0.0.{number}"), "name": name },
                    "Slurm": { "version": { "major": 22, "micro": 8, "minor": 5 }, "release": "22.05.8" } })
            }
            Release::V24 => json!({
                "plugin": { "type": "openapi/slurmctld", "name": "Slurm OpenAPI slurmctld",
                    "data_parser": format!("data_parser/v0.0.{number}"), "accounting_storage": "" },
                "client": { "source": "[::]:1090(fd:9)", "user": "root", "group": "root" }, "command": [],
                "slurm": { "version": { "major": "24", "micro": "5", "minor": "11" }, "release": "24.11.5", "cluster": "sim" } }),
        };
        meta.to_string()
    }
}
