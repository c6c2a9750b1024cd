//! The handles that the system gives to a driver: addresses that cannot be accessed.
//!
//! On Windows these are addresses of the system's objects, which a driver may not access. Here they
//! are addresses in the kernel's half that no page is mapped at, and each kind has addresses of its
//! own. So an access faults, the fault names the handle, and no handle is taken for one of another
//! kind.

use abi::HANDLE;
use std::ptr;

/// What a handle is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandleKind {
    Adapter = 1,
    Device = 2,
    Context = 3,
    Process = 4,
    ContextAllocation = 5,
    AcquiredData = 6,
}

const ALL: [HandleKind; 6] = [
    HandleKind::Adapter,
    HandleKind::Device,
    HandleKind::Context,
    HandleKind::Process,
    HandleKind::ContextAllocation,
    HandleKind::AcquiredData,
];

/// The first address of the kernel's half.
const BASE: u64 = 0xffff_8000_0000_0000;
const KIND_SHIFT: u32 = 44;
/// One page per handle, so that members of an assumed structure lead to the same handle.
const NUMBER_SHIFT: u32 = 12;

impl HandleKind {
    /// What the handle is, in a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Adapter => "the system's handle of an adapter (DeviceHandle)",
            Self::Device => "the system's handle of a device (hDevice of DxgkDdiCreateDevice)",
            Self::Context => "the system's handle of a context (hContext of DxgkDdiCreateContext)",
            Self::Process => {
                "the system's handle of a process (hDxgkProcess of DxgkDdiCreateProcess)"
            }
            Self::ContextAllocation => {
                "the system's handle of a context allocation (hAllocation of \
                 DxgkCbCreateContextAllocation)"
            }
            Self::AcquiredData => "the release handle of DxgkCbAcquireHandleData",
        }
    }

    /// The handle with this number. Zero has none.
    pub(crate) fn handle(self, number: usize) -> HANDLE {
        match number as u64 {
            0 => ptr::null_mut(),
            number => {
                let address = BASE | (self as u64) << KIND_SHIFT | number << NUMBER_SHIFT;
                ptr::without_provenance_mut(usize::try_from(address).unwrap_or(0))
            }
        }
    }

    /// The number of a handle of this kind.
    pub(crate) fn number(self, handle: HANDLE) -> Option<usize> {
        parts(handle.addr() as u64)
            .filter(|(kind, _, offset)| *kind == self && *offset == 0)
            .map(|(_, number, _)| number)
    }
}

/// The kind, the number, and the offset of an address from the handle.
fn parts(address: u64) -> Option<(HandleKind, usize, u64)> {
    let below = address.checked_sub(BASE)?;
    let kind = ALL.into_iter().find(|kind| *kind as u64 == below >> KIND_SHIFT)?;
    let number = (below & ((1 << KIND_SHIFT) - 1)) >> NUMBER_SHIFT;
    Some((kind, usize::try_from(number).ok()?, below & ((1 << NUMBER_SHIFT) - 1)))
}

/// What an address is, if it is at a handle that the system gives to a driver.
pub fn describe_system_handle(address: u64) -> Option<&'static str> {
    parts(address).map(|(kind, ..)| kind.noun())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_has_its_kind_and_its_number() {
        for kind in ALL {
            for number in [1, 0x40, 0x4000_0040, u32::MAX as usize] {
                let handle = kind.handle(number);
                for other in ALL {
                    let expected = (other == kind).then_some(number);
                    assert_eq!(other.number(handle), expected, "{kind:?} {other:?}");
                }
                let member = handle.wrapping_byte_add(0x48);
                assert_eq!(kind.number(member), None);
                assert_eq!(describe_system_handle(member.addr() as u64), Some(kind.noun()));
            }
            assert!(kind.handle(0).is_null());
            assert_eq!(kind.number(ptr::without_provenance_mut(0x1234)), None);
        }
        assert_eq!(describe_system_handle(0x1234), None);
    }
}
