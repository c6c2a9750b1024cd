//! `KMTQAITYPE_QUERYREGISTRY`: the values of an adapter's registry key that clients ask for.
#![expect(unsafe_code, reason = "takes the caller's pointers")]

use crate::adapter_info::{DESCRIPTION, USER_MODE_DRIVER};
use crate::claims::{read_list_mut, write_bytes};
use crate::refusal::{OfMember, invalid};
use crate::wide_text::width_of;
use abi::NTSTATUS;
use abi::kmt::{
    D3DDDI_QUERYREGISTRY_ADAPTERKEY, D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH,
    D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH, D3DDDI_QUERYREGISTRY_INFO,
    D3DDDI_QUERYREGISTRY_SERVICEKEY, D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW,
    D3DDDI_QUERYREGISTRY_STATUS_FAIL, D3DDDI_QUERYREGISTRY_STATUS_SUCCESS,
    D3DDDI_QUERYREGISTRY_TYPE, MAX_PATH,
};
use abi::status::STATUS_INVALID_PARAMETER;
use std::ffi::c_void;

/// A string with its end, of the registry's types.
const REG_SZ: u32 = 1;

/// A list of strings, of the registry's types.
const REG_MULTI_SZ: u32 = 7;

/// Where drivers of this library would be. WINDOWS: a folder of the driver store.
const DRIVER_FOLDER: &str = "/usr/lib/windtunnel";

/// Answers a query in place.
///
/// WINDOWS: that the value which does not exist, and the buffer which is too short for the value,
/// are told in `Status` while the call succeeds, is documented. Which values exist is our decision.
///
/// # Safety
///
/// `argument` is NULL or valid for reads and writes of `size` bytes, unless the session is guarded.
pub(crate) unsafe fn query(argument: *mut c_void, size: usize) -> Result<(), NTSTATUS> {
    if argument.is_null() || size < size_of::<D3DDDI_QUERYREGISTRY_INFO>() {
        return Err(invalid(
            "pPrivateDriverData is NULL or shorter than D3DDDI_QUERYREGISTRY_INFO",
        ));
    }
    // SAFETY: The caller's contract.
    let mut bytes =
        unsafe { read_list_mut(argument.cast::<u8>(), size) }.of_member("pPrivateDriverData")?;
    // The name begins behind two words. Its second code unit tells the width of characters.
    let width = width_of(&bytes[8..]);
    let fields = 8 + MAX_PATH * width.bytes();
    // Behind the name: type, adapter, size, status and the value.
    if size < fields + 24 {
        return Err(invalid("the buffer ends before the members of D3DDDI_QUERYREGISTRY_INFO"));
    }
    let word = |bytes: &[u8], at: usize| bytes[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    if word(&bytes, fields + 4) != 0 {
        return Err(invalid("PhysicalAdapterIndex is not 0, and there is one physical adapter"));
    }
    let name = width.decode(&bytes[8..fields]);
    let (status, kind, value) = match find(word(&bytes, 0).cast_signed(), &name)? {
        Some((kind, text)) => {
            let value = width.encode(text, kind == REG_MULTI_SZ);
            let fits = value.len() <= size - fields - 16;
            let overflow = D3DDDI_QUERYREGISTRY_STATUS_BUFFER_OVERFLOW;
            (if fits { D3DDDI_QUERYREGISTRY_STATUS_SUCCESS } else { overflow }, kind, value)
        }
        None => (D3DDDI_QUERYREGISTRY_STATUS_FAIL, 0, Vec::new()),
    };
    let length = u32::try_from(value.len()).map_err(|_| STATUS_INVALID_PARAMETER)?;
    bytes[fields..fields + 4].copy_from_slice(&kind.to_le_bytes());
    bytes[fields + 8..fields + 12].copy_from_slice(&length.to_le_bytes());
    bytes[fields + 12..fields + 16].copy_from_slice(&status.to_le_bytes());
    if status == D3DDDI_QUERYREGISTRY_STATUS_SUCCESS {
        bytes[fields + 16..fields + 16 + value.len()].copy_from_slice(&value);
    }
    // SAFETY: The caller's contract: there are as many bytes as were read.
    unsafe { write_bytes(argument, &bytes) }.of_member("pPrivateDriverData")
}

/// The type and the text of a value, if it exists.
fn find(
    key: D3DDDI_QUERYREGISTRY_TYPE,
    name: &str,
) -> Result<Option<(u32, &'static str)>, NTSTATUS> {
    let value = match key {
        D3DDDI_QUERYREGISTRY_ADAPTERKEY => match name.to_ascii_lowercase().as_str() {
            "driverdesc" | "hardwareinformation.adapterstring" => Some((REG_SZ, DESCRIPTION)),
            "usermodedrivername" => Some((REG_MULTI_SZ, USER_MODE_DRIVER)),
            _ => None,
        },
        D3DDDI_QUERYREGISTRY_DRIVERSTOREPATH | D3DDDI_QUERYREGISTRY_DRIVERIMAGEPATH => {
            Some((REG_SZ, DRIVER_FOLDER))
        }
        D3DDDI_QUERYREGISTRY_SERVICEKEY => None,
        _ => return Err(invalid("QueryType is unknown")),
    };
    Ok(value)
}
