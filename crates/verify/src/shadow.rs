//! What all rules together remember: one shadow per object.
//!
//! A shadow holds what later judgements need and nothing else. Rules read it; it is written
//! only when an event is followed, after the rules have judged that event.

pub mod address;
pub mod keyed;
pub mod memory;
pub mod recover;
pub mod stream;
pub mod sync;

use crate::names::Names;
use address::{Space, Table};
use flight::{Fence, Hex, Subject, Text};
use keyed::Keyed;
use memory::{Memory, Paging, Queue, Saved, Saves, Segment, Wanted};
use recover::{Pages, Recovery};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};
use stream::{
    StreamAllocator, StreamCall, StreamDevice, StreamFilter, StreamFrame, StreamPin, StreamPointer,
};
use sync::{Await, Awaited, Sync};

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

/// Of a process: its names, and what its threads are doing.
#[derive(Debug, Default)]
pub struct Process {
    /// Its handle table.
    pub names: Names,
    /// The client calls its threads are in.
    pub calls: Vec<ClientCall>,
    /// How many things it left alive.
    pub left: u32,
    /// How many bytes it let go of since it was told that memory is short.
    pub trimmed: u64,
    /// How many names of synchronisation objects it has.
    pub syncs: u32,
}

/// A call of a client that has not been answered yet.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct ClientCall {
    /// The thread that called.
    pub thread: u32,
    /// The entry it called.
    pub name: Text,
    /// The names it reserved and did not give back.
    pub reserved: SmallVec<[u32; 4]>,
    /// The first name it gave.
    pub given: Option<u32>,
    /// Whether the driver refused something in it.
    pub refused: bool,
    /// Whether it is an escape that names what is not there.
    pub unresolved: bool,
    /// Whether its driver was asked to create allocations in it.
    pub creates: bool,
    /// Whether an escape of it came to the driver.
    pub delivered: bool,
    /// A wait of its thread that is not over.
    pub awaits: Option<Subject>,
}

/// Of an adapter: its driver model, and who is inside its driver.
#[derive(Debug, Default)]
pub struct Adapter {
    /// The driver model, 1 or 2; 0 before it started.
    pub generation: u32,
    /// Its nodes, while it runs.
    pub nodes: Vec<Subject>,
    /// Its segments, while it runs.
    pub segments: Vec<Subject>,
    /// The processes its driver has met, the system's first: with their addresses.
    pub spaces: Vec<(Option<Subject>, Subject)>,
    /// The bytes of its segments: of each kind, local and not, for applications and in all.
    pub bytes: [[u64; 2]; 2],
    /// Its buffers for paging commands: what was last seen in their private data.
    pub buffers: BTreeMap<u64, Hex>,
    /// The calls that have not returned.
    pub inside: Vec<Inside>,
    /// How many packets of its nodes are not done.
    pub flying: u32,
    /// How many allocations, resources, devices and contexts its driver has.
    pub owned: u32,
    /// Whether its driver wants nothing to do with it.
    pub declined: bool,
    /// How many pool blocks the last call took, and has not given back.
    pub kept: usize,
    /// The same of the last call for a transfer that goes on in the next one.
    pub retried: Option<usize>,
    /// The last of the calls that stop its driver, once one has returned.
    pub stopped: Option<Text>,
    /// The word its driver gave for it.
    pub word: Option<Subject>,
    /// What its driver answered when it was told to hand its display on, since it started last.
    pub released: Option<Text>,
    /// Whether it was told to stop, and nothing else, since it started last.
    pub told_to_stop: bool,
    /// Whether its DPC is pending.
    pub dpc: bool,
    /// Its resets.
    pub recovery: Recovery,
}

/// A call that has not returned.
#[derive(Debug)]
pub struct Inside {
    /// The call.
    pub call: Subject,
    /// Its DDI.
    pub name: Text,
    /// The thread it runs on.
    pub thread: u32,
    /// The exclusion it runs under.
    pub class: Text,
    /// The process it is for.
    pub process: Option<Subject>,
}

/// Of a node: the fences it was given and did not report, once it has work.
#[derive(Debug, Default)]
pub struct Node {
    /// The fences it owes.
    pub due: Due,
    /// The context that is current on it.
    pub current: Option<Subject>,
    /// What that one saves into.
    pub saves: Vec<Subject>,
    /// The part of a packet that its driver patched last, and with which fence, until it starts.
    pub patched: Option<(Fence, u32, u32)>,
    /// Paging work that waits for a fence of it, since a driver said that it uses something.
    pub awaited: Vec<(Fence, Subject)>,
    /// Its adapter.
    pub adapter: Option<Subject>,
    /// Its paging commands.
    pub pages: Pages,
}

/// The fences of a node.
#[derive(Clone, Debug, Default)]
pub struct Due {
    /// The last one that is over, once it has been given any.
    pub done: Option<Fence>,
    /// Those given and not over, in order.
    pub given: VecDeque<Fence>,
}

/// Of a device: what it owns, and its work.
#[derive(Debug, Default)]
pub struct Device {
    /// Its process.
    pub process: Option<Subject>,
    /// Its adapter.
    pub adapter: Option<Subject>,
    /// Whether it can work no more.
    pub lost: bool,
    /// Why it cannot.
    pub why: Option<Text>,
    /// How many contexts it has.
    pub contexts: u32,
    /// How many views it has open.
    pub views: u32,
    /// How many views assumed not to be in use are not idle yet.
    pub hasty: u32,
    /// Its work that is not done, in the order it was queued.
    pub packets: VecDeque<Packet>,
    /// The allocations its driver made for all its contexts.
    pub saves: Saves,
    /// How many queues of paging work it has.
    pub queues: u32,
    /// Whether it asked for residency that had to succeed, and did not.
    pub failed: bool,
    /// The fences it could signal that do not have their maximum.
    pub low: Vec<Subject>,
    /// Whether paging of what it has was lost in a reset.
    pub hit: bool,
}

/// A packet that is not done.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// The event that queued it.
    pub queued: u64,
    /// Its context.
    pub context: Subject,
    /// Its number there.
    pub packet: u64,
}

/// Of a context.
#[derive(Debug)]
pub struct Context {
    /// Its device.
    pub device: Subject,
    /// How many of its packets are not done.
    pub in_flight: u32,
    /// The allocations its driver made for it.
    pub saves: Saves,
    /// How large its driver wants the buffers of packets with lists, if it has such.
    pub buffer: Option<u32>,
    /// The last of its packets that was submitted.
    pub sent: u64,
    /// The wait that its line stands at, and the last packet before it.
    pub awaits: Option<(Subject, u64)>,
    /// Whether its adapter translates addresses.
    pub translates: bool,
    /// The root of its addresses.
    pub root: Option<Subject>,
}

/// Of a resource.
#[derive(Debug)]
pub struct Resource {
    /// The adapter that owns it.
    pub adapter: Subject,
    /// Whether it was created to be opened by a global handle.
    pub global: bool,
    /// How many members are not gone.
    pub live: u32,
    /// How many of these the driver was told of, by the last call that told of any.
    pub told: u32,
    /// That call.
    pub told_in: Option<u32>,
    /// How many devices' views of it are not closed.
    pub views: u32,
    /// The driver's last word for it.
    pub word: Option<Subject>,
    /// What it has for its openers, if it is shared.
    pub data: Option<Data>,
}

/// How many bytes a shared resource has for its openers.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Of the runtime's data.
    pub runtime: u64,
    /// Of its members' private data, together.
    pub total: u64,
}

/// Of a device's view of a resource.
#[derive(Debug)]
pub struct ResourceView {
    /// The resource.
    pub resource: Subject,
    /// The device it was opened for.
    pub device: Subject,
}

/// Of an allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The adapter that owns it.
    pub adapter: Subject,
    /// The device that created it.
    pub creator: Subject,
    /// Its memory.
    pub memory: Memory,
    /// The resource it is a member of.
    pub resource: Option<Subject>,
    /// The driver's word for it.
    pub word: Option<Subject>,
    /// Whether the driver was told to destroy it, and in which call.
    pub told: Option<Option<u32>>,
    /// How many views of it are not closed.
    pub views: u32,
    /// How many views of it are not idle.
    pub busy: u32,
    /// How often the driver holds its data.
    pub held: u32,
    /// The retirement that closed its last view.
    pub ended_by: Option<Subject>,
    /// How many instances its driver allows, if it says.
    pub limit: Option<u32>,
}

/// Of an instance of an allocation.
#[derive(Debug)]
pub struct Instance {
    /// The allocation.
    pub allocation: Subject,
    /// The view it was made for.
    pub view: Subject,
    /// The driver's word for it.
    pub word: Subject,
    /// The word that paging work named last.
    pub built: Option<Subject>,
    /// Its memory.
    pub memory: Memory,
}

/// Of a view.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct View {
    /// What it is a view of.
    pub allocation: Subject,
    /// The device that has it open.
    pub device: Subject,
    /// The resource its allocation is a member of.
    pub resource: Option<Subject>,
    /// How far its end has come.
    pub stage: Stage,
    /// The retirement that ends it.
    pub retirement: Option<Subject>,
    /// What that one was asked.
    pub asked: Option<Asked>,
    /// Whether the driver was told to close it.
    pub told: bool,
    /// The driver's word for it.
    pub word: Option<Subject>,
    /// Whether its device created the allocation.
    pub creator: bool,
    /// What the driver says of the allocation's memory.
    pub wanted: Wanted,
    /// How often its client wants it to be resident.
    pub resident: u32,
    /// The event of the last request for a lock.
    pub lock_asked: u64,
    /// Whether its client said, since it is listed, that the GPU has not written to it.
    pub clean: bool,
    /// The event of its offer.
    pub offered: u64,
    /// Whether it was taken back, to be mapped into an aperture, and not locked since.
    pub reclaimed: bool,
    /// What has its memory: the allocation, or the newest instance of it.
    pub newest: Subject,
}

/// How far the end of a view has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has its name.
    Named,
    /// Its name is closed.
    Unnamed,
    /// Nothing uses it.
    Idle,
}

/// What a destroy call asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The event of the request.
    pub seq: u64,
    /// Not to wait for the device's work (`AssumeNotInUse`).
    pub assume: bool,
    /// To wait for the end (`SynchronousDestroy`).
    pub sync: bool,
}

/// Of a retirement.
#[derive(Debug)]
pub struct Retirement {
    /// What was asked.
    pub asked: Asked,
    /// How many views it ends.
    pub views: u32,
    /// How many of them are closed.
    pub closed: u32,
    /// The resources its views belong to.
    pub groups: Vec<Group>,
    /// How many allocations these were the last views of, and are not gone.
    pub orphans: u32,
    /// Whether it is done.
    pub done: bool,
    /// Whether who asked has the answer.
    pub answered: bool,
}

/// Views of one resource, ended by one retirement.
#[derive(Debug)]
pub struct Group {
    /// The resource.
    pub resource: Subject,
    /// Whether the resource's own name ended with them.
    pub whole: bool,
    /// How many of the views are not closed.
    pub open: u32,
}

/// Of a call of the driver.
#[derive(Debug)]
pub struct Call {
    /// The DDI.
    pub name: Text,
    /// The adapter whose driver is called.
    pub adapter: Subject,
    /// The pool blocks taken in it that are still out: word, size and tag.
    pub blocks: Vec<(Subject, u64, Text)>,
    /// The words of what it ends.
    pub ends: SmallVec<[Subject; 2]>,
    /// The device it opens something for that is there already.
    pub opens_for: Option<Subject>,
    /// What the driver waited for in it, other than for another thread of its own.
    pub waited: Option<Text>,
}

/// Of a driver's word.
#[derive(Debug, Default)]
pub struct Word {
    /// The pool block of that address, if there is or was one.
    pub block: Option<Block>,
    /// What the driver gave it for.
    pub uses: SmallVec<[Use; 1]>,
    /// The last allocation it was given for, also when that is gone.
    pub allocation: Option<Subject>,
}

/// A pool block.
#[derive(Debug)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// The tag it was taken with.
    pub tag: Text,
    /// The call it was taken in.
    pub taken_in: Option<u32>,
    /// Whether that was the one in which its driver met the adapter.
    pub added: bool,
    /// The entry it was freed in, once it is.
    pub freed: Option<Text>,
    /// Whether it was out when it should not have been any more.
    pub leaked: bool,
}

/// What a word stands for.
#[derive(Clone, Copy, Debug)]
pub struct Use {
    /// What the driver gave it for.
    pub of: Subject,
    /// Whether the driver has been told of its end.
    pub ending: bool,
    /// The last call that lent the word without ending it.
    pub lent_in: Option<u32>,
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

impl Due {
    /// Whether a report of that fence is in order.
    pub fn holds(&self, fence: Fence) -> bool {
        self.given.contains(&fence)
    }

    /// The last one given.
    pub fn last(&self) -> Option<Fence> {
        self.given.back().copied().or(self.done)
    }

    pub(crate) fn give(&mut self, fence: Fence) {
        self.done.get_or_insert(fence.before());
        self.given.push_back(fence);
    }

    /// A fence stands for all before it; one that was not given moves nothing.
    pub(crate) fn report(&mut self, fence: Fence) {
        if let Some(at) = self.given.iter().position(|it| *it == fence) {
            self.given.drain(..=at);
            self.done = Some(fence);
        }
    }

    /// What was given after a fence is not with the node any more.
    pub(crate) fn take_back(&mut self, last: Fence) {
        // Fences wrap, so distances are compared and never values.
        while self.given.back().is_some_and(|it| !last.covers(*it)) {
            self.given.pop_back();
        }
    }

    /// All up to a fence is over, and the rest is not with the node any more.
    pub(crate) fn reset(&mut self, aborted: Fence) {
        self.given.clear();
        self.done = Some(aborted);
    }
}

impl Shadow {
    /// What a shared resource has for its openers.
    pub fn data(&self) -> Option<Data> {
        self.resource().and_then(|it| it.data)
    }
}

impl Adapter {
    /// How many bytes applications may use of memory of a kind: of the segments that are for
    /// them, or of all if none is.
    pub fn most(&self, local: bool) -> u64 {
        let [targets, all] = self.bytes[usize::from(local)];
        let any = self.bytes.iter().any(|it| it[0] > 0);
        if any { targets } else { all }
    }
}

impl Process {
    /// The call that this thread is in.
    pub fn call(&self, thread: u32) -> Option<&ClientCall> {
        self.calls.iter().rev().find(|call| call.thread == thread)
    }

    pub(crate) fn call_mut(&mut self, thread: u32) -> Option<&mut ClientCall> {
        self.calls.iter_mut().rev().find(|call| call.thread == thread)
    }
}

impl Shadow {
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

impl Resource {
    /// How many members are alive that `call` does not end.
    pub fn spared_by(&self, call: Option<u32>) -> u32 {
        let ended = if self.told_in == call { self.told } else { 0 };
        self.live.saturating_sub(ended)
    }
}

impl Retirement {
    /// The views of that resource.
    pub fn group(&self, resource: Subject) -> Option<&Group> {
        self.groups.iter().find(|group| group.resource == resource)
    }

    pub(crate) fn group_mut(&mut self, resource: Subject) -> &mut Group {
        let at = self.groups.iter().position(|group| group.resource == resource);
        let at = at.unwrap_or_else(|| {
            self.groups.push(Group { resource, whole: false, open: 0 });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }
}

impl Word {
    /// Its block, if it is still out, should not be any more.
    pub(crate) fn leak(&mut self) {
        if let Some(block) = &mut self.block {
            block.leaked |= block.freed.is_none();
        }
    }

    /// The block, while it is out.
    pub fn out(&self) -> Option<&Block> {
        self.block.as_ref().filter(|block| block.freed.is_none())
    }

    /// Where the block was freed, if it was.
    pub fn freed(&self) -> Option<&Text> {
        self.block.as_ref()?.freed.as_ref()
    }

    /// The first allocation or resource it stands for whose end the driver was not told of.
    pub fn live(&self) -> Option<Subject> {
        let owned = |it: &&Use| {
            matches!(it.of.kind, flight::Kind::Allocation | flight::Kind::Resource) && !it.ending
        };
        self.uses.iter().find(owned).map(|it| it.of)
    }

    pub(crate) fn use_mut(&mut self, of: Subject) -> Option<&mut Use> {
        self.uses.iter_mut().find(|it| it.of == of)
    }
}
