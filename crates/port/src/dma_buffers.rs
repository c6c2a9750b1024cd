//! The DMA buffers that a driver keeps pointers to.
//!
//! A driver stores the pointers that it got in `DxgkDdiBuildPagingBuffer`, `DxgkDdiRender` and
//! `DxgkDdiSubmitCommand`, and reads them on a thread of its own or in its DPC. So a buffer, its
//! private data and the MDLs of its operations stay where they are until the hardware is done with
//! it. A driver image sees the buffer in the machine's memory. Any other driver sees a copy, whose
//! bytes the machine's memory gets after each call. In both cases an overrun is detected.
//!
//! # Invariants
//!
//! 1. The kernel passes a physical address for a new buffer only after the buffer that was there has
//!    completed, or was never submitted. Only then is the memory here used again.
//! 2. A buffer is taken out of the map while the driver runs, and a guard puts it back.

use crate::guarded_buffer::GuardedBuffer;
use crate::paging::OperationData;
use crate::private_data::PrivateData;
use flight::{Fence, Ram};
use kernel::miniport::DriverResult;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The buffers of an adapter, by their physical addresses.
#[derive(Default)]
pub(crate) struct DmaBuffers {
    buffers: Mutex<BTreeMap<u64, DmaBuffer>>,
    submissions: Mutex<Vec<Submission>>,
    /// The machine's memory, if the driver sees its buffers there.
    ram: Option<Arc<dyn Ram>>,
}

/// A buffer, as the driver sees it.
pub(crate) struct DmaBuffer {
    pub(crate) commands: GuardedBuffer,
    pub(crate) private: PrivateData,
    /// What the operations in the buffer point to.
    pub(crate) operations: Vec<OperationData>,
}

/// The private data of a packet whose commands the driver did not build.
struct Submission {
    node: u32,
    fence: Fence,
    /// The driver has reported that the packet is complete, or one behind it.
    completed: bool,
    /// Keeps the memory that the driver has a pointer to.
    _private: PrivateData,
}

/// A buffer during a call of the driver.
pub(crate) struct DmaBufferGuard<'a> {
    all: &'a DmaBuffers,
    address: u64,
    /// Taken when the guard drops.
    buffer: Option<DmaBuffer>,
}

impl DmaBuffers {
    /// The buffers of a driver that sees them in the machine's memory, if it has that.
    pub(crate) fn new(ram: Option<Arc<dyn Ram>>) -> Self {
        Self { ram, ..Self::default() }
    }

    /// The buffer at a physical address: the same memory as in the last call for it. It has room
    /// for `size` bytes of commands; its private data are these bytes.
    ///
    /// `new` says that the buffer has no commands yet: what the last one at this address pointed to
    /// is freed.
    pub(crate) fn open(
        &self,
        address: u64,
        size: usize,
        private: &[u8],
        new: bool,
    ) -> DriverResult<DmaBufferGuard<'_>> {
        let known = lock(&self.buffers).remove(&address);
        let fits = |buffer: &DmaBuffer| {
            buffer.commands.len() >= size && buffer.private.size() as usize == private.len()
        };
        let buffer = if let Some(mut buffer) = known.filter(fits) {
            buffer.private.overwrite(private);
            if new {
                buffer.operations.clear();
            }
            buffer
        } else {
            self.forget(address, size as u64);
            let ram = self.ram.as_ref().filter(|_| size > 0);
            let mapped = ram.and_then(|ram| GuardedBuffer::map(ram, address, size));
            DmaBuffer {
                commands: mapped.unwrap_or_else(|| GuardedBuffer::copy(&vec![0; size], 0)),
                private: PrivateData::copy(private)?,
                operations: Vec::new(),
            }
        };
        Ok(DmaBufferGuard { all: self, address, buffer: Some(buffer) })
    }

    /// Frees the buffers that overlap a range, whose memory the kernel has given to another one.
    fn forget(&self, address: u64, bytes: u64) {
        let ends_before = |start: u64, buffer: &DmaBuffer| {
            start.saturating_add(buffer.commands.len() as u64) <= address
        };
        let end = address.saturating_add(bytes.max(1));
        lock(&self.buffers).retain(|start, buffer| *start >= end || ends_before(*start, buffer));
    }

    /// Keeps the private data of a packet that was submitted without a buffer of these.
    pub(crate) fn keep_submission(&self, node: u32, fence: Fence, private: PrivateData) {
        if private.size() > 0 {
            let submission = Submission { node, fence, completed: false, _private: private };
            lock(&self.submissions).push(submission);
        }
    }

    /// Records that the driver has reported a fence. The packets up to it end with the DPC.
    pub(crate) fn complete(&self, node: u32, fence: Fence) {
        for submission in &mut *lock(&self.submissions) {
            submission.completed |= submission.node == node && fence.covers(submission.fence);
        }
    }

    /// Frees the private data of the packets that are complete.
    pub(crate) fn end_completed(&self) {
        lock(&self.submissions).retain(|submission| !submission.completed);
    }

    /// Frees everything: the adapter has stopped.
    pub(crate) fn clear(&self) {
        lock(&self.buffers).clear();
        lock(&self.submissions).clear();
    }
}

impl Deref for DmaBufferGuard<'_> {
    type Target = DmaBuffer;
    fn deref(&self) -> &DmaBuffer {
        self.buffer.as_ref().expect("a guard has its buffer until it drops")
    }
}

impl DerefMut for DmaBufferGuard<'_> {
    fn deref_mut(&mut self) -> &mut DmaBuffer {
        self.buffer.as_mut().expect("a guard has its buffer until it drops")
    }
}

impl Drop for DmaBufferGuard<'_> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            lock(&self.all.buffers).insert(self.address, buffer);
        }
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic cannot leave the data under the lock inconsistent.
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(buffer: &mut DmaBuffer) -> (usize, usize) {
        (buffer.commands.pointer().addr(), buffer.private.pointer().addr())
    }

    #[test]
    fn a_buffer_stays_where_it_is() {
        let all = DmaBuffers::default();
        let first = addresses(&mut all.open(0x1000, 64, &[1; 8], true).unwrap());
        let other = addresses(&mut all.open(0x3000, 64, &[1; 8], true).unwrap());
        assert_ne!(first, other);
        let mut again = all.open(0x1000, 40, &[2; 8], false).unwrap();
        assert_eq!(addresses(&mut again), first);
        assert_eq!(again.private.bytes(), [2; 8]);
        drop(again);
        // After a stop there is nothing left.
        all.clear();
        assert_eq!(lock(&all.buffers).len(), 0);
    }

    #[test]
    fn an_image_sees_the_machines_memory() {
        let ram: Arc<dyn Ram> = nt::Ram::new(1 << 20).unwrap();
        let run = ram.allocate(0x1000).unwrap();
        let all = DmaBuffers::new(Some(ram.clone()));
        let mut open = all.open(run.start, 64, &[], true).unwrap();
        open.commands.open(8, &[3; 56]);
        let at = open.commands.pointer();
        assert!(ram.write_mapped(at.addr(), b"late"));
        drop(open);
        let mut seen = [0; 12];
        assert!(ram.read(run.start + 8, &mut seen));
        assert_eq!(&seen, b"late\x03\x03\x03\x03\x03\x03\x03\x03");
        // Memory that is not the machine's is a copy.
        let mut other = all.open(0x1000, 64, &[], true).unwrap();
        other.commands.open(0, &[4; 64]);
        let copy = other.commands.pointer();
        assert!(!ram.write_mapped(copy.addr(), &[1]));
    }

    #[test]
    fn a_buffer_that_overlaps_another_replaces_it() {
        let all = DmaBuffers::default();
        for address in [0x1000, 0x2000, 0x3000] {
            drop(all.open(address, 0x1000, &[], true).unwrap());
        }
        drop(all.open(0x1800, 0x1000, &[], true).unwrap());
        let left: Vec<u64> = lock(&all.buffers).keys().copied().collect();
        assert_eq!(left, [0x1800, 0x3000]);
        drop(all.open(0x3000, 0x2000, &[], true).unwrap());
        assert_eq!(lock(&all.buffers)[&0x3000].commands.len(), 0x2000);
    }

    #[test]
    fn a_panic_of_the_driver_loses_no_buffer() {
        let all = DmaBuffers::default();
        let first = addresses(&mut all.open(0x1000, 64, &[], true).unwrap());
        let unwinds = std::panic::AssertUnwindSafe(|| {
            let _open = all.open(0x1000, 64, &[], false).unwrap();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(std::panic::catch_unwind(unwinds).is_err());
        assert_eq!(addresses(&mut all.open(0x1000, 64, &[], false).unwrap()), first);
    }

    #[test]
    fn private_data_lives_until_the_dpc_of_its_fence() {
        let all = DmaBuffers::default();
        let keep = |node, fence| {
            all.keep_submission(node, Fence(fence), PrivateData::copy(&[1; 4]).unwrap());
        };
        let count = || lock(&all.submissions).len();
        keep(0, 1);
        keep(0, 2);
        keep(1, 1);
        all.keep_submission(0, Fence(3), PrivateData::copy(&[]).unwrap());
        assert_eq!(count(), 3);
        all.complete(0, Fence(1));
        assert_eq!(count(), 3);
        all.end_completed();
        assert_eq!(count(), 2);
        all.complete(0, Fence(2));
        all.end_completed();
        let left: Vec<u32> = lock(&all.submissions).iter().map(|kept| kept.node).collect();
        assert_eq!(left, [1]);
    }
}
