//! The parts of a run: ordered events, IRQLs, wait tokens, and the two hosts.
//!
//! The kernels are passive libraries: a caller is a virtual thread of a [`Host`], at an IRQL it can
//! prove, and everything that happens is an [`Event`] in the one ordered [`Log`]. Nothing here
//! depends on Windows or graphics, except for names.
#![forbid(unsafe_code)]

mod deterministic;
mod driver_error;
mod driver_handle;
mod event;
mod event_chunk;
mod execution_context;
mod existing_memory;
mod fast_map;
mod field;
mod funnel;
mod growth;
mod host;
mod internal;
mod level;
mod limits;
mod line_buffer;
mod live;
mod log;
mod memory_observer;
mod monitor;
mod page_table;
mod pool;
mod ram;
mod random;
mod rule;
mod running_call;
mod slab;
mod spawner;
mod subject;
mod support;
mod sync;
mod text;
mod thread;
mod thread_table;
mod threaded;
pub mod trace;

pub use deterministic::DeterministicHost;
pub use driver_error::{DriverError, DriverResult};
pub use driver_handle::{DriverHandle, HandleSlot};
pub use event::{Event, EventKind};
pub use execution_context::{Attachment, AttachmentGuard, ExecutionContext, ExecutionContextGuard};
pub use existing_memory::{ExistingMemory, FailedAccess};
pub use fast_map::{FastHasher, FastMap};
pub use field::{Callers, Hex};
pub use funnel::{CallScope, Funnel};
pub use growth::make_room;
pub use host::{HardwareModel, Host, InterruptLine, MemoryWrite, WaitResult, WaitToken};
pub use internal::{
    InternalError, NoResources, internal_error, invariant, no_resources, resume_internal_error,
};
pub use level::{At, DeviceLevel, Dispatch, Irql, Level, Passive};
pub use limits::{FlightLimits, FlightOver};
pub use line_buffer::LineBuffer;
pub use live::{LiveObject, LiveObjects};
pub use log::{EventSink, Log, RuleCounts};
pub use memory_observer::{
    CpuVisibleMemory, FinishedPacket, MemoryObserver, PacketUse, PagingMove, PagingMovement,
};
pub use monitor::{Lock, StateGuard, WaitQueue};
pub use page_table::{PageTableWrite, TableEntry, TableRoot, TlbFlush};
pub use pool::Pool;
pub use ram::{Ram, Run};
pub use random::next_random;
pub use rule::{CATALOGUE, Component, NotLive, RuleId};
pub use running_call::{RunningCall, RunningCallGuard};
pub use slab::{Id, Object, Slab};
pub use spawner::{Spawner, ThreadBody};
pub use subject::{Fence, Kind, Subject};
pub use support::Support;
pub use text::Text;
pub use thread::{
    Call, CallGuard, CallerGuard, DDI_RETURN, InterruptRun, caller, current as current_thread,
};
pub use thread_table::{HostError, Role};
pub use threaded::ThreadedHost;
