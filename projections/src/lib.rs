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
mod shelf;
mod write;

pub use compare::Difference;
pub use db::{Db, Error};
pub use generations::{Generation, Generations, Rebuilt, Unturned};
pub use parked::CloseError;
pub use projector::{Progress, Projector, Standing};
pub use queries::{
    AttentionFilter, AttentionRow, ConditionFilter, ConditionRow, ConfigVersion, DeviceDoc, DeviceFilter, DeviceRow, HistoryRow, Key,
    ListCursor, Listed, OperationFilter, OperationRow, OrphanFilter, OrphanRow, Page, ParkedRow, Point, Reads, Sort, filter,
};
