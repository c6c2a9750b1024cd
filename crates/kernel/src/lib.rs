//! The graphics kernel: objects, lifetimes, scheduling. It has never heard of Windows.
//!
//! The kernel is called; it does not run: no thread, clock or global state is in here. Clients
//! come in through `thunk`, drivers are reached through one funnel ([`ddi`]), and everything
//! that happens leaves as an event.
//!
//! # Locks
//!
//! There is one, around the world (`lock.rs`). It is held for bookkeeping only: never
//! across a call of a driver, and never while somebody waits. Below it are only the locks of
//! `flight`: the log's, and the host's.
#![forbid(unsafe_code)]

pub mod allocation;
mod ask;
mod build;
mod census;
pub mod context;
mod create;
pub mod ddi;
mod describe;
pub mod device;
mod dispatch;
mod end;
mod escape;
mod gate;
pub mod handle;
#[cfg(all(test, loom))]
mod handle_loom;
mod hold;
mod interrupt;
pub mod kernel;
mod keyed;
mod kin;
pub mod listed;
mod lists;
mod lock;
mod memory;
pub mod miniport;
pub mod mmu;
pub mod operation;
#[cfg(shuttle)]
mod planted;
pub mod power;
mod preempt;
pub mod process;
pub mod range;
mod recover;
mod refused;
mod renamed;
mod render;
pub mod resource;
mod retire;
mod rooted;
mod saved;
mod schedule;
pub mod segment;
pub mod services;
mod share;
pub mod space;
mod start;
mod store;
mod submit;
mod sync;
pub mod view;
mod window;
mod world;

pub use create::{CreateOrder, Made, Sharing};
pub use device::Loss;
pub use escape::EscapeOrder;
pub use flight::{Census, Live};
pub use handle::{BadHandle, Handle};
pub use kernel::{Kernel, Plugged};
pub use keyed::{Acquired, KeyedOrder, NewKeyed, Release};
pub use lists::{Buffers, Captured, EntrySizes, Granted, Resize};
pub use memory::budget::{Budget, Group, Trimmed};
pub use memory::compact::Room;
pub use memory::cpu::{LockOrder, Shown};
pub use memory::offer::Reclaimed;
pub use memory::queue::NewQueue;
pub use memory::resident::{EvictOrder, Residency, ResidentOrder};
pub use memory::worth::{MemorySizes, Whereabouts};
pub use process::{Manner, ProcessId};
pub use range::{Ranges, Spot};
pub use refused::{Argument, Refused};
pub use render::RenderOrder;
pub use retire::{DestroyOrder, Target};
pub use share::{Opened, ShareInfo};
pub use space::addresses::Access;
pub use space::calls::{Behind, MapOrder, Mapped, ReserveOrder};
pub use space::update::{Change, UpdateOrder};
pub use start::{AdapterId, StartRefused};
pub use submit::Packet;
pub use sync::cpu::{SignalOrder, WaitOrder};
pub use sync::{NewSync, SyncKind, SyncOrder};
