//! One file an edge: what it does, and every guard that refuses it.

mod activate;
mod annotations;
mod baseline;
mod discover;
mod drain;
mod drained;
mod guards;
mod holds;
mod maintain;
mod plans;
mod quarantine;
mod requests;
mod resume;
mod table;
mod validate;
