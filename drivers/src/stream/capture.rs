//! A capture source of a test pattern.
//!
//! The hardware fills one frame per interval. The driver clones the leading edge, advances it, and
//! deletes the clone when the frame is full. Frames come from the driver's own allocator or from
//! the default allocator.

use super::capture_state::{CaptureState, Pool, lock};
use super::pattern::{BYTES, INTERVAL, VIDEO, picture, pictures};
use flight::{Dispatch, Passive};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use stream::{
    AllocatorId, DeviceDescriptor, DeviceId, DriverAllocator, DriverDevice, DriverError,
    DriverFilter, DriverFrame, DriverPin, DriverResult, Entry, ExtendedFraming, FilterDescriptor,
    FilterId, FilterView, Format, FrameId, Framing, FramingForm, FramingItem, HandleSlot, Header,
    MemoryKind, Minidriver, PinDescriptor, PinId, PinState, PinView, PointerId, Services,
    SimpleFraming, SizeRange,
};

/// A flaw: runs at the beginning of each call.
pub(crate) type CallHook = fn(&Capture, Entry, PinId) -> DriverResult<()>;

/// An observer: runs at the beginning of each call and can make it fail.
type Watch = dyn Fn(Entry) -> DriverResult<()> + Send + Sync;

/// Where the frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameSource {
    /// The driver's own allocator.
    Own,
    /// The default allocator.
    Default,
}

/// The capture source.
pub struct Capture {
    services: Mutex<Option<Arc<Services>>>,
    inner: Mutex<CaptureState>,
    hook: CallHook,
    /// Observes the calls and can make them fail.
    watch: Option<Box<Watch>>,
    /// Clones are not locked while they wait, so their frames can be cancelled.
    unlocks_clones: bool,
    /// Whether frames that are shorter than a picture stay empty.
    skips_short_frames: bool,
    /// The descriptor that the driver returns.
    pub(crate) descriptor: DeviceDescriptor,
}

/// State that belongs to no pin.
pub(crate) const NO_PIN: PinId = PinId::NULL;

const DEVICE: [Entry; 9] = [
    Entry::DeviceAdd,
    Entry::DeviceStart,
    Entry::DevicePostStart,
    Entry::DeviceQueryStop,
    Entry::DeviceStop,
    Entry::DeviceQueryRemove,
    Entry::DeviceSurpriseRemoval,
    Entry::DeviceRemove,
    Entry::DeviceSetPower,
];

const PIN: [Entry; 8] = [
    Entry::PinCreate,
    Entry::PinClose,
    Entry::PinProcess,
    Entry::PinReset,
    Entry::PinSetDataFormat,
    Entry::PinSetDeviceState,
    Entry::PinConnect,
    Entry::PinDisconnect,
];

/// The driver handles that the source returns: numbers without a meaning for the kernel.
const DEVICE_HANDLE: usize = 0xd0;
const FILTER_HANDLE: usize = 0xf0;
const PIN_HANDLE: usize = 0xa0;

/// Whether frames are in system memory or in device memory.
fn extended() -> FramingForm {
    let item = |kind| FramingItem {
        kind,
        can_allocate: true,
        frames: 3,
        alignment: 15,
        framing: SizeRange { min: BYTES, max: BYTES },
        ..FramingItem::default()
    };
    FramingForm::Extended(ExtendedFraming::new(vec![
        item(MemoryKind::NonPaged),
        item(MemoryKind::Device),
    ]))
}

fn simple() -> FramingForm {
    FramingForm::Simple(SimpleFraming {
        frames: 2,
        bytes: BYTES,
        alignment: 7,
        kind: MemoryKind::NonPaged,
        system_memory: true,
        reserved: 0,
    })
}

fn descriptor(from: FrameSource) -> DeviceDescriptor {
    let own = from == FrameSource::Own;
    let pin = PinDescriptor {
        dispatch: PIN.to_vec(),
        allocator: own.then(|| Entry::ALLOCATOR.to_vec()),
        formats: vec![Format { major: VIDEO, ..Format::default() }],
        framing: Some(if own { extended() } else { simple() }),
        instances_possible: 2,
        instances_necessary: 1,
        ..PinDescriptor::default()
    };
    let filter = FilterDescriptor {
        dispatch: vec![Entry::FilterCreate, Entry::FilterClose],
        dispatch_level: false,
        pins: vec![pin],
    };
    DeviceDescriptor { dispatch: DEVICE.to_vec(), filters: vec![filter] }
}

impl Capture {
    /// The good source, with its own allocator.
    pub fn new() -> Self {
        Self::with(FrameSource::Own, |_, _, _| Ok(()))
    }

    /// The good source with an observer, which runs at the beginning of each call and can make it
    /// fail.
    pub fn watched(watch: impl Fn(Entry) -> DriverResult<()> + Send + Sync + 'static) -> Self {
        Self { watch: Some(Box::new(watch)), ..Self::new() }
    }

    pub(crate) fn with(from: FrameSource, hook: CallHook) -> Self {
        Self {
            services: Mutex::default(),
            inner: Mutex::default(),
            hook,
            watch: None,
            unlocks_clones: false,
            skips_short_frames: false,
            descriptor: descriptor(from),
        }
    }

    /// The good source with clones that are not locked while they wait.
    pub(crate) fn unlocking(mut self) -> Self {
        self.unlocks_clones = true;
        self
    }

    /// The good source, which leaves frames empty that are shorter than a picture.
    pub(crate) fn skipping_short_frames(mut self) -> Self {
        self.skips_short_frames = true;
        self
    }

    /// The good source with another descriptor of its one pin.
    pub(crate) fn shaped(mut self, layout: impl FnOnce(&mut PinDescriptor)) -> Self {
        layout(&mut self.descriptor.filters[0].pins[0]);
        self
    }

    pub(crate) fn services(&self) -> DriverResult<Arc<Services>> {
        lock(&self.services).clone().ok_or(DriverError::NotReady)
    }

    pub(crate) fn inner(&self) -> MutexGuard<'_, CaptureState> {
        lock(&self.inner)
    }

    /// Counts the call and runs the flaw.
    pub(crate) fn enter(&self, entry: Entry, pin: PinId) -> DriverResult<()> {
        *self.inner().calls.entry(entry).or_default() += 1;
        if let Some(watch) = &self.watch {
            watch(entry)?;
        }
        (self.hook)(self, entry, pin)
    }

    /// The filter of the last filter call.
    pub(crate) fn filter(&self) -> DriverResult<FilterId> {
        self.inner().filter.ok_or(DriverError::NotReady)
    }

    /// Whether this is the first call of an entry.
    pub(crate) fn first(&self, entry: Entry) -> bool {
        self.inner().calls.get(&entry) == Some(&1)
    }

    /// Fills a frame with the next picture of a pin, or with as much of it as the frame holds.
    pub(crate) fn fill(
        &self,
        pin: PinId,
        pointer: PointerId,
        time: Option<u64>,
    ) -> DriverResult<()> {
        let (number, end, wrong) = {
            let mut inner = self.inner();
            let wrong = inner.delivers_wrong_picture;
            let line = inner.lines.entry(pin).or_default();
            line.pictures += 1;
            (line.pictures - 1, line.most == Some(line.pictures), wrong)
        };
        let services = self.services()?;
        // Frames of another allocator may be smaller than requested.
        let used = match services.pointer_view(pointer)?.bytes {
            bytes if bytes < BYTES && self.skips_short_frames => return Ok(()),
            bytes => bytes.min(BYTES),
        };
        let mut picture = picture(number)[..used as usize].to_vec();
        if let Some(last) = picture.last_mut().filter(|_| wrong) {
            *last ^= 0xff;
        }
        services.write(pointer, 0, &picture)?;
        let header = Header {
            time: time.unwrap_or_else(|| services.now()),
            duration: INTERVAL,
            data_used: used,
            end_of_stream: end,
            discontinuity: number == 0,
        };
        services.set_header(pointer, header)
    }

    /// Whether a pin has shown all its pictures, including those that are being filled.
    pub(crate) fn is_over(&self, pin: PinId) -> bool {
        let inner = self.inner();
        let Some(line) = inner.lines.get(&pin) else { return false };
        line.most.is_some_and(|value| line.pictures + line.in_flight.len() as u64 >= value)
    }

    /// Takes all frames of a pin away from the hardware.
    pub(crate) fn drop_clones(&self, pin: PinId) {
        let mine: VecDeque<PointerId> = {
            let mut inner = self.inner();
            inner
                .lines
                .get_mut(&pin)
                .map(|it| std::mem::take(&mut it.in_flight))
                .unwrap_or_default()
        };
        let Ok(services) = self.services() else { return };
        for clone in mine {
            let _ = services.delete_pointer(clone); // The frame may be cancelled already.
        }
    }
}

impl Default for Capture {
    fn default() -> Self {
        Self::new()
    }
}

/// A missing next frame does not make the previous frame fail.
pub(crate) fn ignore_not_ready(reason: DriverError) -> DriverResult<()> {
    if reason == DriverError::NotReady { Ok(()) } else { Err(reason) }
}

impl Minidriver for Capture {
    fn describe(&self) -> DeviceDescriptor {
        self.descriptor.clone()
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        services: &Arc<Services>,
        slot: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        *lock(&self.services) = Some(services.clone());
        self.enter(Entry::DeviceAdd, NO_PIN)?;
        Ok(Some(slot.fill(DEVICE_HANDLE)))
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceStart, NO_PIN)
    }

    fn post_start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DevicePostStart, NO_PIN)
    }

    fn query_stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceQueryStop, NO_PIN)
    }

    fn stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceStop, NO_PIN)
    }

    fn query_remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceQueryRemove, NO_PIN)
    }

    fn surprise_removal(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceSurpriseRemoval, NO_PIN)
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.enter(Entry::DeviceRemove, NO_PIN)
    }

    fn set_power(&self, _at: &mut Passive, on: bool) {
        self.inner().asleep = !on;
        let _ = self.enter(Entry::DeviceSetPower, NO_PIN); // The entry returns nothing.
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        slot: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.inner().filter = Some(filter.filter);
        self.enter(Entry::FilterCreate, NO_PIN)?;
        Ok(Some(slot.fill(FILTER_HANDLE)))
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.enter(Entry::FilterClose, NO_PIN)
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        slot: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.enter(Entry::PinCreate, pin.pin)?;
        Ok(Some(slot.fill(PIN_HANDLE)))
    }

    fn close_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        _word: Option<DriverPin>,
    ) -> DriverResult<()> {
        let answer = self.enter(Entry::PinClose, pin.pin);
        self.inner().lines.remove(&pin.pin);
        answer
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.enter(Entry::PinProcess, pin.pin)?;
        let services = self.services()?;
        while !self.is_over(pin.pin)
            && let Some(edge) = services.leading_edge(pin.pin, true)
        {
            let clone = services.clone_pointer(edge, true)?;
            services.advance(edge).or_else(ignore_not_ready)?;
            let before = {
                let mut inner = self.inner();
                let line = inner.lines.entry(pin.pin).or_default();
                line.in_flight.push_back(clone);
                line.in_flight.len() as u64
            };
            services.schedule_timeout(clone, before * INTERVAL)?;
            if self.unlocks_clones {
                services.unlock(clone, false)?;
            }
        }
        // A finished stream continues at the next processing attempt.
        if self.is_over(pin.pin) { Err(DriverError::Pending) } else { Ok(()) }
    }

    fn reset_pin(&self, _at: &mut Passive, pin: &PinView) {
        let _ = self.enter(Entry::PinReset, pin.pin); // The entry returns nothing.
        self.drop_clones(pin.pin);
    }

    fn set_format(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        first_instance: Option<&Format>,
        _range: &Format,
    ) -> DriverResult<()> {
        self.inner().filter = Some(pin.filter);
        self.enter(Entry::PinSetDataFormat, pin.pin)?;
        if pin.format.sub_format != super::pattern::RGB32 {
            return Err(DriverError::NoMatch);
        }
        let most = match pictures(&pin.format) {
            0 => None,
            count => Some(u64::from(count)),
        };
        self.inner().lines.entry(pin.pin).or_default().most = most;
        // A pin that requires larger frames edits its own copy of the descriptor.
        let grown = FramingForm::Simple(SimpleFraming {
            frames: 2,
            bytes: pin.format.sample_size,
            kind: MemoryKind::NonPaged,
            system_memory: true,
            ..SimpleFraming::default()
        });
        if first_instance.is_some() && pin.format.sample_size > BYTES {
            self.services()?.edit_framing(pin.pin, Some(grown))?;
        }
        Ok(())
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        self.enter(Entry::PinSetDeviceState, pin.pin)?;
        if (to, from) == (PinState::Acquire, PinState::Stop) {
            self.services()?.program_hardware(pin.pin)?;
        }
        if to == PinState::Stop {
            self.drop_clones(pin.pin);
        }
        Ok(())
    }

    fn connect_pin(&self, _at: &mut Passive, pin: &PinView) -> DriverResult<()> {
        self.enter(Entry::PinConnect, pin.pin)
    }

    fn disconnect_pin(&self, _at: &mut Passive, pin: &PinView) {
        let _ = self.enter(Entry::PinDisconnect, pin.pin); // The entry returns nothing.
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        slot: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        self.enter(Entry::InitializeAllocator, pin.pin)?;
        // The context is pool memory, too.
        let context = self.services()?.allocate_memory(16, 7, MemoryKind::NonPaged);
        let context = context.ok_or(DriverError::NoMemory)?;
        let pool = Pool { framing: *framing, free: Vec::new() };
        self.inner().allocators.insert(context, pool);
        Ok(slot.fill(context))
    }

    fn allocate(
        &self,
        allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.enter(Entry::Allocate, NO_PIN).ok()?;
        let framing = {
            let mut inner = self.inner();
            let pool = inner.allocators.get_mut(&allocator.as_raw())?;
            if let Some(frame) = pool.free.pop() {
                return Some(slot.fill(frame));
            }
            pool.framing
        };
        let Framing { bytes, alignment, kind, .. } = framing;
        Some(slot.fill(self.services().ok()?.allocate_memory(bytes, alignment, kind)?))
    }

    fn free_frame(&self, allocator: &DriverAllocator, frame: DriverFrame) {
        let _ = self.enter(Entry::FreeFrame, NO_PIN); // The entry returns nothing.
        if let Some(pool) = self.inner().allocators.get_mut(&allocator.as_raw()) {
            pool.free.push(frame.as_raw());
        }
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        let kept = self.enter(Entry::DeleteAllocator, NO_PIN);
        let pool = self.inner().allocators.remove(&allocator.as_raw());
        let Ok(services) = self.services() else { return };
        for frame in pool.into_iter().flat_map(|pool| pool.free) {
            let _ = services.free_memory(frame);
        }
        // A flaw keeps the context.
        if kept.is_ok() {
            let _ = services.free_memory(allocator.as_raw());
        }
    }

    fn pointer_cancelled(&self, _at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        let kept = self.enter(Entry::PointerCancelled, pin);
        if let Some(line) = self.inner().lines.get_mut(&pin) {
            line.in_flight.retain(|stream_pointer| *stream_pointer != pointer);
        }
        if let Ok(services) = self.services()
            && kept.is_ok()
        {
            let _ = services.delete_pointer(pointer);
        }
    }

    fn pointer_timed_out(&self, _at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        let _ = self.enter(Entry::PointerTimedOut, pin); // The entry returns nothing.
        let mine = {
            let mut inner = self.inner();
            let line = inner.lines.entry(pin).or_default();
            let place = line.in_flight.iter().position(|stream_pointer| *stream_pointer == pointer);
            place.and_then(|index| line.in_flight.remove(index))
        };
        if mine.is_some()
            && let Ok(services) = self.services()
        {
            // A frame that was cancelled in the meantime is not filled.
            if services.lock(pointer).is_ok() {
                let _ = self.fill(pin, pointer, None);
            }
            let _ = services.delete_pointer(pointer);
        }
    }

    fn frame_returned(&self, _at: &mut Passive, pin: PinId, frame: usize, _context: usize) {
        let _ = self.enter(Entry::FrameReturned, pin); // The entry returns nothing.
        if let Ok(services) = self.services() {
            let _ = services.free_memory(frame);
        }
    }
}
