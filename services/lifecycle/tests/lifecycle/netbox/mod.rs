//! NetBox: the record and where it is, and what people do to it there.

mod edits;
mod inventory;
mod moves;
