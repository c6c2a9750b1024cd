//! The built-in driver again, which ends everything that an engine has when it resets it.

use flight::{Fence, Passive};
use kernel::miniport::{Answer, Miniport};
use softgpu::{Gpu, SoftGpu};
use std::sync::Arc;

/// The driver, and the hardware it resets by itself.
pub(crate) struct Blunt {
    good: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
}

impl Blunt {
    /// Around the good one.
    pub(crate) fn around(good: Arc<SoftGpu>, gpu: Arc<Gpu>) -> Arc<Self> {
        Arc::new(Self { good, gpu })
    }
}

impl Miniport for Blunt {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.good)
    }

    /// It may: what it answers lies between the last fence done and the last one given.
    fn reset_engine(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        self.good.current_fence(at, node)?;
        Ok(self.gpu.reset_whole_node(node))
    }
}
