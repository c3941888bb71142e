//! Read models in PostgreSQL: a schema a generation, `<prefix>_read_<n>`, and `<prefix>_control` beside them. Several hubs share them.

mod config;
mod connect;
mod schemas;

pub use config::{Login, PostgresConfig};
pub(crate) use schemas::{Turn, control, open, others, remove, turn};
