//! Events: everything that happens in a flight, as text that can be written to a trace and read
//! back.
//!
//! An event records what happened to one subject, on which virtual thread, and inside which driver
//! call. It holds numbers and text, never a pointer or a Windows type.

use crate::field::{Callers, Field, Hex};
use crate::line_buffer::{LINE_LENGTH, LineBuffer};
use crate::{Component, Fence, Irql, RuleId, Subject, Text};
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// One event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its position in the order of all events.
    pub seq: u64,
    /// The virtual thread it happened on.
    pub thread: u32,
    /// The number of the driver call during which it happened.
    pub call: Option<u32>,
    /// The object it happened to.
    pub subject: Subject,
    /// What happened.
    pub kind: EventKind,
}

/// Writes texts, then fields. The texts and the name of the first field are one piece.
macro_rules! values {
    ($to:ident, $end:expr, ()) => {
        $end
    };
    ($to:ident, $end:expr, ($($text:literal),+)) => {
        $to.put($end, concat!($($text),+))
    };
    ($to:ident, $end:expr, ($($text:literal),*), $field:ident $(, $more:ident)*) => {{
        let end = if $field.is_left_out() {
            values!($to, $end, ($($text),*))
        } else {
            let end = $to.put($end, concat!($($text,)* " ", stringify!($field), "="));
            $field.write($to, end)
        };
        values!($to, end, () $(, $more)*)
    }};
}

// An event is moved when it is logged, and a larger one by a call.
const _: () = assert!(size_of::<Event>() <= 128);

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal { $($field:ident: $type:ty),* })*) => {
        /// What happened.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "fields are explained with their event")]
        pub enum EventKind {
            $($(#[doc = $doc])+ $variant { $($field: $type),* },)*
        }

        impl EventKind {
            /// Its name in traces.
            pub fn name(&self) -> &'static str {
                match self { $(EventKind::$variant { .. } => $name,)* }
            }

            /// The names of all events, each at its place.
            pub const NAMES: &[&'static str] = &[$($name),*];

            /// Its place among [`EventKind::NAMES`].
            #[inline]
            pub fn index(&self) -> usize {
                enum Index { $($variant),* }
                match self { $(EventKind::$variant { .. } => Index::$variant as usize,)* }
            }

            /// Whether a value has memory of its own, so that dropping the event has an effect. Where
            /// an event is built this is nearly always a constant.
            #[inline(always)]
            pub(crate) fn owns_memory(&self) -> bool {
                match self {
                    $(EventKind::$variant { $($field),* } => false $(|| $field.owns_memory())*,)*
                }
            }

            /// The most bytes that `write` writes to the buffer's block.
            const LENGTH: usize = {
                let lengths = [
                    $(1 + $name.len() $(+ stringify!($field).len() + 2 + <$type>::LENGTH)*),*
                ];
                let (mut longest, mut index) = (0, 0);
                while index < lengths.len() {
                    if longest < lengths[index] {
                        longest = lengths[index];
                    }
                    index += 1;
                }
                longest
            };

            /// Writes a space, its name and its values, each ` name=value`, at `end`. Returns the end behind
            /// them.
            #[inline(always)] // See `LineBuffer::push_all`.
            fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
                match self {
                    $(EventKind::$variant { $($field),* } => values!(to, end, (" ", $name) $(, $field)*),)*
                }
            }

            /// Reads what `write` wrote.
            fn read(name: &str, values: &mut Values<'_>) -> Option<EventKind> {
                match name {
                    $($name => Some(EventKind::$variant {
                        $($field: match values.next(stringify!($field)) {
                            Some(value) => <$type>::read(value)?,
                            None => <$type>::LEFT_OUT?,
                        }),*
                    }),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// A virtual thread starts.
    ThreadStarted "thread.started" { name: Text }

    /// A worker thread ran for `turns` turns while no client thread ran, and is not expected to
    /// end.
    ThreadRunaway "thread.runaway" { name: Text, turns: u64 }

    /// A client calls the kernel. Subject: the process.
    Enter "enter" { call: Text }
    /// The client's call returns `status`. Events only carry the number.
    Leave "leave" { call: Text, status: Hex }

    /// The process's handle table reserves its next handle for an object under construction.
    HandleReserved "handle.reserved" { handle: Hex }
    /// A reserved handle is released because the call failed.
    HandleCancelled "handle.cancelled" { handle: Hex }
    /// A handle is published: clients can use it.
    HandlePublished "handle.published" { handle: Hex, of: Subject }
    /// A handle is closed.
    HandleClosed "handle.closed" { handle: Hex, of: Subject }
    /// A global handle is created. It is valid in every process.
    HandleShared "handle.shared" { handle: Hex, of: Subject }

    /// A process starts.
    ProcessOpened "process.opened" {}
    /// An object of the process is still alive when the process ends. One event per object.
    ProcessLeaked "process.leaked" { object: Subject }
    /// A process ends, with everything it owns.
    ProcessEnded "process.ended" {}

    /// An adapter starts. `generation` is the driver model, 1 or 2 (WDDM 1.x or 2.x).
    AdapterStarted "adapter.started" { nodes: u32, generation: u32 }
    /// An adapter stops.
    AdapterStopped "adapter.stopped" {}
    /// The driver is called to change the adapter's power: `state` is d0 or d3.
    AdapterPowered "adapter.powered" { state: Text }
    /// The adapter's hardware is surprise-removed. Its outstanding work will not be done.
    AdapterSurpriseRemoved "adapter.surprise-removed" {}
    /// A node of an adapter exists.
    NodeStarted "node.started" { adapter: Subject, ordinal: u32 }

    /// The driver creates a device.
    DeviceCreated "device.created" { process: Subject, adapter: Subject }
    /// A reset loses paging commands for an object of the device: an allocation or a context
    /// allocation.
    DevicePagingLost "device.paging-lost" { of: Subject, paging: Subject }
    /// A device is lost. Its work counts as done.
    DeviceLost "device.lost" { why: Text }
    /// A client queries the device state. `state` is `active` or the reason for the loss.
    DeviceStateQueried "device.state-queried" { state: Text }
    /// The driver has destroyed the device.
    DeviceDestroyed "device.destroyed" {}
    /// A device owns a display source, and how: `shared`, `exclusive`, `emulated`, or `none` when it
    /// releases the source, whether it owned it or not. Subject: the adapter.
    SourceOwned "source.owned" { device: Subject, source: u32, how: Text }
    /// A client asks whether a device owns a display source exclusively. Subject: the adapter.
    SourceChecked "source.checked" { source: u32, exclusive: bool }
    /// A client asks whether a window is occluded, on a system with `monitors`. Subject: the process.
    OcclusionChecked "occlusion.checked" { monitors: u32, occluded: bool }

    /// The driver creates a context.
    ContextCreated "context.created" { device: Subject, node: Subject }
    /// The driver has destroyed the context.
    ContextDestroyed "context.destroyed" {}

    /// A resource exists, created by `device`. `sharing` is none, global or nt.
    ResourceCreated "resource.created" { adapter: Subject, device: Subject, sharing: Text }
    /// The driver has destroyed the resource.
    ResourceDestroyed "resource.destroyed" {}
    /// The sizes that a shared resource records for its openers: `runtime` bytes of the runtime's
    /// data, and `total` bytes of its allocations' private data.
    ShareRecorded "share.recorded" { runtime: u64, total: u64 }
    /// A client queries these sizes. `copied` is the number of data bytes it receives.
    ShareQueried "share.queried" { runtime: u64, total: u64, copied: u64 }
    /// An opener receives the data: `written` is the reported size of the private data, `copied`
    /// the number of bytes copied in all.
    ShareOpened "share.opened" { written: u64, copied: u64 }
    /// A client shares objects by an NT handle: one resource, one synchronization object, or a
    /// bundle of a resource, a keyed mutex and a synchronization object. `name` is empty if the NT
    /// object has none. `access` is what the first NT handle may do.
    NtObjectCreated "nt-object.created" {
        process: Subject, name: Text, access: Text, resource: Option<Subject>,
        keyed_mutex: Option<Subject>, sync: Option<Subject>
    }
    /// A client gets another NT handle: by `name`, or as a duplicate, without one.
    NtObjectOpened "nt-object.opened" { process: Subject, name: Text, access: Text }
    /// A client opens the resource of an NT object. `read_only` is what the driver is told.
    NtResourceOpened "nt-object.resource-opened" {
        process: Subject, resource: Subject, access: Text, read_only: bool
    }
    /// A client opens an object of an NT object that is not a resource.
    NtPartOpened "nt-object.part-opened" { process: Subject, of: Subject }
    /// A resource ends with its adapter: the NT object does not keep it alive.
    NtResourceLost "nt-object.resource-lost" { resource: Subject }
    /// An NT handle is closed. `handles` are left, of all processes.
    NtHandleClosed "nt-object.handle-closed" { handles: u32 }
    /// The last NT handle is closed: the NT object keeps no object alive any more, and its name is
    /// free.
    NtObjectEnded "nt-object.ended" {}
    /// No NT object has the name that a client looks up. Subject: the process.
    NtNameNotFound "nt-name.not-found" { name: Text }
    /// A call with an NT handle fails. Subject: the process. Whether the device is one, and what
    /// the NT handle is: `good`, `invalid` or of `another-type`.
    NtOpenFailed "nt-open.failed" { call: Text, device: bool, handle: Text, status: Hex }
    /// A device has a view of a resource.
    ResourceViewOpened "resource-view.opened" { resource: Subject, device: Subject }
    /// The resource view's handle is closed by a destroy call of `by`.
    ResourceViewRetiring "resource-view.retiring" { by: Subject, retirement: Subject }
    /// The views of the resource view are closed.
    ResourceViewClosed "resource-view.closed" {}

    /// The driver describes an allocation. `client_data` is the digest of the private data that the
    /// client or the kernel passed, `driver_data` the digest of the private data that the driver
    /// received.
    AllocationCreated "allocation.created" {
        adapter: Subject, device: Subject, resource: Option<Subject>,
        size: u64, pitch_size: u64, alignment: u64, client_data: Hex, driver_data: Hex
    }
    /// The driver limits the number of instances of the allocation.
    AllocationLimited "allocation.limited" { limit: u32 }
    /// The allocation's memory and paging work are released. No view of it is in use.
    AllocationDecommitted "allocation.decommitted" {}
    /// The driver has destroyed the allocation.
    AllocationDestroyed "allocation.destroyed" {}

    /// The driver opens an allocation for a device. `handle_set` tells whether the driver returned
    /// a handle.
    ViewOpened "view.opened" {
        allocation: Subject, device: Subject, resource: Option<Subject>, handle_set: bool
    }
    /// The view's handle is closed by a destroy call of `by`. No new use can start.
    ViewRetiring "view.retiring" { by: Subject, retirement: Subject }
    /// The work that the device queued before has completed, or is disregarded.
    ViewIdle "view.idle" {}
    /// The driver has closed the view.
    ViewClosed "view.closed" {}

    /// A client requests the destruction of `views` views of a device.
    RetireRequested "retire.requested" { device: Subject, views: u32, assume_not_in_use: bool, synchronous: bool }
    /// The destruction waits for the context's packets up to number `packet`.
    RetireWaits "retire.waits" { context: Subject, packet: u64 }
    /// All views of the destruction are idle.
    RetireIdle "retire.idle" {}
    /// All views of the destruction are closed, and the objects that lost their last view are
    /// destroyed.
    RetireDone "retire.done" {}
    /// The caller of the destroy function gets its result. `done` is false if a wait was abandoned.
    RetireReturned "retire.returned" { done: bool }

    /// A client calls escape. Subject: the process. `resolved` tells whether the objects it passed
    /// exist and belong together.
    EscapeRequested "escape.requested" { hardware: bool, resolved: bool }

    /// Work is queued to a context as the context's packet of that number.
    PacketQueued "packet.queued" { packet: u64 }
    /// The digests of a packet's private data when the client passed it and when the call ends.
    /// Subject: the process. Recorded only if no other thread can have changed the data.
    PacketPrivate "packet.private" { bytes: u32, before: Hex, after: Hex }
    /// A packet is submitted to the node. Subject: the context.
    PacketSubmitted "packet.submitted" { packet: u64, node: Subject, fence: Fence }
    /// The node returned the packet, or lost it in a reset, before the packet completed. It will be
    /// submitted again. Subject: the context.
    PacketReturned "packet.returned" { packet: u64, node: Subject, fence: Fence }
    /// The packet was not submitted to a node, and never will be. Subject: the context.
    PacketCancelled "packet.cancelled" { packet: u64 }
    /// The driver reports a fence. Subject: the node.
    FenceReported "fence.reported" { fence: Fence }
    /// A fence has passed. Subject: the node.
    FencePassed "fence.passed" { fence: Fence }
    /// A driver queues its DPC. Subject: the adapter. `inserted` is false if the DPC was already
    /// pending.
    DpcQueued "dpc.queued" { inserted: bool }
    /// The driver is called to enable or disable vsync reports. Subject: the adapter.
    VsyncSwitched "vsync.switched" { on: bool }
    /// The driver reports a vsync. Subject: the adapter.
    VsyncReported "vsync.reported" {}
    /// The packet is done, or counts as done. Subject: the context.
    PacketDone "packet.done" { packet: u64, node: Subject, fence: Fence }

    /// A context submits packets with lists. The fields are the buffer sizes that the driver
    /// requests.
    ContextLists "context.lists" { commands: u32, list: u32, patches: u32 }
    /// The driver translates a client's `commands` bytes into `bytes` bytes of hardware commands,
    /// into its `pass`th buffer, which has room for `capacity` bytes. Subject: the context.
    PacketRendered "packet.rendered" {
        pass: u32, commands: u32, capacity: u32, bytes: u32, uses: u32, patches: u32, result: Text
    }
    /// A packet with lists is about to be submitted and uses this allocation at its current
    /// location. Subject: the allocation.
    PacketUses "packet.uses" { node: Subject, fence: Fence, segment: Subject, address: u64 }
    /// The driver patches addresses into a part of a packet. Subject: the node.
    PacketPatched "packet.patched" { fence: Fence, start: u32, end: u32 }
    /// A part of a packet is submitted to the hardware. Subject: the node. If `null`, the hardware
    /// must not execute its commands.
    PacketStarted "packet.started" { fence: Fence, start: u32, end: u32, null: bool }

    /// The node is requested to preempt its packets. Subject: the node.
    NodePreempting "node.preempting" { preemption: Fence, why: Text }
    /// The driver reports the preemption, with the last completed fence.
    NodePreempted "node.preempted" { preemption: Fence, last: Fence }
    /// A node makes no progress. Subject: the node. `stage` is the step of timeout handling, `now`
    /// its time.
    NodeTimedOut "node.timed-out" { fence: Fence, stage: Text, now: u64 }
    /// The driver resets a node. All packets up to the fence that it returns are over.
    NodeReset "node.reset" { done: Fence, aborted: Fence, submitted: Fence }
    /// The driver resets the whole adapter. Subject: the adapter. `count` is the number of resets
    /// within a minute.
    AdapterReset "adapter.reset" { now: u64, count: u32 }
    /// The adapter accepts work again.
    AdapterRestarted "adapter.restarted" {}
    /// The system stops with a bug check. Subject: the adapter.
    AdapterFatal "adapter.fatal" { why: Text }

    /// An adapter has a memory segment. `number` is the driver's number, from one. `target`
    /// if applications' memory is allocated from it.
    SegmentFound "segment.found" {
        adapter: Subject, number: u32, base: u64, size: u64, aperture: bool, target: bool
    }
    /// The driver's requirements for an allocation's memory: the CPU may lock it (`cpu_visible`),
    /// its CPU view is `cached`, it never moves (`pinned`), the driver is `notified` when it
    /// becomes resident or is evicted, it can be in an aperture (`mappable`).
    MemoryRequirements "memory.requirements" {
        cpu_visible: bool, cached: bool, pinned: bool, notified: bool, mappable: bool
    }
    /// An allocation gets a location at a GPU address. Paging work brings its bytes there.
    MemoryPlaced "memory.placed" { segment: Subject, address: u64, bytes: u64 }
    /// The allocation loses its location. Its bytes are moved to system memory, or discarded
    /// (`discard`).
    MemoryEvicted "memory.evicted" { segment: Subject, discard: bool, why: Text }
    /// The allocation has no memory any more.
    MemoryFreed "memory.freed" {}

    /// Paging work is planned. Subject: the paging work. It waits for `waits` fences.
    PagingPlanned "paging.planned" { adapter: Subject, steps: u32, waits: u32 }
    /// The driver writes commands for an operation on an allocation. `pass` counts the buffers of
    /// the operation from one; `complete` if the operation is written to its end. `address` is a
    /// GPU address in `segment`. `page_in` if the allocation of `size` bytes is moved to that
    /// address, and not away from it. `bytes` is the size of the commands, `private` the digest of
    /// an update's private data, `driver_handle` the driver's handle, and `idle` what the driver
    /// was told about packets that use the allocation.
    PagingBuilt "paging.built" {
        operation: Text, of: Subject, driver_handle: Subject, segment: Subject, address: u64,
        size: u64, private: Hex, page_in: bool, idle: bool, bytes: u32, pass: u32, result: Text,
        complete: bool
    }
    /// The driver writes to a paging buffer with private data. Subject: the adapter. The digests
    /// are of `bytes` bytes of the data, before and after the call.
    PagingPrivate "paging.private" { buffer: u64, bytes: u32, before: Hex, after: Hex }
    /// Paging commands are submitted to the node. Subject: the node. `switch` if they end the time
    /// slice of the current context.
    PagingSubmitted "paging.submitted" {
        paging: Subject, fence: Fence, bytes: u32, switch: bool
    }
    /// An operation is done. Subject: the paging work.
    PagingDone "paging.done" { operation: Text, of: Subject, segment: Subject, page_in: bool }
    /// The driver is notified of `bytes` bytes of an operation that a reset lost. Subject: the
    /// adapter.
    PagingDropped "paging.dropped" { operation: Text, of: Subject, bytes: u64 }
    /// The paging work is done, or counts as done.
    PagingEnded "paging.ended" { lost: bool }

    /// The residency count of a view on a device changes to `count`. Subject: the view. A
    /// make-resident call for `queue` increments it. An evict call decrements it and tells whether
    /// the memory may stay until it is needed (`only_if_necessary`) and whether the GPU has not
    /// written to it (`not_written`).
    ResidencyCounted "residency.counted" {
        device: Subject, queue: Option<Subject>, count: u32, only_if_necessary: bool, not_written: bool
    }
    /// A client requests residency of some views. `result` is resident, pending or no-memory.
    /// Pending lasts until the queue's fence reaches `value`; `must_succeed` if the request may not
    /// fail.
    ResidencyRequested "residency.requested" {
        queue: Subject, views: u32, must_succeed: bool, result: Text, value: u64, trim: u64
    }

    /// A client queries its share of an adapter's memory: the adapter's own (`local`), or memory
    /// mapped into apertures. Subject: the process.
    BudgetQueried "budget.queried" {
        adapter: Subject, local: bool, budget: u64, usage: u64, reserved: u64, reservable: u64
    }
    /// A client queries the residency of a view, alone or with the other views of a resource
    /// (`of`). Subject: the view. `result` is the status of everything it queried: local, shared or
    /// away.
    ResidencyQueried "residency.queried" { of: Option<Subject>, result: Text }
    /// A client is notified how many bytes to trim, in the result of a call or in a notification
    /// (`by`). Subject: the process. The objects it made resident use `usage` bytes of the
    /// adapter's memory and `shared_usage` bytes of apertures; `missing` more bytes are required.
    TrimRequired "trim.required" {
        adapter: Subject, by: Text, usage: u64, budget: u64, shared_usage: u64,
        shared_budget: u64, missing: u64, bytes: u64
    }
    /// A client's trim callback is called because memory is short. Subject: the device. `flags` are
    /// the notification's: to-budget, periodic and restart-periodic, joined by a plus.
    TrimNotified "trim.notified" { flags: Text, bytes: u64 }
    /// The trim callback returns.
    TrimReturned "trim.returned" { bytes: u64 }

    /// A client's paging queue exists. Subject: the queue.
    PagingQueueCreated "paging-queue.created" { device: Subject, priority: u32 }
    /// Paging work of the queue will signal `value`. Subject: the queue.
    PagingQueueAssigned "paging-queue.assigned" { paging: Subject, value: u64 }
    /// The queue's fence has `value`.
    PagingQueueSignalled "paging-queue.signalled" { value: u64 }
    /// The queue and its fence are destroyed.
    PagingQueueDestroyed "paging-queue.destroyed" {}

    /// A keyed mutex exists and is free for `key`. Subject: the mutex. `handle` is the creator's
    /// handle, `global` the global handle or zero. `sharing` is global or nt; `runtime` is the size
    /// of the runtime's data.
    KeyedMutexCreated "keyed-mutex.created" {
        process: Subject, handle: Hex, global: Hex, sharing: Text, key: u64, runtime: u64
    }
    /// A process opens the mutex. Its buffer for the runtime's data has `capacity` bytes.
    KeyedMutexOpened "keyed-mutex.opened" { process: Subject, handle: Hex, capacity: u64 }
    /// A process's buffer is too small for the runtime's data. The process gets no handle.
    KeyedMutexOpenFailed "keyed-mutex.open-failed" { process: Subject, capacity: u64 }
    /// An open call returns. `capacity` is the size that the caller passed, `size` the size that is
    /// returned in that field, `copied` the number of bytes written.
    KeyedMutexOpenReturned "keyed-mutex.open-returned" { capacity: u64, size: u64, copied: u64 }
    /// The mutex is owned through a handle. `fence` is the value of the last release.
    KeyedMutexAcquired "keyed-mutex.acquired" { process: Subject, handle: Hex, key: u64, fence: u64 }
    /// An acquire ends without the mutex: timed-out or abandoned.
    KeyedMutexNotAcquired "keyed-mutex.not-acquired" { process: Subject, handle: Hex, key: u64, result: Text }
    /// The values that an acquire call returns to a caller that requested the key `requested`.
    /// `result` is acquired, timed-out or abandoned.
    KeyedMutexAcquireReturned "keyed-mutex.acquire-returned" { result: Text, requested: u64, key: u64, fence: u64 }
    /// The mutex is free for the next key. `runtime` is the size of the runtime's data now.
    KeyedMutexReleased "keyed-mutex.released" {
        process: Subject, handle: Hex, key: u64, fence: u64, runtime: u64
    }
    /// The handle that owns the mutex is closed. The mutex cannot be acquired any more.
    KeyedMutexAbandoned "keyed-mutex.abandoned" { process: Subject, handle: Hex }
    /// A process closes a handle of the mutex.
    KeyedMutexClosed "keyed-mutex.closed" { process: Subject, handle: Hex }
    /// The last handle is closed: the mutex and its global handle are destroyed.
    KeyedMutexDestroyed "keyed-mutex.destroyed" {}

    /// A client requests a lock. The lock fails rather than wait for the device's work
    /// (`do_not_wait`) or move memory (`do_not_evict`). Subject: the view.
    LockRequested "lock.requested" { do_not_wait: bool, do_not_evict: bool }
    /// The CPU can access an allocation in GPU memory, in an aperture or in system memory. Subject:
    /// the view. `count` is the number of locks.
    LockAcquired "lock.acquired" { count: u32, location: Text, do_not_wait: bool }
    /// The CPU mapping of a locked allocation is redirected after paging work. Subject: the
    /// allocation.
    LockRemapped "lock.remapped" { location: Text }
    /// One lock ends, or is `dropped` because its view ends.
    LockEnded "lock.ended" { count: u32, dropped: bool }

    /// Another instance of an allocation is created. Subject: the instance. `driver_handle` is its
    /// driver handle, `count` the number of instances now.
    InstanceCreated "instance.created" { of: Subject, view: Subject, driver_handle: Subject, count: u32 }
    /// A discarding lock makes another instance, or the allocation itself again, the newest.
    /// Subject: the view. `turn` counts these changes; the creation of the instance is its first.
    LockRenamed "lock.renamed" { to: Subject, turn: u64 }
    /// An instance and its memory are destroyed.
    InstanceDestroyed "instance.destroyed" {}

    /// An allocation is offered: its bytes may be discarded when memory is short. Subject: the
    /// view.
    OfferStarted "offer.started" { priority: u32, waits: u32 }
    /// The work queued before the offer is done. From now on the bytes may be discarded.
    OfferReady "offer.ready" {}
    /// The allocation is reclaimed. `discarded` tells whether its bytes were lost. A reclaim
    /// through a paging queue makes the allocation resident again, if it has to be, by the time the
    /// queue's fence reaches `value`.
    OfferEnded "offer.ended" { discarded: bool, queue: Option<Subject>, value: u64 }

    /// A driver creates a context allocation for a context, or for a whole device.
    ContextAllocationCreated "context-allocation.created" {
        adapter: Subject, device: Subject, context: Option<Subject>, bytes: u64, driver_handle: Subject
    }
    /// The driver requests an update. `data` is the digest of the private data for it.
    ContextAllocationUpdating "context-allocation.updating" { data: Hex }
    /// The driver's update request returns.
    ContextAllocationUpdated "context-allocation.updated" {}
    /// The driver frees the context allocation: its handle ends. `owner_ended` if its owner was
    /// destroyed first.
    ContextAllocationFreed "context-allocation.freed" { owner_ended: bool }
    /// The memory of the context allocation is released.
    ContextAllocationDestroyed "context-allocation.destroyed" {}
    /// A node's current context changes. `None`: no context is current. Subject: the node.
    NodeSwitched "node.switched" { to: Option<Subject> }

    /// A synchronization object exists: a mutex, semaphore, fence, monitored (fence) or
    /// notification. Its device may not signal it (`no_signal`) or wait for it (`no_wait`), and a
    /// reset does not change its value (`no_tdr_signal`).
    SyncCreated "sync.created" {
        device: Subject, kind: Text, value: u64, sharing: Text, no_signal: bool, no_wait: bool,
        no_tdr_signal: bool
    }
    /// A client receives the local and the global handle. A missing handle is zero.
    SyncHandlesReturned "sync.handles-returned" { handle: Hex, global: Hex }
    /// A client opens the object by a global handle.
    SyncOpened "sync.opened" { process: Subject, global: Hex }
    /// A handle of the object that was opened by an NT handle has fewer rights: it may not be
    /// signaled (`no_signal`) or waited for (`no_wait`) through it.
    SyncRestricted "sync.restricted" { process: Subject, handle: Hex, no_signal: bool, no_wait: bool }
    /// A client closes a handle of the object. `handles` are left, of all clients.
    SyncClosed "sync.closed" { process: Subject, handles: u32 }
    /// The object is destroyed: it has no handle, and no queued work uses it.
    SyncDestroyed "sync.destroyed" {}
    /// A client requests to signal the object or to wait for it (`operation`) on a device. `result`
    /// is taken or denied.
    SyncRequested "sync.requested" { device: Subject, operation: Text, result: Text, handle: Hex }
    /// The object is signaled by the cpu, a context, a broadcast or a reset. `value` is its new
    /// value: a semaphore's count, or one for a free mutex. `shown` is the value that the CPU
    /// reads.
    SyncSignalled "sync.signalled" { by: Text, value: u64, shown: Option<u64> }
    /// A context reaches a broadcast signal of the object. `remaining` more contexts must reach it.
    SyncReached "sync.reached" { broadcast: u32, context: Subject, remaining: u32 }
    /// A wait acquires a mutex, or one count of a semaphore.
    SyncAcquired "sync.acquired" { by: Subject, remaining: u64 }
    /// A mutex becomes free because the context that held it was destroyed.
    SyncAbandoned "sync.abandoned" { context: Subject }
    /// A wait of a context, a thread (which blocks) or an event starts. Subject: the wait. It names
    /// `count` objects and needs all of them, or `any`.
    GpuWaitStarted "gpu-wait.started" { waiter: Subject, waiter_kind: Text, any: bool, count: u32 }
    /// An object or paging queue that the wait names, and the value it needs.
    GpuWaitObject "gpu-wait.object" { of: Subject, value: u64 }
    /// The wait is satisfied: the waiter continues.
    GpuWaitSatisfied "gpu-wait.satisfied" {}
    /// An object of the wait can never satisfy it any more, because the object was destroyed. It
    /// counts as satisfied.
    GpuWaitReleased "gpu-wait.released" { of: Subject }
    /// The wait is canceled because the waiter was destroyed.
    GpuWaitCancelled "gpu-wait.cancelled" {}
    /// The fences that a device could have signaled get their maximum value after a reset. Subject:
    /// the device.
    FencesReset "fences.reset" {}
    /// A client's event exists. Subject: the event.
    EventCreated "event.created" { process: Subject }
    /// The event is set for a wait or a notification.
    EventSet "event.set" { by: Option<Subject> }
    /// The event is reset.
    EventReset "event.reset" {}
    /// The client closes the event.
    EventClosed "event.closed" {}
    /// The driver is called for a process that starts to use its adapter. Subject: the address
    /// space. The system address space has no process. Addresses have `bits` bits.
    /// `invalidates_tables` if page tables are invalidated before they are destroyed.
    AddressSpaceCreated "address-space.created" {
        adapter: Subject, process: Option<Subject>, bits: u32, invalidates_tables: bool
    }
    /// The driver is called because the process does not use the adapter any more.
    AddressSpaceDestroyed "address-space.destroyed" {}
    /// A context gets this root page table of `entries` entries. Subject: the address space. `idle`
    /// if no packet of the context is on the hardware.
    RootSet "root.set" { context: Option<Subject>, table: Subject, entries: u32, idle: bool }
    /// A page table of `entries` entries exists and translates from `address`. Subject: the table.
    /// The entries of a level-zero table point to pages.
    PageTableCreated "page-table.created" { space: Subject, level: u32, address: u64, entries: u32 }
    /// The driver is called to write entries of a table, which translate from `address`. Subject:
    /// the table. `by` is the writer: the cpu, without a buffer, or the gpu. All entries have one
    /// `entry_kind`: invalid, zero, table or page. Pages belong to `of`, from `offset`; `segment`
    /// and `page` are the first entry's. `sequential` if the pages are consecutive in the
    /// allocation.
    PageTableWritten "page-table.written" {
        space: Subject, level: u32, by: Text, first: u32, count: u32, address: u64, entry_kind: Text,
        of: Option<Subject>, offset: u64, sequential: bool, segment: u32, page: u64, initial: bool,
        evicts: bool
    }
    /// The driver is called to flush translations from `start` to `end`. Subject: the address
    /// space. Both are zero for a complete flush.
    TlbFlushed "tlb.flushed" { start: u64, end: u64 }
    /// A page table is destroyed and its memory released.
    PageTableDestroyed "page-table.destroyed" {}
    /// The driver reserves addresses of a process. Clients may map there if the range is
    /// `client_visible`. Subject: the address space.
    RangeDriverReserved "range.driver-reserved" { start: u64, end: u64, client_visible: bool }
    /// A client reserves addresses. Subject: the address space. It requested `base`, or any address
    /// between `minimum` and `maximum`. The reservation takes effect when the queue's fence reaches
    /// `value`.
    RangeReserved "range.reserved" {
        start: u64, end: u64, reservation: u32, backing: Text, base: u64, minimum: u64,
        maximum: u64, queue: Option<Subject>, value: u64
    }
    /// A client maps an allocation or another backing. Subject: the address space. It requested
    /// `base`, or any address between `minimum` and `maximum`. `index` counts the ranges of one
    /// call.
    RangeMapped "range.mapped" {
        start: u64, end: u64, view: Option<Subject>, of: Option<Subject>, backing: Text, offset: u64,
        base: u64, minimum: u64, maximum: u64, index: u32
    }
    /// The map call returns. The mapping takes effect when the queue's fence reaches `value`.
    RangeMapReturned "range.map-returned" { start: u64, end: u64, queue: Option<Subject>, value: u64 }
    /// A `reserve` or map request for these addresses fails. Subject: the address space.
    RangeFailed "range.failed" { start: u64, end: u64, reserve: bool, why: Text }
    /// Addresses are freed by a client, or because the mapped object was destroyed
    /// (`object_destroyed`). Addresses of a reservation stay reserved (`still_reserved`).
    RangeFreed "range.freed" { start: u64, end: u64, object_destroyed: bool, still_reserved: bool }
    /// A client's address update is applied. Subject: the address space. `ignored` operations are
    /// skipped because their addresses left the reservation or their object was destroyed. `of` is
    /// the fence that the update waited for, and `fence_value` the value it waited for.
    UpdateApplied "update.applied" {
        update: u32, ignored: u32, of: Option<Subject>, fence_value: u64
    }
    /// A client's address update waits until a fence has a value. Subject: the address space.
    UpdateQueued "update.queued" { update: u32, of: Subject, fence_value: u64 }
    /// The update will never be applied because its device is destroyed.
    UpdateCancelled "update.cancelled" { update: u32 }
    /// The update's entries are written, and its fence is signaled to `fence_value` plus one.
    UpdateDone "update.done" { update: u32, of: Subject, fence_value: u64 }
    /// A packet accesses an address that it may not access. Subject: the context. `why` tells what
    /// the address contains.
    AddressFaulted "address.faulted" { space: Subject, address: u64, why: Text }

    /// A thread waits. Subject: the object it waits for.
    WaitParked "wait.parked" { why: Text }
    /// The wait ends.
    WaitEnded "wait.ended" { result: Text }
    /// The wait cannot end. `graph` lists what each thread waits for.
    WaitStuck "wait.stuck" { component: Component, graph: Text }

    /// The driver is called. Subject: the call. `threading_level` is the exclusion it runs under.
    DdiCall "ddi.call" {
        name: Text, level: Irql, threading_level: Text, adapter: Subject, process: Option<Subject>
    }
    /// The driver returns.
    DdiReturn "ddi.return" { name: Text, result: Text, legal: bool }
    /// The call passes this driver handle for the adapter. Subject: the adapter.
    DdiAdapter "ddi.adapter" { driver_handle: Subject }
    /// The call destroys this allocation. Subject: the allocation.
    DdiDestroys "ddi.destroys" { adapter: Subject }
    /// The call passes this resource's driver handle. Subject: the resource. `destroy` if the call
    /// destroys the resource; `no_allocations` if the call names no allocation.
    DdiResource "ddi.resource" { driver_handle: Subject, destroy: bool, no_allocations: bool }
    /// The call opens this view. Subject: the view. `create` if the call is part of a create call;
    /// `batch` is the number of views it opens.
    DdiOpens "ddi.opens" {
        device: Subject, resource: Option<Subject>, create: bool, batch: u32
    }
    /// The call closes this view. Subject: the view. `batch` is the number of views it closes.
    DdiCloses "ddi.closes" { device: Subject, batch: u32 }

    /// The call passes a client's private data. Subject: the call. `hardware` tells whether the
    /// client granted access to the hardware.
    DdiEscapes "ddi.escapes" { hardware: bool }
    /// The call submits paging commands, which belong to no context. Subject: the call.
    DdiPages "ddi.pages" { context: Option<Subject> }
    /// The call destroys this device or context. Subject: the device or context.
    DdiEnds "ddi.ends" {}

    /// The driver returns this handle for an object. Subject: the driver handle.
    DriverHandleSet "driver-handle.set" { of: Subject }
    /// The driver handle's object is destroyed, and the call that destroyed it has returned.
    /// `only_object` if the call destroyed no other object.
    DriverHandleEnded "driver-handle.ended" { of: Subject, only_object: bool }

    /// The driver acquires its data through a client's handle and holds it. Subject: the object
    /// that the data belongs to. `reference` is the number to release it with.
    HandleDataAcquired "handle-data.acquired" { driver_handle: Subject, reference: u32 }
    /// The driver releases the data, or the kernel releases it for the driver.
    HandleDataReleased "handle-data.released" { reference: u32 }

    /// The driver waited inside a call. Subject: the call. `ended` is the end of the wait: an event
    /// that was set at some IRQL, or a timeout.
    DriverWaited "driver.waited" { object: Text, ended: Text }
    /// A driver prints text for a debugger. Subject: the call.
    DriverPrinted "driver.printed" { text: Text }

    /// The driver misused an import in a way that is a bug check or an exception on Windows.
    /// Subject: the call.
    DriverMisuse "driver.misuse" { import: Text, why: Text }

    /// The driver allocates a pool block. Subject: its pointer.
    PoolAllocated "pool.allocated" { bytes: u64, tag: Text, caller: Callers }
    /// The driver frees the block.
    PoolFreed "pool.freed" { caller: Callers }
    /// The driver frees what it cannot free: a free block, an address that is no block, or a block
    /// with another tag.
    PoolBadFree "pool.bad-free" { why: Text, caller: Callers }
    /// A block was written after it was freed.
    PoolCorrupted "pool.corrupted" { offset: u64 }
    /// A byte next to a block was written: `distance` bytes before or behind it. It is `found` at the
    /// `free` of the block, at the `unload` of the driver, or when the call of this name has returned.
    PoolOverrun "pool.overrun" { distance: u64, before: bool, found: Text }
    /// This many blocks were to be guarded, but there was no room for their inaccessible pages.
    PoolUnguarded "pool.unguarded" { blocks: u64 }
    /// This many times the driver acquired a lock while it held another one, and there was no room
    /// to remember the order.
    LockOrderLeftOut "lock-order.left-out" { acquisitions: u64 }
    /// The operating system refuses the filter that turns system calls of the driver's own into
    /// faults.
    SystemCallsUnfiltered "system-calls.unfiltered" { why: Text }
    /// The bytes of a segment cannot be looked at. Subject: the segment.
    BytesNotSeen "bytes.not-seen" { number: u32, why: Text }
    /// A block that was allocated since the adapter started is still allocated after the driver
    /// stopped the adapter.
    PoolHeldAfterStop "pool.held-after-stop" {}
    /// An interrupt of the hardware is enabled or asserted after the driver stopped the adapter.
    InterruptLeft "interrupt.left-after-stop" {}
    /// A block is still allocated when its driver is unloaded.
    PoolLeaked "pool.leaked" {}

    /// An adapter is opened through a user-mode driver of this interface version.
    UserAdapterOpened "user-adapter.opened" { version: Hex }
    /// The adapter is closed.
    UserAdapterClosed "user-adapter.closed" {}
    /// An application creates a device on a user-mode adapter.
    UserDeviceCreated "user-device.created" { adapter: Subject }
    /// The device is destroyed.
    UserDeviceDestroyed "user-device.destroyed" {}
    /// The user-mode driver is called. Subject: the device or the adapter.
    UmdCall "umd.call" { name: Text }
    /// The user-mode driver returns. Events only carry the result.
    UmdReturn "umd.return" { name: Text, result: Hex }
    /// The user-mode driver calls the runtime. Subject: the device or the adapter.
    UmdCallback "umd.callback" { name: Text }
    /// The runtime's callback returns.
    UmdCallbackReturn "umd.callback-return" { name: Text, result: Hex }
    /// The user-mode driver creates or opens a resource of `count` surfaces.
    SurfacesCreated "surfaces.created" {
        device: Subject, count: u32, allocations: u32, shared: bool, opened: bool
    }
    /// The user-mode driver allocates memory for a resource.
    SurfacesBacked "surfaces.backed" { allocations: u32 }
    /// The application locks a surface.
    SurfaceLocked "surface.locked" { index: u32 }
    /// The application unlocks a surface.
    SurfaceUnlocked "surface.unlocked" { index: u32 }
    /// The application drops a resource. `released` tells whether the driver has released it.
    SurfacesDropped "surfaces.dropped" { released: bool }
    /// The driver releases a resource with all its memory.
    SurfacesReleased "surfaces.released" {}

    /// A streaming minidriver is added with `factories` filter factories. Subject: the device.
    KsAdded "ks.added" { factories: u32 }
    /// The device starts: filters can be opened.
    KsStarted "ks.started" {}
    /// The device's power is switched on or off.
    KsPowered "ks.powered" { on: bool }
    /// The device's hardware is surprise-removed.
    KsSurpriseRemoved "ks.surprise-removed" {}
    /// The device stops.
    KsStopped "ks.stopped" {}
    /// The device is removed.
    KsRemoved "ks.removed" {}
    /// A streaming minidriver is called. Subject: the call. `about` is the device, filter, pin or
    /// allocator; `locks` are the mutexes that its thread holds.
    KsCall "ks.call" { name: Text, level: Irql, locks: Text, device: Subject, about: Subject }
    /// The minidriver returns. `legal` tells whether it may return this result.
    KsReturn "ks.return" { name: Text, result: Text, legal: bool }
    /// A mutex of a device, a filter or a processing object is acquired. Subject: its owner. `lock`
    /// is device, control or processing; `by` is class or driver.
    KsLocked "ks.locked" { lock: Text, by: Text }
    /// The mutex is released.
    KsUnlocked "ks.unlocked" { lock: Text, by: Text }
    /// A driver puts an item into the bag of an object. Subject: the object.
    KsBagged "ks.bagged" { item: Subject }
    /// The item is removed from the bag. `freed` tells whether it is freed, too.
    KsUnbagged "ks.unbagged" { item: Subject, freed: bool }
    /// A filter exists. `has_context` tells whether its driver set a context, `dispatch` whether it
    /// is processed at dispatch level, `needs` how many pins it needs.
    FilterCreated "filter.created" {
        device: Subject, factory: u32, has_context: bool, dispatch: bool, needs: u32
    }
    /// The creation of the filter fails.
    FilterCreateFailed "filter.create-failed" {}
    /// The driver has closed the filter.
    FilterClosed "filter.closed" {}
    /// A driver is called to check a pin's format. `first` if the pin does not exist yet.
    PinFormat "pin.format" { filter: Subject, sample: u32, first: bool }
    /// A pin exists, one of at most `possible` of its factory. `standard` tells whether its states
    /// change step by step, `dispatch` whether it is processed at dispatch level, `min_state` the
    /// lowest state in which it is processed.
    PinCreated "pin.created" {
        filter: Subject, factory: u32, out: bool, has_context: bool, possible: u32, standard: bool,
        dispatch: bool, min_state: Text
    }
    /// A client gets or sets (`set`) the framing of a pin. `available` tells whether there is one,
    /// `succeeded` whether the request succeeded.
    PinFraming "pin.framing" { set: bool, available: bool, succeeded: bool }
    /// The pin is connected with `frames` frames of `bytes` bytes, aligned to a mask, from the
    /// allocator `by`.
    PinConnected "pin.connected" { frames: u32, bytes: u32, alignment: u32, by: Text }
    /// The pin is disconnected.
    PinDisconnected "pin.disconnected" {}
    /// The client requests a pin state; the driver has not been called yet.
    PinStateRequested "pin.state-requested" { from: Text, to: Text }
    /// The driver accepted the state, or could not refuse it (`forced`).
    PinStateChanged "pin.state-changed" { from: Text, to: Text, forced: bool }
    /// The driver refused the state. The client's state is restored.
    PinStateRefused "pin.state-refused" { from: Text, to: Text }
    /// The pin's frames come from its driver and not from an allocator.
    PinInjects "pin.injects" {}
    /// The pin's queue is empty.
    PinFlushed "pin.flushed" { frames: u32 }
    /// The creation of the pin fails.
    PinCreateFailed "pin.create-failed" {}
    /// The driver has closed the pin.
    PinClosed "pin.closed" {}
    /// An allocator is chosen: `by` is the driver, the default or the client. `user` if the client
    /// is in user mode.
    AllocatorChosen "allocator.chosen" { pin: Subject, by: Text, user: bool }
    /// The allocator is ready. `driver_handle` is the driver's handle.
    AllocatorReady "allocator.ready" {
        pin: Subject, driver_handle: Subject, frames: u32, bytes: u32, alignment: u32, by: Text
    }
    /// The creation of the allocator fails. There is nothing to delete.
    AllocatorFailed "allocator.failed" { why: Text }
    /// A driver call passes this driver handle for the allocator. Subject: the allocator.
    AllocatorUsed "allocator.used" { entry: Text, driver_handle: Subject }
    /// The allocator is about to be deleted. `frames_returned` tells whether all its frames were
    /// returned without force.
    AllocatorEnding "allocator.ending" { frames_returned: bool }
    /// The allocator is deleted. Nothing uses it any more.
    AllocatorDeleted "allocator.deleted" { driver_handle: Subject }
    /// A frame exists. `pointer` is the address of its memory.
    FrameCreated "frame.created" { allocator: Option<Subject>, pin: Subject, pointer: Subject, bytes: u32 }
    /// A frame allocation fails.
    FrameUnavailable "frame.unavailable" { allocator: Subject }
    /// The frame is in the queue of a pin.
    FrameQueued "frame.queued" { pin: Subject }
    /// An edge passes the frame: `edge` is leading or trailing.
    FramePassed "frame.passed" { edge: Text }
    /// The frame is done: nothing refers to it. The fields are its header and the time of
    /// completion.
    FrameDone "frame.done" {
        used: u32, time: u64, duration: u64, end: bool, discontinuity: bool, now: u64
    }
    /// The frame is canceled and leaves the queue.
    FrameCancelled "frame.cancelled" {}
    /// The frame's cancellation waits because a pointer to the frame is locked.
    FrameHeld "frame.held" { by: Subject }
    /// A client takes the frame.
    FrameTaken "frame.taken" {}
    /// The frame is back in its allocator.
    FrameReturned "frame.returned" {}
    /// The frame was not returned. `by` is its holder.
    FrameStuck "frame.stuck" { by: Subject }
    /// A driver is called to free the frame with this pointer.
    FrameFreeing "frame.freeing" { allocator: Subject, pointer: Subject }
    /// The frame is freed.
    FrameFreed "frame.freed" {}
    /// A driver clones a stream pointer to a frame. Subject: the pointer.
    PointerCloned "pointer.cloned" { pin: Subject, frame: Subject, locked: bool }
    /// The pointer is locked: the frame is not canceled.
    PointerLocked "pointer.locked" { frame: Subject }
    /// The pointer is unlocked.
    PointerUnlocked "pointer.unlocked" {}
    /// The pointer advances.
    PointerMoved "pointer.moved" { frame: Option<Subject> }
    /// The pointer is deleted by its driver, or by force.
    PointerDeleted "pointer.deleted" { forced: bool }

    /// A driver or client calls an entry point that does not exist.
    EntryMissing "entry.missing" { name: Text }
    /// A step of the scenario failed, and the scenario goes no further: what it needs. Subject: none.
    ScenarioStopped "scenario.stopped" { need: Text }
    /// A driver calls a kernel callback.
    Callback "callback" { name: Text }

    /// A rule that is judged at a door is broken.
    RuleBroken "rule.broken" { rule: RuleId, component: Component, argument: Text, message: Text }
    /// A rule that is judged at a door was broken again, `count` times, after it was logged often
    /// enough there.
    RuleRepeated "rule.repeated" { rule: RuleId, component: Component, argument: Text, message: Text, count: u64 }
}

impl EventKind {
    /// The functions of a driver that led to it, if it has them.
    pub fn callers(&self) -> Option<&Callers> {
        match self {
            Self::PoolAllocated { caller, .. }
            | Self::PoolFreed { caller }
            | Self::PoolBadFree { caller, .. } => Some(caller),
            _ => None,
        }
    }

    /// Replaces the functions of a driver that led to it, if it has them.
    pub fn set_callers(&mut self, callers: Callers) {
        match self {
            Self::PoolAllocated { caller, .. }
            | Self::PoolFreed { caller }
            | Self::PoolBadFree { caller, .. } => *caller = callers,
            _ => (),
        }
    }
}

/// The ` name=value` fields of a line, in order.
struct Values<'a>(&'a str);

impl<'a> Values<'a> {
    /// The next value, which must have this name.
    fn next(&mut self, name: &str) -> Option<&'a str> {
        let rest = self.0.trim_start().strip_prefix(name)?.strip_prefix('=')?;
        let end = if rest.starts_with('"') {
            let mut escaped = false;
            let closing = rest.char_indices().skip(1).find(|(_, c)| {
                let closes = *c == '"' && !escaped;
                escaped = *c == '\\' && !escaped;
                closes
            });
            closing?.0 + 1
        } else {
            rest.find(' ').unwrap_or(rest.len())
        };
        let (value, rest) = rest.split_at(end);
        self.0 = rest;
        Some(value)
    }
}

/// The most bytes before the name of an event.
const HEAD_LENGTH: usize =
    u64::LENGTH + " t".len() + u32::LENGTH + " c".len() + u32::LENGTH + 1 + Subject::LENGTH;

const _: () = assert!(HEAD_LENGTH + EventKind::LENGTH + "\n".len() <= LINE_LENGTH);

impl Event {
    /// Changes what happened. The kind before must have no memory of its own: it is not dropped, since
    /// that would take a look at it.
    #[expect(clippy::inline_always, reason = "a call would copy each event once more")]
    #[inline(always)]
    pub(crate) fn replace_kind(&mut self, kind: EventKind) {
        debug_assert!(!self.kind.owns_memory(), "{:?} would not be freed", self.kind);
        std::mem::forget(std::mem::replace(&mut self.kind, kind));
    }

    /// Writes one line at `end`, without its own end: number, thread, call, subject, name, values.
    /// Returns the end behind them.
    #[expect(clippy::inline_always, reason = "see `LineBuffer::push_all`")]
    #[inline(always)]
    pub(crate) fn write(&self, to: &mut LineBuffer, end: usize) -> usize {
        let end = to.put_event_number(end, self.seq);
        let end = to.put_origin(end, self.thread, self.call);
        let end = self.subject.write(to, end);
        self.kind.write(to, end)
    }
}

/// The buffer in which events are displayed. It is too large for the stack of a driver's thread.
static DISPLAYED: Mutex<LineBuffer> = Mutex::new(LineBuffer::new());

impl fmt::Display for Event {
    /// The line in a trace, without its end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = {
            let mut lines = DISPLAYED.lock().unwrap_or_else(PoisonError::into_inner);
            lines.clear();
            lines.push(self);
            String::from_utf8_lossy(lines.text()).into_owned()
        };
        f.write_str(line.trim_end_matches('\n'))
    }
}

impl std::str::FromStr for Event {
    type Err = ();

    /// Reads a line as `Display` writes it.
    fn from_str(line: &str) -> Result<Self, ()> {
        let read = || {
            let mut pointers = line.splitn(6, ' ');
            let seq = pointers.next()?.parse().ok()?;
            let thread = pointers.next()?.strip_prefix('t')?.parse().ok()?;
            let call = match pointers.next()? {
                "-" => None,
                call => Some(call.strip_prefix('c')?.parse().ok()?),
            };
            let subject = pointers.next()?.parse().ok()?;
            let name = pointers.next()?;
            let mut values = Values(pointers.next().unwrap_or(""));
            let what = EventKind::read(name, &mut values)?;
            values.0.trim().is_empty().then_some(Event { seq, thread, call, subject, kind: what })
        };
        read().ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    fn back_and_forth(subject: Subject, what: EventKind, line: &str) {
        let event = Event { seq: 7, thread: 1, call: Some(3), subject, kind: what };
        assert_eq!(event.to_string(), line);
        assert_eq!(line.parse(), Ok(event));
    }

    #[test]
    fn an_event_is_read_back_as_it_was_written() {
        back_and_forth(
            Kind::Node.subject(0),
            EventKind::FenceReported { fence: Fence(4) },
            "7 t1 c3 node:0 fence.reported fence=4",
        );
        back_and_forth(
            Kind::Run.subject(0),
            EventKind::WaitStuck {
                component: Component::Client,
                graph: "a \"b\" \\ c\nd\u{1}".into(),
            },
            r#"7 t1 c3 run:0 wait.stuck component=client graph="a \"b\" \\ c\nd\u{1}""#,
        );
        back_and_forth(
            Kind::Process.subject(1),
            EventKind::ProcessOpened {},
            "7 t1 c3 process:1 process.opened",
        );
        let freed = |caller: &'static str| EventKind::PoolFreed { caller: Callers(caller.into()) };
        let block = Kind::DriverPointer.subject(2);
        back_and_forth(block, freed("a b"), r#"7 t1 c3 driver-pointer:2 pool.freed caller="a b""#);
        back_and_forth(block, freed(""), "7 t1 c3 driver-pointer:2 pool.freed");
    }

    #[test]
    fn a_line_that_is_not_an_event_is_refused() {
        for line in ["", "7", "7 t1 - node:0 no.such", "7 t1 - node:0 fence.reported fence=x"] {
            assert!(line.parse::<Event>().is_err(), "{line}");
        }
        assert!("7 t1 - node:0 fence.reported fence=1 more=2".parse::<Event>().is_err());
    }
}
