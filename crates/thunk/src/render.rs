//! Packets with allocation lists (WDDM 1.x): contexts with buffers, and rendering.
//!
//! The kernel owns the buffers, and the caller writes to them. After every call, also a failed
//! one, the caller continues with the buffers that the call returned.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::claims::{ShownAccess, read_bytes, read_mut, write};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::OfMember;
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error, status};
use abi::NTSTATUS;
use abi::kmt::{D3DKMT_CREATECONTEXT, D3DKMT_RENDER, D3DKMT_RENDERFLAGS as Flags};
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use abi::ukm::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use flight::{Component, Passive, RuleId};
use kernel::miniport::CreateContextArgs;
use kernel::render_args::PatchLocation;
use kernel::{BufferResize, EntrySizes, Handle, RenderBuffers, RenderRequest};
use std::ptr;

/// The number of 32-bit values in an entry of each list.
const LIST_WORDS: usize = size_of::<D3DDDI_ALLOCATIONLIST>() / 4;
const PATCH_WORDS: usize = size_of::<D3DDDI_PATCHLOCATIONLIST>() / 4;

/// `WriteOperation` of an entry of the allocation list.
const WRITES: u32 = 1;
/// `SlotId` of an entry of the patch location list.
const SLOT: u32 = 0xff_ffff;

const CREATE_CONTEXT_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleDevice, RuleId::DEV_LIFE_003, "D3DKMTCreateContext.hDevice")],
    others: &[(RuleId::DEV_LIFE_006, "D3DKMTCreateContext.NodeOrdinal")],
};

const RENDER_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::StaleContext, RuleId::DEV_LIFE_003, "D3DKMTRender.hContext")],
    others: &[(RuleId::SUBMIT_CMD_001, "D3DKMTRender.hContext")],
};

const LIST_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[],
    others: &[(RuleId::SUBMIT_RENDER_006, "D3DKMTRender.pAllocationList")],
};

/// The sizes that a call passes, and the sizes of the context's buffers.
struct RenderCounts {
    arguments: D3DKMT_RENDER,
    has: RenderBuffers,
}

const BOUNDS: &[ArgumentRule<RenderCounts>] = &[ArgumentRule {
    id: RuleId::SUBMIT_RENDER_003,
    argument: "D3DKMTRender.CommandLength",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: out_of_bounds,
}];

fn out_of_bounds(it: &RenderCounts) -> Option<String> {
    let (arguments, has) = (&it.arguments, &it.has);
    let counts = [
        ("CommandLength", arguments.CommandLength, has.commands.size),
        ("AllocationCount", arguments.AllocationCount, has.list.size),
        ("PatchLocationCount", arguments.PatchLocationCount, has.patches.size),
    ];
    if arguments.CommandOffset > arguments.CommandLength {
        let (offset, length) = (arguments.CommandOffset, arguments.CommandLength);
        return Some(format!(
            "CommandOffset is {offset}, but CommandLength is {length} and counts from zero"
        ));
    }
    let (name, count, limit) = counts.into_iter().find(|(_, count, limit)| count > limit)?;
    Some(format!("{name} is {count}, but there is room for {limit}"))
}

/// Creates a context whose packets have allocation lists, with its first buffers.
pub(crate) unsafe fn create_context(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_CREATECONTEXT,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    if arguments.Flags.Value != 0 {
        session.missing_entry("D3DKMTCreateContext.Flags");
    }
    let (from, size) = (arguments.pPrivateDriverData.cast_const(), arguments.PrivateDriverDataSize);
    // SAFETY: The caller's contract.
    let private = unsafe { read_bytes(from, size) }.of_member("pPrivateDriverData")?;
    let (node, engine) = (arguments.NodeOrdinal, arguments.EngineAffinity);
    let request = CreateContextArgs { node, engine, system: false, private };
    let (kernel, device) = (&session.kernel, Handle(arguments.hDevice));
    let entries = EntrySizes { list: bytes(LIST_WORDS), patches: bytes(PATCH_WORDS) };
    let made = kernel.create_context_with_lists(at, session.process, device, &request, entries);
    let (context, buffers) = map_error(session, CREATE_CONTEXT_ERROR_RULES, made)?;
    arguments.hContext = context.0;
    arguments.pCommandBuffer = show(session, buffers.commands.address)?;
    arguments.CommandBufferSize = buffers.commands.size;
    arguments.pAllocationList = show(session, buffers.list.address)?;
    arguments.AllocationListSize = buffers.list.size;
    arguments.pPatchLocationList = show(session, buffers.patches.address)?;
    arguments.PatchLocationListSize = buffers.patches.size;
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The address of a buffer for the caller.
fn show<T>(session: &Session, address: usize) -> Result<*mut T, NTSTATUS> {
    session.show(address, ShownAccess::ReadWrite).map(ptr::with_exposed_provenance_mut)
}

/// Renders the packet in the buffers of a context.
///
/// WINDOWS: one page says that the results are undefined after a failure, another that the
/// pointers must always be used. They are valid after every call (our decision).
pub(crate) unsafe fn render_packet(
    session: &Session,
    at: &mut Passive,
    args: *mut D3DKMT_RENDER,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let context = Handle(arguments.hContext);
    let has = session.kernel.render_buffers(session.process, context);
    let has = map_error(session, RENDER_ERROR_RULES, has)?;
    let rendered = render(session, at, &arguments, has);
    let resize = |flag: u32, size: u32| arguments.Flags.has(flag).then_some(size);
    let resize = BufferResize {
        commands: resize(Flags::ResizeCommandBuffer, arguments.NewCommandBufferSize),
        list: resize(Flags::ResizeAllocationList, arguments.NewAllocationListSize),
        patches: resize(Flags::ResizePatchLocationList, arguments.NewPatchLocationListSize),
    };
    let next = session.kernel.swap_buffers(session.process, context, resize);
    let next = next.map_err(|why| status(&why))?;
    arguments.pNewCommandBuffer = show(session, next.commands.address)?;
    arguments.NewCommandBufferSize = next.commands.size;
    arguments.pNewAllocationList = show(session, next.list.address)?;
    arguments.NewAllocationListSize = next.list.size;
    arguments.pNewPatchLocationList = show(session, next.patches.address)?;
    arguments.NewPatchLocationListSize = next.patches.size;
    arguments.QueuedBufferCount = rendered.unwrap_or(0);
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }?;
    rendered.map(|_| ())
}

/// Checks and renders a packet. Returns how many DMA buffers it took.
fn render(
    session: &Session,
    at: &mut Passive,
    arguments: &D3DKMT_RENDER,
    has: RenderBuffers,
) -> Result<u32, NTSTATUS> {
    judge_arguments(session, BOUNDS, &RenderCounts { arguments: *arguments, has })?;
    let others = Flags::PresentRedirected | Flags::RenderKm | Flags::RenderKmReadback;
    if arguments.BroadcastContextCount > 0 || arguments.Flags.has(others) {
        session.missing_entry("D3DKMTRender to several contexts, or with flags of presents");
        return Err(STATUS_NOT_SUPPORTED);
    }
    let counts = (arguments.CommandLength, arguments.AllocationCount, arguments.PatchLocationCount);
    let context = Handle(arguments.hContext);
    let captured = session.kernel.capture_buffers(session.process, context, counts);
    let captured = captured.map_err(|why| status(&why))?;
    let stale = captured.stale.map(|sentence| format!("{sentence}: each call gives new buffers"));
    // A separate rule covers user-mode drivers.
    let rule = match session.component() {
        Component::Umd => RuleId::UMD_SUBMIT_001,
        _ => RuleId::SUBMIT_RENDER_001,
    };
    session.judge(rule, "D3DKMTRender.pNewCommandBuffer", stale);
    let beyond =
        captured.overrun.map(|sentence| format!("{sentence}: the size that was returned counts"));
    session.judge(RuleId::SUBMIT_RENDER_002, "D3DKMTRender.NewCommandBufferSize", beyond);
    let list: Vec<(Handle, bool)> = words::<LIST_WORDS>(&captured.list)
        .map(|[handle, value]| (Handle(handle), value & WRITES != 0))
        .collect();
    let patches: Vec<PatchLocation> =
        words::<PATCH_WORDS>(&captured.patches).map(location).collect();
    let stray = patches.iter().position(|patch| patch.allocation_index as usize >= list.len());
    let broken = stray.map(|at| {
        format!(
            "entry {at} names allocation {} of a list of {}",
            patches[at].allocation_index,
            list.len()
        )
    });
    let error = broken.is_some();
    session.judge(RuleId::SUBMIT_RENDER_004, "D3DKMTRender.PatchLocationCount", broken);
    if error {
        return Err(STATUS_INVALID_PARAMETER);
    }
    let skip = arguments.CommandOffset as usize;
    let commands = captured.commands.get(skip..).unwrap_or_default().to_vec();
    let null = arguments.Flags.has(Flags::NullRendering);
    let request = RenderRequest { context, commands, list, patches, null };
    map_error(session, LIST_ERROR_RULES, session.kernel.render(at, session.process, &request))
}

fn location(words: [u32; PATCH_WORDS]) -> PatchLocation {
    let [allocation, value, driver, offset, argument, split] = words;
    PatchLocation {
        allocation_index: allocation,
        slot_id: value & SLOT,
        driver_id: driver,
        allocation_offset: offset,
        patch_offset: argument,
        split_offset: split,
    }
}

/// The entries of a list that the caller wrote, as 32-bit values.
fn words<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u32; N]> + '_ {
    bytes.chunks_exact(N * 4).map(|entry| {
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(entry.as_chunks::<4>().0) {
            *word = u32::from_ne_bytes(*bytes);
        }
        words
    })
}

fn bytes(words: usize) -> u32 {
    u32::try_from(words * 4).unwrap_or(u32::MAX)
}
