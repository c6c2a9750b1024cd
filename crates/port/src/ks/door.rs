//! The door of one device: what its driver was shown, and what it said with it.

use crate::ks::clock::Clock;
use crate::ks::describe::{FilterTable, PinTable, Tables};
use crate::ks::frame::{Frame, Pointer};
use crate::ks::freed::Freed;
use crate::ks::mapping::Adapter;
use crate::ks::object::{self, Object};
use crate::ks::pin::Pin;
use crate::ks::place::Place;
use abi::ks::{KSDEVICE, KSFILTER, KSFILTERFACTORY, KSOBJECT_BAG, PFNKSFREE, PowerSystemWorking};
use abi::miniport::{DEVICE_POWER_STATE, PowerDeviceD0};
use abi::{BOOLEAN, PVOID};
use flight::{RuleId, Subject, Who};
use nt::Pool;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{BagOf, FilterId, FrameId, ObjectId, PinId, PointerId, Services};

thread_local! {
    /// The door whose driver is running on this thread.
    static RUNNING: RefCell<Option<Arc<Door>>> = const { RefCell::new(None) };
}

/// How many things that have ended are kept, so that their addresses stay theirs.
const MOST_RESTING: usize = 1024;
/// How many of those that ended last are looked at after a call.
const INSPECTED: usize = 32;

/// What functions need of their device.
pub(crate) struct Door {
    me: Weak<Door>,
    services: Arc<Services>,
    pool: Arc<Pool>,
    inner: Mutex<Inner>,
}

/// What the driver was shown.
pub(crate) struct Inner {
    /// Its `KSDEVICE`.
    pub(crate) device: Place,
    /// Its device object. Nothing of its layout is ours: all is zero.
    device_object: Place,
    pub(crate) factories: Vec<Factory>,
    pub(crate) filters: BTreeMap<FilterId, Filter>,
    pub(crate) pins: BTreeMap<PinId, Pin>,
    pub(crate) pointers: BTreeMap<PointerId, Pointer>,
    pub(crate) frames: BTreeMap<FrameId, Frame>,
    /// How items of bags are freed.
    pub(crate) routines: BTreeMap<usize, PFNKSFREE>,
    /// The requests that the driver has.
    pub(crate) requests: BTreeMap<ObjectId, Place>,
    pub(crate) clocks: BTreeMap<usize, Clock>,
    /// What the driver said of its hardware.
    pub(crate) adapter: Adapter,
    /// Frames that the driver has injected: where, how many bytes, and its word.
    pub(crate) injected: Vec<(usize, u32, usize)>,
    /// Frames that the driver was told to free and still has.
    pub(crate) freed: Freed,
    bags: BTreeMap<BagOf, usize>,
    /// What has ended, the oldest first.
    resting: VecDeque<Resting>,
}

/// A filter factory.
pub(crate) struct Factory {
    pub(crate) place: Place,
    pub(crate) table: Arc<FilterTable>,
}

/// A filter.
pub(crate) struct Filter {
    pub(crate) place: Place,
    pub(crate) factory: u32,
    /// Its kinds of pins: its factory's, and those that were made later.
    pub(crate) pins: Vec<Arc<PinTable>>,
}

struct Resting {
    place: Place,
    what: Subject,
    rule: RuleId,
}

impl Door {
    /// A door for functions to these services, until it is dropped.
    pub(crate) fn open(services: Arc<Services>, pool: Arc<Pool>, tables: &Tables) -> Arc<Self> {
        let filters = tables.filters.clone();
        let door = Arc::new_cyclic(|me: &Weak<Door>| {
            let (device, device_object) = (Place::new(size_of::<KSDEVICE>()), Place::new(512));
            object::enter(device.address(), me, Object::Device);
            object::enter(device_object.address(), me, Object::Functional);
            let inner = Inner {
                device,
                device_object,
                factories: Vec::new(),
                filters: BTreeMap::new(),
                pins: BTreeMap::new(),
                pointers: BTreeMap::new(),
                frames: BTreeMap::new(),
                routines: BTreeMap::new(),
                requests: BTreeMap::new(),
                clocks: BTreeMap::new(),
                adapter: Adapter::default(),
                injected: Vec::new(),
                freed: Freed::default(),
                bags: BTreeMap::new(),
                resting: VecDeque::new(),
            };
            Self { me: me.clone(), services, pool, inner: Mutex::new(inner) }
        });
        let mut inner = door.inner();
        let object = inner.device_object.pointer();
        let it = KSDEVICE {
            Descriptor: ptr::with_exposed_provenance(tables.at),
            Bag: door.bag(&mut inner, BagOf::Device(door.services.device())),
            FunctionalDeviceObject: object,
            PhysicalDeviceObject: object,
            NextDeviceObject: object,
            SystemPowerState: PowerSystemWorking,
            DevicePowerState: PowerDeviceD0,
            ..KSDEVICE::ZERO
        };
        inner.device.write(0, it);
        for table in filters {
            door.add_factory(&mut inner, table);
        }
        drop(inner);
        door
    }

    pub(crate) fn services(&self) -> &Arc<Services> {
        &self.services
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    pub(crate) fn me(&self) -> &Weak<Door> {
        &self.me
    }

    /// What the driver was shown. Not to be held while it or a service runs.
    pub(crate) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The door whose driver is running on this thread.
    pub(crate) fn running() -> Option<Arc<Self>> {
        RUNNING.try_with(|it| it.borrow().clone()).ok().flatten()
    }

    /// Runs code of the driver: a wrong pointer is laid to this door's.
    pub(crate) fn run<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let back = Back(RUNNING.replace(Some(self.clone())));
        let answer = body();
        drop(back);
        answer
    }

    /// The name of a bag.
    pub(crate) fn bag(&self, inner: &mut Inner, bag: BagOf) -> KSOBJECT_BAG {
        let make = || object::name(&self.me, Object::Bag(bag));
        let name = *inner.bags.entry(bag).or_insert_with(make);
        ptr::without_provenance_mut(name)
    }

    /// There is no such bag any more.
    pub(crate) fn forget_bag(inner: &mut Inner, bag: BagOf) {
        if let Some(name) = inner.bags.remove(&bag) {
            object::leave(name);
        }
    }

    /// The device, as the driver sees it.
    pub(crate) fn device(&self) -> *mut KSDEVICE {
        self.inner().device.pointer()
    }

    /// The device is started, or not any more.
    pub(crate) fn set_started(&self, started: bool) {
        let place = offset_of!(KSDEVICE, Started);
        self.inner().device.write(place, BOOLEAN::from(started));
    }

    /// The device has power, or none.
    pub(crate) fn set_power(&self, state: DEVICE_POWER_STATE) {
        let inner = self.inner();
        if let Some(it) = inner.device.read::<KSDEVICE>(0) {
            inner.device.write(0, KSDEVICE { DevicePowerState: state, ..it });
        }
    }

    /// The driver's word for the device.
    pub(crate) fn device_word(&self) -> usize {
        self.inner().device.read(offset_of!(KSDEVICE, Context)).unwrap_or(0)
    }

    /// Adds a factory, of which the class driver knows already. Answers its number.
    pub(crate) fn add_factory(&self, inner: &mut Inner, table: Arc<FilterTable>) -> u32 {
        let number = u32::try_from(inner.factories.len()).unwrap_or(u32::MAX);
        let place = Place::of(KSFILTERFACTORY {
            FilterDescriptor: ptr::with_exposed_provenance(table.at),
            // WINDOWS: our reading. A factory lives as long as its device, and so does its bag.
            Bag: self.bag(inner, BagOf::Device(self.services.device())),
            // WINDOWS: a child begins with the context of its parent (documented).
            Context: word(&inner.device, offset_of!(KSDEVICE, Context)),
        });
        object::enter(place.address(), &self.me, Object::Factory(number));
        inner.factories.push(Factory { place, table });
        number
    }

    /// A filter, as the driver sees it.
    pub(crate) fn filter(&self, filter: FilterId) -> Option<*mut KSFILTER> {
        if let Some(it) = self.inner().filters.get(&filter) {
            return Some(it.place.pointer());
        }
        let factory = self.services.see_filter(filter)?.factory;
        let mut inner = self.inner();
        let of = inner.factories.get(factory as usize)?;
        let (at, pins) = (of.table.at, of.table.pins.clone());
        let place = Place::of(KSFILTER {
            Descriptor: ptr::with_exposed_provenance(at),
            Bag: self.bag(&mut inner, BagOf::Filter(filter)),
            Context: word(&inner.device, offset_of!(KSDEVICE, Context)),
        });
        object::enter(place.address(), &self.me, Object::Filter(filter));
        let pointer = place.pointer();
        inner.filters.insert(filter, Filter { place, factory, pins });
        Some(pointer)
    }

    /// Something has ended: its memory rests.
    pub(crate) fn rest(inner: &mut Inner, place: Place, what: Subject, rule: RuleId) {
        place.end();
        inner.resting.push_back(Resting { place, what, rule });
        while inner.resting.len() > MOST_RESTING {
            if let Some(it) = inner.resting.pop_front() {
                object::leave(it.place.address());
            }
        }
    }

    /// Entry rules: what has ended is left alone.
    pub(crate) fn inspect(&self, place: &'static str) {
        let touched: Vec<(Subject, RuleId)> = {
            let inner = self.inner();
            let last = inner.resting.iter().rev().take(INSPECTED);
            last.filter(|it| !it.place.rests()).map(|it| (it.what, it.rule)).collect()
        };
        for (what, rule) in touched {
            let broken = format!("a driver wrote to the structure of {what}, which has ended");
            self.services.log().judge(rule, Who::Driver, what, place, Some(broken));
        }
    }

    /// A frame, a pin, a filter or the device is not there any more.
    pub(crate) fn gone(&self, what: ObjectId) {
        if let ObjectId::Pin(pin) = what {
            self.judge_clocks(pin);
        }
        let mut inner = self.inner();
        let inner = &mut *inner;
        if let ObjectId::Frame(frame) = what {
            return inner.forget_frame(frame);
        }
        if let Some(it) = inner.requests.remove(&what) {
            object::leave(it.address());
        }
        match what {
            ObjectId::Pin(pin) => {
                inner.forget_frames(pin);
                Self::forget_bag(inner, BagOf::Pin(pin));
                if let Some(it) = inner.pins.remove(&pin) {
                    Self::rest(inner, it.place, pin.subject(), RuleId::KS_PIN_004);
                }
            }
            ObjectId::Filter(filter) => {
                Self::forget_bag(inner, BagOf::Filter(filter));
                if let Some(it) = inner.filters.remove(&filter) {
                    Self::rest(inner, it.place, filter.subject(), RuleId::KS_DEV_004);
                }
            }
            _ => inner.resting.clear(),
        }
    }
}

impl Door {
    /// Entry rule: a driver has no reference to a pin that is closed.
    fn judge_clocks(&self, pin: PinId) {
        let left = self.inner().clocks.values().filter(|it| it.pin == pin).count();
        let broken = (left > 0).then(|| {
            format!(
                "{} is closed, and {left} of its reference clocks are not released",
                pin.subject()
            )
        });
        let place = "KsPinGetReferenceClockInterface";
        let log = self.services.log();
        log.judge(RuleId::KS_PIN_004, Who::Driver, pin.subject(), place, broken);
    }
}

/// A word in a structure, as a pointer of the driver's.
pub(crate) fn word(place: &Place, offset: usize) -> PVOID {
    ptr::with_exposed_provenance_mut(place.read(offset).unwrap_or(0))
}

impl Drop for Door {
    fn drop(&mut self) {
        object::sweep();
    }
}

/// Puts back the door that was there before: also when a driver unwinds.
struct Back(Option<Arc<Door>>);

impl Drop for Back {
    fn drop(&mut self) {
        let before = self.0.take();
        // A thread that is ending has no door to put back.
        let inner = RUNNING.try_with(|it| it.replace(before));
        drop(inner);
    }
}
