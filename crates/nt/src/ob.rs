//! Kernel objects: reference counts, types, and the objects behind handles.
//!
//! An object is memory that its driver sees by address. It lives while its reference count is not
//! zero; a handle holds one reference. Objects that other functions own (devices, drivers) are not
//! here: referencing one of them has no effect.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(non_upper_case_globals, reason = "Windows's names")]

use crate::handles;
use crate::import_table::import_rows;
use crate::owned::{self, OwnedKind};
use abi::status::{
    STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER, STATUS_OBJECT_TYPE_MISMATCH, STATUS_SUCCESS,
};
use abi::{NTSTATUS, PVOID};
use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

import_rows! {
    static ExEventObjectType = ExEventObjectType;
    static ExSemaphoreObjectType = ExSemaphoreObjectType;
    static IoDeviceObjectType = IoDeviceObjectType;
    static IoDriverObjectType = IoDriverObjectType;
    static IoFileObjectType = IoFileObjectType;
    ObCloseHandle;
    ObDereferenceObjectDeferDelete lacks "deletes at once";
    ObDereferenceObjectDeferDeleteWithTag lacks "deletes at once; ignores the tag";
    ObOpenObjectByPointer lacks "threads and events; no access checks, no attributes";
    ObReferenceObjectByHandle lacks "threads and events; no access checks";
    ObReferenceObjectByHandleWithTag lacks "threads and events; ignores the tag";
    ObReferenceObjectByPointer lacks "threads and events; no access checks";
    ObReferenceObjectByPointerWithTag lacks "threads and events; ignores the tag";
    ObfDereferenceObject;
    ObfDereferenceObjectWithTag lacks "ignores the tag";
    ObfReferenceObject;
    ObfReferenceObjectWithTag lacks "ignores the tag";
    static PsProcessType = PsProcessType;
    static PsThreadType = PsThreadType;
}

/// `NtCurrentProcess()`.
const CURRENT_PROCESS: usize = usize::MAX;
/// `NtCurrentThread()`.
const CURRENT_THREAD: usize = usize::MAX - 1;

/// The type of an object (`OBJECT_TYPE`). A driver compares its address.
#[derive(Debug)]
pub struct ObjectType {
    name: &'static str,
}

impl ObjectType {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    fn is(&'static self, other: PVOID) -> bool {
        ptr::from_ref(self).addr() == other.addr()
    }
}

static EVENT_TYPE: ObjectType = ObjectType { name: "Event" };
static SEMAPHORE_TYPE: ObjectType = ObjectType { name: "Semaphore" };
static DEVICE_TYPE: ObjectType = ObjectType { name: "Device" };
static DRIVER_TYPE: ObjectType = ObjectType { name: "Driver" };
static FILE_TYPE: ObjectType = ObjectType { name: "File" };
static PROCESS_TYPE: ObjectType = ObjectType { name: "Process" };
static THREAD_TYPE: ObjectType = ObjectType { name: "Thread" };

/// The type of events.
pub static ExEventObjectType: &ObjectType = &EVENT_TYPE;
/// The type of semaphores.
pub static ExSemaphoreObjectType: &ObjectType = &SEMAPHORE_TYPE;
/// The type of device objects.
pub static IoDeviceObjectType: &ObjectType = &DEVICE_TYPE;
/// The type of driver objects.
pub static IoDriverObjectType: &ObjectType = &DRIVER_TYPE;
/// The type of file objects.
pub static IoFileObjectType: &ObjectType = &FILE_TYPE;
/// The type of processes.
pub static PsProcessType: &ObjectType = &PROCESS_TYPE;
/// The type of threads.
pub static PsThreadType: &ObjectType = &THREAD_TYPE;

/// The objects by address.
static OBJECTS: Mutex<BTreeMap<usize, Object>> = Mutex::new(BTreeMap::new());

struct Object {
    kind: &'static ObjectType,
    references: isize,
    name: Option<String>,
    /// What the driver sees.
    _memory: Box<[u64]>,
}

/// A reference to an object, which drops it.
#[derive(Debug)]
pub(crate) struct ObjectReference(usize);

impl ObjectReference {
    /// Creates an object of zeroed memory.
    pub(crate) fn create(kind: &'static ObjectType, bytes: usize) -> Self {
        let mut memory = vec![0_u64; bytes.div_ceil(size_of::<u64>())].into_boxed_slice();
        let address = memory.as_mut_ptr().expose_provenance();
        objects().insert(address, Object { kind, references: 1, name: None, _memory: memory });
        Self(address)
    }

    /// Gives the object a name, by which [`ObjectReference::find`] finds it.
    pub(crate) fn set_name(&self, name: String) {
        if let Some(object) = objects().get_mut(&self.0) {
            object.name = Some(name);
        }
    }

    /// One more reference to the object with this name. `None` if there is none.
    pub(crate) fn find(name: &str) -> Option<Self> {
        let mut objects = objects();
        let named = |(_, object): &(&usize, &Object)| object.name.as_deref() == Some(name);
        let address = *objects.iter().find(named)?.0;
        objects.get_mut(&address)?.references += 1;
        Some(Self(address))
    }

    /// One more reference to an object. `None` if there is no object.
    pub(crate) fn new(address: usize) -> Option<Self> {
        add_reference(address).then_some(Self(address))
    }

    pub(crate) fn address(&self) -> usize {
        self.0
    }

    pub(crate) fn pointer(&self) -> PVOID {
        ptr::with_exposed_provenance_mut(self.0)
    }

    /// Makes it the driver's, which drops it later.
    pub(crate) fn into_pointer(self) -> PVOID {
        let pointer = self.pointer();
        std::mem::forget(self);
        pointer
    }

    /// Opens a handle that holds this reference.
    pub(crate) fn open(self) -> usize {
        handles::open(Arc::new(self))
    }
}

impl Drop for ObjectReference {
    fn drop(&mut self) {
        change_references(self.0, -1);
    }
}

fn add_reference(address: usize) -> bool {
    change_references(address, 1).is_some()
}

/// Changes the reference count of an object; returns the new one. `None` if there is no object.
fn change_references(address: usize, by: isize) -> Option<isize> {
    let mut objects = objects();
    let object = objects.get_mut(&address)?;
    object.references += by;
    let left = object.references;
    let ended = if left <= 0 { objects.remove(&address) } else { None };
    drop(objects);
    drop(ended);
    Some(left)
}

/// Releases the reference to an object that [`ObjectReference::into_pointer`] made the driver's.
pub(crate) fn release(object: PVOID) {
    change_references(object.addr(), -1);
}

/// References an object for the driver; returns the new count. `None` if there is no object.
fn reference_for_driver(address: usize) -> Option<isize> {
    let count = change_references(address, 1)?;
    owned::add(OwnedKind::Reference, address);
    Some(count)
}

fn kind_of(address: usize) -> Option<&'static ObjectType> {
    if address == crate::ps::system_process() {
        return Some(PsProcessType); // It lives for ever, so that references are not counted.
    }
    objects().get(&address).map(|object| object.kind)
}

fn objects() -> MutexGuard<'static, BTreeMap<usize, Object>> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The object behind a handle.
fn object_behind(handle: usize) -> Option<usize> {
    match handle {
        CURRENT_PROCESS => Some(crate::ps::system_process()),
        CURRENT_THREAD => Some(crate::ps::current_thread()),
        _ => handles::find::<ObjectReference>(handle).map(|object| object.address()),
    }
}

/// References the object behind a handle.
///
/// WINDOWS: documented. The type is compared unless it is NULL.
///
/// # Safety
///
/// `object` is valid for a write; `information` is NULL or valid for a write of eight bytes.
pub unsafe extern "win64-unwind" fn ObReferenceObjectByHandle(
    handle: PVOID,
    access: u32,
    kind: PVOID,
    _mode: i8,
    object: *mut PVOID,
    information: *mut [u32; 2],
) -> NTSTATUS {
    if object.is_null() {
        return STATUS_INVALID_PARAMETER;
    }
    // SAFETY: The caller's contract.
    unsafe { object.write_unaligned(ptr::null_mut()) };
    let Some(address) = object_behind(handle.addr()) else { return STATUS_INVALID_HANDLE };
    let fits = kind_of(address).is_some_and(|actual| kind.is_null() || actual.is(kind));
    if !fits {
        return STATUS_OBJECT_TYPE_MISMATCH;
    }
    reference_for_driver(address);
    // SAFETY: The caller's contract.
    unsafe { object.write_unaligned(ptr::with_exposed_provenance_mut(address)) };
    if !information.is_null() {
        // SAFETY: The caller's contract.
        unsafe { information.write_unaligned([0, access]) };
    }
    STATUS_SUCCESS
}

/// As [`ObReferenceObjectByHandle`]; the tag is ignored.
///
/// # Safety
///
/// As for [`ObReferenceObjectByHandle`].
pub unsafe extern "win64-unwind" fn ObReferenceObjectByHandleWithTag(
    handle: PVOID,
    access: u32,
    kind: PVOID,
    mode: i8,
    _tag: u32,
    object: *mut PVOID,
    information: *mut [u32; 2],
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { ObReferenceObjectByHandle(handle, access, kind, mode, object, information) }
}

/// References an object of a type.
pub extern "win64-unwind" fn ObReferenceObjectByPointer(
    object: PVOID,
    _access: u32,
    kind: PVOID,
    _mode: i8,
) -> NTSTATUS {
    // An object that is not here has an unknown type.
    let other = kind_of(object.addr()).is_some_and(|actual| !kind.is_null() && !actual.is(kind));
    if other {
        return STATUS_OBJECT_TYPE_MISMATCH;
    }
    reference_for_driver(object.addr());
    STATUS_SUCCESS
}

/// As [`ObReferenceObjectByPointer`]; the tag is ignored.
pub extern "win64-unwind" fn ObReferenceObjectByPointerWithTag(
    object: PVOID,
    access: u32,
    kind: PVOID,
    mode: i8,
    _tag: u32,
) -> NTSTATUS {
    ObReferenceObjectByPointer(object, access, kind, mode)
}

/// References an object; returns the new count.
pub extern "win64-unwind" fn ObfReferenceObject(object: PVOID) -> isize {
    reference_for_driver(object.addr()).unwrap_or(1)
}

/// As [`ObfReferenceObject`]; the tag is ignored.
pub extern "win64-unwind" fn ObfReferenceObjectWithTag(object: PVOID, _tag: u32) -> isize {
    ObfReferenceObject(object)
}

/// Releases a reference to an object; returns the new count. The last one ends the object.
pub extern "win64-unwind" fn ObfDereferenceObject(object: PVOID) -> isize {
    owned::remove(OwnedKind::Reference, object.addr());
    change_references(object.addr(), -1).unwrap_or(1)
}

/// As [`ObfDereferenceObject`]; the tag is ignored.
pub extern "win64-unwind" fn ObfDereferenceObjectWithTag(object: PVOID, _tag: u32) -> isize {
    ObfDereferenceObject(object)
}

/// Releases a reference to an object.
pub extern "win64-unwind" fn ObDereferenceObjectDeferDelete(object: PVOID) {
    ObfDereferenceObject(object);
}

/// As [`ObDereferenceObjectDeferDelete`]; the tag is ignored.
pub extern "win64-unwind" fn ObDereferenceObjectDeferDeleteWithTag(object: PVOID, _tag: u32) {
    ObfDereferenceObject(object);
}

/// Closes a handle.
pub extern "win64-unwind" fn ObCloseHandle(handle: PVOID, _mode: i8) -> NTSTATUS {
    if handles::close(handle.addr()) { STATUS_SUCCESS } else { STATUS_INVALID_HANDLE }
}

/// Opens a handle for an object.
///
/// # Safety
///
/// `handle` is valid for a write.
pub unsafe extern "win64-unwind" fn ObOpenObjectByPointer(
    object: PVOID,
    _attributes: u32,
    _access_state: PVOID,
    _access: u32,
    kind: PVOID,
    _mode: i8,
    handle: *mut usize,
) -> NTSTATUS {
    let Some(actual) = kind_of(object.addr()).filter(|_| !handle.is_null()) else {
        return STATUS_INVALID_PARAMETER;
    };
    if !kind.is_null() && !actual.is(kind) {
        return STATUS_OBJECT_TYPE_MISMATCH;
    }
    let opened = ObjectReference::new(object.addr()).map_or(0, ObjectReference::open);
    // SAFETY: The caller's contract.
    unsafe { handle.write_unaligned(opened) };
    STATUS_SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_handle(handle: usize, kind: &'static ObjectType) -> (NTSTATUS, usize) {
        let mut object: PVOID = ptr::null_mut();
        let (handle, kind) = (ptr::without_provenance_mut(handle), ptr::from_ref(kind));
        let (kind, into) = (kind.cast_mut().cast(), &raw mut object);
        // SAFETY: The place is a local variable.
        let status =
            unsafe { ObReferenceObjectByHandle(handle, 0, kind, 0, into, ptr::null_mut()) };
        (status, object.addr())
    }

    #[test]
    fn an_object_lives_while_it_is_referenced() {
        let created = ObjectReference::create(PsThreadType, 64);
        let (address, object) = (created.address(), created.pointer());
        let handle = created.open();
        assert_eq!(by_handle(handle, PsThreadType), (STATUS_SUCCESS, address));
        assert_eq!(by_handle(handle, ExEventObjectType), (STATUS_OBJECT_TYPE_MISMATCH, 0));
        assert_eq!(ObfReferenceObject(object), 3);
        let mut second = 0;
        // SAFETY: The place is a local variable.
        let opened = unsafe {
            ObOpenObjectByPointer(
                object,
                0,
                ptr::null_mut(),
                0,
                ptr::null_mut(),
                0,
                &raw mut second,
            )
        };
        assert_eq!(opened, STATUS_SUCCESS);
        assert_eq!(ObCloseHandle(ptr::without_provenance_mut(handle), 0), STATUS_SUCCESS);
        assert_eq!(ObCloseHandle(ptr::without_provenance_mut(handle), 0), STATUS_INVALID_HANDLE);
        assert!(handles::close(second));
        assert_eq!(by_handle(handle, PsThreadType), (STATUS_INVALID_HANDLE, 0));
        assert_eq!((ObfDereferenceObject(object), kind_of(address).is_some()), (1, true));
        ObDereferenceObjectDeferDelete(object);
        assert!(kind_of(address).is_none(), "the last reference ended it");
    }

    #[test]
    fn a_type_is_the_variables_value() {
        let row = crate::find_import("PsThreadType").unwrap();
        // SAFETY: The row's address is that of the variable.
        let value = unsafe { row.address.cast::<PVOID>().read() };
        assert!(PsThreadType.is(value) && !PsProcessType.is(value));
        assert_eq!(PsThreadType.name(), "Thread");
    }
}
