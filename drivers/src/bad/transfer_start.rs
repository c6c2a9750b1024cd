//! A bad driver that allocates memory at each start of a transfer, and also when it continues with
//! the next buffer.
#![expect(unsafe_code, reason = "frees pool blocks, as a driver in C would")]

use crate::block::{Kind, free, take};
use flight::Passive;
use kernel::miniport::{DriverResult, Miniport};
use kernel::operation::{BuildPagingBufferArgs, Operation};
use nt::Pool;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver around a good driver.
pub(crate) struct LeaksOnTransferStart {
    inner: Arc<dyn Miniport>,
    pool: Arc<Pool>,
    /// The blocks of the transfer that is being built.
    blocks: Mutex<Vec<usize>>,
}

/// The driver's record of a transfer.
struct Started;

impl Kind for Started {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"move");
}

impl LeaksOnTransferStart {
    pub(crate) fn new(inner: Arc<dyn Miniport>, pool: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self { inner, pool, blocks: Mutex::default() })
    }
}

impl Miniport for LeaksOnTransferStart {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn build_paging_buffer(
        &self,
        at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        let starts = matches!(&args.operation, Operation::Transfer(it) if it.start);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if starts {
            blocks.push(self.pool.run_driver(|| take(Started)).expose_provenance());
        }
        let answer = self.inner.build_paging_buffer(at, args);
        if answer.is_ok() {
            for block in blocks.drain(..) {
                // SAFETY: The block was allocated here and is unpublished.
                self.pool.run_driver(|| unsafe { free(ptr::with_exposed_provenance_mut(block)) });
            }
        }
        answer
    }
}
