//! Escapes: private data for the driver and from it.
#![expect(unsafe_code, reason = "the entry point takes the caller's pointers")]

use crate::claims::{read, read_list_mut, write_bytes};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::OfMember;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_ESCAPE, D3DKMT_ESCAPE_DRIVERPRIVATE};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::D3DDDI_ESCAPEFLAGS as Flags;
use flight::{Passive, RuleId};
use kernel::{EscapeRequest, Handle};

/// The three purposes of an escape, of which a call names one.
const PURPOSES: u32 = Flags::HardwareAccess | Flags::DeviceStatusQuery | Flags::ChangeFrameLatency;

const RULES: &[ArgumentRule<Flags>] = &[ArgumentRule {
    id: RuleId::DEV_LIFE_009,
    argument: "D3DKMTEscape.Flags",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |flags| {
        let several = (flags.Value & PURPOSES).count_ones() > 1;
        several.then(|| {
            format!(
                "Flags is {:#x}: HardwareAccess, DeviceStatusQuery and ChangeFrameLatency exclude \
                 one another",
                flags.Value
            )
        })
    },
}];

const ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[
        (HandleArgument::Adapter, RuleId::DEV_LIFE_001, "D3DKMTEscape.hAdapter"),
        (HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTEscape.hDevice"),
        (HandleArgument::StaleContext, RuleId::DEV_LIFE_003, "D3DKMTEscape.hContext"),
    ],
    others: &[],
};

/// Passes private data to the driver, which replaces it in place.
///
/// WINDOWS: a context that does not resolve is an invalid parameter whatever the type is
/// (observed). After a failure the caller's data is unchanged (our decision).
pub(crate) unsafe fn escape(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_ESCAPE,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    judge_arguments(session, RULES, &arguments.Flags)?;
    let given = |handle| (handle != 0).then_some(Handle(handle));
    let request = EscapeRequest {
        adapter: Handle(arguments.hAdapter),
        device: given(arguments.hDevice),
        context: given(arguments.hContext),
        hardware: arguments.Flags.has(Flags::HardwareAccess),
        flags: arguments.Flags.Value,
    };
    if arguments.Type != D3DKMT_ESCAPE_DRIVERPRIVATE {
        map_error(session, ERROR_RULES, session.kernel.check_escape(session.process, &request))?;
        session.missing_entry("D3DKMTEscape of another type than D3DKMT_ESCAPE_DRIVERPRIVATE");
        return Err(STATUS_NOT_SUPPORTED);
    }
    let (argument, size) = (arguments.pPrivateDriverData, arguments.PrivateDriverDataSize as usize);
    // SAFETY: The caller's contract.
    let mut private =
        unsafe { read_list_mut(argument.cast::<u8>(), size) }.of_member("pPrivateDriverData")?;
    let escaped = session.kernel.escape(at, session.process, &request, &mut private);
    map_error(session, ERROR_RULES, escaped)?;
    // SAFETY: The caller's contract; the driver cannot change the length.
    unsafe { write_bytes(argument, private.get(..size).unwrap_or_default()) }
        .of_member("pPrivateDriverData")
}
