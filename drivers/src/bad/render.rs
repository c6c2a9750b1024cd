//! Bad WDDM 1.x drivers that render or patch incorrectly: each forwards packets to a good driver
//! and changes one thing.

use flight::{Dispatch, Passive};
use kernel::context::Context;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot, Miniport,
};
use kernel::render_args::{
    AllocationListEntry, BufferSizes, PatchArgs, PatchLocation, RenderArgs, SubmitCommandArgs,
};
use softgpu::{SoftGpu, format};
use std::sync::Arc;

/// More patch locations than a client's largest buffer can have commands.
const GUARANTEED: u32 = 256;

/// A driver around a good driver.
pub(crate) struct RenderFlawDriver {
    inner: Arc<SoftGpu>,
    flaw: Flaw,
}

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing: it guarantees that one buffer is enough, and that is true.
    None,
    /// Validates the client's commands, then has them translated.
    ReadsUserCommandsTwice,
    /// Copies native commands of the client into its buffer.
    CopiesUnvalidatedCommands,
    /// Reports one byte more than the buffer has room for.
    OverstatesDmaSize,
    /// Does not write addresses of the client's patch locations.
    SkipsPrepatch,
    /// Does not report the client's patch locations.
    OmitsPatchLocation,
    /// Requests another buffer.
    NeverFitsDmaBuffer,
    /// Requests another buffer and forgets its progress.
    RestartsSplitRender,
    /// Guarantees that one buffer is enough, and requests another.
    BreaksGuaranteedDmaBuffer,
    /// Lists the last patch location first.
    MisordersPatchLocations,
    /// Patches and returns a failure.
    FailsPatch,
    /// Writes its mark behind the commands.
    PatchesOutsideSubmission,
    /// Adds an address to the value at its location.
    PatchesByAdding,
    /// Uses the context of paging work.
    AssumesPatchContext,
    /// Executes the commands of a packet that is not to be rendered.
    RunsNullRendering,
}

impl RenderFlawDriver {
    pub(crate) fn new(inner: Arc<SoftGpu>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { inner, flaw })
    }

    /// Returns the client's native hardware command, if the client sent one.
    fn run(rendering: &mut RenderArgs<'_>) -> Option<()> {
        let bytes = rendering.commands.fetch(0..rendering.commands.len())?;
        let raw = format::read_raw(&bytes)?;
        rendering.buffer.get_mut(..raw.len())?.copy_from_slice(raw);
        rendering.written = u32::try_from(raw.len()).ok()?;
        Some(())
    }

    /// Whether a packet is one native hardware command.
    fn is_raw(rendering: &RenderArgs<'_>) -> bool {
        // A native command begins with a count and a code; its target is not in the list.
        rendering.allocation_list.is_empty() && rendering.commands.len() > 12
    }
}

/// Writes the current value at each address's location.
fn rewrite(
    buffer: &mut [u8],
    patches: &[PatchLocation],
    list: &[AllocationListEntry],
    new: impl Fn(u64, u64) -> u64,
) {
    for it in patches {
        let place = it.patch_offset as usize;
        let address = list.get(it.allocation_index as usize).map_or(0, |entry| entry.address);
        let address = address + u64::from(it.allocation_offset);
        if let Some(driver_handle) = buffer.get_mut(place..).and_then(<[u8]>::first_chunk_mut::<8>)
        {
            *driver_handle = new(u64::from_le_bytes(*driver_handle), address).to_le_bytes();
        }
    }
}

impl Miniport for RenderFlawDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn create_context_with_lists(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        let (context, sizes) =
            self.inner.create_context_with_lists(at, device, args, driver_handle)?;
        let guaranteed = matches!(self.flaw, Flaw::None | Flaw::BreaksGuaranteedDmaBuffer);
        let patches = if guaranteed { GUARANTEED } else { sizes.patches };
        Ok((context, BufferSizes { guaranteed, patches, ..sizes }))
    }

    fn render(&self, at: &mut Passive, rendering: &mut RenderArgs<'_>) -> DriverResult<()> {
        match self.flaw {
            Flaw::ReadsUserCommandsTwice => {
                let first = rendering.commands.fetch(0..4.min(rendering.commands.len()));
                if first.is_none_or(|bytes| bytes.is_empty()) {
                    return Ok(());
                }
            }
            Flaw::CopiesUnvalidatedCommands if Self::is_raw(rendering) => {
                return Self::run(rendering).ok_or(DriverError::Privileged);
            }
            Flaw::NeverFitsDmaBuffer => return Err(DriverError::NoRoom),
            Flaw::BreaksGuaranteedDmaBuffer if *rendering.multipass == 0 => {
                self.inner.render(at, rendering)?;
                return Err(DriverError::NoRoom);
            }
            _ => (),
        }
        let before = *rendering.multipass;
        let answer = self.inner.render(at, rendering);
        if self.flaw == Flaw::RestartsSplitRender && answer == Err(DriverError::NoRoom) {
            *rendering.multipass = before;
        }
        let patches = std::mem::take(&mut rendering.patches);
        match self.flaw {
            Flaw::SkipsPrepatch => {
                rewrite(rendering.buffer, &patches, rendering.allocation_list, |_, _| 0);
            }
            Flaw::OverstatesDmaSize => {
                rendering.written = u32::try_from(rendering.buffer.len()).unwrap_or(0) + 1;
            }
            _ => (),
        }
        let is_resident = |patch_location: &PatchLocation| {
            rendering
                .allocation_list
                .get(patch_location.allocation_index as usize)
                .is_some_and(|entry| entry.segment != 0)
        };
        rendering.patches = match self.flaw {
            Flaw::OmitsPatchLocation => patches
                .iter()
                .filter(|patch_location| !is_resident(patch_location))
                .copied()
                .collect(),
            Flaw::MisordersPatchLocations => patches.into_iter().rev().collect(),
            _ => patches,
        };
        answer
    }

    fn patch(&self, at: &mut Passive, patching: &mut PatchArgs<'_>) -> DriverResult<()> {
        match self.flaw {
            Flaw::AssumesPatchContext if patching.context.is_none() => {
                return Err(DriverError::Invalid);
            }
            Flaw::PatchesByAdding => {
                let (list, patches) = (patching.allocation_list, patching.patches);
                rewrite(patching.buffer, patches, list, |before, address| before | address);
                return Ok(());
            }
            _ => (),
        }
        self.inner.patch(at, patching)?;
        let behind = patching.submitted.end as usize;
        match (self.flaw, patching.context) {
            (Flaw::FailsPatch, Some(_)) => Err(DriverError::Busy),
            (Flaw::PatchesOutsideSubmission, Some(_)) => {
                if let Some(byte) = patching.buffer.get_mut(behind) {
                    *byte = !*byte;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn submit_command(
        &self,
        at: &mut Dispatch,
        packet: &SubmitCommandArgs<'_>,
    ) -> DriverResult<()> {
        let null = packet.null && self.flaw != Flaw::RunsNullRendering;
        self.inner.submit_command(at, &SubmitCommandArgs { null, ..packet.clone() })
    }
}
