//! A driver around another one: it hands everything on, and does one thing wrong if asked to.

use crate::board::Board;
use flight::{DeviceLevel, Dispatch, Passive};
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Births, Blank, Born, ContextOrder, Doomed, DriverContext, DriverDevice, DriverResource,
    DriverView, Features, Generation, Miniport, Opening, Refusal, Standard, Submission,
};
use kernel::services::Services;
use std::sync::Arc;
use std::vec::Drain;

/// A driver around another one.
pub(crate) struct Wrapped {
    inner: Arc<dyn Miniport>,
    fault: Option<Fault>,
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
    /// Destroys everything and answers that it was busy.
    FailsDestroy,
    /// Takes every interrupt for somebody else's.
    NeverCompletes,
}

impl Wrapped {
    /// A driver that does one thing wrong.
    pub(crate) fn bad(inner: Arc<dyn Miniport>, fault: Fault) -> Arc<Self> {
        Arc::new(Self { inner, fault: Some(fault), _board: None })
    }

    /// A driver that keeps the hardware of the inner one.
    pub(crate) fn keeping(inner: Arc<dyn Miniport>, board: Arc<Board>) -> Arc<Self> {
        Arc::new(Self { inner, fault: None, _board: Some(board) })
    }
}

impl Miniport for Wrapped {
    fn generation(&self) -> Generation {
        self.inner.generation()
    }

    fn offers(&self) -> Vec<&'static str> {
        self.inner.offers()
    }

    fn add_device(&self, at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        self.inner.add_device(at, services)
    }

    fn start_device(&self, at: &mut Passive) -> Answer<()> {
        self.inner.start_device(at)
    }

    fn query_adapter(&self, at: &mut Passive) -> Answer<Features> {
        self.inner.query_adapter(at)
    }

    fn stop_device(&self, at: &mut Passive) -> Answer<()> {
        self.inner.stop_device(at)
    }

    fn remove_device(&self, at: &mut Passive) -> Answer<()> {
        self.inner.remove_device(at)
    }

    fn unload(&self, at: &mut Passive) -> Answer<()> {
        self.inner.unload(at)
    }

    fn create_device(&self, at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        self.inner.create_device(at, word)
    }

    fn destroy_device(&self, at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.inner.destroy_device(at, device)
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<DriverContext> {
        self.inner.create_context(at, device, order, word)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> Answer<()> {
        self.inner.destroy_context(at, context)
    }

    fn standard_data(&self, at: &mut Passive, standard: &mut Standard) -> Answer<()> {
        self.inner.standard_data(at, standard)
    }

    fn create_allocations(&self, at: &mut Passive, births: Births<'_>) -> Answer<Born> {
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
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        let changed = self.inner.destroy_allocations(at, doomed)?;
        if self.fault == Some(Fault::FailsDestroy) { Err(Refusal::Busy) } else { Ok(changed) }
    }

    fn open_allocations(&self, at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        self.inner.open_allocations(at, opening)
    }

    fn close_allocations(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.inner.close_allocations(at, device, views)
    }

    fn submit(&self, at: &mut Dispatch, packet: &Submission<'_>) -> Answer<()> {
        self.inner.submit(at, packet)
    }

    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        if self.fault == Some(Fault::NeverCompletes) {
            return Ok(false);
        }
        self.inner.interrupt(at)
    }

    fn dpc(&self, at: &mut Dispatch) -> Answer<()> {
        self.inner.dpc(at)
    }
}
