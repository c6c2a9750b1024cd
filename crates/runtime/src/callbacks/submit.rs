//! Submission of work to contexts.
#![expect(unsafe_code, reason = "a driver calls these, and writes to buffers that are read here")]

use super::check_status;
use crate::call_stack::{self, current_frame};
use crate::device::DeviceState;
use crate::ledger::{Context, Ledger};
use abi::hresult::{E_INVALIDARG, E_NOTIMPL, succeeded};
use abi::kmt::{
    D3DKMT_RENDER, D3DKMT_RENDERFLAGS, D3DKMT_SUBMITCOMMAND, D3DKMT_SUBMITCOMMANDFLAGS,
};
use abi::ukm::{D3DDDI_ALLOCATIONLIST, D3DDDI_MAX_BROADCAST_CONTEXT};
use abi::umd::{D3DDDICB_RENDER, D3DDDICB_SUBMITCOMMAND};
use abi::{D3DKMT_HANDLE, HANDLE, HRESULT};
use flight::{EventKind, RuleId};
use std::ptr;
use thunk::{D3DKMTRender, claims};

callback! {
    /// Submits a context's buffers, and returns the next ones.
    render "pfnRenderCb" Submits mut D3DDDICB_RENDER: |device, at, request| {
        let context = device.context(request.hContext, NAME)?;
        if request.BroadcastContextCount > 0 {
            device.log_missing("pfnRenderCb to several contexts");
            return Err(E_NOTIMPL);
        }
        let list = device.ledger().contexts.get(&request.hContext.addr()).map(|context| context.list);
        let used: Vec<_> = listed_handles(list.unwrap_or_default(), request.NumAllocations).collect();
        device.judge_rendered(NAME, &used);
        let mut args = D3DKMT_RENDER {
            hContext: context,
            CommandOffset: request.CommandOffset,
            CommandLength: request.CommandLength,
            AllocationCount: request.NumAllocations,
            PatchLocationCount: request.NumPatchLocations,
            NewCommandBufferSize: request.NewCommandBufferSize,
            NewAllocationListSize: request.NewAllocationListSize,
            NewPatchLocationListSize: request.NewPatchLocationListSize,
            Flags: D3DKMT_RENDERFLAGS { Value: request.Flags.Value },
            ..D3DKMT_RENDER::ZERO
        };
        // SAFETY: `args` outlives the call.
        let status = unsafe { D3DKMTRender(device.session(), at, &raw mut args) };
        if args.pNewCommandBuffer.is_null() {
            // The written commands are discarded: nothing is left to submit.
            clear_allocation_list(list.unwrap_or_default());
        } else {
            request.pNewCommandBuffer = args.pNewCommandBuffer;
            request.NewCommandBufferSize = args.NewCommandBufferSize;
            request.pNewAllocationList = args.pNewAllocationList;
            request.NewAllocationListSize = args.NewAllocationListSize;
            request.pNewPatchLocationList = args.pNewPatchLocationList;
            request.NewPatchLocationListSize = args.NewPatchLocationListSize;
            request.QueuedBufferCount = args.QueuedBufferCount;
            let now = Context {
                kernel: context,
                list: (args.pNewAllocationList.expose_provenance(), args.NewAllocationListSize),
                commands: (args.pNewCommandBuffer.expose_provenance(), args.NewCommandBufferSize),
                patches: (
                    args.pNewPatchLocationList.expose_provenance(),
                    args.NewPatchLocationListSize,
                ),
            };
            if let Some(it) = device.ledger().contexts.get_mut(&request.hContext.addr()) {
                *it = now;
            }
            clear_allocation_list(now.list);
        }
        device.note_submission(NAME, check_status(status))
    }
}

/// Like [`render`], but also returns the context's valid buffers when the call fails.
///
/// WINDOWS: one page documents the output of a failed call as invalid; another requires the driver
/// to always use the returned pointers (both documented). So they are valid in either case.
///
/// # Safety
///
/// As for [`render`].
pub(super) unsafe extern "win64-unwind" fn render_or_restore(
    of: HANDLE,
    args: *mut D3DDDICB_RENDER,
) -> HRESULT {
    // SAFETY: The caller guarantees the same.
    let answer = unsafe { render(of, args) };
    if succeeded(answer) {
        return answer;
    }
    let Some(device) = call_stack::device(of.addr()) else { return answer };
    device.session().with_trust(|| {
        // SAFETY: The caller guarantees the same.
        let Ok(mut request) = (unsafe { claims::read_mut(args) }) else { return };
        let ledger = device.ledger();
        let (named, mut all) = (request.hContext.addr(), ledger.contexts.values());
        // With a single context, an invalid handle can only have meant that context.
        let alone = all.next().filter(|_| all.next().is_none());
        let Some(it) = ledger.contexts.get(&named).or(alone).copied() else { return };
        if it.commands.0 == 0 {
            return; // Its packets have no lists.
        }
        drop(ledger);
        request.pNewCommandBuffer = ptr::with_exposed_provenance_mut(it.commands.0);
        request.NewCommandBufferSize = it.commands.1;
        request.pNewAllocationList = ptr::with_exposed_provenance_mut(it.list.0);
        request.NewAllocationListSize = it.list.1;
        request.pNewPatchLocationList = ptr::with_exposed_provenance_mut(it.patches.0);
        request.NewPatchLocationListSize = it.patches.1;
        // SAFETY: The caller guarantees the same. A structure that can be read but not written has
        // already failed.
        let _ = unsafe { claims::write(args, request) };
    });
    answer
}

callback! {
    /// Submits a command buffer by its GPU virtual address.
    submit "pfnSubmitCommandCb" Submits const D3DDDICB_SUBMITCOMMAND: |device, at, request| {
        let count = request.BroadcastContextCount as usize;
        if count == 0 || count > D3DDDI_MAX_BROADCAST_CONTEXT {
            return Err(E_INVALIDARG);
        }
        let mut args = D3DKMT_SUBMITCOMMAND {
            Commands: request.Commands,
            CommandLength: request.CommandLength,
            Flags: D3DKMT_SUBMITCOMMANDFLAGS { Value: request.Flags.Value },
            BroadcastContextCount: request.BroadcastContextCount,
            pPrivateDriverData: request.pPrivateDriverData,
            PrivateDriverDataSize: request.PrivateDriverDataSize,
            NumPrimaries: request.NumPrimaries,
            WrittenPrimaries: request.WrittenPrimaries,
            NumHistoryBuffers: request.NumHistoryBuffers,
            HistoryBufferArray: request.HistoryBufferArray,
            ..D3DKMT_SUBMITCOMMAND::ZERO
        };
        device.judge_primaries(NAME, request);
        for (to, from) in args.BroadcastContext.iter_mut().zip(&request.BroadcastContext[..count]) {
            *to = device.context(*from, NAME)?;
        }
        let answer = through!(D3DKMTSubmitCommand, device, at, &raw const args);
        device.note_submission(NAME, answer)
    }
}

impl DeviceState {
    /// Records that work was submitted or that the submission failed.
    fn note_submission(
        &self,
        name: &'static str,
        answer: Result<(), HRESULT>,
    ) -> Result<(), HRESULT> {
        self.ledger().note_submission();
        if current_frame().is_some_and(|call_frame| call_frame.name == "pfnFlush") {
            let broken = (answer == Err(E_INVALIDARG))
                .then(|| format!("{name} failed in a flush: its commands are incomplete"));
            self.judge(RuleId::UMD_SUBMIT_002, name, broken);
        }
        answer
    }

    /// Judges that every displayable surface that a packet writes to is listed with the packet.
    fn judge_primaries(&self, name: &'static str, request: &D3DDDICB_SUBMITCOMMAND) {
        let count = request.WrittenPrimaries.len().min(request.NumPrimaries as usize);
        let named = &request.WrittenPrimaries[..count];
        let ledger = self.ledger();
        let lost = ledger.written_resources().find_map(|group| {
            let whole = group.members.len() == group.surfaces.surfaces.len();
            group.written.iter().find_map(|index| {
                let own = group.members.get(*index as usize).filter(|_| whole);
                let listed = match own {
                    Some(it) => named.contains(it),
                    None => group.members.iter().any(|number| named.contains(number)),
                };
                (!listed).then_some((*index, group.subject))
            })
        });
        drop(ledger);
        let broken = lost.map(|(index, about)| {
            format!(
                "surface {index} of {about} may be on a display and was drawn to, and is not among \
                 the {count} WrittenPrimaries"
            )
        });
        self.judge(RuleId::UMD_SUBMIT_007, name, broken);
    }

    /// Judges that the allocations that a packet lists are unlocked.
    fn judge_rendered(&self, name: &'static str, used: &[D3DKMT_HANDLE]) {
        let (locked, old) = {
            let ledger = self.ledger();
            (ledger.find_locked(used), ledger.find_replaced(used))
        };
        let broken = old.map(|number| {
            format!("allocation {number:#x} is listed, and a discarding lock has replaced it")
        });
        self.judge(RuleId::UMD_LOCK_005, name, broken);
        let broken =
            locked.map(|number| format!("allocation {number:#x} is listed while it is locked"));
        self.judge(RuleId::UMD_SUBMIT_003, name, broken);
    }

    pub(super) fn log_missing(&self, name: &'static str) {
        self.log().emit(self.subject, || EventKind::EntryMissing { name: name.into() });
    }
}

/// The first of these allocations that is used by commands not yet submitted.
pub(super) fn find_unsubmitted(ledger: &Ledger, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
    let mut written =
        ledger.contexts.values().flat_map(|context| listed_handles(context.list, context.list.1));
    written.find(|number| list.contains(number))
}

/// Discards what the driver has written to its buffers: the kernel failed the submission.
pub(super) fn discard_commands(device: &DeviceState) {
    let mut ledger = device.ledger();
    ledger.note_submission();
    let lists: Vec<(usize, u32)> = ledger.contexts.values().map(|context| context.list).collect();
    drop(ledger);
    lists.into_iter().for_each(clear_allocation_list);
}

/// Clears an allocation list before the driver gets it. Later contents are the driver's.
pub(super) fn clear_allocation_list((address, entries): (usize, u32)) {
    let list = ptr::with_exposed_provenance_mut::<D3DDDI_ALLOCATIONLIST>(address);
    if !list.is_null() {
        // SAFETY: The kernel maps `entries` entries there until the context is destroyed; the
        // driver, which could write to them, has not received them yet.
        unsafe { list.write_bytes(0, entries as usize) };
    }
}

/// The handles in an allocation list of `entries` entries, up to the requested count.
pub(super) fn listed_handles(
    (address, room): (usize, u32),
    count: u32,
) -> impl Iterator<Item = D3DKMT_HANDLE> {
    let list = ptr::with_exposed_provenance::<D3DDDI_ALLOCATIONLIST>(address);
    let count = if list.is_null() { 0 } else { count.min(room) };
    let read = move |place: u32| {
        // SAFETY: The kernel maps that many entries there until the context is destroyed; the
        // driver that makes this call does not write to them meanwhile.
        unsafe { list.wrapping_add(place as usize).read_unaligned() }.hAllocation
    };
    (0..count).map(read).filter(|number| *number != 0)
}
