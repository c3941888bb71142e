//! Conditions: what a type means, who may state it, and in which order reports count.

mod order;
mod registry;
