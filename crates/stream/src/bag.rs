//! Object bags: items that are freed when the bag's owner ends, in the order they were added.
//!
//! # Invariants
//!
//! 1. An item is freed once: when it is removed from the last bag that holds it.

use crate::mutex::KsMutex;
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{BagId, DeviceId, DriverError, DriverResult, FilterId, ObjectId, PinId};
use flight::{At, EventKind, Irql, Passive, RuleId, Slab, Subject, current_thread};
use std::collections::BTreeMap;

/// The owner of a bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BagOwner {
    /// A device.
    Device(DeviceId),
    /// A filter.
    Filter(FilterId),
    /// A pin.
    Pin(PinId),
    /// The driver itself (`KsAllocateObjectBag`).
    Allocated(BagId),
}

/// A bag that a driver created (`KsAllocateObjectBag`).
#[derive(Debug)]
pub struct DriverBag {
    device: DeviceId,
}

/// All bags.
#[derive(Debug, Default)]
pub(crate) struct ObjectBags {
    items: BTreeMap<BagOwner, Vec<BagItem>>,
    allocated: Slab<DriverBag>,
}

#[derive(Clone, Copy, Debug)]
struct BagItem {
    /// The device that the item's address belongs to.
    device: DeviceId,
    pointer: usize,
    /// A routine of the driver frees the item; else it is pool memory.
    has_free_routine: bool,
}

impl ObjectBags {
    /// Whether a bag holds the item at this address of a device's driver.
    pub(crate) fn holds(&self, device: DeviceId, word: usize) -> bool {
        self.items
            .values()
            .flatten()
            .any(|bag_item| (bag_item.device, bag_item.pointer) == (device, word))
    }

    /// The bags that the driver of a device created.
    pub(crate) fn allocated_by(&self, device: DeviceId) -> Vec<BagId> {
        self.allocated.select(|bag| bag.device == device)
    }

    /// How many items there are.
    pub(crate) fn count(&self, bag: BagOwner) -> usize {
        self.items.get(&bag).map_or(0, Vec::len)
    }
}

/// The object that a bag belongs to.
fn owner(bag: BagOwner, device: DeviceId) -> ObjectId {
    match bag {
        BagOwner::Device(it) => it.into(),
        BagOwner::Filter(it) => it.into(),
        BagOwner::Pin(it) => it.into(),
        BagOwner::Allocated(_) => device.into(),
    }
}

impl StreamState {
    /// Why a device has no bag of that owner, as a message.
    fn missing_bag_reason(&self, bag: BagOwner, device: DeviceId) -> Option<&'static str> {
        let (owner, was) = match bag {
            BagOwner::Device(it) => {
                (self.devices.get(it).map(|_| it), self.devices.has_issued(it.serial()))
            }
            BagOwner::Filter(it) => (
                self.filters.get(it).map(|filter| filter.device),
                self.filters.has_issued(it.serial()),
            ),
            BagOwner::Pin(it) => {
                (self.pins.get(it).map(|pin| pin.device), self.pins.has_issued(it.serial()))
            }
            BagOwner::Allocated(it) => (
                self.bags.allocated.get(it).map(|bag| bag.device),
                self.bags.allocated.has_issued(it.serial()),
            ),
        };
        match owner {
            Some(of) if of == device => None,
            Some(_) => Some("is of another device"),
            None if !was => Some("was never made"),
            None if matches!(bag, BagOwner::Allocated(_)) => Some("was freed"),
            None => Some("went when that was closed"),
        }
    }

    /// The mutex that protects a bag. The driver passes the owner, which may have ended.
    fn bag_mutex(&self, bag: BagOwner, device: DeviceId) -> Option<KsMutex> {
        Some(match bag {
            BagOwner::Device(_) => KsMutex::Device(device.subject()),
            BagOwner::Filter(it) => KsMutex::Control(it.subject()),
            BagOwner::Pin(it) => KsMutex::Control(self.pins.get(it)?.filter.subject()),
            BagOwner::Allocated(_) => return None,
        })
    }
}

impl Stream {
    /// Frees the items of a bag, except those that another bag holds.
    pub(crate) fn empty_bag(&self, at: &mut Passive, device: DeviceId, bag: BagOwner) {
        let owner = owner(bag, device);
        let of = owner.subject();
        loop {
            let (item, freed_frames, driver, memory) = {
                let mut state = self.state.lock();
                let Some(list) =
                    state.bags.items.get_mut(&bag).filter(|bag_items| !bag_items.is_empty())
                else {
                    state.bags.items.remove(&bag);
                    if let BagOwner::Allocated(bag) = bag {
                        // A driver may free its bag on two threads at once.
                        state.bags.allocated.take(bag);
                    }
                    return;
                };
                let item = list.remove(0);
                let freed_frames = !state.bags.holds(device, item.pointer);
                self.log_bag_removal(of, item.pointer, freed_frames);
                // A driver may still have a bag of its own after its device was removed.
                let Some(it) = state.devices.get(device) else { return };
                let (driver, memory) = (it.driver.clone(), it.memory.clone());
                if freed_frames && !item.has_free_routine {
                    state.blocks.remove(&(device, item.pointer));
                }
                (item, freed_frames, driver, memory)
            };
            if freed_frames && item.has_free_routine {
                driver.free_item(at, owner, item.pointer);
            } else if freed_frames {
                memory.free(item.pointer);
            }
        }
    }

    fn log_bag_removal(&self, of: Subject, word: usize, freed_frames: bool) {
        let item = self.log.pointer_subject(word);
        self.log.emit(of, || EventKind::KsUnbagged { item, freed: freed_frames });
        self.log.release_pointer(word);
    }

    fn judge_bag(
        &self,
        state: &StreamState,
        bag: BagOwner,
        device: DeviceId,
        place: &'static str,
    ) -> DriverResult<()> {
        let level = self.host.irql();
        let mutex = state.bag_mutex(bag, device);
        let of = owner(bag, device).subject();
        let held = mutex.is_none_or(|ks_mutex| state.holds_mutex(current_thread(), ks_mutex));
        let broken = if let Some(reason) = state.missing_bag_reason(bag, device) {
            Some(format!("the bag of {of} was used, and it {reason}"))
        } else if level == Irql::Passive {
            mutex.filter(|_| !held).map(|ks_mutex| {
                format!("the bag of {of} was used without the {} mutex", ks_mutex.name())
            })
        } else {
            Some(format!("the bag of {of} was used at {level} level, not at passive"))
        };
        let error = broken.is_some();
        self.judge(RuleId::KS_BAG_001, of, place, broken);
        if error { Err(DriverError::Invalid) } else { Ok(()) }
    }
}

impl Services {
    /// Adds an item to a bag (`KsAddItemToObjectBag`). It is freed by the driver's routine, or is
    /// pool memory.
    pub fn add_to_bag(
        &self,
        bag: BagOwner,
        item: usize,
        has_free_routine: bool,
    ) -> DriverResult<()> {
        let (stream, mut state) = self.lock_state()?;
        let (device, place) = (self.device, "KsAddItemToObjectBag");
        stream.judge_bag(&state, bag, device, place)?;
        let of = owner(bag, device).subject();
        let client_frames = !has_free_routine && !state.blocks.contains_key(&(device, item));
        let broken = client_frames.then(|| {
            format!("an item of the bag of {of} has no free routine, and is no pool memory")
        });
        stream.judge(RuleId::KS_BAG_003, of, place, broken);
        if client_frames {
            return Err(DriverError::Invalid);
        }
        state.bags.items.entry(bag).or_default().push(BagItem {
            device,
            pointer: item,
            has_free_routine,
        });
        let item = stream.log.acquire_pointer(item);
        stream.log.emit(of, || EventKind::KsBagged { item });
        Ok(())
    }

    /// Removes an item from a bag (`KsRemoveItemFromObjectBag`), and frees it if requested.
    pub fn remove_from_bag(&self, bag: BagOwner, item: usize, free: bool) -> DriverResult<()> {
        let (device, place) = (self.device, "KsRemoveItemFromObjectBag");
        let owner = owner(bag, device);
        let of = owner.subject();
        let (it, driver, memory) = {
            let (stream, mut state) = self.lock_state()?;
            stream.judge_bag(&state, bag, device, place)?;
            let list = state.bags.items.get_mut(&bag).ok_or(DriverError::Invalid)?;
            let at = list
                .iter()
                .position(|bag_item| bag_item.pointer == item)
                .ok_or(DriverError::Invalid)?;
            let it = list.remove(at);
            let shared = state.bags.holds(device, item);
            let broken = (free && shared).then(|| {
                format!("an item of the bag of {of} was to be freed, but another bag holds it")
            });
            stream.judge(RuleId::KS_BAG_004, of, place, broken);
            let freed_frames = free && !shared;
            stream.log_bag_removal(of, item, freed_frames);
            if !freed_frames {
                return if free { Err(DriverError::Busy) } else { Ok(()) };
            }
            if !it.has_free_routine {
                state.blocks.remove(&(device, item));
            }
            // As in `empty_bag`.
            let device = state.devices.get(device).ok_or(DriverError::Invalid)?;
            (it, device.driver.clone(), device.memory.clone())
        };
        if it.has_free_routine {
            At::at_current_irql(&*self.host, |at| {
                if let At::Passive(at) = at {
                    driver.free_item(at, owner, item);
                }
            });
        } else {
            memory.free(item);
        }
        Ok(())
    }

    /// The bags that hold an item, once for each time it was added.
    pub fn bags_containing(&self, item: usize) -> Vec<BagOwner> {
        // The driver may outlive the stream.
        let Ok((_, state)) = self.lock_state() else { return Vec::new() };
        let mine = |bag_item: &&BagItem| (bag_item.device, bag_item.pointer) == (self.device, item);
        let all = state.bags.items.iter();
        all.flat_map(|(bag, items)| items.iter().filter(mine).map(|_| *bag)).collect()
    }

    /// The items of a bag, in order, and whether a routine of the driver frees each.
    pub fn items_of(&self, bag: BagOwner) -> Vec<(usize, bool)> {
        // The driver may outlive the stream.
        let Ok((_, state)) = self.lock_state() else { return Vec::new() };
        let items = state.bags.items.get(&bag);
        items
            .into_iter()
            .flatten()
            .map(|bag_item| (bag_item.pointer, bag_item.has_free_routine))
            .collect()
    }

    /// Creates a bag (`KsAllocateObjectBag`): the driver frees it.
    pub fn create_bag(&self) -> DriverResult<BagOwner> {
        let (_, mut state) = self.lock_state()?;
        Ok(BagOwner::Allocated(state.bags.allocated.insert(DriverBag { device: self.device })))
    }

    /// Frees a bag that the driver created, with all its items (`KsFreeObjectBag`).
    pub fn free_bag(&self, bag: BagOwner) -> DriverResult<()> {
        let BagOwner::Allocated(own) = bag else { return Err(DriverError::Invalid) };
        let (stream, state) = self.lock_state()?;
        if !state.bags.allocated.contains(own) {
            return Err(DriverError::Invalid);
        }
        drop(state);
        At::at_current_irql(&*self.host, |at| match at {
            At::Passive(at) => {
                stream.empty_bag(at, self.device, bag);
                Ok(())
            }
            At::Dispatch(_) | At::Device(_) => Err(DriverError::Deadlock),
        })
    }
}
