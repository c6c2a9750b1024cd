//! What becomes of memory when its GPU was reset: everything in it is lost.

use crate::ddi::{Driver, For};
use crate::gate::Pass;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::{Move, Place, Spotted, Step};
use crate::operation::{Building, Operation};
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, RuleId, What, Who};

impl Kernel {
    /// Takes everything out of an adapter's memory. Its driver is told so that it knows: bytes
    /// come from nowhere any more, and nothing is given to the hardware.
    ///
    /// WINDOWS: moves out of memory have no bytes then, and apertures are unmapped (documented).
    pub(crate) fn drop_places(&self, at: &mut Passive, driver: &Driver, pass: &Pass<'_>) {
        let adapter = driver.adapter;
        let there = self.world.hold().placed_on(adapter);
        for (extent, spotted) in there {
            self.tell_dropped(at, driver, pass, extent, spotted);
            let world = &mut *self.world.hold();
            let (extents, memory) = world.memory_mut_of(extent);
            let it = &mut extents[extent];
            let Some(segment) = memory.segments.get(spotted.segment) else { continue };
            let (subject, aperture) = (segment.subject, segment.shape.flags.aperture);
            let why = "its GPU was reset".into();
            let evicted = What::MemoryEvicted { segment: subject, discard: true, why };
            self.log.emit(it.owner.subject(), evicted);
            it.used.clear();
            // What an aperture showed is in the system's memory still.
            if !aperture {
                it.content = false;
            }
            if let Some(witness) = self.witness.get() {
                witness.forget(it.owner.subject());
            }
            world.leave_place(extent, if aperture { Place::System } else { Place::Nowhere });
        }
    }

    fn tell_dropped(
        &self,
        at: &mut Passive,
        driver: &Driver,
        pass: &Pass<'_>,
        extent: Id<Extent>,
        spotted: Spotted,
    ) {
        let aperture = self.world.hold().is_aperture(driver.adapter, spotted.segment);
        let what = if aperture { Move::Unmap } else { Move::Out };
        let step = Step { idle: true, ..Step::new(extent, what, spotted) };
        let Some(facts) = self.world.hold().facts(&step) else { return };
        let mut operation = facts.operation(&step);
        if let Operation::Transfer(it) = &mut operation {
            it.bytes = 0;
        }
        let name = operation.name();
        let mut buffer = vec![0; facts.room as usize];
        let (mut multipass, mut private) = (0, Vec::new());
        let mut building = Building {
            operation,
            buffer: &mut buffer,
            address: 0,
            before: 0,
            written: 0,
            multipass: &mut multipass,
            private: &mut private,
        };
        let (log, adapter) = (&self.log, driver.adapter);
        let whom = For { process: None, carries: &|_| () };
        // What it answers changes nothing: there is nothing to do.
        let (_, touched) = driver.build_dropped(at, pass, whom, &mut building);
        let broken = touched.then(|| {
            format!("the driver touched its hardware in {name}, between a reset and the restart")
        });
        let place = "DxgkDdiBuildPagingBuffer";
        log.judge(RuleId::KMD_TDR_004, Who::Driver, adapter.subject(), place, broken);
        let dropped = What::PagingDropped { operation: name.into(), of: facts.owner, bytes: 0 };
        log.emit(adapter.subject(), dropped);
    }
}

impl World {
    /// What is in the memory of an adapter, and where.
    fn placed_on(&self, adapter: Id<Adapter>) -> Vec<(Id<Extent>, Spotted)> {
        let place = |(number, it): (Id<Extent>, &Extent)| match &it.place {
            // Page tables stay where they are, and are written again.
            Place::In { segment, spot } if it.adapter == adapter && !it.owner.is_table() => {
                Some((number, Spotted { segment: *segment, offset: spot.start() }))
            }
            _ => None,
        };
        self.extents.iter().filter_map(place).collect()
    }

    fn is_aperture(&self, adapter: Id<Adapter>, segment: usize) -> bool {
        let memory = self.memory(adapter).map(|it| it.1);
        memory.and_then(|it| it.segments.get(segment)).is_some_and(|it| it.shape.flags.aperture)
    }
}
