//! Drivers that page wrongly: each hands operations on to a good one, but for one thing.

use flight::{Dispatch, Passive};
use kernel::miniport::{Answer, Miniport, Refusal};
use kernel::operation::{Building, End, Operation, PAGE, PagingSubmission, Transfer};
use std::sync::Arc;

/// A driver around a good one.
pub(crate) struct Crooked {
    good: Arc<dyn Miniport>,
    flaw: Flaw,
}

/// What it does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// After a move in, one byte is another.
    WrongByte,
    /// Moves a page less than it should.
    PageShort,
    /// Moves everything in twice, the second time to behind it.
    Twice,
    /// Moves to where another segment has the same offset.
    WrongSegment,
    /// Moves to a page behind where it should.
    OffByAPage,
    /// Forgets, with a new buffer, that the last page of the one before is not written.
    LosesMultipass,
    /// Reports paging done that was never given to the hardware.
    EarlySuccess,
    /// Fills nothing.
    SkipsFill,
    /// Maps the pages of an allocation in the wrong order.
    MapsBackwards,
    /// Leaves pages mapped that it should unmap.
    KeepsMapping,
}

impl Crooked {
    pub(crate) fn new(good: Arc<dyn Miniport>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { good, flaw })
    }

    /// The same turn at another operation.
    fn with<'a>(
        &self,
        at: &mut Passive,
        building: &mut Building<'_>,
        operation: Operation<'a>,
    ) -> Answer<()> {
        let skip = building.written as usize;
        let mut other = Building {
            operation,
            buffer: building.buffer.get_mut(skip..).unwrap_or_default(),
            address: building.address + u64::from(building.written),
            before: building.before + building.written,
            written: 0,
            multipass: building.multipass,
            private: building.private,
        };
        let answer = self.good.build_paging(at, &mut other);
        building.written += other.written;
        answer
    }

    /// A move with a flaw.
    fn transfer(
        &self,
        at: &mut Passive,
        building: &mut Building<'_>,
        it: &Transfer<'_>,
    ) -> Answer<()> {
        let End::Segment { number, address } = it.to else {
            let short = self.flaw == Flaw::PageShort && it.bytes > PAGE;
            let bytes = if short { it.bytes - PAGE } else { it.bytes };
            return self.with(at, building, Operation::Transfer(Transfer { bytes, ..it.clone() }));
        };
        let to = |number, address| End::Segment { number, address };
        let moved = |to| Operation::Transfer(Transfer { to, ..it.clone() });
        match self.flaw {
            Flaw::WrongByte => {
                self.with(at, building, moved(it.to))?;
                let word = it.word.unwrap_or(0);
                let segment = number;
                let address = address + it.bytes - 1;
                let fill = Operation::Fill { word, segment, address, bytes: 1, pattern: 0x77 };
                *building.multipass = 0;
                self.with(at, building, fill)
            }
            Flaw::Twice => {
                self.with(at, building, moved(it.to))?;
                *building.multipass = 0;
                self.with(at, building, moved(to(number, address + it.bytes)))
            }
            Flaw::WrongSegment => {
                // The built-in GPU's segments begin at multiples of this.
                let elsewhere = address ^ (0x30 << 32);
                self.with(at, building, moved(to(number ^ 1, elsewhere)))
            }
            Flaw::OffByAPage => self.with(at, building, moved(to(number, address + PAGE))),
            _ => self.with(at, building, moved(it.to)),
        }
    }
}

impl Miniport for Crooked {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        let operation = building.operation.clone();
        match (&operation, self.flaw) {
            (Operation::Fill { .. }, Flaw::SkipsFill)
            | (Operation::UnmapAperture { .. }, Flaw::KeepsMapping) => Ok(()),
            (Operation::MapAperture { pages, .. }, Flaw::MapsBackwards) => {
                let mut runs: Vec<_> =
                    pages.addresses().map(|start| flight::Run { start, bytes: PAGE }).collect();
                runs.reverse();
                let Operation::MapAperture { word, segment, page, coherent, .. } = operation else {
                    return Ok(());
                };
                let pages = kernel::operation::Pages { runs: &runs, ..*pages };
                let map = Operation::MapAperture { word, segment, page, pages, coherent };
                self.with(at, building, map)
            }
            (Operation::Transfer(it), flaw) if flaw != Flaw::LosesMultipass => {
                self.transfer(at, building, it)
            }
            (Operation::Transfer(_), Flaw::LosesMultipass) => {
                let answer = self.good.build_paging(at, building);
                if answer == Err(Refusal::NoRoom) {
                    *building.multipass += 1;
                }
                answer
            }
            _ => self.good.build_paging(at, building),
        }
    }

    fn submit_paging(&self, at: &mut Dispatch, packet: &PagingSubmission<'_>) -> Answer<()> {
        let length = if self.flaw == Flaw::EarlySuccess { 0 } else { packet.length };
        self.good.submit_paging(at, &PagingSubmission { length, ..*packet })
    }
}
