//! The built-in driver with engine resets that abort all packets of the engine.

use flight::{Fence, Passive};
use kernel::miniport::{DriverResult, Miniport};
use softgpu::{Gpu, SoftGpu};
use std::sync::Arc;

/// The driver, and the hardware it resets itself.
pub(crate) struct WholeEngineReset {
    inner: Arc<SoftGpu>,
    gpu: Arc<Gpu>,
}

impl WholeEngineReset {
    /// Wraps the good driver.
    pub(crate) fn around(inner: Arc<SoftGpu>, gpu: Arc<Gpu>) -> Arc<Self> {
        Arc::new(Self { inner, gpu })
    }
}

impl Miniport for WholeEngineReset {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    /// This is allowed: the returned fence lies between the last completed and the last submitted
    /// fence.
    fn reset_engine(&self, at: &mut Passive, node: u32) -> DriverResult<Option<Fence>> {
        self.inner.query_current_fence(at, node)?;
        Ok(Some(self.gpu.reset_whole_node(node)))
    }
}
