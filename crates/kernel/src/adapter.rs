//! Adapters: start and stop, power, escapes, queries, interrupts and TDR.

pub(crate) mod entry_points;
pub(crate) mod escape;
pub(crate) mod interrupt;
pub mod power;
pub(crate) mod query;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod statistics;
pub(crate) mod system;
pub(crate) mod tdr;
