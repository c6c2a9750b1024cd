//! Offers: allocations whose content may be discarded when memory is short.

use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::memory::Extent;
use crate::memory::Offer;
use crate::memory::place::PagingPlan;
use crate::memory::residency::Residency;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use crate::schedule::report::QueuePoint;
use crate::state::KernelState;
use flight::EventKind;

/// The result of a reclaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReclaimResponse {
    /// For each allocation of the list: whether its content was discarded.
    pub discarded: Vec<bool>,
    /// When those that must be resident are resident.
    pub residency: Residency,
}

/// An offer that waits for earlier work.
pub(crate) struct PendingOffer {
    pub(crate) adapter: Id<Adapter>,
    pub(crate) view: Id<View>,
    pub(crate) extent: Id<Extent>,
    pub(crate) waits: Vec<QueuePoint>,
}

impl Kernel {
    /// Offers views (`D3DKMTOfferAllocations`). The offer takes effect when the earlier work is
    /// done.
    pub fn offer(
        &self,
        process: ProcessId,
        device: Handle,
        list: &[Handle],
        priority: u32,
    ) -> Result<(), KernelError> {
        let guard = self.enter_device(process, device)?;
        let state = &mut *self.state.lock();
        let views = state.views_of(process, guard.device, list)?;
        for view in &views {
            let extent = state.extent_of(*view).and_then(|extent| state.memory.extents.get(extent));
            if extent.is_some_and(|extent| extent.offer.is_some()) {
                return Err(KernelError::Offered(view.subject()));
            }
        }
        let behind = state.outstanding_work(guard.device);
        for view in views {
            let extent = state.checked_extent_of(view);
            let it = &mut state.memory.extents[extent];
            it.offer = Some(Offer { priority, ready: false, discarded: false });
            let waits = u32::try_from(behind.len()).unwrap_or(u32::MAX);
            self.log.emit(view.subject(), || EventKind::OfferStarted { priority, waits });
            let adapter = guard.adapter;
            state.memory.offers.push(PendingOffer { adapter, view, extent, waits: behind.clone() });
        }
        self.complete_offers(state, guard.adapter);
        Ok(())
    }

    /// Puts offers into effect whose earlier work has completed.
    #[inline]
    pub(crate) fn complete_offers(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        if !state.memory.offers.is_empty() {
            self.complete_listed_offers(state, adapter);
        }
    }

    fn complete_listed_offers(&self, state: &mut KernelState, adapter: Id<Adapter>) {
        let mut waiting = Vec::new();
        for it in std::mem::take(&mut state.memory.offers) {
            let passed = |queue_point: &QueuePoint| state.is_work_done(adapter, *queue_point);
            if it.adapter != adapter || !it.waits.iter().all(passed) {
                waiting.push(it);
                continue;
            }
            // The view of a shared allocation may be closed; the allocation still exists for other
            // views.
            let named = state.views.get(it.view).is_some();
            // The allocation may have been destroyed before the work that the offer waits for.
            let Some(extent) = state.memory.extents.get_mut(it.extent) else { continue };
            if let Some(offer) = extent.offer.as_mut() {
                offer.ready = true;
                if named {
                    self.log.emit(it.view.subject(), || EventKind::OfferReady {});
                }
            }
            state.rank(it.extent);
        }
        state.memory.offers = waiting;
    }

    /// Reclaims offered views (`D3DKMTReclaimAllocations`, `D3DKMTReclaimAllocations2`): all of
    /// them, or none. With a queue, those that must be resident are paged in again.
    pub fn reclaim(
        &self,
        process: ProcessId,
        device: Option<Handle>,
        queue: Option<Handle>,
        list: &[Handle],
    ) -> Result<ReclaimResponse, KernelError> {
        let (queue, guard) = {
            let mut state = self.state.lock();
            let (queue, number) = match (queue, device) {
                (Some(it), _) => {
                    let (queue, device) = state.find_paging_queue(process, it)?;
                    (Some(queue), device)
                }
                (None, it) => (None, state.device_of(process, it.unwrap_or_default())?),
            };
            (queue, self.acquire_rundown(&mut state, number)?)
        };
        self.recheck_device(&guard)?;
        let state = &mut *self.state.lock();
        let views = state.views_of(process, guard.device, list)?;
        for view in &views {
            let extent = state.extent_of(*view).and_then(|extent| state.memory.extents.get(extent));
            if extent.is_none_or(|extent| extent.offer.is_none()) {
                return Err(KernelError::NotOffered(view.subject()));
            }
        }
        let (mut plan, mut discarded) = (PagingPlan::default(), Vec::new());
        for view in &views {
            let extent = state.checked_extent_of(*view);
            state.memory.offers.retain(|pending_offer| pending_offer.extent != extent);
            let it = &mut state.memory.extents[extent];
            let lost = it.offer.take().is_some_and(|offer| offer.discarded);
            discarded.push(lost);
            state.rank(extent);
        }
        // Only now, so that no view of the list evicts another.
        for view in &views {
            let extent = state.checked_extent_of(*view);
            if state.memory.extents[extent].holds > 0 {
                // A view that finds no room becomes resident at the next residency request.
                let _ = self.plan_page_in(state, extent, &mut plan);
            }
        }
        let waits = |view: &Id<View>| {
            let extent = state.extent_of(*view).and_then(|extent| state.memory.extents.get(extent));
            extent.is_some_and(|extent| {
                extent.segment().is_some() && extent.holds > 0 && extent.pending > 0
            })
        };
        let waits = !plan.page_in.is_empty() || views.iter().any(waits);
        let signals = queue
            .filter(|_| waits)
            .map(|paging_queue| (paging_queue, state.next_queue_value(paging_queue)));
        self.start_paging(state, guard.adapter, plan, signals);
        let residency = signals.map_or(Residency::Resident, |pair| Residency::Pending(pair.1));
        let value = signals.map_or(0, |pair| pair.1);
        let queue = queue.map(Id::subject);
        for (view, discarded) in views.iter().zip(&discarded) {
            self.log.emit(view.subject(), || EventKind::OfferEnded {
                discarded: *discarded,
                queue,
                value,
            });
        }
        Ok(ReclaimResponse { discarded, residency })
    }
}
