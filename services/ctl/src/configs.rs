//! `get configs`: the bootstrap configurations of one site or of all.

use crate::api::Api;
use crate::exit::Failure;
use crate::output::{Form, Output, field};
use serde_json::{Value, json};

/// The configurations of a site, as the API lists them.
pub async fn of_site(api: &Api, site: &str) -> Result<Vec<Value>, Failure> {
    let body = api.get(&["sites", site, "slurm-bootstrap-configs"], &[]).await?;
    Ok(body["items"].as_array().cloned().unwrap_or_default())
}

/// `get configs`.
pub async fn get(api: &Api, site: Option<&String>, output: &Output) -> Result<(), Failure> {
    let sites = match site {
        Some(site) => vec![site.clone()],
        None => {
            let sites = api.get(&["sites"], &[]).await?;
            sites["items"].as_array().into_iter().flatten().map(|s| field(s, "site_id")).collect()
        }
    };
    let mut items = Vec::new();
    for site in &sites {
        items.extend(of_site(api, site).await?);
    }
    let body = json!({ "items": items });
    if output.whole(&body)? {
        return Ok(());
    }
    let wide = output.form == Form::Wide;
    let row = |c: &Value| {
        let features = c["features"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(",");
        let mut row = vec![field(c, "site_id"), field(c, "device_role"), field(c, "version"), field(c, "adoptable")];
        row.extend([field(c, "image"), field(c, "flavor"), features, field(c, "gres")]);
        if wide {
            row.extend(["user_data_sha256", "updated_at", "updated_by", "id"].iter().map(|f| field(c, f)));
        }
        row
    };
    let usual = ["site", "role", "version", "adoptable", "image", "flavor", "features", "gres"];
    let more: &[&str] = if wide { &["user-data digest", "updated", "by", "id"] } else { &[] };
    // With `-o name` a role alone would say too little: it is unique at its site only.
    if output.form == Form::Name {
        let names = items.iter().map(|c| vec![format!("{}/{}", field(c, "site_id"), field(c, "device_role"))]).collect();
        return output.table(&["config"], names);
    }
    output.table(&[&usual, more].concat(), items.iter().map(row).collect())
}
