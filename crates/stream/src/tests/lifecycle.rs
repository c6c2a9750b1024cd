//! Unit tests of the kernel with a small minidriver: objects, their order of creation and end,
//! and failures. Other crates than `flight` are not needed.

use crate::lock::Lock;
use crate::world::World;
use crate::*;
use flight::{InternalError, Log, Passive, Stepped, internal_error};
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
        self.services.hold().clone().unwrap()
    }

    fn enter(&self, entry: Entry) -> Answer<()> {
        self.calls.hold().push(entry);
        match self.fault.filter(|fault| fault.0 == entry) {
            None => Ok(()),
            Some((_, Fault::Fails)) => Err(Refusal::NoMemory),
            Some((_, Fault::Panics)) => panic!("the driver crashes"),
            Some((_, Fault::InternalError)) => internal_error("this is a test"),
        }
    }

    /// The calls since the last time.
    fn take_calls(&self) -> Vec<Entry> {
        std::mem::take(&mut self.calls.hold())
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
                system: true,
                reserved: 0,
            })),
            ..PinDescriptor::default()
        };
        let dispatch = vec![Entry::FilterCreate, Entry::FilterClose];
        let filter = FilterDescriptor { dispatch, pins: vec![pin], ..FilterDescriptor::default() };
        DeviceDescriptor { filters: vec![filter], ..DeviceDescriptor::default() }
    }

    fn attach(&self, services: &Arc<Services>) {
        *self.services.hold() = Some(services.clone());
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        _word: Blank<'_, FilterId>,
    ) -> Answer<Option<DriverFilter>> {
        self.enter(Entry::FilterCreate).map(|()| None)
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        _filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> Answer<()> {
        self.enter(Entry::FilterClose)
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _word: Blank<'_, PinId>,
    ) -> Answer<Option<DriverPin>> {
        self.enter(Entry::PinCreate).map(|()| None)
    }

    fn close_pin(&self, _at: &mut Passive, _pin: &PinView, _word: Option<DriverPin>) -> Answer<()> {
        self.enter(Entry::PinClose)
    }

    fn set_state(&self, _at: &mut Passive, _pin: &PinView, _to: State, _from: State) -> Answer<()> {
        self.enter(Entry::PinSetDeviceState)
    }

    /// Clones the leading edge once, writes the frame, and moves on.
    fn process_pin(&self, pin: &PinView) -> Answer<()> {
        self.enter(Entry::PinProcess)?;
        let services = self.services();
        let edge = services.leading_edge(pin.pin, true).ok_or(Refusal::Pending)?;
        let mut clone = self.clone.hold();
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
        word: Blank<'_, AllocatorId>,
    ) -> Answer<DriverAllocator> {
        self.enter(Entry::InitializeAllocator)?;
        let context = self.services().make_memory(16, 7, MemoryKind::NonPaged);
        Ok(word.fill(context.ok_or(Refusal::NoMemory)?))
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        word: Blank<'_, FrameId>,
    ) -> Option<DriverFrame> {
        self.enter(Entry::Allocate).ok()?;
        Some(word.fill(self.services().make_memory(256, 15, MemoryKind::NonPaged)?))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        // The entry point returns nothing, so a failure cannot be passed on.
        let _ = self.enter(Entry::FreeFrame);
        self.services().free_memory(frame.word()).unwrap();
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        // As above.
        let _ = self.enter(Entry::DeleteAllocator);
        self.services().free_memory(allocator.word()).unwrap();
    }
}

/// The kernel with one device of a test driver.
struct Bed {
    stream: Arc<Stream>,
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
        let world = self.stream.world.hold();
        let World { filters, pins, pointers, allocators, frames, .. } = &*world;
        [filters.len(), pins.len(), pointers.len(), allocators.len(), frames.len()]
    }

    /// Everything of the device but the device itself is gone.
    fn assert_empty(&self) {
        assert_eq!(self.live(), [0; 5]);
        assert_eq!(self.stream.census().count(), 1, "{}", self.stream.census());
        assert_eq!(self.memory.pieces(), 0);
        self.stream.validate().unwrap();
    }
}

fn format() -> Format {
    Format { major: 1, sample: 64, ..Format::default() }
}

fn fly(driver: TestDriver, body: impl FnOnce(&Bed, &mut Passive)) {
    let log = Arc::new(Log::new());
    Stepped::fly(1, &log, |host, at| {
        let stream = Stream::new(host.clone(), log.clone());
        let (driver, memory) = (Arc::new(driver), Arc::new(SystemMemory::default()));
        let plugged = Plugged { minidriver: driver.clone(), memory: memory.clone() };
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
        assert_eq!(again, Err(Refused::TooMany { most: 1 }));
        let closed = bed.stream.close_filter(at, filter);
        assert_eq!(closed, Err(Refused::PinsOpen(filter.subject())));
        bed.stream.close_pin(at, pin).unwrap();
        bed.stream.close_filter(at, filter).unwrap();
        assert_eq!(
            bed.driver.take_calls(),
            [Entry::FilterCreate, Entry::PinCreate, Entry::PinClose, Entry::FilterClose]
        );
        // A client's stale ids are refused, also when their slots are used again.
        let (other, _) = bed.open_pin(at);
        assert_eq!(other.serial(), 2);
        assert_eq!(bed.stream.close_pin(at, pin), Err(Refused::NotThere(pin.subject())));
        assert_eq!(bed.stream.close_filter(at, filter), Err(Refused::NotThere(filter.subject())));
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn both_sides_agree_on_the_larger_framing() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        let wish = Wish { frames: 3, bytes: 100, alignment: 15, ..Wish::default() };
        let framing = bed.stream.connect(at, pin, &wish).unwrap();
        let kind = MemoryKind::NonPaged;
        let agreed = Framing { frames: 3, bytes: 100, alignment: 15, kind, system: true };
        assert_eq!(framing, agreed);
        let again = bed.stream.connect(at, pin, &wish);
        assert_eq!(again, Err(Refused::Connected(pin.subject())));
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn an_allocator_is_initialised_first_and_deleted_last() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.driver.take_calls();
        bed.stream.connect(at, pin, &Wish::default()).unwrap();
        assert_eq!(bed.driver.take_calls(), [Entry::InitializeAllocator]);
        bed.stream.set_state(at, pin, State::Acquire).unwrap();
        let state = Entry::PinSetDeviceState;
        assert_eq!(bed.driver.take_calls(), [Entry::Allocate, Entry::Allocate, state]);
        bed.stream.disconnect(at, pin).unwrap();
        assert_eq!(
            bed.driver.take_calls(),
            [state, Entry::FreeFrame, Entry::FreeFrame, Entry::DeleteAllocator]
        );
        assert_eq!(bed.live(), [1, 1, 1, 0, 0]);
        assert_eq!(bed.memory.pieces(), 0);
    });
}

#[test]
fn frames_live_while_a_pin_is_not_stopped() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.stream.connect(at, pin, &Wish::default()).unwrap();
        let frames = |state: State, at: &mut Passive| {
            bed.stream.set_state(at, pin, state).unwrap();
            bed.stream.validate().unwrap();
            (bed.live()[4], bed.stream.world.hold().pins[pin].queue.len())
        };
        assert_eq!(frames(State::Stop, at), (0, 0));
        assert_eq!(frames(State::Acquire, at), (2, 0));
        assert_eq!(frames(State::Pause, at), (2, 2));
        assert_eq!(frames(State::Acquire, at), (2, 2));
        assert_eq!(frames(State::Stop, at), (0, 0));
        assert_eq!(frames(State::Run, at), (2, 2));
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

#[test]
fn a_frame_is_done_when_its_last_clone_is_deleted() {
    fly(TestDriver::default(), |bed, at| {
        let (_, pin) = bed.open_pin(at);
        bed.stream.connect(at, pin, &Wish::default()).unwrap();
        bed.stream.set_state(at, pin, State::Run).unwrap();
        while bed.stream.work(at) {}
        let clone = bed.driver.clone.hold().unwrap();
        let services = bed.driver.services();
        let first = services.look(clone).unwrap().frame.unwrap();
        // Both frames were passed; the clone keeps the first one.
        assert_eq!(bed.live()[2], 2);
        let second = bed.stream.take_frame(at, pin, None).unwrap();
        assert_ne!(second.frame, first);
        assert_eq!(second.header.used, 8);
        let none = bed.stream.take_frame(at, pin, Some(0));
        assert!(matches!(none, Err(Refused::TimedOut | Refused::Stuck)), "{none:?}");
        services.delete_pointer(clone).unwrap();
        assert_eq!(bed.stream.take_frame(at, pin, None).unwrap().frame, first);
        assert_eq!(services.delete_pointer(clone), Err(Refusal::Invalid), "it is deleted once");
        bed.stream.stop_device(at, bed.device).unwrap();
        bed.assert_empty();
    });
}

/// Opens, connects and acquires a pin. Returns the first failure.
fn acquire(bed: &Bed, at: &mut Passive) -> Result<(), Refused> {
    let graph = Graph::open(&bed.stream, at, bed.device, &format(), &Wish::default())?;
    let acquired = bed.stream.set_state(at, graph.pin, State::Acquire);
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
        for (fault, why) in [(Fault::Fails, Refusal::NoMemory), (Fault::Panics, Refusal::Crashed)] {
            fly(TestDriver::with_fault(entry, fault), |bed, at| {
                let refused = acquire(bed, at).unwrap_err();
                let frames = entry == Entry::Allocate;
                let expected = if frames { Refused::NoFrames } else { Refused::Driver(why) };
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
        let dangling = || bed.stream.world.hold().pin_call(pin, Entry::PinClose);
        let Err(panic) = catch_unwind(AssertUnwindSafe(dangling)) else {
            panic!("{pin} is closed, and was found");
        };
        assert!(panic.is::<InternalError>());
        bed.stream.close_filter(at, filter).unwrap();
        bed.assert_empty();
    });
}
