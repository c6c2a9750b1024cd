//! What all rules together remember: one shadow per object.
//!
//! A shadow holds what later judgements need and nothing else. Rules read it; it is written
//! only when an event is followed, after the rules have judged that event.

mod adapter;
pub mod address;
mod allocation;
mod client;
mod device;
mod driver;
pub mod keyed;
pub mod memory;
pub mod recover;
mod retirement;
pub mod stream;
pub mod sync;

pub use adapter::{Adapter, Due, Inside, Node};
pub use allocation::{Allocation, Data, Instance, Resource, ResourceView, Stage, View};
pub use client::{ClientCall, Process};
pub use device::{Context, Device, Packet};
pub use driver::{Block, Call, Use, Word};
pub use retirement::{Asked, Group, Retirement};

use address::{Space, Table};
use flight::Subject;
use keyed::Keyed;
use memory::{Memory, Paging, Queue, Saved, Saves, Segment};
use stream::{
    StreamAllocator, StreamCall, StreamDevice, StreamFilter, StreamFrame, StreamPin, StreamPointer,
};
use sync::{Await, Sync};

/// What is remembered of one object.
#[derive(Debug)]
pub struct Shadow {
    /// The events that made it what it is.
    pub trail: Trail,
    /// The record of its kind.
    pub known: Known,
}

/// The numbers of an object's first event and of its last two.
#[derive(Clone, Copy, Debug)]
pub struct Trail([u64; 3]);

macro_rules! known {
    ($($(#[doc = $doc:literal])+ $kind:ident $get:ident $get_mut:ident)*) => {
        /// The record of an object, by its kind.
        #[derive(Debug)]
        pub enum Known {
            /// Nothing: it was not seen, or is gone.
            Nothing,
            /// Only the word the driver gave it, before it was said to exist.
            Named(Subject),
            /// Only what the driver keeps for it, before it was said to exist.
            Early(Saves),
            $($(#[doc = $doc])+ $kind($kind),)*
        }

        impl Shadow {
            $(
                $(#[doc = $doc])+
                pub fn $get(&self) -> Option<&$kind> {
                    match &self.known { Known::$kind(it) => Some(it), _ => None }
                }

                $(#[doc = $doc])+
                pub(crate) fn $get_mut(&mut self) -> Option<&mut $kind> {
                    match &mut self.known { Known::$kind(it) => Some(it), _ => None }
                }
            )*
        }
    };
}

known! {
    /// A process.
    Process process process_mut
    /// An adapter.
    Adapter adapter adapter_mut
    /// A node.
    Node node node_mut
    /// A device.
    Device device device_mut
    /// A context.
    Context context context_mut
    /// A resource.
    Resource resource resource_mut
    /// A device's view of a resource.
    ResourceView resource_view resource_view_mut
    /// An allocation.
    Allocation allocation allocation_mut
    /// A device's view of an allocation.
    View view view_mut
    /// The end of views.
    Retirement retirement retirement_mut
    /// A call of the driver.
    Call call call_mut
    /// A word of the driver's, and the pool block of that address.
    Word word word_mut
    /// A segment.
    Segment segment segment_mut
    /// Paging work.
    Paging paging paging_mut
    /// A queue of paging work.
    Queue queue queue_mut
    /// An allocation for contexts.
    Saved saved saved_mut
    /// A synchronisation object.
    Sync sync sync_mut
    /// A wait for such.
    Await awaiting awaiting_mut
    /// A process on an adapter.
    Space space space_mut
    /// A page table.
    Table table table_mut
    /// A keyed mutex.
    Keyed keyed keyed_mut
    /// An instance of an allocation.
    Instance instance instance_mut
    /// A streaming device.
    StreamDevice stream_device stream_device_mut
    /// A filter.
    StreamFilter stream_filter stream_filter_mut
    /// A pin.
    StreamPin stream_pin stream_pin_mut
    /// An allocator of frames.
    StreamAllocator stream_allocator stream_allocator_mut
    /// A frame.
    StreamFrame stream_frame stream_frame_mut
    /// A stream pointer.
    StreamPointer stream_pointer stream_pointer_mut
    /// A call of a streaming driver.
    StreamCall stream_call stream_call_mut
}

impl Shadow {
    /// The shadow of what nothing is known of.
    pub const NOTHING: Shadow = Shadow { trail: Trail([0; 3]), known: Known::Nothing };
}

impl Trail {
    /// Adds an event.
    pub(crate) fn mark(&mut self, seq: u64) {
        match self.0 {
            [0, ..] => self.0[0] = seq,
            [first, _, last] => self.0 = [first, last, seq],
        }
    }

    /// The numbers, in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.into_iter().filter(|seq| *seq != 0)
    }
}

impl Shadow {
    /// What a shared resource has for its openers.
    pub fn data(&self) -> Option<Data> {
        self.resource().and_then(|it| it.data)
    }

    /// The memory that a client can lock: of an allocation, or of an instance of one.
    pub fn lockable(&self) -> Option<&Memory> {
        self.memory().filter(|_| self.saved().is_none())
    }

    /// The memory of an allocation, whoever made it.
    pub fn memory(&self) -> Option<&Memory> {
        match &self.known {
            Known::Allocation(it) => Some(&it.memory),
            Known::Saved(it) => Some(&it.memory),
            Known::Instance(it) => Some(&it.memory),
            _ => None,
        }
    }

    pub(crate) fn memory_mut(&mut self) -> Option<&mut Memory> {
        match &mut self.known {
            Known::Allocation(it) => Some(&mut it.memory),
            Known::Saved(it) => Some(&mut it.memory),
            Known::Instance(it) => Some(&mut it.memory),
            _ => None,
        }
    }
}
