//! The floor: what the least that could be called a kernel costs.
//!
//! A pair is one counted object of 256 bytes put into a table and one taken out, by names that
//! are not believed once they are stale, under one lock.

use std::sync::{Arc, Mutex, PoisonError};

/// The table.
#[derive(Default)]
pub(crate) struct Floor(Mutex<Slab>);

/// A name: a place, and which object of that place.
pub(crate) type Name = (usize, u32);

#[derive(Default)]
struct Slab {
    slots: Vec<Slot>,
    free: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    turn: u32,
    object: Option<Arc<[u8; 256]>>,
}

impl Floor {
    pub(crate) fn create(&self) -> Name {
        let object = Some(Arc::new([0xa5; 256]));
        let mut slab = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = slab.free.pop().unwrap_or_else(|| {
            slab.slots.push(Slot::default());
            slab.slots.len() - 1
        });
        let slot = &mut slab.slots[place];
        slot.object = object;
        (place, slot.turn)
    }

    pub(crate) fn destroy(&self, (place, turn): Name) {
        let gone = {
            let mut slab = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut slab.slots[place];
            if slot.turn != turn {
                return;
            }
            slot.turn += 1;
            let gone = slot.object.take();
            slab.free.push(place);
            gone
        };
        drop(std::hint::black_box(gone));
    }
}
