//! Work for contexts.
#![expect(unsafe_code, reason = "a driver calls these, and writes to buffers that are looked at")]

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
    /// Submits what a context's buffers hold, and gives the next ones.
    render "pfnRenderCb" Submits mut D3DDDICB_RENDER: |device, at, asked| {
        let context = device.context(asked.hContext, NAME)?;
        if asked.BroadcastContextCount > 0 {
            device.log_missing("pfnRenderCb to several contexts");
            return Err(E_NOTIMPL);
        }
        let list = device.ledger().contexts.get(&asked.hContext.addr()).map(|context| context.list);
        let used: Vec<_> = listed_handles(list.unwrap_or_default(), asked.NumAllocations).collect();
        device.judge_rendered(NAME, &used);
        let mut args = D3DKMT_RENDER {
            hContext: context,
            CommandOffset: asked.CommandOffset,
            CommandLength: asked.CommandLength,
            AllocationCount: asked.NumAllocations,
            PatchLocationCount: asked.NumPatchLocations,
            NewCommandBufferSize: asked.NewCommandBufferSize,
            NewAllocationListSize: asked.NewAllocationListSize,
            NewPatchLocationListSize: asked.NewPatchLocationListSize,
            Flags: D3DKMT_RENDERFLAGS { Value: asked.Flags.Value },
            ..D3DKMT_RENDER::ZERO
        };
        // SAFETY: The arguments live here.
        let status = unsafe { D3DKMTRender(device.session(), at, &raw mut args) };
        if args.pNewCommandBuffer.is_null() {
            // What was written is lost: nothing is left to be submitted.
            clear_allocation_list(list.unwrap_or_default());
        } else {
            asked.pNewCommandBuffer = args.pNewCommandBuffer;
            asked.NewCommandBufferSize = args.NewCommandBufferSize;
            asked.pNewAllocationList = args.pNewAllocationList;
            asked.NewAllocationListSize = args.NewAllocationListSize;
            asked.pNewPatchLocationList = args.pNewPatchLocationList;
            asked.NewPatchLocationListSize = args.NewPatchLocationListSize;
            asked.QueuedBufferCount = args.QueuedBufferCount;
            let now = Context {
                kernel: context,
                list: (args.pNewAllocationList.expose_provenance(), args.NewAllocationListSize),
                commands: (args.pNewCommandBuffer.expose_provenance(), args.NewCommandBufferSize),
                patches: (
                    args.pNewPatchLocationList.expose_provenance(),
                    args.NewPatchLocationListSize,
                ),
            };
            if let Some(it) = device.ledger().contexts.get_mut(&asked.hContext.addr()) {
                *it = now;
            }
            clear_allocation_list(now.list);
        }
        device.note_submission(NAME, check_status(status))
    }
}

/// The same; and whatever it is refused for, the context's buffers are named that count.
///
/// WINDOWS: what a failed call answers is invalid, says one page; a driver must always take the
/// pointers over, says the other (both documented). So they are good in any case.
///
/// # Safety
///
/// As of [`render`].
pub(super) unsafe extern "win64-unwind" fn render_or_restore(
    of: HANDLE,
    args: *mut D3DDDICB_RENDER,
) -> HRESULT {
    // SAFETY: The caller promises the same.
    let answer = unsafe { render(of, args) };
    if succeeded(answer) {
        return answer;
    }
    let Some(device) = call_stack::device(of.addr()) else { return answer };
    device.session().with_trust(|| {
        // SAFETY: The caller promises the same.
        let Ok(mut asked) = (unsafe { claims::read_mut(args) }) else { return };
        let ledger = device.ledger();
        let (named, mut all) = (asked.hContext.addr(), ledger.contexts.values());
        // A handle that means none can only have meant the one there is.
        let alone = all.next().filter(|_| all.next().is_none());
        let Some(it) = ledger.contexts.get(&named).or(alone).copied() else { return };
        if it.commands.0 == 0 {
            return; // Its packets have no lists.
        }
        drop(ledger);
        asked.pNewCommandBuffer = ptr::with_exposed_provenance_mut(it.commands.0);
        asked.NewCommandBufferSize = it.commands.1;
        asked.pNewAllocationList = ptr::with_exposed_provenance_mut(it.list.0);
        asked.NewAllocationListSize = it.list.1;
        asked.pNewPatchLocationList = ptr::with_exposed_provenance_mut(it.patches.0);
        asked.NewPatchLocationListSize = it.patches.1;
        // SAFETY: The caller promises the same. What could be read and not be written was answered.
        let _ = unsafe { claims::write(args, asked) };
    });
    answer
}

callback! {
    /// Submits commands by their address.
    submit "pfnSubmitCommandCb" Submits const D3DDDICB_SUBMITCOMMAND: |device, at, asked| {
        let count = asked.BroadcastContextCount as usize;
        if count == 0 || count > D3DDDI_MAX_BROADCAST_CONTEXT {
            return Err(E_INVALIDARG);
        }
        let mut args = D3DKMT_SUBMITCOMMAND {
            Commands: asked.Commands,
            CommandLength: asked.CommandLength,
            Flags: D3DKMT_SUBMITCOMMANDFLAGS { Value: asked.Flags.Value },
            BroadcastContextCount: asked.BroadcastContextCount,
            pPrivateDriverData: asked.pPrivateDriverData,
            PrivateDriverDataSize: asked.PrivateDriverDataSize,
            NumPrimaries: asked.NumPrimaries,
            WrittenPrimaries: asked.WrittenPrimaries,
            NumHistoryBuffers: asked.NumHistoryBuffers,
            HistoryBufferArray: asked.HistoryBufferArray,
            ..D3DKMT_SUBMITCOMMAND::ZERO
        };
        device.judge_primaries(NAME, asked);
        for (to, from) in args.BroadcastContext.iter_mut().zip(&asked.BroadcastContext[..count]) {
            *to = device.context(*from, NAME)?;
        }
        let answer = through!(D3DKMTSubmitCommand, device, at, &raw const args);
        device.note_submission(NAME, answer)
    }
}

impl DeviceState {
    /// Work was submitted, or refused.
    fn note_submission(
        &self,
        name: &'static str,
        answer: Result<(), HRESULT>,
    ) -> Result<(), HRESULT> {
        self.ledger().note_submission();
        if current_frame().is_some_and(|call_frame| call_frame.name == "pfnFlush") {
            let broken = (answer == Err(E_INVALIDARG))
                .then(|| format!("{name} was refused in a flush: its commands are not whole"));
            self.judge(RuleId::UMD_SUBMIT_002, name, broken);
        }
        answer
    }

    /// What a packet draws to and a display may show is named with it.
    fn judge_primaries(&self, name: &'static str, asked: &D3DDDICB_SUBMITCOMMAND) {
        let count = asked.WrittenPrimaries.len().min(asked.NumPrimaries as usize);
        let named = &asked.WrittenPrimaries[..count];
        let ledger = self.ledger();
        let lost = ledger.written_resources().find_map(|group| {
            let whole = group.members.len() == group.surfaces.surfaces.len();
            group.written.iter().find_map(|index| {
                let own = group.members.get(*index as usize).filter(|_| whole);
                let private_data = match own {
                    Some(it) => named.contains(it),
                    None => group.members.iter().any(|number| named.contains(number)),
                };
                (!private_data).then_some((*index, group.subject))
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

    /// What a packet lists is to be unlocked.
    fn judge_rendered(&self, name: &'static str, used: &[D3DKMT_HANDLE]) {
        let (locked, old) = {
            let ledger = self.ledger();
            (ledger.find_locked(used), ledger.find_replaced(used))
        };
        let broken = old.map(|number| {
            format!("allocation {number:#x} is listed, and a lock that discards has replaced it")
        });
        self.judge(RuleId::UMD_LOCK_005, name, broken);
        let broken =
            locked.map(|number| format!("allocation {number:#x} is listed while it is locked"));
        self.judge(RuleId::UMD_SUBMIT_003, name, broken);
    }

    pub(super) fn log_missing(&self, name: &'static str) {
        self.log().emit(self.subject, EventKind::EntryMissing { name: name.into() });
    }
}

/// One of these allocations that commands use which were not submitted.
pub(super) fn find_unsubmitted(ledger: &Ledger, list: &[D3DKMT_HANDLE]) -> Option<D3DKMT_HANDLE> {
    let mut written =
        ledger.contexts.values().flat_map(|context| listed_handles(context.list, context.list.1));
    written.find(|number| list.contains(number))
}

/// What a driver has written to its buffers is lost: its submission was refused for the kernel.
pub(super) fn discard_commands(device: &DeviceState) {
    let mut ledger = device.ledger();
    ledger.note_submission();
    let lists: Vec<(usize, u32)> = ledger.contexts.values().map(|context| context.list).collect();
    drop(ledger);
    lists.into_iter().for_each(clear_allocation_list);
}

/// Empties an allocation list that a driver is given: what is in it later is the driver's.
pub(super) fn clear_allocation_list((address, entries): (usize, u32)) {
    let list = ptr::with_exposed_provenance_mut::<D3DDDI_ALLOCATIONLIST>(address);
    if !list.is_null() {
        // SAFETY: The kernel shows so many entries there until the context goes; the driver
        // that could write to them has not been given them yet.
        unsafe { list.write_bytes(0, entries as usize) };
    }
}

/// The handles in an allocation list of so many entries, as far as they are asked for.
pub(super) fn listed_handles(
    (address, room): (usize, u32),
    count: u32,
) -> impl Iterator<Item = D3DKMT_HANDLE> {
    let list = ptr::with_exposed_provenance::<D3DDDI_ALLOCATIONLIST>(address);
    let count = if list.is_null() { 0 } else { count.min(room) };
    let read = move |place: u32| {
        // SAFETY: The kernel shows that many entries there until the context goes; the driver
        // whose call this is does not write to them meanwhile.
        unsafe { list.wrapping_add(place as usize).read_unaligned() }.hAllocation
    };
    (0..count).map(read).filter(|number| *number != 0)
}
