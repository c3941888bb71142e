//! The site: its sources with freshness and epochs, and the profiles of its roles.

mod epochs;
mod freshness;
mod register;
mod settings;

use crate::dsl::*;
use fleet_schemas::{RegisterSite, SourceConfig};

fn registered() -> Given {
    asked(RegisterSite { sources: sources() })
}

fn config(change: impl FnOnce(&mut Vec<SourceConfig>)) -> RegisterSite {
    let mut sources = sources();
    change(&mut sources);
    RegisterSite { sources }
}
