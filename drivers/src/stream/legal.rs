//! Legal but unusual streaming minidrivers: a finding about one of them is a false accusation.

use super::capture::{CallHook, Capture, FrameSource};
use super::capture_variants::SynchronousCapture;
use flight::Passive;
use std::sync::Arc;
use stream::{
    BagOwner, DeviceDescriptor, DeviceId, DriverAllocator, DriverDevice, DriverError, DriverFilter,
    DriverFrame, DriverPin, DriverResult, Entry, FilterId, FilterView, FramingForm, HandleSlot,
    KsMutex, MemoryKind, Minidriver, PinFlag, PinId, PinView, Services,
};

/// A legal minidriver.
#[derive(Clone, Copy, Debug)]
pub struct LegalStream {
    /// Its name.
    pub name: &'static str,
    /// What is unusual about it.
    pub unusual: &'static str,
    /// Makes a new one.
    pub make: fn() -> Arc<dyn Minidriver>,
}

macro_rules! legal {
    ($($name:literal $unusual:literal $make:expr;)*) => {
        &[$(LegalStream { name: $name, unusual: $unusual, make: $make }),*]
    };
}

/// Every legal minidriver.
pub const LEGAL: &[LegalStream] = legal! {
    "deletes-clones-in-reverse" "deletes the clones of a stopped pin in the reverse order"
        || hooked(deletes_clones_in_reverse);
    "attempts-processing-repeatedly" "attempts processing three times for each frame"
        || hooked(attempts_processing_repeatedly);
    "processes-later" "returns STATUS_PENDING from each second call of its process routine, after another attempt"
        || hooked(processes_later);
    "unlocks-clones" "does not lock its clones while they wait"
        || Arc::new(Capture::with(FrameSource::Own, |_, _, _| Ok(())).unlocking());
    "skips-short-frames" "leaves frames empty that are shorter than a picture"
        || Arc::new(Capture::new().skipping_short_frames());
    "reschedules-timeouts" "cancels and schedules a timeout of its leading edge in each call"
        || hooked(reschedules_timeouts);
    "waits-in-start" "waits in its start and stop routines" || hooked(waits_in_start);
    "frees-in-reverse" "takes memory in each create call and frees it in the reverse order, partly in another thread's call"
        || hooked(frees_in_reverse);
    "bags-everything" "puts items into the bags of its filter and pin, and never frees one itself"
        || hooked(bags_everything);
    "nests-mutexes" "acquires the device and the control mutex in order after it has started"
        || hooked(nests_mutexes);
    "toggles-gates" "turns a gate of its pin off and on before each state"
        || hooked(toggles_gates);
    "minimal" "has no optional routine" || Arc::new(Minimal(Capture::new()));
    "no-contexts" "returns no context for its device, filters and pins"
        || Arc::new(NoContexts(Capture::new()));
    "uncached-frames" "frees each frame at once and keeps none for the next allocation"
        || Arc::new(Uncached(Capture::new()));
    "one-frame" "asks for one frame" || shaped(|framing| framing.0 = 1);
    "page-alignment" "asks for frames that are aligned to pages" || shaped(|framing| framing.1 = 4095);
    "many-instances" "allows a thousand instances of its pin" || {
        Arc::new(Capture::new().shaped(|pin| pin.instances_possible = 1000))
    };
    "every-arrival" "has its process routine called for every frame that arrives" || {
        let source = Capture::with(FrameSource::Own, |_, _, _| Ok(()));
        Arc::new(SynchronousCapture(
            source.shaped(|pin| pin.flags.push(PinFlag::InitiateProcessingOnEveryArrival)),
        ))
    };
};

fn hooked(hook: CallHook) -> Arc<dyn Minidriver> {
    Arc::new(Capture::with(FrameSource::Own, hook))
}

/// The source with another count and alignment of frames.
fn shaped(change: fn(&mut (u32, u32))) -> Arc<dyn Minidriver> {
    Arc::new(Capture::new().shaped(|pin| {
        if let Some(FramingForm::Extended(framing)) = &mut pin.framing {
            for item in &mut framing.items {
                let mut values = (item.frames, item.alignment);
                change(&mut values);
                (item.frames, item.alignment) = values;
            }
        }
    }))
}

#[expect(clippy::unnecessary_wraps, reason = "a hook")]
fn deletes_clones_in_reverse(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if [Entry::PinSetDeviceState, Entry::PinReset].contains(&entry)
        && let Some(line) = it.inner().lines.get_mut(&pin)
    {
        line.in_flight.make_contiguous().reverse();
    }
    Ok(())
}

fn attempts_processing_repeatedly(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if entry == Entry::PointerTimedOut {
        let services = it.services()?;
        for _ in 0..3 {
            services.attempt_processing(pin)?;
        }
    }
    Ok(())
}

fn processes_later(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let calls = it.inner().calls.get(&Entry::PinProcess).copied().unwrap_or(0);
    if entry == Entry::PinProcess && calls % 2 == 1 {
        it.services()?.attempt_processing(pin)?;
        return Err(DriverError::Pending);
    }
    Ok(())
}

fn reschedules_timeouts(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    if entry == Entry::PinProcess
        && let Some(edge) = services.leading_edge(pin, true)
    {
        services.schedule_timeout(edge, 1_000_000)?;
        services.cancel_timeout(edge)?;
        services.unlock(edge, false)?;
    }
    Ok(())
}

fn waits_in_start(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    let waits = [Entry::DeviceStart, Entry::DevicePostStart, Entry::DeviceStop];
    if waits.contains(&entry) { it.services()?.delay(50_000) } else { Ok(()) }
}

fn frees_in_reverse(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    match entry {
        Entry::DeviceStart | Entry::FilterCreate | Entry::PinCreate => {
            for bytes in [1, 8, 4096] {
                let block = services.allocate_memory(bytes, 0, MemoryKind::Paged);
                it.inner().kept.push(block.ok_or(DriverError::NoMemory)?);
            }
        }
        Entry::PinClose => {
            let block = it.inner().kept.pop();
            block.map_or(Ok(()), |block| services.free_memory(block))?;
        }
        Entry::DeviceRemove => {
            while let Some(block) = { it.inner().kept.pop() } {
                services.free_memory(block)?;
            }
        }
        _ => (),
    }
    Ok(())
}

fn bags_everything(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    if entry == Entry::PinCreate {
        let services = it.services()?;
        for bag in [BagOwner::Pin(pin), BagOwner::Filter(it.filter()?)] {
            let item = services.allocate_memory(8, 0, MemoryKind::Paged);
            services.add_to_bag(bag, item.ok_or(DriverError::NoMemory)?, false)?;
        }
    }
    Ok(())
}

fn nests_mutexes(it: &Capture, entry: Entry, _pin: PinId) -> DriverResult<()> {
    if entry == Entry::DevicePostStart {
        let services = it.services()?;
        let mutex = KsMutex::Device(services.device().subject());
        for _ in 0..2 {
            services.acquire(mutex)?;
            services.filters()?;
            services.release(mutex)?;
        }
    }
    Ok(())
}

fn toggles_gates(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    match entry {
        Entry::PinConnect => services.add_gate_input(pin, true),
        Entry::PinSetDeviceState => {
            services.set_gate_input(pin, false)?;
            services.set_gate_input(pin, true)
        }
        _ => Ok(()),
    }
}

/// The source without its optional routines.
struct Minimal(Capture);

impl Minidriver for Minimal {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn describe(&self) -> DeviceDescriptor {
        let mut all = self.0.describe();
        all.dispatch = vec![Entry::DeviceAdd];
        let optional = [Entry::PinConnect, Entry::PinDisconnect];
        for filter in &mut all.filters {
            for pin in &mut filter.pins {
                pin.dispatch.retain(|entry| !optional.contains(entry));
            }
        }
        all
    }
}

/// The source without contexts.
struct NoContexts(Capture);

impl Minidriver for NoContexts {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn add_device(
        &self,
        at: &mut Passive,
        services: &Arc<Services>,
        slot: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        self.0.add_device(at, services, slot).map(|_| None)
    }

    fn create_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
        slot: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.0.create_filter(at, filter, slot).map(|_| None)
    }

    fn create_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        slot: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.0.create_pin(at, pin, slot).map(|_| None)
    }
}

/// The source without a cache of frames.
struct Uncached(Capture);

impl Minidriver for Uncached {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        if let Ok(services) = self.0.services() {
            let _ = services.free_memory(frame.as_raw()); // It is the driver's own.
        }
    }
}
