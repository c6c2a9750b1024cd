//! The built-in driver again, which ends everything that an engine has when it resets it.

use flight::{Fence, Passive};
use kernel::miniport::{DriverResult, Miniport};
use softgpu::{Gpu, SoftGpu};
use std::sync::Arc;

/// The driver, and the hardware it resets by itself.
pub(crate) struct WholeEngineReset {
    inner: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
}

impl WholeEngineReset {
    /// Around the good one.
    pub(crate) fn around(inner: Arc<SoftGpu>, gpu: Arc<Gpu>) -> Arc<Self> {
        Arc::new(Self { inner, gpu })
    }
}

impl Miniport for WholeEngineReset {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    /// It may: what it answers lies between the last fence done and the last one given.
    fn reset_engine(&self, at: &mut Passive, node: u32) -> DriverResult<Fence> {
        self.inner.current_fence(at, node)?;
        Ok(self.gpu.reset_whole_node(node))
    }
}
