//! A test-pattern capture source, with its own allocator or with the default one, and flights of
//! it.

use crate::*;
use flight::{
    Component, DeterministicHost, Dispatch, Event, EventKind, Log, Passive, RuleId, Spawner,
    ThreadedHost, WaitToken,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The duration of a frame, in steps of 100 ns.
pub(crate) const INTERVAL: u64 = 333_333;
/// The size of a picture.
pub(crate) const BYTES: u32 = 64;

/// What a test does in a driver, at the beginning of each of its calls.
pub(crate) type Hook = dyn Fn(&Source, Entry, PinId) -> DriverResult<()> + Send + Sync;

/// The source.
pub(crate) struct Source {
    own: bool,
    services: Mutex<Option<Arc<Services>>>,
    inner: Mutex<Inner>,
    hook: Box<Hook>,
    pub(crate) descriptor: DeviceDescriptor,
}

#[derive(Default)]
struct Inner {
    allocators: BTreeMap<usize, Pool>,
    /// The clones that the hardware has to fill, in order.
    flying: VecDeque<(PinId, PointerId)>,
    pictures: u64,
}

struct Pool {
    framing: Framing,
    free: Vec<usize>,
}

pub(crate) fn format() -> Format {
    Format { major: 1, sub_format: 2, specifier: 3, sample_size: BYTES, block: Vec::new() }
}

/// The source's descriptor: an extended framing and an allocator, or the old form and none.
pub(crate) fn descriptor(own: bool) -> DeviceDescriptor {
    let item = FramingItem {
        kind: MemoryKind::NonPaged,
        can_allocate: true,
        frames: 3,
        alignment: 15,
        framing: SizeRange { min: BYTES, max: BYTES },
        ..FramingItem::default()
    };
    let simple = SimpleFraming {
        frames: 2,
        bytes: BYTES,
        alignment: 7,
        kind: MemoryKind::NonPaged,
        system_memory: true,
        reserved: 0,
    };
    let pin = PinDescriptor {
        dispatch: vec![
            Entry::PinCreate,
            Entry::PinClose,
            Entry::PinProcess,
            Entry::PinReset,
            Entry::PinSetDataFormat,
            Entry::PinSetDeviceState,
            Entry::PinConnect,
            Entry::PinDisconnect,
        ],
        allocator: own.then(|| Entry::ALLOCATOR.to_vec()),
        formats: vec![Format { major: 1, ..Format::default() }],
        framing: Some(if own {
            FramingForm::Extended(ExtendedFraming::new(vec![item]))
        } else {
            FramingForm::Simple(simple)
        }),
        ..PinDescriptor::default()
    };
    let filter = FilterDescriptor {
        dispatch: vec![Entry::FilterCreate, Entry::FilterClose],
        dispatch_level: false,
        pins: vec![pin],
    };
    let dispatch = vec![
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
    DeviceDescriptor { dispatch, filters: vec![filter] }
}

/// The content of a picture.
pub(crate) fn pattern(number: u64) -> Vec<u8> {
    (0..u64::from(BYTES)).map(|value| (number * 7 + value).to_le_bytes()[0]).collect()
}

impl Source {
    pub(crate) fn new(own: bool) -> Self {
        Self::with(own, |_, _, _| Ok(()))
    }

    pub(crate) fn with(
        own: bool,
        hook: impl Fn(&Source, Entry, PinId) -> DriverResult<()> + Send + Sync + 'static,
    ) -> Self {
        Self {
            own,
            services: Mutex::default(),
            inner: Mutex::default(),
            hook: Box::new(hook),
            descriptor: descriptor(own),
        }
    }

    pub(crate) fn services(&self) -> Arc<Services> {
        lock(&self.services).clone().expect("the driver was added")
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner)
    }

    fn hook(&self, entry: Entry, pin: PinId) -> DriverResult<()> {
        (self.hook)(self, entry, pin)
    }

    /// The driver forgets its clones.
    pub(crate) fn forget_clones(&self) {
        self.inner().flying.clear();
    }

    fn header(&self, number: u64) -> Header {
        Header {
            time: self.services().now(),
            duration: INTERVAL,
            data_used: BYTES,
            end_of_stream: false,
            discontinuity: number == 0,
        }
    }

    /// Fills a frame, at once.
    fn fill(&self, pointer: PointerId) -> DriverResult<()> {
        let number = {
            let mut inner = self.inner();
            inner.pictures += 1;
            inner.pictures - 1
        };
        let services = self.services();
        // Frames of another allocator may be smaller than requested.
        let room = services.pointer_view(pointer)?.bytes.min(BYTES);
        services.write(pointer, 0, &pattern(number)[..room as usize])?;
        services.set_header(pointer, Header { data_used: room, ..self.header(number) })
    }

    fn drop_clones(&self, pin: PinId) {
        let mine: VecDeque<(PinId, PointerId)> = {
            let mut inner = self.inner();
            let (mine, others) = inner.flying.drain(..).partition(|pair| pair.0 == pin);
            inner.flying = others;
            mine
        };
        for (_, clone) in mine {
            let _ = self.services().delete_pointer(clone);
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

const NO_PIN: PinId = PinId::NULL;

impl Minidriver for Source {
    fn describe(&self) -> DeviceDescriptor {
        self.descriptor.clone()
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        services: &Arc<Services>,
        word: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        *lock(&self.services) = Some(services.clone());
        self.hook(Entry::DeviceAdd, NO_PIN)?;
        Ok(Some(word.fill(0xd0)))
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.hook(Entry::DeviceStart, NO_PIN)
    }

    fn post_start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.hook(Entry::DevicePostStart, NO_PIN)
    }

    fn query_stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.hook(Entry::DeviceQueryStop, NO_PIN)
    }

    fn stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        let _ = self.hook(Entry::DeviceStop, NO_PIN);
        Ok(())
    }

    fn query_remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.hook(Entry::DeviceQueryRemove, NO_PIN)
    }

    fn surprise_removal(&self, _at: &mut Passive) -> DriverResult<()> {
        let _ = self.hook(Entry::DeviceSurpriseRemoval, NO_PIN);
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        let _ = self.hook(Entry::DeviceRemove, NO_PIN);
        Ok(())
    }

    fn set_power(&self, _at: &mut Passive, _on: bool) {
        let _ = self.hook(Entry::DeviceSetPower, NO_PIN);
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        word: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.hook(Entry::FilterCreate, NO_PIN)?;
        assert_eq!(filter.driver_handle, 0xd0, "it begins with its device's");
        Ok(Some(word.fill(0xf0)))
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.hook(Entry::FilterClose, NO_PIN)?;
        assert_eq!(word.map(|driver_handle| driver_handle.as_raw()), Some(0xf0));
        Ok(())
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        word: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.hook(Entry::PinCreate, pin.pin)?;
        assert_eq!(pin.driver_handle, 0xf0, "it begins with its filter's");
        Ok(Some(word.fill(0xa0)))
    }

    fn close_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.hook(Entry::PinClose, pin.pin)?;
        assert_eq!(word.map(|driver_handle| driver_handle.as_raw()), Some(0xa0));
        Ok(())
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.hook(Entry::PinProcess, pin.pin)?;
        let services = self.services();
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            if self.own {
                // The hardware fills a clone, one interval after the one before.
                let clone = services.clone_pointer(edge, true)?;
                services.advance(edge).or_else(fell)?;
                let before = {
                    let mut inner = self.inner();
                    inner.flying.push_back((pin.pin, clone));
                    inner.flying.len() as u64
                };
                services.schedule_timeout(clone, before * INTERVAL)?;
            } else {
                self.fill(edge)?;
                let room = services.pointer_view(edge)?.remaining;
                services.advance_offsets(edge, room, false)?;
            }
        }
        Ok(())
    }

    fn reset_pin(&self, _at: &mut Passive, pin: &PinView) {
        let _ = self.hook(Entry::PinReset, pin.pin);
        self.drop_clones(pin.pin);
    }

    fn set_format(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        _old: Option<&Format>,
        _range: &Format,
    ) -> DriverResult<()> {
        self.hook(Entry::PinSetDataFormat, pin.pin)?;
        if pin.format.sub_format == 2 { Ok(()) } else { Err(DriverError::NoMatch) }
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        assert_eq!((pin.client_state, pin.device_state), (to, from));
        self.hook(Entry::PinSetDeviceState, pin.pin)?;
        if to == PinState::Stop {
            self.drop_clones(pin.pin);
        }
        Ok(())
    }

    fn connect_pin(&self, _at: &mut Passive, pin: &PinView) -> DriverResult<()> {
        self.hook(Entry::PinConnect, pin.pin)
    }

    fn disconnect_pin(&self, _at: &mut Passive, pin: &PinView) {
        let _ = self.hook(Entry::PinDisconnect, pin.pin);
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        word: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        self.hook(Entry::InitializeAllocator, pin.pin)?;
        // The context is memory, too.
        let context = self.services().allocate_memory(16, 7, MemoryKind::NonPaged);
        let context = context.ok_or(DriverError::NoMemory)?;
        let pool = Pool { framing: *framing, free: Vec::new() };
        self.inner().allocators.insert(context, pool);
        Ok(word.fill(context))
    }

    fn allocate(
        &self,
        allocator: &DriverAllocator,
        word: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.hook(Entry::Allocate, NO_PIN).ok()?;
        let framing = {
            let mut inner = self.inner();
            let pool = inner.allocators.get_mut(&allocator.as_raw())?;
            if let Some(frame) = pool.free.pop() {
                return Some(word.fill(frame));
            }
            pool.framing
        };
        let Framing { bytes, alignment, kind, .. } = framing;
        Some(word.fill(self.services().allocate_memory(bytes, alignment, kind)?))
    }

    fn free_frame(&self, allocator: &DriverAllocator, frame: DriverFrame) {
        let _ = self.hook(Entry::FreeFrame, NO_PIN);
        if let Some(pool) = self.inner().allocators.get_mut(&allocator.as_raw()) {
            pool.free.push(frame.as_raw());
        }
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        let kept = self.hook(Entry::DeleteAllocator, NO_PIN);
        let pool = self.inner().allocators.remove(&allocator.as_raw());
        if kept.is_err() {
            return;
        }
        for frame in pool.into_iter().flat_map(|pool| pool.free) {
            let _ = self.services().free_memory(frame);
        }
        let _ = self.services().free_memory(allocator.as_raw());
    }

    fn pointer_cancelled(&self, _at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        if self.hook(Entry::PointerCancelled, pin).is_ok() {
            self.inner().flying.retain(|pair| pair.1 != pointer);
            let _ = self.services().delete_pointer(pointer);
        }
    }

    fn pointer_timed_out(&self, _at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        let _ = self.hook(Entry::PointerTimedOut, pin);
        let mine = {
            let mut inner = self.inner();
            let place = inner.flying.iter().position(|pair| pair.1 == pointer);
            place.and_then(|index| inner.flying.remove(index))
        };
        if mine.is_some() {
            let _ = self.fill(pointer);
            let _ = self.services().delete_pointer(pointer);
        }
    }

    fn frame_returned(&self, _at: &mut Passive, pin: PinId, frame: usize, _context: usize) {
        let _ = self.hook(Entry::FrameReturned, pin);
        let _ = self.services().free_memory(frame);
    }
}

/// There is no next frame yet: that is not a failure of the previous one.
pub(crate) fn fell(why: DriverError) -> DriverResult<()> {
    if why == DriverError::NotReady { Ok(()) } else { Err(why) }
}

/// A run: the class driver on a host, with a worker thread.
pub(crate) struct Run {
    pub(crate) stream: Arc<StreamOwner>,
    pub(crate) host: Arc<dyn Spawner>,
    pub(crate) memory: Arc<SystemMemory>,
}

/// The first device, if it is live; else an id that no device has.
pub(crate) fn first_device(stream: &Stream) -> DeviceId {
    stream.find_device(1).unwrap_or(DeviceId::NULL)
}

/// The same for the first filter.
pub(crate) fn first_filter(stream: &Stream) -> FilterId {
    stream.find_filter(1).unwrap_or(FilterId::NULL)
}

/// The same for the first pin.
pub(crate) fn first_pin(stream: &Stream) -> PinId {
    stream.find_pin(1).unwrap_or(PinId::NULL)
}

impl Run {
    /// The services of the first device.
    pub(crate) fn services(&self) -> Arc<Services> {
        self.stream.services(first_device(&self.stream)).unwrap()
    }

    pub(crate) fn add(&self, at: &mut Passive, source: Source) -> Result<DeviceId, StreamError> {
        self.add_shared(at, Arc::new(source))
    }

    pub(crate) fn add_shared(
        &self,
        at: &mut Passive,
        source: Arc<Source>,
    ) -> Result<DeviceId, StreamError> {
        let plugged = DriverSetup { minidriver: source, memory: self.memory.clone() };
        self.stream.add_device(at, plugged)
    }

    pub(crate) fn open(&self, at: &mut Passive, device: DeviceId) -> Result<Graph, StreamError> {
        Graph::open(&self.stream, at, device, &format(), &FramingRequest::default())
    }

    /// Checks that no object is live.
    pub(crate) fn assert_empty(&self) {
        let live_objects = self.stream.live_objects();
        assert_eq!(live_objects.count(), 0, "{live_objects}");
        assert_eq!(self.memory.allocation_count(), 0, "memory is left");
        self.stream.validate().unwrap();
    }
}

/// Flies a scenario, and returns what happened.
pub(crate) fn fly(seed: u64, story: impl FnOnce(&Run, &mut Passive)) -> (Vec<Event>, Arc<Log>) {
    let log = Arc::new(Log::new());
    DeterministicHost::fly(seed, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let host: Arc<dyn Spawner> = host.clone();
        stream.start_workers(&host);
        let run = Run { stream, host, memory: Arc::default() };
        story(&run, at);
    })
    .unwrap();
    (log.take(), log)
}

/// Flies it on real threads.
pub(crate) fn fly_free(story: impl FnOnce(&Run, &mut Passive)) -> (Vec<Event>, Arc<Log>) {
    let log = Arc::new(Log::new());
    ThreadedHost::fly(&log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let host: Arc<dyn Spawner> = host.clone();
        stream.start_workers(&host);
        let run = Run { stream, host, memory: Arc::default() };
        story(&run, at);
    })
    .unwrap();
    (log.take(), log)
}

/// The rules that were broken, each once.
pub(crate) fn broken(events: &[Event]) -> Vec<RuleId> {
    let mut all: Vec<RuleId> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::RuleBroken { rule: request_rule, .. } => Some(*request_rule),
            _ => None,
        })
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Counts the calls of a driver, and does something at one of them.
#[derive(Clone, Default)]
pub(crate) struct Count(pub(crate) Arc<AtomicU32>);

impl Count {
    /// Whether this is the call of that number.
    pub(crate) fn is(&self, number: u32) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) + 1 == number
    }

    pub(crate) fn so_far(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A token that a driver wakes, for a thread that then does something.
pub(crate) fn work_available() -> WaitToken {
    WaitToken::new("a call of the driver")
}

/// Checks what must hold in every flight, whatever the driver and the clients did.
pub(crate) fn check_order(events: &[Event]) {
    let mut verifier = verify::Verifier::new();
    for event in events {
        verifier.observe(event);
    }
    let ours = verifier.findings().iter().find(|finding| finding.component == Component::Kernel);
    assert_eq!(ours, None, "the class driver's own rules hold");
    let mut allocators: BTreeMap<u32, (bool, i32, u32)> = BTreeMap::new(); // ready, out, deletes
    let mut calls: BTreeMap<u32, (String, flight::Subject)> = BTreeMap::new();
    for event in events {
        let number = event.subject.number;
        match &event.kind {
            EventKind::KsCall { name, level, locks, about, .. } => {
                let line = TABLE.iter().find(|ks_row| *name == ks_row.name).unwrap();
                assert_eq!(*level, line.level, "{event}");
                if !matches!(line.locks, "none") && !name.contains("Free") {
                    let wanted: Vec<&str> = line.locks.split('+').collect();
                    for lock in wanted {
                        assert!(locks.contains(lock), "{event} needs {lock}");
                    }
                }
                calls.insert(number, (name.to_string(), *about));
                let of = about.number;
                match &**name {
                    "AVStrMiniInitializeAllocator" => {
                        assert!(!allocators.contains_key(&of), "{event}: twice");
                        allocators.insert(of, (false, 0, 0));
                    }
                    "AVStrMiniAllocate" | "AVStrMiniAllocatorFreeFrame" => {
                        let it = allocators.get(&of).unwrap();
                        assert!(it.0 && it.2 == 0, "{event}");
                    }
                    "AVStrMiniDeleteAllocator" => {
                        let it = allocators.get_mut(&of).unwrap();
                        assert!(it.0 && it.2 == 0, "{event}: not ready, or twice");
                        assert_eq!(it.1, 0, "{event}: frames are out");
                        it.2 += 1;
                    }
                    _ => (),
                }
            }
            EventKind::KsReturn { result: answer, .. } => {
                let (name, about) = calls.remove(&number).unwrap();
                let it = allocators.get_mut(&about.number);
                match (&*name, &**answer, it) {
                    ("AVStrMiniInitializeAllocator", "ok", Some(it)) => it.0 = true,
                    ("AVStrMiniAllocate", "ok", Some(it)) => it.1 += 1,
                    ("AVStrMiniAllocatorFreeFrame", _, Some(it)) => it.1 -= 1,
                    _ => (),
                }
            }
            EventKind::PinStateChanged { from, to, .. } => {
                let place =
                    |name: &str| PinState::ALL.iter().position(|state| state.name() == name);
                let (from, to) = (place(from).unwrap(), place(to).unwrap());
                assert_eq!(from.abs_diff(to), 1, "{event}");
            }
            _ => (),
        }
    }
    for (number, (ready, out, deletes)) in allocators {
        assert_eq!(
            deletes,
            u32::from(ready),
            "allocator {number} is deleted once, if it was ready"
        );
        assert_eq!(out, 0, "allocator {number} has frames out");
    }
}
