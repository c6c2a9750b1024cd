//! What the class driver asks of a minidriver, in plain words.
//!
//! A test driver answers in safe Rust; a door answers for a driver with tables. Which entries
//! there are is said by the descriptors; what is not there is not called.

use crate::descriptor::{DeviceDescriptor, Format};
use crate::framing::Framing;
use crate::services::Services;
use crate::types::{
    DeviceId, DriverAllocator, DriverDevice, DriverError, DriverFilter, DriverFrame, DriverPin,
    DriverResult, FilterId, HandleSlot, ObjectId, PinId, PinState, PointerId,
};
use flight::{Dispatch, Passive};
use std::sync::Arc;

/// A filter, as its driver sees it when it is called (`KSFILTER`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterView {
    /// It, for services.
    pub filter: FilterId,
    /// Its device.
    pub device: DeviceId,
    /// Which of the device's filters it is.
    pub factory: u32,
    /// The driver's word for it, or the device's where it gave none (`Context`).
    pub driver_handle: usize,
}

/// A pin, as its driver sees it when it is called (`KSPIN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinView {
    /// It, for services.
    pub pin: PinId,
    /// Its filter.
    pub filter: FilterId,
    /// Which of the filter's pins it is (`Id`).
    pub factory: u32,
    /// The driver's word for it, or the filter's where it gave none (`Context`).
    pub driver_handle: usize,
    /// Its format (`ConnectionFormat`).
    pub format: Arc<Format>,
    /// What its client wants (`ClientState`): changed before the driver is told.
    pub client_state: PinState,
    /// Where the driver is (`DeviceState`).
    pub device_state: PinState,
}

/// A pin in a call that processes a whole filter (`KSPROCESSPIN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPin {
    /// The pin.
    pub pin: PinId,
    /// Where in its queue: its pointer is locked, and not the driver's to move.
    pub pointer: PointerId,
    /// How many bytes there are (`BytesAvailable`).
    pub available: u32,
    /// How many of them the driver used: it says so here (`BytesUsed`).
    pub used: u32,
    /// The frame is over, although bytes are left (`Terminate`).
    pub terminate: bool,
}

/// A minidriver: one object for a device.
///
/// What a method does not say, it stands on another driver for: a test's driver is a small
/// variant of a good one.
pub trait Minidriver: Send + Sync {
    /// The driver that answers what this one does not.
    fn delegate(&self) -> Option<&dyn Minidriver> {
        None
    }

    /// What it has (`KSDEVICE_DESCRIPTOR`).
    fn describe(&self) -> DeviceDescriptor {
        self.delegate().map(Minidriver::describe).unwrap_or_default()
    }

    /// Its device is about to come: these are its services. No entry of a driver's: a door has
    /// them even if the driver has no `AVStrMiniDeviceAdd`.
    fn attach(&self, services: &Arc<Services>) {
        if let Some(it) = self.delegate() {
            it.attach(services);
        }
    }

    /// A frame, a pin, a filter or its device is not there any more, however it ended. No entry of
    /// a driver's: a door forgets what it kept for it.
    fn object_removed(&self, what: ObjectId) {
        if let Some(it) = self.delegate() {
            it.object_removed(what);
        }
    }

    /// Meets its device (`AVStrMiniDeviceAdd`). The services are good until `remove_device`.
    fn add_device(
        &self,
        at: &mut Passive,
        services: &Arc<Services>,
        word: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.add_device(at, services, word)
    }

    /// Starts it (`AVStrMiniDeviceStart`).
    fn start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.start_device(at)
    }

    /// Everything is started (`AVStrMiniDevicePostStart`).
    fn post_start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.post_start_device(at)
    }

    /// Whether it may be stopped (`AVStrMiniDeviceQueryStop`).
    fn query_stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.query_stop_device(at)
    }

    /// Stops it (`AVStrMiniDeviceStop`).
    fn stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.stop_device(at)
    }

    /// Whether it may be removed (`AVStrMiniDeviceQueryRemove`).
    fn query_remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.query_remove_device(at)
    }

    /// Hears that its hardware is gone (`AVStrMiniDeviceSurpriseRemoval`).
    fn surprise_removal(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.surprise_removal(at)
    }

    /// Forgets it (`AVStrMiniDeviceRemove`).
    fn remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.remove_device(at)
    }

    /// Its power comes or goes (`AVStrMiniDeviceSetPower`).
    fn set_power(&self, at: &mut Passive, on: bool) {
        if let Some(it) = self.delegate() {
            it.set_power(at, on);
        }
    }

    /// A client opens a filter (`AVStrMiniFilterCreate`).
    fn create_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
        word: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.create_filter(at, filter, word)
    }

    /// It is closed (`AVStrMiniFilterClose`). The word comes back, if the driver gave one.
    fn close_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
        word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.close_filter(at, filter, word)
    }

    /// Processes all pins of a filter (`AVStrMiniFilterProcess`), at the level its descriptor
    /// asks for. [`DriverError::Pending`] means: not before the driver attempts it again.
    fn process_filter(&self, filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.process_filter(filter, pins)
    }

    /// What is in flight in a filter is to be forgotten (`AVStrMiniFilterReset`).
    fn reset_filter(&self, at: &mut Passive, filter: &FilterView) {
        if let Some(it) = self.delegate() {
            it.reset_filter(at, filter);
        }
    }

    /// A pin is made (`AVStrMiniPinCreate`).
    fn create_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        word: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.create_pin(at, pin, word)
    }

    /// It is closed (`AVStrMiniPinClose`). The word comes back, if the driver gave one.
    fn close_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.close_pin(at, pin, word)
    }

    /// There is something in a pin's queue (`AVStrMiniPinProcess`), at the level its descriptor
    /// asks for. [`DriverError::Pending`] means: not before the driver attempts it again.
    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.process_pin(pin)
    }

    /// What is in flight is to be forgotten (`AVStrMiniPinReset`).
    fn reset_pin(&self, at: &mut Passive, pin: &PinView) {
        if let Some(it) = self.delegate() {
            it.reset_pin(at, pin);
        }
    }

    /// Whether a pin can have the format of `pin`, which is in `range`
    /// (`AVStrMiniPinSetDataFormat`). The first time there is no old one, and no pin yet: then
    /// the word is the filter's. [`DriverError::NoMatch`] is: try the next range.
    fn set_format(
        &self,
        at: &mut Passive,
        pin: &PinView,
        old: Option<&Format>,
        range: &Format,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.set_format(at, pin, old, range)
    }

    /// A pin changes its state (`AVStrMiniPinSetDeviceState`).
    fn set_state(
        &self,
        at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.set_state(at, pin, to, from)
    }

    /// A pin is connected (`AVStrMiniPinConnect`).
    fn connect_pin(&self, at: &mut Passive, pin: &PinView) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.connect_pin(at, pin)
    }

    /// It is not any more (`AVStrMiniPinDisconnect`).
    fn disconnect_pin(&self, at: &mut Passive, pin: &PinView) {
        if let Some(it) = self.delegate() {
            it.disconnect_pin(at, pin);
        }
    }

    /// Makes an allocator for a pin (`AVStrMiniInitializeAllocator`). After a refusal nothing of
    /// it is left, and it is not deleted.
    fn initialize_allocator(
        &self,
        at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        word: HandleSlot<'_, crate::types::AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        self.delegate()
            .ok_or(DriverError::NoEntryPoint)?
            .initialize_allocator(at, pin, framing, word)
    }

    /// Allocates a frame, or none at once (`AVStrMiniAllocate`), at passive or dispatch level.
    fn allocate(
        &self,
        allocator: &DriverAllocator,
        word: HandleSlot<'_, crate::types::FrameId>,
    ) -> Option<DriverFrame> {
        self.delegate()?.allocate(allocator, word)
    }

    /// Frees a frame (`AVStrMiniAllocatorFreeFrame`), at passive or dispatch level.
    fn free_frame(&self, allocator: &DriverAllocator, frame: DriverFrame) {
        if let Some(it) = self.delegate() {
            it.free_frame(allocator, frame);
        }
    }

    /// Ends an allocator, with everything that it has (`AVStrMiniDeleteAllocator`).
    fn delete_allocator(&self, at: &mut Passive, allocator: DriverAllocator) {
        if let Some(it) = self.delegate() {
            it.delete_allocator(at, allocator);
        }
    }

    /// The frame of a clone is cancelled (`AVStrMiniCancelCallback`): the clone is deleted here.
    fn pointer_cancelled(&self, at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        if let Some(it) = self.delegate() {
            it.pointer_cancelled(at, pin, pointer);
        }
    }

    /// The time of a pointer is over (`AVStrMiniTimeoutCallback`).
    fn pointer_timed_out(&self, at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        if let Some(it) = self.delegate() {
            it.pointer_timed_out(at, pin, pointer);
        }
    }

    /// A frame that the driver has injected comes back (`AVStrMiniFrameReturn`): where it is, and
    /// the word that came with it.
    fn frame_returned(&self, at: &mut Passive, pin: PinId, frame: usize, context: usize) {
        if let Some(it) = self.delegate() {
            it.frame_returned(at, pin, frame, context);
        }
    }

    /// Frees an item of a bag, which has a free routine of the driver's (`PFNKSFREE`).
    fn free_item(&self, at: &mut Passive, item: usize) {
        if let Some(it) = self.delegate() {
            it.free_item(at, item);
        }
    }
}
