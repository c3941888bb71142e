//! The things devices refer to in NetBox: sites, racks, roles, device types, tenants, tags.

use std::collections::HashMap;

/// Devices per rack.
pub(crate) const RACK_SIZE: u32 = 16;

/// One referable object: how it is named and how it looks inside another object.
pub(crate) struct Place {
    pub(crate) id: u64,
    /// Slug; for racks, which have none in NetBox, the name.
    pub(crate) slug: String,
    pub(crate) name: String,
    /// The nested JSON object.
    pub(crate) nested: String,
    /// Racks: the site's slug. Else empty.
    pub(crate) within: String,
}

/// One kind of place, by slug.
#[derive(Default)]
pub(crate) struct Places {
    rows: Vec<Place>,
    by_slug: HashMap<String, usize>,
}

impl Places {
    fn add(&mut self, slug: &str, name: &str, within: &str, nested: impl Fn(u64) -> String) {
        let id = self.rows.len() as u64 + 1;
        self.by_slug.insert(slug.to_owned(), self.rows.len());
        self.rows.push(Place { id, slug: slug.to_owned(), name: name.to_owned(), nested: nested(id), within: within.to_owned() });
    }

    pub(crate) fn find(&self, slug: &str) -> Option<&Place> {
        self.by_slug.get(slug).and_then(|at| self.rows.get(*at))
    }

    pub(crate) fn rows(&self) -> &[Place] {
        &self.rows
    }
}

/// All of them. Does not change after the start.
pub(crate) struct Catalog {
    /// NetBox's base URL.
    pub(crate) base: String,
    pub(crate) sites: Places,
    pub(crate) racks: Places,
    pub(crate) roles: Places,
    pub(crate) device_types: Places,
    pub(crate) tenants: Places,
    pub(crate) tags: Places,
}

impl Catalog {
    pub(crate) fn new(base: &str, sites: u32, devices: u32) -> Self {
        let mut all = Self {
            base: base.to_owned(),
            sites: Places::default(),
            racks: Places::default(),
            roles: Places::default(),
            device_types: Places::default(),
            tenants: Places::default(),
            tags: Places::default(),
        };
        for site in 1..=sites {
            let (slug, name) = (format!("sim{site}"), format!("Sim {site}"));
            all.sites.add(&slug, &name, "", |id| nested(base, "dcim/sites", id, &name, &slug, ""));
            for rack in 1..=racks_per_site(sites, devices) {
                let name = format!("{slug}-r{rack:02}");
                all.racks.add(&name, &name, &slug, |id| {
                    let url = format!("{base}/api/dcim/racks/{id}/");
                    format!(r#"{{"id":{id},"url":"{url}","display":"{name}","name":"{name}","description":""}}"#)
                });
            }
        }
        let counts = r#","device_count":0,"virtualmachine_count":0,"_depth":0"#;
        for (slug, name) in [("gpu-node", "GPU node"), ("storage", "Storage")] {
            all.roles.add(slug, name, "", |id| nested(base, "dcim/device-roles", id, name, slug, counts));
        }
        for (slug, name) in [("tenant-a", "Tenant A"), ("tenant-b", "Tenant B")] {
            all.tenants.add(slug, name, "", |id| nested(base, "tenancy/tenants", id, name, slug, ""));
        }
        for tag in ["managed", "gpu", "burned-in", "rack-check", "watch"] {
            all.tags.add(tag, tag, "", |id| {
                let (api, ui) = (format!("{base}/api/extras/tags/{id}/"), format!("{base}/extras/tags/{id}/"));
                let names = format!(r#""display":"{tag}","name":"{tag}","slug":"{tag}","color":"9e9e9e""#);
                format!(r#"{{"id":{id},"url":"{api}","display_url":"{ui}",{names}}}"#)
            });
        }
        for (slug, model, maker) in
            [("xe9680", "XE9680", "Dell"), ("sys-821ge", "SYS-821GE", "Supermicro"), ("sto-60", "STO-60", "Supermicro")]
        {
            let maker_id = if maker == "Dell" { 1 } else { 2 };
            let made_by = nested(base, "dcim/manufacturers", maker_id, maker, &maker.to_lowercase(), "");
            all.device_types.add(slug, &format!("{maker} {model}"), "", |id| {
                let url = format!("{base}/api/dcim/device-types/{id}/");
                let rest = format!(r#""model":"{model}","slug":"{slug}","description":"","device_count":{}"#, devices / 2);
                format!(r#"{{"id":{id},"url":"{url}","display":"{model}","manufacturer":{made_by},{rest}}}"#)
            });
        }
        all
    }
}

/// Racks of each site: enough for its devices, and at least two so that a device can move.
pub(crate) fn racks_per_site(sites: u32, devices: u32) -> u32 {
    devices.div_ceil(sites.max(1)).div_ceil(RACK_SIZE).max(2)
}

fn nested(base: &str, path: &str, id: u64, name: &str, slug: &str, more: &str) -> String {
    let url = format!("{base}/api/{path}/{id}/");
    format!(r#"{{"id":{id},"url":"{url}","display":"{name}","name":"{name}","slug":"{slug}","description":""{more}}}"#)
}
