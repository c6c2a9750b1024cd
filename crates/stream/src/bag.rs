//! Object bags: things that are freed when their object goes, in the order they came.
//!
//! # Invariants
//!
//! 1. An item is freed once: when the last bag that holds it lets it go.

use crate::mutex::Mutex;
use crate::services::Services;
use crate::stream::Stream;
use crate::words::{Answer, DeviceId, FilterId, PinId, Refusal};
use crate::world::World;
use flight::{At, Irql, Passive, RuleId, Subject, What, current_thread};
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
    Own(u32),
}

/// All bags.
#[derive(Debug, Default)]
pub(crate) struct Bags {
    items: BTreeMap<BagOf, Vec<Item>>,
    own: BTreeMap<u32, u32>,
    last: u32,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// Whose word it is.
    device: u32,
    word: usize,
    /// It is freed by a routine of its driver's; else it is pool memory.
    routine: bool,
}

impl Bags {
    /// Whether a bag has it, by the word of its device.
    pub(crate) fn holds(&self, device: u32, word: usize) -> bool {
        self.items.values().flatten().any(|it| (it.device, it.word) == (device, word))
    }

    /// The bags that the driver of a device made.
    pub(crate) fn own_of(&self, device: u32) -> Vec<u32> {
        self.own.iter().filter(|(_, of)| **of == device).map(|(number, _)| *number).collect()
    }

    /// How many items there are.
    pub(crate) fn count(&self, bag: BagOf) -> usize {
        self.items.get(&bag).map_or(0, Vec::len)
    }
}

fn subject(bag: BagOf, device: u32) -> Subject {
    match bag {
        BagOf::Device(it) => it.subject(),
        BagOf::Filter(it) => it.subject(),
        BagOf::Pin(it) => it.subject(),
        BagOf::Own(_) => DeviceId(device).subject(),
    }
}

impl World {
    /// Why a device has no such bag, in words.
    fn no_bag(&self, bag: BagOf, device: u32) -> Option<&'static str> {
        let (owner, was) = match bag {
            BagOf::Device(it) => (self.devices.get(it.0).map(|_| it.0), self.devices.was(it.0)),
            BagOf::Filter(it) => {
                (self.filters.get(it.0).map(|it| it.device), self.filters.was(it.0))
            }
            BagOf::Pin(it) => (self.pins.get(it.0).map(|it| it.device), self.pins.was(it.0)),
            BagOf::Own(it) => (self.bags.own.get(&it).copied(), it <= self.bags.last),
        };
        match owner {
            Some(of) if of == device => None,
            Some(_) => Some("is of another device"),
            None if !was => Some("was never made"),
            None if matches!(bag, BagOf::Own(_)) => Some("was freed"),
            None => Some("went when that was closed"),
        }
    }

    /// The mutex that a bag's owner has for it.
    fn bag_mutex(&self, bag: BagOf, device: u32) -> Option<Mutex> {
        Some(match bag {
            BagOf::Device(_) => Mutex::Device(DeviceId(device).subject()),
            BagOf::Filter(it) => Mutex::Control(it.subject()),
            BagOf::Pin(it) => Mutex::Control(FilterId(self.pins.get(it.0)?.filter).subject()),
            BagOf::Own(_) => return None,
        })
    }
}

impl Stream {
    /// Frees what is in a bag, unless another has it.
    pub(crate) fn empty_bag(&self, at: &mut Passive, device: u32, bag: BagOf) {
        let of = subject(bag, device);
        loop {
            let (item, freed, driver, memory) = {
                let mut world = self.world.hold();
                let Some(list) = world.bags.items.get_mut(&bag).filter(|it| !it.is_empty()) else {
                    world.bags.items.remove(&bag);
                    if let BagOf::Own(number) = bag {
                        world.bags.own.remove(&number);
                    }
                    return;
                };
                let item = list.remove(0);
                let freed = !world.bags.holds(device, item.word);
                self.say_unbagged(of, item.word, freed);
                let Some(it) = world.devices.get(device) else { return };
                let (driver, memory) = (it.driver.clone(), it.memory.clone());
                if freed && !item.routine {
                    world.blocks.remove(&(device, item.word));
                }
                (item, freed, driver, memory)
            };
            if freed && item.routine {
                driver.free_item(at, of, item.word);
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

    fn judge_bag(&self, world: &World, bag: BagOf, device: u32, place: &'static str) -> Answer<()> {
        let level = self.host.irql();
        let mutex = world.bag_mutex(bag, device);
        let of = subject(bag, device);
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
        let (device, place) = (self.device.0, "KsAddItemToObjectBag");
        stream.judge_bag(&world, bag, device, place)?;
        let of = subject(bag, device);
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
        let (device, place) = (self.device.0, "KsRemoveItemFromObjectBag");
        let of = subject(bag, device);
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
            let device = world.devices.get(device).ok_or(Refusal::Invalid)?;
            (it, device.driver.clone(), device.memory.clone())
        };
        if it.routine {
            At::here(&*self.host, |at| {
                if let At::Passive(at) = at {
                    driver.free_item(at, of, item);
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
        let mine = |it: &&Item| (it.device, it.word) == (self.device.0, item);
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
        world.bags.last += 1;
        let number = world.bags.last;
        world.bags.own.insert(number, self.device.0);
        Ok(BagOf::Own(number))
    }

    /// Frees a bag that the driver made, with all in it (`KsFreeObjectBag`).
    pub fn free_bag(&self, bag: BagOf) -> Answer<()> {
        let stream = self.stream()?;
        let BagOf::Own(number) = bag else { return Err(Refusal::Invalid) };
        if !stream.world.hold().bags.own.contains_key(&number) {
            return Err(Refusal::Invalid);
        }
        At::here(&*self.host, |at| match at {
            At::Passive(at) => {
                stream.empty_bag(at, self.device.0, bag);
                Ok(())
            }
            At::Dispatch(_) | At::Device(_) => Err(Refusal::Deadlock),
        })
    }
}
