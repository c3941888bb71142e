//! Kills at random instants.
