//! Starting and stopping the simulator.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::world::{Release, World};
use crate::{PlanSource, http, netbox, people, slurm, staff, world};

/// A JWT is valid for this long.
const TOKEN_LIFE: Duration = Duration::from_secs(365 * 24 * 3600);

/// How large the world is and what happens in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Number of sites (at least one), `sim1` and up; odd ones speak SLURM 24.11.5, even ones 22.05.8.
    pub sites: u32,
    /// Number of devices in NetBox, spread over the sites in turn; from 20 on, some have odd identities.
    pub devices: u32,
    /// The same seed gives the same initial world.
    pub seed: u64,
    /// Whether people live there: they submit work, drain, break, mend and edit. Without, only what a test does happens (and what follows
    /// from it by itself: drained work ends, a dead slurmd is noticed).
    pub people: bool,
    /// 1.0 = demo pace; larger = faster people, work and time-outs.
    pub pace: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { sites: 2, devices: 200, seed: 1, people: true, pace: 1.0 }
    }
}

/// Where NetBox is and how to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Face {
    /// Base URL without a trailing slash.
    pub url: String,
    /// A v2 token, for `Authorization: Bearer`.
    pub token: String,
}

/// Where one site's SLURM REST API is and how to get in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteFace {
    /// `sim1`, `sim2` and so on.
    pub site: String,
    /// Base URL without a trailing slash.
    pub slurm_url: String,
    /// For `X-SLURM-USER-NAME`.
    pub slurm_user: String,
    /// For `X-SLURM-USER-TOKEN`: a JWT of SLURM's shape (HS256; exp, iat, sun), valid for a year.
    pub slurm_jwt: String,
    /// `24.11.5` or `22.05.8`.
    pub release: String,
}

/// A running simulator. Dropping it, or [`Sim::stop`], ends all its tasks.
pub struct Sim {
    /// The world behind the faces.
    pub world: Arc<World>,
    /// NetBox.
    pub netbox: Face,
    /// One per site.
    pub sites: Vec<SiteFace>,
    tasks: Mutex<JoinSet<()>>,
    runtime: Handle,
    stop: DropGuard,
}

/// Grows a world and opens its faces on free ports of 127.0.0.1. Must be called within a tokio runtime.
///
/// # Errors
/// If a port cannot be bound.
pub async fn start(options: Options) -> io::Result<Sim> {
    let options = Options { sites: options.sites.max(1), ..options };
    let mut rng = ChaCha8Rng::seed_from_u64(options.seed.wrapping_add(0x746f_6b65_6e73));
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let (listener, url) = http::bind().await?;
    let world = Arc::new(World::new(&options, &url));
    let netbox = Face { url, token: format!("nbt_{:012X}.{}", rng.next_u64() & 0xffff_ffff_ffff, random_text(&mut rng, 30)) };
    let face = Arc::new(netbox::NetboxFace { world: world.clone(), token: netbox.token.clone(), stop: stop.clone() });
    tasks.spawn(http::serve(listener, move |call| netbox::answer(face.clone(), call)));
    let clusters: Vec<(String, Release)> = world.lock().clusters.iter().map(|c| (c.site.clone(), c.release)).collect();
    let mut sites = Vec::new();
    for (site, release) in clusters {
        let (listener, slurm_url) = http::bind().await?;
        let slurm_jwt = jwt("slurm", &mut rng);
        let face = slurm::SlurmFace { world: world.clone(), site: site.clone(), release, jwt: slurm_jwt.clone(), stop: stop.clone() };
        let face = Arc::new(face);
        tasks.spawn(http::serve(listener, move |call| slurm::answer(face.clone(), call)));
        sites.push(SiteFace { site, slurm_url, slurm_user: "slurm".to_owned(), slurm_jwt, release: release.number().to_owned() });
    }
    tasks.spawn(world::run(world.clone(), options.people));
    if options.people {
        tasks.spawn(people::live(world.clone(), options.seed));
    }
    Ok(Sim { world, netbox, sites, tasks: Mutex::new(tasks), runtime: Handle::current(), stop: stop.drop_guard() })
}

impl Sim {
    /// Ends all tasks and waits for their end.
    pub async fn stop(self) {
        drop(self.stop);
        let mut tasks = self.tasks.into_inner().unwrap_or_else(PoisonError::into_inner);
        tasks.shutdown().await;
    }

    /// Puts staff on duty who type the plans of `source`: they read them every 2 s / pace and type what has been open for 3 s / pace. A
    /// drain gets exactly the plan's mark as its reason, by `root`; an undrain lifts a drain whose reason begins with `fleet:`. A drain
    /// that somebody else made is left alone.
    pub fn follow_plans(&self, source: Arc<dyn PlanSource>) {
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.spawn_on(staff::duty(self.world.clone(), source), &self.runtime);
    }
}

fn jwt(user: &str, rng: &mut ChaCha8Rng) -> String {
    let iat = chrono::Utc::now().timestamp();
    let claims = json!({ "exp": iat + TOKEN_LIFE.as_secs() as i64, "iat": iat, "sun": user }).to_string();
    let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    // Nobody verifies the signature: the face compares the whole token.
    format!("{head}.{}.{}", URL_SAFE_NO_PAD.encode(claims), random_text(rng, 32))
}

fn random_text(rng: &mut ChaCha8Rng, bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    rng.fill_bytes(&mut raw);
    URL_SAFE_NO_PAD.encode(raw)
}
