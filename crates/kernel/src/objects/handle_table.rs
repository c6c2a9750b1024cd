//! Handle tables: a process's handles of kernel objects.
//!
//! A handle comes from untrusted code. `lookup` is the only function that validates it. A handle
//! does not keep its object alive: `close` returns the object.
//!
//! # Invariants
//!
//! 1. A value is unique(2) : index(24) : form(6), and unique is 1, 2 or 3; the form is 0 in a
//!    process's table, 2 in the table of global handles, 4 in the kernel's own. WINDOWS: observed.
//!    So a handle of one table is never mistaken for one of another, or for an NT handle.
//! 2. `free` holds each free slot once, first in, first out, and `reserve` leaves at least
//!    `RESERVE` slots there. So values rise by 0x40, and a closed slot is not reused at once.
//! 3. `reuse_count` counts the closed handles of a slot; after four billion it goes on with four,
//!    which has the same remainder of three. So a value that is not current is stale if one of the
//!    last three turns had it, and otherwise was never issued. (A stale value can become current
//!    again: it has only two unique bits.)
//! 4. Only `close` ends a turn: a canceled handle is the next one to be reserved.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::memory::address::AddressSpace;
use crate::memory::context_allocation::ContextAllocation;
use crate::memory::instances::InstanceRecord;
use crate::memory::queue::PagingQueue;
use crate::objects::resource::{Resource, ResourceView};
use crate::objects::view::View;
use crate::sync::SyncObject;
use crate::sync::keyed_mutex::KeyedMutex;
use flight::{Kind, Subject, make_room};
use smallvec::SmallVec;
use std::collections::VecDeque;

const RESERVE: usize = 128;
const GROWTH: usize = 1024;
const MAX_HANDLES: usize = 1 << 24;

/// A process's handle of an object (`D3DKMT_HANDLE`). Any number, until it is looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle(pub u32);

/// A handle whose object is being created. Not `Clone`: it is published or canceled, once.
#[derive(Debug)]
#[must_use = "publish or cancel it"]
pub(crate) struct ReservedHandle(Handle);

/// The handles that one call reserves: mostly one or two.
pub(crate) type ReservedHandles = SmallVec<[ReservedHandle; 4]>;

/// Why a handle is invalid: one status for the caller, more detail for the verifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandleError {
    /// The value was never issued.
    Unknown,
    /// The handle was closed. The object it had, if that is not too long ago.
    Closed(Option<Subject>),
    /// The object is being created: its driver may use the handle, a client may not.
    Unpublished,
    /// The handle of a process that has ended.
    ProcessEnded,
    /// The handle of an instance that is not the newest of this view's allocation any more.
    Superseded(Subject),
    /// The handle of an object of another type.
    WrongKind(Subject),
}

/// An object that has handles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectId {
    Adapter(Id<Adapter>),
    Device(Id<Device>),
    Context(Id<Context>),
    Resource(Id<Resource>),
    ResourceView(Id<ResourceView>),
    View(Id<View>),
    Instance(Id<InstanceRecord>),
    PagingQueue(Id<PagingQueue>),
    /// The fence of a paging queue.
    QueueFence(Id<PagingQueue>),
    ContextAllocation(Id<ContextAllocation>),
    AddressSpace(Id<AddressSpace>),
    SyncObject(Id<SyncObject>),
    KeyedMutex(Id<KeyedMutex>),
}

impl ObjectId {
    /// The object as the subject of an event.
    pub(crate) fn subject(self) -> Subject {
        match self {
            Self::Adapter(id) => id.subject(),
            Self::Device(id) => id.subject(),
            Self::Context(id) => id.subject(),
            Self::Resource(id) => id.subject(),
            Self::ResourceView(id) => id.subject(),
            Self::View(id) => id.subject(),
            Self::Instance(id) => id.subject(),
            Self::PagingQueue(id) => id.subject(),
            Self::QueueFence(id) => Kind::PagingQueueFence.subject(id.serial()),
            Self::ContextAllocation(id) => id.subject(),
            Self::AddressSpace(id) => id.subject(),
            Self::SyncObject(id) => id.subject(),
            Self::KeyedMutex(id) => id.subject(),
        }
    }
}

/// A type of object that has its own handles.
pub(crate) trait HasHandle: Sized {
    /// The id, if the object is of this type.
    fn named_by(object: ObjectId) -> Option<Id<Self>>;
}

macro_rules! handles {
    ($($type:ident,)+) => {
        $(
            impl HasHandle for $type {
                fn named_by(object: ObjectId) -> Option<Id<Self>> {
                    if let ObjectId::$type(id) = object { Some(id) } else { None }
                }
            }

            impl From<Id<$type>> for ObjectId {
                fn from(id: Id<$type>) -> Self {
                    Self::$type(id)
                }
            }
        )+
    };
}

handles! {
    Adapter, Device, Context, Resource, ResourceView, View, PagingQueue, ContextAllocation,
    AddressSpace, SyncObject, KeyedMutex,
}

/// Every slot except the reserve is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableFull;

/// The handles of one process, or the global handles.
#[derive(Debug)]
pub(crate) struct HandleTable {
    form: u32,
    slots: Vec<Slot>,
    free: VecDeque<u32>,
    live: usize,
}

#[derive(Debug)]
struct Slot {
    /// The value of the current turn.
    current: Handle,
    reuse_count: u32,
    state: SlotState,
    /// The object of the last turn, for reports about stale handles.
    last_object: Option<Subject>,
}

#[derive(Debug)]
enum SlotState {
    Free,
    Reserved(Option<ObjectId>),
    Live(ObjectId),
}

impl HandleTable {
    /// The handle table of a process.
    pub(crate) fn local() -> Self {
        Self { form: 0, slots: Vec::new(), free: VecDeque::new(), live: 0 }
    }

    /// The table of global handles.
    pub(crate) fn global() -> Self {
        Self { form: 2, ..Self::local() }
    }

    /// The table of the kernel's own handles, for drivers.
    pub(crate) fn kernel() -> Self {
        Self { form: 4, ..Self::local() }
    }

    /// Reserves the next handle for an object that is about to be created.
    #[inline]
    pub(crate) fn reserve(&mut self) -> Result<ReservedHandle, TableFull> {
        if self.free.len() <= RESERVE {
            let size = self.slots.len();
            let grown = if size < MAX_HANDLES { size + GROWTH } else { return Err(TableFull) };
            let form = self.form;
            make_room(&mut self.slots, GROWTH);
            self.slots.extend(slot_indices(size, grown).map(|index| Slot {
                current: Handle::new(form, index, 0),
                reuse_count: 0,
                state: SlotState::Free,
                last_object: None,
            }));
            self.free.extend(slot_indices(size, grown));
        }
        let index = self.free.pop_front().ok_or(TableFull)?;
        let slot = &mut self.slots[index as usize];
        slot.state = SlotState::Reserved(None);
        Ok(ReservedHandle(slot.current))
    }

    /// Sets the object of a reserved handle. Its driver may use the handle in callbacks from now
    /// on.
    #[inline]
    pub(crate) fn bind(&mut self, reserved: &ReservedHandle, object: ObjectId) {
        self.slots[reserved.0.index()].state = SlotState::Reserved(Some(object));
    }

    /// Publishes a handle with its object. From now on a client can use it.
    #[inline]
    pub(crate) fn publish(
        &mut self,
        ReservedHandle(handle): ReservedHandle,
        object: ObjectId,
    ) -> Handle {
        self.slots[handle.index()].state = SlotState::Live(object);
        self.live += 1;
        handle
    }

    /// Undoes `reserve`, in reverse order: a failed call uses up no value.
    pub(crate) fn cancel(&mut self, ReservedHandle(handle): ReservedHandle) {
        self.slots[handle.index()].state = SlotState::Free;
        self.free.push_front(handle.0 >> 6 & 0x00ff_ffff);
    }

    /// The object of a handle.
    #[inline]
    pub(crate) fn lookup(&self, handle: Handle) -> Result<ObjectId, HandleError> {
        let slot = self.slots.get(handle.index()).ok_or(HandleError::Unknown)?;
        match slot.state {
            SlotState::Live(object) if slot.current == handle => Ok(object),
            _ => Err(self.why_invalid(slot, handle)),
        }
    }

    /// Why a handle has no live object.
    #[cold]
    fn why_invalid(&self, slot: &Slot, handle: Handle) -> HandleError {
        let index = handle.0 >> 6 & 0x00ff_ffff;
        let named = |turn| Handle::new(self.form, index, turn) == handle;
        if matches!(slot.state, SlotState::Reserved(_)) && slot.current == handle {
            HandleError::Unpublished
        } else if (0..slot.reuse_count).rev().take(3).any(named) {
            let newest = slot.reuse_count.checked_sub(1).is_some_and(named);
            HandleError::Closed(slot.last_object.filter(|_| newest))
        } else {
            HandleError::Unknown
        }
    }

    /// The object of a handle for a driver, including objects that are being created and already
    /// bound.
    pub(crate) fn lookup_for_driver(&self, handle: Handle) -> Option<ObjectId> {
        match (self.lookup(handle), &self.slots.get(handle.index())?.state) {
            (Ok(object), _) => Some(object),
            (Err(HandleError::Unpublished), SlotState::Reserved(object)) => *object,
            _ => None,
        }
    }

    /// Closes a handle and returns its object. A failed close changes nothing.
    #[inline]
    pub(crate) fn close(&mut self, handle: Handle) -> Result<ObjectId, HandleError> {
        let object = self.lookup(handle)?;
        let slot = &mut self.slots[handle.index()];
        let index = handle.0 >> 6 & 0x00ff_ffff;
        let reuse_count = slot.reuse_count.checked_add(1).unwrap_or(4);
        *slot = Slot {
            current: Handle::new(self.form, index, reuse_count),
            reuse_count,
            state: SlotState::Free,
            last_object: Some(object.subject()),
        };
        self.free.push_back(index);
        self.live -= 1;
        Ok(object)
    }

    /// Number of live handles.
    pub(crate) fn live(&self) -> usize {
        self.live
    }

    /// Every live handle, in slot order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Handle, ObjectId)> {
        let handle = |slot: &Slot| match slot.state {
            SlotState::Live(object) => Some((slot.current, object)),
            SlotState::Free | SlotState::Reserved(_) => None,
        };
        self.slots.iter().filter_map(handle)
    }
}

impl ReservedHandle {
    /// The value, for the driver that creates the object.
    pub(crate) fn handle(&self) -> Handle {
        self.0
    }
}

impl Handle {
    fn new(form: u32, index: u32, turn: u32) -> Self {
        let unique = match turn % 3 {
            0 => 1,
            1 => 2,
            _ => 3,
        };
        Self(unique << 30 | index << 6 | form)
    }

    fn index(self) -> usize {
        (self.0 >> 6) as usize % MAX_HANDLES
    }
}

/// The slot indices from `from` up to `to`, which have at most 24 bits.
fn slot_indices(from: usize, to: usize) -> impl Iterator<Item = u32> {
    (from..to).filter_map(|index| u32::try_from(index).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id_list::{Slab, ids};

    fn device() -> ObjectId {
        let [device] = ids();
        ObjectId::Device(device)
    }

    fn open(handles: &mut HandleTable) -> Handle {
        let reserved = handles.reserve().unwrap();
        handles.publish(reserved, device())
    }

    #[test]
    fn a_slot_that_was_reused_four_billion_times_still_tells_stale_handles() {
        let mut table = HandleTable::local();
        let reserved = table.reserve().unwrap();
        let index = reserved.handle().index();
        table.publish(reserved, device());
        table.slots[index].reuse_count = u32::MAX;
        table.slots[index].current = Handle::new(0, 0, u32::MAX);
        let old = table.slots[index].current;
        table.close(old).unwrap();
        assert_ne!(table.slots[index].current, old);
        assert_eq!(table.lookup(old), Err(HandleError::Closed(Some(device().subject()))));
        for turn in [u32::MAX - 1, u32::MAX - 2] {
            let older = Handle::new(0, 0, turn);
            let closed = matches!(table.lookup(older), Err(HandleError::Closed(_)));
            assert!(closed || older == table.slots[index].current, "{turn}");
        }
    }

    #[test]
    fn a_closed_number_rests_and_a_failed_call_uses_none() {
        let mut handles = HandleTable::local();
        let a = open(&mut handles);
        let b = open(&mut handles);
        handles.close(a).unwrap();
        let (resource, allocation) = (handles.reserve().unwrap(), handles.reserve().unwrap());
        handles.cancel(allocation);
        handles.cancel(resource);
        assert_eq!([a.0, b.0, open(&mut handles).0], [0x4000_0000, 0x4000_0040, 0x4000_0080]);
        assert_eq!(open(&mut handles).0, 0x4000_00c0);
    }

    #[test]
    fn stale_is_not_made_up() {
        let mut handles = HandleTable::local();
        let first = open(&mut handles);
        handles.close(first).unwrap();
        assert_eq!(handles.lookup(first), Err(HandleError::Closed(Some(device().subject()))));
        for made_up in [0, 0x8000_0000, 0xc000_0000, 0x4000_0002, 0x7fff_ffc0, u32::MAX] {
            assert_eq!(handles.lookup(Handle(made_up)), Err(HandleError::Unknown));
        }
    }

    #[test]
    fn a_name_under_construction_is_for_its_driver_alone() {
        let mut handles = HandleTable::local();
        let reserved = handles.reserve().unwrap();
        assert_eq!(handles.lookup_for_driver(reserved.handle()), None, "nothing is promised yet");
        handles.bind(&reserved, device());
        assert_eq!(handles.lookup_for_driver(reserved.handle()), Some(device()));
        assert_eq!(handles.lookup(reserved.handle()), Err(HandleError::Unpublished));
        assert_eq!(handles.close(reserved.handle()), Err(HandleError::Unpublished));
        let handle = handles.publish(reserved, device());
        assert_eq!(handles.lookup(handle), Ok(device()));
    }

    #[test]
    fn a_global_name_ends_in_two_and_is_no_local_one() {
        let mut handles = HandleTable::global();
        let global = open(&mut handles);
        assert_eq!(global.0, 0x4000_0002);
        assert_eq!(handles.lookup(Handle(0x4000_0000)), Err(HandleError::Unknown));
        assert_eq!(open(&mut handles).0, 0x4000_0042);
    }

    #[test]
    fn the_table_fills_to_its_reserve_and_not_beyond() {
        let mut handles = HandleTable::local();
        let mut last = None;
        for _ in 0..MAX_HANDLES - RESERVE {
            last = Some(open(&mut handles));
        }
        assert_eq!(handles.reserve().err(), Some(TableFull));
        assert_eq!(handles.live(), MAX_HANDLES - RESERVE);
        handles.close(last.unwrap()).unwrap();
        open(&mut handles);
        assert_eq!(handles.reserve().err(), Some(TableFull));
    }

    /// Random steps against a model that remembers every issued value.
    #[test]
    fn no_two_live_names_are_equal_and_each_finds_its_own() {
        let mut handles = HandleTable::local();
        let mut live: Vec<(Handle, ObjectId)> = Vec::new();
        let mut devices = Slab::default();
        let mut random = 1_u32;
        for _ in 0..200_000_u32 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let pick = (random >> 8) as usize % (live.len() + 1);
            if pick == live.len() || live.len() < 3 {
                let reserved = handles.reserve().unwrap();
                let object = ObjectId::Device(devices.reserve());
                live.push((handles.publish(reserved, object), object));
            } else {
                let (handle, object) = live.swap_remove(pick);
                assert_eq!(handles.close(handle), Ok(object));
                assert_eq!(
                    handles.lookup(handle),
                    Err(HandleError::Closed(Some(object.subject())))
                );
            }
            if let Some((handle, object)) = live.last() {
                assert_eq!(handles.lookup(*handle), Ok(*object));
            }
        }
        assert_eq!(handles.live(), live.len());
    }
}
