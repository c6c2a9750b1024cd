//! Device objects, their names and their stacks (`IoCreateDevice`, …), under their Windows names.
//!
//! The devices of a driver are blocks of its pool, so that a device that is not deleted is a leak.
//! The devices of the system (the physical device, and those whose requests Rust code answers)
//! belong to the executive.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::import_table::import_rows;
use crate::io_irp::{answer_request, refuse_request};
use crate::io_layout::{device, driver, driver_extension, file};
use crate::registry::wide_bytes;
use crate::rtl_string::CountedString;
use crate::status::{
    STATUS_INSUFFICIENT_RESOURCES, STATUS_NO_SUCH_DEVICE, STATUS_OBJECT_NAME_COLLISION,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS,
};
use crate::{Executive, ex};
use abi::{BOOLEAN, NTSTATUS, PDEVICE_OBJECT, PDRIVER_OBJECT, PFILE_OBJECT, PVOID, UNICODE_STRING};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::{MutexGuard, PoisonError};

import_rows! {
    IoAttachDeviceToDeviceStack;
    IoCreateDevice lacks "no exclusive access, no generated names";
    IoCreateSymbolicLink;
    IoDeleteDevice;
    IoDeleteSymbolicLink;
    IoDetachDevice;
    IoGetAttachedDevice;
    IoGetAttachedDeviceReference lacks "the reference is not counted";
    IoGetDeviceObjectPointer lacks "the references are not counted";
    IoGetRelatedDeviceObject;
    IoIsWdmVersionAvailable;
    IoWMIRegistrationControl lacks "registers nothing";
}

/// The tag of device objects in the driver's pool.
const DEVICE_TAG: u32 = u32::from_le_bytes(*b"Devi");
/// `DO_EXCLUSIVE`, `DO_DEVICE_HAS_NAME`, `DO_DEVICE_INITIALIZING`.
const EXCLUSIVE: u32 = 0x08;
const HAS_NAME: u32 = 0x40;
const INITIALIZING: u32 = 0x80;
/// `FILE_DEVICE_UNKNOWN`.
const UNKNOWN_DEVICE: u32 = 0x22;

/// The I/O manager's objects of a flight.
#[derive(Debug, Default)]
pub(crate) struct IoObjects {
    /// The addresses of named devices, by name.
    names: BTreeMap<String, usize>,
    /// The device names of symbolic links.
    links: BTreeMap<String, String>,
    /// The system's driver, the devices and file objects that the executive owns.
    system: Vec<Object>,
    /// The device at the bottom of the driver's device stack.
    physical_device: Option<usize>,
    /// The symbolic links of registered device interfaces, and whether they are enabled.
    pub(crate) interfaces: BTreeMap<String, bool>,
    /// The requests that the I/O manager frees when they are completed.
    pub(crate) requests: BTreeSet<usize>,
}

/// An object in memory of its own.
#[derive(Debug)]
struct Object {
    memory: Box<[u64]>,
}

impl Object {
    fn new(bytes: usize) -> Self {
        Self { memory: vec![0; bytes.div_ceil(8)].into_boxed_slice() }
    }

    fn memory(&mut self) -> DriverMemory {
        // SAFETY: The memory lives as long as the object.
        unsafe { DriverMemory::at(self.memory.as_mut_ptr()) }
    }
}

impl IoObjects {
    fn add(&mut self, bytes: usize) -> DriverMemory {
        let mut object = Object::new(bytes);
        let memory = object.memory();
        self.system.push(object);
        memory
    }

    /// Creates a device of the system. Rust code answers its requests.
    fn add_system_device(&mut self) -> usize {
        let system_driver = self.add(driver::SIZE);
        write_driver(system_driver, answer_request as *const ());
        let memory = self.add(device::SIZE);
        write_device(memory, system_driver, UNKNOWN_DEVICE, 0);
        memory.address()
    }

    /// The device with this name, which may be a symbolic link.
    fn find(&self, name: &str) -> Option<usize> {
        let name = folded(name);
        let target = self.links.get(&name).unwrap_or(&name);
        self.names.get(target).copied()
    }

    /// The name of a device.
    fn name_of(&self, address: usize) -> Option<&str> {
        self.names.iter().find(|(_, device)| **device == address).map(|(name, _)| &**name)
    }
}

/// A name without regard to case, with `\??` for its alias `\DosDevices`.
fn folded(name: &str) -> String {
    let name = name.to_uppercase();
    match name.strip_prefix(r"\DOSDEVICES\") {
        Some(rest) => format!(r"\??\{rest}"),
        None => name,
    }
}

impl Executive {
    pub(crate) fn io(&self) -> MutexGuard<'_, IoObjects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The physical device object: the bottom of the device stack that the driver's device is
    /// attached to. It lives as long as the executive.
    pub fn physical_device(&self) -> PDEVICE_OBJECT {
        let mut io = self.io();
        let known = io.physical_device;
        let address = known.unwrap_or_else(|| {
            let address = io.add_system_device();
            let name = folded(&self.identity().device_name);
            io.names.insert(name, address);
            address
        });
        io.physical_device = Some(address);
        with_exposed_provenance_mut(address)
    }

    /// The name of the device at an address.
    pub(crate) fn device_name(&self, device: usize) -> Option<String> {
        self.io().name_of(device).map(str::to_owned)
    }

    /// The device with this name. A device with a handler is created when it is first named.
    fn find_device(&self, name: &str) -> Option<usize> {
        let handled = self.handler(name).is_some();
        let mut io = self.io();
        let known = io.find(name);
        known.or_else(|| {
            let address = handled.then(|| io.add_system_device())?;
            io.names.insert(folded(name), address);
            Some(address)
        })
    }
}

/// Writes the fields of a driver object. All its major functions are `request`.
fn write_driver(memory: DriverMemory, request: *const ()) {
    memory.write(0, driver::TYPE);
    memory.write(2, 0x150_i16);
    for index in 0..driver::MAJOR_FUNCTIONS {
        memory.write_pointer(driver::MAJOR_FUNCTION + index * 8, request);
    }
}

/// Writes the fields of a device object, which is zeroed.
fn write_device(memory: DriverMemory, of: DriverMemory, device_type: u32, extension: usize) {
    let size = u16::try_from(device::SIZE + extension).unwrap_or(u16::MAX);
    memory.write(0, device::TYPE);
    memory.write(device::SIZE_FIELD, size);
    memory.write(device::DRIVER_OBJECT, of.address());
    memory.write(device::DEVICE_TYPE, device_type);
    memory.write(device::STACK_SIZE, 1_u8);
    if extension != 0 {
        memory.write(device::DEVICE_EXTENSION, memory.part(device::SIZE).address());
    }
}

/// A driver object with its extension and the strings of `DriverEntry`, at one address while it
/// lives.
#[derive(Debug)]
pub struct DriverObject {
    object: Object,
    _extension: Object,
    _strings: Vec<Box<[u8]>>,
    registry_path: Object,
}

impl DriverObject {
    /// Creates the object of the driver with this executive.
    pub fn new(executive: &Executive) -> Self {
        let (mut object, mut extension) =
            (Object::new(driver::SIZE), Object::new(driver_extension::SIZE));
        let mut registry_path = Object::new(size_of::<UNICODE_STRING>());
        let mut strings: Vec<Box<[u8]>> = Vec::new();
        let mut put = |to: DriverMemory, text: &str| {
            let bytes = wide_bytes(text).into_boxed_slice();
            let maximum = u16::try_from(bytes.len()).unwrap_or(u16::MAX);
            to.write(0, maximum - 2);
            to.write(2, maximum);
            to.write_pointer(8, bytes.as_ptr());
            strings.push(bytes);
        };
        let memory = object.memory();
        write_driver(memory, refuse_request as *const ());
        memory.write(driver::DRIVER_EXTENSION, extension.memory().address());
        put(memory.part(driver::DRIVER_NAME), &format!(r"\Driver\{}", executive.service()));
        extension.memory().write(0, memory.address());
        let service = extension.memory().part(driver_extension::SERVICE_KEY_NAME);
        put(service, executive.service());
        put(registry_path.memory(), &executive.service_key());
        Self { object, _extension: extension, _strings: strings, registry_path }
    }

    fn memory(&self) -> DriverMemory {
        // SAFETY: The memory lives as long as the object; the driver writes to it by its address.
        unsafe { DriverMemory::at(self.object.memory.as_ptr()) }
    }

    /// The object, for `DriverEntry`.
    pub fn pointer(&self) -> PDRIVER_OBJECT {
        self.memory().pointer()
    }

    /// The path of the service's key, for `DriverEntry`.
    pub fn registry_path(&self) -> *mut UNICODE_STRING {
        with_exposed_provenance_mut(self.registry_path.memory.as_ptr().expose_provenance())
    }

    /// Tells the driver where its image is.
    pub fn set_image(&self, start: usize, bytes: u32) {
        self.memory().write(driver::DRIVER_START, start);
        self.memory().write(driver::DRIVER_SIZE, bytes);
    }

    /// The address of the driver's `DriverUnload`; zero if it has none.
    pub fn unload(&self) -> usize {
        self.memory().read(driver::DRIVER_UNLOAD)
    }

    /// The address of the driver's `AddDevice`; zero if it has none.
    pub fn add_device(&self) -> usize {
        self.memory().follow(driver::DRIVER_EXTENSION).read(driver_extension::ADD_DEVICE)
    }

    /// The address of a dispatch routine.
    pub fn major_function(&self, major: u8) -> usize {
        let index = usize::from(major).min(driver::MAJOR_FUNCTIONS - 1);
        self.memory().read(driver::MAJOR_FUNCTION + index * 8)
    }

    /// The first of the driver's devices, or NULL.
    pub fn first_device(&self) -> PDEVICE_OBJECT {
        self.memory().follow(driver::DEVICE_OBJECT).pointer()
    }
}

/// Creates a device, in the driver's pool.
pub unsafe extern "win64-unwind" fn IoCreateDevice(
    driver_object: PDRIVER_OBJECT,
    extension: u32,
    name: *const UNICODE_STRING,
    device_type: u32,
    characteristics: u32,
    exclusive: BOOLEAN,
    created: *mut PDEVICE_OBJECT,
) -> NTSTATUS {
    const NAME: &str = "IoCreateDevice";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let of = unsafe { DriverMemory::at(driver_object) };
    // SAFETY: The caller's contract.
    let name = unsafe { DriverMemory::at(name) }.non_null();
    // SAFETY: The caller's contract.
    let created = unsafe { DriverMemory::at(created) };
    guarded(STATUS_INSUFFICIENT_RESOURCES, || {
        let Some(executive) = Executive::current(NAME) else { return STATUS_NO_SUCH_DEVICE };
        let name = name.map(|name| CountedString::in_memory(name).text());
        if name.as_ref().is_some_and(|name| executive.find_device(name).is_some()) {
            return STATUS_OBJECT_NAME_COLLISION;
        }
        let extension = extension as usize;
        let bytes = device::SIZE + extension;
        let Some(block) = ex::allocate(NAME, bytes, DEVICE_TAG, true, false) else {
            return STATUS_INSUFFICIENT_RESOURCES;
        };
        // SAFETY: The block is new and has these bytes.
        let memory = unsafe { DriverMemory::at(with_exposed_provenance_mut::<u8>(block)) };
        write_device(memory, of, device_type, extension);
        let named = if name.is_some() { HAS_NAME } else { 0 };
        let exclusive = if exclusive == 0 { 0 } else { EXCLUSIVE };
        memory.write(device::FLAGS, INITIALIZING | named | exclusive);
        memory.write(device::CHARACTERISTICS, characteristics);
        memory.write(device::NEXT_DEVICE, of.read::<usize>(driver::DEVICE_OBJECT));
        of.write(driver::DEVICE_OBJECT, block);
        if let Some(name) = name {
            executive.io().names.insert(folded(&name), block);
        }
        created.write(0, block);
        STATUS_SUCCESS
    })
}

/// Deletes a device of the driver.
pub unsafe extern "win64-unwind" fn IoDeleteDevice(deleted: PDEVICE_OBJECT) {
    const NAME: &str = "IoDeleteDevice";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(deleted) };
    guarded((), || {
        if let Some(executive) = Executive::current(NAME) {
            executive.io().names.retain(|_, device| *device != memory.address());
        }
        let next: usize = memory.read(device::NEXT_DEVICE);
        let of = memory.follow(device::DRIVER_OBJECT);
        let (mut link, mut offset) = (of, driver::DEVICE_OBJECT);
        while let Some(device) = link.follow(offset).non_null() {
            if device == memory {
                link.write(offset, next);
                break;
            }
            (link, offset) = (device, device::NEXT_DEVICE);
        }
        ex::free_pool(NAME, deleted, DEVICE_TAG);
    });
}

/// The device at the top of a stack.
fn top_of(mut memory: DriverMemory) -> DriverMemory {
    while let Some(above) = memory.follow(device::ATTACHED_DEVICE).non_null() {
        memory = above;
    }
    memory
}

/// Attaches a device to the top of a stack. Returns the device that was the top.
pub unsafe extern "win64-unwind" fn IoAttachDeviceToDeviceStack(
    source: PDEVICE_OBJECT,
    target: PDEVICE_OBJECT,
) -> PDEVICE_OBJECT {
    // SAFETY: The caller's contract.
    let source = unsafe { DriverMemory::at(source) };
    // SAFETY: The caller's contract.
    let top = top_of(unsafe { DriverMemory::at(target) });
    top.write(device::ATTACHED_DEVICE, source.address());
    source.write(device::STACK_SIZE, top.read::<u8>(device::STACK_SIZE).saturating_add(1));
    source.write(device::ALIGNMENT, top.read::<u32>(device::ALIGNMENT));
    top.pointer()
}

/// Detaches the device that is attached to `target`.
pub unsafe extern "win64-unwind" fn IoDetachDevice(target: PDEVICE_OBJECT) {
    judge_irql("IoDetachDevice");
    // SAFETY: The caller's contract.
    unsafe { DriverMemory::at(target) }.write(device::ATTACHED_DEVICE, 0_usize);
}

/// The device at the top of a stack, referenced.
pub unsafe extern "win64-unwind" fn IoGetAttachedDeviceReference(
    of: PDEVICE_OBJECT,
) -> PDEVICE_OBJECT {
    // SAFETY: The caller's contract.
    top_of(unsafe { DriverMemory::at(of) }).pointer()
}

/// The device at the top of a stack.
pub unsafe extern "win64-unwind" fn IoGetAttachedDevice(of: PDEVICE_OBJECT) -> PDEVICE_OBJECT {
    // SAFETY: The caller's contract.
    top_of(unsafe { DriverMemory::at(of) }).pointer()
}

/// The device that serves a file object: the top of its stack.
pub unsafe extern "win64-unwind" fn IoGetRelatedDeviceObject(of: PFILE_OBJECT) -> PDEVICE_OBJECT {
    // SAFETY: The caller's contract.
    top_of(unsafe { DriverMemory::at(of) }.follow(file::DEVICE_OBJECT)).pointer()
}

/// Opens a device by its name: a file object and the top of the device stack, both referenced.
pub unsafe extern "win64-unwind" fn IoGetDeviceObjectPointer(
    name: *const UNICODE_STRING,
    _access: u32,
    opened: *mut PFILE_OBJECT,
    found: *mut PDEVICE_OBJECT,
) -> NTSTATUS {
    const NAME: &str = "IoGetDeviceObjectPointer";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let name = unsafe { CountedString::at(name) };
    // SAFETY: The caller's contract.
    let opened = unsafe { DriverMemory::at(opened) };
    // SAFETY: The caller's contract.
    let found = unsafe { DriverMemory::at(found) };
    guarded(STATUS_INSUFFICIENT_RESOURCES, || {
        let Some(executive) = Executive::current(NAME) else { return STATUS_NO_SUCH_DEVICE };
        let Some(address) = executive.find_device(&name.text()) else {
            return STATUS_OBJECT_NAME_NOT_FOUND;
        };
        // SAFETY: The device lives: it is listed by its name until it is deleted.
        let memory = unsafe { DriverMemory::at(with_exposed_provenance_mut::<u8>(address)) };
        let count: u32 = memory.read(device::REFERENCE_COUNT);
        memory.write(device::REFERENCE_COUNT, count.wrapping_add(1));
        let file_object = executive.io().add(file::SIZE);
        file_object.write(0, file::TYPE);
        file_object.write(2, 0xD8_i16);
        file_object.write(file::DEVICE_OBJECT, address);
        opened.write(0, file_object.address());
        found.write(0, top_of(memory).address());
        STATUS_SUCCESS
    })
}

/// Creates a symbolic link to a device name.
pub unsafe extern "win64-unwind" fn IoCreateSymbolicLink(
    link: *const UNICODE_STRING,
    target: *const UNICODE_STRING,
) -> NTSTATUS {
    const NAME: &str = "IoCreateSymbolicLink";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let link = unsafe { CountedString::at(link) };
    // SAFETY: The caller's contract.
    let target = unsafe { CountedString::at(target) };
    guarded(STATUS_INSUFFICIENT_RESOURCES, || {
        let Some(executive) = Executive::current(NAME) else { return STATUS_NO_SUCH_DEVICE };
        let (link, target) = (folded(&link.text()), folded(&target.text()));
        let mut io = executive.io();
        if io.links.contains_key(&link) || io.names.contains_key(&link) {
            return STATUS_OBJECT_NAME_COLLISION;
        }
        io.links.insert(link, target);
        STATUS_SUCCESS
    })
}

/// Deletes a symbolic link.
pub unsafe extern "win64-unwind" fn IoDeleteSymbolicLink(link: *const UNICODE_STRING) -> NTSTATUS {
    const NAME: &str = "IoDeleteSymbolicLink";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let link = unsafe { CountedString::at(link) };
    guarded(STATUS_INSUFFICIENT_RESOURCES, || {
        let Some(executive) = Executive::current(NAME) else { return STATUS_NO_SUCH_DEVICE };
        let removed = executive.io().links.remove(&folded(&link.text()));
        if removed.is_some() { STATUS_SUCCESS } else { STATUS_OBJECT_NAME_NOT_FOUND }
    })
}

/// Whether the system has a version of WDM. WINDOWS: 6.0 from Windows Vista on.
pub extern "win64-unwind" fn IoIsWdmVersionAvailable(major: u8, minor: u8) -> BOOLEAN {
    ((major, minor) <= (6, 0)).into()
}

/// Registers a device for WMI: nothing asks for its data.
pub unsafe extern "win64-unwind" fn IoWMIRegistrationControl(
    _device: PDEVICE_OBJECT,
    _action: u32,
) -> NTSTATUS {
    STATUS_SUCCESS
}

/// The function pointer at an address.
///
/// # Safety
///
/// `F` is the type of the function there.
pub(crate) unsafe fn function_at<F: Copy>(address: usize) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    let pointer: PVOID =
        if address == 0 { null_mut() } else { with_exposed_provenance_mut(address) };
    if pointer.is_null() {
        return None;
    }
    // SAFETY: The caller's contract; a function pointer has the size of a pointer.
    Some(unsafe { std::mem::transmute_copy::<PVOID, F>(&pointer) })
}

#[cfg(test)]
#[path = "io_tests.rs"]
mod tests;
