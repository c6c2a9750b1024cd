//! What a caller says about an NT handle: the attributes with the name, and the access.
#![expect(unsafe_code, reason = "reads the caller's attributes")]

use crate::claims::{read, read_list};
use crate::refusal::{OfMember, invalid, refused};
use crate::session::Session;
use abi::kmt::{
    GENERIC_ALL, GENERIC_EXECUTE, GENERIC_READ, GENERIC_WRITE, MAXIMUM_ALLOWED, OBJ_INHERIT,
    OBJ_VALID_ATTRIBUTES, SHARED_ALLOCATION_ALL_ACCESS, SHARED_ALLOCATION_WRITE,
    STANDARD_RIGHTS_READ, STANDARD_RIGHTS_WRITE,
};
use abi::status::{STATUS_INVALID_HANDLE, STATUS_OBJECT_NAME_INVALID};
use abi::{NTSTATUS, OBJECT_ATTRIBUTES, UNICODE_STRING};
use kernel::NtAccess;

/// The attributes of an NT handle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NtAttributes {
    /// The name of the object, if it has one.
    pub(crate) name: Option<String>,
    /// Child processes get the handle (`OBJ_INHERIT`).
    pub(crate) inherit: bool,
}

/// Reads attributes that are not NULL.
///
/// WINDOWS: `OBJ_CASE_INSENSITIVE` changes nothing, because names are compared without regard to
/// case anyway (observed). Security descriptors have no effect; a wrong length or an undefined
/// attribute is an invalid parameter (our reading).
///
/// # Safety
///
/// The pointer and the pointers behind it are NULL or valid for reads, unless the session is guarded.
pub(crate) unsafe fn read_attributes(
    session: &Session,
    attributes: *const OBJECT_ATTRIBUTES,
) -> Result<NtAttributes, NTSTATUS> {
    // SAFETY: The caller's contract.
    let it = unsafe { read(attributes) }.of_member("pObjectAttributes")?;
    if it.Length as usize != size_of::<OBJECT_ATTRIBUTES>()
        || it.Attributes & !OBJ_VALID_ATTRIBUTES != 0
    {
        return Err(invalid(
            "Length of pObjectAttributes is wrong, or undefined bits of Attributes are set",
        ));
    }
    if !it.RootDirectory.is_null() {
        session.missing_entry("OBJECT_ATTRIBUTES.RootDirectory");
        return Err(STATUS_INVALID_HANDLE);
    }
    let mut name = None;
    if !it.ObjectName.is_null() {
        // SAFETY: The caller's contract.
        name = unsafe { read_name(it.ObjectName) }?;
    }
    Ok(NtAttributes { name, inherit: it.Attributes & OBJ_INHERIT != 0 })
}

/// Reads a name; an empty one is none.
///
/// # Safety
///
/// The pointer and its buffer are NULL or valid for reads, unless the session is guarded.
unsafe fn read_name(name: *const UNICODE_STRING) -> Result<Option<String>, NTSTATUS> {
    // SAFETY: The caller's contract.
    let it = unsafe { read(name) }.of_member("ObjectName")?;
    if it.Length % 2 != 0 {
        return Err(refused(STATUS_OBJECT_NAME_INVALID, "Length of ObjectName is odd"));
    }
    // SAFETY: The caller's contract.
    let units = unsafe { read_list(it.Buffer.cast_const(), usize::from(it.Length / 2)) }
        .of_member("ObjectName.Buffer")?;
    Ok(Some(decode(&units)).filter(|name| !name.is_empty()))
}

/// The text of a name. The characters of a client have two bytes, as on Windows, or four: then the
/// second unit of two bytes is zero.
fn decode(units: &[u16]) -> String {
    if units.len().is_multiple_of(2) && units.get(1) == Some(&0) {
        let pairs = units.as_chunks::<2>().0.iter();
        let wide = pairs.map(|pair| u32::from(pair[0]) | u32::from(pair[1]) << 16);
        let known = |unit| char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER);
        return wide.map(known).collect();
    }
    String::from_utf16_lossy(units)
}

/// What an access mask allows.
///
/// WINDOWS: generic rights stand for the specific ones (documented).
pub(crate) fn access(mask: u32) -> NtAccess {
    let generic = [
        (GENERIC_READ, STANDARD_RIGHTS_READ),
        (GENERIC_WRITE, STANDARD_RIGHTS_WRITE | SHARED_ALLOCATION_WRITE),
        (GENERIC_EXECUTE, STANDARD_RIGHTS_READ),
        (GENERIC_ALL | MAXIMUM_ALLOWED, SHARED_ALLOCATION_ALL_ACCESS),
    ];
    let set = generic.iter().filter(|(bits, _)| mask & bits != 0);
    let mask = set.fold(mask, |mask, (_, rights)| mask | rights);
    NtAccess {
        any: mask != 0,
        read: mask & STANDARD_RIGHTS_READ != 0,
        write: mask & SHARED_ALLOCATION_WRITE != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_either_width_is_the_same_name() {
        let narrow: Vec<u16> = "\\Näme".encode_utf16().collect();
        let wide: Vec<u16> = narrow.iter().flat_map(|unit| [*unit, 0]).collect();
        assert_eq!([decode(&narrow), decode(&wide)], ["\\Näme", "\\Näme"]);
        assert_eq!([decode(&[b'a'.into()]), decode(&[b'a'.into(), 0])], ["a", "a"]);
    }

    #[test]
    fn generic_rights_are_specific_ones() {
        assert_eq!(access(0), NtAccess::default());
        assert_eq!([access(GENERIC_ALL), access(MAXIMUM_ALLOWED)], [NtAccess::ALL; 2]);
        assert_eq!(access(GENERIC_WRITE), NtAccess::ALL);
        assert_eq!(access(GENERIC_READ), access(STANDARD_RIGHTS_READ));
        assert!(access(GENERIC_READ).read && !access(GENERIC_READ).write);
        assert!(access(0x10).any && !access(0x10).read);
    }
}
