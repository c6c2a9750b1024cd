//! Memory descriptor lists: describes pages of the machine's memory to a driver.

use abi::{MDL, MDL_PAGES_LOCKED, PVOID};
use flight::Run;
use kernel::miniport::{DriverError, DriverResult};
use kernel::operation::{PAGE, Pages};
use std::mem::offset_of;

/// The size of the structure in 64-bit words.
const WORDS: usize = size_of::<MDL>() / 8;

const _: () = assert!(offset_of!(MDL, Size) == 8 && offset_of!(MDL, ByteCount) == 40);

/// An `MDL` with its page numbers, for the duration of a call.
pub(crate) struct Mdl {
    words: Vec<u64>,
}

impl Mdl {
    /// The list of all pages of an allocation. `MdlOffset`, beside it, selects the pages.
    ///
    /// It is not mapped (`MappedSystemVa`), because it is for the hardware. Its length has 32 bits.
    pub(crate) fn from_pages(runs: &[Run]) -> DriverResult<Self> {
        let count = runs.iter().map(|run| run.bytes / PAGE).sum();
        let all = Pages { runs, first: 0, count };
        let bytes = u32::try_from(count * PAGE).map_err(|_| DriverError::Invalid)?;
        let mut words = vec![0; WORDS];
        words.extend(all.addresses().map(|value| value / PAGE));
        words[1] = size(words.len()) | u64::from(MDL_PAGES_LOCKED.cast_unsigned()) << 16;
        words[5] = bytes.into();
        Ok(Self { words })
    }

    /// The address of the list.
    pub(crate) fn pointer(&mut self) -> PVOID {
        self.words.as_mut_ptr().cast()
    }
}

/// `Size` of a list of `words` 64-bit words, in the low bits. WINDOWS: sixteen bits, truncated.
fn size(words: usize) -> u64 {
    (words * 8) as u64 & 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_its_pages_behind_it() {
        let runs =
            [Run { start: 0x10000, bytes: 2 * PAGE }, Run { start: 0x1_0004_0000, bytes: PAGE }];
        let mut list = Mdl::from_pages(&runs).unwrap();
        assert_eq!(list.pointer().addr() % 8, 0);
        assert_eq!(list.words[WORDS..], [0x10, 0x11, 0x10_0040]);
        assert_eq!(list.words[..WORDS], [0, 0x2_0048, 0, 0, 0, 3 * PAGE]);
    }

    #[test]
    fn a_long_list_is_cut_off_and_a_longer_one_refused() {
        let list = Mdl::from_pages(&[Run { start: 0, bytes: 9000 * PAGE }]).unwrap();
        assert_eq!(list.words[1] & 0xffff, (48 + 9000 * 8) & 0xffff);
        let far = Mdl::from_pages(&[Run { start: 0, bytes: 1 << 32 }]);
        assert_eq!(far.err(), Some(DriverError::Invalid));
    }
}
