//! A request that reached the stream of another thing than it is for.

use crate::Refusal;
use fleet_schemas::{Ask, verbs};

/// The refusal of `ask` by `here`, which it is not for: names what it is for.
pub(crate) fn wrong_stream(ask: &Ask, here: &str) -> Refusal {
    let (expected, helps) = addressee(ask);
    debug_assert_ne!(expected, here, "`{}` is for {here}, which does not decide it", verbs::name_of(ask));
    Refusal::new("wrong-stream", "stream", expected, format!("`{}` for {here}", verbs::name_of(ask)), helps)
}

/// What a request is for, and how to get it there. The one list: a new request that is not in it does not compile.
fn addressee(ask: &Ask) -> (&'static str, &'static str) {
    match ask {
        Ask::Baseline(_)
        | Ask::Activate(_)
        | Ask::Drain(_)
        | Ask::Resume(_)
        | Ask::Quarantine(_)
        | Ask::Validate(_)
        | Ask::Maintain(_)
        | Ask::EndMaintenance(_)
        | Ask::PlaceHold(_)
        | Ask::LiftHold(_)
        | Ask::Annotate(_)
        | Ask::SetAnnotations(_)
        | Ask::AcknowledgeAttention(_)
        | Ask::NotBuilt(_) => ("a device", "name a device"),
        Ask::RegisterSite(_)
        | Ask::SetRoleProfile(_)
        | Ask::FirstRoleProfile(_)
        | Ask::ChangeRoleProfile(_)
        | Ask::ClaimEpoch(_)
        | Ask::ChangeSite(_)
        | Ask::PlaceFreeze(_)
        | Ask::LiftFreeze(_)
        | Ask::RegisterType(_) => ("a site", "name a site"),
        Ask::CreateBootstrapConfig(_) | Ask::UpdateBootstrapConfig(_) | Ask::RetireBootstrapConfig(_) | Ask::ReadUserData(_) => {
            ("a bootstrap configuration", "name a bootstrap configuration")
        }
        Ask::Take(_) | Ask::GiveBack(_) => ("a name that only one device may have", "nobody asks this but another stream"),
    }
}
