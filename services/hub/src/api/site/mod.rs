//! What a site is set to: PATCH `/sites/{site}`, `/role-profiles/`, `/freezes/`, `/type-registry/`. Every change is a command on the
//! site's stream. Both forms of each path, with and without the slash at its end, are the same route.

mod asked;
mod change;
mod freezes;
mod profiles;
mod types;

use crate::access::Routes;
use crate::openapi::{Operation, op};

/// A change of a site: how it is asked for, and what comes of it.
fn changes(id: &'static str, summary: &'static str) -> Operation {
    op(id, summary)
        .query("reason", "reason", "why; it stands in the history")
        .query("dry_run", "bool", "decide, say what would happen, change nothing")
        .decides()
}

pub(crate) fn routes() -> Routes {
    let both = |path: &str| [format!("/sites/{{site}}{path}"), format!("/sites/{{site}}{path}/")];
    let site = changes("changeSite", "Modes per source, and who answers for what")
        .body("{modes*:<(observe|mirror|act)> owners*:OwnersPatch}")
        .ok("{site_id*:string dry_run*:bool}");
    let profile = changes("changeRoleProfile", "How much of the lifecycle applies to a role's devices")
        .body("{provisioner*:(nova|ironic|external) scheduler*:(slurm|none) dhcp*:(kea|neutron|none) workload_proofs*:[string] bom*:string? firmware*:string? validation*:string? burn_in*:string?}")
        .ok("{role*:string dry_run*:bool}");
    let freeze = changes("placeFreeze", "Lets nothing at the site advance")
        .body("{name:string reason:reason until*:time?}")
        .ok("Rehearsal")
        .answer(201, "{name:string}");
    let lift = changes("liftFreeze", "Lifts a freeze").ok("{items*:[Freeze] dry_run*:bool}");
    let register = changes("registerType", "A type of condition that programs outside may state")
        .body("{name:string sense:(readiness|problem|fact) effects*:[(PreventAllocation|PreventStateChange|PreventAutoAction|RequireDrain|Fatal|SuppressAlert|ExcludeFromSla)] severity:(info|warning|critical) ttl_seconds*:int? writers:[string] about:string}")
        .ok("Rehearsal")
        .answer(201, "{name:string}");
    let routes = Routes::default().patch("/sites/{site}", site, change::change);
    let list = op("listRoleProfiles", "The profiles of a site").reads().ok("{items:[RoleProfile]}");
    let routes = both("/role-profiles").iter().fold(routes, |r, path| r.get(path, list.clone(), profiles::list));
    let one = op("getRoleProfile", "A role's profile").reads().ok("RoleProfile");
    let routes = both("/role-profiles/{role}")
        .iter()
        .fold(routes, |r, path| r.get(path, one.clone(), profiles::one).patch(path, profile.clone(), profiles::change));
    let list = op("listFreezes", "The freezes that stand at a site").reads().ok("{items:[Freeze]}");
    let routes =
        both("/freezes").iter().fold(routes, |r, path| r.get(path, list.clone(), freezes::list).post(path, freeze.clone(), freezes::place));
    let routes = both("/freezes/{name}").iter().fold(routes, |r, path| r.delete(path, lift.clone(), freezes::lift));
    let list = op("listTypes", "What types of conditions mean at a site").reads().ok("{items:[ConditionType]}");
    both("/type-registry")
        .iter()
        .fold(routes, |r, path| r.get(path, list.clone(), types::list).post(path, register.clone(), types::register))
}
