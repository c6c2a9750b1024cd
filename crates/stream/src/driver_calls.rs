//! The table of a minidriver's entry points, and the only code that calls one.
//!
//! A driver in Rust and a driver with a C table are called by the same code, `flight::Funnel`. No
//! lock is held; the mutexes held are those of the caller's thread, and are logged with the call. A
//! crash is returned as an error like any other.

use crate::descriptor::{DeviceDescriptor, Format};
use crate::framing::Framing;
use crate::minidriver::{FilterView, Minidriver, PinView, ProcessPin};
use crate::services::Services;
use crate::stream::Stream;
use crate::stream_state::StreamState;
use crate::types::{
    AllocatorId, DeviceId, DriverAllocator, DriverDevice, DriverError, DriverFilter, DriverFrame,
    DriverPin, DriverResult, FilterId, FrameId, HandleSlot, ObjectId, PinId, PinState, PointerId,
};
use flight::{
    CallScope, Dispatch, EventKind, Funnel, Host, Irql, Kind, Level, Log, Passive, StateGuard,
    Subject, Support, current_thread, resume_internal_error,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What an entry may return besides success.
#[derive(Clone, Copy, Debug)]
pub enum LegalResults {
    /// Any failure, or `STATUS_PENDING`.
    Any,
    /// Any failure, but not `STATUS_PENDING`.
    NotPending,
    /// Nothing: the entry returns `void`.
    Void,
}

/// A row of the table as data, for printing.
#[derive(Clone, Copy, Debug)]
pub struct KsRow {
    /// Its name.
    pub name: &'static str,
    /// The level it is called at, unless the descriptor requests another.
    pub level: Irql,
    /// Which mutexes are held.
    pub locks: &'static str,
    /// What it may return.
    pub legal: LegalResults,
    /// How far the class driver implements the entry.
    pub support: Support,
}

macro_rules! table {
    ($($const:ident $name:ident $level:ident $locks:literal $legal:ident $(, lacks $lacks:literal)?;)*) => {
        /// An entry of a minidriver.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Entry {
            $(#[doc = concat!("`", stringify!($name), "`.")] $const,)*
        }

        /// Every entry, in the order of [`Entry`].
        pub const TABLE: &[KsRow] = &[$(KsRow {
            name: stringify!($name), level: Irql::$level, locks: $locks, legal: LegalResults::$legal,
            support: Support::from_missing(concat!($($lacks)?)),
        }),*];
    };
}

table! {
    DeviceAdd             AVStrMiniDeviceAdd             Passive "device" NotPending;
    DeviceStart           AVStrMiniDeviceStart           Passive "device" NotPending,
        lacks "no resources";
    DevicePostStart       AVStrMiniDevicePostStart       Passive "none" NotPending;
    DeviceQueryStop       AVStrMiniDeviceQueryStop       Passive "device" NotPending;
    DeviceStop            AVStrMiniDeviceStop            Passive "device" Void;
    DeviceQueryRemove     AVStrMiniDeviceQueryRemove     Passive "device" NotPending;
    DeviceSurpriseRemoval AVStrMiniDeviceSurpriseRemoval Passive "device" Void;
    DeviceRemove          AVStrMiniDeviceRemove          Passive "device" Void;
    DeviceSetPower        AVStrMiniDeviceSetPower        Passive "device" Void,
        lacks "on and off only";
    FilterCreate          AVStrMiniFilterCreate          Passive "device+control" Any;
    FilterClose           AVStrMiniFilterClose           Passive "device+control" Any;
    FilterProcess         AVStrMiniFilterProcess         Passive "processing" Any;
    FilterReset           AVStrMiniFilterReset           Passive "control+processing" Void;
    PinCreate             AVStrMiniPinCreate             Passive "control" Any;
    PinClose              AVStrMiniPinClose              Passive "control" Any;
    PinProcess            AVStrMiniPinProcess            Passive "processing" Any;
    PinReset              AVStrMiniPinReset              Passive "control+processing" Void;
    PinSetDataFormat      AVStrMiniPinSetDataFormat      Passive "control" NotPending;
    PinSetDeviceState     AVStrMiniPinSetDeviceState     Passive "control" NotPending;
    PinConnect            AVStrMiniPinConnect            Passive "control" NotPending;
    PinDisconnect         AVStrMiniPinDisconnect         Passive "control" Void;
    InitializeAllocator   AVStrMiniInitializeAllocator   Passive "control" NotPending;
    Allocate              AVStrMiniAllocate              Passive "control" NotPending;
    FreeFrame             AVStrMiniAllocatorFreeFrame    Passive "control" Void;
    DeleteAllocator       AVStrMiniDeleteAllocator       Passive "control" Void;
    PointerCancelled      AVStrMiniCancelCallback        Dispatch "none" Void;
    PointerTimedOut       AVStrMiniTimeoutCallback       Dispatch "none" Void;
    FrameReturned         AVStrMiniFrameReturn           Passive "none" Void;
    ItemFree              AVStrMiniFree                  Passive "none" Void;
}

impl Entry {
    /// The four entries of an allocator.
    pub const ALLOCATOR: [Entry; 4] =
        [Entry::InitializeAllocator, Entry::Allocate, Entry::FreeFrame, Entry::DeleteAllocator];

    /// The names of all entries.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|row| row.name)
    }

    /// The row of the entry.
    pub fn row(self) -> &'static KsRow {
        &TABLE[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().name
    }
}

/// A minidriver, as the class driver calls it.
pub(crate) struct Driver {
    pub(crate) minidriver: Arc<dyn Minidriver>,
    pub(crate) services: Arc<Services>,
    pub(crate) stream: Arc<Stream>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) device: DeviceId,
}

/// A call that a thread is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ActiveCall {
    pub(crate) thread: u32,
    pub(crate) entry: Entry,
    pub(crate) about: ObjectId,
    /// The pin whose stream pointer it is about.
    pub(crate) pin: Option<PinId>,
}

impl Driver {
    /// The device descriptor. It is empty if the driver crashes.
    pub(crate) fn describe(&self) -> DeviceDescriptor {
        guarded(|| self.minidriver.describe()).unwrap_or_default()
    }

    /// Passes the services to the driver object. No event: no code of the driver runs.
    pub(crate) fn attach(&self) {
        // A door that fails here finds no services later, and reports that.
        let _ = guarded(|| self.minidriver.attach(&self.services));
    }

    /// Notifies the driver object that an object has ended. No event, as above.
    pub(crate) fn object_removed(&self, what: ObjectId) {
        let _ = guarded(|| self.minidriver.object_removed(what));
    }

    pub(crate) fn add(&self, at: &mut Passive) -> DriverResult<Option<DriverDevice>> {
        let services = &self.services;
        self.call(Entry::DeviceAdd, at, self.device, |it, at: &mut Passive| {
            it.add_device(at, services, HandleSlot::new())
        })
    }

    /// Calls a device entry that returns only a status.
    pub(crate) fn device(&self, at: &mut Passive, entry: Entry) -> DriverResult<()> {
        self.call(entry, at, self.device, |it, at: &mut Passive| match entry {
            Entry::DeviceStart => it.start_device(at),
            Entry::DevicePostStart => it.post_start_device(at),
            Entry::DeviceQueryStop => it.query_stop_device(at),
            Entry::DeviceStop => it.stop_device(at),
            Entry::DeviceQueryRemove => it.query_remove_device(at),
            Entry::DeviceSurpriseRemoval => it.surprise_removal(at),
            Entry::DeviceRemove => it.remove_device(at),
            _ => Err(DriverError::NoEntryPoint),
        })
    }

    pub(crate) fn set_power(&self, at: &mut Passive, on: bool) {
        // It returns nothing.
        let _ = self.call(Entry::DeviceSetPower, at, self.device, |it, at: &mut Passive| {
            it.set_power(at, on);
            Ok(())
        });
    }

    pub(crate) fn create_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
    ) -> DriverResult<Option<DriverFilter>> {
        self.call(Entry::FilterCreate, at, filter.filter, |it, at: &mut Passive| {
            it.create_filter(at, filter, HandleSlot::new())
        })
    }

    pub(crate) fn close_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
        word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.call(Entry::FilterClose, at, filter.filter, |it, at: &mut Passive| {
            it.close_filter(at, filter, word)
        })
    }

    pub(crate) fn process_filter(
        &self,
        at: &mut Passive,
        filter: FilterId,
        dispatch: bool,
        pins: &mut [ProcessPin],
    ) -> DriverResult<()> {
        let body = |entry: &dyn Minidriver| entry.process_filter(filter, pins);
        self.call_at(Entry::FilterProcess, at, filter, dispatch, body)
    }

    pub(crate) fn reset_filter(&self, at: &mut Passive, filter: &FilterView) {
        // It returns nothing.
        let about = filter.filter;
        let _ = self.call(Entry::FilterReset, at, about, |it, at: &mut Passive| {
            it.reset_filter(at, filter);
            Ok(())
        });
    }

    pub(crate) fn create_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
    ) -> DriverResult<Option<DriverPin>> {
        self.call(Entry::PinCreate, at, pin.pin, |it, at: &mut Passive| {
            it.create_pin(at, pin, HandleSlot::new())
        })
    }

    pub(crate) fn close_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.call(Entry::PinClose, at, pin.pin, |it, at: &mut Passive| it.close_pin(at, pin, word))
    }

    /// Called for every frame, so the state is locked when it returns, as at the end of any call.
    pub(crate) fn process_pin<'a>(
        &self,
        stream: &'a Stream,
        at: &mut Passive,
        state: StateGuard<'a, StreamState>,
        (pin, dispatch): (&PinView, bool),
    ) -> (StateGuard<'a, StreamState>, DriverResult<()>) {
        let call = (Entry::PinProcess, pin.pin.into());
        if dispatch {
            let body = |entry: &dyn Minidriver, _: &mut Dispatch| entry.process_pin(pin);
            self.call_locked((stream, state), at, call, body)
        } else {
            let body = |entry: &dyn Minidriver, _: &mut Passive| entry.process_pin(pin);
            self.call_locked((stream, state), at, call, body)
        }
    }

    pub(crate) fn reset_pin(&self, at: &mut Passive, pin: &PinView) {
        // It returns nothing.
        let _ = self.call(Entry::PinReset, at, pin.pin, |it, at: &mut Passive| {
            it.reset_pin(at, pin);
            Ok(())
        });
    }

    pub(crate) fn set_format(
        &self,
        at: &mut Passive,
        pin: &PinView,
        old: Option<&Format>,
        range: &Format,
    ) -> DriverResult<()> {
        self.call(Entry::PinSetDataFormat, at, pin.pin, |it, at: &mut Passive| {
            it.set_format(at, pin, old, range)
        })
    }

    pub(crate) fn set_state(
        &self,
        at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        self.call(Entry::PinSetDeviceState, at, pin.pin, |it, at: &mut Passive| {
            it.set_state(at, pin, to, from)
        })
    }

    pub(crate) fn connect_pin(&self, at: &mut Passive, pin: &PinView) -> DriverResult<()> {
        self.call(Entry::PinConnect, at, pin.pin, |it, at: &mut Passive| it.connect_pin(at, pin))
    }

    pub(crate) fn disconnect_pin(&self, at: &mut Passive, pin: &PinView) {
        // It returns nothing.
        let _ = self.call(Entry::PinDisconnect, at, pin.pin, |it, at: &mut Passive| {
            it.disconnect_pin(at, pin);
            Ok(())
        });
    }

    pub(crate) fn initialize_allocator(
        &self,
        at: &mut Passive,
        allocator: AllocatorId,
        pin: &PinView,
        framing: &Framing,
    ) -> DriverResult<DriverAllocator> {
        self.call(Entry::InitializeAllocator, at, allocator, |it, at: &mut Passive| {
            it.initialize_allocator(at, pin, framing, HandleSlot::new())
        })
    }

    pub(crate) fn allocate(
        &self,
        at: &mut Passive,
        (allocator, handle): (AllocatorId, &DriverAllocator),
        dispatch: bool,
    ) -> Option<DriverFrame> {
        let body = |entry: &dyn Minidriver| {
            self.log_arguments(Entry::Allocate, allocator, handle);
            entry.allocate(handle, HandleSlot::new()).ok_or(DriverError::NoMemory)
        };
        self.call_at(Entry::Allocate, at, allocator, dispatch, body).ok()
    }

    pub(crate) fn free_frame(
        &self,
        at: &mut Passive,
        (allocator, handle): (AllocatorId, &DriverAllocator),
        (number, frame): (FrameId, DriverFrame),
        dispatch: bool,
    ) {
        let data = self.number(frame.as_raw());
        // It returns nothing.
        let _ = self.call_at(Entry::FreeFrame, at, allocator, dispatch, |entry| {
            self.log_arguments(Entry::FreeFrame, allocator, handle);
            self.log.emit(number.subject(), || EventKind::FrameFreeing {
                allocator: allocator.subject(),
                pointer: data,
            });
            entry.free_frame(handle, frame);
            Ok(())
        });
    }

    pub(crate) fn delete_allocator(
        &self,
        at: &mut Passive,
        allocator: AllocatorId,
        handle: DriverAllocator,
    ) {
        // It returns nothing.
        let _ = self.call(Entry::DeleteAllocator, at, allocator, |it, at: &mut Passive| {
            self.log_arguments(Entry::DeleteAllocator, allocator, &handle);
            it.delete_allocator(at, handle);
            Ok(())
        });
    }

    pub(crate) fn pointer_cancelled(&self, at: &mut Passive, pin: PinId, pointer: PointerId) {
        let entry = Entry::PointerCancelled;
        // It returns nothing.
        let _ = self.call(entry, at, pointer, |it, at: &mut Dispatch| {
            it.pointer_cancelled(at, pin, pointer);
            Ok(())
        });
    }

    pub(crate) fn pointer_timed_out(&self, at: &mut Passive, pin: PinId, pointer: PointerId) {
        let entry = Entry::PointerTimedOut;
        // It returns nothing.
        let _ = self.call(entry, at, pointer, |it, at: &mut Dispatch| {
            it.pointer_timed_out(at, pin, pointer);
            Ok(())
        });
    }

    pub(crate) fn frame_returned(
        &self,
        at: &mut Passive,
        pin: PinId,
        frame: usize,
        context: usize,
    ) {
        // It returns nothing.
        let _ = self.call(Entry::FrameReturned, at, pin, |it, at: &mut Passive| {
            it.frame_returned(at, pin, frame, context);
            Ok(())
        });
    }

    pub(crate) fn free_item(&self, at: &mut Passive, of: ObjectId, item: usize) {
        // It returns nothing.
        let _ = self.call(Entry::ItemFree, at, of, |it, at: &mut Passive| {
            it.free_item(at, item);
            Ok(())
        });
    }

    /// Logs the allocator's driver handle that a call carries.
    fn log_arguments(&self, entry: Entry, allocator: AllocatorId, handle: &DriverAllocator) {
        let (entry, driver_handle) = (entry.name().into(), self.number(handle.as_raw()));
        self.log.emit(allocator.subject(), || EventKind::AllocatorUsed { entry, driver_handle });
    }

    /// A NULL driver handle has no number of its own.
    fn number(&self, word: usize) -> Subject {
        if word == 0 { Kind::DriverPointer.subject(0) } else { self.log.pointer_subject(word) }
    }

    /// Calls the driver at one of the two levels that are allowed.
    fn call_at<T>(
        &self,
        entry: Entry,
        at: &mut Passive,
        about: impl Into<ObjectId>,
        dispatch: bool,
        body: impl FnOnce(&dyn Minidriver) -> DriverResult<T>,
    ) -> DriverResult<T> {
        if dispatch {
            self.call(entry, at, about, |it, _: &mut Dispatch| body(it))
        } else {
            self.call(entry, at, about, |it, _: &mut Passive| body(it))
        }
    }

    /// Calls the driver at the level of the call.
    fn call<L: Level, T>(
        &self,
        entry: Entry,
        at: &mut Passive,
        about: impl Into<ObjectId>,
        body: impl FnOnce(&dyn Minidriver, &mut L) -> DriverResult<T>,
    ) -> DriverResult<T> {
        let stream = &*self.stream;
        let call = (entry, about.into());
        self.call_locked((stream, stream.state.lock()), at, call, body).1
    }

    /// The same with the class driver's state locked, before and after the call.
    fn call_locked<'a, L: Level, T>(
        &self,
        (stream, mut state): (&'a Stream, StateGuard<'a, StreamState>),
        at: &mut Passive,
        (entry, about): (Entry, ObjectId),
        body: impl FnOnce(&dyn Minidriver, &mut L) -> DriverResult<T>,
    ) -> (StateGuard<'a, StreamState>, DriverResult<T>) {
        let funnel = Funnel { host: &*self.host, log: &self.log, pool: None };
        let thread = current_thread();
        // Other threads look for calls about pointers only, and such a call begins when its pointer
        // still exists. Any other call can be listed before another thread runs.
        let pointer = if let ObjectId::Pointer(pointer) = about { Some(pointer) } else { None };
        if pointer.is_none() {
            state.active_calls.push(ActiveCall { thread, entry, about, pin: None });
        }
        drop(state);
        let before = |call: Subject| {
            if pointer.is_none() && !self.log.is_enabled() {
                return Ok(());
            }
            let mut stream_state = stream.state.lock();
            if let Some(pointer) = pointer {
                // If another thread deleted the pointer first, there is no callback to call.
                let it = stream_state.pointers.get(pointer).ok_or(DriverError::NotReady)?;
                let pin = Some(it.pin);
                stream_state.active_calls.push(ActiveCall { thread, entry, about, pin });
            }
            stream.log_event(call, || EventKind::KsCall {
                name: entry.name().into(),
                level: L::IRQL,
                locks: stream_state.describe_held_mutexes(thread).into(),
                device: self.device.subject(),
                about: about.subject(),
            });
            Ok(())
        };
        let after = |call: Subject, result: &DriverResult<T>| {
            let mut stream_state = stream.state.lock();
            stream.end_call(&mut stream_state, thread, call.number, entry);
            stream.log_event(call, || {
                let error = result.as_ref().err();
                let text = error.map_or("ok".into(), |why| why.name());
                let legal = error.is_none_or(|why| entry.row().legal.allows(*why));
                EventKind::KsReturn { name: entry.name().into(), result: text, legal }
            });
            stream_state
        };
        let body = |at: &mut L| body(&*self.minidriver, at);
        let scope = CallScope { name: entry.name(), ..CallScope::default() };
        match funnel.call(at, scope, before, body, after) {
            Ok((result, state)) => (state, result),
            Err(missing) => (stream.state.lock(), Err(missing)),
        }
    }
}

/// Runs code of a minidriver. Returns `None` if it panicked; an internal error of ours is not a
/// crash of the driver, and is passed on.
fn guarded<T>(code: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(code)) {
        Ok(value) => Some(value),
        Err(panic) => {
            drop(resume_internal_error(panic));
            None
        }
    }
}

impl LegalResults {
    /// Whether the entry may return this error. A crash and an absent entry are judged elsewhere.
    pub fn allows(self, why: DriverError) -> bool {
        match self {
            _ if matches!(why, DriverError::Crashed | DriverError::NoEntryPoint) => true,
            LegalResults::Any => true,
            LegalResults::NotPending => why != DriverError::Pending,
            LegalResults::Void => false,
        }
    }
}
