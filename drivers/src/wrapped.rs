//! A driver around another one: it hands everything on, and does one thing wrong if asked to.

use crate::board::Board;
use flight::{DeviceLevel, Passive};
use kernel::miniport::{
    Answer, Births, Born, Doomed, DriverResource, DriverView, Miniport, Opening, Refusal,
};
use std::sync::Arc;

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
    /// Writes to private data that it may only read: when somebody else opens it.
    EditsOnOpen,
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
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
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

    fn open_allocations(
        &self,
        at: &mut Passive,
        mut opening: Opening<'_>,
    ) -> Answer<Vec<DriverView>> {
        if self.fault == Some(Fault::EditsOnOpen) && !opening.create {
            for byte in opening.views.iter_mut().filter_map(|it| it.private.first_mut()) {
                *byte = byte.wrapping_add(1);
            }
        }
        self.inner.open_allocations(at, opening)
    }

    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        if self.fault == Some(Fault::NeverCompletes) {
            return Ok(false);
        }
        self.inner.interrupt(at)
    }
}
