//! The routes, one file per thing.

mod admin;
mod annotations;
mod attention;
mod baseline;
mod body;
mod bootstrap;
mod commands;
mod conditions;
mod denials;
mod devices;
pub(crate) mod docs;
mod filter;
mod gateway;
pub(crate) mod health;
mod history;
mod listing;
mod named;
mod operations;
mod orphans;
mod parked;
mod past;
mod query;
mod rest;
mod site;
mod sites;
pub(crate) mod tokens;
mod whoami;
mod why;
mod writing;

pub(crate) use rest::let_go;

use crate::Problem;
use crate::access::Routes;
use crate::openapi::op;
use axum::{extract::MatchedPath, extract::Request, http::Method, http::StatusCode, http::Uri, middleware::Next, response::Response};
use std::time::Instant;

/// Every route that needs a token and ends in time.
pub(crate) fn routes() -> Routes {
    device_routes().merge(fleet_routes()).merge(site_routes()).merge(gateway::routes()).merge(bootstrap::routes()).merge(admin_routes())
}

fn device_routes() -> Routes {
    let at = "as it was believed at this time (RFC 3339)";
    Routes::default()
        .get("/devices", op("listDevices", "Devices").list("DeviceItem", &devices::LIST.orders(), devices::LIST.shows), devices::list)
        .get(
            "/devices/{id}",
            op("getDevice", "A device whole")
                .picks(devices::SECTIONS)
                .query("at", "time", at)
                .query("version", "int", "as it was at this version")
                .reads()
                .ok("Device")
                .problems(&[409]),
            devices::one,
        )
        .get(
            "/devices/{id}/why",
            op("getWhy", "What a device waits for, and what may be asked of it now")
                .reads()
                .ok("{id:uuid name:string phase:string? version:int waiting_for:[Waiting] plans:[Plan] verbs:[Verdict]}")
                .problems(&[409]),
            why::why,
        )
        .get("/devices/{id}/history", op("listHistory", "The decisions on a device").pages("Decision").problems(&[409]), history::history)
        .get(
            "/devices/{id}/timeline",
            op("listTimeline", "What happened to a device, in words").pages("Entry").problems(&[409]),
            history::timeline,
        )
        .get(
            "/devices/{id}/conditions",
            op("listConditionsOfDevice", "The conditions of a device")
                .query("at", "time", at)
                .reads()
                .ok("{items:[Condition] next_cursor:string? meta:Meta at*:time}")
                .problems(&[409]),
            conditions::of_device,
        )
        .post(
            "/devices/{id}/commands",
            op("giveCommand", "Gives a device a command of the lifecycle")
                .body(&format!("{{command:({}) reason:reason params*:object dry_run*:bool not_after*:time?}}", verbs()))
                .decides()
                .ok("Decided"),
            commands::give,
        )
}

fn fleet_routes() -> Routes {
    Routes::default()
        .get(
            "/conditions",
            op("listConditions", "Conditions over the fleet").list("Condition", &conditions::LIST.orders(), conditions::LIST.shows),
            conditions::list,
        )
        .get(
            "/operations",
            op("listOperations", "What commands came to")
                .query("device", "string", "only of this device")
                .query("state", "(running|succeeded|failed|cancelled)", "only in this state")
                .list("Operation", &operations::LIST.orders(), operations::LIST.shows)
                .problems(&[404, 409]),
            operations::list,
        )
        .get("/operations/{id}", op("getOperation", "One operation").picks(operations::LIST.shows).reads().ok("Operation"), operations::one)
        .get(
            "/orphans",
            op("listOrphans", "What a source shows and no device claims")
                .query("site", "string", "at this site")
                .query("source", "string", "in this source")
                .pages("Orphan"),
            orphans::list,
        )
        .get(
            "/attention",
            op("listAttention", "Whatever waits for a person").list("AttentionItem", &attention::LIST.orders(), attention::LIST.shows),
            attention::list,
        )
        .post(
            "/attention/{id}/acknowledge",
            op("acknowledgeAttention", "Says that somebody has seen it")
                .body("{reason:reason}")
                .decides()
                .ok("{id:string decision:uuid repeated:bool version:int}"),
            attention::acknowledge,
        )
        .get(
            "/whoami",
            op("whoami", "What the token says of its holder")
                .ok("{subject:string client:string scopes:[string] sites:[string] grants:[{scopes:[string] sites:[string]}]}"),
            whoami::whoami,
        )
        .get(
            "/can-i",
            op("canI", "Whether the token allows something")
                .needs("scope", "string", "the scope")
                .query("site", "string", "at this site")
                .ok("{allowed:bool scope:string site:string? because:string}"),
            whoami::can_i,
        )
}

fn site_routes() -> Routes {
    Routes::default()
        .get("/sites", op("listSites", "Sites").reads().ok("{items:[SiteItem] next_cursor:string? meta:Meta}"), sites::list)
        .get("/sites/{site}", op("getSite", "A site with all it is set to").reads().ok("Site"), sites::one)
        .get(
            "/sites/{site}/baseline",
            op("previewBaseline", "What already runs, and the phase that it would get").reads().ok(
                "{site_id:string items:[{id:uuid name:string phase:string? evidence:[string] problem:string?}] proposed:int undecided:int}",
            ),
            baseline::preview,
        )
        .merge(site::routes())
}

fn verbs() -> String {
    fleet_schemas::verbs::TABLE.iter().map(|v| v.name).collect::<Vec<_>>().join("|")
}

fn admin_routes() -> Routes {
    let closed = "{id:string how:string by:string at:time}";
    let turns = |id, summary| op(id, summary).ok("Generations").problems(&[409]);
    Routes::default()
        .get(
            "/admin/parked",
            op("listParked", "Input that could not be used")
                .limited()
                .query("closed", "bool", "those that somebody replayed or discarded")
                .ok("{items:[Parked]}"),
            parked::list,
        )
        .get("/admin/parked/{id}", op("getParked", "One of them").ok("Parked"), parked::one)
        .post(
            "/admin/parked/{id}/replay",
            op("replayParked", "Puts its bytes back on their topic").body("{reason:reason}").ok(closed).problems(&[409]),
            parked::replay,
        )
        .post(
            "/admin/parked/{id}/discard",
            op("discardParked", "Lets it be").body("{reason:reason}").ok(closed).problems(&[409]),
            parked::discard,
        )
        .get("/audit/denials", op("listDenials", "What was denied, newest first").pages("Denial"), denials::list)
        .get("/admin/projections", op("listGenerations", "The generations of the read model").ok("Generations"), admin::projections)
        .post("/admin/projections/flip", turns("flipGeneration", "Lets the newer one serve"), admin::flip)
        .post("/admin/projections/rollback", turns("rollBackGeneration", "Lets the older one serve again"), admin::roll_back)
        .post("/admin/projections/drop", turns("dropGeneration", "Drops the one that does not serve"), admin::drop_standby)
}

/// Those that take as long as there is to do: nothing ends them from outside.
pub(crate) fn long_routes() -> Routes {
    Routes::default()
        .post(
            "/sites/{site}/baseline",
            op("confirmBaseline", "Gives devices that already run their phase")
                .body("{devices:[{id:uuid phase:string}] reason:reason}")
                .ok("{accepted:int refused:int pending:int items:[{id:uuid result:string phase*:string version*:int code*:string detail*:string}]}"),
            baseline::confirm,
        )
        .post(
            "/admin/projections/rebuild",
            op("rebuildGeneration", "Fills a new generation from the journal, compares, and flips").body("{flip_anyway*:bool}").ok(
                "{generation:int decisions:int devices:int seconds:number equal:bool differences:[{table:string served:string? rebuilt:string?}] flipped:bool}",
            ),
            admin::rebuild,
        )
}

pub(crate) async fn not_found(uri: Uri) -> Problem {
    Problem::missing(format!("there is no {}", uri.path()))
}

pub(crate) async fn method_not_allowed(method: Method, uri: Uri) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", format!("{method} is not possible on {}", uri.path()))
}

/// Counts and times every request, by route and never by what a caller can make up.
pub(crate) async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().map_or("none".to_owned(), |p| p.as_str().to_owned());
    let method = label(request.method());
    let response = next.run(request).await;
    let status = response.status().as_u16().to_string();
    metrics::counter!("fm_http_requests_total", "route" => route.clone(), "method" => method, "status" => status).increment(1);
    metrics::histogram!("fm_http_request_duration_seconds", "route" => route).record(started.elapsed().as_secs_f64());
    response
}

/// A method as a label; a caller can make up any number of others.
fn label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_made_up_method_makes_no_label() {
        for (method, expected) in [("GET", "GET"), ("POST", "POST"), ("BREW", "other"), ("get", "other")] {
            assert_eq!(label(&Method::from_bytes(method.as_bytes()).unwrap()), expected);
        }
    }
}
