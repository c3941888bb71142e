//! PATCH and DELETE of one device, by user `admin`: enough for people, for the demo and for a product that writes its phase.

use serde_json::{Map, Value};

use super::devices::{STATUSES, etag, no_device};
use super::{Visit, bad_value, detail};
use crate::http::Answer;
use crate::world::{Device, Hand};

impl Visit<'_> {
    /// PATCH of status, name, serial, asset_tag, description, custom_fields; other keys are ignored.
    pub(super) fn patch_device(&self, id: u64) -> Result<Answer, Answer> {
        let body: Map<String, Value> =
            serde_json::from_slice(&self.call.body).map_err(|e| detail(400, &format!("JSON parse error - {e}")))?;
        let note = body.get("changelog_message").and_then(Value::as_str).unwrap_or_default();
        let by = Hand { user: "admin", request_id: self.request_id, note };
        let mut state = self.world.lock();
        let device = state.devices.get(&id).ok_or_else(no_device)?;
        self.precondition(device)?;
        let mut wanted = Device::clone(device);
        apply(&mut wanted, &body)?;
        let after = state.edit_device(id, &by, |d| *d = wanted).ok_or_else(no_device)?;
        drop(state);
        Ok(self.device_answer(after))
    }

    /// DELETE: 204.
    pub(super) fn delete_device(&self, id: u64) -> Result<Answer, Answer> {
        let mut state = self.world.lock();
        self.precondition(state.devices.get(&id).ok_or_else(no_device)?)?;
        state.delete_device(id, &Hand { user: "admin", request_id: self.request_id, note: "" });
        Ok(Answer::json(204, ""))
    }

    fn precondition(&self, device: &Device) -> Result<(), Answer> {
        let current = etag(device);
        match self.call.header("if-match") {
            Some(given) if given != current && given != "*" => Err(detail(412, "Precondition failed.").with("ETag", current)),
            _ => Ok(()),
        }
    }
}

fn apply(device: &mut Device, body: &Map<String, Value>) -> Result<(), Answer> {
    let not_text = |key: &str| bad_value(key, "Not a valid string.");
    for (key, value) in body {
        let text = || value.as_str().map(str::to_owned);
        match key.as_str() {
            "status" => {
                let status = text().filter(|s| STATUSES.iter().any(|(known, _)| known == s));
                let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                device.status = status.ok_or_else(|| bad_value(key, &format!("{shown} is not a valid choice.")))?;
            }
            "name" => device.name = if value.is_null() { None } else { Some(text().ok_or_else(|| not_text(key))?) },
            "asset_tag" => device.asset_tag = if value.is_null() { None } else { Some(text().ok_or_else(|| not_text(key))?) },
            "serial" => device.serial = text().ok_or_else(|| not_text(key))?,
            "description" => device.description = text().ok_or_else(|| not_text(key))?,
            "custom_fields" => {
                for (field, value) in value.as_object().ok_or_else(|| not_text(key))? {
                    let unknown = || bad_value(key, &format!("Custom field '{field}' does not exist for this object type."));
                    *device.custom_fields.get_mut(field).ok_or_else(unknown)? = value.clone();
                }
            }
            _ => {}
        }
    }
    Ok(())
}
