//! Opening shared resources.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{
    check_writable, copied, read_list_mut, read_mut, write, write_bytes, write_list,
};
use crate::entry::{ArgumentRule, judge_arguments};
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
struct OpenArguments {
    args: D3DKMT_OPENRESOURCE,
    info: ShareInfo,
}

const RULES: &[ArgumentRule<OpenArguments>] = &[
    ArgumentRule {
        id: RuleId::ALLOC_SHARE_003,
        argument: "D3DKMTOpenResource.NumAllocations",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let (message, there) = (args.args.NumAllocations as usize, args.info.members);
            (message != there)
                .then(|| format!("{message} allocations are passed, but the resource has {there}"))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_SHARE_003,
        argument: "D3DKMTOpenResource.PrivateRuntimeDataSize",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let (message, there) = (args.args.PrivateRuntimeDataSize as usize, args.info.runtime);
            let given = there == 0 || !args.args.pPrivateRuntimeData.is_null();
            (message != there || !given)
                .then(|| describe_sizes("the runtime's data", message, there, given))
        },
    },
    ArgumentRule {
        id: RuleId::ALLOC_SHARE_003,
        argument: "D3DKMTOpenResource.ResourcePrivateDriverDataSize",
        refuses: Some(STATUS_INVALID_PARAMETER),
        broken: |args| {
            let (message, there) =
                (args.args.ResourcePrivateDriverDataSize as usize, args.info.private);
            (message != there)
                .then(|| describe_sizes("the resource's private data", message, there, true))
        },
    },
    // WINDOWS: a short total buffer is out of memory: observed on the NT-handle form, taken
    // over for this one (our decision).
    ArgumentRule {
        id: RuleId::ALLOC_SHARE_003,
        argument: "D3DKMTOpenResource.TotalPrivateDriverDataBufferSize",
        refuses: Some(STATUS_NO_MEMORY),
        broken: |args| {
            let (message, there) =
                (args.args.TotalPrivateDriverDataBufferSize as usize, args.info.total);
            let given = there == 0 || !args.args.pTotalPrivateDriverDataBuffer.is_null();
            (message < there || !given)
                .then(|| describe_sizes("all private data", message, there, given))
        },
    },
];

pub(crate) fn describe_sizes(what: &str, message: usize, there: usize, given: bool) -> String {
    let pointer = if given { "" } else { " at a NULL pointer" };
    format!("{what} has {there} bytes, but room for {message}{pointer} is given")
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
    let there = session.kernel.share_info(session.process, device, global);
    let there = map_error(session, OPEN_ERROR_RULES, there)?;
    judge_arguments(session, RULES, &OpenArguments { args: args_now, info: there })?;
    let list = list(&args_now);
    // SAFETY: The caller's contract.
    let mut elements = unsafe { read_list_mut(list, there.members) }?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(args_now.pTotalPrivateDriverDataBuffer, there.total) }?;
    // SAFETY: The caller's contract.
    unsafe { check_writable(args_now.pPrivateRuntimeData, there.runtime) }?;
    let opened = session.kernel.open_resource(at, session.process, device, global);
    let opened = map_error(session, OPEN_ERROR_RULES, opened)?;
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
        unsafe { write_bytes(total.cast::<u8>().wrapping_add(written).cast(), private) }?;
        written += private.len();
    }
    // SAFETY: The caller's contract.
    unsafe { write_bytes(args_now.pPrivateRuntimeData, &opened.runtime) }?;
    // SAFETY: The caller's contract.
    unsafe { write_list(list, &elements) }?;
    args_now.TotalPrivateDriverDataBufferSize = to_u32(written)?;
    args_now.hResource = opened.resource.0;
    // SAFETY: The caller's contract.
    unsafe { write(args, args_now) }?;
    let copied = copied() - before;
    // WINDOWS: the resource's data is copied if there is a buffer (documented); for a standard
    // allocation's resource the buffer stays untouched (observed).
    if !args_now.pResourcePrivateDriverData.is_null() {
        // SAFETY: The caller's contract.
        unsafe { write_bytes(args_now.pResourcePrivateDriverData, &opened.private) }?;
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
    u32::try_from(size).map_err(|_| STATUS_INTEGER_OVERFLOW)
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
