//! Calls the driver: for its device, for a filter, for a pin, for a stream pointer.
//!
//! A call runs inside the door, and the driver's changes to its structures are compared afterwards.
//! Invariant 1 is that of [`KsDriver`].
#![expect(unsafe_code, reason = "the functions of a driver's table are trusted")]

use super::KsDriver;
use crate::ks::descriptor::{AllocatorTable, PinTable};
use crate::ks::door::Door;
use crate::ks::pin::AllowedChanges;
use crate::ks::status::result_from_status;
use abi::ks::{KSPIN, PFNKSDEVICEIRP, PFNKSDEVICEIRPVOID, PFNKSPIN};
use abi::status::{STATUS_PENDING, STATUS_SUCCESS};
use abi::{NTSTATUS, PVOID};
use flight::Pool as _;
use nt::processor;
use std::ptr;
use std::sync::Arc;
use stream::{
    DriverAllocator, DriverError, DriverResult, Entry, FilterView, ObjectId, PinId, PinView,
    PointerId,
};

pub(super) const NO_CHANGES: (Option<PinId>, AllowedChanges) = (None, AllowedChanges::Nothing);

impl KsDriver {
    /// Runs code of the driver, and compares the structures that it saw.
    pub(super) fn run_driver<R>(
        &self,
        door: &Arc<Door>,
        entry: Entry,
        (about, under): (Option<PinId>, AllowedChanges),
        body: impl FnOnce() -> R,
    ) -> R {
        let services = door.services();
        let allocating = Entry::ALLOCATOR.contains(&entry).then(|| door.begin_allocator_call());
        let body = || door.run(|| self.pool.run_driver(body));
        let (answer, left) = processor::run_driver(services.host(), services.log(), body);
        processor::judge_exit(services.log(), entry.name(), &left);
        self.pool.inspect(entry.name());
        door.compare_pins(about, under, entry.name());
        door.inspect(entry.name());
        if allocating.is_none() {
            door.watch_freed();
        }
        answer
    }

    pub(super) fn device_call(
        &self,
        entry: Entry,
        call: impl FnOnce(&Door, PVOID) -> Option<NTSTATUS>,
    ) -> DriverResult<()> {
        let door = self.door()?;
        let about = door.services().device().into();
        let irp = door.begin_request(about);
        let status =
            self.run_driver(&door, entry, (None, AllowedChanges::Nothing), || call(&door, irp));
        door.end_request(about);
        result_from_status(status.ok_or(DriverError::NoEntryPoint)?)
    }

    pub(super) fn device_irp(
        &self,
        entry: Entry,
        call: Option<PFNKSDEVICEIRP>,
    ) -> DriverResult<()> {
        self.device_call(entry, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented.
            Some(unsafe { call(door.device(), irp) })
        })
    }

    pub(super) fn device_void(
        &self,
        entry: Entry,
        call: Option<PFNKSDEVICEIRPVOID>,
    ) -> DriverResult<()> {
        self.device_call(entry, |door, irp| {
            let call = call?;
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(door.device(), irp) };
            Some(STATUS_SUCCESS)
        })
    }

    /// Calls the driver for a pin, after filling its `KSPIN`.
    pub(super) fn pin_call<R>(
        &self,
        entry: Entry,
        view: &PinView,
        under: AllowedChanges,
        call: impl FnOnce(&Door, &PinTable, *mut KSPIN) -> Option<R>,
    ) -> DriverResult<R> {
        let door = self.door()?;
        let pin = door.fill_pin(view).ok_or(DriverError::Invalid)?;
        let table = door.inner().pins.get(&view.pin).map(|shown_pin| shown_pin.table.clone());
        let table = table.ok_or(DriverError::Invalid)?;
        let about = (Some(view.pin), under);
        self.run_driver(&door, entry, about, || call(&door, &table, pin))
            .ok_or(DriverError::NoEntryPoint)
    }

    pub(super) fn plain_pin_call(
        &self,
        entry: Entry,
        view: &PinView,
        call: impl FnOnce(&PinTable) -> Option<PFNKSPIN>,
    ) -> DriverResult<()> {
        let status =
            self.pin_call(entry, view, AllowedChanges::ControlMutex, |_, table, pin| {
                let call = call(table)?;
                // SAFETY: By invariant 1 the function behaves as documented.
                Some(unsafe { call(pin) })
            })?;
        result_from_status(status)
    }

    /// The allocator that the class driver calls for. The driver's context does not identify it.
    pub(super) fn allocator(
        &self,
        it: &DriverAllocator,
    ) -> DriverResult<(Arc<Door>, (AllocatorTable, u32), PVOID)> {
        let door = self.door()?;
        let number = door.services().current_allocator().ok_or(DriverError::Invalid)?;
        let table = self.allocators().get(&number).copied().ok_or(DriverError::Invalid)?;
        Ok((door, table, ptr::with_exposed_provenance_mut(it.as_raw())))
    }

    pub(super) fn pin_context(&self, pin: &PinView) -> usize {
        let Ok(door) = self.door() else { return 0 };
        // The pin is filled first, with the context of its filter.
        if door.pin(pin.pin).is_none() && door.fill_pin(pin).is_none() {
            return 0;
        }
        let context = door.inner().pins.get(&pin.pin).map(crate::ks::pin::ShownPin::context);
        context.unwrap_or(0)
    }

    pub(super) fn pin_irp(
        &self,
        entry: Entry,
        pin: &PinView,
        under: AllowedChanges,
        call: impl FnOnce(&PinTable) -> Option<abi::ks::PFNKSPINIRP>,
    ) -> DriverResult<()> {
        let about = pin.pin.into();
        let irp = self.door()?.begin_request(about);
        let status = self.pin_call(entry, pin, under, |_, table, shown| {
            let call = call(table)?;
            // SAFETY: By invariant 1 the function behaves as documented.
            Some(unsafe { call(shown, irp) })
        });
        self.finish_request(about, status)
    }

    /// Calls the driver for a filter, with a request. Returns the driver context before and after.
    pub(super) fn filter_irp(
        &self,
        entry: Entry,
        filter: &FilterView,
        call: impl FnOnce(&crate::ks::descriptor::FilterTable) -> Option<abi::ks::PFNKSFILTERIRP>,
    ) -> DriverResult<(usize, usize)> {
        let door = self.door()?;
        let shown = door.filter(filter.filter).ok_or(DriverError::Invalid)?;
        let context = |door: &Door| {
            let inner = door.inner();
            let it = inner.filters.get(&filter.filter);
            let at = std::mem::offset_of!(abi::ks::KSFILTER, Context);
            it.and_then(|filter| filter.memory.read::<usize>(at)).unwrap_or(0)
        };
        let before = context(&door);
        let table = door
            .inner()
            .factories
            .get(filter.factory as usize)
            .map(|factory| factory.table.clone());
        let call =
            table.and_then(|filter_table| call(&filter_table)).ok_or(DriverError::NoEntryPoint)?;
        let about = filter.filter.into();
        let irp = door.begin_request(about);
        let status = self.run_driver(&door, entry, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(shown, irp) }
        });
        self.finish_request(about, Ok(status))?;
        Ok((before, context(&door)))
    }

    /// Ends a request, unless it is pending.
    fn finish_request(&self, about: ObjectId, status: DriverResult<NTSTATUS>) -> DriverResult<()> {
        let door = self.door()?;
        if status == Ok(STATUS_PENDING) {
            // WINDOWS: `IoMarkIrpPending` is a macro that writes into the request, whose layout is
            // not published. Its use cannot be observed, so it is assumed.
            let _ = door.services().mark_pending(about.subject());
        } else {
            door.end_request(about);
        }
        result_from_status(status?)
    }

    pub(super) fn pointer_call(
        &self,
        entry: Entry,
        pointer: PointerId,
        call: impl FnOnce(&mut crate::ks::frame::ShownPointer) -> Option<abi::ks::PFNKSSTREAMPOINTER>,
    ) {
        let Ok(door) = self.door() else { return };
        door.refresh_pointer(pointer);
        let call = {
            let mut inner = door.inner();
            inner.pointers.get_mut(&pointer).and_then(|shown_pointer| {
                Some((call(shown_pointer)?, shown_pointer.memory.pointer()))
            })
        };
        let Some((call, shown)) = call else { return };
        self.run_driver(&door, entry, NO_CHANGES, || {
            // SAFETY: By invariant 1 the function behaves as documented.
            unsafe { call(shown) }
        });
    }
}
