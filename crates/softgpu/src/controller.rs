//! The memory controller: translates GPU addresses to system memory.
//!
//! # Invariants
//!
//! 1. Local memory is allocated from system memory when the GPU is created and freed with it.
//! 2. An access is done completely or not at all: all its memory is located before the first byte
//!    is touched.

use crate::aperture::Aperture;
use crate::mmu::Mmu;
use crate::plan::{APERTURE_BASE, LOCAL_BASE, MemoryPlan, VISIBLE_BASE};
use flight::{Ram, Run};
use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::sync::Arc;

/// The fill pattern of local memory after a power loss.
const POWER_LOSS_PATTERN: u32 = 0xdead_50f7;
const POWER_LOSS_BYTES: u64 = 256 << 10;

/// The memory that the engines can reach.
pub(crate) struct Controller {
    ram: Arc<dyn Ram>,
    visible: Run,
    local: Run,
    aperture_bytes: u64,
    aperture: Mutex<Aperture>,
    mmu: Option<Mmu>,
}

/// A location of bytes, as the hardware addresses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    /// At a GPU address.
    Local(u64),
    /// In system memory.
    System(u64),
    /// At a virtual address of the system's own address space.
    Virtual(u64),
}

impl Address {
    /// The location `bytes` bytes further on.
    pub(crate) fn offset_by(self, bytes: u64) -> Self {
        match self {
            Address::Local(it) => Address::Local(it.saturating_add(bytes)),
            Address::System(it) => Address::System(it.saturating_add(bytes)),
            Address::Virtual(it) => Address::Virtual(it.saturating_add(bytes)),
        }
    }
}

impl Controller {
    /// A controller with all the memory of the plan. Returns `None` if the machine has too little
    /// memory.
    pub(crate) fn new(ram: Arc<dyn Ram>, plan: &MemoryPlan) -> Option<Self> {
        let visible = ram.allocate(plan.visible)?;
        let Some(local) = ram.allocate(plan.local) else {
            ram.free(visible);
            return None;
        };
        let aperture = Mutex::new(Aperture::new(plan.aperture));
        let mmu = plan.mmu.map(Mmu::new);
        Some(Self { ram, visible, local, aperture_bytes: plan.aperture, aperture, mmu })
    }

    pub(crate) fn ram(&self) -> &Arc<dyn Ram> {
        &self.ram
    }

    /// Where the CPU sees local memory.
    pub(crate) fn cpu_address(&self) -> u64 {
        self.visible.start
    }

    /// Overwrites local memory, which keeps nothing without power. Only both ends are filled, where
    /// allocations are placed first: pages that were never used need not be committed.
    pub(crate) fn lose_power(&self) {
        for run in [self.visible, self.local] {
            let bytes = run.bytes.min(POWER_LOSS_BYTES);
            let last = Run { start: run.start + run.bytes - bytes, bytes };
            self.ram.fill(Run { bytes, ..run }, POWER_LOSS_PATTERN);
            self.ram.fill(last, POWER_LOSS_PATTERN);
        }
    }

    pub(crate) fn aperture(&self) -> MutexGuard<'_, Aperture> {
        self.aperture.lock()
    }

    /// The unit that translates virtual addresses, if the GPU has one.
    pub(crate) fn mmu(&self) -> Option<&Mmu> {
        self.mmu.as_ref()
    }

    /// Unmaps the aperture and clears all cached translations, as a power-on does.
    pub(crate) fn reset(&self) {
        self.aperture().reset();
        if let Some(mmu) = &self.mmu {
            mmu.tlb().reset();
        }
    }

    /// How many pages of local memory the CPU does not see.
    pub(crate) fn local_pages(&self) -> u64 {
        self.local.bytes / crate::plan::PAGE
    }

    /// Fills local memory.
    pub(crate) fn fill_local(&self, pattern: u32) {
        for run in [self.visible, self.local] {
            self.ram.fill(run, pattern);
        }
    }

    /// Whether memory is behind every byte of the range.
    pub(crate) fn contains(&self, side: Address, bytes: u64) -> bool {
        self.pieces(side, bytes).is_some()
    }

    pub(crate) fn read(&self, from: Address, into: &mut [u8]) -> bool {
        let Some(pieces) = self.pieces(from, into.len() as u64) else { return false };
        let mut rest = into;
        for piece in pieces {
            let length = usize::try_from(piece.bytes).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at_mut(length);
            if !self.ram.read(piece.start, now) {
                return false;
            }
            rest = later;
        }
        true
    }

    pub(crate) fn write(&self, to: Address, bytes: &[u8]) -> bool {
        let Some(pieces) = self.pieces(to, bytes.len() as u64) else { return false };
        let mut rest = bytes;
        for piece in pieces {
            let length = usize::try_from(piece.bytes).unwrap_or(usize::MAX).min(rest.len());
            let (now, later) = rest.split_at(length);
            if !self.ram.write(piece.start, now) {
                return false;
            }
            rest = later;
        }
        true
    }

    pub(crate) fn fill(&self, to: Address, bytes: u64, pattern: u32) -> bool {
        let Some(pieces) = self.pieces(to, bytes) else { return false };
        let mut turned = pattern;
        pieces.into_iter().all(|piece| {
            let now = turned;
            // The next piece continues the pattern where this one ends.
            turned = turned.rotate_right(8 * u32::try_from(piece.bytes % 4).unwrap_or(0));
            self.ram.fill(piece, now)
        })
    }

    /// Copies bytes. The two ranges may overlap.
    pub(crate) fn copy(&self, from: Address, to: Address, bytes: u64) -> bool {
        let (Some(sources), Some(targets)) = (self.pieces(from, bytes), self.pieces(to, bytes))
        else {
            return false;
        };
        if let ([source], [target]) = (&sources[..], &targets[..]) {
            return self.ram.copy(source.start, target.start, bytes);
        }
        let meets = |one: &Run| targets.iter().any(|run| overlap(*one, *run));
        if sources.iter().any(meets) {
            // Copying piece by piece could read bytes already written, so all bytes are read first.
            let mut all = vec![0; usize::try_from(bytes).unwrap_or(0)];
            return self.read(from, &mut all) && self.write(to, &all);
        }
        pairs(&sources, &targets).all(|(from, to, bytes)| self.ram.copy(from, to, bytes))
    }

    /// The pieces of system memory behind a range, if all are committed.
    pub(crate) fn resident_pieces(&self, side: Address, bytes: u64) -> Option<Vec<Run>> {
        self.pieces(side, bytes)
    }

    /// The pieces of system memory behind a range. Returns `None` if some bytes have no memory. An
    /// engine translates virtual addresses separately.
    fn pieces(&self, side: Address, bytes: u64) -> Option<Vec<Run>> {
        let address = match side {
            Address::System(start) => return Some(vec![Run { start, bytes }]),
            Address::Local(address) => address,
            Address::Virtual(_) => return None,
        };
        if let Some(offset) = within(address, bytes, APERTURE_BASE, self.aperture_bytes) {
            return self.aperture().pieces(offset, bytes);
        }
        let local = [(VISIBLE_BASE, self.visible), (LOCAL_BASE, self.local)];
        local.into_iter().find_map(|(base, run)| {
            let start = run.start + within(address, bytes, base, run.bytes)?;
            Some(vec![Run { start, bytes }])
        })
    }
}

/// The offset of the range from `base`, if it lies within `size` bytes from there.
fn within(address: u64, bytes: u64, base: u64, size: u64) -> Option<u64> {
    let offset = address.checked_sub(base)?;
    (offset.checked_add(bytes)? <= size).then_some(offset)
}

/// Whether two ranges overlap.
fn overlap(one: Run, other: Run) -> bool {
    let end = |run: Run| run.start.saturating_add(run.bytes);
    one.start < end(other) && other.start < end(one)
}

/// Two lists of pieces for the same bytes, cut where either is cut.
fn pairs<'a>(from: &'a [Run], to: &'a [Run]) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
    let (mut sources, mut targets) = (from.iter().copied(), to.iter().copied());
    let (mut source, mut target) = (sources.next(), targets.next());
    std::iter::from_fn(move || {
        let (mut one, mut other) = (source?, target?);
        let bytes = one.bytes.min(other.bytes);
        let pair = (one.start, other.start, bytes);
        for run in [&mut one, &mut other] {
            run.start += bytes;
            run.bytes -= bytes;
        }
        source = if one.bytes == 0 { sources.next() } else { Some(one) };
        target = if other.bytes == 0 { targets.next() } else { Some(other) };
        Some(pair)
    })
}

impl Drop for Controller {
    fn drop(&mut self) {
        self.ram.free(self.visible);
        self.ram.free(self.local);
    }
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (visible, local) = (self.visible, self.local);
        f.debug_struct("Controller")
            .field("visible", &visible)
            .field("local", &local)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::PAGE;

    /// An aperture of four pages that maps four pages in another order.
    fn shuffled() -> Controller {
        let ram = nt::Ram::new(64 * PAGE).unwrap();
        let plan = MemoryPlan {
            visible: PAGE,
            local: 4 * PAGE,
            aperture: 4 * PAGE,
            ..MemoryPlan::default()
        };
        let pages = ram.allocate(4 * PAGE).unwrap();
        let memory = Controller::new(ram, &plan).unwrap();
        for (page, at) in (0..).zip([2, 0, 3, 1]) {
            assert!(memory.aperture().map(page, pages.start + at * PAGE, 1));
        }
        let bytes: Vec<u8> = (0..4 * PAGE).map(pattern).collect();
        assert!(memory.write(Address::Local(APERTURE_BASE), &bytes));
        memory
    }

    /// Bytes in which no two adjacent sequences are equal.
    fn pattern(at: u64) -> u8 {
        (at ^ at >> 8).to_le_bytes()[0]
    }

    fn bytes(memory: &Controller, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        assert!(memory.read(Address::Local(address), &mut bytes));
        bytes
    }

    #[test]
    fn a_copy_goes_from_piece_to_piece() {
        let memory = shuffled();
        let (from, to) = (APERTURE_BASE + 10, LOCAL_BASE + 5);
        assert!(memory.copy(Address::Local(from), Address::Local(to), 3 * PAGE));
        let wanted: Vec<u8> = (10..3 * PAGE + 10).map(pattern).collect();
        assert!(bytes(&memory, to, wanted.len()) == wanted);
        assert!(memory.fill(Address::Local(APERTURE_BASE), 4 * PAGE, 0));
        assert!(memory.copy(Address::Local(to), Address::Local(APERTURE_BASE + 77), 3 * PAGE));
        assert!(bytes(&memory, APERTURE_BASE + 77, wanted.len()) == wanted);
    }

    #[test]
    fn a_copy_in_pieces_may_overlap_itself() {
        for (from, to) in [(0, 100), (100, 0), (PAGE, PAGE + 1)] {
            let memory = shuffled();
            let [source, target] = [from, to].map(|value| Address::Local(APERTURE_BASE + value));
            assert!(memory.copy(source, target, 2 * PAGE));
            let wanted: Vec<u8> = (from..from + 2 * PAGE).map(pattern).collect();
            assert!(bytes(&memory, APERTURE_BASE + to, wanted.len()) == wanted, "{from} {to}");
        }
    }

    #[test]
    fn what_is_partly_outside_is_not_touched() {
        let memory = shuffled();
        let end = LOCAL_BASE + 4 * PAGE;
        assert!(!memory.write(Address::Local(end - 1), &[1, 1]));
        assert!(!memory.fill(Address::Local(end - 1), 2, u32::MAX));
        assert!(!memory.copy(Address::Local(APERTURE_BASE), Address::Local(end - 1), 2));
        assert_eq!(bytes(&memory, end - 1, 1), [0]);
        assert!(!memory.copy(Address::Local(end - 1), Address::Local(LOCAL_BASE), 2));
        assert!(!memory.contains(Address::Local(u64::MAX), 2));
    }
}
