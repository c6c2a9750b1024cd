//! The geometry of page tables: which entry of which table translates an address.

use crate::ddi::mmu::{MmuFeatures, TableLevel};
use std::ops::Range as Span;

/// Number of address bits within a page.
const PAGE_BITS: u32 = 12;
/// The maximum number of levels.
const MAX_LEVELS: usize = 6;
/// The maximum number of address bits.
const MAX_ADDRESS_BITS: u32 = 63;

/// The levels of an adapter, leaf level first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    levels: Vec<TableLevel>,
}

/// Adjacent entries of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableSlice {
    /// The index of the table within the level.
    pub(crate) table: u64,
    pub(crate) first: u32,
    pub(crate) count: u32,
    /// The addresses that they translate.
    pub(crate) span: Span<u64>,
}

impl Geometry {
    /// The geometry that a driver describes, or what is wrong with it.
    pub(crate) fn new(mmu: &MmuFeatures) -> Result<Self, String> {
        let levels = mmu.levels.clone();
        let count = levels.len();
        if !(2..=MAX_LEVELS).contains(&count) {
            return Err(format!(
                "the number of page-table levels is {count}; it must be 2 to {MAX_LEVELS}"
            ));
        }
        if let Some(it) =
            levels.iter().find(|table_level| !(1..=24).contains(&table_level.index_bits))
        {
            return Err(format!("a page table is indexed by {} bits", it.index_bits));
        }
        if let Some(it) =
            levels.iter().find(|table_level| table_level.bytes == 0 || table_level.bytes > 1 << 28)
        {
            return Err(format!("a page table has {:#x} bytes", it.bytes));
        }
        let misaligned = |table_level: &&TableLevel| {
            table_level.alignment != 0 && !table_level.alignment.is_power_of_two()
        };
        if let Some(it) = levels.iter().find(misaligned) {
            return Err(format!("a page table is aligned to {:#x}", it.alignment));
        }
        let bits = levels.iter().map(|table_level| table_level.index_bits).sum::<u32>() + PAGE_BITS;
        if bits > MAX_ADDRESS_BITS || mmu.address_bits > bits || mmu.address_bits <= PAGE_BITS + 4 {
            let message = mmu.address_bits;
            return Err(format!("addresses have {message} bits, and page tables translate {bits}"));
        }
        Ok(Self { levels })
    }

    /// The level of the root.
    pub(crate) fn top(&self) -> u32 {
        u32::try_from(self.levels.len()).unwrap_or(1) - 1
    }

    pub(crate) fn level(&self, level: u32) -> TableLevel {
        self.levels.get(level as usize).copied().unwrap_or_default()
    }

    /// Number of address bits below an entry of a level.
    fn shift(&self, level: u32) -> u32 {
        PAGE_BITS
            + self
                .levels
                .iter()
                .take(level as usize)
                .map(|table_level| table_level.index_bits)
                .sum::<u32>()
    }

    /// Number of address bits below a table of a level.
    fn reach(&self, level: u32) -> u32 {
        self.shift(level) + self.level(level).index_bits
    }

    /// Number of entries of a table of a level.
    pub(crate) fn entries(&self, level: u32) -> u32 {
        1_u32 << self.level(level).index_bits.min(31)
    }

    /// The addresses that a table translates.
    pub(crate) fn span(&self, level: u32, table: u64) -> Span<u64> {
        let reach = self.reach(level);
        table << reach..(table + 1) << reach
    }

    /// Number of bytes that one leaf table translates.
    pub(crate) fn leaf_span(&self) -> u64 {
        1 << self.reach(0)
    }

    /// The table of a level that translates an address.
    pub(crate) fn table(&self, level: u32, address: u64) -> u64 {
        address >> self.reach(level)
    }

    /// The entry within its table that translates an address.
    pub(crate) fn index(&self, level: u32, address: u64) -> u32 {
        let mask = (1_u64 << self.level(level).index_bits) - 1;
        u32::try_from((address >> self.shift(level)) & mask).unwrap_or(u32::MAX)
    }

    /// The leaf entries of a span, table by table.
    pub(crate) fn rows(&self, span: &Span<u64>) -> Vec<TableSlice> {
        let mut rows = Vec::new();
        let mut at = span.start;
        while at < span.end {
            let table = self.table(0, at);
            let end = self.span(0, table).end.min(span.end);
            let count = u32::try_from((end - at) >> PAGE_BITS).unwrap_or(u32::MAX);
            rows.push(TableSlice { table, first: self.index(0, at), count, span: at..end });
            at = end;
        }
        rows
    }

    /// The tables of a level that translate a span.
    pub(crate) fn tables(&self, level: u32, span: &Span<u64>) -> Span<u64> {
        let last = span.end.saturating_sub(1).max(span.start);
        self.table(level, span.start)..self.table(level, last) + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(bits: &[u32]) -> Geometry {
        let level = |bits: &u32| TableLevel {
            index_bits: *bits,
            segment: 2,
            system_segment: 2,
            bytes: 8 << bits,
            alignment: 4096,
        };
        let address_bits = 12 + bits.iter().sum::<u32>();
        let levels = bits.iter().map(level).collect();
        Geometry::new(&MmuFeatures { address_bits, levels, ..MmuFeatures::default() }).unwrap()
    }

    #[test]
    fn an_address_goes_through_one_entry_of_each_level() {
        let it = shape(&[9, 9, 9, 9]);
        let address = (5 << 39) | (6 << 30) | (7 << 21) | (8 << 12);
        assert_eq!([0, 1, 2, 3].map(|level| it.index(level, address)), [8, 7, 6, 5]);
        assert_eq!(it.table(3, address), 0);
        assert_eq!(it.table(2, address), 5);
        assert_eq!(it.span(0, it.table(0, address)).start, address & !0x1f_ffff);
        assert_eq!(it.top(), 3);
    }

    #[test]
    fn a_span_is_cut_at_the_ends_of_tables() {
        let it = shape(&[4, 10]);
        let rows = it.rows(&(0xe000..0x22000));
        let message: Vec<_> = rows
            .iter()
            .map(|table_slice| (table_slice.table, table_slice.first, table_slice.count))
            .collect();
        assert_eq!(message, [(0, 14, 2), (1, 0, 16), (2, 0, 2)]);
        assert_eq!(it.tables(0, &(0xe000..0x22000)), 0..3);
        assert_eq!(it.leaf_span(), 0x10000);
    }

    #[test]
    fn a_shape_that_cannot_be_is_refused() {
        let mmu = MmuFeatures { address_bits: 40, ..MmuFeatures::default() };
        assert!(Geometry::new(&mmu).is_err());
        let level = TableLevel { index_bits: 9, bytes: 4096, ..TableLevel::default() };
        let few = MmuFeatures { address_bits: 48, levels: vec![level; 2], ..mmu };
        assert!(Geometry::new(&few).is_err());
    }
}
