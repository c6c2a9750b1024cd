//! Allocations whose bytes are memory of a client (`ExistingSysMem`, `ExistingSection`).
//!
//! The memory has physical addresses of its own (`Ram::attach`), so an aperture and a page table map
//! it like pages of the system, and the GPU reads and writes the client's bytes.
//!
//! # Invariants
//!
//! 1. Such an extent has its pages from its creation to its end: they are never discarded.

use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::ddi::segment::SegmentSet;
use crate::kernel::Kernel;
use crate::memory::{Extent, Location};
use crate::objects::allocation::Allocation;
use crate::state::KernelState;
use flight::{Component, ExistingMemory, RuleId, Subject};
use std::sync::Arc;

impl KernelState {
    /// Lets a new allocation use memory of a client. On an adapter without memory the driver has
    /// the bytes, and nothing is done.
    ///
    /// Fails if the driver has described more bytes than the memory has, or there are no addresses
    /// for it.
    pub(crate) fn use_existing_memory(
        &mut self,
        allocation: Id<Allocation>,
        existing: &Arc<dyn ExistingMemory>,
    ) -> Result<(), KernelError> {
        let Some(extent) = self.allocations[allocation].extent else { return Ok(()) };
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        if it.bytes > existing.bytes() {
            return Err(KernelError::BadAllocationInfo);
        }
        let attached = memory.ram.attach(existing.clone(), it.bytes);
        it.backing.push(attached.ok_or(KernelError::NoMemory { trim: 0 })?);
        it.existing = Some(existing.clone());
        (it.location, it.has_content) = (Location::System, true);
        // WINDOWS: existing memory stays where it is, and the GPU reaches it through an aperture
        // (our reading). If the driver supports none, paging operations copy the bytes.
        self.keep_in_apertures(allocation);
        Ok(())
    }

    /// Places a new allocation in apertures only, if its driver supports one.
    pub(crate) fn keep_in_apertures(&mut self, allocation: Id<Allocation>) {
        let Some(extent) = self.allocations[allocation].extent else { return };
        let (extents, memory) = self.memory_mut_of(extent);
        let it = &mut extents[extent];
        let possible = SegmentSet(it.requirements.segments.0 & memory.apertures.0);
        if !possible.is_empty() {
            it.requirements.segments = possible;
            for preferred in &mut it.requirements.preferred {
                *preferred = preferred.filter(|preference| possible.has(preference.segment));
            }
        }
    }
}

impl Extent {
    /// Its address in the client, if it is the client's memory.
    pub(crate) fn client_address(&self) -> Option<usize> {
        self.existing.as_ref()?.client_address()
    }
}

impl Kernel {
    /// Judges whether a client left its memory where it was while an allocation used it.
    pub(crate) fn judge_existing_memory(&self, subject: Subject, existing: &dyn ExistingMemory) {
        let broken = existing.failed_access().map(|access| {
            let (done, lost) = if access.is_write {
                ("wrote to", "the bytes were lost")
            } else {
                ("read", "it got zeros")
            };
            format!(
                "the GPU {done} {subject} at offset {:#x}, but the client had taken that memory \
                 away, and {lost}",
                access.offset
            )
        });
        let argument = "D3DKMTCreateAllocation.pSystemMem";
        self.log.judge(RuleId::WT_MEMORY_001, Component::Client, subject, argument, broken);
    }
}
