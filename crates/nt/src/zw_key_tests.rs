//! Tests of the registry functions.

use super::*;
use crate::entry::tests::{TestAttributes, TestString, call, count, fly};
use crate::zw::ZwClose;
use std::ptr::null_mut;

fn open(root: HANDLE, path: &str) -> (NTSTATUS, HANDLE) {
    let mut handle = null_mut();
    let mut attributes = TestAttributes::new(root, path);
    let status = call!(ZwOpenKey, &raw mut handle, 0, attributes.pointer());
    (status, handle)
}

fn create(root: HANDLE, path: &str) -> (NTSTATUS, u32, HANDLE) {
    let (mut handle, mut disposition) = (null_mut(), 0);
    let mut attributes = TestAttributes::new(root, path);
    let (to, how) = (&raw mut handle, &raw mut disposition);
    let status = call!(ZwCreateKey, to, 0, attributes.pointer(), 0, null_mut(), 0, how);
    (status, disposition, handle)
}

/// Queries a value with a buffer of this length. Returns status, needed length and the buffer.
fn query(key: HANDLE, name: &str, class: u32, length: u32) -> (NTSTATUS, u32, [u32; 16]) {
    let (mut buffer, mut needed) = ([0xEEEE_EEEE; 16], 0);
    let (to, needs) = (buffer.as_mut_ptr().cast(), &raw mut needed);
    let mut name = TestString::new(name);
    let status = call!(ZwQueryValueKey, key, name.pointer(), class, to, length, needs);
    (status, needed, buffer)
}

fn set(key: HANDLE, name: &str, value: u32) -> NTSTATUS {
    let mut value = value;
    let data = (&raw mut value).cast();
    call!(ZwSetValueKey, key, TestString::new(name).pointer(), 0, RegistryValue::DWORD, data, 4)
}

#[test]
fn a_driver_opens_its_service_key_and_below_it() {
    let events = fly(|| {
        let path = Executive::current("a test").unwrap().service_key();
        let (status, service) = open(null_mut(), &path);
        assert_eq!(status, STATUS_SUCCESS);
        let (status, parameters) = open(service, "parameters");
        assert_eq!(status, STATUS_SUCCESS);
        assert_eq!(open(service, "Nothing").0, STATUS_OBJECT_NAME_NOT_FOUND);
        assert_eq!(open(null_mut(), "Parameters").0, STATUS_OBJECT_NAME_INVALID);
        assert_eq!((call!(ZwClose, service), call!(ZwClose, parameters)), (0, 0));
        assert_eq!(query(service, "Start", 2, 64).0, STATUS_INVALID_HANDLE, "it is closed");
    });
    assert_eq!(count(&events, "rule.broken"), 0);
}

#[test]
fn a_short_buffer_gets_what_fits_and_the_needed_length() {
    fly(|| {
        let path = Executive::current("a test").unwrap().service_key();
        let (_, key) = open(null_mut(), &path);
        assert_eq!(set(key, "Mode", 0x1234), 0);
        let (status, needed, buffer) = query(key, "mode", 2, 64);
        assert_eq!((status, needed, &buffer[..5]), (0, 16, &[0, 4, 4, 0x1234, 0xEEEE_EEEE][..]));
        let (status, needed, buffer) = query(key, "Mode", 2, 14);
        assert_eq!((status, needed, buffer[3]), (STATUS_BUFFER_OVERFLOW, 16, 0xEEEE_1234));
        let (status, needed, buffer) = query(key, "Mode", 2, 11);
        assert_eq!((status, needed, buffer[0]), (STATUS_BUFFER_TOO_SMALL, 16, 0xEEEE_EEEE));
        let (status, needed, buffer) = query(key, "Mode", 0, 64);
        assert_eq!((status, needed, buffer[2], buffer[3]), (0, 20, 8, 0x006F_004D), "basic");
        let (_, needed, buffer) = query(key, "Mode", 1, 64);
        assert_eq!((needed, &buffer[2..5], buffer[8]), (36, &[32, 4, 8][..], 0x1234), "full");
        assert_eq!(query(key, "Mode", 9, 64).0, STATUS_INVALID_PARAMETER);
        assert_eq!(query(key, "None", 2, 64).0, STATUS_OBJECT_NAME_NOT_FOUND);
    });
}

#[test]
fn keys_and_values_are_listed_and_deleted() {
    fly(|| {
        let path = Executive::current("a test").unwrap().service_key();
        let (_, service) = open(null_mut(), &path);
        let (status, disposition, key) = create(service, "New");
        assert_eq!((status, disposition), (0, 1));
        assert_eq!(create(service, "new").1, 2, "it exists");
        assert_eq!(create(service, r"A\B").0, STATUS_OBJECT_NAME_NOT_FOUND);
        let (mut buffer, mut needed) = ([0_u32; 16], 0);
        let (to, needs): (PVOID, _) = (buffer.as_mut_ptr().cast(), &raw mut needed);
        assert_eq!(call!(ZwEnumerateKey, service, 0, 0, to, 64, needs), 0);
        assert_eq!((buffer[3], buffer[4], needed), (6, 0x0065_004E, 22), "New, then Parameters");
        assert_eq!(call!(ZwEnumerateKey, service, 2, 0, to, 64, needs), STATUS_NO_MORE_ENTRIES);
        assert_eq!((set(key, "A", 7), set(key, "Long", 8)), (0, 0));
        assert_eq!(call!(ZwQueryKey, key, 2, to, 64, needs), 0);
        assert_eq!((needed, &buffer[5..11]), (44, &[0, 0, 0, 2, 8, 4][..]), "full");
        assert_eq!(call!(ZwQueryKey, key, 3, to, 8, needs), STATUS_BUFFER_OVERFLOW);
        assert_eq!(needed as usize, 4 + (path.len() + 4) * 2);
        assert_eq!(call!(ZwEnumerateValueKey, key, 1, 2, to, 64, needs), 0);
        assert_eq!(buffer[3], 8);
        assert_eq!(call!(ZwEnumerateValueKey, key, 2, 2, to, 64, needs), STATUS_NO_MORE_ENTRIES);
        assert_eq!(call!(ZwDeleteValueKey, key, TestString::new("a").pointer()), 0);
        let again = call!(ZwDeleteValueKey, key, TestString::new("a").pointer());
        assert_eq!(again, STATUS_OBJECT_NAME_NOT_FOUND);
        assert_eq!(call!(ZwFlushKey, key), 0);
        assert_eq!(call!(ZwDeleteKey, service), STATUS_CANNOT_DELETE, "it has subkeys");
        assert_eq!(call!(ZwDeleteKey, key), 0);
        assert_eq!(set(key, "A", 7), STATUS_KEY_DELETED);
    });
}

#[test]
fn the_registry_is_for_passive_level() {
    let events = fly(|| {
        crate::KeRaiseIrqlToDpcLevel();
        call!(ZwFlushKey, null_mut());
        crate::KeLowerIrql(0);
    });
    assert_eq!(count(&events, "rule.broken"), 1);
}
