//! The pins of a filter with filter-centric processing: `KSPROCESSPIN` and its index.

use crate::ks::door::Door;
use crate::ks::driver_memory::DriverMemory;
use abi::ks::{KSPROCESSPIN, KSPROCESSPIN_INDEXENTRY};
use std::ptr;
use stream::{FilterId, ProcessPin};

/// The arguments of a filter's process routine, for the duration of a call.
pub(crate) struct ProcessPins {
    index: DriverMemory,
    /// The lists of the index: pointers, one list for each factory.
    _lists: Vec<DriverMemory>,
    pins: Vec<DriverMemory>,
}

impl Door {
    /// Fills the pins of a filter that have data. Their edges are locked.
    pub(crate) fn process_pins(&self, filter: FilterId, pins: &[ProcessPin]) -> ProcessPins {
        let mut shown = Vec::new();
        let mut numbers = Vec::new();
        for it in pins {
            let pointer = self.show_pointer(it.pointer, 0, None);
            let data = self.services().pointer_view(it.pointer).map_or(0, |view| match view.data {
                0 => 0,
                data => data + view.offset as usize,
            });
            let pin = self.pin(it.pin).unwrap_or(ptr::null_mut());
            numbers.push(self.services().pin_view(it.pin).map_or(u32::MAX, |view| view.factory));
            shown.push(DriverMemory::from_value(KSPROCESSPIN {
                Pin: pin,
                StreamPointer: pointer,
                Data: ptr::with_exposed_provenance_mut(data),
                BytesAvailable: it.available,
                ..KSPROCESSPIN::ZERO
            }));
        }
        let count = self.inner().filters.get(&filter).map_or(0, |filter| filter.pins.len());
        let entry = size_of::<KSPROCESSPIN_INDEXENTRY>();
        let index = DriverMemory::new(entry * count.max(1));
        let mut lists = Vec::new();
        for factory in 0..count {
            let mine = (0..shown.len()).filter(|at| numbers[*at] as usize == factory);
            let mine: Vec<usize> = mine.map(|at| shown[at].address()).collect();
            let list = DriverMemory::new(size_of::<usize>() * mine.len());
            for (at, address) in mine.iter().enumerate() {
                list.write(at * size_of::<usize>(), *address);
            }
            let line = KSPROCESSPIN_INDEXENTRY {
                Pins: list.pointer(),
                Count: u32::try_from(mine.len()).unwrap_or(0),
            };
            index.write(factory * entry, line);
            lists.push(list);
        }
        ProcessPins { index, _lists: lists, pins: shown }
    }
}

impl ProcessPins {
    /// The address of the index.
    pub(crate) fn index(&self) -> *mut KSPROCESSPIN_INDEXENTRY {
        self.index.pointer()
    }

    /// Reads what the driver reports to have processed.
    pub(crate) fn read_results(&self, pins: &mut [ProcessPin]) {
        for (place, pin) in self.pins.iter().zip(pins) {
            if let Some(it) = place.read::<KSPROCESSPIN>(0) {
                pin.used = it.BytesUsed.min(pin.available);
                pin.terminate = it.Terminate != 0;
            }
        }
    }
}
