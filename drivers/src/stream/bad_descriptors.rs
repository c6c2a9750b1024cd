//! Sources with invalid descriptors, and flaws that replace whole entries.

use super::capture::{Capture, FrameSource};
use flight::Passive;
use std::sync::Arc;
use stream::{
    DriverError, DriverResult, Entry, Format, FramingForm, Minidriver, PinDescriptor, PinFlag,
    PinState, PinView,
};

/// A source with its own allocator and another descriptor.
pub(crate) fn own(layout: fn(&mut PinDescriptor)) -> Arc<dyn Minidriver> {
    Arc::new(Capture::new().shaped(layout))
}

/// As above, with the default allocator.
pub(crate) fn default(layout: fn(&mut PinDescriptor)) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(FrameSource::Default, |_, _, _| Ok(())).shaped(layout))
}

pub(crate) fn omits_delete_allocator(pin: &mut PinDescriptor) {
    pin.allocator = Some(Entry::ALLOCATOR[..3].to_vec());
}

pub(crate) fn defaults_other_memory(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Simple(it)) = &mut pin.framing {
        it.system_memory = false;
    }
}

pub(crate) fn maps_without_dma_adapter(pin: &mut PinDescriptor) {
    pin.flags.push(PinFlag::GenerateMappings);
}

pub(crate) fn miscounts_framing_items(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        it.count += 1;
    }
}

pub(crate) fn reverses_framing_range(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        it.items[0].framing.min = it.items[0].framing.max + 1;
    }
}

pub(crate) fn claims(pin: &mut PinDescriptor) {
    pin.allocator = None;
}

pub(crate) fn reserved(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Simple(it)) = &mut pin.framing {
        it.reserved = 1;
    }
}

pub(crate) fn sets_conflicting_pin_flags(pin: &mut PinDescriptor) {
    pin.flags = vec![PinFlag::CriticalProcessing, PinFlag::HypercriticalProcessing];
}

pub(crate) fn omits_process_routine(pin: &mut PinDescriptor) {
    pin.flags = vec![PinFlag::DoNotInitiateProcessing];
    pin.dispatch.retain(|entry| *entry != Entry::PinProcess);
}

/// Both its pin and its filter have a process routine.
pub(crate) fn sets_two_process_routines() -> Arc<dyn Minidriver> {
    let mut it = Capture::new();
    it.descriptor.filters[0].dispatch.push(Entry::FilterProcess);
    Arc::new(it)
}

/// Accepts every format and does not adapt its framing.
pub(crate) struct KeepsStaleFraming(pub(crate) Capture);

impl Minidriver for KeepsStaleFraming {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_format(
        &self,
        at: &mut Passive,
        pin: &PinView,
        _old: Option<&Format>,
        range: &Format,
    ) -> DriverResult<()> {
        self.0.set_format(at, pin, None, range)
    }
}

/// Its process routine returns without processing.
pub(crate) struct Idle(pub(crate) Capture, pub(crate) DriverResult<()>);

impl Minidriver for Idle {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, _pin: &PinView) -> DriverResult<()> {
        self.1
    }
}

/// When its pin stops, it forgets the frames that its hardware has.
pub(crate) struct StopsWithClones(pub(crate) Capture);

impl Minidriver for StopsWithClones {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_state(
        &self,
        at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        if to == PinState::Stop
            && let Some(line) = self.0.inner().lines.get_mut(&pin.pin)
        {
            line.in_flight.clear();
        }
        self.0.set_state(at, pin, to, from)
    }
}

/// Accepts only single steps down to stop.
struct RejectsDirectStop(Capture);

impl Minidriver for RejectsDirectStop {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_state(
        &self,
        at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        self.0.set_state(at, pin, to, from)?;
        if (from, to) == (PinState::Run, PinState::Stop) {
            Err(DriverError::Invalid)
        } else {
            Ok(())
        }
    }
}

pub(crate) fn rejects_direct_stop() -> Arc<dyn Minidriver> {
    let it = Capture::new().shaped(|pin| pin.flags.push(PinFlag::DoNotUseStandardTransport));
    Arc::new(RejectsDirectStop(it))
}
