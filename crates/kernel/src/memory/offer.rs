//! Offers: allocations whose bytes may be thrown away when memory is short.

use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::memory::Extent;
use crate::memory::Offer;
use crate::memory::place::Plan;
use crate::memory::resident::Residency;
use crate::process::ProcessId;
use crate::refused::Refused;
use crate::schedule::Behind;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::What;

/// What was taken back, and at what price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reclaimed {
    /// For each of the list: its bytes were thrown away.
    pub discarded: Vec<bool>,
    /// When those that must be resident are.
    pub residency: Residency,
}

/// An offer that waits for work before it.
pub(crate) struct Offering {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) view: Id<View>,
    pub(crate) extent: Id<Extent>,
    pub(crate) behind: Vec<Behind>,
}

impl Kernel {
    /// Offers views (`D3DKMTOfferAllocations`): from when the work before is done.
    pub fn offer(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
        priority: u32,
    ) -> Result<(), Refused> {
        let inside = self.enter_device(process, device)?;
        let world = &mut *self.world.hold();
        let views = world.views_of(process, inside.device, list)?;
        for view in &views {
            let extent = world.extent_of(*view).and_then(|it| world.extents.get(it));
            if extent.is_some_and(|it| it.offer.is_some()) {
                return Err(Refused::Offered(view.subject()));
            }
        }
        let behind = world.outstanding(inside.device);
        for view in views {
            let Some(extent) = world.extent_of(view) else { continue };
            let it = &mut world.extents[extent];
            it.offer = Some(Offer { priority, ready: false, discarded: false });
            let waits = u32::try_from(behind.len()).unwrap_or(u32::MAX);
            self.log.emit(view.subject(), What::OfferMade { priority, behind: waits });
            let adapter = inside.adapter;
            world.offers.push(Offering { adapter, view, extent, behind: behind.clone() });
        }
        self.settle_offers(world, inside.adapter);
        Ok(())
    }

    /// Offers whose work has passed count from here on.
    pub(crate) fn settle_offers(&self, world: &mut World, adapter: Id<Adapter>) {
        if world.offers.is_empty() {
            return;
        }
        let mut waiting = Vec::new();
        for it in std::mem::take(&mut world.offers) {
            let passed = |it: &Behind| world.is_over(adapter, *it);
            if it.adapter != adapter || !it.behind.iter().all(passed) {
                waiting.push(it);
                continue;
            }
            // Of a shared one the view may have ended, and what it offered is there for others.
            let named = world.views.get(it.view).is_some();
            let extent = world.extents.get_mut(it.extent);
            if let Some(offer) = extent.and_then(|it| it.offer.as_mut()) {
                offer.ready = true;
                if named {
                    self.log.emit(it.view.subject(), What::OfferReady {});
                }
            }
            world.rank(it.extent);
        }
        world.offers = waiting;
    }

    /// Takes offered views back (`D3DKMTReclaimAllocations`, `2`): all of them, or none. With a
    /// queue, what must be resident is paged in again.
    pub fn reclaim(
        &self,
        process: ProcessId,
        device: Option<Handle>,
        queue: Option<Handle>,
        list: &[Handle],
    ) -> Result<Reclaimed, Refused> {
        let (queue, inside) = {
            let mut world = self.world.hold();
            let (queue, number) = match (queue, device) {
                (Some(it), _) => {
                    let (queue, device) = world.queue_of(process, it)?;
                    (Some(queue), device)
                }
                (None, it) => (None, world.device_of(process, it.unwrap_or_default())?),
            };
            (queue, self.inside(&mut world, number)?)
        };
        self.look_again(&inside)?;
        let world = &mut *self.world.hold();
        let views = world.views_of(process, inside.device, list)?;
        for view in &views {
            let extent = world.extent_of(*view).and_then(|it| world.extents.get(it));
            if extent.is_none_or(|it| it.offer.is_none()) {
                return Err(Refused::NotOffered(view.subject()));
            }
        }
        let (mut plan, mut discarded) = (Plan::default(), Vec::new());
        for view in &views {
            let Some(extent) = world.extent_of(*view) else { continue };
            world.offers.retain(|it| it.extent != extent);
            let it = &mut world.extents[extent];
            let gone = it.offer.take().is_some_and(|it| it.discarded);
            discarded.push(gone);
            world.rank(extent);
        }
        // Only now: nobody of the list leaves for another.
        for view in &views {
            let Some(extent) = world.extent_of(*view) else { continue };
            if world.extents.get(extent).is_some_and(|it| it.held > 0) {
                // One that finds no room is resident again when somebody asks for it.
                let _ = self.plan_in(world, extent, &mut plan);
            }
        }
        let waits = |view: &Id<View>| {
            let extent = world.extent_of(*view).and_then(|it| world.extents.get(it));
            extent.is_some_and(|it| it.segment().is_some() && it.held > 0 && it.pending > 0)
        };
        let waits = !plan.come.is_empty() || views.iter().any(waits);
        let signals = queue.filter(|_| waits).map(|it| (it, world.next_value(it)));
        self.start_paging(world, inside.adapter, plan, signals);
        let residency = signals.map_or(Residency::Resident, |it| Residency::Pending(it.1));
        let value = signals.map_or(0, |it| it.1);
        let queue = queue.map(Id::subject);
        for (view, discarded) in views.iter().zip(&discarded) {
            let ended = What::OfferEnded { discarded: *discarded, queue, value };
            self.log.emit(view.subject(), ended);
        }
        Ok(Reclaimed { discarded, residency })
    }
}
