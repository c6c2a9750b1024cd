//! The census: who is alive, and why.

use crate::bag::BagOf;
use crate::stream::Stream;
use crate::words::{DeviceId, FilterId, PinId};
use crate::world::World;
use flight::{Census, Kind, Live};

impl Stream {
    /// Who is alive now, and why.
    pub fn census(&self) -> Census {
        let world = self.world.hold();
        let mut live = Vec::new();
        for (number, it) in world.devices.iter() {
            let blocks = world.blocks_of(number).count();
            let mut why = vec![format!("{:?}", it.phase).to_lowercase()];
            if blocks > 0 {
                why.push(format!("its driver has {blocks} pieces of memory"));
            }
            bagged(&world, BagOf::Device(DeviceId(number)), &mut why);
            let subject = DeviceId(number).subject();
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
    fn list_filter(&self, number: u32, live: &mut Vec<Live>) {
        let Some(it) = self.filters.get(number) else { return };
        let subject = FilterId(number).subject();
        let mut why = vec![if it.created { "open".to_owned() } else { "being built".to_owned() }];
        bagged(self, BagOf::Filter(FilterId(number)), &mut why);
        live.push(Live { subject, owner: Some(DeviceId(it.device).subject()), why });
        for pin in self.pins_of(number) {
            self.list_pin(*pin, live);
        }
    }

    fn list_pin(&self, pin: PinId, live: &mut Vec<Live>) {
        let Some(it) = self.pins.get(pin.0) else { return };
        let mut why = vec![format!("in state {}", it.state.name())];
        if it.connection.is_some() {
            why.push("connected".to_owned());
        }
        bagged(self, BagOf::Pin(pin), &mut why);
        live.push(Live { subject: pin.subject(), owner: Some(FilterId(it.filter).subject()), why });
        let owner = Some(pin.subject());
        if let Some((number, it)) = it.allocator.and_then(|it| Some((it, self.allocators.get(it)?)))
        {
            let why = vec![format!("{}, of {} frames", it.by.name(), it.framing.frames)];
            live.push(Live { subject: Kind::Allocator.nr(number), owner, why });
        }
        for (number, it) in self.frames_of(pin.0) {
            let mut why = vec![format!("{:?}", it.place).to_lowercase()];
            if it.clones > 0 {
                why.push(format!("{} clones point to it", it.clones));
            }
            live.push(Live { subject: Kind::Frame.nr(number), owner, why });
        }
        for clone in &it.clones {
            let why = vec!["a clone of its driver's".to_owned()];
            live.push(Live { subject: Kind::StreamPointer.nr(*clone), owner, why });
        }
    }
}
