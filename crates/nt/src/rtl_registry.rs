//! The registry functions of the run-time library (`RtlQueryRegistryValues`, …), under their Windows
//! names.
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
use crate::import_table::import_rows;
use crate::io::function_at;
use crate::registry::RegistryValue;
use crate::rtl_string::store_text;
use crate::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INVALID_HANDLE, STATUS_INVALID_PARAMETER,
    STATUS_OBJECT_NAME_NOT_FOUND, STATUS_OBJECT_TYPE_MISMATCH, STATUS_UNSUCCESSFUL,
};
use crate::zw_key::{key_path, status};
use abi::{NTSTATUS, PVOID, nt_success};
use std::sync::Arc;

import_rows! {
    RtlCheckRegistryKey;
    RtlCreateRegistryKey;
    RtlDeleteRegistryValue;
    RtlQueryRegistryValues lacks "no environment variables";
    RtlWriteRegistryValue;
}

/// `RelativeTo`: what the path is relative to, and two flags.
const HANDLE: u32 = 0x4000_0000;
const OPTIONAL: u32 = 0x8000_0000;
const ROOTS: [&str; 6] = [
    "",
    r"\Registry\Machine\System\CurrentControlSet\Services\",
    r"\Registry\Machine\System\CurrentControlSet\Control\",
    r"\Registry\Machine\Software\Microsoft\Windows NT\CurrentVersion\",
    r"\Registry\Machine\Hardware\DeviceMap\",
    r"\Registry\User\CurrentUser\",
];

/// The size of an entry of the query table, and its fields.
const ENTRY: usize = 0x38;
mod entry {
    pub(super) const FLAGS: usize = 0x08;
    pub(super) const NAME: usize = 0x10;
    pub(super) const CONTEXT: usize = 0x18;
    pub(super) const DEFAULT_TYPE: usize = 0x20;
    pub(super) const DEFAULT_DATA: usize = 0x28;
    pub(super) const DEFAULT_LENGTH: usize = 0x30;
}

/// `Flags` of an entry.
const SUBKEY: u32 = 0x01;
const TOPKEY: u32 = 0x02;
const REQUIRED: u32 = 0x04;
const NOVALUE: u32 = 0x08;
const NOEXPAND: u32 = 0x10;
const DIRECT: u32 = 0x20;
const DELETE: u32 = 0x40;
const TYPECHECK: u32 = 0x100;

/// The longest name.
const MAX_NAME: usize = 1 << 14;

/// A query routine of the driver.
type Routine =
    unsafe extern "win64-unwind" fn(*const u16, u32, PVOID, u32, PVOID, PVOID) -> NTSTATUS;

/// The path of the key that a function names.
fn path_of(relative_to: u32, path: DriverMemory) -> Result<String, NTSTATUS> {
    if relative_to & HANDLE != 0 {
        return key_path(path.address()).ok_or(STATUS_INVALID_HANDLE);
    }
    let root = ROOTS.get((relative_to & !OPTIONAL) as usize).ok_or(STATUS_INVALID_PARAMETER)?;
    let name = path.non_null().map(|path| path.read_wide_string(MAX_NAME)).unwrap_or_default();
    Ok(format!("{root}{}", String::from_utf16_lossy(&name)))
}

/// Runs the body of a function on a key, at passive level.
fn with_path(
    import: &'static str,
    relative_to: u32,
    path: DriverMemory,
    body: impl FnOnce(&Arc<Executive>, String) -> Result<(), NTSTATUS>,
) -> NTSTATUS {
    guarded(STATUS_UNSUCCESSFUL, || {
        judge_irql(import);
        let executive = Executive::current(import).ok_or(STATUS_UNSUCCESSFUL);
        status(executive.and_then(|executive| body(&executive, path_of(relative_to, path)?)))
    })
}

/// A name that ends with a NUL.
fn name_of(name: DriverMemory) -> String {
    String::from_utf16_lossy(&name.read_wide_string(MAX_NAME))
}

/// Whether a key exists.
pub unsafe extern "win64-unwind" fn RtlCheckRegistryKey(
    relative_to: u32,
    path: *const u16,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let path = unsafe { DriverMemory::at(path) };
    with_path("RtlCheckRegistryKey", relative_to, path, |executive, path| {
        let found = executive.registry().key(&path).is_some();
        if found { Ok(()) } else { Err(STATUS_OBJECT_NAME_NOT_FOUND) }
    })
}

/// Creates a key. The key above it must exist.
pub unsafe extern "win64-unwind" fn RtlCreateRegistryKey(
    relative_to: u32,
    path: *const u16,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let path = unsafe { DriverMemory::at(path) };
    with_path("RtlCreateRegistryKey", relative_to, path, |executive, path| {
        let created = executive.registry().create(&path);
        created.map(|_| ()).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)
    })
}

/// Sets a value.
pub unsafe extern "win64-unwind" fn RtlWriteRegistryValue(
    relative_to: u32,
    path: *const u16,
    name: *const u16,
    kind: u32,
    data: PVOID,
    length: u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let path = unsafe { DriverMemory::at(path) };
    // SAFETY: The caller's contract.
    let name = unsafe { DriverMemory::at(name) };
    // SAFETY: The caller's contract.
    let data = unsafe { DriverMemory::at(data) };
    with_path("RtlWriteRegistryValue", relative_to, path, |executive, path| {
        let value = RegistryValue { kind, data: data.read_bytes(length as usize) };
        let set = executive.registry().set(&path, &name_of(name), value);
        if set { Ok(()) } else { Err(STATUS_OBJECT_NAME_NOT_FOUND) }
    })
}

/// Deletes a value.
pub unsafe extern "win64-unwind" fn RtlDeleteRegistryValue(
    relative_to: u32,
    path: *const u16,
    name: *const u16,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let path = unsafe { DriverMemory::at(path) };
    // SAFETY: The caller's contract.
    let name = unsafe { DriverMemory::at(name) };
    with_path("RtlDeleteRegistryValue", relative_to, path, |executive, path| {
        delete(executive, &path, &name_of(name))
    })
}

fn delete(executive: &Executive, path: &str, name: &str) -> Result<(), NTSTATUS> {
    let mut registry = executive.registry();
    let key = registry.key_mut(path).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
    let position = key.position(name).ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
    key.values.remove(position);
    Ok(())
}

/// Queries the values that a table names: calls its routines, or stores the values directly.
pub unsafe extern "win64-unwind" fn RtlQueryRegistryValues(
    relative_to: u32,
    path: *const u16,
    table: PVOID,
    context: PVOID,
    _environment: PVOID,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let path = unsafe { DriverMemory::at(path) };
    // SAFETY: The caller's contract.
    let table = unsafe { DriverMemory::at(table) };
    with_path("RtlQueryRegistryValues", relative_to, path, |executive, top| {
        let found = executive.registry().key(&top).is_some();
        if !found && relative_to & OPTIONAL == 0 {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        let mut key = top.clone();
        for index in 0.. {
            let row = Row { fields: table.part(index * ENTRY), executive, context };
            let flags = row.flags();
            let named = row.fields.follow(entry::NAME).non_null();
            if row.fields.read::<usize>(0) == 0 && named.is_none() {
                return Ok(());
            }
            if flags & (TOPKEY | SUBKEY) != 0 {
                key.clone_from(&top);
            }
            if flags & SUBKEY != 0 {
                key = format!(r"{top}\{}", name_of(named.ok_or(STATUS_INVALID_PARAMETER)?));
                let exists = executive.registry().key(&key).is_some();
                if !exists && flags & REQUIRED != 0 {
                    return Err(STATUS_OBJECT_NAME_NOT_FOUND);
                }
                if row.fields.read::<usize>(0) != 0 {
                    row.query_all(&key)?;
                }
            } else if flags & NOVALUE != 0 {
                row.call(None, &RegistryValue { kind: 0, data: Vec::new() })?;
            } else if let Some(name) = named {
                row.query(&key, &name_of(name))?;
            } else {
                row.query_all(&key)?;
            }
        }
        Ok(())
    })
}

/// An entry of a query table.
struct Row<'a> {
    fields: DriverMemory,
    executive: &'a Executive,
    context: PVOID,
}

impl Row<'_> {
    fn flags(&self) -> u32 {
        self.fields.read(entry::FLAGS)
    }

    /// Queries one value, or its default.
    fn query(&self, key: &str, name: &str) -> Result<(), NTSTATUS> {
        let found = self.executive.registry_value(key, name);
        let exists = found.is_some();
        if !exists && self.flags() & REQUIRED != 0 {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        if let Some(value) = found.or_else(|| self.default()) {
            self.deliver(name, &value)?;
        }
        if exists && self.flags() & DELETE != 0 {
            delete(self.executive, key, name)?;
        }
        Ok(())
    }

    /// Queries all values of a key.
    fn query_all(&self, key: &str) -> Result<(), NTSTATUS> {
        let values = self.executive.registry().key(key).map(|key| key.values.clone());
        let values = values.unwrap_or_default();
        if values.is_empty() && self.flags() & REQUIRED != 0 {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        values.iter().try_for_each(|(name, value)| self.deliver(name, value))
    }

    /// The default value. WINDOWS: documented. The length of a text may be zero; then its NUL
    /// counts.
    fn default(&self) -> Option<RegistryValue> {
        let kind = self.fields.read::<u32>(entry::DEFAULT_TYPE) & 0x00FF_FFFF;
        let data = self.fields.follow(entry::DEFAULT_DATA).non_null().filter(|_| kind != 0)?;
        let length = self.fields.read::<u32>(entry::DEFAULT_LENGTH) as usize;
        let length = match (length, kind) {
            (0, RegistryValue::SZ | RegistryValue::EXPAND_SZ) => {
                (data.read_wide_string(MAX_NAME).len() + 1) * 2
            }
            (length, _) => length,
        };
        Some(RegistryValue { kind, data: data.read_bytes(length) })
    }

    fn deliver(&self, name: &str, value: &RegistryValue) -> Result<(), NTSTATUS> {
        if self.flags() & DIRECT != 0 {
            return self.store(value);
        }
        if value.kind != RegistryValue::MULTI_SZ || self.flags() & NOEXPAND != 0 {
            return self.call(Some(name), value);
        }
        // WINDOWS: documented. The routine is called for each text of a list.
        let units: Vec<u16> = units_of(&value.data);
        let texts = units.split(|unit| *unit == 0).filter(|text| !text.is_empty());
        texts.into_iter().try_for_each(|text| {
            self.call(Some(name), &RegistryValue::text(&String::from_utf16_lossy(text)))
        })
    }

    /// Stores a value where the entry's context points to.
    fn store(&self, value: &RegistryValue) -> Result<(), NTSTATUS> {
        /// The expected type in the upper bits of the default type (`RTL_QUERY_REGISTRY_TYPECHECK`).
        const TYPE_SHIFT: u32 = 24;
        let expected = self.fields.read::<u32>(entry::DEFAULT_TYPE) >> TYPE_SHIFT;
        if self.flags() & TYPECHECK != 0 && expected != value.kind {
            return Err(STATUS_OBJECT_TYPE_MISMATCH);
        }
        let target = self.fields.follow(entry::CONTEXT);
        match value.kind {
            RegistryValue::SZ | RegistryValue::EXPAND_SZ => {
                let mut units = units_of(&value.data);
                if units.last() == Some(&0) {
                    units.pop();
                }
                let stored = store_text("RtlQueryRegistryValues", target, &units);
                if nt_success(stored) { Ok(()) } else { Err(stored) }
            }
            _ if value.data.len() <= 4 => {
                target.write_bytes(&value.data);
                Ok(())
            }
            _ => {
                // WINDOWS: documented. The buffer begins with its length as a negative number.
                let room = target.read::<i32>(0);
                let fits = room < 0 && value.data.len() <= room.unsigned_abs() as usize;
                if fits {
                    target.write_bytes(&value.data);
                } else {
                    return Err(STATUS_BUFFER_TOO_SMALL);
                }
                Ok(())
            }
        }
    }

    /// Calls the entry's routine.
    fn call(&self, name: Option<&str>, value: &RegistryValue) -> Result<(), NTSTATUS> {
        // SAFETY: The driver's table has a query routine there.
        let routine = unsafe { function_at::<Routine>(self.fields.read(0)) };
        let Some(routine) = routine else { return Ok(()) };
        let name: Option<Vec<u16>> = name.map(|name| name.encode_utf16().chain([0]).collect());
        let name = name.as_ref().map_or(std::ptr::null(), Vec::as_ptr);
        let mut data = value.data.clone();
        let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
        let entry_context = self.fields.follow(entry::CONTEXT).pointer();
        let bytes: PVOID = data.as_mut_ptr().cast();
        // SAFETY: The routine is called as its documentation says; name and data outlive the call.
        let status =
            unsafe { routine(name, value.kind, bytes, length, self.context, entry_context) };
        // WINDOWS: documented. `STATUS_BUFFER_TOO_SMALL` does not end the query.
        if nt_success(status) || status == STATUS_BUFFER_TOO_SMALL { Ok(()) } else { Err(status) }
    }
}

/// Bytes as UTF-16 code units.
fn units_of(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly_with, wide};
    use crate::status::STATUS_SUCCESS;
    use std::ptr::null_mut;

    const OK: NTSTATUS = STATUS_SUCCESS;

    /// A table of entries of seven words.
    fn row(routine: usize, flags: u32, name: &[u16], context: usize, default: u64) -> [u64; 7] {
        let name = name.as_ptr().expose_provenance() as u64;
        let (kind, data) = if default == 0 { (0, 0) } else { (4, default) };
        [routine as u64, flags.into(), name, context as u64, kind, data, 4]
    }

    fn planted() -> (Arc<Executive>, Vec<u16>) {
        let executive = Executive::new("planted");
        let key = executive.service_key();
        executive.set_registry_value(&key, "Number", RegistryValue::number(7));
        executive.set_registry_value(&key, "Text", RegistryValue::text("wind"));
        executive.set_registry_value(&key, "List", RegistryValue::texts(&["a", "bc"]));
        (executive, wide("planted"))
    }

    fn query(path: &[u16], rows: &[[u64; 7]]) -> NTSTATUS {
        let mut table = rows.concat();
        table.extend([0; 7]);
        let table = table.as_mut_ptr().cast();
        call!(RtlQueryRegistryValues, 1, path.as_ptr(), table, null_mut(), null_mut())
    }

    #[test]
    fn values_are_stored_directly() {
        let (executive, path) = planted();
        let names = ["Number", "Text", "None", "List"].map(wide);
        let (mut number, mut text, mut other, default) = (0_u32, [0_u64; 2], 0_u32, 9_u32);
        let [to_number, to_other] =
            [&raw mut number, &raw mut other].map(<*mut u32>::expose_provenance);
        let to_text = text.as_mut_ptr().expose_provenance();
        let default = (&raw const default).expose_provenance() as u64;
        let events = fly_with(&executive, || {
            let rows = [
                row(0, DIRECT, &names[0], to_number, 0),
                row(0, DIRECT, &names[1], to_text, 0),
                row(0, DIRECT, &names[2], to_other, default),
            ];
            assert_eq!(query(&path, &rows), OK);
            let string = call!(crate::rtl_string::CountedString::at::<u64>, text.as_ptr());
            assert_eq!(string.text(), "wind");
            call!(crate::rtl_string::RtlFreeUnicodeString, text.as_mut_ptr().cast());
            let required = row(0, DIRECT | REQUIRED, &names[2], to_other, default);
            assert_eq!(query(&path, &[required]), STATUS_OBJECT_NAME_NOT_FOUND);
            let mut typed = row(0, DIRECT | TYPECHECK, &names[0], to_number, 0);
            typed[4] = 1 << 24;
            assert_eq!(query(&path, &[typed]), STATUS_OBJECT_TYPE_MISMATCH);
            assert_eq!(query(&wide("nothing"), &rows), STATUS_OBJECT_NAME_NOT_FOUND);
        });
        assert_eq!((number, other, count(&events, "pool.leaked")), (7, 9, 0));
    }

    /// Counts its calls and the bytes of their values.
    unsafe extern "win64-unwind" fn routine(
        _name: *const u16,
        _kind: u32,
        _data: PVOID,
        length: u32,
        _context: PVOID,
        entry_context: PVOID,
    ) -> NTSTATUS {
        let sums = call!(DriverMemory::at::<std::ffi::c_void>, entry_context);
        sums.write(0, sums.read::<u32>(0) + 1);
        sums.write(4, sums.read::<u32>(4) + length);
        OK
    }

    #[test]
    fn a_routine_is_called_for_each_text_of_a_list() {
        let (executive, path) = planted();
        let names = ["List", "Parameters"].map(wide);
        let mut sums = [0_u32; 2];
        let to = sums.as_mut_ptr().expose_provenance();
        let function = (routine as *const ()).expose_provenance();
        fly_with(&executive, || {
            assert_eq!(query(&path, &[row(function, 0, &names[0], to, 0)]), OK);
            assert_eq!(std::mem::take(&mut sums), [2, 10]);
            assert_eq!(query(&path, &[row(function, NOEXPAND, &names[0], to, 0)]), OK);
            assert_eq!(std::mem::take(&mut sums), [1, 12]);
            let mut all = row(function, 0, &names[0], to, 0);
            all[2] = 0;
            assert_eq!(query(&path, &[all]), OK);
            assert!(std::mem::take(&mut sums)[0] > 5, "every value");
            let below = row(0, SUBKEY, &names[1], to, 0);
            assert_eq!(query(&path, &[below, row(function, 0, &names[0], to, 0)]), OK);
            assert_eq!(sums, [0, 0], "the subkey has no such value");
        });
    }

    #[test]
    fn values_are_written_and_deleted() {
        let (executive, path) = planted();
        let (name, mut value) = (wide("New"), 5_u32);
        fly_with(&executive, || {
            let (path, name, data) = (path.as_ptr(), name.as_ptr(), (&raw mut value).cast());
            assert_eq!(call!(RtlWriteRegistryValue, 1, path, name, 4, data, 4), OK);
            let key = executive.service_key();
            assert_eq!(executive.registry_value(&key, "new"), Some(RegistryValue::number(5)));
            assert_eq!(call!(RtlDeleteRegistryValue, 1, path, name), OK);
            let again = call!(RtlDeleteRegistryValue, 1, path, name);
            assert_eq!(again, STATUS_OBJECT_NAME_NOT_FOUND);
            let below = wide(r"planted\Below");
            assert_eq!(call!(RtlCheckRegistryKey, 1, below.as_ptr()), STATUS_OBJECT_NAME_NOT_FOUND);
            assert_eq!(call!(RtlCreateRegistryKey, 1, below.as_ptr()), OK);
            assert_eq!(call!(RtlCheckRegistryKey, 1, below.as_ptr()), OK);
            assert_eq!(call!(RtlCheckRegistryKey, 77, path), STATUS_INVALID_PARAMETER);
        });
    }
}
