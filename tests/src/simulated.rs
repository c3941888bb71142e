//! A product that looks at a simulated world of the test's own process: the world outlives it, and the test can change it.

#![allow(clippy::unwrap_used, reason = "a test says what failed by panicking")]

use std::path::{Path, PathBuf};

/// Writes a configuration for a simulated world of this process, its secrets beside it; looks every second.
///
/// # Panics
/// If the folder cannot be written.
pub fn configure(sim: &fleet_sim::Sim, folder: &Path) -> PathBuf {
    let mut text = String::new();
    std::fs::write(folder.join("netbox.token"), &sim.netbox.token).unwrap();
    for face in &sim.sites {
        std::fs::write(folder.join(format!("{}.jwt", face.site)), &face.slurm_jwt).unwrap();
        text.push_str(&format!(
            "[[sites]]\nname = \"{0}\"\n[sites.slurm]\nurl = \"{1}\"\nuser = \"{2}\"\njwt_file = \"{0}.jwt\"\ninterval_seconds = 1\n\
             [sites.roles.gpu-node]\nscheduler = \"slurm\"\nworkload_proofs = [\"slurm-idle\"]\n",
            face.site, face.slurm_url, face.slurm_user
        ));
    }
    let sites: Vec<_> = sim.sites.iter().map(|s| format!("\"{}\"", s.site)).collect();
    text.push_str(&format!(
        "[[netbox]]\ninstance = \"sim\"\nurl = \"{}\"\ntoken_file = \"netbox.token\"\nsites = [{}]\ninterval_seconds = 1\nsweep_seconds = 5\n",
        sim.netbox.url,
        sites.join(", ")
    ));
    let path = folder.join("config.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// The devices of a simulated world, as the API names them.
pub fn ids(sim: &fleet_sim::Sim) -> Vec<String> {
    sim.world.devices().iter().map(|d| fleet_schemas::DeviceId::from_netbox("sim", d.id as i64).to_string()).collect()
}
