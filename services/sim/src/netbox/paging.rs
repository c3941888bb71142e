//! Pages of a list, by offset or by cursor, with NetBox's caps and links; field selection.

use std::fmt::Write as _;

use super::Visit;
use crate::http::{Answer, Call};
use crate::shape::{self, Shape};
use crate::world::NetboxFault;

const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 1000;

/// Whether a row passes one query parameter.
pub(super) type Filter<T> = Box<dyn Fn(&T) -> bool>;

/// Which part of a list a request asks for.
enum Part {
    Offset(usize),
    Start(u64),
}

impl Visit<'_> {
    /// Filters, orders and cuts `rows`, and writes the page. `order` sorts as the `ordering` parameter (or its absence) says.
    pub(super) fn page<T>(
        &self,
        mut rows: Vec<T>,
        filters: &[Filter<T>],
        id: impl Fn(&T) -> u64,
        order: impl Fn(&mut Vec<T>, Option<&str>),
        write: impl Fn(&T, &mut String),
    ) -> Result<Answer, Answer> {
        let part = part(self.call)?;
        let limit = limit(self.call);
        if self.fault != NetboxFault::IgnoreFilters {
            rows.retain(|row| filters.iter().all(|keeps| keeps(row)));
        }
        if self.fault == NetboxFault::EmptyList {
            rows.clear();
        }
        let total = rows.len();
        let (page, next, previous): (Vec<T>, _, _) = match part {
            Part::Start(start) => {
                rows.retain(|row| id(row) >= start);
                rows.sort_by_key(|row| id(row));
                rows.truncate(limit);
                // As in NetBox: a full last page has a next link, to an empty page.
                let next = rows.last().filter(|_| rows.len() == limit).map(|last| self.link(limit, "start", Some(id(last) + 1)));
                (rows, next, None)
            }
            Part::Offset(offset) => {
                order(&mut rows, self.call.param("ordering"));
                let next = (offset + limit < total).then(|| self.link(limit, "offset", Some((offset + limit) as u64)));
                let back = offset.checked_sub(limit).filter(|o| *o > 0).map(|o| o as u64);
                let previous = (offset > 0).then(|| self.link(limit, "offset", back));
                (rows.into_iter().skip(offset).take(limit).collect(), next, previous)
            }
        };
        let mut out = String::with_capacity(page.len() * 3000 + 200);
        match part {
            Part::Start(_) => out.push_str(r#"{"count":null,"next":"#),
            Part::Offset(_) => _ = write!(out, r#"{{"count":{total},"next":"#),
        }
        shape::text_or_null(&mut out, next.as_deref());
        out.push_str(r#","previous":"#);
        shape::text_or_null(&mut out, previous.as_deref());
        out.push_str(r#","results":["#);
        for (at, row) in page.iter().enumerate() {
            if at > 0 {
                out.push(',');
            }
            write(row, &mut out);
        }
        out.push_str("]}");
        let answer = Answer::json(200, out);
        Ok(if self.fault == NetboxFault::TruncatedPage { answer.cut() } else { answer })
    }

    /// Which fields of a shape the request wants (`fields=`, `omit=`, `brief=`).
    pub(super) fn wanted<T>(&self, shape: &Shape<T>, brief: &[&str]) -> Vec<bool> {
        let list = |name| self.call.param(name).map(|v| v.split(',').collect::<Vec<_>>());
        let (fields, omit) = (list("fields"), list("omit"));
        let is_brief = matches!(self.call.param("brief"), Some("true" | "True" | "1"));
        shape.choose(|name| match (&fields, &omit) {
            (Some(fields), _) => fields.contains(&name),
            (None, Some(omit)) => !omit.contains(&name),
            (None, None) => !is_brief || brief.contains(&name),
        })
    }

    /// This request's URL with other paging parameters, keys sorted as DRF does. `at` None = without the parameter.
    fn link(&self, limit: usize, key: &str, at: Option<u64>) -> String {
        let mut pairs: Vec<(String, String)> = self.call.query.iter().filter(|(k, _)| k != "limit" && k != key).cloned().collect();
        pairs.push(("limit".to_owned(), limit.to_string()));
        pairs.extend(at.map(|at| (key.to_owned(), at.to_string())));
        pairs.sort_by(|a, b| a.0.cmp(&b.0));
        let query: Vec<String> = pairs.iter().map(|(k, v)| format!("{}={}", encode(k), encode(v))).collect();
        format!("{}{}?{}", self.catalog.base, self.call.uri.path(), query.join("&"))
    }
}

fn part(call: &Call) -> Result<Part, Answer> {
    let Some(start) = call.param("start") else {
        return Ok(Part::Offset(call.param("offset").and_then(|o| o.parse().ok()).unwrap_or(0)));
    };
    let refuse = |why: &str| Err(Answer::json(400, serde_json::json!([why]).to_string()));
    if call.param("offset").is_some() {
        return refuse("'start' and 'offset' are mutually exclusive.");
    }
    if call.param("ordering").is_some() {
        return refuse("Ordering cannot be specified in conjunction with cursor-based pagination.");
    }
    match start.parse() {
        Ok(start) => Ok(Part::Start(start)),
        Err(_) => refuse("Invalid 'start' parameter: must be a non-negative integer."),
    }
}

fn limit(call: &Call) -> usize {
    match call.param("limit").and_then(|l| l.parse().ok()) {
        None => DEFAULT_LIMIT,
        Some(0) => MAX_LIMIT,
        Some(limit) => MAX_LIMIT.min(limit),
    }
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            b' ' => out.push('+'),
            _ => _ = write!(out, "%{byte:02X}"),
        }
    }
    out
}
