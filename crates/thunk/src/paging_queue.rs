//! Paging queues.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{ShownAccess, read, read_mut, write};
use crate::refusal::invalid;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::D3DKMT_CREATEPAGINGQUEUE;
use abi::ukm::{
    D3DDDI_DESTROYPAGINGQUEUE, D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL,
    D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL, D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL,
};
use flight::{Passive, RuleId};
use kernel::Handle;
use std::ptr;

const CREATE_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleDevice,
        RuleId::DEV_LIFE_003,
        "D3DKMTCreatePagingQueue.hDevice",
    )],
    others: &[(RuleId::PAGQ_LIFE_007, "D3DKMTCreatePagingQueue.hDevice")],
};

const DESTROY_ERROR_RULES: ErrorRules = ErrorRules { handles: &[], others: &[] };

/// Creates a paging queue.
pub(crate) unsafe fn create_paging_queue(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATEPAGINGQUEUE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let known = D3DDDI_PAGINGQUEUE_PRIORITY_BELOW_NORMAL..=D3DDDI_PAGINGQUEUE_PRIORITY_ABOVE_NORMAL;
    if !known.contains(&arguments.Priority) || arguments.PhysicalAdapterIndex != 0 {
        return Err(invalid("Priority is unknown, or PhysicalAdapterIndex is not 0"));
    }
    if arguments.Priority != D3DDDI_PAGINGQUEUE_PRIORITY_NORMAL {
        session.missing_entry("D3DKMTCreatePagingQueue.Priority");
    }
    let (device, priority) = (Handle(arguments.hDevice), arguments.Priority.cast_unsigned());
    let made = session.kernel.create_paging_queue(session.process, device, priority);
    let made = map_error(session, CREATE_ERROR_RULES, made)?;
    (arguments.hPagingQueue, arguments.hSyncObject) = (made.queue.0, made.fence.0);
    let value = session.show(made.value, ShownAccess::Read).inspect_err(|_| {
        // The handle is new; the process may have ended.
        _ = session.kernel.destroy_paging_queue(at, session.process, made.queue);
    })?;
    arguments.FenceValueCPUVirtualAddress = ptr::with_exposed_provenance_mut(value);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// Destroys a paging queue after its work has completed.
pub(crate) unsafe fn destroy_paging_queue(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DDDI_DESTROYPAGINGQUEUE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let handle = Handle(unsafe { read(args.cast_const()) }?.hPagingQueue);
    map_error(
        session,
        DESTROY_ERROR_RULES,
        session.kernel.destroy_paging_queue(at, session.process, handle),
    )
}
