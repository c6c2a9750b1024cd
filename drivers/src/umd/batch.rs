//! Commands that have not been submitted.
#![forbid(unsafe_code)]

use abi::D3DKMT_HANDLE;
use kernel::Handle;
use kernel::miniport::DriverError;
use softgpu::format::{Command, encode, list_handle};
use std::collections::BTreeSet;
use umd::ContextBuffers;

/// The bytes of commands to collect if no buffer sets a limit.
const MOST: usize = 1024;

/// A packet that is being built.
#[derive(Debug, Default)]
pub(super) struct CommandBatch {
    commands: Vec<Command>,
    bytes: usize,
    allocations: Vec<(D3DKMT_HANDLE, bool)>,
    groups: BTreeSet<u64>,
}

impl CommandBatch {
    pub(super) fn is_empty(&self) -> bool {
        self.commands.is_empty()
    }

    /// The allocations that its commands use, and whether they write them.
    pub(super) fn allocations(&self) -> &[(D3DKMT_HANDLE, bool)] {
        &self.allocations
    }

    pub(super) fn has(&self, allocation: D3DKMT_HANDLE) -> bool {
        self.allocations.iter().any(|pair| pair.0 == allocation)
    }

    pub(super) fn has_group(&self, group: u64) -> bool {
        self.groups.contains(&group)
    }

    /// The packet as bytes.
    pub(super) fn encoded(&self) -> Vec<u8> {
        encode(&self.commands)
    }

    /// Adds a command. Returns whether it fits. In a context with allocation lists it is written at
    /// once.
    pub(super) fn add(
        &mut self,
        command: Command,
        uses: &[(D3DKMT_HANDLE, bool)],
        groups: &[u64],
        buffers: Option<&ContextBuffers>,
    ) -> bool {
        let mut all = self.allocations.clone();
        for (allocation, written) in uses {
            match all.iter_mut().find(|pair| pair.0 == *allocation) {
                Some(it) => it.1 |= written,
                None => all.push((*allocation, *written)),
            }
        }
        // The miniport finds an instance that a lock returned by its index in the list.
        let place = |handle: Handle| {
            let place = (0..).zip(&all).find(|(_, (allocation, _))| *allocation == handle.0);
            place.map(|(place, _)| list_handle(place)).ok_or(DriverError::Invalid)
        };
        let named = if buffers.is_some() { command.resolve(place) } else { Ok(command) };
        let Ok(command) = named else { return false };
        let command_bytes = encode(&[command]);
        let added = command_bytes.get(4..).unwrap_or_default();
        let start = self.bytes.max(4);
        let (room, entries) = buffers.map_or((MOST, usize::MAX), |context_buffers| {
            (
                context_buffers.command_capacity() as usize,
                context_buffers.allocation_capacity() as usize,
            )
        });
        if start + added.len() > room || all.len() > entries {
            return false;
        }
        self.commands.push(command);
        if let Some(buffers) = buffers
            && !self.write(buffers, start, added, &all)
        {
            self.commands.pop();
            return false;
        }
        self.bytes = start + added.len();
        self.allocations = all;
        self.groups.extend(groups);
        true
    }

    fn write(
        &self,
        buffers: &ContextBuffers,
        start: usize,
        added: &[u8],
        uses: &[(D3DKMT_HANDLE, bool)],
    ) -> bool {
        let count = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        buffers.write(0, &count(self.commands.len()).to_le_bytes())
            && buffers.write(count(start), added)
            && uses.iter().zip(0..).all(|(it, index)| buffers.add_allocation(index, it.0, it.1))
    }
}
