//! What every list is asked by: `filter`, `order_by`, `limit`, `cursor`, `count`, `fields`.

use super::filter::{self, Vocabulary};
use super::query;
use crate::{Hub, Problem, render};
use axum::{Json, http::Uri, http::header, response::IntoResponse, response::Response};
use fleet_lifecycle::{Reference, condition_type};
use fleet_projections::filter::{Expr, Field};
use fleet_projections::{Key, Page, Reads, Sort};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The parameters that every such list takes.
pub(crate) const PARAMS: &[&str] = &["filter", "order_by", "limit", "cursor", "count", "fields"];

/// A kind of list.
pub(crate) struct Kind {
    /// What it is filtered and ordered by.
    pub(crate) fields: &'static [Field],
    /// Its order, where none is asked for or by a field.
    pub(crate) sort: fn(Option<(&'static Field, bool)>) -> Sort,
    /// What an item has.
    pub(crate) shows: &'static [&'static str],
}

impl Kind {
    /// The names of the fields that it can be ordered by.
    pub(crate) fn orders(&self) -> Vec<&'static str> {
        self.fields.iter().filter(|f| f.orders()).map(|f| f.name).collect()
    }
}

/// What was asked.
pub(crate) struct Asked {
    pub(crate) matching: Option<Expr>,
    pub(crate) sort: Sort,
    pub(crate) after: Option<Vec<Key>>,
    pub(crate) limit: u32,
    pub(crate) count: bool,
    fields: Option<Vec<String>>,
    question: String,
}

/// Reads the parameters; `more` is what else the list was asked by, to which its cursor is bound.
pub(crate) fn asked(params: &BTreeMap<String, String>, kind: &Kind, more: &str, reference: &Reference) -> Result<Asked, Problem> {
    let text = |name: &str| params.get(name).map_or("", String::as_str);
    let is_type = |name: &str| condition_type(name).is_some() || reference.registers(name);
    let matching = filter::read(text("filter"), &Vocabulary { fields: kind.fields, is_type: &is_type })?;
    let sort = (kind.sort)(order(text("order_by"), kind.fields)?);
    let question = json!([text("filter"), text("order_by"), more]).to_string();
    let after = params.get("cursor").map(|c| place(c, &question, &sort)).transpose()?;
    let count = query::flag(params, "count")?;
    Ok(Asked { matching, sort, after, limit: query::limit(params)?, count, fields: fields(params, kind.shows)?, question })
}

fn order(text: &str, fields: &'static [Field]) -> Result<Option<(&'static Field, bool)>, Problem> {
    let words: Vec<_> = text.split_whitespace().collect();
    let (name, descending) = match words.as_slice() {
        [] => return Ok(None),
        [name] | [name, "asc"] => (*name, false),
        [name, "desc"] => (*name, true),
        _ => return Err(Problem::invalid("order_by", "one field, and perhaps `desc`: `updated_at desc`")),
    };
    let names = || fields.iter().filter(|f| f.orders()).map(|f| f.name).collect::<Vec<_>>().join(", ");
    let found = Field::find(fields, name).filter(|f| f.orders());
    found
        .map(|f| Some((f, descending)))
        .ok_or_else(|| Problem::invalid("order_by", format!("there is no field `{name}` to order by; there are: {}", names())))
}

fn place(cursor: &str, question: &str, sort: &Sort) -> Result<Vec<Key>, Problem> {
    let keys: Option<Vec<Key>> = query::read_cursor(cursor, question)?.iter().map(|k| k.parse().ok()).collect();
    keys.filter(|k| sort.fits(k)).ok_or_else(query::bad_cursor)
}

/// `fields`: of an item only these; those that it never has are refused by name.
pub(crate) fn fields(params: &BTreeMap<String, String>, known: &[&str]) -> Result<Option<Vec<String>>, Problem> {
    let Some(text) = params.get("fields") else { return Ok(None) };
    let names: Vec<_> = text.split(',').map(|n| n.trim().to_owned()).collect();
    match names.iter().find(|n| !known.contains(&n.as_str())) {
        Some(unknown) => Err(Problem::invalid("fields", format!("there is no field `{unknown}`; there are: {}", known.join(", ")))),
        None => Ok(Some(names)),
    }
}

/// An item with what was asked for.
pub(crate) fn pick(item: Value, fields: Option<&[String]>) -> Value {
    match (item, fields) {
        (Value::Object(all), Some(fields)) => all.into_iter().filter(|(name, _)| fields.contains(name)).collect::<Map<_, _>>().into(),
        (item, _) => item,
    }
}

impl Asked {
    /// The page as it is answered.
    pub(crate) fn answer<T>(
        &self,
        uri: &Uri,
        page: &Page<T>,
        total: Option<i64>,
        (hub, reads): (&Hub, &Reads),
        item: impl Fn(&T) -> Value,
    ) -> Response {
        let keys = |keys: &Vec<Key>| keys.iter().map(Key::to_string).collect::<Vec<_>>();
        let next = page.next.as_ref().map(keys).map(|k| query::cursor(&self.question, &k.iter().map(String::as_str).collect::<Vec<_>>()));
        let items = page.rows.iter().map(|row| pick(item(row), self.fields.as_deref())).collect();
        let meta = render::meta(reads, &hub.journal.reference(), hub.journal.clock().now());
        let mut body = render::list(items, next.clone(), meta);
        if let Some(total) = total {
            body["total"] = total.into();
        }
        respond(body, next, uri)
    }
}

/// A page with its headers.
pub(crate) fn respond(body: Value, next: Option<String>, uri: &Uri) -> Response {
    let as_of = body["meta"]["as_of"].as_str().unwrap_or_default().to_owned();
    let mut response = Json(body).into_response();
    if let Ok(value) = as_of.parse() {
        response.headers_mut().insert("fleet-as-of", value);
    }
    // The same question, from the next place on.
    let same = uri.query().unwrap_or_default().split('&').filter(|p| !p.is_empty() && !p.starts_with("cursor="));
    let link = next.map(|n| same.map(str::to_owned).chain([format!("cursor={n}")]).collect::<Vec<_>>().join("&"));
    if let Some(Ok(value)) = link.map(|l| format!("<?{l}>; rel=\"next\"").parse()) {
        response.headers_mut().insert(header::LINK, value);
    }
    response
}
