//! The simulated world: what it is asked for, how the agents reach it, and the staff who type what is planned.

use crate::configuration::dev::{Configuration, Site};
use crate::configuration::{Netbox, Role, Slurm};
use crate::folder::Folder;
use anyhow::{Context, bail};
use fleet_lifecycle::device::TaskState;
use fleet_projections::Generations;
use fleet_schemas::TaskKind;
use fleet_sim::{Options, Plan, PlanAction, PlanSource, Sim};
use serde_json::json;
use std::{collections::BTreeMap, future::Future, path::Path, pin::Pin, sync::Arc};

/// Seconds between looks at a world of this machine: a person watches.
const INTERVAL: u64 = 3;
/// Seconds between full sweeps of it.
const SWEEP: u64 = 60;

/// `sites=2,devices=200,seed=1,people=true,pace=1`.
pub fn options(text: &str) -> anyhow::Result<Options> {
    let mut options = Options::default();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (key, value) = part.split_once('=').with_context(|| format!("`{part}`: expected key=value"))?;
        let number = || value.parse().with_context(|| format!("{key}={value}: expected a number"));
        match key {
            "sites" => options.sites = number()?,
            "devices" => options.devices = number()?,
            "seed" => options.seed = value.parse().with_context(|| format!("seed={value}: expected a number"))?,
            "people" => options.people = value.parse().with_context(|| format!("people={value}: true or false"))?,
            "pace" => options.pace = value.parse().with_context(|| format!("pace={value}: expected a number"))?,
            other => bail!("there is no `{other}`; there are: sites, devices, seed, people, pace"),
        }
    }
    if options.sites == 0 || !(options.pace.is_finite() && options.pace > 0.0) {
        bail!("sites and pace are more than 0");
    }
    Ok(options)
}

/// How the agents reach a running world.
pub fn configuration(sim: &Sim, folder: &Folder) -> anyhow::Result<Configuration> {
    let mut sites = Vec::new();
    for face in &sim.sites {
        let slurm = Slurm {
            site: face.site.clone(),
            client: None,
            key_file: None,
            kid: None,
            url: face.slurm_url.clone(),
            user: face.slurm_user.clone(),
            jwt_file: folder.secret(&format!("{}.jwt", face.site), &face.slurm_jwt)?,
            interval_seconds: INTERVAL,
            deadline_seconds: 30,
        };
        let roles = BTreeMap::from([("gpu-node".to_owned(), gpu_role())]);
        sites.push(Site { name: face.site.clone(), slurm: Some(slurm), roles });
    }
    let netbox = Netbox {
        client: None,
        key_file: None,
        kid: None,
        instance: "sim".into(),
        url: sim.netbox.url.clone(),
        token_file: folder.secret("netbox.token", &sim.netbox.token)?,
        sites: sites.iter().map(|s| s.name.clone()).collect(),
        interval_seconds: INTERVAL,
        sweep_seconds: SWEEP,
        window_seconds: 60,
        deadline_seconds: 30,
        webhook_secret_file: None,
        slurm_node: "custom-field:slurm_node".into(),
    };
    let configuration = Configuration { sites, netbox: vec![netbox], resync_seconds: 900 };
    folder.secret("world.toml", &as_file(&configuration)?)?;
    Ok(configuration)
}

/// The same as a file beside the world's secrets, which `dev --config` takes and `hub` and `satellite` can be written from: so a second
/// process may look at this world.
fn as_file(configuration: &Configuration) -> anyhow::Result<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let sites = configuration.sites.iter().map(|site| {
        let slurm =
            site.slurm.as_ref().map(|s| json!({"url": s.url, "user": s.user, "jwt_file": name(&s.jwt_file), "interval_seconds": INTERVAL}));
        let role = |(role, r): (&String, &Role)| (role.clone(), json!({"scheduler": r.scheduler, "workload_proofs": r.workload_proofs}));
        json!({"name": site.name, "slurm": slurm, "roles": site.roles.iter().map(role).collect::<serde_json::Map<_, _>>()})
    });
    let netbox = configuration.netbox.iter().map(|n| {
        json!({
            "instance": n.instance, "url": n.url, "token_file": name(&n.token_file), "sites": n.sites,
            "interval_seconds": INTERVAL, "sweep_seconds": SWEEP, "window_seconds": n.window_seconds,
        })
    });
    let whole = json!({"sites": sites.collect::<Vec<_>>(), "netbox": netbox.collect::<Vec<_>>()});
    Ok(toml::to_string(&whole)?)
}

fn gpu_role() -> Role {
    let none = || "none".to_owned();
    Role {
        provisioner: "external".into(),
        scheduler: "slurm".into(),
        dhcp: none(),
        workload_proofs: vec!["slurm-idle".into()],
        bom: none(),
        firmware: none(),
        validation: none(),
        burn_in: none(),
    }
}

/// What the staff read: the plans that the read model shows, as any person could.
pub struct OpenPlans {
    /// The read models.
    pub generations: Arc<Generations>,
}

impl PlanSource for OpenPlans {
    fn open_plans(&self) -> Pin<Box<dyn Future<Output = Vec<Plan>> + Send + '_>> {
        Box::pin(async {
            match self.read().await {
                Ok(plans) => plans,
                Err(error) => {
                    tracing::debug!(%error, "the staff cannot read the plans just now");
                    vec![]
                }
            }
        })
    }
}

impl OpenPlans {
    async fn read(&self) -> Result<Vec<Plan>, fleet_projections::Error> {
        let reads = self.generations.reads().borrow().clone();
        let mut plans = Vec::new();
        for id in reads.devices_with_plans().await? {
            let Some(doc) = reads.device(id).await? else { continue };
            let Some(site) = &doc.state.site else { continue };
            for task in doc.state.tasks.values().filter(|t| t.state == TaskState::Open) {
                let action = match task.kind {
                    TaskKind::SlurmDrain => PlanAction::Drain,
                    TaskKind::SlurmUndrain => PlanAction::Undrain,
                    TaskKind::SlurmUnreserve => continue,
                };
                plans.push(Plan { site: site.to_string(), slurm_node: task.target.clone(), action, mark: task.mark.clone() });
            }
        }
        Ok(plans)
    }
}
