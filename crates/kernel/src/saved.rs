//! Allocations that a driver makes for its contexts: where their engines save what they were at.

use crate::kernel::Kernel;
use crate::miniport::{Answer, Refusal};
use crate::operation::ContextMemoryOrder;
use flight::{Passive, Subject};

impl Kernel {
    pub(crate) fn create_context_memory(
        &self,
        _at: &mut Passive,
        _adapter: Subject,
        _order: &ContextMemoryOrder,
    ) -> Answer<usize> {
        Err(Refusal::Unsupported)
    }

    pub(crate) fn destroy_context_memory(
        &self,
        _at: &mut Passive,
        _adapter: Subject,
        _name: usize,
    ) -> Answer<()> {
        Err(Refusal::Unsupported)
    }

    pub(crate) fn update_context_memory(
        &self,
        _at: &mut Passive,
        _adapter: Subject,
        _name: usize,
        _private: &[u8],
    ) -> Answer<()> {
        Err(Refusal::Unsupported)
    }

    pub(crate) fn map_context_memory(
        &self,
        _at: &mut Passive,
        _adapter: Subject,
        _name: usize,
        _first_page: u64,
        _pages: u64,
    ) -> Option<u64> {
        None
    }
}
