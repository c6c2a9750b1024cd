//! Pages of a client in safe Rust, for allocations over existing system memory.

use std::sync::atomic::{AtomicU8, Ordering};

const PAGE: usize = 4096;

/// Whole pages of zeros. Atomic bytes, because the GPU may change them at any time.
#[derive(Debug)]
pub struct ClientMemory(Box<[Page]>);

#[derive(Debug)]
#[repr(C, align(4096))]
struct Page([AtomicU8; PAGE]);

impl ClientMemory {
    /// This many pages.
    pub fn new(pages: usize) -> Self {
        Self((0..pages).map(|_| Page([const { AtomicU8::new(0) }; PAGE])).collect())
    }

    /// The address of the first byte.
    pub fn address(&self) -> usize {
        self.0.as_ptr().expose_provenance()
    }

    /// The size in bytes.
    pub fn bytes(&self) -> usize {
        self.0.len() * PAGE
    }

    /// Sets every byte.
    pub fn fill(&self, value: u8) {
        self.all().for_each(|byte| byte.store(value, Ordering::SeqCst));
    }

    /// Whether every byte has this value.
    pub fn is_filled(&self, value: u8) -> bool {
        self.all().all(|byte| byte.load(Ordering::SeqCst) == value)
    }

    fn all(&self) -> impl Iterator<Item = &AtomicU8> {
        self.0.iter().flat_map(|page| &page.0)
    }
}
