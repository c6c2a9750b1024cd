//! Unit tests of the kernel with a small minidriver: objects, their order of creation and end,
//! and failures. Other crates than `flight` are not needed.

use crate::stream_state::StreamState;
use crate::*;
use flight::{DeterministicHost, InternalError, Lock, Log, Passive, internal_error};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What the minidriver does in one of its entry points.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    /// It returns a failure.
    Fails,
    /// It panics.
    Panics,
    /// It runs into a broken invariant of ours.
    InternalError,
}

/// A minidriver with one filter and one pin, whose allocator is its own.
#[derive(Default)]
struct TestDriver {
    services: Lock<Option<Arc<Services>>>,
    /// The entry points that were called, in order.
    calls: Lock<Vec<Entry>>,
    fault: Option<(Entry, Fault)>,
    /// The clone that keeps the first frame.
    clone: Lock<Option<PointerId>>,
}

impl TestDriver {
    fn with_fault(entry: Entry, fault: Fault) -> Self {
        Self { fault: Some((entry, fault)), ..Self::default() }
    }

    fn services(&self) -> Arc<Services> {
        self.services.lock().clone().unwrap()
    }

    fn enter(&self, entry: Entry) -> DriverResult<()> {
        self.calls.lock().push(entry);
        match self.fault.filter(|fault| fault.0 == entry) {
            None => Ok(()),
            Some((_, Fault::Fails)) => Err(DriverError::NoMemory),
            Some((_, Fault::Panics)) => panic!("the driver crashes"),
            Some((_, Fault::InternalError)) => internal_error("this is a test"),
        }
    }

    /// The calls since the last check.
    fn take_calls(&self) -> Vec<Entry> {
        std::mem::take(&mut self.calls.lock())
    }
}

impl Minidriver for TestDriver {
    fn describe(&self) -> DeviceDescriptor {
        let pin = PinDescriptor {
            dispatch: vec![
                Entry::PinCreate,
                Entry::PinClose,
                Entry::PinProcess,
                Entry::PinSetDeviceState,
            ],
            allocator: Some(Entry::ALLOCATOR.to_vec()),
            formats: vec![Format { major: 1, ..Format::default() }],
            framing: Some(FramingForm::Simple(SimpleFraming {
                frames: 2,
                bytes: 64,
                alignment: 7,
                kind: MemoryKind::NonPaged,
                system_memory: true,
                reserved: 0,
            })),
            ..PinDescriptor::default()
        };
        let dispatch = vec![Entry::FilterCreate, Entry::FilterClose];
        let filter = FilterDescriptor { dispatch, pins: vec![pin], ..FilterDescriptor::default() };
        DeviceDescriptor { filters: vec![filter], ..DeviceDescriptor::default() }
    }

    fn attach(&self, services: &Arc<Services>) {
        *self.services.lock() = Some(services.clone());
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        _word: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.enter(Entry::FilterCreate).map(|()| None)
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.enter(Entry::FilterClose)
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _word: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.enter(Entry::PinCreate).map(|()| None)
    }

    fn close_pin(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.enter(Entry::PinClose)
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _to: PinState,
        _from: PinState,
    ) -> DriverResult<()> {
        self.enter(Entry::PinSetDeviceState)
    }

    /// Clones the leading edge once, writes the frame, and moves on.
    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.enter(Entry::PinProcess)?;
        let services = self.services();
        let edge = services.leading_edge(pin.pin, true).ok_or(DriverError::Pending)?;
        let mut clone = self.clone.lock();
        if clone.is_none() {
            *clone = Some(services.clone_pointer(edge, false)?);
        }
        services.write(edge, 0, &[7; 8])?;
        services.advance_offsets(edge, 8, true)
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _framing: &Framing,
        word: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        self.enter(Entry::InitializeAllocator)?;
        let context = self.services().allocate_memory(16, 7, MemoryKind::NonPaged);
        Ok(word.fill(context.ok_or(DriverError::NoMemory)?))
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        word: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.enter(Entry::Allocate).ok()?;
        Some(word.fill(self.services().allocate_memory(256, 15, MemoryKind::NonPaged)?))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        // The entry point returns nothing, so a failure cannot be passed on.
        let _ = self.enter(Entry::FreeFrame);
        self.services().free_memory(frame.as_raw()).unwrap();
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        // As above.
        let _ = self.enter(Entry::DeleteAllocator);
        self.services().free_memory(allocator.as_raw()).unwrap();
    }
}

/// The kernel with one device of a test driver.
struct Bed {
    stream: Arc<StreamOwner>,
    driver: Arc<TestDriver>,
    memory: Arc<SystemMemory>,
    device: DeviceId,
}

impl Bed {
    fn open_pin(&self, at: &mut Passive) -> (FilterId, PinId) {
        let filter = self.stream.open_filter(at, self.device, 0).unwrap();
        (filter, self.stream.create_pin(at, filter, 0, &format()).unwrap())
    }

    /// How many filters, pins, stream pointers, allocators and frames are live.
    fn live(&self) -> [usize; 5] {
        let state = self.stream.state.lock();
        let StreamState { filters, pins, pointers, allocators, frames, .. } = &*state;
        [filters.len(), pins.len(), pointers.len(), allocators.len(), frames.len()]
    }

    /// Checks that only the device is live.
    fn assert_empty(&self) {
        assert_eq!(self.live(), [0; 5]);
        assert_eq!(self.stream.live_objects().count(), 1, "{}", self.stream.live_objects());
        assert_eq!(self.memory.allocation_count(), 0);
        self.stream.validate().unwrap();
    }
}

fn format() -> Format {
    Format { major: 1, sample_size: 64, ..Format::default() }
}

fn fly(driver: TestDriver, body: impl FnOnce(&Bed, &mut Passive)) {
    let log = Arc::new(Log::new());
    DeterministicHost::fly(1, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let (driver, memory) = (Arc::new(driver), Arc::new(SystemMemory::default()));
        let plugged = DriverSetup { minidriver: driver.clone(), memory: memory.clone() };
        let device = stream.add_device(at, plugged).unwrap();
        body(&Bed { stream, driver, memory, device }, at);
    })
    .unwrap();
}

#[test]
fn a_filter_and_its_pin_open_and_close_in_order() {
    fly(TestDriver::default(), |bed, at| {
        let (filter, pin) = bed.open_pin(at);
        assert_eq!((filter.serial(), pin.serial()), (1, 1));
        // The pin has a leading edge, and no frame yet.
        assert_eq!(bed.live(), [1, 1, 1, 0, 0]);
        let again = bed.stream.create_pin(at, filter, 0, &format());
        assert_eq!(again, Err(StreamError::TooMany { most: 1 }));
        let closed = bed.stream.close_filter(at, filter);
        assert_eq!(closed, Err(StreamError::PinsOpen(filter.subject())));
        bed.stream.close_pin(at, pin).unwrap();
        bed.stream.close_filter(at, filter).unwrap();
        assert_eq!(
            bed.driver.take_calls(),
            [Entry::FilterCreate, Entry::PinCreate, Entry::PinClose, Entry::FilterClose]
        );
        // A client's stale ids are refused, even when their slots are reused.
        let (other, _) = bed.open_pin(at);
        assert_eq!(other.serial(), 2);
        assert_eq!(bed.stream.close_pin(at, pin), Err(StreamError::NotFound(pin.subject())));
        assert_eq!(
            bed.stream.close_filter(at, filter),
            Err(StreamError::NotFound(filter.subject()))
        );
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn both_sides_agree_on_the_larger_framing() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        let wish =
            FramingRequest { frames: 3, bytes: 100, alignment: 15, ..FramingRequest::default() };
        let framing = bed.stream.connect(at, pin, &wish).unwrap();
        let kind = MemoryKind::NonPaged;
        let agreed = Framing { frames: 3, bytes: 100, alignment: 15, kind, system_memory: true };
        assert_eq!(framing, agreed);
        let again = bed.stream.connect(at, pin, &wish);
        assert_eq!(again, Err(StreamError::Connected(pin.subject())));
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn an_allocator_is_initialised_first_and_deleted_last() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.driver.take_calls();
        bed.stream.connect(at, pin, &FramingRequest::default()).unwrap();
        assert_eq!(bed.driver.take_calls(), [Entry::InitializeAllocator]);
        bed.stream.set_state(at, pin, PinState::Acquire).unwrap();
        let state = Entry::PinSetDeviceState;
        assert_eq!(bed.driver.take_calls(), [Entry::Allocate, Entry::Allocate, state]);
        bed.stream.disconnect(at, pin).unwrap();
        assert_eq!(
            bed.driver.take_calls(),
            [state, Entry::FreeFrame, Entry::FreeFrame, Entry::DeleteAllocator]
        );
        assert_eq!(bed.live(), [1, 1, 1, 0, 0]);
        assert_eq!(bed.memory.allocation_count(), 0);
    });
}

#[test]
fn frames_live_while_a_pin_is_not_stopped() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.stream.connect(at, pin, &FramingRequest::default()).unwrap();
        let frames = |state: PinState, at: &mut Passive| {
            bed.stream.set_state(at, pin, state).unwrap();
            bed.stream.validate().unwrap();
            (bed.live()[4], bed.stream.state.lock().pins[pin].queue.len())
        };
        assert_eq!(frames(PinState::Stop, at), (0, 0));
        assert_eq!(frames(PinState::Acquire, at), (2, 0));
        assert_eq!(frames(PinState::Pause, at), (2, 2));
        assert_eq!(frames(PinState::Acquire, at), (2, 2));
        assert_eq!(frames(PinState::Stop, at), (0, 0));
        assert_eq!(frames(PinState::Run, at), (2, 2));
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn a_frame_is_done_when_its_last_clone_is_deleted() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.stream.connect(at, pin, &FramingRequest::default()).unwrap();
        bed.stream.set_state(at, pin, PinState::Run).unwrap();
        while bed.stream.run_pending_work(at) {}
        let clone = bed.driver.clone.lock().unwrap();
        let services = bed.driver.services();
        let first = services.pointer_view(clone).unwrap().frame.unwrap();
        // Both frames were passed; the clone keeps the first one.
        assert_eq!(bed.live()[2], 2);
        let second = bed.stream.take_frame(at, pin, None).unwrap();
        assert_ne!(second.frame, first);
        assert_eq!(second.header.data_used, 8);
        let none = bed.stream.take_frame(at, pin, Some(0));
        assert!(matches!(none, Err(StreamError::TimedOut | StreamError::Stuck)), "{none:?}");
        services.delete_pointer(clone).unwrap();
        assert_eq!(bed.stream.take_frame(at, pin, None).unwrap().frame, first);
        assert_eq!(services.delete_pointer(clone), Err(DriverError::Invalid), "it is deleted once");
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

/// Opens, connects and acquires a pin. Returns the first failure.
fn acquire(bed: &Bed, at: &mut Passive) -> Result<(), StreamError> {
    let graph = Graph::open(&bed.stream, at, bed.device, &format(), &FramingRequest::default())?;
    let acquired = bed.stream.set_state(at, graph.pin, PinState::Acquire);
    graph.close(at)?;
    acquired
}

#[test]
fn a_failed_call_leaves_nothing_alive() {
    for entry in [
        Entry::FilterCreate,
        Entry::PinCreate,
        Entry::InitializeAllocator,
        Entry::Allocate,
        Entry::PinSetDeviceState,
    ] {
        for (fault, why) in
            [(Fault::Fails, DriverError::NoMemory), (Fault::Panics, DriverError::Crashed)]
        {
            fly(TestDriver::with_fault(entry, fault), |bed, at| {
                let refused = acquire(bed, at).unwrap_err();
                let frames = entry == Entry::Allocate;
                let expected =
                    if frames { StreamError::NoFrames } else { StreamError::Driver(why) };
                assert_eq!(refused, expected, "{}", entry.name());
                bed.assert_empty();
            });
        }
    }
}

#[test]
fn an_internal_error_is_not_a_crash_of_the_driver() {
    fly(TestDriver::with_fault(Entry::PinCreate, Fault::InternalError), |bed, at| {
        let opened = catch_unwind(AssertUnwindSafe(|| acquire(bed, at)));
        let panic = opened.unwrap_err();
        let error = panic.downcast_ref::<InternalError>().unwrap();
        assert_eq!(error.invariant(), "this is a test");
    });
}

#[test]
fn a_dangling_id_of_ours_is_an_internal_error() {
    fly(TestDriver::default(), |bed, at| {
        let (filter, pin) = bed.open_pin(at);
        bed.stream.close_pin(at, pin).unwrap();
        let dangling = || bed.stream.state.lock().pin_call(pin, Entry::PinClose);
        let Err(panic) = catch_unwind(AssertUnwindSafe(dangling)) else {
            panic!("{pin} is closed, and was found");
        };
        assert!(panic.is::<InternalError>());
        bed.stream.close_filter(at, filter).unwrap();
        bed.assert_empty();
    });
}

/// The services refer to the class driver, and its devices to the services: the owner breaks the
/// cycle.
#[test]
fn a_device_that_is_not_removed_ends_with_the_owner_and_gets_no_service() {
    let log = Arc::new(Log::new());
    let left = DeterministicHost::fly(1, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let driver = Arc::new(TestDriver::default());
        let (device, class) = (Arc::downgrade(&driver), Arc::downgrade(&stream));
        let setup = DriverSetup { minidriver: driver, memory: Arc::new(SystemMemory::default()) };
        let number = stream.add_device(at, setup).unwrap();
        let services = stream.services(number).unwrap();
        let filter = stream.open_filter(at, number, 0).unwrap();
        let pin = stream.create_pin(at, filter, 0, &format()).unwrap();
        assert!(services.leading_edge(pin, false).is_none() && services.clones(pin).is_ok());
        (device, class, services, pin)
    });
    let (device, class, services, pin) = left.unwrap();
    assert!(class.upgrade().is_none() && device.upgrade().is_none());
    // The pin existed: a driver that outlives the class driver breaks no rule by using it.
    let before = log.rule_counts();
    assert_eq!(services.attempt_processing(pin), Err(DriverError::Invalid));
    assert_eq!(services.clones(pin), Err(DriverError::Invalid));
    assert_eq!(services.leading_edge(pin, true), None);
    assert_eq!(services.allocate_memory(16, 7, MemoryKind::NonPaged), None);
    assert_eq!(services.delay(1), Err(DriverError::Invalid));
    assert_eq!(log.rule_counts(), before);
}
