//! The bitmap functions (`RtlSetBits`, …) under their Windows names.
//!
//! An `RTL_BITMAP` is in the driver's memory: its size in bits, then a pointer to 32-bit words.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::import_table::import_rows;
use abi::{BOOLEAN, PVOID};

import_rows! {
    RtlAreBitsClear;
    RtlAreBitsSet;
    RtlClearAllBits;
    RtlClearBit;
    RtlClearBits;
    RtlFindClearBits;
    RtlFindClearBitsAndSet;
    RtlFindSetBits;
    RtlFindSetBitsAndClear;
    RtlInitializeBitMap;
    RtlNumberOfClearBits;
    RtlNumberOfSetBits;
    RtlSetAllBits;
    RtlSetBit;
    RtlSetBits;
    RtlTestBit;
}

/// No run of bits was found.
const NOT_FOUND: u32 = u32::MAX;

/// An `RTL_BITMAP` in the driver's memory.
#[derive(Clone, Copy)]
struct BitMap(DriverMemory);

impl BitMap {
    /// # Safety
    ///
    /// `bitmap` points to a valid `RTL_BITMAP`.
    unsafe fn at(bitmap: PVOID) -> Self {
        // SAFETY: The caller's contract.
        Self(unsafe { DriverMemory::at(bitmap) })
    }

    fn size(self) -> u32 {
        self.0.read(0)
    }

    /// Whether a bit is set. A bit outside the bitmap is neither set nor clear.
    fn get(self, bit: u32) -> Option<bool> {
        (bit < self.size()).then(|| self.word(bit).read::<u32>(0) >> (bit % 32) & 1 != 0)
    }

    fn word(self, bit: u32) -> DriverMemory {
        self.0.follow(8).part((bit / 32) as usize * 4)
    }

    /// Changes bits, as far as they are in the bitmap.
    fn change(self, start: u32, count: u32, set: bool) {
        for bit in start..start.saturating_add(count).min(self.size()) {
            let (word, mask) = (self.word(bit), 1 << (bit % 32));
            let value: u32 = word.read(0);
            word.write(0, if set { value | mask } else { value & !mask });
        }
    }

    /// Whether all these bits have this state.
    fn all(self, start: u32, count: u32, set: bool) -> bool {
        let end = start.checked_add(count).filter(|end| count != 0 && *end <= self.size());
        end.is_some_and(|end| (start..end).all(|bit| self.get(bit) == Some(set)))
    }

    fn number_of(self, set: bool) -> u32 {
        let bits = (0..self.size()).filter(|bit| self.get(*bit) == Some(set));
        u32::try_from(bits.count()).unwrap_or(u32::MAX)
    }

    /// The first run of bits with this state, from the hint on; if there is none, from the start.
    ///
    /// WINDOWS: documented; for zero bits a multiple of eight near the hint is returned.
    fn find(self, count: u32, hint: u32, set: bool) -> u32 {
        let size = self.size();
        let hint = if hint < size { hint } else { 0 };
        if count == 0 {
            return hint & !7;
        }
        let mut run = 0;
        let mut search = |from: u32| {
            run = 0;
            (from..size).find_map(|bit| {
                run = if self.get(bit) == Some(set) { run + 1 } else { 0 };
                (run == count).then(|| bit + 1 - count)
            })
        };
        search(hint).or_else(|| search(0)).unwrap_or(NOT_FOUND)
    }
}

/// Initialises a bitmap over a buffer. The bits are not changed.
pub unsafe extern "win64-unwind" fn RtlInitializeBitMap(bitmap: PVOID, buffer: PVOID, bits: u32) {
    // SAFETY: The caller's contract.
    let bitmap = unsafe { DriverMemory::at(bitmap) };
    bitmap.write(0, bits);
    bitmap.write_pointer(8, buffer.cast_const());
}

/// Sets all bits.
pub unsafe extern "win64-unwind" fn RtlSetAllBits(bitmap: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(0, u32::MAX, true);
}

/// Clears all bits.
pub unsafe extern "win64-unwind" fn RtlClearAllBits(bitmap: PVOID) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(0, u32::MAX, false);
}

/// Sets bits.
pub unsafe extern "win64-unwind" fn RtlSetBits(bitmap: PVOID, start: u32, count: u32) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(start, count, true);
}

/// Clears bits.
pub unsafe extern "win64-unwind" fn RtlClearBits(bitmap: PVOID, start: u32, count: u32) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(start, count, false);
}

/// Sets a bit.
pub unsafe extern "win64-unwind" fn RtlSetBit(bitmap: PVOID, bit: u32) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(bit, 1, true);
}

/// Clears a bit.
pub unsafe extern "win64-unwind" fn RtlClearBit(bitmap: PVOID, bit: u32) {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.change(bit, 1, false);
}

/// Whether a bit is set.
pub unsafe extern "win64-unwind" fn RtlTestBit(bitmap: PVOID, bit: u32) -> BOOLEAN {
    // SAFETY: The caller's contract.
    (unsafe { BitMap::at(bitmap) }.get(bit) == Some(true)).into()
}

/// Whether all bits of a range are set. FALSE for an empty range and outside the bitmap.
pub unsafe extern "win64-unwind" fn RtlAreBitsSet(
    bitmap: PVOID,
    start: u32,
    count: u32,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.all(start, count, true).into()
}

/// Whether all bits of a range are clear. FALSE for an empty range and outside the bitmap.
pub unsafe extern "win64-unwind" fn RtlAreBitsClear(
    bitmap: PVOID,
    start: u32,
    count: u32,
) -> BOOLEAN {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.all(start, count, false).into()
}

/// Number of set bits.
pub unsafe extern "win64-unwind" fn RtlNumberOfSetBits(bitmap: PVOID) -> u32 {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.number_of(true)
}

/// Number of clear bits.
pub unsafe extern "win64-unwind" fn RtlNumberOfClearBits(bitmap: PVOID) -> u32 {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.number_of(false)
}

/// The index of a run of clear bits, or 0xFFFFFFFF.
pub unsafe extern "win64-unwind" fn RtlFindClearBits(bitmap: PVOID, count: u32, hint: u32) -> u32 {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.find(count, hint, false)
}

/// The index of a run of set bits, or 0xFFFFFFFF.
pub unsafe extern "win64-unwind" fn RtlFindSetBits(bitmap: PVOID, count: u32, hint: u32) -> u32 {
    // SAFETY: The caller's contract.
    unsafe { BitMap::at(bitmap) }.find(count, hint, true)
}

/// Finds a run of clear bits and sets it. Returns its index, or 0xFFFFFFFF.
pub unsafe extern "win64-unwind" fn RtlFindClearBitsAndSet(
    bitmap: PVOID,
    count: u32,
    hint: u32,
) -> u32 {
    // SAFETY: The caller's contract.
    find_and_change(unsafe { BitMap::at(bitmap) }, count, hint, true)
}

/// Finds a run of set bits and clears it. Returns its index, or 0xFFFFFFFF.
pub unsafe extern "win64-unwind" fn RtlFindSetBitsAndClear(
    bitmap: PVOID,
    count: u32,
    hint: u32,
) -> u32 {
    // SAFETY: The caller's contract.
    find_and_change(unsafe { BitMap::at(bitmap) }, count, hint, false)
}

fn find_and_change(bitmap: BitMap, count: u32, hint: u32, set: bool) -> u32 {
    let start = bitmap.find(count, hint, !set);
    if start != NOT_FOUND {
        bitmap.change(start, count, set);
    }
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::call;

    #[test]
    fn bits_are_set_found_and_cleared() {
        let mut words = [0xEEEE_EEEE_u32; 3];
        let mut memory = [0xEE_u64; 2];
        let map: PVOID = memory.as_mut_ptr().cast();
        call!(RtlInitializeBitMap, map, words.as_mut_ptr().cast(), 40);
        call!(RtlSetAllBits, map);
        assert_eq!((call!(RtlNumberOfSetBits, map), call!(RtlTestBit, map, 40)), (40, 0));
        call!(RtlClearAllBits, map);
        assert_eq!(call!(RtlNumberOfClearBits, map), 40);
        call!(RtlSetBits, map, 30, 4);
        call!(RtlSetBit, map, 2);
        assert_eq!(call!(RtlAreBitsSet, map, 30, 4), 1);
        assert_eq!(call!(RtlAreBitsSet, map, 30, 5), 0);
        assert_eq!(
            (call!(RtlAreBitsClear, map, 34, 6), call!(RtlAreBitsClear, map, 34, 7)),
            (1, 0)
        );
        assert_eq!(call!(RtlAreBitsClear, map, 0, 0), 0, "no bits");
        assert_eq!(call!(RtlFindClearBits, map, 3, 1), 3);
        assert_eq!(call!(RtlFindClearBits, map, 20, 8), 8);
        assert_eq!(call!(RtlFindClearBits, map, 7, 31), 3, "from the start");
        assert_eq!(call!(RtlFindClearBits, map, 28, 0), u32::MAX);
        assert_eq!(call!(RtlFindSetBits, map, 4, 0), 30);
        assert_eq!(call!(RtlFindClearBitsAndSet, map, 2, 30), 34);
        assert_eq!(call!(RtlNumberOfSetBits, map), 7);
        assert_eq!(call!(RtlFindSetBitsAndClear, map, 6, 0), 30);
        call!(RtlClearBit, map, 2);
        call!(RtlClearBits, map, 36, u32::MAX);
        assert_eq!(call!(RtlNumberOfSetBits, map), 0);
        assert_eq!((words[1] >> 8, words[2]), (0xEE_EEEE, 0xEEEE_EEEE), "outside the bitmap");
    }
}
