//! Rules that watch events and name who broke what.
//!
//! A [`Verifier`] reads the events of a run in their order and gives nothing back to it. Rules
//! that a door judged come as events and become findings here; rules over history are judged
//! here, each a function of one event and of the shadows of what it is about. What every rule
//! says, how it is known and what Windows does when it is broken is in the catalogue.
//!
//! # Invariants
//!
//! 1. A rule reads and does not write: only following an event changes a shadow.
//! 2. A rule that had nothing to judge is not counted.
//! 3. What is remembered is bounded by what is alive, not by how much has happened.
#![forbid(unsafe_code)]

mod alias;
pub mod bugcheck;
pub mod catalogue;
pub mod rule;
pub mod shadow;
mod share;

mod addresses;
mod answers;
mod budgets;
mod close;
mod create;
mod ddi;
mod destroy;
mod escape;
mod fence_order;
mod follow;
mod follow_address;
mod follow_keyed;
mod follow_memory;
mod follow_paging;
mod follow_recover;
mod follow_residency;
mod follow_saved;
mod follow_stream;
mod follow_sync;
mod handles;
mod interrupts;
mod keyed;
mod levels;
mod lifetime;
mod locks;
mod names;
mod objects;
mod oracle;
mod oracle_tables;
mod paging;
mod pnp;
mod pool;
mod queues;
mod recover;
mod renamed;
mod render;
mod residency;
mod retire;
mod saved;
mod stream_frames;
mod stream_objects;
mod sync;
mod verifier;

#[cfg(test)]
mod flights;
#[cfg(test)]
mod flights_address;
#[cfg(test)]
mod flights_memory;
#[cfg(test)]
mod flights_stream;
#[cfg(test)]
mod flights_sync;
#[cfg(test)]
mod script;

pub use alias::{ALIASES, aliased, aliases};
pub use catalogue::{Entry, Severity, catalogue, find};
pub use names::Names;
pub use oracle::Oracle;
pub use rule::{Rule, Verdict};
pub use shadow::Shadows;
pub use verifier::{Finding, Verifier};
