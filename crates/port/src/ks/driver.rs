//! A minidriver that filled in a `KSDEVICE_DESCRIPTOR`, as the class driver's trait.
#![expect(unsafe_code, reason = "a table of functions is a promise, not a claim")]

use crate::ks::describe::{Allocator, PinTable, Tables, bytes};
use crate::ks::device_calls;
use crate::ks::door::Door;
use crate::ks::memory::PoolMemory;
use crate::ks::pin::Under;
use crate::ks::place::Place;
use crate::ks::status::answer;
use abi::ks::{
    KSALLOCATOR_FRAMING, KSALLOCATOR_OPTIONF_SYSTEM_MEMORY, KSDEVICE_DESCRIPTOR, KSPIN,
    NonPagedPool, PFNKSDEVICEIRP, PFNKSDEVICEIRPVOID, PFNKSPIN, PagedPool,
};
use abi::miniport::{DEVICE_POWER_STATE, PowerDeviceD0, PowerDeviceD3};
use abi::status::{STATUS_PENDING, STATUS_SUCCESS};
use abi::{NTSTATUS, PDRIVER_OBJECT, PVOID, UNICODE_STRING};
use flight::{Dispatch, InCall, Kind, Passive, Pool as _, RuleId, Subject, Who};
use nt::processor::{self, Left};
use nt::{Pool, Watch};
use std::collections::BTreeMap;
use std::fmt;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::{
    Answer, BadDescriptor, Blank, DeviceDescriptor, DeviceId, DriverAllocator, DriverDevice,
    DriverFilter, DriverFrame, DriverPin, Entry, FilterId, FilterView, Format, FrameId, Framing,
    MemoryKind, Minidriver, PinId, PinView, Plugged, PointerId, ProcessPin, Refusal, Services,
    State,
};

/// A minidriver that filled in a `KSDEVICE_DESCRIPTOR`.
///
/// # Invariants
///
/// 1. Whoever filled in the descriptor vouches for it: its pointers lead to what their types say,
///    its functions take what their pages say, and both stay while this value lives.
pub struct KsDriver {
    tables: Tables,
    pool: Arc<Pool>,
    door: Mutex<Option<Arc<Door>>>,
    /// The functions of the allocators that are there, and how many bytes their frames have, by
    /// their contexts.
    allocators: Mutex<BTreeMap<usize, (Allocator, u32)>>,
}

/// `DriverEntry`.
pub(crate) type DriverEntry =
    unsafe extern "win64-unwind" fn(PDRIVER_OBJECT, *mut UNICODE_STRING) -> NTSTATUS;

/// What the driver takes and frees is said to the class driver as well, which knows for whom.
struct Books(Arc<Services>);

impl Watch for Books {
    fn taken(&self, block: usize) {
        self.0.adopt_memory(block);
    }

    fn frees(&self, block: usize) -> bool {
        // What is no block of its own the pool names, and what is in a bag the bag frees.
        self.0.disown_memory(block) != Err(Refusal::Busy)
    }
}

impl KsDriver {
    /// A driver for one device: `pool` is the memory it takes and frees.
    ///
    /// # Safety
    ///
    /// Invariant 1 holds of the descriptor.
    pub unsafe fn new(
        descriptor: *const KSDEVICE_DESCRIPTOR,
        pool: Arc<Pool>,
    ) -> Result<Arc<Self>, BadDescriptor> {
        // SAFETY: The caller promises the same.
        let tables = unsafe { Tables::read(descriptor) }?;
        let (door, allocators) = Default::default();
        Ok(Arc::new(Self { tables, pool, door, allocators }))
    }

    /// The same, of a driver that is loaded: its `DriverEntry` calls `KsInitializeDriver`.
    ///
    /// # Safety
    ///
    /// `entry` takes what its page says, and invariant 1 holds of the descriptor it gives.
    pub unsafe fn load(entry: DriverEntry, pool: Arc<Pool>) -> Result<Arc<Self>, BadDescriptor> {
        let object = Place::new(512);
        let path = UNICODE_STRING::ZERO;
        let run = || {
            pool.inside(|| {
                // SAFETY: The caller promises the same.
                unsafe { entry(object.pointer(), ptr::from_ref(&path).cast_mut()) }
            })
        };
        let (status, given) = device_calls::loading(object.address(), run);
        if let Err(why) = answer(status) {
            return Err(BadDescriptor(format!("DriverEntry failed: {}", why.name())));
        }
        let Some(descriptor) = given else {
            let why = "DriverEntry did not call KsInitializeDriver with a descriptor";
            return Err(BadDescriptor(why.to_owned()));
        };
        // SAFETY: The caller promises the same.
        unsafe { Self::new(ptr::with_exposed_provenance(descriptor), pool) }
    }

    /// The driver with frames in its pool, ready for a class driver.
    pub fn plug(self: &Arc<Self>) -> Plugged {
        Plugged { minidriver: self.clone(), memory: PoolMemory::new(self.pool.clone()) }
    }

    /// Its pool. Whoever flies it closes that at the end.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// How many interfaces the driver has and has not released.
    pub fn interfaces(&self) -> usize {
        self.at().map_or(0, |door| door.inner().clocks.len())
    }

    fn at(&self) -> Answer<Arc<Door>> {
        let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).clone();
        door.ok_or(Refusal::Invalid)
    }

    fn allocators(&self) -> MutexGuard<'_, BTreeMap<usize, (Allocator, u32)>> {
        self.allocators.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs code of the driver, and looks at what it did to what it was shown.
    fn inside<R>(
        &self,
        door: &Arc<Door>,
        entry: Entry,
        (about, under): (Option<PinId>, Under),
        body: impl FnOnce() -> R,
    ) -> R {
        let services = door.services();
        let body = || door.run(|| self.pool.inside(body));
        let (answer, left) = processor::inside(services.host(), services.log(), body);
        judge_left(services, &left, entry.name());
        self.pool.inspect();
        door.compare_pins(about, under, entry.name());
        door.inspect(entry.name());
        door.watch_freed(Entry::ALLOCATOR.contains(&entry));
        answer
    }

    fn device_call(
        &self,
        entry: Entry,
        call: impl FnOnce(&Door, PVOID) -> Option<NTSTATUS>,
    ) -> Answer<()> {
        let door = self.at()?;
        let about = door.services().device().subject();
        let irp = door.begin_request(about);
        let status = self.inside(&door, entry, (None, Under::Nothing), || call(&door, irp));
        door.end_request(about);
        answer(status.ok_or(Refusal::Absent)?)
    }

    fn device_irp(&self, entry: Entry, call: Option<PFNKSDEVICEIRP>) -> Answer<()> {
        self.device_call(entry, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says.
            Some(unsafe { call(door.device(), irp) })
        })
    }

    fn device_void(&self, entry: Entry, call: Option<PFNKSDEVICEIRPVOID>) -> Answer<()> {
        self.device_call(entry, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(door.device(), irp) };
            Some(STATUS_SUCCESS)
        })
    }

    /// Calls the driver for a pin, which is shown as it is.
    fn pin_call<R>(
        &self,
        entry: Entry,
        view: &PinView,
        under: Under,
        call: impl FnOnce(&Door, &PinTable, *mut KSPIN) -> Option<R>,
    ) -> Answer<R> {
        let door = self.at()?;
        let pin = door.fill_pin(view).ok_or(Refusal::Invalid)?;
        let table = door.inner().pins.get(&view.pin).map(|it| it.table.clone());
        let table = table.ok_or(Refusal::Invalid)?;
        let about = (Some(view.pin), under);
        self.inside(&door, entry, about, || call(&door, &table, pin)).ok_or(Refusal::Absent)
    }

    fn plain_pin_call(
        &self,
        entry: Entry,
        view: &PinView,
        call: impl FnOnce(&PinTable) -> Option<PFNKSPIN>,
    ) -> Answer<()> {
        let status = self.pin_call(entry, view, Under::Control, |_, table, pin| {
            let call = call(table)?;
            // SAFETY: By invariant 1 it takes what its page says.
            Some(unsafe { call(pin) })
        })?;
        answer(status)
    }

    fn allocator(&self, it: &DriverAllocator) -> Answer<(Arc<Door>, (Allocator, u32), PVOID)> {
        let table = self.allocators().get(&it.word()).copied().ok_or(Refusal::Invalid)?;
        Ok((self.at()?, table, ptr::with_exposed_provenance_mut(it.word())))
    }
}

/// Entry rule: a driver leaves a call at the level it came in at, without a spin lock.
fn judge_left(services: &Services, left: &Left, place: &'static str) {
    let Left { entered, level, locks } = *left;
    let broken = (entered != level || locks > 0).then(|| {
        format!(
            "the driver was entered at {entered} and left at {level}, with {locks} spin locks: it \
             leaves as it came, with none"
        )
    });
    let call = Kind::Call.nr(InCall::current().map_or(0, |it| it.number));
    services.log().judge(RuleId::KMD_LEVEL_008, Who::Driver, call, place, broken);
}

/// What an allocator is told (D-19: the old form, made from the item that was chosen).
fn framing(it: &Framing) -> KSALLOCATOR_FRAMING {
    KSALLOCATOR_FRAMING {
        OptionsFlags: if it.kind.is_system() { KSALLOCATOR_OPTIONF_SYSTEM_MEMORY } else { 0 },
        PoolType: if it.kind == MemoryKind::Paged { PagedPool } else { NonPagedPool },
        Frames: it.frames,
        FrameSize: it.bytes,
        FileAlignment: it.alignment,
        Reserved: 0,
    }
}

/// All of its power, or none.
fn power(on: bool) -> DEVICE_POWER_STATE {
    if on { PowerDeviceD0 } else { PowerDeviceD3 }
}

const NOTHING: (Option<PinId>, Under) = (None, Under::Nothing);

impl Minidriver for KsDriver {
    fn describe(&self) -> DeviceDescriptor {
        self.tables.describe()
    }

    fn attach(&self, services: &Arc<Services>) {
        let door = Door::open(services.clone(), self.pool.clone(), &self.tables);
        self.pool.watch(Some(Arc::new(Books(services.clone()))));
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(door);
    }

    fn gone(&self, what: Subject) {
        if let Ok(door) = self.at() {
            door.gone(what);
        }
        if what.kind == Kind::KsDevice {
            self.pool.watch(None);
            let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(door);
        }
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        _services: &Arc<Services>,
        word: Blank<'_, DeviceId>,
    ) -> Answer<Option<DriverDevice>> {
        let call = self.tables.dispatch.Add;
        self.device_call(Entry::DeviceAdd, |door, _| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says.
            Some(unsafe { call(door.device()) })
        })?;
        let own = self.at()?.device_word();
        Ok((own != 0).then(|| word.fill(own)))
    }

    fn start_device(&self, _at: &mut Passive) -> Answer<()> {
        let call = self.tables.dispatch.Start;
        self.device_call(Entry::DeviceStart, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says; there are no resources.
            Some(unsafe { call(door.device(), irp, ptr::null_mut(), ptr::null_mut()) })
        })?;
        self.at()?.set_started(true);
        Ok(())
    }

    fn post_start_device(&self, _at: &mut Passive) -> Answer<()> {
        let call = self.tables.dispatch.PostStart;
        self.device_call(Entry::DevicePostStart, |door, _| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says.
            Some(unsafe { call(door.device()) })
        })
    }

    fn query_stop_device(&self, _at: &mut Passive) -> Answer<()> {
        self.device_irp(Entry::DeviceQueryStop, self.tables.dispatch.QueryStop)
    }

    fn stop_device(&self, _at: &mut Passive) -> Answer<()> {
        self.at()?.set_started(false);
        self.device_void(Entry::DeviceStop, self.tables.dispatch.Stop)
    }

    fn query_remove_device(&self, _at: &mut Passive) -> Answer<()> {
        self.device_irp(Entry::DeviceQueryRemove, self.tables.dispatch.QueryRemove)
    }

    fn pulled_out(&self, _at: &mut Passive) -> Answer<()> {
        self.device_void(Entry::DeviceSurpriseRemoval, self.tables.dispatch.SurpriseRemoval)
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        self.at()?.set_started(false);
        self.device_void(Entry::DeviceRemove, self.tables.dispatch.Remove)
    }

    fn set_power(&self, _at: &mut Passive, on: bool) {
        let (call, to) = (self.tables.dispatch.SetPower, power(on));
        // It returns nothing.
        let _ = self.device_call(Entry::DeviceSetPower, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(door.device(), irp, to, power(!on)) };
            Some(STATUS_SUCCESS)
        });
        if let Ok(door) = self.at() {
            door.set_power(to);
        }
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        word: Blank<'_, FilterId>,
    ) -> Answer<Option<DriverFilter>> {
        let (before, after) = self.filter_irp(Entry::FilterCreate, filter, |it| it.create)?;
        Ok((before != after && after != 0).then(|| word.fill(after)))
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> Answer<()> {
        self.filter_irp(Entry::FilterClose, filter, |it| it.close).map(|_| ())
    }

    fn process_filter(&self, filter: FilterId, pins: &mut [ProcessPin]) -> Answer<()> {
        let door = self.at()?;
        let shown = door.filter(filter).ok_or(Refusal::Invalid)?;
        let call = {
            let inner = door.inner();
            let factory = inner.filters.get(&filter).map(|it| it.factory as usize);
            factory.and_then(|it| inner.factories.get(it)).and_then(|it| it.table.process)
        };
        let call = call.ok_or(Refusal::Absent)?;
        let sheet = door.process_pins(filter, pins);
        let status = self.inside(&door, Entry::FilterProcess, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown, sheet.index()) }
        });
        sheet.take_back(pins);
        for pin in pins.iter() {
            door.take_header(pin.pointer);
        }
        answer(status)
    }

    fn reset_filter(&self, _at: &mut Passive, filter: &FilterView) {
        let Ok(door) = self.at() else { return };
        let Some(shown) = door.filter(filter.filter) else { return };
        let factory = filter.factory as usize;
        let call = door.inner().factories.get(factory).and_then(|it| it.table.reset);
        let Some(call) = call else { return };
        self.inside(&door, Entry::FilterReset, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says. Its answer is not looked at.
            let _ = unsafe { call(shown) };
        });
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        word: Blank<'_, PinId>,
    ) -> Answer<Option<DriverPin>> {
        let before = self.pin_word(pin);
        self.pin_irp(Entry::PinCreate, pin, Under::Create, |it| it.create)?;
        let after = self.pin_word(pin);
        Ok((before != after && after != 0).then(|| word.fill(after)))
    }

    fn close_pin(&self, _at: &mut Passive, pin: &PinView, _word: Option<DriverPin>) -> Answer<()> {
        self.pin_irp(Entry::PinClose, pin, Under::Control, |it| it.close)
    }

    fn process_pin(&self, pin: &PinView) -> Answer<()> {
        let door = self.at()?;
        // Not filled: another thread may change its state, and tell the driver so.
        let shown = door.pin(pin.pin).ok_or(Refusal::Invalid)?;
        let call = door.inner().pins.get(&pin.pin).and_then(|it| it.table.process);
        let call = call.ok_or(Refusal::Absent)?;
        let about = (Some(pin.pin), Under::Nothing);
        let status = self.inside(&door, Entry::PinProcess, about, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown) }
        });
        answer(status)
    }

    fn reset_pin(&self, _at: &mut Passive, pin: &PinView) {
        // It returns nothing.
        let _ = self.pin_call(Entry::PinReset, pin, Under::Control, |_, table, shown| {
            let call = table.reset?;
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown) };
            Some(())
        });
    }

    fn set_format(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        old: Option<&Format>,
        range: &Format,
    ) -> Answer<()> {
        let old = old.map(|it| Place::bytes(&bytes(it)));
        let status =
            self.pin_call(Entry::PinSetDataFormat, pin, Under::Control, |_, table, it| {
                let call = table.set_format?;
                let old = old.as_ref().map_or(ptr::null_mut(), Place::pointer);
                let range = table.ranges.iter().find(|it| it.1 == *range).map_or(0, |it| it.0);
                let range = ptr::with_exposed_provenance(range);
                // SAFETY: By invariant 1 it takes what its page says; the range is its own, and there
                // are no attributes.
                Some(unsafe { call(it, old, ptr::null_mut(), range, ptr::null()) })
            })?;
        answer(status)
    }

    fn set_state(&self, _at: &mut Passive, pin: &PinView, to: State, from: State) -> Answer<()> {
        let status =
            self.pin_call(Entry::PinSetDeviceState, pin, Under::Control, |_, it, shown| {
                let call = it.set_state?;
                // SAFETY: By invariant 1 it takes what its page says.
                Some(unsafe { call(shown, to as i32, from as i32) })
            })?;
        let answer = answer(status);
        let reached = if matches!(answer, Ok(()) | Err(Refusal::Pending)) { to } else { from };
        self.at()?.reached(pin.pin, reached, reached);
        answer
    }

    fn connect_pin(&self, _at: &mut Passive, pin: &PinView) -> Answer<()> {
        self.plain_pin_call(Entry::PinConnect, pin, |it| it.connect)
    }

    fn disconnect_pin(&self, _at: &mut Passive, pin: &PinView) {
        // It returns nothing.
        let _ = self.pin_call(Entry::PinDisconnect, pin, Under::Control, |_, table, shown| {
            let call = table.disconnect?;
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown) };
            Some(())
        });
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        order: &Framing,
        word: Blank<'_, stream::AllocatorId>,
    ) -> Answer<DriverAllocator> {
        let (mut framing, mut context): (_, PVOID) = (framing(order), ptr::null_mut());
        let entry = Entry::InitializeAllocator;
        let (status, table) = self.pin_call(entry, pin, Under::Control, |_, table, shown| {
            let (call, table) = (table.allocator?.initialize?, table.allocator?);
            // SAFETY: By invariant 1 it takes what its page says; both places outlive the call.
            Some((unsafe { call(shown, &raw mut framing, &raw mut context) }, table))
        })?;
        answer(status)?;
        let own = context.expose_provenance();
        self.allocators().insert(own, (table, order.bytes));
        Ok(word.fill(own))
    }

    fn allocate(
        &self,
        allocator: &DriverAllocator,
        word: Blank<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let (door, (table, bytes), context) = self.allocator(allocator).ok()?;
        let call = table.allocate?;
        let frame = self.inside(&door, Entry::Allocate, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(context) }
        });
        door.reused(frame.addr(), bytes as usize);
        (!frame.is_null()).then(|| word.fill(frame.expose_provenance()))
    }

    fn free_frame(&self, allocator: &DriverAllocator, frame: DriverFrame) {
        let Ok((door, (table, bytes), context)) = self.allocator(allocator) else { return };
        let Some(call) = table.free else { return };
        let frame = frame.word();
        self.inside(&door, Entry::FreeFrame, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(context, ptr::with_exposed_provenance_mut(frame)) }
        });
        door.inner().freed.insert(frame, (bytes as usize, 0));
        door.watch_freed(true);
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        let Ok((door, (table, _), context)) = self.allocator(&allocator) else { return };
        self.allocators().remove(&allocator.word());
        let Some(call) = table.delete else { return };
        self.inside(&door, Entry::DeleteAllocator, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(context) }
        });
    }

    fn pointer_cancelled(&self, _at: &mut Dispatch, _pin: PinId, pointer: PointerId) {
        self.pointer_call(Entry::PointerCancelled, pointer, |it| it.cancel);
    }

    fn pointer_timed_out(&self, _at: &mut Dispatch, _pin: PinId, pointer: PointerId) {
        self.pointer_call(Entry::PointerTimedOut, pointer, |it| it.timeout.take());
    }

    fn frame_returned(&self, _at: &mut Passive, pin: PinId, frame: usize, context: usize) {
        let Ok(door) = self.at() else { return };
        let Some(shown) = door.pin(pin) else { return };
        let (call, size) = {
            let mut inner = door.inner();
            let call = inner.pins.get(&pin).and_then(|it| it.frame_return);
            let place = inner.injected.iter().position(|it| (it.0, it.2) == (frame, context));
            (call, place.map_or(0, |it| inner.injected.remove(it).1))
        };
        let Some(call) = call else { return };
        let data = ptr::with_exposed_provenance_mut(frame);
        let context = ptr::with_exposed_provenance_mut(context);
        self.inside(&door, Entry::FrameReturned, (Some(pin), Under::Nothing), || {
            // SAFETY: By invariant 1 it takes what its page says; there is no list.
            unsafe { call(shown, data, size, ptr::null_mut(), context, STATUS_SUCCESS) }
        });
    }

    fn free_item(&self, _at: &mut Passive, item: usize) {
        let Ok(door) = self.at() else { return };
        let Some(call) = door.inner().routines.remove(&item) else { return };
        self.inside(&door, Entry::ItemFree, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says: the item that came with it.
            unsafe { call(ptr::with_exposed_provenance_mut(item)) }
        });
    }
}

impl KsDriver {
    fn pin_word(&self, pin: &PinView) -> usize {
        let Ok(door) = self.at() else { return 0 };
        // It is shown first, with the word of its filter.
        if door.pin(pin.pin).is_none() && door.fill_pin(pin).is_none() {
            return 0;
        }
        let word = door.inner().pins.get(&pin.pin).map(super::pin::Pin::word);
        word.unwrap_or(0)
    }

    fn pin_irp(
        &self,
        entry: Entry,
        pin: &PinView,
        under: Under,
        call: impl FnOnce(&PinTable) -> Option<abi::ks::PFNKSPINIRP>,
    ) -> Answer<()> {
        let about = pin.pin.subject();
        let irp = self.at()?.begin_request(about);
        let status = self.pin_call(entry, pin, under, |_, table, shown| {
            let call = call(table)?;
            // SAFETY: By invariant 1 it takes what its page says.
            Some(unsafe { call(shown, irp) })
        });
        self.after_request(about, status)
    }

    /// The driver's word before and after.
    fn filter_irp(
        &self,
        entry: Entry,
        filter: &FilterView,
        call: impl FnOnce(&super::describe::FilterTable) -> Option<abi::ks::PFNKSFILTERIRP>,
    ) -> Answer<(usize, usize)> {
        let door = self.at()?;
        let shown = door.filter(filter.filter).ok_or(Refusal::Invalid)?;
        let word = |door: &Door| {
            let inner = door.inner();
            let it = inner.filters.get(&filter.filter);
            let at = std::mem::offset_of!(abi::ks::KSFILTER, Context);
            it.and_then(|it| it.place.read::<usize>(at)).unwrap_or(0)
        };
        let before = word(&door);
        let table = door.inner().factories.get(filter.factory as usize).map(|it| it.table.clone());
        let call = table.and_then(|it| call(&it)).ok_or(Refusal::Absent)?;
        let about = filter.filter.subject();
        let irp = door.begin_request(about);
        let status = self.inside(&door, entry, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown, irp) }
        });
        self.after_request(about, Ok(status))?;
        Ok((before, word(&door)))
    }

    /// A request was answered. One that is pending stays.
    fn after_request(&self, about: Subject, status: Answer<NTSTATUS>) -> Answer<()> {
        let door = self.at()?;
        if status == Ok(STATUS_PENDING) {
            // WINDOWS: `IoMarkIrpPending` is a macro that writes into the request, whose layout is
            // not published: that it was used cannot be seen, so it is taken for granted.
            let _ = door.services().mark_pending(about);
        } else {
            door.end_request(about);
        }
        answer(status?)
    }

    fn pointer_call(
        &self,
        entry: Entry,
        pointer: PointerId,
        call: impl FnOnce(&mut super::frame::Pointer) -> Option<abi::ks::PFNKSSTREAMPOINTER>,
    ) {
        let Ok(door) = self.at() else { return };
        door.show_again(pointer);
        let call = {
            let mut inner = door.inner();
            inner.pointers.get_mut(&pointer).and_then(|it| Some((call(it)?, it.place.pointer())))
        };
        let Some((call, shown)) = call else { return };
        self.inside(&door, entry, NOTHING, || {
            // SAFETY: By invariant 1 it takes what its page says.
            unsafe { call(shown) }
        });
    }
}

impl fmt::Debug for KsDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let filters = self.tables.filters.len();
        f.debug_struct("KsDriver").field("filters", &filters).finish_non_exhaustive()
    }
}
