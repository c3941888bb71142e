//! Read models: what the journal says, in tables that answer in milliseconds. Only projectors write them.
//!
//! [`Generations`] owns the files: one generation serves, a rebuild fills the next beside it, compares, and flips. [`Projector`]
//! feeds one generation. [`Reads`] is what the API asks.

mod compare;
mod db;
mod fold;
mod generations;
mod orphans;
mod parked;
mod projector;
mod queries;
mod write;

pub use compare::Difference;
pub use db::{Db, Error};
pub use generations::{Generations, Rebuilt};
pub use projector::{Progress, Projector, Standing};
pub use queries::{
    ConditionRow, ConfigVersion, DeviceDoc, DeviceFilter, DeviceRow, HistoryRow, ListCursor, OperationFilter, OperationRow, OrphanFilter,
    OrphanRow, ParkedRow, Reads,
};
