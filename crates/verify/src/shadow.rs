//! The recorded state of all rules: one shadow per object, in one typed map per kind.
//!
//! A shadow holds what later judgements need and nothing else. Rules read shadows through
//! [`Shadows`]; a shadow is written only when an event is followed, after the rules have judged
//! that event.

mod adapter;
pub mod address;
mod allocation;
mod client;
mod device;
mod driver;
pub mod keyed_mutex;
mod map;
pub mod memory;
pub mod nt_object;
mod rare;
mod retirement;
pub mod source;
pub mod stream;
pub mod sync;
mod table;
pub mod tdr;

pub use adapter::{Adapter, Node, NodeFences};
pub use allocation::{
    Allocation, Instance, Resource, ResourceView, SharedData, View, ViewMemory, ViewStage,
};
pub use client::{ClientCall, Process};
pub use device::{Context, Device, Packet};
pub(crate) use driver::in_functions;
pub use driver::{Block, Call, DriverPointer, PointerUse};
pub(crate) use map::Trail;
pub use map::{Key, Serial, Shadowed};
pub use rare::{Rare, Usual};
pub use retirement::{ResourceGroup, RetireRequest, Retirement};

use address::{AddressSpace, PageTable};
use flight::{Event, FastMap, Kind, Subject};
use keyed_mutex::KeyedMutex;
use map::ShadowMap;
use memory::{ContextAllocation, ContextAllocationList, Memory, Paging, PagingQueue, Segment};
use nt_object::NtObject;
use source::Source;
use std::collections::{BTreeMap, BTreeSet};
use stream::{
    StreamAllocator, StreamCall, StreamDevice, StreamFilter, StreamFrame, StreamPin, StreamPointer,
};
use sync::{GpuWait, SyncObject};

macro_rules! shadows {
    (
        $($(#[doc = $doc:literal])+ $map:ident: $type:ident of $kind:ident, $get:ident $($get_mut:ident)?;)*
        calls {
            $($(#[doc = $other_doc:literal])+
            $other_map:ident: $other:ident of $other_kind:ident, $other_get:ident $($other_get_mut:ident)?;)*
        }
    ) => {
        /// All shadows. A rule reads the shadows of the objects that it needs: the subject of its
        /// event, the objects that the event names, and those that their shadows name.
        #[derive(Debug, Default)]
        pub struct Shadows {
            $($map: ShadowMap<$type>,)*
            $($other_map: ShadowMap<$other>,)*
            /// The driver pointers of objects whose creation was not logged yet.
            pub(crate) early_handles: FastMap<Subject, Serial<DriverPointer>>,
            /// The context allocations of devices and contexts whose creation was not logged yet.
            pub(crate) early_saves: FastMap<Subject, ContextAllocationList>,
            /// The root page tables of contexts whose creation was not logged yet.
            pub(crate) early_roots: BTreeMap<Serial<Context>, Serial<PageTable>>,
            /// The last event of each thread but the current one, by its number.
            pub(crate) last_events: Vec<u64>,
            /// The thread of the last event.
            pub(crate) thread: u32,
            /// The last event of that thread.
            pub(crate) event_before: u64,
            /// The last event of each thread before its last call of `DxgkDdiBuildPagingBuffer`:
            /// the operation was chosen after it.
            pub(crate) builds: FastMap<u32, u64>,
            /// How many NT objects keep each object alive.
            pub(crate) nt_holds: BTreeMap<Subject, u32>,
            /// The NT objects that have a name, by the name in upper case.
            pub(crate) nt_names: BTreeMap<String, Serial<NtObject>>,
            /// The threads that are opening a resource by an NT handle.
            pub(crate) nt_openers: BTreeSet<u32>,
            /// The display sources that a device owns, by adapter and number.
            pub(crate) sources: BTreeMap<(Subject, u32), Source>,
            /// A driver call has failed in this flight.
            pub driver_failed: bool,
        }

        shadows!(@each $($(#[doc = $doc])+ $map: $type of $kind, $get $($get_mut)?;)*
            $($(#[doc = $other_doc])+ $other_map: $other of $other_kind, $other_get $($other_get_mut)?;)*);

        impl Shadows {
            /// Forgets an object.
            pub(crate) fn end(&mut self, object: impl Into<Subject>) {
                let Subject { kind, number } = object.into();
                match kind {
                    $(Kind::$kind => self.$map.remove(number),)*
                    _ => (),
                }
                if kind == Kind::Call {
                    $(self.$other_map.remove(number);)*
                }
            }

            /// Adds an event to the trail of its subject.
            pub(crate) fn mark_subject(&mut self, event: &Event) {
                let Subject { kind, number } = event.subject;
                match kind {
                    $(Kind::$kind => self.$map.mark(number, event.seq),)*
                    _ => (),
                }
                if kind == Kind::Call {
                    $(self.$other_map.mark(number, event.seq);)*
                }
            }

            /// The events that determined an object's state.
            pub(crate) fn trail(&self, object: Subject) -> Option<Trail> {
                let number = object.number;
                let trail = match object.kind {
                    $(Kind::$kind => self.$map.trail(number),)*
                    _ => None,
                };
                if object.kind == Kind::Call {
                    return trail$(.or(self.$other_map.trail(number)))*;
                }
                trail
            }

            /// The trails of all objects that a judge reads.
            pub(crate) fn trails_read<R>(&self, judge: impl FnOnce(&Self) -> R) -> Vec<Trail> {
                $(self.$map.record_reads();)*
                $(self.$other_map.record_reads();)*
                judge(self);
                let mut trails = Vec::new();
                $(trails.append(&mut self.$map.take_reads());)*
                $(trails.append(&mut self.$other_map.take_reads());)*
                trails
            }

            /// How many objects have a shadow.
            #[cfg(test)]
            pub(crate) fn len(&self) -> usize {
                let early = self.early_handles.len() + self.early_saves.len();
                early $(+ self.$map.len())* $(+ self.$other_map.len())*
            }
        }
    };
    (@each $($(#[doc = $doc:literal])+ $map:ident: $type:ident of $kind:ident, $get:ident $($get_mut:ident)?;)*) => {
        $(
            impl Shadowed for $type {
                const KIND: Kind = Kind::$kind;
            }

            impl Mapped for $type {
                fn map(shadows: &Shadows) -> &ShadowMap<Self> {
                    &shadows.$map
                }

                fn map_mut(shadows: &mut Shadows) -> &mut ShadowMap<Self> {
                    &mut shadows.$map
                }
            }
        )*

        impl Shadows {
            $(
                $(#[doc = $doc])+
                #[inline]
                pub fn $get(&self, key: impl Key<$type>) -> Option<&$type> {
                    self.read(key.number()?)
                }

                $(
                    #[inline]
                    pub(crate) fn $get_mut(&mut self, key: impl Key<$type>) -> Option<&mut $type> {
                        let shadow = self.$map.get_mut(key.number()?)?;
                        Some(&mut shadow.known)
                    }
                )?
            )*
        }
    };
}

shadows! {
    /// A process.
    processes: Process of Process, process process_mut;
    /// An adapter.
    adapters: Adapter of Adapter, adapter adapter_mut;
    /// A node.
    nodes: Node of Node, node node_mut;
    /// A device.
    devices: Device of Device, device device_mut;
    /// A context.
    contexts: Context of Context, context context_mut;
    /// A resource.
    resources: Resource of Resource, resource resource_mut;
    /// A device's view of a resource.
    resource_views: ResourceView of ResourceView, resource_view resource_view_mut;
    /// An allocation.
    allocations: Allocation of Allocation, allocation allocation_mut;
    /// A device's view of an allocation.
    views: View of View, view view_mut;
    /// A retirement of views.
    retirements: Retirement of Retirement, retirement retirement_mut;
    /// A call of a kernel-mode driver.
    calls: Call of Call, call call_mut;
    /// A driver's pointer, and the pool block at that address.
    driver_pointers: DriverPointer of DriverPointer, driver_pointer driver_pointer_mut;
    /// A segment.
    segments: Segment of Segment, segment segment_mut;
    /// Paging work.
    paging_work: Paging of Paging, paging paging_mut;
    /// A paging queue.
    paging_queues: PagingQueue of PagingQueue, paging_queue paging_queue_mut;
    /// A context allocation.
    context_allocations: ContextAllocation of ContextAllocation, context_allocation context_allocation_mut;
    /// A synchronisation object.
    syncs: SyncObject of Sync, sync sync_mut;
    /// A wait for synchronisation objects.
    waits: GpuWait of GpuWait, gpu_wait gpu_wait_mut;
    /// The address space of a process on an adapter.
    address_spaces: AddressSpace of AddressSpace, address_space address_space_mut;
    /// A page table.
    page_tables: PageTable of PageTable, page_table page_table_mut;
    /// A keyed mutex.
    keyed_mutexes: KeyedMutex of KeyedMutex, keyed_mutex keyed_mutex_mut;
    /// What NT handles refer to.
    nt_objects: NtObject of NtObject, nt_object nt_object_mut;
    /// An instance of a renamed allocation.
    instances: Instance of Instance, instance instance_mut;
    /// A streaming device.
    stream_devices: StreamDevice of KsDevice, stream_device stream_device_mut;
    /// A filter.
    stream_filters: StreamFilter of Filter, stream_filter stream_filter_mut;
    /// A pin.
    stream_pins: StreamPin of Pin, stream_pin;
    /// An allocator of frames.
    stream_allocators: StreamAllocator of Allocator, stream_allocator stream_allocator_mut;
    /// A frame.
    stream_frames: StreamFrame of Frame, stream_frame stream_frame_mut;
    /// A stream pointer.
    stream_pointers: StreamPointer of StreamPointer, stream_pointer;
    // A call of a streaming driver has a number of the same series.
    calls {
        /// A call of a streaming driver.
        stream_calls: StreamCall of Call, stream_call stream_call_mut;
    }
}

impl Shadows {
    /// How many NT objects keep an object alive.
    pub(crate) fn nt_holds_of(&self, object: Subject) -> u32 {
        self.nt_holds.get(&object).copied().unwrap_or(0)
    }

    /// The NT object with a name.
    pub(crate) fn nt_named(&self, name: &str) -> Option<Serial<NtObject>> {
        self.nt_names.get(&name.to_uppercase()).copied()
    }

    /// A display source that a device owns.
    pub(crate) fn source(&self, adapter: Subject, source: u32) -> Option<&Source> {
        self.sources.get(&(adapter, source))
    }

    /// Whether a device owns any display source exclusively.
    pub(crate) fn is_any_source_exclusive(&self) -> bool {
        self.sources.values().any(Source::is_exclusive)
    }
}

/// Finds the map of a kind.
pub(crate) trait Mapped: Shadowed {
    fn map(shadows: &Shadows) -> &ShadowMap<Self>;
    fn map_mut(shadows: &mut Shadows) -> &mut ShadowMap<Self>;
}

impl Shadows {
    /// The shadow of an object, for a judge.
    #[inline]
    fn read<T: Mapped>(&self, number: u32) -> Option<&T> {
        Some(&T::map(self).get(number)?.known)
    }

    /// Starts the shadow of an object afresh.
    pub(crate) fn start<T: Mapped>(&mut self, key: impl Key<T>, known: T) {
        let Some(number) = key.number() else { return };
        if !self.early_handles.is_empty() {
            self.early_handles.remove(&T::KIND.subject(number));
        }
        T::map_mut(self).insert(number, Trail::default(), || known);
    }

    /// Starts the shadow of an event's subject afresh, with the event in its trail.
    #[inline]
    pub(crate) fn begin<T: Mapped>(&mut self, event: &Event, known: impl FnOnce() -> T) {
        // Only these are waited for.
        if matches!(T::KIND, Kind::Allocation | Kind::Resource) && !self.early_handles.is_empty() {
            self.early_handles.remove(&event.subject);
        }
        T::map_mut(self).insert(event.subject.number, Trail::of(event.seq), known);
    }

    /// The shadow of an object that begins with the first event that names it.
    pub(crate) fn first<T: Mapped + Default>(&mut self, key: impl Key<T>) -> Option<&mut T> {
        Some(&mut T::map_mut(self).first(key.number()?).known)
    }

    /// The same, with an event in its trail.
    #[expect(clippy::inline_always, reason = "every call and every event of a process needs it")]
    #[inline(always)]
    pub(crate) fn first_marked<T: Mapped + Default>(
        &mut self,
        key: impl Key<T>,
        seq: u64,
    ) -> Option<&mut T> {
        let shadow = T::map_mut(self).first(key.number()?);
        shadow.trail.mark(seq);
        Some(&mut shadow.known)
    }

    /// The shadow of an event's subject, with the event in its trail.
    #[inline]
    pub(crate) fn subject_mut<T: Mapped>(&mut self, event: &Event) -> Option<&mut T> {
        let shadow = T::map_mut(self).get_mut(event.subject.number)?;
        shadow.trail.mark(event.seq);
        Some(&mut shadow.known)
    }

    /// Forgets an event's subject.
    #[inline]
    pub(crate) fn end_subject<T: Mapped>(&mut self, event: &Event) {
        T::map_mut(self).remove(event.subject.number);
    }

    /// Forgets an event's subject. Returns what the caller needs of its shadow.
    #[inline]
    pub(crate) fn take_subject<T: Mapped, R>(
        &mut self,
        event: &Event,
        read: impl FnOnce(&T) -> R,
    ) -> Option<R> {
        T::map_mut(self).take(event.subject.number, read)
    }

    /// The call of a driver in which an event happened.
    pub fn call_of(&self, event: &Event) -> Option<&Call> {
        self.call(call_of(event))
    }

    pub(crate) fn call_of_mut(&mut self, event: &Event) -> Option<&mut Call> {
        self.call_mut(call_of(event))
    }

    /// The calls inside the driver of an adapter, without a record that they were read.
    pub(crate) fn active_calls(&self, adapter: &Adapter) -> impl Iterator<Item = &Call> {
        let calls = adapter.active_calls.iter();
        calls.filter_map(|call| Some(&self.calls.get_unrecorded(call.number()?)?.known))
    }

    /// Whether a call of a driver is plain: it excludes no other call, no other call is inside the
    /// driver, and the adapter is not declined and not of the first generation, whose calls are
    /// compared by process. Most calls are.
    pub(crate) fn is_plain_call(&self, threading_level: &str, adapter: Subject) -> bool {
        let plain = |adapter: &Adapter| {
            adapter.active_calls.is_empty() && !adapter.declined && adapter.generation != 1
        };
        threading_level == "zero"
            && self.adapters.get(adapter.number).is_some_and(|shadow| plain(&shadow.known))
    }

    /// The memory of an allocation, an instance or a context allocation.
    pub fn memory(&self, object: impl Into<Subject>) -> Option<&Memory> {
        let object = object.into();
        match object.kind {
            Kind::Allocation => Some(&self.allocation(object)?.memory),
            Kind::ContextAllocation => Some(&self.context_allocation(object)?.memory),
            Kind::Instance => Some(&self.instance(object)?.memory),
            _ => None,
        }
    }

    pub(crate) fn memory_mut(&mut self, object: impl Into<Subject>) -> Option<&mut Memory> {
        let object = object.into();
        match object.kind {
            Kind::Allocation => Some(&mut self.allocation_mut(object)?.memory),
            Kind::ContextAllocation => Some(&mut self.context_allocation_mut(object)?.memory),
            Kind::Instance => Some(&mut self.instance_mut(object)?.memory),
            _ => None,
        }
    }

    /// The memory that a client can lock: of an allocation, or of an instance of one.
    pub fn lockable(&self, object: impl Into<Subject>) -> Option<&Memory> {
        let object = object.into();
        self.memory(object).filter(|_| object.kind != Kind::ContextAllocation)
    }

    /// The bytes that a shared resource has for its openers.
    pub fn data(&self, resource: impl Key<Resource>) -> Option<SharedData> {
        self.resource(resource)?.data
    }
}

/// The serial number of the call of a driver in which an event happened.
pub(crate) fn call_of(event: &Event) -> Option<Serial<Call>> {
    event.call.map(Serial::new)
}
