//! Sources with descriptors that cannot be, and flaws that are whole entries.

use super::capture::{Capture, From};
use flight::Passive;
use std::sync::Arc;
use stream::{
    Answer, Entry, Format, FramingForm, Minidriver, PinDescriptor, PinFlag, PinView, Refusal, State,
};

/// A source with an allocator of its own and another descriptor.
pub(crate) fn own(shape: fn(&mut PinDescriptor)) -> Arc<dyn Minidriver> {
    Arc::new(Capture::new().shaped(shape))
}

/// The same with the default allocator.
pub(crate) fn default(shape: fn(&mut PinDescriptor)) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(From::Default, |_, _, _| Ok(())).shaped(shape))
}

pub(crate) fn half_allocator(pin: &mut PinDescriptor) {
    pin.allocator = Some(Entry::ALLOCATOR[..3].to_vec());
}

pub(crate) fn not_system(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Simple(it)) = &mut pin.framing {
        it.system = false;
    }
}

pub(crate) fn no_dma(pin: &mut PinDescriptor) {
    pin.flags.push(PinFlag::GenerateMappings);
}

pub(crate) fn miscounts(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        it.count += 1;
    }
}

pub(crate) fn turned_range(pin: &mut PinDescriptor) {
    if let Some(FramingForm::Extended(it)) = &mut pin.framing {
        it.items[0].framing.least = it.items[0].framing.most + 1;
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

pub(crate) fn opposites(pin: &mut PinDescriptor) {
    pin.flags = vec![PinFlag::CriticalProcessing, PinFlag::HypercriticalProcessing];
}

pub(crate) fn unprocessed(pin: &mut PinDescriptor) {
    pin.flags = vec![PinFlag::DoNotInitiateProcessing];
    pin.dispatch.retain(|it| *it != Entry::PinProcess);
}

/// Both its pin and its filter process.
pub(crate) fn two_routines() -> Arc<dyn Minidriver> {
    let mut it = Capture::new();
    it.descriptor.filters[0].dispatch.push(Entry::FilterProcess);
    Arc::new(it)
}

/// Takes every format, and says nothing of its size.
pub(crate) struct Stale(pub(crate) Capture);

impl Minidriver for Stale {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_format(
        &self,
        at: &mut Passive,
        pin: &PinView,
        _old: Option<&Format>,
        range: &Format,
    ) -> Answer<()> {
        self.0.set_format(at, pin, None, range)
    }
}

/// Its process routine only answers.
pub(crate) struct Idle(pub(crate) Capture, pub(crate) Answer<()>);

impl Minidriver for Idle {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, _pin: &PinView) -> Answer<()> {
        self.1
    }
}

/// When its pin stops, it forgets what its hardware has.
pub(crate) struct Forgets(pub(crate) Capture);

impl Minidriver for Forgets {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_state(&self, at: &mut Passive, pin: &PinView, to: State, from: State) -> Answer<()> {
        if to == State::Stop
            && let Some(line) = self.0.inner().lines.get_mut(&pin.pin)
        {
            line.flying.clear();
        }
        self.0.set_state(at, pin, to, from)
    }
}

/// Goes down by steps only.
struct Steps(Capture);

impl Minidriver for Steps {
    fn stands_on(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn set_state(&self, at: &mut Passive, pin: &PinView, to: State, from: State) -> Answer<()> {
        self.0.set_state(at, pin, to, from)?;
        if (from, to) == (State::Run, State::Stop) { Err(Refusal::Invalid) } else { Ok(()) }
    }
}

pub(crate) fn refuses_jump() -> Arc<dyn Minidriver> {
    let it = Capture::new().shaped(|pin| pin.flags.push(PinFlag::DoNotUseStandardTransport));
    Arc::new(Steps(it))
}
