//! Against the real systems.
