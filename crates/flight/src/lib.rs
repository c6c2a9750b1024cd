//! What a run is made of: ordered events, levels, tickets, and the two hosts that run it.
//!
//! The kernels are called and do not run: whoever calls them is a virtual thread of a
//! [`Host`], at a level it can prove, and everything that happens is an [`Event`] in the
//! one ordered [`Log`]. Nothing here knows Windows or graphics beyond the names of things.
#![forbid(unsafe_code)]

mod census;
mod crew;
mod draw;
mod driver_error;
mod driver_handle;
mod event;
mod field;
mod free;
mod funnel;
mod host;
mod internal;
mod level;
mod log;
mod number;
mod pool;
mod ram;
mod rule;
mod slab;
mod spread;
mod stepped;
mod support;
mod sync;
mod table;
mod tables;
mod thread;
mod witness;

pub use census::{LiveObject, LiveObjects};
pub use crew::{Spawner, ThreadBody};
pub use draw::next_random;
pub use driver_error::{DriverError, DriverResult};
pub use driver_handle::{DriverHandle, HandleSlot};
pub use event::{Event, EventKind};
pub use field::{Field, Hex, Text};
pub use free::ThreadedHost;
pub use funnel::{CallScope, Funnel};
pub use host::{HardwareModel, Host, InterruptLine, MemoryWrite, WaitResult, WaitToken};
pub use internal::{InternalError, internal_error, invariant, resume_internal_error};
pub use level::{At, DeviceLevel, Dispatch, Irql, Level, Passive};
pub use log::{Log, RuleCounts};
pub use number::{Fence, Kind, Subject};
pub use pool::Pool;
pub use ram::{Ram, Run};
pub use rule::{CATALOGUE, Component, NotLive, RuleId};
pub use slab::{Id, Object, Slab};
pub use spread::{FastHasher, FastMap};
pub use stepped::DeterministicHost;
pub use support::Support;
pub use table::{HostError, Role};
pub use tables::{PageTableWrite, TableEntry, TableRoot, TlbFlush};
pub use thread::{Call, CallGuard, CallerGuard, caller, current as current_thread};
pub use witness::{MemoryObserver, PagingMove, PagingMovement};
