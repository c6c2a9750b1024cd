//! Video memory: residency, paging, locks, GPU virtual addresses, context allocations.

mod calls;
mod compaction;
mod locks;
mod moves;
mod renamed;
mod residency;
mod saved;
mod tables;
mod virtual_reset;
mod virtual_set;
mod working_set;
