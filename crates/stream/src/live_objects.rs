//! Live objects and what keeps each alive.

use crate::bag::BagOwner;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{DeviceId, FilterId, PinId};
use flight::{LiveObject, LiveObjects};

impl Stream {
    /// The live device with this serial number, as events print it.
    pub fn find_device(&self, serial: u32) -> Option<DeviceId> {
        self.state.lock().devices.find_serial(serial)
    }

    /// The live filter with this serial number.
    pub fn find_filter(&self, serial: u32) -> Option<FilterId> {
        self.state.lock().filters.find_serial(serial)
    }

    /// The live pin with this serial number.
    pub fn find_pin(&self, serial: u32) -> Option<PinId> {
        self.state.lock().pins.find_serial(serial)
    }

    /// The live objects, and what keeps each alive.
    pub fn live_objects(&self) -> LiveObjects {
        let stream_state = self.state.lock();
        let mut live = Vec::new();
        for (number, it) in stream_state.devices.iter() {
            let blocks = stream_state.blocks_of(number).count();
            let mut why = vec![format!("{:?}", it.set_phase).to_lowercase()];
            if blocks > 0 {
                why.push(format!("its driver has {blocks} pieces of memory"));
            }
            add_bag_references(&stream_state, BagOwner::Device(number), &mut why);
            let subject = number.subject();
            live.push(LiveObject { subject, owner: None, reasons: why });
            for (filter, _) in stream_state.filters.iter().filter(|(_, it)| it.device == number) {
                stream_state.list_filter(filter, &mut live);
            }
        }
        for (mutex, owner) in stream_state.mutexes.iter() {
            let why = vec![format!("{} mutex of thread {}", mutex.name(), owner.thread)];
            live.push(LiveObject { subject: mutex.owner(), owner: None, reasons: why });
        }
        LiveObjects { objects: live }
    }
}

fn add_bag_references(stream_state: &StreamState, bag: BagOwner, why: &mut Vec<String>) {
    let count = stream_state.bags.count(bag);
    if count > 0 {
        why.push(format!("{count} items in its bag"));
    }
}

impl StreamState {
    fn list_filter(&self, filter: FilterId, live: &mut Vec<LiveObject>) {
        let it = &self.filters[filter];
        let subject = filter.subject();
        let mut why = vec![if it.created { "open".to_owned() } else { "being built".to_owned() }];
        add_bag_references(self, BagOwner::Filter(filter), &mut why);
        live.push(LiveObject { subject, owner: Some(it.device.subject()), reasons: why });
        for pin in self.pins_of(filter) {
            self.list_pin(*pin, live);
        }
    }

    fn list_pin(&self, pin: PinId, live: &mut Vec<LiveObject>) {
        let it = &self.pins[pin];
        let mut why = vec![format!("in state {}", it.device_state.name())];
        if it.connection.is_some() {
            why.push("connected".to_owned());
        }
        add_bag_references(self, BagOwner::Pin(pin), &mut why);
        live.push(LiveObject {
            subject: pin.subject(),
            owner: Some(it.filter.subject()),
            reasons: why,
        });
        let owner = Some(pin.subject());
        if let Some(allocator) = it.allocator {
            let it = &self.allocators[allocator];
            let why = vec![format!("{}, of {} frames", it.owner.name(), it.framing.frames)];
            live.push(LiveObject { subject: allocator.subject(), owner, reasons: why });
        }
        for (frame, it) in self.frames_of(pin) {
            let mut why = vec![format!("{:?}", it.location).to_lowercase()];
            if it.clones > 0 {
                why.push(format!("{} clones point to it", it.clones));
            }
            live.push(LiveObject { subject: frame.subject(), owner, reasons: why });
        }
        for clone in &it.clones {
            let why = vec!["a clone of its driver's".to_owned()];
            live.push(LiveObject { subject: clone.subject(), owner, reasons: why });
        }
    }
}
