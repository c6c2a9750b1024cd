//! Object bags: items that are freed when the bag's owner ends, in the order they were added.
//!
//! # Invariants
//!
//! 1. An item is freed once: when the last bag that holds it lets it go.

use crate::mutex::Mutex;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, BagId, DeviceId, FilterId, ObjectId, PinId, Refusal};
use crate::world::World;
use flight::{At, Irql, Passive, RuleId, Slab, Subject, What, current_thread};
use std::collections::BTreeMap;

/// Whose bag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BagOf {
    /// A device's.
    Device(DeviceId),
    /// A filter's.
    Filter(FilterId),
    /// A pin's.
    Pin(PinId),
    /// One that a driver made itself (`KsAllocateObjectBag`).
    Own(BagId),
}

/// A bag that a driver made itself (`KsAllocateObjectBag`).
#[derive(Debug)]
pub struct DriverBag {
    device: DeviceId,
}

/// All bags.
#[derive(Debug, Default)]
pub(crate) struct Bags {
    items: BTreeMap<BagOf, Vec<Item>>,
    own: Slab<DriverBag>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Whose word it is.
    device: DeviceId,
    word: usize,
    /// It is freed by a routine of its driver's; else it is pool memory.
    routine: bool,
}

impl Bags {
    /// Whether a bag has it, by the word of its device.
    pub(crate) fn holds(&self, device: DeviceId, word: usize) -> bool {
        self.items.values().flatten().any(|it| (it.device, it.word) == (device, word))
    }

    /// The bags that the driver of a device made.
    pub(crate) fn own_of(&self, device: DeviceId) -> Vec<BagId> {
        self.own.select(|bag| bag.device == device)
    }

    /// How many items there are.
    pub(crate) fn count(&self, bag: BagOf) -> usize {
        self.items.get(&bag).map_or(0, Vec::len)
    }
}

/// The object that a bag belongs to.
fn owner(bag: BagOf, device: DeviceId) -> ObjectId {
    match bag {
        BagOf::Device(it) => it.into(),
        BagOf::Filter(it) => it.into(),
        BagOf::Pin(it) => it.into(),
        BagOf::Own(_) => device.into(),
    }
}

impl World {
    /// Why a device has no such bag, in words.
    fn no_bag(&self, bag: BagOf, device: DeviceId) -> Option<&'static str> {
        let (owner, was) = match bag {
            BagOf::Device(it) => {
                (self.devices.get(it).map(|_| it), self.devices.has_issued(it.serial()))
            }
            BagOf::Filter(it) => {
                (self.filters.get(it).map(|it| it.device), self.filters.has_issued(it.serial()))
            }
            BagOf::Pin(it) => {
                (self.pins.get(it).map(|it| it.device), self.pins.has_issued(it.serial()))
            }
            BagOf::Own(it) => {
                (self.bags.own.get(it).map(|bag| bag.device), self.bags.own.has_issued(it.serial()))
            }
        };
        match owner {
            Some(of) if of == device => None,
            Some(_) => Some("is of another device"),
            None if !was => Some("was never made"),
            None if matches!(bag, BagOf::Own(_)) => Some("was freed"),
            None => Some("went when that was closed"),
        }
    }

    /// The mutex that a bag's owner has for it; the owner is the driver's to name, and may have
    /// ended.
    fn bag_mutex(&self, bag: BagOf, device: DeviceId) -> Option<Mutex> {
        Some(match bag {
            BagOf::Device(_) => Mutex::Device(device.subject()),
            BagOf::Filter(it) => Mutex::Control(it.subject()),
            BagOf::Pin(it) => Mutex::Control(self.pins.get(it)?.filter.subject()),
            BagOf::Own(_) => return None,
        })
    }
}

impl Stream {
    /// Frees what is in a bag, unless another has it.
    pub(crate) fn empty_bag(&self, at: &mut Passive, device: DeviceId, bag: BagOf) {
        let owner = owner(bag, device);
        let of = owner.subject();
        loop {
            let (item, freed, driver, memory) = {
                let mut world = self.world.hold();
                let Some(list) = world.bags.items.get_mut(&bag).filter(|it| !it.is_empty()) else {
                    world.bags.items.remove(&bag);
                    if let BagOf::Own(bag) = bag {
                        // A driver may free its bag on two threads at once.
                        world.bags.own.take(bag);
                    }
                    return;
                };
                let item = list.remove(0);
                let freed = !world.bags.holds(device, item.word);
                self.say_unbagged(of, item.word, freed);
                // A driver may still have a bag of its own after its device was removed.
                let Some(it) = world.devices.get(device) else { return };
                let (driver, memory) = (it.driver.clone(), it.memory.clone());
                if freed && !item.routine {
                    world.blocks.remove(&(device, item.word));
                }
                (item, freed, driver, memory)
            };
            if freed && item.routine {
                driver.free_item(at, owner, item.word);
            } else if freed {
                memory.free(item.word);
            }
        }
    }

    fn say_unbagged(&self, of: Subject, word: usize, freed: bool) {
        let item = self.log.word(word);
        self.log.emit(of, What::KsUnbagged { item, freed });
        self.log.release_word(word);
    }

    fn judge_bag(
        &self,
        world: &World,
        bag: BagOf,
        device: DeviceId,
        place: &'static str,
    ) -> Answer<()> {
        let level = self.host.irql();
        let mutex = world.bag_mutex(bag, device);
        let of = owner(bag, device).subject();
        let held = mutex.is_none_or(|it| world.has(current_thread(), it));
        let broken = if let Some(why) = world.no_bag(bag, device) {
            Some(format!("the bag of {of} was used, and it {why}"))
        } else if level == Irql::Passive {
            mutex
                .filter(|_| !held)
                .map(|it| format!("the bag of {of} was used without the {} mutex", it.name()))
        } else {
            Some(format!("the bag of {of} was used at {level} level, not at passive"))
        };
        let refused = broken.is_some();
        self.judge(RuleId::KS_BAG_001, of, place, broken);
        if refused { Err(Refusal::Invalid) } else { Ok(()) }
    }
}

impl Services {
    /// Puts an item into a bag (`KsAddItemToObjectBag`). It is freed by the driver's routine, or
    /// is pool memory.
    pub fn add_to_bag(&self, bag: BagOf, item: usize, routine: bool) -> Answer<()> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        let (device, place) = (self.device, "KsAddItemToObjectBag");
        stream.judge_bag(&world, bag, device, place)?;
        let of = owner(bag, device).subject();
        let foreign = !routine && !world.blocks.contains_key(&(device, item));
        let broken = foreign.then(|| {
            format!("an item of the bag of {of} has no free routine, and is no pool memory")
        });
        stream.judge(RuleId::KS_BAG_003, of, place, broken);
        if foreign {
            return Err(Refusal::Invalid);
        }
        world.bags.items.entry(bag).or_default().push(Item { device, word: item, routine });
        let item = stream.log.hold_word(item);
        stream.log.emit(of, What::KsBagged { item });
        Ok(())
    }

    /// Takes an item out of a bag (`KsRemoveItemFromObjectBag`), and frees it if asked to.
    pub fn remove_from_bag(&self, bag: BagOf, item: usize, free: bool) -> Answer<()> {
        let stream = self.stream()?;
        let (device, place) = (self.device, "KsRemoveItemFromObjectBag");
        let owner = owner(bag, device);
        let of = owner.subject();
        let (it, driver, memory) = {
            let mut world = stream.world.hold();
            stream.judge_bag(&world, bag, device, place)?;
            let list = world.bags.items.get_mut(&bag).ok_or(Refusal::Invalid)?;
            let at = list.iter().position(|it| it.word == item).ok_or(Refusal::Invalid)?;
            let it = list.remove(at);
            let shared = world.bags.holds(device, item);
            let broken = (free && shared).then(|| {
                format!("an item of the bag of {of} was to be freed, but another bag holds it")
            });
            stream.judge(RuleId::KS_BAG_004, of, place, broken);
            let freed = free && !shared;
            stream.say_unbagged(of, item, freed);
            if !freed {
                return if free { Err(Refusal::Busy) } else { Ok(()) };
            }
            if !it.routine {
                world.blocks.remove(&(device, item));
            }
            // As in `empty_bag`.
            let device = world.devices.get(device).ok_or(Refusal::Invalid)?;
            (it, device.driver.clone(), device.memory.clone())
        };
        if it.routine {
            At::here(&*self.host, |at| {
                if let At::Passive(at) = at {
                    driver.free_item(at, owner, item);
                }
            });
        } else {
            memory.free(item);
        }
        Ok(())
    }

    /// The bags that hold an item, each as often as it does.
    pub fn bags_with(&self, item: usize) -> Vec<BagOf> {
        let Ok(stream) = self.stream() else { return Vec::new() };
        let world = stream.world.hold();
        let mine = |it: &&Item| (it.device, it.word) == (self.device, item);
        let all = world.bags.items.iter();
        all.flat_map(|(bag, items)| items.iter().filter(mine).map(|_| *bag)).collect()
    }

    /// What is in a bag, in order, and whether a routine of the driver's frees it.
    pub fn items_of(&self, bag: BagOf) -> Vec<(usize, bool)> {
        let Ok(stream) = self.stream() else { return Vec::new() };
        let world = stream.world.hold();
        let items = world.bags.items.get(&bag);
        items.into_iter().flatten().map(|it| (it.word, it.routine)).collect()
    }

    /// Makes a bag (`KsAllocateObjectBag`): the driver frees it.
    pub fn make_bag(&self) -> Answer<BagOf> {
        let stream = self.stream()?;
        let mut world = stream.world.hold();
        Ok(BagOf::Own(world.bags.own.insert(DriverBag { device: self.device })))
    }

    /// Frees a bag that the driver made, with all in it (`KsFreeObjectBag`).
    pub fn free_bag(&self, bag: BagOf) -> Answer<()> {
        let stream = self.stream()?;
        let BagOf::Own(own) = bag else { return Err(Refusal::Invalid) };
        if !stream.world.hold().bags.own.contains(own) {
            return Err(Refusal::Invalid);
        }
        At::here(&*self.host, |at| match at {
            At::Passive(at) => {
                stream.empty_bag(at, self.device, bag);
                Ok(())
            }
            At::Dispatch(_) | At::Device(_) => Err(Refusal::Deadlock),
        })
    }
}
