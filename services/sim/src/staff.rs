//! The staff on duty: they read what the product asks for and type it, as people do where the product may only observe.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::world::{SlurmFault, World};

/// What people who work at the sites read to know what to type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Plan {
    /// The site whose SLURM it is about.
    pub site: String,
    /// The SLURM node's name.
    pub slurm_node: String,
    /// What to type.
    pub action: PlanAction,
    /// The exact reason text of a drain, beginning with `fleet:`. Of no meaning for an undrain.
    pub mark: String,
}

/// What a plan asks people to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PlanAction {
    /// `scontrol update nodename=X state=drain reason=<mark>`.
    Drain,
    /// `scontrol update nodename=X state=undrain`.
    Undrain,
}

/// Where the staff read the open plans: the product's API, or a list in a test.
pub trait PlanSource: Send + Sync {
    /// All plans that are open now; an empty list when they cannot be read.
    fn open_plans(&self) -> Pin<Box<dyn Future<Output = Vec<Plan>> + Send + '_>>;
}

/// Reads every 2 s / pace, types what has been open for 3 s / pace or longer. For ever.
pub(crate) async fn duty(world: Arc<World>, source: Arc<dyn PlanSource>) {
    let pause = world.span(2.0).max(Duration::from_millis(10));
    let mut first_seen: HashMap<Plan, Instant> = HashMap::new();
    loop {
        tokio::time::sleep(pause).await;
        let open = source.open_plans().await;
        let now = Instant::now();
        first_seen.retain(|plan, _| open.contains(plan));
        for plan in open {
            let since = *first_seen.entry(plan.clone()).or_insert(now);
            if now - since >= world.span(3.0) {
                world.type_in(&plan);
            }
        }
    }
}

impl World {
    /// Types one plan: nothing if it is done already, if somebody else drains the node, or while the controller does not answer.
    fn type_in(&self, plan: &Plan) {
        let mut state = self.lock();
        let silent = matches!(state.cluster(&plan.site).map(|c| c.fault), Some(SlurmFault::ControllerDown | SlurmFault::Hang) | None);
        if silent {
            return;
        }
        let typed = state.on_node(self.pace, &plan.site, &plan.slurm_node, |node, at| {
            let (drained, ours) = (node.has("DRAIN"), node.reason.starts_with("fleet:"));
            match plan.action {
                // slurmctld appends " : Not responding" and the like: the mark is a prefix.
                PlanAction::Drain if drained && (!ours || node.reason.starts_with(&plan.mark)) => false,
                PlanAction::Drain => {
                    node.drain(&plan.mark, "root", at);
                    true
                }
                PlanAction::Undrain if drained && ours => {
                    node.undrain(at);
                    node.settle(at);
                    true
                }
                PlanAction::Undrain => false,
            }
        });
        if typed == Some(true) {
            tracing::info!(site = plan.site, slurm_node = plan.slurm_node, action = ?plan.action, mark = plan.mark, "staff: typed a plan");
        }
    }
}
