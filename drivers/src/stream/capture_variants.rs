//! Good sources of other designs: synchronous, filter-centric, with a trailing edge, with frame
//! injection, with pending requests, and one that uses the whole class driver interface.

use super::capture::{Capture, FrameSource, NO_PIN, ignore_not_ready};
use super::pattern::{BYTES, INTERVAL, picture};
use flight::Passive;
use std::sync::Arc;
use stream::{
    BagOwner, DriverError, DriverFilter, DriverPin, DriverResult, Entry, FilterId, FilterView,
    HandleSlot, Header, KsMutex, MemoryKind, Minidriver, PinFlag, PinId, PinState, PinView,
    ProcessPin,
};

/// Fills frames synchronously in its process routine.
pub(crate) struct SynchronousCapture(pub(crate) Capture);

impl Capture {
    /// The time of the next picture of a pin, if pictures do not wait for their time.
    fn due(&self, pin: PinId) -> u64 {
        let pictures = self.inner().lines.get(&pin).map_or(0, |line| line.pictures);
        pictures.saturating_add(1).saturating_mul(INTERVAL)
    }
}

impl Minidriver for SynchronousCapture {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.0.enter(Entry::PinProcess, pin.pin)?;
        let services = self.0.services()?;
        while !self.0.is_over(pin.pin)
            && let Some(edge) = services.leading_edge(pin.pin, true)
        {
            self.0.fill(pin.pin, edge, Some(self.0.due(pin.pin)))?;
            let room = services.pointer_view(edge)?.remaining;
            services.advance_offsets(edge, room, false)?;
        }
        if self.0.is_over(pin.pin) { Err(DriverError::Pending) } else { Ok(()) }
    }
}

/// Keeps filled frames in its queue until the trailing edge has passed them, too.
pub(crate) struct Trailing(pub(crate) Capture);

impl Trailing {
    pub(crate) fn new() -> Self {
        let base = Capture::with(FrameSource::Own, |_, _, _| Ok(()));
        Self(base.shaped(|pin| pin.flags.push(PinFlag::DistinctTrailingEdge)))
    }
}

impl Minidriver for Trailing {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.0.enter(Entry::PinProcess, pin.pin)?;
        let services = self.0.services()?;
        while !self.0.is_over(pin.pin)
            && let Some(edge) = services.leading_edge(pin.pin, true)
        {
            self.0.fill(pin.pin, edge, Some(self.0.due(pin.pin)))?;
            services.advance(edge).or_else(ignore_not_ready)?;
            if let Some(trailing) = services.trailing_edge(pin.pin, false) {
                services.advance(trailing).or_else(ignore_not_ready)?;
            }
        }
        if self.0.is_over(pin.pin) { Err(DriverError::Pending) } else { Ok(()) }
    }
}

/// Processes all pins of a filter together.
pub(crate) struct FilterCentricCapture {
    under: Capture,
    /// Moves an edge itself, which is not allowed.
    moves_edge: bool,
}

impl FilterCentricCapture {
    pub(crate) fn new(moves_edge: bool) -> Self {
        let mut under = Capture::with(FrameSource::Default, |_, _, _| Ok(()))
            .shaped(|pin| pin.dispatch.retain(|entry| *entry != Entry::PinProcess));
        under.descriptor.filters[0].dispatch.push(Entry::FilterProcess);
        Self { under, moves_edge }
    }
}

impl Minidriver for FilterCentricCapture {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.under)
    }

    fn process_filter(&self, _filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        self.under.enter(Entry::FilterProcess, NO_PIN)?;
        let mut over = true;
        for it in pins.iter_mut() {
            if self.moves_edge {
                let _ = self.under.services()?.advance(it.pointer);
            }
            if self.under.is_over(it.pin) {
                continue;
            }
            over = false;
            self.under.fill(it.pin, it.pointer, Some(self.under.due(it.pin)))?;
            it.used = it.available;
            it.terminate = true;
        }
        if over { Err(DriverError::Pending) } else { Ok(()) }
    }
}

/// Injects its own frames and is notified when they return.
pub(crate) struct InjectingCapture(Capture);

impl InjectingCapture {
    pub(crate) fn new() -> Self {
        let hook = |capture: &Capture, entry: Entry, pin: PinId| match entry {
            Entry::PinCreate => capture.services()?.inject_frames(pin),
            _ => Ok(()),
        };
        let base = Capture::with(FrameSource::Default, hook);
        Self(base.shaped(|pin| pin.flags.push(PinFlag::DoNotInitiateProcessing)))
    }

    /// Injects the next picture in a block of memory, which is freed if the injection fails.
    fn submit(&self, pin: PinId, driver_handle: usize) {
        let (number, end, over) = {
            let mut inner = self.0.inner();
            let line = inner.lines.entry(pin).or_default();
            let over = line.most.is_some_and(|value| line.pictures >= value);
            line.pictures += u64::from(!over);
            (line.pictures.saturating_sub(1), line.most == Some(line.pictures), over)
        };
        let Ok(services) = self.0.services() else { return };
        let header = Header {
            time: number.saturating_add(1).saturating_mul(INTERVAL),
            duration: INTERVAL,
            data_used: BYTES,
            end_of_stream: end,
            discontinuity: number == 0,
        };
        let delivered = !over
            && services.write_memory(driver_handle, 0, &picture(number)).is_ok()
            && services.submit_frame(pin, (driver_handle, BYTES), header, 1).is_ok();
        if !delivered {
            let _ = services.free_memory(driver_handle); // The block is the driver's and in no object bag.
        }
    }
}

impl Minidriver for InjectingCapture {
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
        if to == PinState::Run {
            for _ in 0..3 {
                let driver_handle =
                    self.0.services()?.allocate_memory(BYTES, 7, MemoryKind::NonPaged);
                self.submit(pin.pin, driver_handle.ok_or(DriverError::NoMemory)?);
            }
        }
        Ok(())
    }

    fn frame_returned(&self, _at: &mut Passive, pin: PinId, frame: usize, _context: usize) {
        self.submit(pin, frame);
    }
}

/// Completes create and close requests later, which is allowed.
pub(crate) struct PendingCapture(pub(crate) Capture);

impl PendingCapture {
    fn answer(&self, of: flight::Subject, driver_handle: usize) -> DriverError {
        let Ok(services) = self.0.services() else { return DriverError::NotReady };
        let marked = services.mark_pending(of);
        let completed = services.complete_pending(of, Ok(()), driver_handle);
        marked.and(completed).err().unwrap_or(DriverError::Pending)
    }
}

impl Minidriver for PendingCapture {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        _word: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.0.enter(Entry::FilterCreate, NO_PIN)?;
        Err(self.answer(filter.filter.subject(), 0xf1))
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.0.enter(Entry::FilterClose, NO_PIN)?;
        Err(self.answer(filter.filter.subject(), 0))
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        _word: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.0.enter(Entry::PinCreate, pin.pin)?;
        Err(self.answer(pin.pin.subject(), 0xa1))
    }

    fn close_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        driver_handle: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.0.close_pin(at, pin, driver_handle)?;
        Err(self.answer(pin.pin.subject(), 0))
    }
}

/// Uses mutexes, object bags, gates and factories, each as allowed.
pub(crate) fn full_api(it: &Capture, entry: Entry, pin: PinId) -> DriverResult<()> {
    let services = it.services()?;
    let device = KsMutex::Device(services.device().subject());
    match entry {
        Entry::DeviceAdd => {
            it.inner().bag = Some(services.create_bag()?);
        }
        Entry::DeviceStart => services.register_dma()?,
        Entry::DevicePostStart if it.first(entry) => {
            services.acquire(device)?;
            let filters = services.filters().map(|filters| filters.len());
            let created = services.create_factory(it.descriptor.filters[0].clone());
            services.release(device)?;
            filters?;
            created?;
        }
        Entry::DeviceQueryRemove | Entry::DeviceQueryStop => {
            // The device mutex is held, so the filters can be enumerated.
            for filter in services.filters()? {
                let control = KsMutex::Control(filter.subject());
                services.acquire(control)?;
                let pins = services.pins(filter);
                services.release(control)?;
                pins?;
            }
        }
        Entry::DeviceRemove => {
            let bag = it.inner().bag.take().ok_or(DriverError::NotReady)?;
            services.free_bag(bag)?;
        }
        Entry::PinCreate => {
            let make =
                || services.allocate_memory(8, 0, MemoryKind::Paged).ok_or(DriverError::NoMemory);
            let stays = make()?;
            services.add_to_bag(BagOwner::Pin(pin), stays, false)?;
            services.add_to_bag(BagOwner::Filter(it.filter()?), stays, false)?;
            let goes = make()?;
            services.add_to_bag(BagOwner::Pin(pin), goes, false)?;
            services.remove_from_bag(BagOwner::Pin(pin), goes, true)?;
        }
        Entry::PinConnect => {
            services.add_gate_input(pin, true)?;
            services.set_gate_input(pin, false)?;
            services.set_gate_input(pin, true)?;
        }
        _ => (),
    }
    Ok(())
}

/// Creates the source that uses everything.
pub(crate) fn full_api_capture() -> Arc<dyn Minidriver> {
    let base = Capture::with(FrameSource::Own, full_api).unlocking();
    Arc::new(base.shaped(|pin| pin.flags.push(PinFlag::GenerateMappings)))
}
