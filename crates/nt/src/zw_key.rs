//! The registry functions (`ZwOpenKey`, …) under their Windows names.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::Executive;
use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::handles;
use crate::import_table::import_rows;
use crate::registry::{Key, RegistryValue};
use crate::rtl_string::CountedString;
use crate::status::{
    STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_CANNOT_DELETE, STATUS_INVALID_HANDLE,
    STATUS_INVALID_PARAMETER, STATUS_KEY_DELETED, STATUS_NO_MORE_ENTRIES,
    STATUS_OBJECT_NAME_INVALID, STATUS_OBJECT_NAME_NOT_FOUND, STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use abi::{HANDLE, NTSTATUS, PVOID};
use std::sync::Arc;

import_rows! {
    ZwCreateKey lacks "no security, no classes; every key is volatile";
    ZwDeleteKey;
    ZwDeleteValueKey;
    ZwEnumerateKey lacks "no write times, no classes";
    ZwEnumerateValueKey;
    ZwFlushKey;
    ZwOpenKey lacks "no security";
    ZwOpenKeyEx lacks "no security, no options";
    ZwQueryKey lacks "no write times, no classes";
    ZwQueryValueKey;
    ZwSetValueKey;
}

/// What the handle of a key refers to.
#[derive(Debug)]
pub(crate) struct OpenKey {
    executive: Arc<Executive>,
    path: String,
}

/// Opens a key for the running driver. Returns the status and the handle.
pub(crate) fn open_key(executive: &Arc<Executive>, path: String) -> Result<usize, NTSTATUS> {
    if executive.registry().key(&path).is_none() {
        return Err(STATUS_OBJECT_NAME_NOT_FOUND);
    }
    Ok(handles::open(Arc::new(OpenKey { executive: executive.clone(), path })))
}

/// The path of an open key.
pub(crate) fn key_path(handle: usize) -> Option<String> {
    handles::find::<OpenKey>(handle).map(|key| key.path.clone())
}

/// The path that `OBJECT_ATTRIBUTES` name: absolute, or relative to an open key.
fn path_of(attributes: DriverMemory) -> Result<String, NTSTATUS> {
    let (root, name): (usize, _) = (attributes.read(8), attributes.follow(0x10));
    let name = name.non_null().map(|name| CountedString::in_memory(name).text());
    let name = name.unwrap_or_default();
    match root {
        0 if name.starts_with('\\') => Ok(name),
        0 => Err(STATUS_OBJECT_NAME_INVALID),
        root => {
            let key = handles::find::<OpenKey>(root).ok_or(STATUS_INVALID_HANDLE)?;
            Ok(if name.is_empty() { key.path.clone() } else { format!(r"{}\{name}", key.path) })
        }
    }
}

/// The status of a result.
pub(crate) fn status(result: Result<(), NTSTATUS>) -> NTSTATUS {
    result.err().unwrap_or(STATUS_SUCCESS)
}

/// Runs the body of a function on the running driver's executive, at passive level.
fn entered(
    import: &'static str,
    body: impl FnOnce(Arc<Executive>) -> Result<(), NTSTATUS>,
) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        status(Executive::current(import).ok_or(STATUS_UNSUCCESSFUL).and_then(body))
    })
}

/// Runs the body of a function on an open key, at passive level.
fn with_key(
    import: &'static str,
    handle: HANDLE,
    body: impl FnOnce(&OpenKey) -> Result<(), NTSTATUS>,
) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        let key = handles::find::<OpenKey>(handle.addr()).ok_or(STATUS_INVALID_HANDLE);
        status(key.and_then(|key| body(&key)))
    })
}

/// Opens a key.
pub unsafe extern "win64-unwind" fn ZwOpenKey(
    handle: *mut HANDLE,
    _access: u32,
    attributes: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    // SAFETY: The caller's contract.
    let attributes = unsafe { DriverMemory::at(attributes) };
    entered("ZwOpenKey", |executive| {
        handle.write(0, open_key(&executive, path_of(attributes)?)?);
        Ok(())
    })
}

/// Opens a key with options, which are ignored.
pub unsafe extern "win64-unwind" fn ZwOpenKeyEx(
    handle: *mut HANDLE,
    access: u32,
    attributes: PVOID,
    _options: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    unsafe { ZwOpenKey(handle, access, attributes) }
}

/// Opens a key, or creates it. The key above it must exist.
pub unsafe extern "win64-unwind" fn ZwCreateKey(
    handle: *mut HANDLE,
    _access: u32,
    attributes: PVOID,
    _title: u32,
    _class: PVOID,
    _options: u32,
    disposition: *mut u32,
) -> NTSTATUS {
    /// `REG_CREATED_NEW_KEY` and `REG_OPENED_EXISTING_KEY`.
    const CREATED: u32 = 1;
    const OPENED: u32 = 2;
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    // SAFETY: The caller's contract.
    let attributes = unsafe { DriverMemory::at(attributes) };
    // SAFETY: The caller's contract.
    let disposition = unsafe { DriverMemory::at(disposition) };
    entered("ZwCreateKey", |executive| {
        let path = path_of(attributes)?;
        let created = executive.registry().create(&path).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        handle.write(0, open_key(&executive, path)?);
        if let Some(disposition) = disposition.non_null() {
            disposition.write(0, if created { CREATED } else { OPENED });
        }
        Ok(())
    })
}

/// Deletes a key. Its handles stay open; using them fails.
pub unsafe extern "win64-unwind" fn ZwDeleteKey(handle: HANDLE) -> NTSTATUS {
    with_key("ZwDeleteKey", handle, |key| {
        let mut registry = key.executive.registry();
        registry.key(&key.path).ok_or(STATUS_KEY_DELETED)?;
        if registry.remove(&key.path) { Ok(()) } else { Err(STATUS_CANNOT_DELETE) }
    })
}

/// Writes a key to the disk: there is none.
pub unsafe extern "win64-unwind" fn ZwFlushKey(handle: HANDLE) -> NTSTATUS {
    with_key("ZwFlushKey", handle, |_| Ok(()))
}

/// A buffer of a driver for information: fixed fields, then bytes of any length.
struct Information {
    /// The fixed fields.
    fixed: Vec<u8>,
    /// What follows them, at offsets.
    tail: Vec<u8>,
}

impl Information {
    /// Writes the information.
    ///
    /// WINDOWS: documented. If the buffer is too small for the fixed fields, nothing is written and
    /// the status is `STATUS_BUFFER_TOO_SMALL`; if it is too small for the rest, what fits is
    /// written and the status is `STATUS_BUFFER_OVERFLOW`. The needed length is always returned.
    fn write(
        &self,
        buffer: DriverMemory,
        length: u32,
        needed: DriverMemory,
    ) -> Result<(), NTSTATUS> {
        let all = [&self.fixed[..], &self.tail].concat();
        let length = length as usize;
        needed.write(0, u32::try_from(all.len()).unwrap_or(u32::MAX));
        if length < self.fixed.len() {
            return Err(STATUS_BUFFER_TOO_SMALL);
        }
        buffer.write_bytes(&all[..all.len().min(length)]);
        if length < all.len() { Err(STATUS_BUFFER_OVERFLOW) } else { Ok(()) }
    }
}

/// Numbers of 32 bits, one after the other.
fn words(numbers: &[usize]) -> Vec<u8> {
    let word = |number: &usize| u32::try_from(*number).unwrap_or(u32::MAX).to_le_bytes();
    numbers.iter().flat_map(word).collect()
}

/// UTF-16 without a NUL.
fn name_bytes(name: &str) -> Vec<u8> {
    name.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

/// The information of a class (`KEY_VALUE_INFORMATION_CLASS`) about a value.
fn value_information(
    class: u32,
    name: &str,
    value: &RegistryValue,
) -> Result<Information, NTSTATUS> {
    const BASIC: u32 = 0;
    const FULL: u32 = 1;
    const PARTIAL: u32 = 2;
    const FULL_ALIGNED: u32 = 3;
    const PARTIAL_ALIGNED: u32 = 4;
    /// The offset of the name in `KEY_VALUE_FULL_INFORMATION`.
    const FULL_NAME: usize = 0x14;
    let (name, data, kind) = (name_bytes(name), &value.data, value.kind as usize);
    Ok(match class {
        BASIC => Information { fixed: words(&[0, kind, name.len()]), tail: name },
        FULL | FULL_ALIGNED => {
            let start = (FULL_NAME + name.len()).next_multiple_of(8);
            let padding = vec![0; start - FULL_NAME - name.len()];
            Information {
                fixed: words(&[0, kind, start, data.len(), name.len()]),
                tail: [&name[..], &padding, data].concat(),
            }
        }
        PARTIAL => Information { fixed: words(&[0, kind, data.len()]), tail: data.clone() },
        PARTIAL_ALIGNED => Information { fixed: words(&[kind, data.len()]), tail: data.clone() },
        _ => return Err(STATUS_INVALID_PARAMETER),
    })
}

/// Returns information about a value.
pub unsafe extern "win64-unwind" fn ZwQueryValueKey(
    handle: HANDLE,
    name: PVOID,
    class: u32,
    buffer: PVOID,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let name = unsafe { CountedString::at(name) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    with_key("ZwQueryValueKey", handle, |open| {
        let name = name.text();
        let information = {
            let registry = open.executive.registry();
            let key = registry.key(&open.path).ok_or(STATUS_KEY_DELETED)?;
            let position = key.position(&name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
            let (name, value) = &key.values[position];
            value_information(class, name, value)?
        };
        information.write(buffer, length, needed)
    })
}

/// Returns information about the value with this index.
pub unsafe extern "win64-unwind" fn ZwEnumerateValueKey(
    handle: HANDLE,
    index: u32,
    class: u32,
    buffer: PVOID,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    with_key("ZwEnumerateValueKey", handle, |open| {
        let information = {
            let registry = open.executive.registry();
            let key = registry.key(&open.path).ok_or(STATUS_KEY_DELETED)?;
            let value = key.values.get(index as usize).ok_or(STATUS_NO_MORE_ENTRIES)?;
            value_information(class, &value.0, &value.1)?
        };
        information.write(buffer, length, needed)
    })
}

/// The information of a class (`KEY_INFORMATION_CLASS`) about a key.
fn key_information(
    class: u32,
    path: &str,
    key: &Key,
    subkeys: &[&Key],
) -> Result<Information, NTSTATUS> {
    const BASIC: u32 = 0;
    const NODE: u32 = 1;
    const FULL: u32 = 2;
    const NAME: u32 = 3;
    /// No class: its offset is behind everything, so it is all ones.
    const NO_CLASS: usize = u32::MAX as usize;
    let name = name_bytes(&key.name);
    let longest = |lengths: &mut dyn Iterator<Item = usize>| lengths.max().unwrap_or(0);
    // The first two numbers are the time of the last write.
    Ok(match class {
        BASIC => Information { fixed: words(&[0, 0, 0, name.len()]), tail: name },
        NODE => Information { fixed: words(&[0, 0, 0, NO_CLASS, 0, name.len()]), tail: name },
        FULL => {
            let key_name = longest(&mut subkeys.iter().map(|key| name_bytes(&key.name).len()));
            let value_name =
                longest(&mut key.values.iter().map(|(name, _)| name_bytes(name).len()));
            let data = longest(&mut key.values.iter().map(|(_, value)| value.data.len()));
            let counts = [subkeys.len(), key_name, 0, key.values.len(), value_name, data];
            let fixed = words(&[&[0, 0, 0, NO_CLASS, 0][..], &counts].concat());
            Information { fixed, tail: Vec::new() }
        }
        NAME => {
            let path = name_bytes(path);
            Information { fixed: words(&[path.len()]), tail: path }
        }
        _ => return Err(STATUS_INVALID_PARAMETER),
    })
}

/// Returns information about a key.
pub unsafe extern "win64-unwind" fn ZwQueryKey(
    handle: HANDLE,
    class: u32,
    buffer: PVOID,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    with_key("ZwQueryKey", handle, |open| {
        let information = {
            let registry = open.executive.registry();
            let key = registry.key(&open.path).ok_or(STATUS_KEY_DELETED)?;
            key_information(class, &open.path, key, &registry.subkeys(&open.path))?
        };
        information.write(buffer, length, needed)
    })
}

/// Returns information about the subkey with this index.
pub unsafe extern "win64-unwind" fn ZwEnumerateKey(
    handle: HANDLE,
    index: u32,
    class: u32,
    buffer: PVOID,
    length: u32,
    needed: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    with_key("ZwEnumerateKey", handle, |open| {
        let information = {
            let registry = open.executive.registry();
            registry.key(&open.path).ok_or(STATUS_KEY_DELETED)?;
            let subkeys = registry.subkeys(&open.path);
            let key = *subkeys.get(index as usize).ok_or(STATUS_NO_MORE_ENTRIES)?;
            let path = format!(r"{}\{}", open.path, key.name);
            key_information(class, &path, key, &registry.subkeys(&path))?
        };
        information.write(buffer, length, needed)
    })
}

/// Sets a value.
pub unsafe extern "win64-unwind" fn ZwSetValueKey(
    handle: HANDLE,
    name: PVOID,
    _title: u32,
    kind: u32,
    data: PVOID,
    bytes: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let name = unsafe { CountedString::at(name) };
    // SAFETY: The caller's contract.
    let data = unsafe { DriverMemory::at(data) };
    with_key("ZwSetValueKey", handle, |key| {
        let value = RegistryValue { kind, data: data.read_bytes(bytes as usize) };
        let set = key.executive.registry().set(&key.path, &name.text(), value);
        if set { Ok(()) } else { Err(STATUS_KEY_DELETED) }
    })
}

/// Deletes a value.
pub unsafe extern "win64-unwind" fn ZwDeleteValueKey(handle: HANDLE, name: PVOID) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let name = unsafe { CountedString::at(name) };
    with_key("ZwDeleteValueKey", handle, |open| {
        let name = name.text();
        let mut registry = open.executive.registry();
        let key = registry.key_mut(&open.path).ok_or(STATUS_KEY_DELETED)?;
        let position = key.position(&name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        key.values.remove(position);
        Ok(())
    })
}

#[cfg(test)]
#[path = "zw_key_tests.rs"]
mod tests;
