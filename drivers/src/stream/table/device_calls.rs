//! The device and its filters: one pool block for the device, none for a filter.
//!
//! # Safety
//!
//! As for the module of the tables.
#![expect(unsafe_code, reason = "a driver written against the C interface")]

use crate::block::{Kind, find, free, take};
use abi::ks::{KSDEVICE, KSFILTER, KSPIN};
use abi::status::{STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER, STATUS_SUCCESS};
use abi::{NTSTATUS, PIRP, PVOID};
use std::sync::atomic::AtomicPtr;

/// A device (`KSDEVICE.Context`).
#[repr(C)]
#[derive(Default)]
pub(crate) struct Device {
    /// The last closed pin. A good driver does not use it.
    pub(crate) last: AtomicPtr<KSPIN>,
}

impl Kind for Device {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"kdev");
}

pub(crate) unsafe extern "win64-unwind" fn add_device(device: *mut KSDEVICE) -> NTSTATUS {
    let context = take(Device::default());
    // SAFETY: The structure is valid, and its context is the driver's.
    unsafe { (*device).Context = context };
    if context.is_null() { STATUS_INSUFFICIENT_RESOURCES } else { STATUS_SUCCESS }
}

pub(super) unsafe extern "win64-unwind" fn start_device(
    _device: *mut KSDEVICE,
    _irp: PIRP,
    _translated: PVOID,
    _raw: PVOID,
) -> NTSTATUS {
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64-unwind" fn post_start_device(_device: *mut KSDEVICE) -> NTSTATUS {
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64-unwind" fn query_device(
    _device: *mut KSDEVICE,
    _irp: PIRP,
) -> NTSTATUS {
    STATUS_SUCCESS
}

pub(super) unsafe extern "win64-unwind" fn stop_device(_device: *mut KSDEVICE, _irp: PIRP) {}

pub(crate) unsafe extern "win64-unwind" fn remove_device(device: *mut KSDEVICE, _irp: PIRP) {
    // SAFETY: The structure is valid.
    let context = unsafe { (*device).Context };
    // SAFETY: No later call uses the block.
    unsafe { free(context) };
}

/// A filter has the context of its device.
pub(crate) unsafe extern "win64-unwind" fn create_filter(
    filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    // SAFETY: The structure is valid.
    let context = unsafe { (*filter).Context };
    // SAFETY: The context is the device's, which has not been removed.
    let device = unsafe { find::<Device>(context) };
    if device.is_some() { STATUS_SUCCESS } else { STATUS_INVALID_PARAMETER }
}

pub(crate) unsafe extern "win64-unwind" fn close_filter(
    _filter: *mut KSFILTER,
    _irp: PIRP,
) -> NTSTATUS {
    STATUS_SUCCESS
}
