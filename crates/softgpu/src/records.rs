//! The driver's records: one for each driver handle it returned.
//!
//! # Invariants
//!
//! 1. A device's handles refer to its open views. If a handle is reused while the view that had it
//!    is still open, it belongs to the newer view, and closing the older one leaves it alone.
//! 2. Only the record of an allocation keeps it and its memory alive; views and packets look it up
//!    and may find it destroyed.
//! 3. Context numbers are used once.

use crate::allocation::Allocation;
use crate::format::Command;
use crate::handle_pool::{HandleMap, NumberedBy};
use flight::{FastMap, TableRoot};
use kernel::handle_table::Handle;
use kernel::miniport::{DriverError, DriverResult};
use smallvec::SmallVec;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

/// How many records of destroyed allocations are kept.
const SPARE_ALLOCATIONS: usize = 64;

/// All live objects, by driver handle.
#[derive(Debug)]
pub(crate) struct Records {
    devices: BTreeMap<usize, Device>,
    contexts: BTreeMap<usize, Context>,
    resources: HandleMap<()>,
    /// Each with its serial number, because a driver handle is used again.
    allocations: HandleMap<(u64, Arc<Allocation>)>,
    /// Records of destroyed allocations to which nothing refers. They are used again: allocating
    /// and freeing the heap block of a record takes longer than the rest of it.
    spare_allocations: Vec<Arc<Allocation>>,
    views: HandleMap<View>,
    /// The save areas of contexts.
    areas: BTreeMap<usize, Arc<Allocation>>,
    /// Processes that use the adapter.
    processes: BTreeSet<usize>,
    /// How many contexts were ever created.
    numbers: u64,
    /// How many allocations were ever created.
    created: u64,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            devices: BTreeMap::new(),
            contexts: BTreeMap::new(),
            resources: HandleMap::new(NumberedBy::Resources),
            allocations: HandleMap::new(NumberedBy::Allocations),
            spare_allocations: Vec::new(),
            views: HandleMap::new(NumberedBy::Views),
            areas: BTreeMap::new(),
            processes: BTreeSet::new(),
            numbers: 0,
            created: 0,
        }
    }
}

/// The commands of a packet, with their operands looked up.
pub(crate) type Commands = VecDeque<Command<Weak<Allocation>>>;

#[derive(Debug, Default)]
struct Device {
    /// The kernel's handle of the device.
    kernel_handle: usize,
    /// The view behind each of the client's handles.
    views_by_handle: FastMap<u32, usize>,
}

#[derive(Debug)]
struct Context {
    device: usize,
    number: u64,
    area: Option<SaveArea>,
    root: Option<TableRoot>,
    /// The context that executes paging commands.
    system: bool,
}

/// A context's save area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    /// The driver handle.
    pub(crate) driver_handle: usize,
    /// The kernel's handle of the save area.
    pub(crate) kernel_handle: usize,
    /// The kernel's handles of the device and the context.
    pub(crate) owner: (usize, usize),
    /// It replaced another save area: packets were in flight before it was requested.
    pub(crate) replacement: bool,
}

/// A device's view of an allocation.
#[derive(Debug)]
pub(crate) struct View {
    /// The device's driver handle.
    pub(crate) device: usize,
    /// The client's handle of the view.
    pub(crate) handle: Handle,
    /// The driver handle of the allocation that is opened.
    pub(crate) allocation: usize,
    /// The allocation's serial number.
    serial: u64,
}

/// The result of a destroy call: the driver handles whose blocks can be freed, and whether one was
/// unknown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RemovedHandles {
    /// In the order in which the objects ended. Objects that their table numbers have no blocks.
    pub(crate) handles: SmallVec<[usize; 2]>,
    /// A driver handle was unknown, or of another kind.
    pub(crate) unknown: bool,
}

impl RemovedHandles {
    /// Records the end of a driver handle, if it was known.
    fn note(&mut self, driver_handle: usize, known: bool) {
        if known {
            self.handles.push(driver_handle);
        } else {
            self.unknown = true;
        }
    }

    /// The same for a driver handle of a table, which may have numbered it.
    fn note_in<T>(&mut self, table: &HandleMap<T>, driver_handle: usize, known: bool) {
        if !known || table.has_block(driver_handle) {
            self.note(driver_handle, known);
        }
    }
}

impl Records {
    pub(crate) fn add_device(&mut self, driver_handle: usize, kernel: usize) {
        self.devices.insert(driver_handle, Device { kernel_handle: kernel, ..Device::default() });
    }

    /// The kernel's handle of a device.
    pub(crate) fn kernel_handle(&self, device: usize) -> Option<usize> {
        self.devices.get(&device).map(|device| device.kernel_handle)
    }

    pub(crate) fn has_device(&self, driver_handle: usize) -> bool {
        self.devices.contains_key(&driver_handle)
    }

    pub(crate) fn remove_device(&mut self, driver_handle: usize, completions: &mut RemovedHandles) {
        completions.note(driver_handle, self.devices.remove(&driver_handle).is_some());
    }

    pub(crate) fn add_context(
        &mut self,
        driver_handle: usize,
        device: usize,
        area: Option<SaveArea>,
    ) {
        self.numbers += 1;
        self.contexts.insert(
            driver_handle,
            Context { device, number: self.numbers, area, root: None, system: false },
        );
    }

    /// The number of a context, and its save area if it has one.
    pub(crate) fn context(&self, driver_handle: usize) -> Option<(u64, Option<SaveArea>)> {
        self.contexts.get(&driver_handle).map(|context| (context.number, context.area))
    }

    /// Destroys a context and its save area.
    pub(crate) fn remove_context(
        &mut self,
        driver_handle: usize,
        completions: &mut RemovedHandles,
    ) {
        let context = self.contexts.remove(&driver_handle);
        completions.note(driver_handle, context.is_some());
        if let Some(Context { area: Some(area), .. }) = context {
            completions.note(area.driver_handle, self.remove_area(area.driver_handle));
        }
    }

    /// The contexts that have a save area, oldest first.
    pub(crate) fn with_areas(&self) -> Vec<(usize, SaveArea)> {
        let mut found: Vec<_> = self
            .contexts
            .iter()
            .filter_map(|(driver_handle, it)| Some((*driver_handle, it.number, it.area?)))
            .collect();
        found.sort_by_key(|entry| entry.1);
        found.into_iter().map(|(driver_handle, _, area)| (driver_handle, area)).collect()
    }

    /// Replaces the save area of a context, or removes it, and ends the old one.
    pub(crate) fn change_area(
        &mut self,
        context: usize,
        area: Option<SaveArea>,
        completions: &mut RemovedHandles,
    ) {
        let Some(it) = self.contexts.get_mut(&context) else { return };
        if let Some(before) = std::mem::replace(&mut it.area, area) {
            completions.note(before.driver_handle, self.remove_area(before.driver_handle));
        }
    }

    pub(crate) fn add_area(&mut self, driver_handle: usize, size: u64) {
        self.areas.insert(driver_handle, Arc::new(Allocation::without_memory(driver_handle, size)));
    }

    pub(crate) fn area(&self, driver_handle: usize) -> Option<&Arc<Allocation>> {
        self.areas.get(&driver_handle)
    }

    /// Removes a save area. Returns whether there was one.
    pub(crate) fn remove_area(&mut self, driver_handle: usize) -> bool {
        self.areas.remove(&driver_handle).is_some()
    }

    /// The addresses of the save areas, oldest context first.
    pub(crate) fn area_addresses(&self) -> Vec<Option<u64>> {
        self.with_areas()
            .into_iter()
            .map(|(_, it)| self.area(it.driver_handle)?.address())
            .collect()
    }

    /// Marks a context as the one that executes paging commands.
    pub(crate) fn set_system(&mut self, context: usize) {
        if let Some(it) = self.contexts.get_mut(&context) {
            it.system = true;
        }
    }

    /// Sets the address space of a context. Returns whether the context exists.
    pub(crate) fn set_root(&mut self, context: usize, root: TableRoot) -> bool {
        let context = self.contexts.get_mut(&context);
        context.map(|context| context.root = Some(root)).is_some()
    }

    /// The address space of a context.
    pub(crate) fn root(&self, context: usize) -> Option<TableRoot> {
        self.contexts.get(&context)?.root
    }

    pub(crate) fn add_process(&mut self, driver_handle: usize) {
        self.processes.insert(driver_handle);
    }

    pub(crate) fn remove_process(
        &mut self,
        driver_handle: usize,
        completions: &mut RemovedHandles,
    ) {
        completions.note(driver_handle, self.processes.remove(&driver_handle));
    }

    /// The address space of paging commands.
    pub(crate) fn system_root(&self) -> Option<TableRoot> {
        self.contexts.values().find(|context| context.system)?.root
    }

    /// Adds a resource, with a block or a number. Returns its driver handle.
    pub(crate) fn add_resource(&mut self, block: Option<usize>) -> usize {
        self.resources.insert(block, |_| ())
    }

    pub(crate) fn has_resource(&self, driver_handle: usize) -> bool {
        self.resources.get(driver_handle).is_some()
    }

    pub(crate) fn remove_resource(
        &mut self,
        driver_handle: usize,
        completions: &mut RemovedHandles,
    ) {
        let known = self.resources.remove(driver_handle).is_some();
        completions.note_in(&self.resources, driver_handle, known);
    }

    /// Adds the allocation that `make` makes of its driver handle, with a block or a number. Returns
    /// the handle.
    pub(crate) fn add_allocation(
        &mut self,
        block: Option<usize>,
        make: impl FnOnce(usize) -> Allocation,
    ) -> usize {
        self.created += 1;
        let (serial, spare) = (self.created, self.spare_allocations.pop());
        self.allocations.insert(block, |handle| {
            let Some(mut record) = spare else { return (serial, Arc::new(make(handle))) };
            match Arc::get_mut(&mut record) {
                Some(place) => *place = make(handle),
                None => record = Arc::new(make(handle)),
            }
            (serial, record)
        })
    }

    pub(crate) fn allocation(&self, driver_handle: usize) -> Option<&Arc<Allocation>> {
        self.allocations.get(driver_handle).map(|(_, allocation)| allocation)
    }

    pub(crate) fn remove_allocation(
        &mut self,
        driver_handle: usize,
        completions: &mut RemovedHandles,
    ) {
        let removed = self.allocations.remove(driver_handle);
        completions.note_in(&self.allocations, driver_handle, removed.is_some());
        if let Some((_, mut record)) = removed
            && self.spare_allocations.len() < SPARE_ALLOCATIONS
            && Arc::get_mut(&mut record).is_some_and(|allocation| allocation.memory().is_none())
        {
            self.spare_allocations.push(record);
        }
    }

    /// Adds a device's view of an allocation, with a block or a number. Returns its driver handle;
    /// `None` if the device or the allocation does not exist.
    pub(crate) fn add_view(
        &mut self,
        block: Option<usize>,
        device: usize,
        handle: Handle,
        allocation: usize,
    ) -> Option<usize> {
        let serial = self.allocations.get(allocation)?.0;
        let of = self.devices.get_mut(&device)?;
        let view = View { device, handle, allocation, serial };
        let driver_handle = self.views.insert(block, |_| view);
        of.views_by_handle.insert(handle.0, driver_handle);
        Some(driver_handle)
    }

    /// Closes a view of this device.
    pub(crate) fn remove_view(
        &mut self,
        driver_handle: usize,
        device: usize,
        completions: &mut RemovedHandles,
    ) {
        let of_device = self.views.get(driver_handle).is_some_and(|view| view.device == device);
        let view = if of_device { self.views.remove(driver_handle) } else { None };
        if let (Some(view), Some(device)) = (&view, self.devices.get_mut(&device))
            && let Entry::Occupied(newest) = device.views_by_handle.entry(view.handle.0)
            && *newest.get() == driver_handle
        {
            newest.remove();
        }
        completions.note_in(&self.views, driver_handle, view.is_some());
    }

    /// The commands of a packet, with handles looked up in the context's device.
    pub(crate) fn resolve(&self, context: usize, commands: Vec<Command>) -> DriverResult<Commands> {
        let context = self.contexts.get(&context).ok_or(DriverError::Invalid)?;
        let device = self.devices.get(&context.device).ok_or(DriverError::Invalid)?;
        let find = |handle| self.find_view(device, handle).ok_or(DriverError::Invalid);
        commands.into_iter().map(|command| command.resolve(find)).collect()
    }

    /// The view that a handle refers to in this context's device, and its size in bytes.
    pub(crate) fn view_of(&self, context: usize, handle: Handle) -> DriverResult<(usize, u64)> {
        let context = self.contexts.get(&context).ok_or(DriverError::Invalid)?;
        let device = self.devices.get(&context.device).ok_or(DriverError::Invalid)?;
        let driver_handle = *device.views_by_handle.get(&handle.0).ok_or(DriverError::NoHandle)?;
        Ok((driver_handle, self.size_of(driver_handle)?))
    }

    /// The size of a view in bytes.
    pub(crate) fn size_of(&self, view: usize) -> DriverResult<u64> {
        let allocation = self.views.get(view).and_then(|view| self.opened(view));
        Ok(allocation.ok_or(DriverError::NoHandle)?.size())
    }

    /// What the handle refers to in every device that has it, if that is the same.
    pub(crate) fn find_on_any_device(&self, handle: Handle) -> Option<Arc<Allocation>> {
        let mut found = self.devices.values().filter_map(|device| self.find_view(device, handle));
        let first = found.next()?;
        if found.all(|allocation| allocation.ptr_eq(&first)) { first.upgrade() } else { None }
    }

    /// The allocation behind a handle; without one, if it is destroyed.
    fn find_view(&self, device: &Device, handle: Handle) -> Option<Weak<Allocation>> {
        let view = self.views.get(*device.views_by_handle.get(&handle.0)?)?;
        Some(self.opened(view).map_or_else(Weak::new, Arc::downgrade))
    }

    /// The allocation that a view has opened, unless it is destroyed.
    fn opened(&self, view: &View) -> Option<&Arc<Allocation>> {
        let (serial, allocation) = self.allocations.get(view.allocation)?;
        (*serial == view.serial).then_some(allocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    const NAME: Handle = Handle(0x4000_0040);
    const FILL: Command = Command::Fill { target: NAME, offset: 0, length: 1, value: 1 };

    /// Two devices (10, 20), each with a context (11, 21), and two allocations (30, 40).
    fn records() -> Records {
        let mut records = Records::default();
        for device in [10, 20] {
            records.add_device(device, 0);
            records.add_context(device + 1, device, None);
        }
        records.add_allocation(Some(30), |handle| Allocation::with_memory(handle, 8));
        records.add_allocation(Some(40), |handle| Allocation::with_memory(handle, 16));
        records
    }

    fn open(records: &mut Records, driver_handle: usize, device: usize, allocation: usize) {
        records.add_view(Some(driver_handle), device, NAME, allocation).unwrap();
    }

    /// The size of the memory that a handle refers to in a context.
    fn meant(records: &Records, context: usize) -> DriverResult<u64> {
        let commands = records.resolve(context, vec![FILL])?;
        let Some(Command::Fill { target, .. }) = commands.front() else { panic!("{commands:?}") };
        Ok(target.upgrade().unwrap().size())
    }

    #[test]
    fn each_device_has_its_own_handles() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        assert_eq!((meant(&records, 11), meant(&records, 21)), (Ok(8), Err(DriverError::Invalid)));
        assert_eq!(records.find_on_any_device(NAME).map(|allocation| allocation.size()), Some(8));
        open(&mut records, 60, 20, 40);
        assert_eq!((meant(&records, 11), meant(&records, 21)), (Ok(8), Ok(16)));
        assert!(records.find_on_any_device(NAME).is_none(), "they mean different memory");
        assert_eq!(meant(&records, 10), Err(DriverError::Invalid), "a device is no context");
    }

    #[test]
    fn a_reused_handle_outlives_the_view_that_had_it() {
        let mut records = records();
        let mut completions = RemovedHandles::default();
        open(&mut records, 50, 10, 30);
        open(&mut records, 60, 10, 40);
        records.remove_view(50, 10, &mut completions);
        assert_eq!(meant(&records, 11), Ok(16));
        records.remove_view(60, 10, &mut completions);
        assert_eq!(meant(&records, 11), Err(DriverError::Invalid));
        assert_eq!(completions, RemovedHandles { handles: smallvec![50, 60], unknown: false });
    }

    #[test]
    fn what_is_unknown_ends_nothing() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        let mut completions = RemovedHandles::default();
        records.remove_view(50, 20, &mut completions);
        records.remove_view(30, 10, &mut completions);
        records.remove_device(11, &mut completions);
        records.remove_context(10, &mut completions);
        records.remove_resource(30, &mut completions);
        records.remove_allocation(50, &mut completions);
        assert_eq!(completions, RemovedHandles { handles: SmallVec::new(), unknown: true });
        assert_eq!(meant(&records, 11), Ok(8));
    }

    #[test]
    fn a_save_area_goes_with_its_context() {
        let mut records = records();
        records.add_area(70, 4096);
        records.add_context(
            12,
            10,
            Some(SaveArea {
                driver_handle: 70,
                kernel_handle: 7,
                owner: (0, 0),
                replacement: false,
            }),
        );
        let (number, area) = records.context(12).unwrap();
        assert_ne!(Some(number), records.context(11).map(|pair| pair.0));
        assert_eq!(area.map(|save_area| save_area.kernel_handle), Some(7));
        records.area(70).unwrap().set_resident(0x1000);
        assert_eq!(records.area_addresses(), [Some(0x1000)]);
        let mut completions = RemovedHandles::default();
        records.remove_context(12, &mut completions);
        assert_eq!(completions, RemovedHandles { handles: smallvec![12, 70], unknown: false });
        assert!(records.area(70).is_none() && records.area_addresses().is_empty());
    }

    #[test]
    fn memory_goes_with_its_allocation_and_with_nothing_else() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        let memory = Arc::downgrade(records.allocation(30).unwrap().memory().unwrap());
        records.remove_device(10, &mut RemovedHandles::default());
        assert!(memory.upgrade().is_some());
        records.remove_allocation(30, &mut RemovedHandles::default());
        assert!(memory.upgrade().is_none(), "the view is open and does not keep it");
    }

    #[test]
    fn the_record_of_a_destroyed_allocation_is_used_again_unless_something_refers_to_it() {
        let mut records = Records::default();
        let make = |handle| Allocation::without_memory(handle, 8);
        let first = records.add_allocation(None, make);
        records.allocation(first).unwrap().set_resident(0x1000);
        let packet = Arc::downgrade(records.allocation(first).unwrap());
        records.remove_allocation(first, &mut RemovedHandles::default());
        assert!(packet.upgrade().is_none(), "a packet finds it destroyed");
        let second = records.add_allocation(None, make);
        let place = Arc::as_ptr(records.allocation(second).unwrap());
        records.allocation(second).unwrap().set_resident(0x2000);
        records.remove_allocation(second, &mut RemovedHandles::default());
        let third = records.add_allocation(None, |handle| Allocation::without_memory(handle, 16));
        let third = records.allocation(third).unwrap();
        assert_eq!(Arc::as_ptr(third), place);
        assert_eq!((third.size(), third.address(), third.was_resident()), (16, None, false));
    }

    #[test]
    fn a_number_that_is_used_again_is_not_the_old_allocation() {
        let mut records = records();
        let make = |handle| Allocation::with_memory(handle, 8);
        let first = records.add_allocation(None, make);
        let view = records.add_view(None, 10, NAME, first).unwrap();
        assert_eq!((records.size_of(view), meant(&records, 11)), (Ok(8), Ok(8)));
        let mut completions = RemovedHandles::default();
        records.remove_allocation(first, &mut completions);
        assert_eq!(records.add_allocation(None, make), first);
        assert_eq!(records.size_of(view), Err(DriverError::NoHandle));
        records.remove_view(view, 10, &mut completions);
        assert_eq!(completions, RemovedHandles::default(), "numbers have no blocks to free");
        records.remove_view(view, 10, &mut completions);
        assert!(completions.unknown);
    }
}
