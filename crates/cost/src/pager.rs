//! The idle driver with memory: paging takes no commands and no time, so that what is measured
//! is the kernel.

use crate::idle::Idle;
use flight::{DeviceLevel, Dispatch, Fence, Line, Machine, Passive, Ram};
use kernel::Plugged;
use kernel::miniport::{Answer, Births, Born, Features, Miniport, Refusal, Shape};
use kernel::operation::{Building, PagingSubmission};
use kernel::segment::{
    MemoryFeatures, PagingFeatures, SegmentFlags, SegmentSet, SegmentShape, Wants,
};
use kernel::services::Services;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So long is an allocation, and a buffer.
pub(crate) const PAGE: u64 = 4096;

/// Where its memory begins; before it is the aperture, which has to be there.
const BASE: u64 = 1 << 40;
/// The segment that is memory.
const MEMORY: u32 = 2;
/// What any allocation is worth.
const NORMAL: u32 = 0x7800_0000;

/// The driver of an adapter with so many bytes of memory, in which nothing is ever written.
pub(crate) fn plug(ram: Arc<dyn Ram>, bytes: u64) -> Plugged {
    let it = Arc::new(Pager { idle: Idle::default(), ram, bytes, state: Mutex::default() });
    let pool = Arc::new(Idle::default());
    Plugged { miniport: it.clone(), machine: it, pool }
}

struct Pager {
    idle: Idle,
    ram: Arc<dyn Ram>,
    bytes: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    services: Option<Arc<Services>>,
    /// The last fence that was submitted and not interrupted for.
    queued: Option<Fence>,
    /// The last one that was, and not reported.
    done: Option<Fence>,
}

impl Pager {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> Answer<Arc<Services>> {
        self.state().services.clone().ok_or(Refusal::Invalid)
    }
}

impl Miniport for Pager {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&self.idle)
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.state().services = Some(services.clone());
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        let services = self.state().services.take();
        drop(services); // Not under the lock.
        Ok(())
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        let shape = |base, size, flags| SegmentShape {
            base,
            size,
            commit_limit: size,
            flags,
            ..SegmentShape::default()
        };
        let aperture = SegmentFlags { aperture: true, ..SegmentFlags::default() };
        let memory = SegmentFlags { application_target: true, ..SegmentFlags::default() };
        let segments = vec![shape(0, PAGE, aperture), shape(BASE, self.bytes, memory)];
        let buffer = u32::try_from(PAGE).unwrap_or(u32::MAX);
        let paging = PagingFeatures { buffer, ..PagingFeatures::default() };
        let memory = MemoryFeatures { segments, paging };
        Ok(Features { nodes: 1, memory: Some(memory), ..Features::default() })
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let mut born = self.idle.create_allocations(at, births)?;
        let segments = SegmentSet::of(&[MEMORY]);
        let wants = Wants { segments, priority: NORMAL, ..Wants::default() };
        for (_, shape) in &mut born.allocations {
            *shape = Shape { wants, ..*shape };
        }
        Ok(born)
    }

    fn build_paging(&self, _at: &mut Passive, _building: &mut Building<'_>) -> Answer<()> {
        Ok(())
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &PagingSubmission<'_>) -> Answer<()> {
        self.state().queued = Some(packet.fence);
        Ok(())
    }

    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        let services = self.services()?;
        let Some(done) = self.state().done.take() else { return Ok(false) };
        services.notify_interrupt(at, 0, done);
        services.queue_dpc();
        Ok(true)
    }

    fn dpc(&self, at: &mut Dispatch) -> Answer<()> {
        self.services()?.notify_dpc(at);
        Ok(())
    }
}

impl Machine for Pager {
    fn idle(&self) -> bool {
        self.state().queued.is_none()
    }

    fn step(&self, at: &mut Passive, line: &dyn Line) {
        let queued = {
            let mut state = self.state();
            let queued = state.queued.take();
            state.done = queued.or(state.done);
            queued
        };
        if queued.is_some() {
            line.raise(at);
        }
    }

    fn ram(&self) -> Option<Arc<dyn Ram>> {
        Some(self.ram.clone())
    }
}
