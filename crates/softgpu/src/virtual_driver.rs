//! The driver's part in virtual addresses: it writes the tables that the CPU is to write.

use crate::driver::SoftGpu;
use crate::mmu::{ENTRY_SIZE, encode_entry};
use flight::{HardwareModel, TableRoot};
use kernel::miniport::{DriverError, DriverResult};
use kernel::mmu::{TableAddress, TableUpdate};
use kernel::operation::Operation;

impl SoftGpu {
    /// Does the CPU's part of an operation, and returns the root of the system address space.
    pub(crate) fn prepare_tables(
        &self,
        operation: &Operation<'_>,
    ) -> DriverResult<Option<TableRoot>> {
        if let Operation::UpdateTable(it) = operation
            && let TableAddress::Cpu(start) = it.table
        {
            self.write_table(start, it)?;
        }
        Ok(self.state().records.system_root())
    }

    /// Writes entries as the CPU does, in system memory.
    fn write_table(&self, start: u64, it: &TableUpdate<'_>) -> DriverResult<()> {
        let ram = self.gpu.ram().ok_or(DriverError::Invalid)?;
        for index in 0..it.count {
            let at = if it.repeat { 0 } else { index as usize };
            let entry = it.entries.get(at).ok_or(DriverError::Invalid)?;
            let offset = (u64::from(it.first) + u64::from(index)) * ENTRY_SIZE;
            let place = start.checked_add(offset).ok_or(DriverError::Invalid)?;
            if !ram.write(place, &encode_entry(entry).to_le_bytes()) {
                return Err(DriverError::Invalid);
            }
        }
        Ok(())
    }
}
