//! SLURM, through slurmrestd. [`Agent`] lists nodes and partitions once per look and says of each device whether it is in the cluster,
//! whether it would be given work, whether it is drained and by whom. The law is knowledge/slurm.md; section numbers refer to it.
//!
//! `client` asks, `answer` reads both families of API versions into one form, `table` is section 8, `drains` is rule 6,
//! `translate` turns all of it into observations. Only `client` and `agent` do I/O.

mod agent;
mod answer;
mod client;
mod doctor;
mod drains;
mod table;
mod token;
mod translate;
mod unclaimed;
mod version;

pub use agent::{Agent, Settings};
pub(crate) use answer::{check, entries, partitions};
pub(crate) use translate::{Listing, Partitions, all, translate};
pub(crate) use version::ApiVersion;
