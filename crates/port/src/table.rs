//! Accepts driver tables: those of a flown version, with the entries that every driver has.
#![expect(unsafe_code, reason = "reads the table that a driver registered")]

use crate::version::{InterfaceVersion, describe_unflown};
use abi::miniport::{DRIVER_INITIALIZATION_DATA, KMDDOD_INITIALIZATION_DATA};
use kernel::ddi::{REQUIRED, REQUIRED_DISPLAY_ONLY};
use std::ffi::c_void;
use std::fmt;
use std::ptr;

/// Why a table was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Its `Version` is not flown: the rest of it cannot be read.
    Version(u32),
    /// It is missing these entries, which every driver of its kind has.
    Missing(Vec<&'static str>),
}

/// Checks a table as far as possible before it is used. Returns its version.
pub(crate) fn check(table: &DRIVER_INITIALIZATION_DATA) -> Result<InterfaceVersion, TableError> {
    let version = version(table.Version)?;
    check_required(REQUIRED, &table.filled().collect::<Vec<_>>())?;
    Ok(version)
}

/// As [`check`], for the table of a display-only driver.
pub(crate) fn check_display_only(
    table: &KMDDOD_INITIALIZATION_DATA,
) -> Result<InterfaceVersion, TableError> {
    let version = version(table.Version)?;
    check_required(REQUIRED_DISPLAY_ONLY, &table.filled().collect::<Vec<_>>())?;
    Ok(version)
}

fn check_required(required: &[&'static str], filled: &[&str]) -> Result<(), TableError> {
    let missing: Vec<_> = required.iter().copied().filter(|name| !filled.contains(name)).collect();
    if missing.is_empty() { Ok(()) } else { Err(TableError::Missing(missing)) }
}

/// The version with this number.
pub(crate) fn version(number: u32) -> Result<InterfaceVersion, TableError> {
    InterfaceVersion::new(number).ok_or(TableError::Version(number))
}

/// Copies a table of functions from a driver's memory. What lies behind the version's length is the
/// driver's own: the copy has zeros there.
///
/// # Safety
///
/// `table` is valid for reads of a `u32`, its `Version`, and of the bytes that `length` returns for
/// it. `T` is a table of this crate, all of whose members can be zero.
pub(crate) unsafe fn read_table<T: Copy>(
    table: *const c_void,
    zero: T,
    length: impl FnOnce(InterfaceVersion) -> usize,
) -> Result<T, TableError> {
    // SAFETY: The caller guarantees that `Version` can be read.
    let number = unsafe { table.cast::<u32>().read_unaligned() };
    let bytes = length(version(number)?).min(size_of::<T>());
    let mut copy = zero;
    // SAFETY: The caller guarantees that the bytes can be read, the copy is at least as long, and
    // any prefix of a table's functions is a table, because a slot is a nullable pointer.
    unsafe { ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut copy).cast(), bytes) };
    Ok(copy)
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Version(version) => {
                write!(f, "the table's Version is {version:#x}, which is ")?;
                describe_unflown(*version, f)
            }
            TableError::Missing(names) => {
                write!(f, "the table lacks what every driver has: {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for TableError {}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WIN8};
    use kernel::ddi::{NAMES, UNCALLED};

    #[test]
    fn what_is_required_is_in_the_table() {
        for name in REQUIRED {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(name), "{name}");
        }
        for name in REQUIRED_DISPLAY_ONLY {
            assert!(KMDDOD_INITIALIZATION_DATA::SLOTS.contains(name), "{name}");
        }
    }

    #[test]
    fn a_version_is_named() {
        let text = TableError::Version(0x2005).to_string();
        assert!(text.starts_with("the table's Version is 0x2005, which is WDDM 1.1 and not flown"));
        assert!(text.contains("; flown are 0x300e, 0x4002, 0x5023, "), "{text}");
        assert!(text.ends_with("yet are 0x1052, 0x1053, 0x2005, 0x4003, 0x6010, 0x6011"), "{text}");
        assert!(TableError::Version(7).to_string().contains("0x7, which is no version of WDDM; "));
    }

    #[test]
    fn a_table_is_read_up_to_the_length_of_its_version() {
        // The table of WDDM 1.2 has 0x298 bytes. The word behind it is the driver's own.
        let mut words = [0_usize; 0x298 / 8 + 1];
        words[0] = DXGKDDI_INTERFACE_VERSION_WIN8 as usize;
        words[0x290 / 8] = 0x1000;
        words[0x298 / 8] = 0x2000;
        let read = |words: &[usize]| {
            let (zero, at) = (DRIVER_INITIALIZATION_DATA::ZERO, words.as_ptr().cast());
            // SAFETY: The words are as long as the version's table.
            unsafe { read_table(at, zero, InterfaceVersion::table_length) }
        };
        let table = read(&words).unwrap();
        assert_eq!(table.Version, DXGKDDI_INTERFACE_VERSION_WIN8);
        assert!(table.filled().eq(["DxgkDdiNotifySurpriseRemoval"]));
        words[0] = 7;
        assert_eq!(read(&words[..1]).err(), Some(TableError::Version(7)));
    }

    #[test]
    fn everything_that_is_missing_is_said_at_once() {
        let table = DRIVER_INITIALIZATION_DATA {
            Version: DXGKDDI_INTERFACE_VERSION_WDDM2_0,
            ..DRIVER_INITIALIZATION_DATA::ZERO
        };
        assert_eq!(check(&table), Err(TableError::Missing(REQUIRED.to_vec())));
        let text =
            TableError::Missing(vec!["DxgkDdiStopDevice", "DxgkDdiCreateDevice"]).to_string();
        let names = "DxgkDdiStopDevice, DxgkDdiCreateDevice";
        assert_eq!(text, format!("the table lacks what every driver has: {names}"));
    }

    #[test]
    fn a_slot_is_called_or_waits_for_something() {
        let waiting: Vec<&str> = UNCALLED.iter().flat_map(|pair| pair.1).copied().collect();
        for slot in DRIVER_INITIALIZATION_DATA::SLOTS.iter().filter(|text| text.starts_with("Dxgk"))
        {
            let lines = waiting.iter().filter(|text| *text == slot).count();
            let called = NAMES.contains(slot);
            assert_eq!(lines, usize::from(!called), "{slot}, called: {called}");
        }
        for name in waiting {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(&name), "{name} is no slot");
        }
    }
}
