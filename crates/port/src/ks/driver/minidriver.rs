//! Implements each request of the class driver as a call of the documented function.
//!
//! Invariant 1 is that of [`KsDriver`].
#![expect(unsafe_code, reason = "the functions of a driver's table are trusted")]

use super::calls::NO_CHANGES;
use super::{KsDriver, PoolAccounting};
use crate::ks::descriptor::format_bytes;
use crate::ks::door::Door;
use crate::ks::driver_memory::DriverMemory;
use crate::ks::pin::AllowedChanges;
use crate::ks::status::result_from_status;
use abi::PVOID;
use abi::ks::{KSALLOCATOR_FRAMING, KSALLOCATOR_OPTIONF_SYSTEM_MEMORY, NonPagedPool, PagedPool};
use abi::miniport::{DEVICE_POWER_STATE, PowerDeviceD0, PowerDeviceD3};
use abi::status::STATUS_SUCCESS;
use flight::{Dispatch, Passive};
use std::ptr;
use std::sync::{Arc, PoisonError};
use stream::{
    DeviceDescriptor, DeviceId, DriverAllocator, DriverDevice, DriverError, DriverFilter,
    DriverFrame, DriverPin, DriverResult, Entry, FilterId, FilterView, Format, FrameId, Framing,
    HandleSlot, MemoryKind, Minidriver, ObjectId, PinId, PinState, PinView, PointerId, ProcessPin,
    Services,
};

/// The framing for an allocator (D-19: the old structure, built from the chosen item).
fn framing_args(it: &Framing) -> KSALLOCATOR_FRAMING {
    KSALLOCATOR_FRAMING {
        OptionsFlags: if it.kind.is_system() { KSALLOCATOR_OPTIONF_SYSTEM_MEMORY } else { 0 },
        PoolType: if it.kind == MemoryKind::Paged { PagedPool } else { NonPagedPool },
        Frames: it.frames,
        FrameSize: it.bytes,
        FileAlignment: it.alignment,
        Reserved: 0,
    }
}

/// Full power, or none.
fn power_state(on: bool) -> DEVICE_POWER_STATE {
    if on { PowerDeviceD0 } else { PowerDeviceD3 }
}

impl Minidriver for KsDriver {
    fn describe(&self) -> DeviceDescriptor {
        self.tables.describe()
    }

    fn attach(&self, services: &Arc<Services>) {
        let door = Door::open(services.clone(), self.pool.clone(), &self.tables);
        self.pool.set_observer(Some(Arc::new(PoolAccounting(services.clone()))));
        *self.door.lock().unwrap_or_else(PoisonError::into_inner) = Some(door);
    }

    fn object_removed(&self, what: ObjectId) {
        if let Ok(door) = self.door() {
            door.object_removed(what);
        }
        if matches!(what, ObjectId::Device(_)) {
            self.pool.set_observer(None);
            let door = self.door.lock().unwrap_or_else(PoisonError::into_inner).take();
            drop(door);
        }
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        _services: &Arc<Services>,
        slot: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        let call = self.tables.dispatch.Add;
        self.device_call(Entry::DeviceAdd, |door, _| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented.
            Some(unsafe { call(door.device()) })
        })?;
        let own = self.door()?.device_context();
        Ok((own != 0).then(|| slot.fill(own)))
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        let call = self.tables.dispatch.Start;
        self.device_call(Entry::DeviceStart, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented; there are no resources.
            Some(unsafe { call(door.device(), irp, ptr::null_mut(), ptr::null_mut()) })
        })?;
        self.door()?.set_started(true);
        Ok(())
    }

    fn post_start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        let call = self.tables.dispatch.PostStart;
        self.device_call(Entry::DevicePostStart, |door, _| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented.
            Some(unsafe { call(door.device()) })
        })
    }

    fn query_stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.device_irp(Entry::DeviceQueryStop, self.tables.dispatch.QueryStop)
    }

    fn stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.door()?.set_started(false);
        self.device_void(Entry::DeviceStop, self.tables.dispatch.Stop)
    }

    fn query_remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.device_irp(Entry::DeviceQueryRemove, self.tables.dispatch.QueryRemove)
    }

    fn surprise_removal(&self, _at: &mut Passive) -> DriverResult<()> {
        self.device_void(Entry::DeviceSurpriseRemoval, self.tables.dispatch.SurpriseRemoval)
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.door()?.set_started(false);
        self.device_void(Entry::DeviceRemove, self.tables.dispatch.Remove)
    }

    fn set_power(&self, _at: &mut Passive, on: bool) {
        let (call, to) = (self.tables.dispatch.SetPower, power_state(on));
        // The function returns nothing.
        let _ = self.device_call(Entry::DeviceSetPower, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(door.device(), irp, to, power_state(!on)) };
            Some(STATUS_SUCCESS)
        });
        if let Ok(door) = self.door() {
            door.set_power(to);
        }
    }

    fn create_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        slot: HandleSlot<'_, FilterId>,
    ) -> DriverResult<Option<DriverFilter>> {
        let (before, after) =
            self.filter_irp(Entry::FilterCreate, filter, |filter_table| filter_table.create)?;
        Ok((before != after && after != 0).then(|| slot.fill(after)))
    }

    fn close_filter(
        &self,
        _at: &mut Passive,
        filter: &FilterView,
        _word: Option<DriverFilter>,
    ) -> DriverResult<()> {
        self.filter_irp(Entry::FilterClose, filter, |filter_table| filter_table.close).map(|_| ())
    }

    fn process_filter(&self, filter: FilterId, pins: &mut [ProcessPin]) -> DriverResult<()> {
        let door = self.door()?;
        let shown = door.filter(filter).ok_or(DriverError::Invalid)?;
        let call = {
            let inner = door.inner();
            let factory = inner.filters.get(&filter).map(|filter| filter.factory as usize);
            factory
                .and_then(|index| inner.factories.get(index))
                .and_then(|factory| factory.table.process)
        };
        let call = call.ok_or(DriverError::NoEntryPoint)?;
        let buffer = door.process_pins(filter, pins);
        let status = self.run_driver(&door, Entry::FilterProcess, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(shown, buffer.index()) }
        });
        buffer.read_results(pins);
        for pin in pins.iter() {
            door.read_header(pin.pointer);
        }
        result_from_status(status)
    }

    fn reset_filter(&self, _at: &mut Passive, filter: &FilterView) {
        let Ok(door) = self.door() else { return };
        let Some(shown) = door.filter(filter.filter) else { return };
        let factory = filter.factory as usize;
        let call = door.inner().factories.get(factory).and_then(|factory| factory.table.reset);
        let Some(call) = call else { return };
        self.run_driver(&door, Entry::FilterReset, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented. Its result is ignored.
            let _ = unsafe { call(shown) };
        });
    }

    fn create_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        slot: HandleSlot<'_, PinId>,
    ) -> DriverResult<Option<DriverPin>> {
        let before = self.pin_context(pin);
        self.pin_irp(Entry::PinCreate, pin, AllowedChanges::Create, |pin_table| pin_table.create)?;
        let after = self.pin_context(pin);
        Ok((before != after && after != 0).then(|| slot.fill(after)))
    }

    fn close_pin(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        _word: Option<DriverPin>,
    ) -> DriverResult<()> {
        self.pin_irp(Entry::PinClose, pin, AllowedChanges::ControlMutex, |pin_table| {
            pin_table.close
        })
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let door = self.door()?;
        // Not filled: another thread may change its state, and notify the driver.
        let shown = door.pin(pin.pin).ok_or(DriverError::Invalid)?;
        let call = door.inner().pins.get(&pin.pin).and_then(|shown_pin| shown_pin.table.process);
        let call = call.ok_or(DriverError::NoEntryPoint)?;
        let about = (Some(pin.pin), AllowedChanges::Nothing);
        let status = self.run_driver(&door, Entry::PinProcess, about, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(shown) }
        });
        result_from_status(status)
    }

    fn reset_pin(&self, _at: &mut Passive, pin: &PinView) {
        // The function returns nothing.
        let _ =
            self.pin_call(Entry::PinReset, pin, AllowedChanges::ControlMutex, |_, table, shown| {
                let call = table.reset?;
                // SAFETY: By invariant 1 the function behaves as documented.
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
    ) -> DriverResult<()> {
        let old = old.map(|format| DriverMemory::from_bytes(&format_bytes(format)));
        let status = self.pin_call(
            Entry::PinSetDataFormat,
            pin,
            AllowedChanges::ControlMutex,
            |_, table, it| {
                let call = table.set_format?;
                let old = old.as_ref().map_or(ptr::null_mut(), DriverMemory::pointer);
                let range =
                    table.ranges.iter().find(|pair| pair.1 == *range).map_or(0, |pair| pair.0);
                let range = ptr::with_exposed_provenance(range);
                // SAFETY: By invariant 1 the function behaves as documented; the range is the
                // driver's, and there are no attributes.
                Some(unsafe { call(it, old, ptr::null_mut(), range, ptr::null()) })
            },
        )?;
        result_from_status(status)
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        to: PinState,
        from: PinState,
    ) -> DriverResult<()> {
        let status = self.pin_call(
            Entry::PinSetDeviceState,
            pin,
            AllowedChanges::ControlMutex,
            |_, it, shown| {
                let call = it.set_state?;
                // SAFETY: By invariant 1 the function behaves as documented.
                Some(unsafe { call(shown, to as i32, from as i32) })
            },
        )?;
        let answer = result_from_status(status);
        let reached = if matches!(answer, Ok(()) | Err(DriverError::Pending)) { to } else { from };
        self.door()?.set_pin_state(pin.pin, reached, reached);
        answer
    }

    fn connect_pin(&self, _at: &mut Passive, pin: &PinView) -> DriverResult<()> {
        self.plain_pin_call(Entry::PinConnect, pin, |pin_table| pin_table.connect)
    }

    fn disconnect_pin(&self, _at: &mut Passive, pin: &PinView) {
        // The function returns nothing.
        let _ = self.pin_call(
            Entry::PinDisconnect,
            pin,
            AllowedChanges::ControlMutex,
            |_, table, shown| {
                let call = table.disconnect?;
                // SAFETY: By invariant 1 the function behaves as documented.
                unsafe { call(shown) };
                Some(())
            },
        );
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        pin: &PinView,
        requested: &Framing,
        slot: HandleSlot<'_, stream::AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        let (mut framing, mut context): (_, PVOID) = (framing_args(requested), ptr::null_mut());
        let entry = Entry::InitializeAllocator;
        let (status, table) =
            self.pin_call(entry, pin, AllowedChanges::ControlMutex, |_, table, shown| {
                let (call, table) = (table.allocator?.initialize?, table.allocator?);
                // SAFETY: By invariant 1 the function behaves as documented; both locals outlive
                // the call.
                Some((unsafe { call(shown, &raw mut framing, &raw mut context) }, table))
            })?;
        result_from_status(status)?;
        let own = context.expose_provenance();
        let number = self.door()?.services().current_allocator().ok_or(DriverError::Invalid)?;
        self.allocators().insert(number, (table, requested.bytes));
        Ok(slot.fill(own))
    }

    fn allocate(
        &self,
        allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let (door, (table, bytes), context) = self.allocator(allocator).ok()?;
        let call = table.allocate?;
        let frame = self.run_driver(&door, Entry::Allocate, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(context) }
        });
        door.forget_reused(frame.addr(), bytes as usize);
        (!frame.is_null()).then(|| slot.fill(frame.expose_provenance()))
    }

    fn free_frame(&self, allocator: &DriverAllocator, frame: DriverFrame) {
        let Ok((door, (table, bytes), context)) = self.allocator(allocator) else { return };
        let Some(call) = table.free else { return };
        let frame = frame.as_raw();
        let _allocating = door.begin_allocator_call(); // Frames are not checked during the call.
        door.inner().freed_frames.frames.insert(frame, (bytes as usize, 0));
        self.run_driver(&door, Entry::FreeFrame, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(context, ptr::with_exposed_provenance_mut(frame)) }
        });
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        let Ok((door, (table, _), context)) = self.allocator(&allocator) else { return };
        let number = door.services().current_allocator();
        number.and_then(|allocator| self.allocators().remove(&allocator));
        let Some(call) = table.delete else { return };
        self.run_driver(&door, Entry::DeleteAllocator, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(context) }
        });
    }

    fn pointer_cancelled(&self, _at: &mut Dispatch, _pin: PinId, pointer: PointerId) {
        self.pointer_call(Entry::PointerCancelled, pointer, |shown_pointer| shown_pointer.cancel);
    }

    fn pointer_timed_out(&self, _at: &mut Dispatch, _pin: PinId, pointer: PointerId) {
        self.pointer_call(Entry::PointerTimedOut, pointer, |shown_pointer| {
            shown_pointer.timeout.take()
        });
    }

    fn frame_returned(&self, _at: &mut Passive, pin: PinId, frame: usize, context: usize) {
        let Ok(door) = self.door() else { return };
        let Some(shown) = door.pin(pin) else { return };
        let (call, size) = {
            let mut inner = door.inner();
            let call = inner.pins.get(&pin).and_then(|shown_pin| shown_pin.frame_return);
            let place =
                inner.injected.iter().position(|entry| (entry.0, entry.2) == (frame, context));
            (call, place.map_or(0, |index| inner.injected.remove(index).1))
        };
        let Some(call) = call else { return };
        let data = ptr::with_exposed_provenance_mut(frame);
        let context = ptr::with_exposed_provenance_mut(context);
        self.run_driver(&door, Entry::FrameReturned, (Some(pin), AllowedChanges::Nothing), || {
            // SAFETY: By invariant 1 the function behaves as documented; there is no list.
            unsafe { call(shown, data, size, ptr::null_mut(), context, STATUS_SUCCESS) }
        });
    }

    fn free_item(&self, _at: &mut Passive, framing_item: usize) {
        let Ok(door) = self.door() else { return };
        let Some(call) = door.inner().routines.remove(&framing_item) else { return };
        self.run_driver(&door, Entry::ItemFree, NO_CHANGES, || {
            // SAFETY: By invariant 1 the routine accepts the item that it was registered with.
            unsafe { call(ptr::with_exposed_provenance_mut(framing_item)) }
        });
    }
}
