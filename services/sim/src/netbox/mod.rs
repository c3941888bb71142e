//! NetBox 4.7's HTTP face: the calls that an inventory agent makes, and the few writes that people make (knowledge/netbox.md).

mod changes;
mod devices;
mod paging;
mod places;
mod writes;

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::http::{Answer, Call};
use crate::world::{Catalog, NetboxFault, World};

const ALL_METHODS: &str = "GET, POST, PUT, PATCH, DELETE, HEAD, OPTIONS";
const ONE_METHODS: &str = "GET, PUT, PATCH, DELETE, HEAD, OPTIONS";
const READ_METHODS: &str = "GET, HEAD, OPTIONS";

/// What the face knows.
pub(crate) struct NetboxFace {
    pub(crate) world: Arc<World>,
    pub(crate) token: String,
    pub(crate) stop: CancellationToken,
}

/// One request being answered.
struct Visit<'a> {
    world: &'a World,
    catalog: Arc<Catalog>,
    call: &'a Call,
    fault: NetboxFault,
    request_id: Uuid,
}

/// Answers one request.
pub(crate) async fn answer(face: Arc<NetboxFace>, call: Call) -> Answer {
    let path = call.uri.path_and_query().map_or("/", |p| p.as_str());
    face.world.record("netbox", call.method.as_str(), path);
    let (fault, catalog) = {
        let state = face.world.lock();
        (state.netbox_fault, state.catalog.clone())
    };
    if fault == NetboxFault::Hang {
        tokio::select! {
            () = face.stop.cancelled() => {}
            () = tokio::time::sleep(face.world.span(60.0)) => {}
        }
        return Answer::text(504, "Gateway Timeout");
    }
    if let NetboxFault::Status(status) = fault {
        return Answer::text(status, "simulated fault");
    }
    let visit = Visit { world: &face.world, catalog, call: &call, fault, request_id: Uuid::new_v4() };
    let answer = match visit.refusal(&face.token) {
        Some(refusal) => refusal,
        None => visit.route().unwrap_or_else(|refusal| refusal),
    };
    answer
        .with("X-Request-ID", visit.request_id.to_string())
        .with("API-Version", "4.7")
        .with("Vary", "HX-Request, Accept-Language, Cookie, origin")
        .with("Content-Language", "en")
}

impl Visit<'_> {
    /// 403, if the caller may not come in.
    fn refusal(&self, token: &str) -> Option<Answer> {
        let why = match self.call.header("authorization") {
            _ if self.fault == NetboxFault::Forbidden => "You do not have permission to perform this action.",
            None => "Authentication credentials were not provided.",
            Some(given) => match given.split_once(' ') {
                Some(("Bearer", given)) if given == token => return None,
                Some(("Bearer", _)) => "Invalid v2 token",
                Some(("Token", _)) => "Invalid v1 token",
                _ => "Authentication credentials were not provided.",
            },
        };
        Some(detail(403, why))
    }

    fn route(&self) -> Result<Answer, Answer> {
        let path: Vec<&str> = self.call.uri.path().trim_matches('/').split('/').collect();
        let method = &self.call.method;
        let id = |text: &str| text.parse::<u64>().map_err(|_| self.not_found_page());
        let (allow, answer) = match (path.as_slice(), method) {
            (["api", "dcim", "devices"], &Method::GET) => (ALL_METHODS, self.device_list()?),
            (["api", "dcim", "devices"], &Method::OPTIONS) => (ALL_METHODS, device_options()),
            (["api", "dcim", "devices"], _) => (ALL_METHODS, self.no_method()),
            (["api", "dcim", "devices", one], &Method::GET) => (ONE_METHODS, self.device(id(one)?)?),
            (["api", "dcim", "devices", one], &Method::PATCH) => (ONE_METHODS, self.patch_device(id(one)?)?),
            (["api", "dcim", "devices", one], &Method::DELETE) => (ONE_METHODS, self.delete_device(id(one)?)?),
            (["api", "dcim", "devices", _], _) => (ONE_METHODS, self.no_method()),
            (["api", ..], method) if *method != Method::GET => (READ_METHODS, self.no_method()),
            (["api", "status"], _) => (READ_METHODS, Answer::json(200, status().to_string())),
            (["api", "core", "object-changes"], _) => (READ_METHODS, self.change_list()?),
            (["api", "core", "object-changes", one], _) => (READ_METHODS, self.change(id(one)?)?),
            (["api", "core", "background-queues"], _) => (READ_METHODS, Answer::json(200, self.queues().to_string())),
            (["api", "dcim", "sites"], _) => (ALL_METHODS, self.site_list()?),
            (["api", "dcim", "racks"], _) => (ALL_METHODS, self.rack_list()?),
            (["api", "dcim", "device-roles"], _) => (ALL_METHODS, self.role_list()?),
            _ => return Err(self.not_found_page()),
        };
        Ok(answer.with("Allow", allow))
    }

    fn no_method(&self) -> Answer {
        detail(405, &format!("Method \"{}\" not allowed.", self.call.method))
    }

    fn not_found_page(&self) -> Answer {
        let error = json!({ "error": format!("The requested URL {} was not found.", self.call.uri.path()) });
        Answer::json(404, error.to_string())
    }

    fn queues(&self) -> Value {
        let queue = |index: usize, name: &str| {
            let url = format!("{}/api/core/background-queues/{name}/", self.catalog.base);
            json!({ "name": name, "url": url, "jobs": 0, "oldest_job_timestamp": "-", "index": index, "scheduler_pid": "3261", "workers": 1,
                "finished_jobs": 0, "started_jobs": 0, "deferred_jobs": 0, "failed_jobs": 0, "scheduled_jobs": 0 })
        };
        let results = [queue(0, "default"), queue(1, "high"), queue(2, "low")];
        json!({ "count": 3, "next": null, "previous": null, "results": results })
    }
}

/// DRF's error body.
fn detail(status: u16, why: &str) -> Answer {
    Answer::json(status, json!({ "detail": why }).to_string())
}

/// DRF's body for a bad value of one field.
fn bad_value(field: &str, why: &str) -> Answer {
    Answer::json(400, json!({ field: [why] }).to_string())
}

fn status() -> Value {
    let apps = json!({ "django_filters": "26.2", "django_prometheus": "2.4.0", "django_rq": "4.2.0", "django_tables2": "3.0.1",
        "drf_spectacular": "0.30.0", "drf_spectacular_sidecar": "2026.10.1", "mptt": "0.18.0", "rest_framework": "3.18.0",
        "social_django": "6.1.0", "taggit": "6.1.0", "timezone_field": "7.2.2" });
    json!({ "django-version": "6.1.2", "hostname": "netbox01", "installed_apps": apps, "netbox-version": "4.7.3",
        "netbox-full-version": "4.7.3", "plugins": {}, "python-version": "3.13.5", "rq-workers-running": 1 })
}

/// `OPTIONS /api/dcim/devices/`: of the 94 kB only what a client looks for, the statuses that this NetBox has.
fn device_options() -> Answer {
    let choices: Vec<Value> = devices::STATUSES.iter().map(|(value, label)| json!({ "value": value, "display_name": label })).collect();
    let field = json!({ "type": "field", "required": false, "read_only": false, "label": "Status", "choices": choices });
    let body = json!({ "name": "Device List", "description": "", "renders": ["application/json", "text/html"],
        "parses": ["application/json", "multipart/form-data"], "actions": { "POST": { "status": field } } });
    Answer::json(200, body.to_string())
}
