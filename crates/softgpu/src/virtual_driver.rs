//! What the driver does for virtual addresses: it knows roots, and writes tables that the CPU is to
//! write.

use crate::driver::SoftGpu;
use crate::mmu::{ENTRY_SIZE, encode_entry, segment_of};
use crate::plan::{LOCAL, VISIBLE};
use flight::{Machine, TableRoot};
use kernel::miniport::{Answer, Refusal};
use kernel::mmu::{TableAt, TableUpdate};
use kernel::operation::Operation;

impl SoftGpu {
    /// Remembers where roots are, does what the CPU does, and answers the root of the system's
    /// own addresses.
    pub(crate) fn note_tables(&self, operation: &Operation<'_>) -> Answer<Option<TableRoot>> {
        let Some(plan) = self.mmu() else { return Ok(None) };
        match operation {
            Operation::UpdateTable(it) => {
                if it.level + 1 == plan.levels
                    && let Some(place) = self.place_of(it.table)
                {
                    self.state().records.note_root(it.process, place);
                }
                if let TableAt::Cpu(start) = it.table {
                    self.write_table(start, it)?;
                }
            }
            Operation::FlushTlb { process, root, .. } => {
                self.state().records.note_root(*process, *root);
            }
            _ => (),
        }
        let root = self.state().records.system_root();
        let entries = 1 << plan.root_bits;
        Ok(root.map(|(segment, offset)| TableRoot { segment, offset, entries }))
    }

    /// Where a table is, by its segment and from its base.
    fn place_of(&self, table: TableAt) -> Option<(u32, u64)> {
        match table {
            TableAt::Physical(_, address) => Some(segment_of(address)),
            TableAt::Cpu(start) => Some((VISIBLE, start.checked_sub(self.gpu.cpu()?)?)),
            TableAt::Virtual(_) => None,
        }
        .filter(|it| matches!(it.0, VISIBLE | LOCAL))
    }

    /// Writes entries as the CPU does, in the machine's memory.
    fn write_table(&self, start: u64, it: &TableUpdate<'_>) -> Answer<()> {
        let ram = self.gpu.ram().ok_or(Refusal::Invalid)?;
        for index in 0..it.count {
            let at = if it.repeat { 0 } else { index as usize };
            let entry = it.entries.get(at).ok_or(Refusal::Invalid)?;
            let offset = (u64::from(it.first) + u64::from(index)) * ENTRY_SIZE;
            let place = start.checked_add(offset).ok_or(Refusal::Invalid)?;
            if !ram.write(place, &encode_entry(entry).to_le_bytes()) {
                return Err(Refusal::Invalid);
            }
        }
        Ok(())
    }
}
