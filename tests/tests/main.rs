//! One test binary for everything that is tested over several crates or as whole processes.

mod fmctl;
