//! Read models: what the journal says, in tables that answer in milliseconds. Only projectors write them.
//!
//! [`Generations`] owns them, as files in a folder or as schemas of PostgreSQL ([`Store`]): one generation serves, a rebuild fills the
//! next beside it, compares, and flips. [`Projector`] feeds one generation. [`Reads`] is what the API asks. [`Control`] outlives them.

mod compare;
mod control;
mod db;
mod fault;
mod fold;
mod generations;
mod parked;
mod pauses;
mod postgres;
mod projector;
mod queries;
mod rebuild;
mod rows;
mod shelf;
mod sql;
mod store;
#[cfg(test)]
mod trial;
mod write;

pub use compare::Difference;
pub use control::{Control, Denial, Follower};
pub use db::{Db, Error};
pub use generations::{Generation, Generations, Rebuilt, Unturned};
pub use parked::CloseError;
pub use postgres::{Login, PostgresConfig};
pub use projector::{Progress, Projector, Standing};
pub use queries::{
    AttentionFilter, AttentionRow, ConditionFilter, ConditionRow, ConfigVersion, DeviceDoc, DeviceFilter, DeviceRow, HistoryRow, Key,
    ListCursor, Listed, OperationFilter, OperationRow, OrphanFilter, OrphanRow, Page, ParkedRow, Point, Reads, Sort, filter,
};
pub use store::Store;
