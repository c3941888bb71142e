//! What a route is for, what it takes and what it answers: given where the route is made.

use super::shape::{schema, strict};
use serde_json::{Map, Value, json};

/// One operation of the API.
#[derive(Clone, Debug)]
pub struct Operation {
    /// Its id.
    pub id: &'static str,
    summary: &'static str,
    params: Vec<Value>,
    body: Option<(&'static str, Value)>,
    answers: Vec<(u16, Value)>,
}

/// An operation that takes and answers nothing yet. Every route refuses parameters that it does not know.
pub fn op(id: &'static str, summary: &'static str) -> Operation {
    Operation { id, summary, params: vec![], body: None, answers: vec![] }.problems(&[400, 500, 503])
}

/// An operation of a route that heeds nothing in a request.
pub fn open_op(id: &'static str, summary: &'static str) -> Operation {
    Operation { id, summary, params: vec![], body: None, answers: vec![] }
}

impl Operation {
    /// Adds a query parameter.
    pub fn query(self, name: &str, shape: &str, about: &str) -> Self {
        self.param("query", name, schema(shape), false, about)
    }

    /// Adds a query parameter that must be there.
    pub fn needs(self, name: &str, shape: &str, about: &str) -> Self {
        self.param("query", name, schema(shape), true, about)
    }

    fn header(self, name: &str, schema: Value, about: &str) -> Self {
        self.param("header", name, schema, false, about)
    }

    /// Adds a query parameter with a schema of its own.
    fn asked(self, name: &str, schema: Value, about: &str) -> Self {
        self.param("query", name, schema, false, about)
    }

    fn param(mut self, place: &str, name: &str, schema: Value, required: bool, about: &str) -> Self {
        self.params.push(json!({"in": place, "name": name, "required": required, "description": about, "schema": schema}));
        self
    }

    /// Takes a JSON body.
    pub fn body(mut self, shape: &str) -> Self {
        self.body = Some(("application/json", strict(shape)));
        self.problems(&[408, 413])
    }

    /// Takes a form.
    pub fn form(mut self, shape: &str) -> Self {
        self.body = Some(("application/x-www-form-urlencoded", schema(shape)));
        self
    }

    /// Answers 200 with this.
    pub fn ok(self, shape: &str) -> Self {
        self.answer(200, shape)
    }

    /// Answers a status with JSON.
    pub fn answer(mut self, status: u16, shape: &str) -> Self {
        let content = json!({"application/json": {"schema": schema(shape)}});
        self.answers.push((status, json!({"description": words(status), "content": content})));
        self
    }

    /// Answers 200 with something that is no JSON.
    pub fn text(mut self, kind: &str) -> Self {
        let content = json!({kind: {"schema": {"type": "string"}}});
        self.answers.push((200, json!({"description": words(200), "content": content})));
        self
    }

    /// May answer these with a problem.
    pub fn problems(mut self, statuses: &[u16]) -> Self {
        for status in statuses {
            if self.answers.iter().all(|(known, _)| known != status) {
                let content = json!({"application/problem+json": {"schema": schema("Problem")}});
                self.answers.push((*status, json!({"description": words(*status), "content": content})));
            }
        }
        self
    }

    /// Reads the read model, and can wait for what a write's token names.
    pub fn reads(self) -> Self {
        self.header(
            "Fleet-Consistency-Token",
            json!({"type": "string"}),
            "waits until the read model has the decision that this token came with",
        )
    }

    /// A list that is asked by filter and order: by these fields, and of its items these are shown.
    pub fn list(self, item: &str, fields: &[&str], shows: &[&str]) -> Self {
        let order = json!({"type": "string", "pattern": format!("^({})( asc| desc)?$", fields.join("|"))});
        self.query("filter", "string", "an expression over the list's fields, see docs/API.md")
            .asked("order_by", order, "a field, and perhaps `desc`")
            .query("count", "bool", "adds `total`")
            .picks(shows)
            .pages(item)
    }

    /// Shows of a thing only what is asked for.
    pub fn picks(self, shows: &[&str]) -> Self {
        let names = shows.join("|");
        let schema = json!({"type": "string", "pattern": format!("^({names})(,({names}))*$")});
        self.asked("fields", schema, "only these, separated by commas")
    }

    /// At most so many lines.
    pub fn limited(self) -> Self {
        self.asked("limit", json!({"type": "integer", "minimum": 1, "maximum": 500, "default": 50}), "lines of a page")
    }

    /// A list in pages.
    pub fn pages(self, item: &str) -> Self {
        self.limited()
            .query("cursor", "string", "`next_cursor` of the page before")
            .reads()
            .ok(&format!("{{items:[{item}] next_cursor:string? meta:Meta total*:int}}"))
    }

    /// A command: decided before it is answered, if it is in time.
    pub fn decides(self) -> Self {
        let key = json!({"type": "string", "pattern": "^[!-~]{1,200}$"});
        let version = json!({"type": "string", "pattern": "^\"v[0-9]{1,18}\"$"});
        self.header("Idempotency-Key", key, "makes a repeat harmless, for 24 hours")
            .header("If-Match", version, "only if the thing has this version: \"v42\"")
            .header("Prefer", json!({"type": "string"}), "respond-async: do not wait for the decision")
            .answer(202, "Pending")
            .problems(&[404, 409, 412, 422])
    }

    /// As OpenAPI has it. `scope` = what the token must hold, `None` = any token, `public` = none at all.
    pub(super) fn document(&self, id: String, path: &str, scope: Option<&str>, public: bool) -> Value {
        let mut described = self.clone();
        if !public {
            described = described.problems(&[401, 429]);
        }
        if scope.is_some() {
            described = described.problems(&[403]);
        }
        let in_path = path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'));
        let in_path: Vec<_> =
            in_path.map(|name| json!({"in": "path", "name": name, "required": true, "schema": {"type": "string"}})).collect();
        if !in_path.is_empty() && !public {
            described = described.problems(&[404]);
        }
        described.answers.sort_by_key(|(status, _)| *status);
        let answers: Map<_, _> = described.answers.iter().map(|(status, answer)| (status.to_string(), answer.clone())).collect();
        let security = match (scope, public) {
            (_, true) => json!([]),
            (scope, false) => json!([{"token": scope.into_iter().collect::<Vec<_>>()}]),
        };
        let params: Vec<_> = in_path.into_iter().chain(described.params).collect();
        let mut out = json!({"operationId": id, "summary": self.summary, "parameters": params, "responses": answers, "security": security});
        if let Some((kind, schema)) = &self.body {
            out["requestBody"] = json!({"required": true, "content": {*kind: {"schema": schema}}});
        }
        out
    }
}

fn words(status: u16) -> &'static str {
    match status {
        200 => "done",
        201 => "made",
        202 => "not decided yet, or not shown yet",
        400 => "the request is not understood; `field` names the part at fault",
        401 => "no valid token",
        403 => "the token has not the scope, or does not reach the site",
        404 => "there is no such thing within the token's reach",
        408 => "the body did not come in time",
        409 => "refused: see `code`",
        412 => "the thing has another version",
        413 => "the body is too large",
        422 => "the Idempotency-Key was used for another request",
        429 => "too many; see Retry-After",
        503 => "not now; see Retry-After",
        _ => "the request failed inside",
    }
}
