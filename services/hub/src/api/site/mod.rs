//! What a site is set to: PATCH `/sites/{site}`, `/role-profiles/`, `/freezes/`, `/type-registry/`. Every change is a command on the
//! site's stream. Both forms of each path, with and without the slash at its end, are the same route.

mod change;
mod freezes;
mod profiles;
mod types;
mod writing;

use crate::access::Routes;

pub(crate) fn routes() -> Routes {
    let both = |path: &str| [format!("/sites/{{site}}{path}"), format!("/sites/{{site}}{path}/")];
    let routes = Routes::default().patch("/sites/{site}", change::change);
    let routes = both("/role-profiles").iter().fold(routes, |r, path| r.get(path, profiles::list));
    let routes = both("/role-profiles/{role}").iter().fold(routes, |r, path| r.get(path, profiles::one).patch(path, profiles::change));
    let routes = both("/freezes").iter().fold(routes, |r, path| r.get(path, freezes::list).post(path, freezes::place));
    let routes = both("/freezes/{name}").iter().fold(routes, |r, path| r.delete(path, freezes::lift));
    both("/type-registry").iter().fold(routes, |r, path| r.get(path, types::list).post(path, types::register))
}
