//! A request that reached the stream of another thing than it is for.
//!
//! The patterns say which request is for what, once. A decider matches its own one by one and refuses the rest by pattern, so that a new request
//! which is in no pattern, or which its decider forgot, does not compile.

use crate::Refusal;
use fleet_schemas::{Ask, verbs};

macro_rules! for_device {
    () => {
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
            | Ask::NotBuilt(_)
    };
}

macro_rules! for_site {
    () => {
        Ask::RegisterSite(_)
            | Ask::SetRoleProfile(_)
            | Ask::FirstRoleProfile(_)
            | Ask::ChangeRoleProfile(_)
            | Ask::ClaimEpoch(_)
            | Ask::ChangeSite(_)
            | Ask::PlaceFreeze(_)
            | Ask::LiftFreeze(_)
            | Ask::RegisterType(_)
    };
}

macro_rules! for_config {
    () => {
        Ask::CreateBootstrapConfig(_) | Ask::UpdateBootstrapConfig(_) | Ask::RetireBootstrapConfig(_) | Ask::ReadUserData(_)
    };
}

macro_rules! for_name {
    () => {
        Ask::Take(_) | Ask::GiveBack(_)
    };
}

pub(crate) use {for_config, for_device, for_name, for_site};

/// The refusal of `ask` by `here`, which it is not for: names what it is for.
pub(crate) fn wrong_stream(ask: &Ask, here: &str) -> Refusal {
    let (expected, helps) = match ask {
        for_device!() => ("a device", "name a device"),
        for_site!() => ("a site", "name a site"),
        for_config!() => ("a bootstrap configuration", "name a bootstrap configuration"),
        for_name!() => ("a name that only one device may have", "nobody asks this but another stream"),
    };
    Refusal::new("wrong-stream", "stream", expected, format!("`{}` for {here}", verbs::name_of(ask)), helps)
}
