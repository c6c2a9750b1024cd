//! Bad drivers that page incorrectly: each forwards operations to a good driver and changes one
//! thing.

use flight::{Dispatch, Passive, Run};
use kernel::miniport::{DriverError, DriverResult, Miniport};
use kernel::operation::{
    BuildPagingBufferArgs, Operation, PAGE, Pages, SubmitPagingArgs, Transfer, TransferEnd,
};
use std::sync::Arc;

/// Marks in `multipass` that the second of two operations is being built.
const SECOND: u32 = 1 << 31;

/// A driver around a good driver.
pub(crate) struct PagingFlawDriver {
    inner: Arc<dyn Miniport>,
    flaw: Flaw,
}

/// What the driver does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Changes one byte after moving an allocation in.
    CorruptsPageInByte,
    /// Moves one page too few.
    TransfersOnePageLess,
    /// Moves everything in twice, the second time to the memory behind the allocation.
    Twice,
    /// Moves to the same offset of another segment.
    TransfersToWrongSegment,
    /// Moves to one page past the destination.
    TransfersOnePageOff,
    /// Begins each part of a transfer at the start of the allocation.
    IgnoresTransferOffset,
    /// Begins each part of a transfer at the first page of the list.
    IgnoresMdlOffset,
    /// Omits the last page of a buffer when it continues with the next buffer.
    SkipsMultipassPage,
    /// Reports paging work complete that was never submitted to the hardware.
    CompletesPagingUnsubmitted,
    /// Fills nothing.
    SkipsFill,
    /// Maps the pages of an allocation in the wrong order.
    ReversesAperturePages,
    /// Assumes that the pages of a moved allocation are contiguous.
    AssumesContiguousPages,
    /// Reverses the pages of an allocation when it moves out and when it moves in.
    ReversesPagedOutPages,
    /// Does not implement the operation that maps pages.
    OmitsMapAperture,
    /// Does not unmap pages.
    KeepsApertureMapping,
}

impl PagingFlawDriver {
    pub(crate) fn new(inner: Arc<dyn Miniport>, flaw: Flaw) -> Arc<Self> {
        Arc::new(Self { inner, flaw })
    }

    /// The same pass over another operation.
    fn with(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        operation: Operation<'_>,
    ) -> DriverResult<()> {
        let skip = args.written as usize;
        let mut other = BuildPagingBufferArgs {
            operation,
            buffer: args.buffer.get_mut(skip..).unwrap_or_default(),
            address: args.address + u64::from(args.written),
            used: args.used + args.written,
            written: 0,
            multipass: args.multipass,
            private: args.private,
        };
        let answer = self.inner.build_paging_buffer(at, &mut other);
        args.written += other.written;
        answer
    }

    /// Builds one operation, then another, in as many buffers as they need.
    fn both(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        one: Operation<'_>,
        other: Operation<'_>,
    ) -> DriverResult<()> {
        if *args.multipass & SECOND == 0 {
            self.with(at, args, one)?;
            *args.multipass = SECOND;
        }
        *args.multipass &= !SECOND;
        let answer = self.with(at, args, other);
        *args.multipass |= SECOND;
        answer
    }

    /// A move with other pages of system memory.
    fn through(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        it: &Transfer<'_>,
        other: impl FnOnce(Vec<Run>) -> Vec<Run>,
    ) -> DriverResult<()> {
        let ((TransferEnd::System(pages), _) | (_, TransferEnd::System(pages))) = (it.from, it.to)
        else {
            return self.with(at, args, Operation::Transfer(it.clone()));
        };
        let runs = other(pages.addresses().map(|start| Run { start, bytes: PAGE }).collect());
        let pages = Pages { runs: &runs, first: 0, ..pages };
        let of =
            |end| if let TransferEnd::System(_) = end { TransferEnd::System(pages) } else { end };
        let (from, to) = (of(it.from), of(it.to));
        self.with(at, args, Operation::Transfer(Transfer { from, to, ..it.clone() }))
    }

    /// A move with a flaw.
    fn transfer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
        it: &Transfer<'_>,
    ) -> DriverResult<()> {
        if self.flaw == Flaw::ReversesPagedOutPages {
            return self.through(at, args, it, |runs| runs.into_iter().rev().collect());
        }
        if self.flaw == Flaw::AssumesContiguousPages {
            return self.through(at, args, it, |runs| {
                let first = runs.first().map_or(0, |run| run.start);
                let page = |place| Run { start: first + place * PAGE, bytes: PAGE };
                (0..).zip(&runs).map(|(place, _)| page(place)).collect()
            });
        }
        if self.flaw == Flaw::IgnoresTransferOffset {
            return self.with(at, args, Operation::Transfer(Transfer { offset: 0, ..it.clone() }));
        }
        if self.flaw == Flaw::IgnoresMdlOffset {
            let [from, to] = [it.from, it.to].map(|end| match end {
                TransferEnd::System(pages) => TransferEnd::System(Pages { first: 0, ..pages }),
                TransferEnd::Segment { .. } => end,
            });
            return self.with(at, args, Operation::Transfer(Transfer { from, to, ..it.clone() }));
        }
        let TransferEnd::Segment { number, address } = it.to else {
            let short = self.flaw == Flaw::TransfersOnePageLess && it.bytes > PAGE;
            let bytes = if short { it.bytes - PAGE } else { it.bytes };
            return self.with(at, args, Operation::Transfer(Transfer { bytes, ..it.clone() }));
        };
        let to = |number, address| TransferEnd::Segment { number, address };
        let moved = |to| Operation::Transfer(Transfer { to, ..it.clone() });
        match self.flaw {
            Flaw::CorruptsPageInByte => {
                let driver_handle = it.driver_handle.unwrap_or(0);
                let segment = number;
                let last = address + it.bytes - 1;
                let fill = Operation::Fill {
                    driver_handle,
                    segment,
                    address: last,
                    bytes: 1,
                    pattern: 0x77,
                };
                self.both(at, args, moved(it.to), fill)
            }
            Flaw::Twice => self.both(at, args, moved(it.to), moved(to(number, address + it.bytes))),
            Flaw::TransfersToWrongSegment => {
                // The segments of the built-in GPU begin at multiples of this.
                let elsewhere = address ^ (0x30 << 32);
                self.with(at, args, moved(to(number ^ 1, elsewhere)))
            }
            Flaw::TransfersOnePageOff => self.with(at, args, moved(to(number, address + PAGE))),
            _ => self.with(at, args, moved(it.to)),
        }
    }
}

impl Miniport for PagingFlawDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        let operation = args.operation.clone();
        match (&operation, self.flaw) {
            (Operation::Fill { .. }, Flaw::SkipsFill)
            | (Operation::UnmapAperture { .. }, Flaw::KeepsApertureMapping) => Ok(()),
            (Operation::MapAperture { .. }, Flaw::OmitsMapAperture) => {
                Err(DriverError::NoEntryPoint)
            }
            (Operation::MapAperture { pages, .. }, Flaw::ReversesAperturePages) => {
                let mut runs: Vec<_> =
                    pages.addresses().map(|start| Run { start, bytes: PAGE }).collect();
                runs.reverse();
                let Operation::MapAperture { driver_handle, segment, page, coherent, .. } =
                    operation
                else {
                    return Ok(());
                };
                let pages = Pages { runs: &runs, ..*pages };
                let map = Operation::MapAperture { driver_handle, segment, page, pages, coherent };
                self.with(at, args, map)
            }
            (Operation::Transfer(it), flaw) if flaw != Flaw::SkipsMultipassPage => {
                self.transfer(at, args, it)
            }
            (Operation::Transfer(_), Flaw::SkipsMultipassPage) => {
                let answer = self.inner.build_paging_buffer(at, args);
                if answer == Err(DriverError::NoRoom) {
                    *args.multipass += 1;
                }
                answer
            }
            _ => self.inner.build_paging_buffer(at, args),
        }
    }

    fn submit_paging(&self, at: &mut Dispatch, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        let length = if self.flaw == Flaw::CompletesPagingUnsubmitted { 0 } else { packet.length };
        self.inner.submit_paging(at, &SubmitPagingArgs { length, ..*packet })
    }
}
