//! The floors: the cost of a minimal kernel.
//!
//! Bare: a pair inserts one reference-counted object of 256 bytes into a table and removes one, by
//! handles that detect staleness, under one lock. Composite: each object also has a page of a
//! segment, which a two-level segregated fit allocates and frees under that lock.

use crate::MeasureError;
use crate::clock::{Span, run_in_parallel, timed};
use crate::ring::{Ring, TwoPassDriver};
use offset_allocator::{Allocation, Allocator};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A handle: a slot and its generation.
type Name = (usize, u32);

/// A table of objects, each with its page of the segment, if any.
struct Baseline(Mutex<Slab>);

struct Slab {
    slots: Vec<Slot>,
    free: Vec<usize>,
    segment: Option<Allocator>,
}

#[derive(Default)]
struct Slot {
    turn: u32,
    object: Option<Arc<[u8; 256]>>,
    page: Option<Allocation>,
}

impl Baseline {
    fn new(segment: Option<Allocator>) -> Self {
        Self(Mutex::new(Slab { slots: Vec::new(), free: Vec::new(), segment }))
    }
}

impl TwoPassDriver<()> for &Baseline {
    type Name = Name;

    fn create(&mut self, _at: &mut ()) -> Result<Name, MeasureError> {
        let object = Some(Arc::new([0xa5; 256]));
        let mut slab = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let page = slab.segment.as_mut().and_then(|allocator| allocator.allocate(1));
        if slab.segment.is_some() && page.is_none() {
            return Err(MeasureError("a segment with a free page".to_owned()));
        }
        let place = slab.free.pop().unwrap_or_else(|| {
            slab.slots.push(Slot::default());
            slab.slots.len() - 1
        });
        let slot = &mut slab.slots[place];
        (slot.object, slot.page) = (object, page);
        Ok((place, slot.turn))
    }

    fn destroy(&mut self, _at: &mut (), (place, turn): Name) -> Result<(), MeasureError> {
        let gone = {
            let mut slab = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let slot = &mut slab.slots[place];
            if slot.turn != turn {
                return Err(MeasureError("a handle that is not stale".to_owned()));
            }
            slot.turn += 1;
            let (gone, page) = (slot.object.take(), slot.page.take());
            slab.free.push(place);
            if let (Some(segment), Some(page)) = (&mut slab.segment, page) {
                segment.free(page);
            }
            gone
        };
        drop(std::hint::black_box(gone));
        Ok(())
    }
}

/// Both floors, with as many live objects and threads as the row.
pub(crate) struct Baselines {
    bare: PopulatedBaseline,
    composite: PopulatedBaseline,
}

/// A floor and its live objects, separate for each thread.
struct PopulatedBaseline {
    floor: Baseline,
    rings: Vec<Ring<Name>>,
}

impl Baselines {
    pub(crate) fn new(live: usize, threads: usize) -> Result<Self, MeasureError> {
        // Room for all objects, one more per thread, and the allocator's reserve.
        let pages = u32::try_from(live + 1024).unwrap_or(u32::MAX / 2);
        let segment = Allocator::with_max_allocs(pages, pages);
        Ok(Self {
            bare: PopulatedBaseline::new(Baseline::new(None), live, threads)?,
            composite: PopulatedBaseline::new(Baseline::new(Some(segment)), live, threads)?,
        })
    }

    /// Runs a turn of both floors.
    pub(crate) fn turn(
        &mut self,
        random: bool,
        pairs: usize,
    ) -> Result<[Duration; 2], MeasureError> {
        Ok([self.bare.turn(random, pairs)?, self.composite.turn(random, pairs)?])
    }
}

impl PopulatedBaseline {
    fn new(floor: Baseline, live: usize, threads: usize) -> Result<Self, MeasureError> {
        let mut rings = Vec::new();
        for _ in 0..threads {
            let mut ring = Ring::with_room(live / threads);
            ring.fill(&mut &floor, &mut ())?;
            rings.push(ring);
        }
        Ok(Self { floor, rings })
    }

    fn turn(&mut self, random: bool, pairs: usize) -> Result<Duration, MeasureError> {
        let (floor, each) = (&self.floor, pairs / self.rings.len());
        if let [ring] = &mut self.rings[..] {
            return timed(|| ring.pairs(&mut &*floor, &mut (), random, each)).map(Span::duration);
        }
        run_in_parallel(&mut self.rings, |ring| ring.pairs(&mut &*floor, &mut (), random, each))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_name_is_not_believed_and_a_page_comes_back() {
        let floor = Baseline::new(Some(Allocator::with_max_allocs(1, 8)));
        let mut floor = &floor;
        let name = floor.create(&mut ()).unwrap();
        assert!(floor.create(&mut ()).is_err(), "the segment has one page");
        assert_eq!(floor.destroy(&mut (), name), Ok(()));
        assert!(floor.destroy(&mut (), name).is_err());
        assert!(floor.create(&mut ()).is_ok());
    }
}
