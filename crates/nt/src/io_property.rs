//! Properties, registry keys and interfaces of the driver's device (`IoGetDeviceProperty`, …), under
//! their Windows names. They come from the executive's [`crate::DeviceIdentity`].
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
use crate::registry::{RegistryValue, wide_bytes};
use crate::rtl::guid_text;
use crate::rtl_string::CountedString;
use crate::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
    STATUS_INVALID_PARAMETER_2, STATUS_OBJECT_NAME_EXISTS, STATUS_OBJECT_NAME_NOT_FOUND,
    STATUS_UNSUCCESSFUL,
};
use crate::zw_key::{open_key, status};
use crate::{Executive, ex};
use abi::{BOOLEAN, GUID, HANDLE, NTSTATUS, PDEVICE_OBJECT, PVOID, UNICODE_STRING};
use std::sync::Arc;

import_rows! {
    IoGetDeviceInterfaces lacks "the list is empty";
    IoGetDeviceProperty lacks "no resources";
    IoGetDevicePropertyData lacks "the properties of IoGetDeviceProperty";
    IoInvalidateDeviceRelations lacks "has no effect";
    IoOpenDeviceInterfaceRegistryKey;
    IoOpenDeviceRegistryKey lacks "no hardware profiles";
    IoRegisterDeviceInterface;
    IoSetDeviceInterfaceState lacks "tells no one";
}

/// The tag of lists that the functions allocate.
const LIST_TAG: u32 = u32::from_le_bytes(*b"IoDi");
/// The GUID of the PCI bus, as bytes.
const PCI_BUS: [u8; 16] = [
    0xB0, 0xDF, 0xEB, 0xC8, 0x10, 0xB5, 0xD0, 0x11, 0x80, 0xE5, 0x00, 0xA0, 0xC9, 0x25, 0x42, 0xE3,
];

/// A property of the device (`DEVICE_REGISTRY_PROPERTY`): its value. `None` if the device does not
/// have it.
///
/// # Errors
///
/// `STATUS_INVALID_PARAMETER_2` if there is no property with this number.
fn property(executive: &Executive, number: u32) -> Result<Option<RegistryValue>, NTSTATUS> {
    let identity = executive.identity();
    let binary = |data: &[u8]| RegistryValue { kind: RegistryValue::BINARY, data: data.into() };
    let text = RegistryValue::text;
    Ok(Some(match number {
        0 | 9 => text(&identity.description),
        1 => RegistryValue::texts(&identity.hardware_ids),
        2 => RegistryValue::texts(&identity.compatible_ids),
        5 => text(&identity.class_name),
        6 => text(&identity.class_guid),
        7 => text(&format!(r"{}\0000", identity.class_guid)),
        8 => text(&identity.manufacturer),
        10 => text(&identity.location),
        11 => text(&identity.device_name),
        12 => binary(&PCI_BUS),
        // `PCIBus` of `INTERFACE_TYPE`.
        13 => RegistryValue::number(5),
        14 => RegistryValue::number(identity.bus_number),
        15 => text("PCI"),
        16 => RegistryValue::number(identity.address),
        // Installed; not removable (`RemovalPolicyExpectNoRemoval`).
        18 => RegistryValue::number(0),
        19 => RegistryValue::number(1),
        3 | 4 | 17 | 20..=22 => return Ok(None),
        _ => return Err(STATUS_INVALID_PARAMETER_2),
    }))
}

/// Writes a value whole, or nothing if the buffer is too small. The needed length is always
/// returned.
fn write_whole(
    data: &[u8],
    buffer: DriverMemory,
    length: u32,
    needed: DriverMemory,
) -> Result<(), NTSTATUS> {
    needed.write(0, u32::try_from(data.len()).unwrap_or(u32::MAX));
    if (length as usize) < data.len() {
        return Err(STATUS_BUFFER_TOO_SMALL);
    }
    buffer.write_bytes(data);
    Ok(())
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

/// Returns a property of the device.
///
/// WINDOWS: documented. A buffer that is too small gets `STATUS_BUFFER_TOO_SMALL` and the needed
/// length.
pub unsafe extern "win64-unwind" fn IoGetDeviceProperty(
    _device: PDEVICE_OBJECT,
    number: u32,
    length: u32,
    buffer: PVOID,
    needed: *mut u32,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    entered("IoGetDeviceProperty", |executive| {
        let value = property(&executive, number)?.ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        write_whole(&value.data, buffer, length, needed)
    })
}

/// Returns a property of the device by its key (`DEVPROPKEY`), with its type.
pub unsafe extern "win64-unwind" fn IoGetDevicePropertyData(
    _device: PDEVICE_OBJECT,
    key: PVOID,
    _locale: u32,
    _flags: u32,
    length: u32,
    buffer: PVOID,
    needed: *mut u32,
    kind: *mut u32,
) -> NTSTATUS {
    /// The GUID of the device properties, as bytes: {a45c254e-df1c-4efd-8020-67d146a850e0}.
    const DEVICE: [u8; 16] = [
        0x4E, 0x25, 0x5C, 0xA4, 0x1C, 0xDF, 0xFD, 0x4E, 0x80, 0x20, 0x67, 0xD1, 0x46, 0xA8, 0x50,
        0xE0,
    ];
    /// The numbers of a key and of the property of `IoGetDeviceProperty`.
    const NUMBERS: [(u32, u32); 12] = [
        (2, 0),
        (3, 1),
        (4, 2),
        (9, 5),
        (11, 7),
        (13, 8),
        (14, 9),
        (15, 10),
        (16, 11),
        (23, 14),
        (24, 15),
        (30, 16),
    ];
    /// `DEVPROP_TYPE_UINT32`, `DEVPROP_TYPE_STRING`, `DEVPROP_TYPE_STRING_LIST`.
    const UINT32: u32 = 0x07;
    const STRING: u32 = 0x12;
    const STRING_LIST: u32 = 0x2012;
    // SAFETY: The caller's contract.
    let key = unsafe { DriverMemory::at(key) };
    // SAFETY: The caller's contract.
    let buffer = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let needed = unsafe { DriverMemory::at(needed) };
    // SAFETY: The caller's contract.
    let kind = unsafe { DriverMemory::at(kind) };
    entered("IoGetDevicePropertyData", |executive| {
        let (category, id): ([u8; 16], u32) = (key.read(0), key.read(16));
        let number = NUMBERS.iter().find(|(known, _)| category == DEVICE && *known == id);
        let (_, number) = number.ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        let value = property(&executive, *number)?.ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        kind.write(
            0,
            match value.kind {
                RegistryValue::DWORD => UINT32,
                RegistryValue::MULTI_SZ => STRING_LIST,
                _ => STRING,
            },
        );
        write_whole(&value.data, buffer, length, needed)
    })
}

/// Opens the hardware key or the driver key of the device.
pub unsafe extern "win64-unwind" fn IoOpenDeviceRegistryKey(
    _device: PDEVICE_OBJECT,
    kind: u32,
    _access: u32,
    handle: *mut HANDLE,
) -> NTSTATUS {
    /// `PLUGPLAY_REGKEY_DEVICE` and `PLUGPLAY_REGKEY_DRIVER`.
    const DEVICE: u32 = 1;
    const DRIVER: u32 = 2;
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    entered("IoOpenDeviceRegistryKey", |executive| {
        let path = match kind {
            DEVICE => executive.device_key() + r"\Device Parameters",
            DRIVER => executive.driver_key(),
            _ => return Err(STATUS_INVALID_PARAMETER),
        };
        handle.write(0, open_key(&executive, path)?);
        Ok(())
    })
}

/// Registers an interface of the device. Returns its symbolic link, in a buffer that the driver
/// frees with `RtlFreeUnicodeString`.
pub unsafe extern "win64-unwind" fn IoRegisterDeviceInterface(
    _device: PDEVICE_OBJECT,
    class: *const GUID,
    reference: *const UNICODE_STRING,
    link: *mut UNICODE_STRING,
) -> NTSTATUS {
    const NAME: &str = "IoRegisterDeviceInterface";
    // SAFETY: The caller's contract.
    let class = unsafe { DriverMemory::at(class) };
    // SAFETY: The caller's contract.
    let reference = unsafe { DriverMemory::at(reference) }.non_null();
    // SAFETY: The caller's contract.
    let link = unsafe { DriverMemory::at(link) };
    entered(NAME, |executive| {
        let identity = executive.identity();
        let id = identity.hardware_ids.first().map_or("ROOT#UNKNOWN", String::as_str);
        let device = format!(r"{id}\{}", identity.instance).replace('\\', "#");
        let class = guid_text(class.read(0)).to_lowercase();
        let mut text = format!(r"\??\{device}#{class}");
        if let Some(reference) = reference.map(|name| CountedString::in_memory(name).text()) {
            text = format!(r"{text}\{reference}");
        }
        let bytes = wide_bytes(&text);
        let block = ex::allocate(NAME, bytes.len(), LIST_TAG, false, true);
        let block = block.ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        let maximum = u16::try_from(bytes.len()).map_err(|_| STATUS_INSUFFICIENT_RESOURCES)?;
        link.write(0, maximum - 2);
        link.write(2, maximum);
        link.write(8, block);
        link.follow(8).write_bytes(&bytes);
        executive.io().interfaces.entry(text.to_uppercase()).or_insert(false);
        Ok(())
    })
}

/// Enables or disables an interface.
///
/// WINDOWS: documented. An interface that is enabled already gets `STATUS_OBJECT_NAME_EXISTS`; one
/// that is not enabled cannot be disabled.
pub unsafe extern "win64-unwind" fn IoSetDeviceInterfaceState(
    link: *const UNICODE_STRING,
    enable: BOOLEAN,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let link = unsafe { CountedString::at(link) };
    entered("IoSetDeviceInterfaceState", |executive| {
        let mut io = executive.io();
        let enabled = io.interfaces.get_mut(&link.text().to_uppercase());
        let enabled = enabled.ok_or(STATUS_OBJECT_NAME_NOT_FOUND)?;
        match (enable != 0, *enabled) {
            (true, true) => Err(STATUS_OBJECT_NAME_EXISTS),
            (false, false) => Err(STATUS_OBJECT_NAME_NOT_FOUND),
            (enable, _) => {
                *enabled = enable;
                Ok(())
            }
        }
    })
}

/// The interfaces of a class: an empty list, which the driver frees with `ExFreePool`.
pub unsafe extern "win64-unwind" fn IoGetDeviceInterfaces(
    _class: *const GUID,
    _device: PDEVICE_OBJECT,
    _flags: u32,
    list: *mut *mut u16,
) -> NTSTATUS {
    const NAME: &str = "IoGetDeviceInterfaces";
    // SAFETY: The caller's contract.
    let list = unsafe { DriverMemory::at(list) };
    entered(NAME, |_| {
        let block = ex::allocate(NAME, 2, LIST_TAG, true, true);
        list.write(0, block.ok_or(STATUS_INSUFFICIENT_RESOURCES)?);
        Ok(())
    })
}

/// Opens the registry key of an interface.
pub unsafe extern "win64-unwind" fn IoOpenDeviceInterfaceRegistryKey(
    link: *const UNICODE_STRING,
    _access: u32,
    handle: *mut HANDLE,
) -> NTSTATUS {
    const CLASSES: &str = r"\Registry\Machine\System\CurrentControlSet\Control\DeviceClasses";
    // SAFETY: The caller's contract.
    let link = unsafe { CountedString::at(link) };
    // SAFETY: The caller's contract.
    let handle = unsafe { DriverMemory::at(handle) };
    entered("IoOpenDeviceInterfaceRegistryKey", |executive| {
        let link = link.text();
        if !executive.io().interfaces.contains_key(&link.to_uppercase()) {
            return Err(STATUS_OBJECT_NAME_NOT_FOUND);
        }
        let path = format!(r"{CLASSES}\{}\Device Parameters", link.replace('\\', "#"));
        executive.registry().create_all(&path);
        handle.write(0, open_key(&executive, path)?);
        Ok(())
    })
}

/// Tells the system that relations of the device changed: nothing follows.
pub unsafe extern "win64-unwind" fn IoInvalidateDeviceRelations(
    _device: PDEVICE_OBJECT,
    _kind: u32,
) {
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, count, fly, wide};
    use std::ptr::null_mut;

    fn get(number: u32, length: u32) -> (NTSTATUS, u32, Vec<u8>) {
        let (mut buffer, mut needed) = (vec![0xEE_u8; 256], 0);
        let (to, needs) = (buffer.as_mut_ptr().cast(), &raw mut needed);
        let status = call!(IoGetDeviceProperty, null_mut(), number, length, to, needs);
        buffer.truncate(needed as usize);
        (status, needed, buffer)
    }

    #[test]
    fn a_property_is_returned_whole_or_not_at_all() {
        fly(|| {
            let (status, needed, data) = get(1, 256);
            let expected = Executive::current("a test").unwrap();
            let expected = RegistryValue::texts(&expected.identity().hardware_ids).data;
            assert_eq!((status, data), (0, expected));
            let (status, again, data) = get(1, needed - 1);
            assert_eq!((status, again, data[0]), (STATUS_BUFFER_TOO_SMALL, needed, 0xEE));
            assert_eq!(get(14, 4), (0, 4, vec![0; 4]));
            assert_eq!(get(16, 4).2, [0, 0, 2, 0]);
            assert_eq!(get(12, 16).2, PCI_BUS);
            assert_eq!(get(20, 256).0, STATUS_OBJECT_NAME_NOT_FOUND, "no resources");
            assert_eq!(get(99, 256).0, STATUS_INVALID_PARAMETER_2);
        });
    }

    #[test]
    fn a_property_by_its_key_has_a_type() {
        fly(|| {
            let category = 0x4EFD_DF1C_A45C_254E_u64;
            let get = |id: u32| {
                let mut key = [0_u32; 5];
                key[0] = u32::try_from(category & 0xFFFF_FFFF).unwrap();
                key[1] = u32::try_from(category >> 32).unwrap();
                (key[2], key[3], key[4]) = (0xD167_2080, 0xE050_A846, id);
                let (mut buffer, mut needed, mut kind) = ([0_u32; 8], 0, 0);
                let (to, needs, kinds) =
                    (buffer.as_mut_ptr().cast(), &raw mut needed, &raw mut kind);
                let (device, key) = (null_mut(), key.as_mut_ptr().cast());
                let status =
                    call!(IoGetDevicePropertyData, device, key, 0, 0, 32, to, needs, kinds);
                (status, kind, buffer[0])
            };
            assert_eq!(get(30), (0, 7, 2 << 16), "the address");
            assert_eq!(get(24), (0, 0x12, 0x0043_0050), "PCI");
            assert_eq!(get(3).0, STATUS_BUFFER_TOO_SMALL);
            assert_eq!(get(77).0, STATUS_OBJECT_NAME_NOT_FOUND);
        });
    }

    #[test]
    fn the_keys_of_the_device_are_opened() {
        fly(|| {
            let open = |kind| {
                let mut handle = null_mut();
                let status = call!(IoOpenDeviceRegistryKey, null_mut(), kind, 0, &raw mut handle);
                (status, handle.is_null(), call!(crate::zw::ZwClose, handle))
            };
            assert_eq!((open(1), open(2)), ((0, false, 0), (0, false, 0)));
            assert_eq!(open(3).0, STATUS_INVALID_PARAMETER);
        });
    }

    #[test]
    fn an_interface_is_registered_enabled_and_disabled() {
        let events = fly(|| {
            let class = GUID { Data1: 0x1CA0_5180, Data2: 1, Data3: 2, Data4: [3; 8] };
            let mut link = [0_u64; 2];
            let pointer: *mut UNICODE_STRING = link.as_mut_ptr().cast();
            let register = call!(
                IoRegisterDeviceInterface,
                null_mut(),
                &raw const class,
                std::ptr::null(),
                pointer
            );
            assert_eq!(register, 0);
            let text = call!(CountedString::at::<UNICODE_STRING>, pointer).text();
            assert!(text.starts_with(r"\??\PCI#VEN_5754&DEV_0001"), "{text}");
            assert!(text.ends_with("#{1ca05180-0001-0002-0303-030303030303}"), "{text}");
            let set = |enable| call!(IoSetDeviceInterfaceState, pointer, enable);
            assert_eq!((set(0), set(1)), (STATUS_OBJECT_NAME_NOT_FOUND, 0));
            assert_eq!((set(1), set(0)), (STATUS_OBJECT_NAME_EXISTS, 0));
            let mut handle = null_mut();
            let opened = call!(IoOpenDeviceInterfaceRegistryKey, pointer, 0, &raw mut handle);
            assert_eq!((opened, call!(crate::zw::ZwClose, handle)), (0, 0));
            call!(crate::rtl_string::RtlFreeUnicodeString, pointer.cast());
            let mut other = crate::entry::tests::TestString::new("none");
            let status = call!(IoSetDeviceInterfaceState, other.pointer().cast(), 1);
            assert_eq!(status, STATUS_OBJECT_NAME_NOT_FOUND);
            let mut list = null_mut();
            let none: PDEVICE_OBJECT = null_mut();
            let listed = call!(IoGetDeviceInterfaces, &raw const class, none, 0, &raw mut list);
            let first: u16 = call!(DriverMemory::at::<u16>, list).read(0);
            assert_eq!((listed, first), (0, wide("")[0]));
            // SAFETY: The test does not use the list after this.
            unsafe { crate::ExFreePool(list.cast()) };
            call!(IoInvalidateDeviceRelations, null_mut(), 0);
        });
        assert_eq!((count(&events, "pool.leaked"), count(&events, "pool.bad-free")), (0, 0));
    }
}
