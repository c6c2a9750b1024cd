//! The verifier: rules that watch the events of a flight and report which component broke what.
//!
//! A [`Verifier`] reads the events of a flight in order and does not affect it. A rule that the
//! code at an entry point judged arrives as an event and becomes a [`Finding`] here. A rule over
//! history is judged here: it is a function of one event and of the [`Shadows`], which record what
//! earlier events reported about each object. The [`catalogue()`] has each rule's text, its basis,
//! and what Windows does when it is broken.
//!
//! # Adding a rule
//!
//! 1. A row in `crates/flight/rules.toml` with `judge = "history"`: its id becomes a constant of
//!    `RuleId`.
//! 2. A function, and its line in the table `RULES` of the same file here. `dispatch.rs` calls it for
//!    each event that the line names; `.of` and the like leave out those to which it cannot apply.
//! 3. A driver, client or changed trace that breaks it, and a test.
//!
//! # Invariants
//!
//! 1. A rule reads and does not write: only following an event changes a shadow.
//! 2. A rule that had nothing to judge is not counted.
//! 3. The recorded state is bounded by the live objects, not by the number of events.
#![forbid(unsafe_code)]

// What other crates use.
pub use alias::{ALIASES, aliased, aliases};
pub use catalogue::{Entry, Severity, catalogue, find};
pub use cause::cause;
pub use ddi::documented_level;
pub use handle_history::HandleHistory;
pub use oracle::Oracle;
pub use oracle_packets::{ClientCommand, CommandBytes, DecodeCommands, Operand};
pub use rule::{Judge, Rule, Verdict};
pub use sentence::{name_statuses, plural, sentence};
pub use shadow::Shadows;
pub use verifier::{Finding, StackFrame, ThreadStack, Verifier};

pub mod bugcheck;
pub mod rule;
pub mod shadow;

// Events in, findings out.
mod alias;
mod catalogue;
mod cause;
mod dispatch;
mod entry_name;
mod sentence;
mod verifier;

// The recorded state, and how events change it.
mod follow;
mod follow_address;
mod follow_context_allocation;
mod follow_keyed_mutex;
mod follow_memory;
mod follow_nt_object;
mod follow_on;
mod follow_paging;
mod follow_residency;
mod follow_source;
mod follow_stream;
mod follow_sync;
mod follow_tdr;
mod handle_history;

// The rules, by subject: each file has a table `RULES`.
mod addresses;
mod budgets;
mod close;
mod context_allocation;
mod create;
mod ddi;
mod destroy;
mod escape;
mod fence_order;
mod handles;
mod imports;
mod instances;
mod interrupts;
mod keyed_mutex;
mod lifetime;
mod locks;
mod nt_share;
mod objects;
mod paging;
mod pnp;
mod pool;
mod queues;
mod render;
mod residency;
mod retire;
mod share;
mod sources;
mod statuses;
mod stream_frames;
mod stream_objects;
mod sync;
mod tdr;
mod threading;

// Rules on bytes in memory and on page tables, judged by comparing both with a model.
mod oracle;
mod oracle_look;
mod oracle_packets;
mod oracle_tables;

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
