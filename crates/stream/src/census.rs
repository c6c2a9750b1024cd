//! Live objects and what keeps each alive.

use crate::bag::BagOf;
use crate::stream::Stream;
use crate::words::{DeviceId, FilterId, PinId};
use crate::world::World;
use flight::{Census, Live};

impl Stream {
    /// The live device with this serial number, as events print it.
    pub fn find_device(&self, serial: u32) -> Option<DeviceId> {
        self.world.hold().devices.find_serial(serial)
    }

    /// The live filter with this serial number.
    pub fn find_filter(&self, serial: u32) -> Option<FilterId> {
        self.world.hold().filters.find_serial(serial)
    }

    /// The live pin with this serial number.
    pub fn find_pin(&self, serial: u32) -> Option<PinId> {
        self.world.hold().pins.find_serial(serial)
    }

    /// The live objects, and what keeps each alive.
    pub fn census(&self) -> Census {
        let world = self.world.hold();
        let mut live = Vec::new();
        for (number, it) in world.devices.iter() {
            let blocks = world.blocks_of(number).count();
            let mut why = vec![format!("{:?}", it.phase).to_lowercase()];
            if blocks > 0 {
                why.push(format!("its driver has {blocks} pieces of memory"));
            }
            bagged(&world, BagOf::Device(number), &mut why);
            let subject = number.subject();
            live.push(Live { subject, owner: None, why });
            for (filter, _) in world.filters.iter().filter(|(_, it)| it.device == number) {
                world.list_filter(filter, &mut live);
            }
        }
        for (mutex, owner) in world.mutexes.iter() {
            let why = vec![format!("{} mutex of thread {}", mutex.name(), owner.thread)];
            live.push(Live { subject: mutex.of(), owner: None, why });
        }
        Census { live }
    }
}

fn bagged(world: &World, bag: BagOf, why: &mut Vec<String>) {
    let count = world.bags.count(bag);
    if count > 0 {
        why.push(format!("{count} items in its bag"));
    }
}

impl World {
    fn list_filter(&self, filter: FilterId, live: &mut Vec<Live>) {
        let it = &self.filters[filter];
        let subject = filter.subject();
        let mut why = vec![if it.created { "open".to_owned() } else { "being built".to_owned() }];
        bagged(self, BagOf::Filter(filter), &mut why);
        live.push(Live { subject, owner: Some(it.device.subject()), why });
        for pin in self.pins_of(filter) {
            self.list_pin(*pin, live);
        }
    }

    fn list_pin(&self, pin: PinId, live: &mut Vec<Live>) {
        let it = &self.pins[pin];
        let mut why = vec![format!("in state {}", it.state.name())];
        if it.connection.is_some() {
            why.push("connected".to_owned());
        }
        bagged(self, BagOf::Pin(pin), &mut why);
        live.push(Live { subject: pin.subject(), owner: Some(it.filter.subject()), why });
        let owner = Some(pin.subject());
        if let Some(allocator) = it.allocator {
            let it = &self.allocators[allocator];
            let why = vec![format!("{}, of {} frames", it.by.name(), it.framing.frames)];
            live.push(Live { subject: allocator.subject(), owner, why });
        }
        for (frame, it) in self.frames_of(pin) {
            let mut why = vec![format!("{:?}", it.place).to_lowercase()];
            if it.clones > 0 {
                why.push(format!("{} clones point to it", it.clones));
            }
            live.push(Live { subject: frame.subject(), owner, why });
        }
        for clone in &it.clones {
            let why = vec!["a clone of its driver's".to_owned()];
            live.push(Live { subject: clone.subject(), owner, why });
        }
    }
}
