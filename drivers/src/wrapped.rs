//! A driver around another one: it hands everything on, and does one thing wrong if asked to.

use crate::board::Board;
use flight::{DeviceLevel, Dispatch, Fence, Passive};
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Births, Blank, Born, ContextOrder, Doomed, DriverAllocation, DriverContext,
    DriverDevice, DriverResource, DriverView, Miniport, Opening, Refusal, Shape,
};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A driver around another one.
pub(crate) struct Wrapped {
    inner: Arc<dyn Miniport>,
    fault: Option<Fault>,
    /// How many devices there are.
    devices: AtomicU32,
    /// The words of allocations it destroyed, and the device that created the last ones.
    remembered: Mutex<(Vec<usize>, usize)>,
    /// The hardware that the inner one has only the address of.
    _board: Option<Arc<Board>>,
}

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Says that an allocation has no bytes.
    ZeroSize,
    /// Says that an allocation has fewer bytes where pitches are aligned.
    SmallPitch,
    /// Writes to private data that it may only read: when somebody else opens it.
    EditsOnOpen,
    /// Destroys everything and answers that it was busy.
    FailsDestroy,
    /// Takes every interrupt for somebody else's.
    NeverCompletes,
    /// Answers that every interrupt is its own.
    ClaimsInterrupts,
    /// Does nothing in its DPC.
    IdleDpc,
    /// Ends a device and answers that it was busy.
    FailsDeviceEnd,
    /// Refuses a second device.
    OneDevice,
    /// Refuses every context.
    RefusesContexts,
    /// Finds new allocations in its table, where destroyed ones still are.
    StaleTable,
    /// Opens nothing for a device that did not create it.
    OnlyItsMaker,
}

impl Wrapped {
    /// A driver that does one thing wrong.
    pub(crate) fn bad(inner: Arc<dyn Miniport>, fault: Fault) -> Arc<Self> {
        Self::new(inner, Some(fault), None)
    }

    /// A driver that keeps the hardware of the inner one.
    pub(crate) fn keeping(inner: Arc<dyn Miniport>, board: Arc<Board>) -> Arc<Self> {
        Self::new(inner, None, Some(board))
    }

    fn new(inner: Arc<dyn Miniport>, fault: Option<Fault>, board: Option<Arc<Board>>) -> Arc<Self> {
        let (devices, remembered) = (AtomicU32::new(0), Mutex::default());
        Arc::new(Self { inner, fault, devices, remembered, _board: board })
    }

    fn destroy(&self, at: &mut Passive, doomed: Doomed<'_>) -> Answer<Option<DriverResource>> {
        let changed = self.inner.destroy_allocations(at, doomed)?;
        if self.fault == Some(Fault::FailsDestroy) { Err(Refusal::Busy) } else { Ok(changed) }
    }

    fn remembered(&self) -> MutexGuard<'_, (Vec<usize>, usize)> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in the table for an allocation on its own, as if it were a new one.
    fn found(&self, births: &Births<'_>) -> Option<usize> {
        let alone = births.allocations.len() == 1 && births.resource.is_none();
        let looks = alone && self.fault == Some(Fault::StaleTable);
        looks.then(|| self.remembered().0.pop()).flatten()
    }
}

impl Miniport for Wrapped {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        if self.fault == Some(Fault::OneDevice) && self.devices.load(SeqCst) > 0 {
            return Err(Refusal::Unsupported);
        }
        let device = self.inner.create_device(at, word)?;
        self.devices.fetch_add(1, SeqCst);
        Ok(device)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.devices.fetch_sub(1, SeqCst);
        self.inner.destroy_device(at, device)?;
        if self.fault == Some(Fault::FailsDeviceEnd) { Err(Refusal::Busy) } else { Ok(()) }
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        if self.fault == Some(Fault::RefusesContexts) {
            return Err(Refusal::Unsupported);
        }
        self.inner.create_context(at, device, order, word)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        if let Some(word) = self.found(&births) {
            let shape = Shape { size: 4096, alignment: 4096, ..Shape::default() };
            let found = births.allocations.into_iter().map(|it| (it.word.fill(word), shape));
            return Ok(Born { allocations: found.collect(), resource: None });
        }
        let mut born = self.inner.create_allocations(at, births)?;
        for (_, shape) in &mut born.allocations {
            match self.fault {
                Some(Fault::ZeroSize) => shape.size = 0,
                Some(Fault::SmallPitch) => shape.pitch_aligned_size = shape.size / 2,
                _ => (),
            }
        }
        Ok(born)
    }

    fn destroy_allocations(
        &self,
        at: &mut Passive,
        mut doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        if self.fault != Some(Fault::StaleTable) {
            return self.destroy(at, doomed);
        }
        let mut tokens: Vec<DriverAllocation> = doomed.allocations.by_ref().collect();
        self.remembered().0.extend(tokens.iter().map(DriverAllocation::word));
        self.destroy(at, Doomed { allocations: tokens.drain(..), resource: doomed.resource })
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        mut opening: Opening<'_>,
    ) -> Answer<Vec<DriverView>> {
        let device = opening.device.word();
        if self.fault == Some(Fault::OnlyItsMaker) {
            let maker = &mut self.remembered().1;
            if opening.create {
                *maker = device;
            } else if *maker != device {
                return Err(Refusal::Invalid);
            }
        }
        if self.fault == Some(Fault::EditsOnOpen) && !opening.create {
            for byte in opening.views.iter_mut().filter_map(|it| it.private.first_mut()) {
                *byte = byte.wrapping_add(1);
            }
        }
        self.inner.open_allocations(at, opening)
    }

    fn current_fence(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        if self.fault == Some(Fault::NeverCompletes) {
            return Err(Refusal::Busy);
        }
        self.inner.current_fence(at, node)
    }

    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        if self.fault == Some(Fault::NeverCompletes) {
            return Ok(false);
        }
        let ours = self.inner.interrupt(at)?;
        Ok(ours || self.fault == Some(Fault::ClaimsInterrupts))
    }

    fn dpc(&self, at: &mut Dispatch) -> Answer<()> {
        if self.fault == Some(Fault::IdleDpc) { Ok(()) } else { self.inner.dpc(at) }
    }
}
