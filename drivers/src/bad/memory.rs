//! What goes wrong on an adapter with memory: the driver in safe Rust, with a fault.

use flight::Passive;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Births, Blank, Born, ContextOrder, DriverContext, DriverDevice, Features, Miniport,
    Refusal, Shape,
};
use kernel::operation::{Building, ContextMemoryOrder, Operation};
use kernel::segment::{MemoryFeatures, Preference, SegmentSet, Wants, WantsFlags};
use kernel::services::Services;
use softgpu::{APERTURE, AREA_SIZE, LOCAL, SoftGpu, VISIBLE, format};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The driver in safe Rust, on an adapter with memory, with a fault.
pub(crate) struct Memory {
    inner: Arc<SoftGpu>,
    fault: Fault,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    services: Option<Arc<Services>>,
    /// The kernel's names for devices, by the driver's words.
    devices: BTreeMap<usize, usize>,
    /// Its names for what all contexts of a device share, by the driver's word for the device.
    shared: BTreeMap<usize, usize>,
}

/// What it does wrong.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    /// In what it says of its memory.
    Says(fn(&mut MemoryFeatures)),
    /// In what it says of new allocations.
    Wants(fn(&mut Shape)),
    /// In how it answers when it builds paging commands.
    Builds(fn(&mut Building<'_>) -> Option<Answer<()>>),
    /// In the memory it makes for a context, with the kernel's name of it, or of its device.
    Orders(fn(&mut ContextMemoryOrder)),
    /// Frees what it made for a context twice.
    FreesTwice,
    /// Never frees what it made for a device.
    Forgets,
    /// Maps more pages than it has.
    MapsBeyond,
    /// Brings a context's memory up to date while it builds.
    UpdatesInside,
}

impl Memory {
    pub(crate) fn new(inner: Arc<SoftGpu>, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner, fault, state: Mutex::default() })
    }

    fn state<R>(&self, body: impl FnOnce(&mut State) -> R) -> R {
        body(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn services(&self) -> Answer<Arc<Services>> {
        self.state(|it| it.services.clone()).ok_or(Refusal::Invalid)
    }

    /// Whether it does wrong with the memory of a context.
    fn errs_in_contexts(&self) -> bool {
        matches!(self.fault, Fault::Orders(_) | Fault::FreesTwice | Fault::MapsBeyond)
    }

    /// An order for the memory of a context, or of all of a device where that is zero.
    fn order(&self, device: usize, context: usize) -> ContextMemoryOrder {
        let flags = WantsFlags { physical: true, notify: true, ..WantsFlags::default() };
        ContextMemoryOrder {
            device: self.state(|it| it.devices.get(&device).copied()).unwrap_or(0),
            context,
            shared: context == 0,
            size: AREA_SIZE,
            wants: Wants { flags, ..format::anywhere() },
            word: 0x10, // No block is there.
            ..ContextMemoryOrder::default()
        }
    }

    /// Does wrong with memory for a context, which it frees again.
    fn go_wrong(&self, at: &mut Passive, device: usize, context: usize) -> Answer<()> {
        let services = self.services()?;
        let mut order = self.order(device, context);
        if let Fault::Orders(wrong) = self.fault {
            wrong(&mut order);
        }
        // A refusal is right: the breach is in the order.
        let Ok(saved) = services.create_context_memory(at, &order) else { return Ok(()) };
        if let Fault::MapsBeyond = self.fault {
            services.map_context_memory(at, saved, 0, AREA_SIZE / 4096 + 1);
        }
        services.destroy_context_memory(at, saved)?;
        if let Fault::FreesTwice = self.fault {
            let _ = services.destroy_context_memory(at, saved); // The breach.
        }
        Ok(())
    }
}

impl Miniport for Memory {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.state(|it| it.services = Some(services.clone()));
        self.inner.add_device(at, services)
    }

    fn remove_device(&self, at: &mut Passive) -> Answer<()> {
        let services = self.state(|it| it.services.take());
        drop(services);
        self.inner.remove_device(at)
    }

    fn query_adapter(&self, at: &mut Passive) -> Answer<Features> {
        let mut features = self.inner.query_adapter(at)?;
        if let (Fault::Says(wrong), Some(memory)) = (self.fault, &mut features.memory) {
            wrong(memory);
        }
        Ok(features)
    }

    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        let name = word.kernel_name();
        let device = self.inner.create_device(at, word)?;
        self.state(|it| it.devices.insert(device.word(), name));
        if matches!(self.fault, Fault::Forgets | Fault::UpdatesInside) {
            let order = self.order(device.word(), 0);
            let saved = self.services()?.create_context_memory(at, &order)?;
            self.state(|it| it.shared.insert(device.word(), saved));
        }
        Ok(device)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> Answer<()> {
        let (_, saved) =
            self.state(|it| (it.devices.remove(&device.word()), it.shared.remove(&device.word())));
        if let (Some(saved), Fault::UpdatesInside) = (saved, self.fault) {
            self.services()?.destroy_context_memory(at, saved)?;
        }
        self.inner.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<DriverContext> {
        let name = word.kernel_name();
        if self.errs_in_contexts() {
            self.go_wrong(at, device.word(), name)?;
        }
        self.inner.create_context(at, device, order, word)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        let mut born = self.inner.create_allocations(at, births)?;
        if let Fault::Wants(wrong) = self.fault {
            born.allocations.iter_mut().for_each(|(_, shape)| wrong(shape));
        }
        Ok(born)
    }

    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        if let Fault::UpdatesInside = self.fault {
            let saved = self.state(|it| it.shared.values().next().copied()).unwrap_or(0);
            let _ = self.services()?.update_context_memory(at, saved, b"new"); // The breach.
        }
        let wrong = match self.fault {
            Fault::Builds(wrong) => wrong(building),
            _ => None,
        };
        wrong.unwrap_or_else(|| self.inner.build_paging(at, building))
    }
}

fn first(memory: &mut MemoryFeatures, number: u32) -> &mut kernel::segment::SegmentShape {
    let place = usize::try_from(number).unwrap_or(1) - 1;
    &mut memory.segments[place]
}

pub(crate) const OVERLAPS: Fault = Fault::Says(|it| {
    let base = first(it, APERTURE).base;
    first(it, VISIBLE).base = base;
});
pub(crate) const COMMITS_TOO_LITTLE: Fault = Fault::Says(|it| first(it, LOCAL).commit_limit = 4096);
pub(crate) const AGP_AND_MORE: Fault = Fault::Says(|it| first(it, APERTURE).flags.agp = true);
pub(crate) const COHERENT_MEMORY: Fault = Fault::Says(|it| first(it, LOCAL).flags.coherent = true);
pub(crate) const TWO_WINDOWS: Fault =
    Fault::Says(|it| first(it, VISIBLE).flags.host_aperture = true);
pub(crate) const KEPT_IN_PART: Fault =
    Fault::Says(|it| first(it, LOCAL).flags.partly_preserved = true);
pub(crate) const FALLING_BANKS: Fault = Fault::Says(|it| {
    let local = first(it, LOCAL);
    (local.flags.banked, local.banks) = (true, vec![0x2000, 0x1000]);
});
pub(crate) const BUFFERS_IN_MEMORY: Fault = Fault::Says(|it| it.paging.segment = LOCAL);
pub(crate) const MEMORY_FIRST: Fault = Fault::Says(|it| it.segments.reverse());
pub(crate) const LARGE_PAGES: Fault = Fault::Says(|it| first(it, LOCAL).flags.large_pages = true);

pub(crate) const PREFERS_ELSEWHERE: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::of(&[APERTURE]);
    it.wants.preferred = [None; 5];
    it.wants.preferred[0] = Some(Preference { segment: LOCAL, from_top: false });
});
pub(crate) const NOWHERE: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::default();
    it.wants.preferred = [None; 5];
});
pub(crate) const EVICTS_TO_MEMORY: Fault =
    Fault::Wants(|it| it.wants.evict = SegmentSet::of(&[LOCAL]));
pub(crate) const WORTHLESS: Fault = Fault::Wants(|it| it.wants.priority = 0);
pub(crate) const OUT_OF_SIGHT: Fault = Fault::Wants(|it| {
    it.wants.segments = SegmentSet::of(&[LOCAL]);
    it.wants.preferred = [None; 5];
});

pub(crate) const PAGING_STATUS: Fault = Fault::Builds(|_| Some(Err(Refusal::Invalid)));
pub(crate) const BEYOND_THE_BUFFER: Fault = Fault::Builds(|building| {
    building.written = u32::try_from(building.buffer.len()).unwrap_or(u32::MAX).saturating_add(4);
    Some(Ok(()))
});
pub(crate) const GETS_NOWHERE: Fault = Fault::Builds(|_| Some(Err(Refusal::NoRoom)));
pub(crate) const ALWAYS_BUSY: Fault = Fault::Builds(|building| {
    matches!(building.operation, Operation::InitContext { .. }).then_some(Err(Refusal::Busy))
});

pub(crate) const SHARED_OF_ONE: Fault = Fault::Orders(|it| it.shared = true);
pub(crate) const NAMES_ITSELF: Fault = Fault::Orders(|it| it.device = it.word);
pub(crate) const NO_SIZE: Fault = Fault::Orders(|it| it.size = 0);
pub(crate) const SEEN_IN_MEMORY: Fault = Fault::Orders(|it| {
    (it.wants.flags.cpu_visible, it.wants.flags.protected) = (true, true);
});
