//! A driver that takes memory for a transfer whenever it is told to start one, also when it goes
//! on with the next buffer.
#![expect(unsafe_code, reason = "gives pool blocks back, as a driver in C would")]

use crate::block::{Kind, free, take};
use flight::Passive;
use kernel::miniport::{Answer, Miniport};
use kernel::operation::{Building, Operation};
use nt::Pool;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

/// A driver around a good one.
pub(crate) struct StartsAgain {
    good: Arc<dyn Miniport>,
    pool: Arc<Pool>,
    /// The blocks of the transfer that is being built.
    blocks: Mutex<Vec<usize>>,
}

/// What it remembers of a transfer.
struct Started;

impl Kind for Started {
    const SIGNATURE: u32 = u32::from_le_bytes(*b"move");
}

impl StartsAgain {
    pub(crate) fn new(good: Arc<dyn Miniport>, pool: Arc<Pool>) -> Arc<Self> {
        Arc::new(Self { good, pool, blocks: Mutex::default() })
    }
}

impl Miniport for StartsAgain {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    fn build_paging(&self, at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        let starts = matches!(&building.operation, Operation::Transfer(it) if it.start);
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if starts {
            blocks.push(self.pool.inside(|| take(Started)).expose_provenance());
        }
        let answer = self.good.build_paging(at, building);
        if answer.is_ok() {
            for block in blocks.drain(..) {
                // SAFETY: It was taken here, and nobody else knows of it.
                self.pool.inside(|| unsafe { free(ptr::with_exposed_provenance_mut(block)) });
            }
        }
        answer
    }
}
