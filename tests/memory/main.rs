//! Video memory: residency, paging, locks, GPU virtual addresses, context allocations.

mod compaction;
mod context_allocation;
mod failed_requests;
mod gpuva_reset;
mod gpuva_working_set;
mod instances;
mod locks;
mod page_tables;
mod paging;
mod queries;
mod residency;
mod waiting_work;
mod working_set;
