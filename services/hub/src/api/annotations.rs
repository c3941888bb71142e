//! PATCH `/devices/{id}` by people: their own remarks. A command, though it looks like a change.

use super::{commands, devices};
use crate::access::Principal;
use crate::{Hub, Problem};
use axum::{http::HeaderMap, http::StatusCode, http::Uri, response::Response};
use fleet_schemas::{Annotation, Command, SetAnnotations, StreamId};
use serde_json::Value;

/// Sets and takes away (merge-patch: null takes away). People name the version that they saw.
pub(crate) async fn set(
    hub: &Hub,
    principal: &Principal,
    id: &str,
    annotations: &Value,
    uri: &Uri,
    headers: &HeaderMap,
) -> Result<Response, Problem> {
    let Some(given) = annotations.as_object() else {
        return Err(Problem::invalid("annotations", "an object of texts; null takes one away"));
    };
    let annotation = |(key, value): (&String, &Value)| match value {
        Value::Null => Ok(Annotation { key: key.clone(), value: None }),
        Value::String(text) => Ok(Annotation { key: key.clone(), value: Some(text.clone()) }),
        _ => Err(Problem::invalid(&format!("annotations.{key}"), "a text, or null")),
    };
    let annotations = given.iter().map(annotation).collect::<Result<Vec<_>, _>>()?;
    let doc = devices::to_write(hub, principal, id, "PATCH", uri).await?;
    let Some(expected) = commands::expected_version(headers)? else {
        let detail = "name the version that you saw: If-Match: \"v<version>\", from the ETag of GET";
        return Err(Problem::new(StatusCode::PRECONDITION_REQUIRED, "version-required", detail).with("field", "If-Match".into()));
    };
    let ask = SetAnnotations { annotations }.into();
    let usual = commands::command(StreamId::Device(doc.state.id), &ask, principal, "annotations", hub.journal.clock().now());
    let id = commands::command_id_of(principal, "PATCH", uri.path(), headers)?;
    let command = Command { id, expected_version: Some(expected), trace_id: commands::trace_id(headers), ..usual };
    match commands::put(hub, &command, headers).await? {
        commands::Came::Pending => Ok(commands::pending(&command, format!("/api/v1/devices/{}", doc.state.id))),
        commands::Came::Decided(answer) => commands::decided(hub, &command, doc.state.id, &answer).await,
    }
}
