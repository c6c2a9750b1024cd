//! Submission of packets to contexts.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{read_bytes, read_into, read_small_list};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::D3DKMT_SUBMITCOMMAND;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use flight::{EventKind, Hex, Passive, RuleId};
use kernel::{Handle, Packet, PacketData};
use smallvec::SmallVec;
use std::mem::MaybeUninit;

const RULES: &[ArgumentRule<D3DKMT_SUBMITCOMMAND>] = &[ArgumentRule {
    id: RuleId::SUBMIT_CMD_002,
    argument: "D3DKMTSubmitCommand.BroadcastContextCount",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |args| {
        let none = args.BroadcastContextCount == 0;
        none.then(|| "BroadcastContextCount is 0: a packet is for at least one context".to_owned())
    },
}];

const ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::StaleContext,
        RuleId::DEV_LIFE_003,
        "D3DKMTSubmitCommand.BroadcastContext",
    )],
    others: &[
        (RuleId::SUBMIT_CMD_001, "D3DKMTSubmitCommand.BroadcastContext"),
        (RuleId::SUBMIT_CMD_003, "D3DKMTSubmitCommand.PrivateDriverDataSize"),
    ],
};

/// Submits the same packet to one or more contexts.
pub(crate) unsafe fn submit_command(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_SUBMITCOMMAND,
) -> Result<(), NTSTATUS> {
    let mut arguments = MaybeUninit::uninit();
    // SAFETY: The caller's contract.
    let arguments = unsafe { read_into(args, &mut arguments) }?;
    judge_arguments(session, RULES, arguments)?;
    if arguments.NumHistoryBuffers > 0 {
        session.missing_entry("D3DKMTSubmitCommand with history buffers");
        return Err(STATUS_NOT_SUPPORTED);
    }
    if arguments.Flags.Value != 0 {
        session.missing_entry("D3DKMTSubmitCommand.Flags");
    }
    let contexts: SmallVec<[Handle; 4]> =
        first(&arguments.BroadcastContext, arguments.BroadcastContextCount)?.collect();
    let primaries = first(&arguments.WrittenPrimaries, arguments.NumPrimaries)?.collect();
    let (from, size) = (arguments.pPrivateDriverData.cast_const(), arguments.PrivateDriverDataSize);
    // SAFETY: The caller's contract.
    let private: PacketData =
        unsafe { read_small_list(from.cast(), size as usize) }.of_member("pPrivateDriverData")?;
    let looks = session.is_trusted() && size > 0 && session.log().is_enabled();
    let given = if looks { digest(&private) } else { Hex(0) };
    let packet = Packet {
        commands: arguments.Commands,
        length: arguments.CommandLength,
        private,
        primaries,
    };
    let done = session.kernel.submit_to(at, session.process, &contexts, packet);
    // In a guarded session the caller's other threads may write to the data during the call.
    if looks {
        // SAFETY: The caller's contract.
        let left = digest(&unsafe { read_bytes(from, size) }.of_member("pPrivateDriverData")?);
        session.log().emit(session.process.subject(), || EventKind::PacketPrivate {
            bytes: size,
            before: given,
            after: left,
        });
    }
    map_error(session, ERROR_RULES, done)
}

/// The first `count` handles of an array in the caller's structure.
fn first(list: &[u32], count: u32) -> Result<impl Iterator<Item = Handle>, NTSTATUS> {
    let list = list.get(..count as usize);
    let list = list.ok_or_else(|| invalid("a count is larger than the array in the structure"))?;
    Ok(list.iter().map(|handle| Handle(*handle)))
}

/// A short digest, for events (FNV-1a).
fn digest(bytes: &[u8]) -> Hex {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Hex(bytes.iter().fold(0x811c_9dc5, step))
}
