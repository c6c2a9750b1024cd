//! Events: everything that happens, in words that can be written down and read back.
//!
//! An event says what happened to one subject, on which virtual thread, and inside which call
//! of a driver. It holds numbers and text, never a pointer or a Windows type.

use crate::field::{Field, Hex, Text, push_text};
use crate::{Component, Fence, Irql, RuleId, Subject};
use std::fmt;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its place in the order of everything.
    pub seq: u64,
    /// The virtual thread it happened on.
    pub thread: u32,
    /// The driver call it happened in, by the number of that call.
    pub call: Option<u32>,
    /// What it happened to.
    pub subject: Subject,
    /// What happened.
    pub kind: EventKind,
}

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

            /// Its values in text, each ` name=value`.
            fn write(&self, to: &mut Vec<u8>) {
                match self {
                    $(EventKind::$variant { $($field),* } => {
                        $(
                            push_text(concat!(" ", stringify!($field), "="), to);
                            $field.write(to);
                        )*
                    })*
                }
            }

            /// Reads what `write` wrote.
            fn read(name: &str, values: &mut Values<'_>) -> Option<EventKind> {
                match name {
                    $($name => Some(EventKind::$variant {
                        $($field: <$type>::read(values.next(stringify!($field))?)?),*
                    }),)*
                    _ => None,
                }
            }
        }
    };
}

events! {
    /// A virtual thread of the run exists.
    ThreadStarted "thread.started" { name: Text }

    /// A virtual thread that serves others went on for so many turns while no client ran: it
    /// would not end.
    ThreadRunaway "thread.runaway" { name: Text, turns: u64 }

    /// A client called: subject the process.
    Enter "enter" { call: Text }
    /// Its call was answered with a status, a number that events only pass on.
    Leave "leave" { call: Text, status: Hex }

    /// The process's table took its next name, for something about to be built.
    HandleReserved "handle.reserved" { handle: Hex }
    /// A reserved name was given back: the call failed.
    HandleCancelled "handle.cancelled" { handle: Hex }
    /// A name was published: clients can use it.
    HandlePublished "handle.published" { handle: Hex, of: Subject }
    /// A name ended.
    HandleClosed "handle.closed" { handle: Hex, of: Subject }
    /// A global name was given: it is valid in every process.
    HandleShared "handle.shared" { handle: Hex, of: Subject }

    /// A process began.
    ProcessOpened "process.opened" {}
    /// Something of the process was alive when the process ended: one event for each.
    ProcessLeaked "process.leaked" { object: Subject }
    /// A process ended, with everything in it.
    ProcessEnded "process.ended" {}

    /// An adapter started. `generation` is the driver model, 1 or 2 (WDDM 1.x or 2.x).
    AdapterStarted "adapter.started" { nodes: u32, generation: u32 }
    /// An adapter stopped.
    AdapterStopped "adapter.stopped" {}
    /// Its driver was told to change its power: `state` is d0 or d3.
    AdapterPowered "adapter.powered" { state: Text }
    /// Its hardware was pulled out: nothing that it had to do will be done.
    AdapterSurpriseRemoved "adapter.surprise-removed" {}
    /// A node of an adapter exists.
    NodeStarted "node.started" { adapter: Subject, ordinal: u32 }

    /// The driver made a device.
    DeviceCreated "device.created" { process: Subject, adapter: Subject }
    /// Paging commands for what it has, an allocation or a save area, were lost in a reset.
    DevicePagingLost "device.paging-lost" { of: Subject, paging: Subject }
    /// A device cannot work any more; its work counts as done.
    DeviceLost "device.lost" { why: Text }
    /// A client was told how the device is: `active`, or why it is lost.
    DeviceStateQueried "device.state-queried" { state: Text }
    /// The driver was told that the device is gone.
    DeviceDestroyed "device.destroyed" {}

    /// The driver made a context.
    ContextCreated "context.created" { device: Subject, node: Subject }
    /// The driver was told that the context is gone.
    ContextDestroyed "context.destroyed" {}

    /// A resource exists, created by `device`. `sharing` is none, global or nt.
    ResourceCreated "resource.created" { adapter: Subject, device: Subject, sharing: Text }
    /// The driver was told that the resource is gone.
    ResourceDestroyed "resource.destroyed" {}
    /// What a shared resource has for its openers: bytes of the runtime's data, and of its
    /// members' private data together.
    ShareRecorded "share.recorded" { runtime: u64, total: u64 }
    /// A client was told of them; `copied` is how many bytes of data it was given.
    ShareQueried "share.queried" { runtime: u64, total: u64, copied: u64 }
    /// An opener was given them: so many bytes of private data as it is told, and bytes in all.
    ShareOpened "share.opened" { written: u64, copied: u64 }
    /// A device has a view of a resource.
    ResourceViewOpened "resource-view.opened" { resource: Subject, device: Subject }
    /// Its name is closed, by a destroy call of `by`.
    ResourceViewRetiring "resource-view.retiring" { by: Subject, retirement: Subject }
    /// Its views are closed.
    ResourceViewClosed "resource-view.closed" {}

    /// The driver described an allocation: `given` is the digest of the private data the client
    /// or the kernel gave, `seen` of what the driver was shown.
    AllocationCreated "allocation.created" {
        adapter: Subject, device: Subject, resource: Option<Subject>,
        size: u64, pitch_size: u64, alignment: u64, client_data: Hex, driver_data: Hex
    }
    /// Its driver does not want more than so many instances of it.
    AllocationLimited "allocation.limited" { limit: u32 }
    /// Its memory and paging work are given back: no view of it is in use.
    AllocationDecommitted "allocation.decommitted" {}
    /// The driver was told that the allocation is gone.
    AllocationDestroyed "allocation.destroyed" {}

    /// The driver opened an allocation for a device. `answered` says whether it gave a word.
    ViewOpened "view.opened" {
        allocation: Subject, device: Subject, resource: Option<Subject>, handle_set: bool
    }
    /// The view's name is closed, by a destroy call of `by`: no new use can start.
    ViewRetiring "view.retiring" { by: Subject, retirement: Subject }
    /// What its device had queued before has passed, or is disregarded.
    ViewIdle "view.idle" {}
    /// The driver was told that the view is closed.
    ViewClosed "view.closed" {}

    /// A destroy was asked for: of `views` views of a device.
    RetireRequested "retire.requested" { device: Subject, views: u32, assume_not_in_use: bool, synchronous: bool }
    /// It waits for this work: so many packets of a context.
    RetireWaits "retire.waits" { context: Subject, packet: u64 }
    /// All its views are idle.
    RetireIdle "retire.idle" {}
    /// All its views are closed, and what they were the last views of is gone.
    RetireDone "retire.done" {}
    /// Whoever asked has the answer: `done` is false where a wait was given up.
    RetireReturned "retire.returned" { done: bool }

    /// A client asked for an escape: subject the process. `resolved` says whether what it named
    /// is there, and belongs together.
    EscapeRequested "escape.requested" { hardware: bool, resolved: bool }

    /// A context was given work: it is the context's packet of that number.
    PacketQueued "packet.queued" { packet: u64 }
    /// The digests of a packet's private data, as its client gave it and as it is when the call
    /// is over: subject the process. Only where nobody else can have changed it.
    PacketPrivate "packet.private" { bytes: u32, before: Hex, after: Hex }
    /// The node was given the packet: subject the context.
    PacketSubmitted "packet.submitted" { packet: u64, node: Subject, fence: Fence }
    /// The node gave the packet back, or lost it in a reset, before it was done: it will be
    /// submitted again. Subject the context.
    PacketReturned "packet.returned" { packet: u64, node: Subject, fence: Fence }
    /// The packet never got to a node, and will not: subject the context.
    PacketCancelled "packet.cancelled" { packet: u64 }
    /// The driver reported a fence: subject the node.
    FenceReported "fence.reported" { fence: Fence }
    /// A fence passed: subject the node.
    FencePassed "fence.passed" { fence: Fence }
    /// A driver asked for its DPC: subject the adapter. It is `fresh` if it was not pending.
    DpcQueued "dpc.queued" { inserted: bool }
    /// The driver was told to report vsyncs, or not to any more: subject the adapter.
    VsyncSwitched "vsync.switched" { on: bool }
    /// The driver reported a vsync: subject the adapter.
    VsyncReported "vsync.reported" {}
    /// The work is done, or counts as done: subject the context.
    PacketDone "packet.done" { packet: u64, node: Subject, fence: Fence }

    /// A context has packets with lists: how large its driver wants their buffers.
    ContextLists "context.lists" { commands: u32, list: u32, patches: u32 }
    /// A driver wrote commands for the hardware in place of a client's, in so many bytes, into
    /// its `advance_time`th buffer, where there was so much `room`: subject the context.
    PacketRendered "packet.rendered" {
        pass: u32, commands: u32, capacity: u32, bytes: u32, uses: u32, patches: u32, result: Text
    }
    /// A packet with lists is about to be given to a node, and uses this: subject the allocation,
    /// where it is then.
    PacketUses "packet.uses" { node: Subject, fence: Fence, segment: Subject, address: u64 }
    /// Its driver writes addresses into a part of it: subject the node.
    PacketPatched "packet.patched" { fence: Fence, start: u32, end: u32 }
    /// A part of it goes to the hardware: subject the node. With `null` its commands are not to
    /// be done.
    PacketStarted "packet.started" { fence: Fence, start: u32, end: u32, null: bool }

    /// A node is asked to give back what it has: subject the node.
    NodePreempting "node.preempting" { preemption: Fence, why: Text }
    /// The driver reported that it did, with the last fence that is done.
    NodePreempted "node.preempted" { preemption: Fence, last: Fence }
    /// A node does not move: subject the node. `stage` says what is done about it, at that time.
    NodeTimedOut "node.timed-out" { fence: Fence, stage: Text, now: u64 }
    /// The driver reset a node: all up to the fence it says is over.
    NodeReset "node.reset" { done: Fence, aborted: Fence, submitted: Fence }
    /// The driver reset the whole adapter: subject it. It is the `count`th within a minute.
    AdapterReset "adapter.reset" { now: u64, count: u32 }
    /// It takes work again.
    AdapterRestarted "adapter.restarted" {}
    /// The system stops: subject the adapter.
    AdapterFatal "adapter.fatal" { why: Text }

    /// A part of an adapter's memory exists: `number` is the driver's for it, from one on. It is
    /// a `target` if applications' memory comes from it.
    SegmentFound "segment.found" {
        adapter: Subject, number: u32, base: u64, size: u64, aperture: bool, target: bool
    }
    /// What a driver says of the memory of an allocation: the CPU may lock it (`seen`), its view
    /// is `cached`, it never moves (`pinned`), the driver is `told` when it comes and goes, it
    /// can be in an aperture (`mappable`).
    MemoryRequirements "memory.requirements" {
        cpu_visible: bool, cached: bool, pinned: bool, notified: bool, mappable: bool
    }
    /// An allocation was given a place, at an address of the GPU's: its bytes come there by
    /// paging work.
    MemoryPlaced "memory.placed" { segment: Subject, address: u64, bytes: u64 }
    /// It loses its place; its bytes are moved to the system's memory, or `discard`ed.
    MemoryEvicted "memory.evicted" { segment: Subject, discard: bool, why: Text }
    /// It has no memory any more.
    MemoryFreed "memory.freed" {}

    /// Paging work was planned: subject it. It waits for so many fences.
    PagingPlanned "paging.planned" { adapter: Subject, steps: u32, waits: u32 }
    /// A driver wrote commands for an operation on an allocation: `advance_time` counts its buffers from
    /// one on, `whole` says that it is written to its end. `address` is the GPU's, in that
    /// segment; `come` says that the allocation, of that `size`, comes there and does not leave.
    /// `bytes` are the commands', `private` is the digest of what an update carries. `word` is the
    /// driver's for it, `idle` what it was told of packets that use it.
    PagingBuilt "paging.built" {
        operation: Text, of: Subject, driver_handle: Subject, segment: Subject, address: u64,
        size: u64, private: Hex, page_in: bool, idle: bool, bytes: u32, pass: u32, result: Text,
        complete: bool
    }
    /// A driver has written to a buffer with private data of its own: subject the adapter. The
    /// digests are of so many bytes of it, before the call and after it.
    PagingPrivate "paging.private" { buffer: u64, bytes: u32, before: Hex, after: Hex }
    /// The node was given commands of paging work: subject the node. `switch` when they end the
    /// time of the context that is current there.
    PagingSubmitted "paging.submitted" {
        paging: Subject, fence: Fence, bytes: u32, switch: bool
    }
    /// An operation is done: subject the paging work.
    PagingDone "paging.done" { operation: Text, of: Subject, segment: Subject, page_in: bool }
    /// A driver was told of something that a reset has lost, so many bytes: subject the adapter.
    PagingDropped "paging.dropped" { operation: Text, of: Subject, bytes: u64 }
    /// All of it is done, or counts as done.
    PagingEnded "paging.ended" { lost: bool }

    /// A device's list of what must be resident: subject the view, so often on it now. Once more
    /// by a call for that queue, or once less: then the client said whether the memory may stay
    /// until it is needed (`lazily`), and that the GPU has not written to it (`clean`).
    ResidencyCounted "residency.counted" {
        device: Subject, queue: Option<Subject>, count: u32, only_if_necessary: bool, not_written: bool
    }
    /// A client asked for residency of some views: `answer` is resident, pending or no-memory.
    /// Pending is until the queue's fence has that `value`; `must` when it has to succeed.
    ResidencyRequested "residency.requested" {
        queue: Subject, views: u32, must_succeed: bool, result: Text, value: u64, trim: u64
    }

    /// A client was told what it has of an adapter's memory, its own (`local`) or what is mapped
    /// into apertures: subject the process.
    BudgetQueried "budget.queried" {
        adapter: Subject, local: bool, budget: u64, usage: u64, reserved: u64, reservable: u64
    }
    /// A client asked where a view is, alone or with others of a resource (`of`): subject the
    /// view. `answer` is what it was told of all it asked for: local, shared or away.
    ResidencyQueried "residency.queried" { of: Option<Subject>, result: Text }
    /// A client was told how many bytes it should let go of, in answer to a call or in a
    /// notification (`by`): subject the process. What it lists comes to `usage` in the adapter's
    /// own memory and to `shared_usage` in apertures; so many bytes are `missing` besides.
    TrimRequired "trim.required" {
        adapter: Subject, by: Text, usage: u64, budget: u64, shared_usage: u64,
        shared_budget: u64, missing: u64, bytes: u64
    }
    /// A client's function is called since memory is short: subject the device it is for.
    /// `flags` are the notification's: to-budget, periodic and restart-periodic, with a plus between.
    TrimNotified "trim.notified" { flags: Text, bytes: u64 }
    /// It has returned.
    TrimReturned "trim.returned" { bytes: u64 }

    /// A client's queue of paging work exists: subject it.
    PagingQueueCreated "paging-queue.created" { device: Subject, priority: u32 }
    /// Paging work of it will signal this value: subject the queue.
    PagingQueueAssigned "paging-queue.assigned" { paging: Subject, value: u64 }
    /// Its fence has this value.
    PagingQueueSignalled "paging-queue.signalled" { value: u64 }
    /// It is gone, and its fence with it.
    PagingQueueDestroyed "paging-queue.destroyed" {}

    /// A keyed mutex exists, free for a key: subject it. `handle` is its maker's name of it, and
    /// `global` its global one, zero if it has none. `sharing` is global or nt; `runtime` is how
    /// many bytes of the runtime's data it has.
    KeyedMutexCreated "keyed-mutex.created" {
        process: Subject, handle: Hex, global: Hex, sharing: Text, key: u64, runtime: u64
    }
    /// A process that has so many bytes of room for the runtime's data has a name of it more.
    KeyedMutexOpened "keyed-mutex.opened" { process: Subject, handle: Hex, capacity: u64 }
    /// A process has too little room for the runtime's data, and gets no name.
    KeyedMutexOpenFailed "keyed-mutex.open-failed" { process: Subject, capacity: u64 }
    /// An opener was answered. `room` is the size it came with, `size` what it finds in that
    /// field, `copied` how many bytes were written.
    KeyedMutexOpenReturned "keyed-mutex.open-returned" { capacity: u64, size: u64, copied: u64 }
    /// It is owned through a name, with the fence value of its last release.
    KeyedMutexAcquired "keyed-mutex.acquired" { process: Subject, handle: Hex, key: u64, fence: u64 }
    /// An acquire ended without it: timed-out or abandoned.
    KeyedMutexNotAcquired "keyed-mutex.not-acquired" { process: Subject, handle: Hex, key: u64, result: Text }
    /// What the caller of an acquire finds in its fields, who asked for a key: acquired,
    /// timed-out or abandoned.
    KeyedMutexAcquireReturned "keyed-mutex.acquire-returned" { result: Text, requested: u64, key: u64, fence: u64 }
    /// It is free for the next key. `runtime` is how many bytes of the runtime's data it has now.
    KeyedMutexReleased "keyed-mutex.released" {
        process: Subject, handle: Hex, key: u64, fence: u64, runtime: u64
    }
    /// The name it was owned through ends: nobody gets it any more.
    KeyedMutexAbandoned "keyed-mutex.abandoned" { process: Subject, handle: Hex }
    /// A process has a name of it less.
    KeyedMutexClosed "keyed-mutex.closed" { process: Subject, handle: Hex }
    /// Its last name is closed: it is gone, and its global name with it.
    KeyedMutexDestroyed "keyed-mutex.destroyed" {}

    /// A client asked for a lock, and has it refused rather than wait for the device's work
    /// (`hurries`) or have something moved (`still`): subject the view.
    LockRequested "lock.requested" { do_not_wait: bool, do_not_evict: bool }
    /// The CPU sees an allocation, in memory, in an aperture or in the system's memory: subject
    /// the view. `count` is how often it is locked.
    LockAcquired "lock.acquired" { count: u32, location: Text, do_not_wait: bool }
    /// The view of a locked allocation was aimed anew, after paging work: subject the allocation.
    LockRemapped "lock.remapped" { location: Text }
    /// One lock of it ended, or was `dropped` because it ended.
    LockEnded "lock.ended" { count: u32, dropped: bool }

    /// Another instance of an allocation was made: subject the instance. Its driver knows it by
    /// that word; `count` are there now.
    InstanceCreated "instance.created" { of: Subject, view: Subject, driver_handle: Subject, count: u32 }
    /// By a lock that discards, another instance is the newest, or the allocation itself again:
    /// subject the view. That happened so often, the first time when it was made.
    LockRenamed "lock.renamed" { to: Subject, turn: u64 }
    /// An instance is gone, with its memory.
    InstanceDestroyed "instance.destroyed" {}

    /// An allocation was offered: its bytes may go when memory is short. Subject the view.
    OfferStarted "offer.started" { priority: u32, waits: u32 }
    /// The work before the offer is done: from here on it may go.
    OfferReady "offer.ready" {}
    /// It was taken back; its bytes were thrown away or not. By a call for a queue it comes back
    /// if it must be resident, and is there when the queue's fence has that `value`.
    OfferEnded "offer.ended" { discarded: bool, queue: Option<Subject>, value: u64 }

    /// A driver made an allocation for a context, or for all of a device.
    ContextAllocationCreated "context-allocation.created" {
        adapter: Subject, device: Subject, context: Option<Subject>, bytes: u64, driver_handle: Subject
    }
    /// The driver wants it brought up to date: `given` is the digest of what it gave for that.
    ContextAllocationUpdating "context-allocation.updating" { data: Hex }
    /// The driver has its answer to that.
    ContextAllocationUpdated "context-allocation.updated" {}
    /// The driver freed it: its name is gone. Not so if its owner ended first (`forgotten`).
    ContextAllocationFreed "context-allocation.freed" { owner_ended: bool }
    /// Its memory was given back.
    ContextAllocationDestroyed "context-allocation.destroyed" {}
    /// A node has another context current, or none: subject the node.
    NodeSwitched "node.switched" { to: Option<Subject> }

    /// A synchronisation object exists: a mutex, semaphore, fence, monitored (fence) or
    /// notification. Its device may not signal it (`silent`) or wait for it (`deaf`), and a reset
    /// leaves its value alone (`stays`).
    SyncCreated "sync.created" {
        device: Subject, kind: Text, value: u64, sharing: Text, no_signal: bool, no_wait: bool,
        no_tdr_signal: bool
    }
    /// A client was told its names: local and global, or zero.
    SyncHandlesReturned "sync.handles-returned" { handle: Hex, global: Hex }
    /// A client opened it by a global name.
    SyncOpened "sync.opened" { process: Subject, global: Hex }
    /// A client's name of it ended; so many are left, of all clients.
    SyncClosed "sync.closed" { process: Subject, handles: u32 }
    /// It is gone: it has no name, and nothing queued needs it.
    SyncDestroyed "sync.destroyed" {}
    /// A client wants to signal it, or to wait for it (`what`), for a device: `answer` is taken or
    /// denied.
    SyncRequested "sync.requested" { device: Subject, operation: Text, result: Text }
    /// It was signalled: by the cpu, a context, a broadcast or a reset. `value` is what it has now:
    /// a semaphore's count, one for a mutex that is free. `shown` is what the CPU reads.
    SyncSignalled "sync.signalled" { by: Text, value: u64, shown: Option<u64> }
    /// A context came to a broadcast signal of it, for which so many more have to come.
    SyncReached "sync.reached" { broadcast: u32, context: Subject, remaining: u32 }
    /// A wait took a mutex, or one of a semaphore.
    SyncAcquired "sync.acquired" { by: Subject, remaining: u64 }
    /// A mutex was held by a context that ended: it is free.
    SyncAbandoned "sync.abandoned" { context: Subject }
    /// A wait begins, of a context, a thread (which blocks) or an event: subject it. It names so
    /// many objects, and needs all or `any`.
    GpuWaitStarted "gpu-wait.started" { waiter: Subject, waiter_kind: Text, any: bool, count: u32 }
    /// What it names: an object or a paging queue, and the value it needs.
    GpuWaitObject "gpu-wait.object" { of: Subject, value: u64 }
    /// It is satisfied: whoever waits goes on.
    GpuWaitSatisfied "gpu-wait.satisfied" {}
    /// It will not be: what waited has ended.
    GpuWaitCancelled "gpu-wait.cancelled" {}
    /// What a device could have signalled was signalled, since a reset hit it: subject the device.
    FencesReset "fences.reset" {}
    /// A client's event exists: subject it.
    EventCreated "event.created" { process: Subject }
    /// It is set, for a wait or a notification.
    EventSet "event.set" { by: Option<Subject> }
    /// It is not set any more.
    EventReset "event.reset" {}
    /// The client closed it.
    EventClosed "event.closed" {}
    /// A driver met a process that uses its adapter: subject its address space. The system's own
    /// has no process. Addresses have so many bits; page tables are made invalid `again` before
    /// they go.
    AddressSpaceCreated "address-space.created" {
        adapter: Subject, process: Option<Subject>, bits: u32, invalidates_tables: bool
    }
    /// The driver was told that the process does not use the adapter any more.
    AddressSpaceDestroyed "address-space.destroyed" {}
    /// A context has this root from here on, of so many entries: subject the space. `idle` when
    /// none of its packets is with the hardware.
    RootSet "root.set" { context: Option<Subject>, table: Subject, entries: u32, idle: bool }
    /// A page table exists, of so many entries from that address on: subject the table. One of
    /// level zero has entries of pages.
    PageTableCreated "page-table.created" { space: Subject, level: u32, address: u64, entries: u32 }
    /// A driver was asked to write entries of a table, which translate from `address` on: subject
    /// the table. `by` is who writes them: the cpu, without a buffer, or the gpu. They are all
    /// `what`: invalid, zero, table or page; of which allocation, from `offset` on, and the
    /// first one's segment and page; `steady` when its pages follow each other in the allocation.
    PageTableWritten "page-table.written" {
        space: Subject, level: u32, by: Text, first: u32, count: u32, address: u64, entry_kind: Text,
        of: Option<Subject>, offset: u64, sequential: bool, segment: u32, page: u64, initial: bool,
        evicts: bool
    }
    /// A driver was asked to have translations forgotten, from `start` up to `end`: subject the
    /// space. Both are zero for all there is.
    TlbFlushed "tlb.flushed" { start: u64, end: u64 }
    /// A page table is gone, its memory given back.
    PageTableDestroyed "page-table.destroyed" {}
    /// A driver keeps addresses of a process that it met, and clients may have things mapped there
    /// if they are `shown`: subject the space.
    RangeDriverReserved "range.driver-reserved" { start: u64, end: u64, client_visible: bool }
    /// A client reserved addresses: subject the space. It asked for `base`, or for any between
    /// `minimum` and `maximum`; they are there when the queue's fence has that `value`.
    RangeReserved "range.reserved" {
        start: u64, end: u64, reservation: u32, backing: Text, base: u64, minimum: u64,
        maximum: u64, queue: Option<Subject>, value: u64
    }
    /// A client has something mapped at addresses: subject the space. It asked for `base`, or for
    /// any between `minimum` and `maximum`. `order` counts the ranges of one call.
    RangeMapped "range.mapped" {
        start: u64, end: u64, view: Option<Subject>, of: Option<Subject>, backing: Text, offset: u64,
        base: u64, minimum: u64, maximum: u64, index: u32
    }
    /// The call that mapped has its answer: it is done when the queue's fence has that `value`.
    RangeMapReturned "range.map-returned" { start: u64, end: u64, queue: Option<Subject>, value: u64 }
    /// A client could not have these addresses, by a `reserve` or a map: subject the space.
    RangeFailed "range.failed" { start: u64, end: u64, reserve: bool, why: Text }
    /// Addresses are free again: a client freed them, or what was mapped there `ended`. Those of
    /// a reservation are `kept` then: only reserved.
    RangeFreed "range.freed" { start: u64, end: u64, object_destroyed: bool, still_reserved: bool }
    /// A client's update of addresses is applied: subject the space. So many of its operations
    /// are `ignored`, for addresses that are not of its reservation any more, or something that is
    /// gone. `of` is the fence that it waited for, which had to have the value `wanted`.
    UpdateApplied "update.applied" {
        update: u32, ignored: u32, of: Option<Subject>, fence_value: u64
    }
    /// A client's update of addresses waits until a fence has a value: subject the space.
    UpdateQueued "update.queued" { update: u32, of: Subject, fence_value: u64 }
    /// It will never be applied: its device ends.
    UpdateCancelled "update.cancelled" { update: u32 }
    /// Its entries are written, and its fence was signalled: to the value behind `wanted`.
    UpdateDone "update.done" { update: u32, of: Subject, fence_value: u64 }
    /// A packet touched an address at which nothing was for it: subject the context. `why` is
    /// what was there.
    AddressFaulted "address.faulted" { space: Subject, address: u64, why: Text }

    /// Somebody waits: subject what it waits for.
    WaitParked "wait.parked" { why: Text }
    /// The wait ended.
    WaitEnded "wait.ended" { result: Text }
    /// The wait could not end. `graph` says who waits for what.
    WaitStuck "wait.stuck" { graph: Text }

    /// The driver is called: subject the call. `class` is the exclusion it runs under.
    DdiCall "ddi.call" {
        name: Text, level: Irql, threading_level: Text, adapter: Subject, process: Option<Subject>
    }
    /// The driver returned.
    DdiReturn "ddi.return" { name: Text, result: Text, legal: bool }
    /// The call carries this word for the adapter: subject the adapter.
    DdiAdapter "ddi.adapter" { driver_handle: Subject }
    /// The call destroys this allocation: subject the allocation.
    DdiDestroys "ddi.destroys" { adapter: Subject }
    /// The call carries this resource's word: subject the resource. `goes` with the call or
    /// stays; `alone` when the call names no allocation.
    DdiResource "ddi.resource" { driver_handle: Subject, destroy: bool, no_allocations: bool }
    /// The call opens this view: subject the view. `create` when it is part of a create call,
    /// `batch` is how many it opens.
    DdiOpens "ddi.opens" {
        device: Subject, resource: Option<Subject>, create: bool, batch: u32
    }
    /// The call closes this view: subject the view. `batch` is how many it closes.
    DdiCloses "ddi.closes" { device: Subject, batch: u32 }

    /// The call carries a client's private data: subject the call. `hardware` says whether the
    /// client gave access to the hardware.
    DdiEscapes "ddi.escapes" { hardware: bool }
    /// The call gives a node paging commands: subject the call. They are of no context.
    DdiPages "ddi.pages" { context: Option<Subject> }
    /// The call ends this device or context: subject it.
    DdiEnds "ddi.ends" {}

    /// The driver gave this word for something: subject the word.
    DriverHandleSet "driver-handle.set" { of: Subject }
    /// What the word was for is gone, and the call that said so has returned. `alone` when
    /// that call named nothing else.
    DriverHandleEnded "driver-handle.ended" { of: Subject, only_object: bool }

    /// The driver acquired its data by a client's handle, and holds it: subject what the data
    /// is of. `hold` is the number it is let go with.
    HandleDataAcquired "handle-data.acquired" { driver_handle: Subject, reference: u32 }
    /// It let go of the data, or was made to.
    HandleDataReleased "handle-data.released" { reference: u32 }

    /// The driver waited inside a call: subject the call. `ended` says how that ended: by an event
    /// that was set at some level, or by time.
    DriverWaited "driver.waited" { object: Text, ended: Text }

    /// The driver took a pool block: subject its word.
    PoolAllocated "pool.allocated" { bytes: u64, tag: Text }
    /// It gave the block back.
    PoolFreed "pool.freed" {}
    /// It gave back what it could not: a block already free, no block at all, or with a wrong tag.
    PoolBadFree "pool.bad-free" { why: Text }
    /// A block was written to after it was freed.
    PoolCorrupted "pool.corrupted" { offset: u64 }
    /// A block that was taken since the adapter started was still out when its driver had stopped
    /// it.
    PoolHeldAfterStop "pool.held-after-stop" {}
    /// A block was still out when its driver ended.
    PoolLeaked "pool.leaked" {}

    /// An adapter was opened through a user-mode driver of this interface version.
    UserAdapterOpened "user-adapter.opened" { version: Hex }
    /// It was closed.
    UserAdapterClosed "user-adapter.closed" {}
    /// An application has a device on such an adapter.
    UserDeviceCreated "user-device.created" { adapter: Subject }
    /// It is gone.
    UserDeviceDestroyed "user-device.destroyed" {}
    /// The user-mode driver is called: subject the device, or the adapter.
    UmdCall "umd.call" { name: Text }
    /// It returned, with a result that events only pass on.
    UmdReturn "umd.return" { name: Text, result: Hex }
    /// It called back: subject the device, or the adapter.
    UmdCallback "umd.callback" { name: Text }
    /// That was answered.
    UmdCallbackReturn "umd.callback-return" { name: Text, result: Hex }
    /// It has made or opened a resource of so many surfaces.
    SurfacesCreated "surfaces.created" {
        device: Subject, count: u32, allocations: u32, shared: bool, opened: bool
    }
    /// It has allocated memory for a resource.
    SurfacesBacked "surfaces.backed" { allocations: u32 }
    /// The application has locked a surface.
    SurfaceLocked "surface.locked" { index: u32 }
    /// The application has unlocked a surface.
    SurfaceUnlocked "surface.unlocked" { index: u32 }
    /// The application has dropped a resource, which the driver has released by then or not.
    SurfacesDropped "surfaces.dropped" { released: bool }
    /// The driver has released a resource with all its memory.
    SurfacesReleased "surfaces.released" {}

    /// A streaming minidriver was added, with so many filter factories: subject the device.
    KsAdded "ks.added" { factories: u32 }
    /// It started: filters can be opened.
    KsStarted "ks.started" {}
    /// Its power comes or goes.
    KsPowered "ks.powered" { on: bool }
    /// Its hardware was pulled out.
    KsSurpriseRemoved "ks.surprise-removed" {}
    /// It stopped.
    KsStopped "ks.stopped" {}
    /// It is gone.
    KsRemoved "ks.removed" {}
    /// A streaming minidriver is called: subject the call. `about` is the device, filter, pin or
    /// allocator, `locks` are the mutexes that its thread holds.
    KsCall "ks.call" { name: Text, level: Irql, locks: Text, device: Subject, about: Subject }
    /// It returned. `legal` says whether it may answer so.
    KsReturn "ks.return" { name: Text, result: Text, legal: bool }
    /// A mutex of a device, a filter or whoever processes was taken: subject whose it is. `lock`
    /// is device, control or processing; `by` is class or driver.
    KsLocked "ks.locked" { lock: Text, by: Text }
    /// It was released.
    KsUnlocked "ks.unlocked" { lock: Text, by: Text }
    /// A driver put an item into the bag of an object: subject the object.
    KsBagged "ks.bagged" { item: Subject }
    /// It is out of that bag; `freed` says whether it was freed with that.
    KsUnbagged "ks.unbagged" { item: Subject, freed: bool }
    /// A filter exists: `own` says whether its driver gave it a context of its own, `dispatch`
    /// whether it is processed at dispatch level, `needs` how many pins it needs.
    FilterCreated "filter.created" {
        device: Subject, factory: u32, has_context: bool, dispatch: bool, needs: u32
    }
    /// It never came to be.
    FilterCreateFailed "filter.create-failed" {}
    /// Its driver was told that it is gone.
    FilterClosed "filter.closed" {}
    /// A driver is asked whether a pin can have a format; `first` is before the pin is made.
    PinFormat "pin.format" { filter: Subject, sample: u32, first: bool }
    /// A pin exists: one of `most` of its kind. `standard` says whether its states are walked in
    /// steps, `dispatch` whether it is processed at dispatch level, `least` from which state on.
    PinCreated "pin.created" {
        filter: Subject, factory: u32, out: bool, has_context: bool, possible: u32, standard: bool,
        dispatch: bool, min_state: Text
    }
    /// A client asked for the framing of a pin, or wanted to `set` it: whether there is one, and
    /// whether that was answered.
    PinFraming "pin.framing" { set: bool, available: bool, succeeded: bool }
    /// It was connected: so many frames of so many bytes, aligned to a mask, from that allocator.
    PinConnected "pin.connected" { frames: u32, bytes: u32, alignment: u32, by: Text }
    /// It is not connected any more.
    PinDisconnected "pin.disconnected" {}
    /// What its client wants of it, before the driver is told.
    PinStateRequested "pin.state-requested" { from: Text, to: Text }
    /// The driver has gone with it, or was not asked whether it would (`forced`).
    PinStateChanged "pin.state-changed" { from: Text, to: Text, forced: bool }
    /// The driver has refused: its client's state goes back.
    PinStateRefused "pin.state-refused" { from: Text, to: Text }
    /// Frames for it come from its driver and not from an allocator.
    PinInjects "pin.injects" {}
    /// Nothing is left in its queue.
    PinFlushed "pin.flushed" { frames: u32 }
    /// It never came to be.
    PinCreateFailed "pin.create-failed" {}
    /// The pin is gone: its driver was told.
    PinClosed "pin.closed" {}
    /// A driver's allocator, the default one or the client's is to be used: `by` says whose. The
    /// client is a `user`, or in the kernel.
    AllocatorChosen "allocator.chosen" { pin: Subject, by: Text, user: bool }
    /// It is ready. `word` is the driver's for it.
    AllocatorReady "allocator.ready" {
        pin: Subject, driver_handle: Subject, frames: u32, bytes: u32, alignment: u32, by: Text
    }
    /// It was refused: there is none, and none is deleted.
    AllocatorFailed "allocator.failed" { why: Text }
    /// A call of its driver carries this word for it: subject the allocator.
    AllocatorUsed "allocator.used" { entry: Text, driver_handle: Subject }
    /// It is to be deleted: `home` says that all its frames have come home by themselves.
    AllocatorEnding "allocator.ending" { frames_returned: bool }
    /// It is deleted: nothing uses it any more.
    AllocatorDeleted "allocator.deleted" { driver_handle: Subject }
    /// There is a frame; `word` is where its memory is.
    FrameCreated "frame.created" { allocator: Option<Subject>, pin: Subject, pointer: Subject, bytes: u32 }
    /// No frame could be had.
    FrameUnavailable "frame.unavailable" { allocator: Subject }
    /// It is in the queue of a pin.
    FrameQueued "frame.queued" { pin: Subject }
    /// An edge has passed it: `edge` is leading or trailing.
    FramePassed "frame.passed" { edge: Text }
    /// It is done: nothing refers to it. Its header, and when it was.
    FrameDone "frame.done" {
        used: u32, time: u64, duration: u64, end: bool, discontinuity: bool, now: u64
    }
    /// It was cancelled, and left the queue.
    FrameCancelled "frame.cancelled" {}
    /// Its cancellation waits: a pointer to it is locked.
    FrameHeld "frame.held" { by: Subject }
    /// A client has it.
    FrameTaken "frame.taken" {}
    /// It is home: nobody has it.
    FrameReturned "frame.returned" {}
    /// It could not come home by itself: who kept it.
    FrameStuck "frame.stuck" { by: Subject }
    /// A driver is told to free it, with this word.
    FrameFreeing "frame.freeing" { allocator: Subject, pointer: Subject }
    /// There is no such frame any more.
    FrameFreed "frame.freed" {}
    /// A driver has a pointer of its own to a frame: subject the pointer.
    PointerCloned "pointer.cloned" { pin: Subject, frame: Subject, locked: bool }
    /// It is locked: the frame is not cancelled.
    PointerLocked "pointer.locked" { frame: Subject }
    /// It is not locked any more.
    PointerUnlocked "pointer.unlocked" {}
    /// It has moved.
    PointerMoved "pointer.moved" { frame: Option<Subject> }
    /// It is gone: deleted by its driver, or by force.
    PointerDeleted "pointer.deleted" { forced: bool }

    /// A driver or client used an entry that is not there.
    EntryMissing "entry.missing" { name: Text }
    /// A driver called back.
    Callback "callback" { name: Text }

    /// A rule judged at a door was broken.
    RuleBroken "rule.broken" { rule: RuleId, component: Component, argument: Text, message: Text }
}

/// The ` name=value` words of a line, in order.
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

impl Event {
    /// Writes one line, without its end: number, thread, call, subject, name, values.
    pub fn write(&self, to: &mut Vec<u8>) {
        self.seq.write(to);
        push_text(" t", to);
        self.thread.write(to);
        match self.call {
            Some(call) => {
                push_text(" c", to);
                call.write(to);
            }
            None => push_text(" -", to),
        }
        to.push(b' ');
        self.subject.write(to);
        to.push(b' ');
        push_text(self.kind.name(), to);
        self.kind.write(to);
    }
}

impl fmt::Display for Event {
    /// The line that `write` writes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = Vec::new();
        self.write(&mut line);
        f.write_str(&String::from_utf8_lossy(&line))
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
            EventKind::WaitStuck { graph: "a \"b\" \\ c\nd\u{1}".into() },
            r#"7 t1 c3 run:0 wait.stuck graph="a \"b\" \\ c\nd\u{1}""#,
        );
        back_and_forth(
            Kind::Process.subject(1),
            EventKind::ProcessOpened {},
            "7 t1 c3 process:1 process.opened",
        );
    }

    #[test]
    fn a_line_that_is_not_an_event_is_refused() {
        for line in ["", "7", "7 t1 - node:0 no.such", "7 t1 - node:0 fence.reported fence=x"] {
            assert!(line.parse::<Event>().is_err(), "{line}");
        }
        assert!("7 t1 - node:0 fence.reported fence=1 more=2".parse::<Event>().is_err());
    }
}
