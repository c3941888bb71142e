//! `/api/dcim/sites/`, `racks/`, `device-roles/`: what devices refer to. Nobody edits them here. Not recorded; the fields a client reads.

use serde_json::{Value, json};

use super::Visit;
use super::paging::Filter;
use crate::http::Answer;
use crate::world::Place;

impl Visit<'_> {
    pub(super) fn site_list(&self) -> Result<Answer, Answer> {
        self.places("sites", self.catalog.sites.rows(), |site| {
            let devices = self.world.lock().devices.values().filter(|d| d.site == site.slug).count();
            json!({ "slug": site.slug, "status": { "value": "active", "label": "Active" }, "region": null, "group": null, "tenant": null,
                "facility": "", "device_count": devices })
        })
    }

    pub(super) fn rack_list(&self) -> Result<Answer, Answer> {
        self.places("racks", self.catalog.racks.rows(), |rack| {
            let site = self.catalog.sites.find(&rack.within).and_then(|s| serde_json::from_str::<Value>(&s.nested).ok());
            json!({ "site": site, "location": null, "tenant": null, "status": { "value": "active", "label": "Active" }, "role": null,
                "serial": "", "asset_tag": null, "u_height": 42 })
        })
    }

    pub(super) fn role_list(&self) -> Result<Answer, Answer> {
        self.places("device-roles", self.catalog.roles.rows(), |role| {
            json!({ "slug": role.slug, "color": "9e9e9e", "vm_role": false, "config_template": null, "device_count": 0, "_depth": 0 })
        })
    }

    fn places(&self, kind: &str, rows: &[Place], more: impl Fn(&Place) -> Value) -> Result<Answer, Answer> {
        let mut filters: Vec<Filter<&Place>> = Vec::new();
        for (key, value) in self.call.query.clone() {
            match key.as_str() {
                "id" => filters.push(Box::new(move |p| p.id.to_string() == value)),
                "slug" | "name" => filters.push(Box::new(move |p| p.slug == value || p.name == value)),
                "site" => filters.push(Box::new(move |p| p.within == value)),
                _ => {}
            }
        }
        let write = |place: &&Place, out: &mut String| {
            let (base, id) = (&self.catalog.base, place.id);
            let mut body = json!({ "id": id, "url": format!("{base}/api/dcim/{kind}/{id}/"),
                "display_url": format!("{base}/dcim/{kind}/{id}/"),
                "display": place.name, "name": place.name, "description": "", "comments": "", "tags": [], "custom_fields": {},
                "created": "2026-01-05T09:00:00Z", "last_updated": "2026-01-05T09:00:00Z" });
            if let (Value::Object(body), Value::Object(more)) = (&mut body, more(place)) {
                body.extend(more);
            }
            out.push_str(&body.to_string());
        };
        self.page(rows.iter().collect(), &filters, |p| p.id, |rows, _| rows.sort_by(|a, b| a.name.cmp(&b.name)), write)
    }
}
