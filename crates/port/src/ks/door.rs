//! The door of one device: the structures that its driver sees, and the data that the driver set.

use crate::ks::clock::ReferenceClock;
use crate::ks::descriptor::{DeviceTable, FilterTable, PinTable};
use crate::ks::driver_memory::DriverMemory;
use crate::ks::frame::{ShownFrame, ShownPointer};
use crate::ks::freed_frames::FreedFrames;
use crate::ks::mapping::DmaAdapter;
use crate::ks::object::{self, Object};
use crate::ks::pin::ShownPin;
use abi::ks::{KSDEVICE, KSFILTER, KSFILTERFACTORY, KSOBJECT_BAG, PFNKSFREE, PowerSystemWorking};
use abi::miniport::{DEVICE_POWER_STATE, PowerDeviceD0};
use abi::{BOOLEAN, PVOID};
use flight::{Attachment, Component, ExecutionContext, RuleId, Subject};
use nt::Pool;
use std::collections::{BTreeMap, VecDeque};
use std::mem::offset_of;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use stream::{BagOwner, FilterId, FrameId, ObjectId, PinId, PointerId, Services};

/// How many destroyed objects are kept, so that their addresses are not reused.
const MAX_QUARANTINED: usize = 1024;
/// How many of the most recently destroyed objects are checked after a call.
const INSPECTED_BLOCKS: usize = 32;

/// The data that functions need about their device.
pub(crate) struct Door {
    weak: Weak<Door>,
    services: Arc<Services>,
    pool: Arc<Pool>,
    inner: Mutex<DoorState>,
}

/// The structures that the driver sees.
pub(crate) struct DoorState {
    /// Its `KSDEVICE`.
    pub(crate) device: DriverMemory,
    /// Its device object. Its layout is not published: all bytes are zero.
    device_object: DriverMemory,
    pub(crate) factories: Vec<Factory>,
    pub(crate) filters: BTreeMap<FilterId, Filter>,
    pub(crate) pins: BTreeMap<PinId, ShownPin>,
    pub(crate) pointers: BTreeMap<PointerId, ShownPointer>,
    pub(crate) frames: BTreeMap<FrameId, ShownFrame>,
    /// The routines that free the items of bags.
    pub(crate) routines: BTreeMap<usize, PFNKSFREE>,
    /// The requests that the driver has.
    pub(crate) requests: BTreeMap<ObjectId, DriverMemory>,
    pub(crate) clocks: BTreeMap<usize, ReferenceClock>,
    /// The DMA adapter that the driver registered.
    pub(crate) adapter: DmaAdapter,
    /// Frames that the driver has injected: address, size, and driver context.
    pub(crate) injected: Vec<(usize, u32, usize)>,
    /// Frames that the driver was told to free and still keeps.
    pub(crate) freed_frames: FreedFrames,
    bags: BTreeMap<BagOwner, usize>,
    /// The memory of destroyed objects, oldest first.
    quarantine: VecDeque<QuarantinedMemory>,
}

/// A filter factory.
pub(crate) struct Factory {
    pub(crate) memory: DriverMemory,
    pub(crate) table: Arc<FilterTable>,
}

/// A filter.
pub(crate) struct Filter {
    pub(crate) memory: DriverMemory,
    pub(crate) factory: u32,
    /// Its pin factories: those of its filter factory, and those created later.
    pub(crate) pins: Vec<Arc<PinTable>>,
}

struct QuarantinedMemory {
    memory: DriverMemory,
    subject: Subject,
    rule: RuleId,
}

impl Door {
    /// Opens a door for functions to these services. It closes when dropped.
    pub(crate) fn open(
        services: Arc<Services>,
        pool: Arc<Pool>,
        tables: &DeviceTable,
    ) -> Arc<Self> {
        let filters = tables.filters.clone();
        let door = Arc::new_cyclic(|weak: &Weak<Door>| {
            let (device, device_object) =
                (DriverMemory::new(size_of::<KSDEVICE>()), DriverMemory::new(512));
            let inner = DoorState {
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
                adapter: DmaAdapter::default(),
                injected: Vec::new(),
                freed_frames: FreedFrames::default(),
                bags: BTreeMap::new(),
                quarantine: VecDeque::new(),
            };
            Self { weak: weak.clone(), services, pool, inner: Mutex::new(inner) }
        });
        let mut inner = door.inner();
        // Not while the door is made: until then it counts as closed, and another one that closes
        // removes the objects of closed doors.
        object::insert(inner.device.address(), &door.weak, Object::Device);
        object::insert(inner.device_object.address(), &door.weak, Object::Functional);
        let object = inner.device_object.pointer();
        let it = KSDEVICE {
            Descriptor: ptr::with_exposed_provenance(tables.address),
            Bag: door.bag(&mut inner, BagOwner::Device(door.services.device())),
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

    pub(crate) fn weak(&self) -> &Weak<Door> {
        &self.weak
    }

    /// The structures that the driver sees. Not to be locked while the driver or a service runs.
    pub(crate) fn inner(&self) -> MutexGuard<'_, DoorState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The door whose driver runs on this thread.
    pub(crate) fn running() -> Option<Arc<Self>> {
        ExecutionContext::attached()
    }

    /// Runs code of the driver: an invalid pointer is attributed to this door's driver.
    pub(crate) fn run<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        body()
    }

    /// The handle of a bag.
    pub(crate) fn bag(&self, inner: &mut DoorState, bag: BagOwner) -> KSOBJECT_BAG {
        let make = || object::allocate_number(&self.weak, Object::Bag(bag));
        let name = *inner.bags.entry(bag).or_insert_with(make);
        ptr::without_provenance_mut(name)
    }

    /// Removes a bag.
    pub(crate) fn remove_bag(inner: &mut DoorState, bag: BagOwner) {
        if let Some(name) = inner.bags.remove(&bag) {
            object::remove(name);
        }
    }

    /// The device, as the driver sees it.
    pub(crate) fn device(&self) -> *mut KSDEVICE {
        self.inner().device.pointer()
    }

    /// Sets whether the device is started.
    pub(crate) fn set_started(&self, started: bool) {
        let place = offset_of!(KSDEVICE, Started);
        self.inner().device.write(place, BOOLEAN::from(started));
    }

    /// Sets the power state of the device.
    pub(crate) fn set_power(&self, state: DEVICE_POWER_STATE) {
        let inner = self.inner();
        if let Some(it) = inner.device.read::<KSDEVICE>(0) {
            inner.device.write(0, KSDEVICE { DevicePowerState: state, ..it });
        }
    }

    /// The driver's context of the device.
    pub(crate) fn device_context(&self) -> usize {
        self.inner().device.read(offset_of!(KSDEVICE, Context)).unwrap_or(0)
    }

    /// Adds a factory that the class driver knows already. Returns its number.
    pub(crate) fn add_factory(&self, inner: &mut DoorState, table: Arc<FilterTable>) -> u32 {
        let number = u32::try_from(inner.factories.len()).unwrap_or(u32::MAX);
        let place = DriverMemory::from_value(KSFILTERFACTORY {
            FilterDescriptor: ptr::with_exposed_provenance(table.address),
            // WINDOWS: our reading. A factory lives as long as its device, and so does its bag.
            Bag: self.bag(inner, BagOwner::Device(self.services.device())),
            // WINDOWS: a child begins with the context of its parent (documented).
            Context: context_pointer(&inner.device, offset_of!(KSDEVICE, Context)),
        });
        object::insert(place.address(), &self.weak, Object::Factory(number));
        inner.factories.push(Factory { memory: place, table });
        number
    }

    /// A filter, as the driver sees it.
    pub(crate) fn filter(&self, filter: FilterId) -> Option<*mut KSFILTER> {
        if let Some(it) = self.inner().filters.get(&filter) {
            return Some(it.memory.pointer());
        }
        let factory = self.services.filter_view(filter)?.factory;
        let mut inner = self.inner();
        let of = inner.factories.get(factory as usize)?;
        let (at, pins) = (of.table.address, of.table.pins.clone());
        let place = DriverMemory::from_value(KSFILTER {
            Descriptor: ptr::with_exposed_provenance(at),
            Bag: self.bag(&mut inner, BagOwner::Filter(filter)),
            Context: context_pointer(&inner.device, offset_of!(KSDEVICE, Context)),
        });
        object::insert(place.address(), &self.weak, Object::Filter(filter));
        let pointer = place.pointer();
        inner.filters.insert(filter, Filter { memory: place, factory, pins });
        Some(pointer)
    }

    /// Quarantines the memory of a destroyed object.
    pub(crate) fn quarantine(
        inner: &mut DoorState,
        mut place: DriverMemory,
        what: Subject,
        rule: RuleId,
    ) {
        place.end();
        inner.quarantine.push_back(QuarantinedMemory { memory: place, subject: what, rule });
        while inner.quarantine.len() > MAX_QUARANTINED {
            if let Some(it) = inner.quarantine.pop_front() {
                object::remove(it.memory.address());
            }
        }
    }

    /// Entry rules: a driver does not write to destroyed objects.
    pub(crate) fn inspect(&self, place: &'static str) {
        let touched: Vec<(Subject, RuleId)> = {
            let inner = self.inner();
            let last = inner.quarantine.iter().rev().take(INSPECTED_BLOCKS);
            last.filter(|quarantined_memory| !quarantined_memory.memory.is_untouched())
                .map(|quarantined_memory| (quarantined_memory.subject, quarantined_memory.rule))
                .collect()
        };
        for (what, rule) in touched {
            let broken =
                format!("the driver wrote to the structure of {what} after its destruction");
            self.services.log().judge(rule, Component::Driver, what, place, Some(broken));
        }
    }

    /// Records that a frame, a pin, a filter or the device was removed.
    pub(crate) fn object_removed(&self, what: ObjectId) {
        if let ObjectId::Pin(pin) = what {
            self.judge_clocks(pin);
        }
        let mut inner = self.inner();
        let inner = &mut *inner;
        if let ObjectId::Frame(frame) = what {
            return inner.remove_frame(frame);
        }
        if let Some(it) = inner.requests.remove(&what) {
            object::remove(it.address());
        }
        match what {
            ObjectId::Pin(pin) => {
                inner.remove_frames(pin);
                Self::remove_bag(inner, BagOwner::Pin(pin));
                if let Some(it) = inner.pins.remove(&pin) {
                    Self::quarantine(inner, it.memory, pin.subject(), RuleId::KS_PIN_004);
                }
            }
            ObjectId::Filter(filter) => {
                Self::remove_bag(inner, BagOwner::Filter(filter));
                if let Some(it) = inner.filters.remove(&filter) {
                    Self::quarantine(inner, it.memory, filter.subject(), RuleId::KS_DEV_004);
                }
            }
            _ => inner.quarantine.clear(),
        }
    }
}

impl Door {
    /// Entry rule: a driver has no reference to the clock of a closed pin.
    fn judge_clocks(&self, pin: PinId) {
        let left = self
            .inner()
            .clocks
            .values()
            .filter(|reference_clock| reference_clock.pin == pin)
            .count();
        let broken = (left > 0).then(|| {
            format!(
                "{} is closed, and {left} of its reference clocks are not released",
                pin.subject()
            )
        });
        let place = "KsPinGetReferenceClockInterface";
        let log = self.services.log();
        log.judge(RuleId::KS_PIN_004, Component::Driver, pin.subject(), place, broken);
    }
}

/// Reads a member of a structure, as a pointer of the driver.
pub(crate) fn context_pointer(place: &DriverMemory, offset: usize) -> PVOID {
    ptr::with_exposed_provenance_mut(place.read(offset).unwrap_or(0))
}

impl Drop for Door {
    fn drop(&mut self) {
        object::remove_dead();
    }
}

impl Attachment for Door {
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(self)
    }
}
