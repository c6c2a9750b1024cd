//! Sync files: descriptors that tell when a monitored fence has a value (WSL's `libdxg`).
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read_mut, write};
use crate::session::Session;
use crate::status::map_error;
use crate::wait::WAIT_ERROR_RULES;
use abi::NTSTATUS;
use abi::kmt::D3DKMT_CREATESYNCFILE;
use flight::Passive;
use kernel::{Handle, WaitRequest};

/// Creates a descriptor that becomes readable when a monitored fence has reached a value.
///
/// WINDOWS: our reading of the public driver of WSL: a wait of the CPU with an event, whose
/// descriptor the client polls and closes.
pub(crate) unsafe fn create_sync_file(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATESYNCFILE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let event = session.new_event()?;
    let waits = session.with_new_event(&event, |number| {
        let list = [(Handle(arguments.hMonitoredFence), arguments.FenceValue)];
        let device = Handle(arguments.hDevice);
        let request = WaitRequest { device, list: &list, any: false, event: Some(number) };
        session.kernel.wait_from_cpu(at, session.process, &request)
    });
    arguments.hSyncFile = event.handle as u64;
    let result = map_error(session, WAIT_ERROR_RULES, waits)
        // SAFETY: The caller's contract.
        .and_then(|()| unsafe { write(args, arguments) });
    if result.is_err() {
        session.discard_event(&event);
    }
    result
}
