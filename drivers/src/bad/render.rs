//! Drivers of WDDM 1.x that render or patch wrongly: each hands packets on to a good one, but for
//! one thing.

use flight::{Dispatch, Passive};
use kernel::context::Context;
use kernel::listed::{BufferSizes, ListedSubmission, Listing, PatchLocation, Patching, Rendering};
use kernel::miniport::{
    Answer, Blank, ContextOrder, DriverContext, DriverDevice, Miniport, Refusal,
};
use softgpu::{SoftGpu, format};
use std::sync::Arc;

/// More patch locations than a client's largest buffer has room for commands.
const GUARANTEED: u32 = 256;

/// A driver around a good one.
pub(crate) struct Listless {
    good: Arc<SoftGpu>,
    flaw: Flaw,
}

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Nothing: it guarantees that a buffer is enough, and it is.
    None,
    /// Looks at the client's commands, then has them translated.
    FetchesTwice,
    /// Copies what the hardware would do into its buffer.
    RunsAnything,
    /// Says that it wrote a byte more than there is room for.
    Beyond,
    /// Writes no address that it was told.
    NeverPrepatches,
    /// Says nothing of the places of addresses that it was told.
    ForgetsPatch,
    /// Asks for another buffer.
    GetsNowhere,
    /// Asks for another buffer, and forgets how far it came.
    BeginsAgain,
    /// Guarantees that a buffer is enough, and asks for another.
    BreaksGuarantee,
    /// The last patch location first.
    SplitsBackwards,
    /// Patches, and fails.
    FailsPatch,
    /// Writes its mark behind the commands.
    PatchesOutside,
    /// Adds an address to what is in its place.
    PatchesOnce,
    /// Looks at the context of paging work.
    NeedsContext,
    /// Does the commands of a packet that is not to be rendered.
    RendersNull,
}

impl Listless {
    pub(crate) fn new(good: Arc<SoftGpu>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { good, flaw })
    }

    /// A client's own command of the hardware's, if that is what it sent.
    fn run(rendering: &mut Rendering<'_>) -> Option<()> {
        let bytes = rendering.commands.fetch(0..rendering.commands.len())?;
        let raw = format::read_raw(&bytes)?;
        rendering.buffer.get_mut(..raw.len())?.copy_from_slice(raw);
        rendering.written = u32::try_from(raw.len()).ok()?;
        Some(())
    }

    /// Whether a packet is one command of the hardware's own.
    fn is_raw(rendering: &Rendering<'_>) -> bool {
        // It begins with a count and a code, and what it fills is on no list.
        rendering.list.is_empty() && rendering.commands.len() > 12
    }
}

/// Writes what is in the place of each address.
fn rewrite(
    buffer: &mut [u8],
    patches: &[PatchLocation],
    list: &[Listing],
    new: impl Fn(u64, u64) -> u64,
) {
    for it in patches {
        let place = it.place as usize;
        let address = list.get(it.allocation as usize).map_or(0, |it| it.address);
        let address = address + u64::from(it.offset);
        if let Some(word) = buffer.get_mut(place..).and_then(<[u8]>::first_chunk_mut::<8>) {
            *word = new(u64::from_le_bytes(*word), address).to_le_bytes();
        }
    }
}

impl Miniport for Listless {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn create_listed_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, BufferSizes)> {
        let (context, sizes) = self.good.create_listed_context(at, device, order, word)?;
        let guaranteed = matches!(self.flaw, Flaw::None | Flaw::BreaksGuarantee);
        let patches = if guaranteed { GUARANTEED } else { sizes.patches };
        Ok((context, BufferSizes { guaranteed, patches, ..sizes }))
    }

    fn render(&self, at: &mut Passive, rendering: &mut Rendering<'_>) -> Answer<()> {
        match self.flaw {
            Flaw::FetchesTwice => {
                let first = rendering.commands.fetch(0..4.min(rendering.commands.len()));
                if first.is_none_or(|it| it.is_empty()) {
                    return Ok(());
                }
            }
            Flaw::RunsAnything if Self::is_raw(rendering) => {
                return Self::run(rendering).ok_or(Refusal::Privileged);
            }
            Flaw::GetsNowhere => return Err(Refusal::NoRoom),
            Flaw::BreaksGuarantee if *rendering.multipass == 0 => {
                self.good.render(at, rendering)?;
                return Err(Refusal::NoRoom);
            }
            _ => (),
        }
        let before = *rendering.multipass;
        let answer = self.good.render(at, rendering);
        if self.flaw == Flaw::BeginsAgain && answer == Err(Refusal::NoRoom) {
            *rendering.multipass = before;
        }
        let patches = std::mem::take(&mut rendering.patches);
        match self.flaw {
            Flaw::NeverPrepatches => {
                rewrite(rendering.buffer, &patches, rendering.list, |_, _| 0);
            }
            Flaw::Beyond => {
                rendering.written = u32::try_from(rendering.buffer.len()).unwrap_or(0) + 1;
            }
            _ => (),
        }
        let told = |it: &PatchLocation| {
            rendering.list.get(it.allocation as usize).is_some_and(|it| it.segment != 0)
        };
        rendering.patches = match self.flaw {
            Flaw::ForgetsPatch => patches.iter().filter(|it| !told(it)).copied().collect(),
            Flaw::SplitsBackwards => patches.into_iter().rev().collect(),
            _ => patches,
        };
        answer
    }

    fn patch(&self, at: &mut Passive, patching: &mut Patching<'_>) -> Answer<()> {
        match self.flaw {
            Flaw::NeedsContext if patching.context.is_none() => return Err(Refusal::Invalid),
            Flaw::PatchesOnce => {
                let (list, patches) = (patching.list, patching.patches);
                rewrite(patching.buffer, patches, list, |before, address| before | address);
                return Ok(());
            }
            _ => (),
        }
        self.good.patch(at, patching)?;
        let behind = patching.submitted.end as usize;
        match (self.flaw, patching.context) {
            (Flaw::FailsPatch, Some(_)) => Err(Refusal::Busy),
            (Flaw::PatchesOutside, Some(_)) => {
                if let Some(byte) = patching.buffer.get_mut(behind) {
                    *byte = !*byte;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn submit_listed(&self, at: &mut Dispatch, packet: &ListedSubmission<'_>) -> Answer<()> {
        let null = packet.null && self.flaw != Flaw::RendersNull;
        self.good.submit_listed(at, &ListedSubmission { null, ..packet.clone() })
    }
}
