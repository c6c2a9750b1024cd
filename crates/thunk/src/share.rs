//! Opening shared resources.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{
    check_writable, copied, read_mut, read_small_list_mut, write, write_bytes, write_list,
};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, refused};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_OPENRESOURCE, D3DKMT_QUERYRESOURCEINFO};
use abi::status::{STATUS_INTEGER_OVERFLOW, STATUS_INVALID_PARAMETER, STATUS_NO_MEMORY};
use abi::ukm::{D3DDDI_OPENALLOCATIONINFO, D3DDDI_OPENALLOCATIONINFO2};
use flight::{EventKind, Passive, RuleId};
use kernel::{Handle, ShareInfo};
use std::ffi::c_void;

const QUERY_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTQueryResourceInfo.hDevice"),
        (
            HandleArgument::SharedResource,
            RuleId::ALLOC_SHARE_010,
            "D3DKMTQueryResourceInfo.hGlobalShare",
        ),
    ],
    others: &[],
};

const OPEN_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTOpenResource.hDevice"),
        (
            HandleArgument::SharedResource,
            RuleId::ALLOC_SHARE_010,
            "D3DKMTOpenResource.hGlobalShare",
        ),
    ],
    others: &[],
};

/// The opener's buffer sizes and the actual sizes.
pub(crate) struct OpenSizes {
    pub(crate) info: ShareInfo,
    /// The number of allocations, and whether there is a list of them.
    pub(crate) allocations: (u32, bool),
    /// The room for the runtime's data, and whether there is a buffer.
    pub(crate) runtime: (u32, bool),
    /// The room for the resource's private data.
    pub(crate) private: u32,
    /// The room for all private data, and whether there is a buffer.
    pub(crate) total: (u32, bool),
}

/// The rules on the sizes of an opener, for a call.
macro_rules! size_rules {
    ($call:literal) => {
        &[
            ArgumentRule {
                id: RuleId::ALLOC_SHARE_003,
                argument: concat!($call, ".NumAllocations"),
                refuses: Some(STATUS_INVALID_PARAMETER),
                broken: $crate::share::wrong_list,
            },
            ArgumentRule {
                id: RuleId::ALLOC_SHARE_003,
                argument: concat!($call, ".PrivateRuntimeDataSize"),
                refuses: Some(STATUS_INVALID_PARAMETER),
                broken: |sizes| {
                    let there = sizes.info.runtime;
                    wrong_size("the runtime's data", sizes.runtime, there, there)
                },
            },
            ArgumentRule {
                id: RuleId::ALLOC_SHARE_003,
                argument: concat!($call, ".ResourcePrivateDriverDataSize"),
                refuses: Some(STATUS_INVALID_PARAMETER),
                broken: |sizes| {
                    let (given, there) = ((sizes.private, true), sizes.info.private);
                    wrong_size("the resource's private data", given, there, there)
                },
            },
            // WINDOWS: a total buffer at NULL is an invalid parameter, and a short one is out of
            // memory: observed on the NT-handle form, taken over for the other one (our decision).
            ArgumentRule {
                id: RuleId::ALLOC_SHARE_003,
                argument: concat!($call, ".pTotalPrivateDriverDataBuffer"),
                refuses: Some(STATUS_INVALID_PARAMETER),
                broken: |sizes| {
                    let (size, is_there) = (sizes.info.total, sizes.total.1);
                    (size > 0 && !is_there).then(|| {
                        format!("all private data has {size} bytes, but its buffer is at NULL")
                    })
                },
            },
            ArgumentRule {
                id: RuleId::ALLOC_SHARE_003,
                argument: concat!($call, ".TotalPrivateDriverDataBufferSize"),
                refuses: Some(STATUS_NO_MEMORY),
                broken: |sizes| {
                    let most = u32::MAX as usize;
                    wrong_size("all private data", sizes.total, sizes.info.total, most)
                },
            },
        ]
    };
}
pub(crate) use size_rules;

const RULES: &[ArgumentRule<OpenSizes>] = size_rules!("D3DKMTOpenResource");

/// What is wrong with the list of an opener.
pub(crate) fn wrong_list(sizes: &OpenSizes) -> Option<String> {
    let ((given, listed), there) = (sizes.allocations, sizes.info.members);
    let listed = listed || there == 0;
    let list = if listed { "" } else { " in a list at NULL" };
    (given as usize != there || !listed)
        .then(|| format!("{given} allocations are passed{list}, but the resource has {there}"))
}

/// What is wrong with a buffer for data of a size, which has at least that size, at most `most`, and
/// is not at NULL unless there is no data.
pub(crate) fn wrong_size(
    what: &str,
    (given, is_there): (u32, bool),
    size: usize,
    most: usize,
) -> Option<String> {
    let is_there = is_there || size == 0;
    let pointer = if is_there { "" } else { " at a NULL pointer" };
    let fits = (size..=most.max(size)).contains(&(given as usize));
    (!fits || !is_there)
        .then(|| format!("{what} has {size} bytes, but room for {given}{pointer} is given"))
}

/// Returns the buffer sizes that an opener of a shared resource needs.
pub(crate) unsafe fn query_resource_info(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_QUERYRESOURCEINFO,
) -> Result<(), NTSTATUS> {
    let before = copied();
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let (device, global) = (Handle(arguments.hDevice), Handle(arguments.hGlobalShare));
    let there = session.kernel.share_info(session.process, device, global);
    let there = map_error(session, QUERY_ERROR_RULES, there)?;
    // WINDOWS: sizes only; the runtime's data is never copied, with or without a buffer (observed).
    arguments.PrivateRuntimeDataSize = to_u32(there.runtime)?;
    arguments.TotalPrivateDriverDataSize = to_u32(there.total)?;
    arguments.ResourcePrivateDriverDataSize = to_u32(there.private)?;
    arguments.NumAllocations = to_u32(there.members)?;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    let (runtime, total) = (there.runtime as u64, arguments.TotalPrivateDriverDataSize.into());
    session.log().emit(there.resource, || EventKind::ShareQueried {
        runtime,
        total,
        copied: copied() - before,
    });
    Ok(())
}

/// Opens a shared resource for a device.
pub(crate) unsafe fn open_resource(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENRESOURCE,
) -> Result<(), NTSTATUS> {
    let list = |args: &D3DKMT_OPENRESOURCE| args.pOpenAllocationInfo;
    // SAFETY: The caller's contract.
    unsafe { open(session, at, args, list) }
}

/// Opens a shared resource for a device.
pub(crate) unsafe fn open_resource2(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENRESOURCE,
) -> Result<(), NTSTATUS> {
    let list = D3DKMT_OPENRESOURCE::open_allocation_info2;
    // SAFETY: The caller's contract.
    unsafe { open(session, at, args, list) }
}

/// Both versions: in, call, out. `list` is the address of the elements.
///
/// # Safety
///
/// `args` and the pointers in it are NULL or valid for reads and writes, unless the session is
/// guarded. They never point to memory of this library.
unsafe fn open<E: Element>(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_OPENRESOURCE,
    list: impl Fn(&D3DKMT_OPENRESOURCE) -> *mut E,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut args_now = unsafe { read_mut(args) }?;
    let (device, global) = (Handle(args_now.hDevice), Handle(args_now.hGlobalShare));
    let call = session.kernel.begin_open_resource(session.process, device, global);
    let call = map_error(session, OPEN_ERROR_RULES, call)?;
    let there = call.info();
    let list = list(&args_now);
    let sizes = OpenSizes {
        info: there,
        allocations: (args_now.NumAllocations, !list.is_null()),
        runtime: (args_now.PrivateRuntimeDataSize, !args_now.pPrivateRuntimeData.is_null()),
        private: args_now.ResourcePrivateDriverDataSize,
        total: (
            args_now.TotalPrivateDriverDataBufferSize,
            !args_now.pTotalPrivateDriverDataBuffer.is_null(),
        ),
    };
    judge_arguments(session, RULES, &sizes)?;
    // SAFETY: The caller's contract.
    let mut elements = unsafe { read_small_list_mut::<_, 1>(list, there.members) }
        .of_member("pOpenAllocationInfo")?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(args_now.pTotalPrivateDriverDataBuffer, there.total) }
        .of_member("pTotalPrivateDriverDataBuffer")?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(args_now.pPrivateRuntimeData, there.runtime) }
        .of_member("pPrivateRuntimeData")?;
    let opened = map_error(session, OPEN_ERROR_RULES, call.open(at))?;
    let total = args_now.pTotalPrivateDriverDataBuffer;
    let (mut written, before) = (0, copied());
    for ((element, handle), private) in
        elements.iter_mut().zip(&opened.allocations).zip(&opened.privates)
    {
        // WINDOWS: driver data is delivered in the total buffer only, and the size fields are
        // updated (observed); that the pointer then leads there is our reading.
        element.fill(
            *handle,
            total.cast::<u8>().wrapping_add(written).cast(),
            to_u32(private.len())?,
        );
        // SAFETY: The caller's contract.
        unsafe { write_bytes(total.cast::<u8>().wrapping_add(written).cast(), private) }
            .of_member("pTotalPrivateDriverDataBuffer")?;
        written += private.len();
    }
    // SAFETY: The caller's contract.
    unsafe { write_bytes(args_now.pPrivateRuntimeData, &opened.runtime) }
        .of_member("pPrivateRuntimeData")?;
    // SAFETY: The caller's contract.
    unsafe { write_list(list, &elements) }.of_member("pOpenAllocationInfo")?;
    args_now.TotalPrivateDriverDataBufferSize = to_u32(written)?;
    args_now.hResource = opened.resource.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, args_now) }?;
    let copied = copied() - before;
    // WINDOWS: the resource's data is copied if there is a buffer (documented); for a standard
    // allocation's resource the buffer stays untouched (observed).
    if !args_now.pResourcePrivateDriverData.is_null() {
        // SAFETY: The caller's contract.
        unsafe { write_bytes(args_now.pResourcePrivateDriverData, &opened.private) }
            .of_member("pResourcePrivateDriverData")?;
    }
    session
        .log()
        .emit(there.resource, || EventKind::ShareOpened { written: written as u64, copied });
    Ok(())
}

/// An element of the list, of either version.
trait Element: Copy {
    /// Writes the results: the handle, and the location of its private data.
    fn fill(&mut self, handle: Handle, private: *const c_void, size: u32);
}

macro_rules! element {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn fill(&mut self, handle: Handle, private: *const c_void, size: u32) {
                self.hAllocation = handle.0;
                self.pPrivateDriverData = private;
                self.PrivateDriverDataSize = size;
            }
        }
    )*};
}

element!(D3DDDI_OPENALLOCATIONINFO, D3DDDI_OPENALLOCATIONINFO2);

/// A size as `UINT`.
pub(crate) fn to_u32(size: usize) -> Result<u32, NTSTATUS> {
    u32::try_from(size)
        .map_err(|_| refused(STATUS_INTEGER_OVERFLOW, "the sum of the sizes is beyond 32 bits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_past_32_bits_is_an_overflow() {
        assert_eq!(to_u32(u32::MAX as usize), Ok(u32::MAX));
        assert_eq!(to_u32(1 << 32), Err(STATUS_INTEGER_OVERFLOW));
    }
}
