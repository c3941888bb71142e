//! Conditions: what a type means, who may state it, and in which order reports count.

mod halves;
mod order;
mod registry;
