//! The interface of a minidriver, in plain types.
//!
//! A test driver implements it in safe Rust; a door implements it for a driver with C tables. The
//! descriptors define which entries exist; an entry that does not exist is not called.

use crate::descriptor::{DeviceDescriptor, Format};
use crate::framing::Framing;
use crate::services::Services;
use crate::types::{
    DeviceId, DriverAllocator, DriverDevice, DriverError, DriverFilter, DriverFrame, DriverPin,
    DriverResult, FilterId, HandleSlot, ObjectId, PinId, PinState, PointerId,
};
use flight::{Dispatch, Passive};
use std::sync::Arc;

/// A filter, as its driver sees it in a call (`KSFILTER`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterView {
    /// Its id, for services.
    pub filter: FilterId,
    /// Its device.
    pub device: DeviceId,
    /// Its index among the device's filters.
    pub factory: u32,
    /// The driver handle, or the device's where the driver set none (`Context`).
    pub driver_handle: usize,
}

/// A pin, as its driver sees it in a call (`KSPIN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinView {
    /// Its id, for services.
    pub pin: PinId,
    /// Its filter.
    pub filter: FilterId,
    /// Its index among the filter's pins (`Id`).
    pub factory: u32,
    /// The driver handle, or the filter's where the driver set none (`Context`).
    pub driver_handle: usize,
    /// Its format (`ConnectionFormat`).
    pub format: Arc<Format>,
    /// The state that the client requested (`ClientState`): set before the driver is called.
    pub client_state: PinState,
    /// The state that the driver is in (`DeviceState`).
    pub device_state: PinState,
}

/// A pin in a call that processes a whole filter (`KSPROCESSPIN`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPin {
    /// The pin.
    pub pin: PinId,
    /// Its leading edge, which is locked; the driver must not advance it.
    pub pointer: PointerId,
    /// How many bytes are available (`BytesAvailable`).
    pub available: u32,
    /// Set by the driver: how many of them it used (`BytesUsed`).
    pub used: u32,
    /// Set by the driver: the frame is finished, although bytes are left (`Terminate`).
    pub terminate: bool,
}

/// A minidriver: one object for each device.
///
/// A method that is not overridden is forwarded to the delegate: a test's driver is a small variant
/// of a good one.
pub trait Minidriver: Send + Sync {
    /// The driver that implements what this one does not.
    fn delegate(&self) -> Option<&dyn Minidriver> {
        None
    }

    /// The device descriptor (`KSDEVICE_DESCRIPTOR`).
    fn describe(&self) -> DeviceDescriptor {
        self.delegate().map(Minidriver::describe).unwrap_or_default()
    }

    /// Passes the services before the device is added. Not an entry of a driver: a door has the
    /// services even if the driver has no `AVStrMiniDeviceAdd`.
    fn attach(&self, services: &Arc<Services>) {
        if let Some(it) = self.delegate() {
            it.attach(services);
        }
    }

    /// A frame, a pin, a filter or the device has ended, in whatever way. Not an entry of a driver:
    /// a door frees what it kept for the object.
    fn object_removed(&self, what: ObjectId) {
        if let Some(it) = self.delegate() {
            it.object_removed(what);
        }
    }

    /// Adds the device (`AVStrMiniDeviceAdd`). The services are valid until `remove_device`.
    fn add_device(
        &self,
        at: &mut Passive,
        services: &Arc<Services>,
        word: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.add_device(at, services, word)
    }

    /// Starts the device (`AVStrMiniDeviceStart`).
    fn start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.start_device(at)
    }

    /// The start of the device is complete (`AVStrMiniDevicePostStart`).
    fn post_start_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.post_start_device(at)
    }

    /// Whether the device may be stopped (`AVStrMiniDeviceQueryStop`).
    fn query_stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.query_stop_device(at)
    }

    /// Stops the device (`AVStrMiniDeviceStop`).
    fn stop_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.stop_device(at)
    }

    /// Whether the device may be removed (`AVStrMiniDeviceQueryRemove`).
    fn query_remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.query_remove_device(at)
    }

    /// The hardware was surprise-removed (`AVStrMiniDeviceSurpriseRemoval`).
    fn surprise_removal(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.surprise_removal(at)
    }

    /// Removes the device (`AVStrMiniDeviceRemove`).
    fn remove_device(&self, at: &mut Passive) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.remove_device(at)
    }

    /// The power state changes (`AVStrMiniDeviceSetPower`).
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

    /// The filter is closed (`AVStrMiniFilterClose`). Returns the driver handle, if the driver set
    /// one.
    fn close_filter(
        &self,
        at: &mut Passive,
        filter: &FilterView,
        word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.close_filter(at, filter, word)
    }

    /// Processes all pins of a filter (`AVStrMiniFilterProcess`), at the level its descriptor
    /// requests. [`DriverError::Pending`] means: not before the driver attempts processing again.
    fn process_filter(&self, filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.process_filter(filter, pins)
    }

    /// Discards what is in flight in a filter (`AVStrMiniFilterReset`).
    fn reset_filter(&self, at: &mut Passive, filter: &FilterView) {
        if let Some(it) = self.delegate() {
            it.reset_filter(at, filter);
        }
    }

    /// A pin is created (`AVStrMiniPinCreate`).
    fn create_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        word: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.create_pin(at, pin, word)
    }

    /// The pin is closed (`AVStrMiniPinClose`). Passes back the driver handle.
    fn close_pin(
        &self,
        at: &mut Passive,
        pin: &PinView,
        word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.close_pin(at, pin, word)
    }

    /// Processes a pin's queue (`AVStrMiniPinProcess`), at the level its descriptor requests.
    /// [`DriverError::Pending`] means: not before the driver attempts processing again.
    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        self.delegate().ok_or(DriverError::NoEntryPoint)?.process_pin(pin)
    }

    /// Discards what is in flight in a pin (`AVStrMiniPinReset`).
    fn reset_pin(&self, at: &mut Passive, pin: &PinView) {
        if let Some(it) = self.delegate() {
            it.reset_pin(at, pin);
        }
    }

    /// Whether a pin can have the format of `pin`, which is in `range`
    /// (`AVStrMiniPinSetDataFormat`). The first time there is no old format, and no pin yet: then
    /// the driver handle is the filter's. [`DriverError::NoMatch`] means: try the next range.
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

    /// The pin is disconnected (`AVStrMiniPinDisconnect`).
    fn disconnect_pin(&self, at: &mut Passive, pin: &PinView) {
        if let Some(it) = self.delegate() {
            it.disconnect_pin(at, pin);
        }
    }

    /// Creates an allocator for a pin (`AVStrMiniInitializeAllocator`). After a failure nothing of
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

    /// Allocates a frame, without waiting (`AVStrMiniAllocate`), at passive or dispatch level.
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

    /// Deletes an allocator, with everything it owns (`AVStrMiniDeleteAllocator`).
    fn delete_allocator(&self, at: &mut Passive, allocator: DriverAllocator) {
        if let Some(it) = self.delegate() {
            it.delete_allocator(at, allocator);
        }
    }

    /// The frame of a clone is cancelled (`AVStrMiniCancelCallback`): the driver deletes the clone
    /// here.
    fn pointer_cancelled(&self, at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        if let Some(it) = self.delegate() {
            it.pointer_cancelled(at, pin, pointer);
        }
    }

    /// The timeout of a stream pointer expired (`AVStrMiniTimeoutCallback`).
    fn pointer_timed_out(&self, at: &mut Dispatch, pin: PinId, pointer: PointerId) {
        if let Some(it) = self.delegate() {
            it.pointer_timed_out(at, pin, pointer);
        }
    }

    /// An injected frame is returned (`AVStrMiniFrameReturn`): its memory, and the context value
    /// that came with it.
    fn frame_returned(&self, at: &mut Passive, pin: PinId, frame: usize, context: usize) {
        if let Some(it) = self.delegate() {
            it.frame_returned(at, pin, frame, context);
        }
    }

    /// Frees an item of a bag that has a free routine of the driver (`PFNKSFREE`).
    fn free_item(&self, at: &mut Passive, item: usize) {
        if let Some(it) = self.delegate() {
            it.free_item(at, item);
        }
    }
}
