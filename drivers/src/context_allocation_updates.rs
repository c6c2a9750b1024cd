//! A good driver that replaces the context allocations of running contexts.

use flight::Passive;
use kernel::miniport::{CreateAllocationArgs, DriverResource, DriverResult, Miniport};
use softgpu::SoftGpu;
use std::sync::Arc;

/// The built-in driver with memory. Whenever it creates allocations, it frees the save areas of
/// all contexts, running or not, and creates new ones.
pub(crate) struct Changing {
    inner: Arc<SoftGpu>,
}

impl Changing {
    /// Wraps the built-in driver.
    pub(crate) fn around(inner: Arc<SoftGpu>) -> Arc<Self> {
        Arc::new(Self { inner })
    }
}

impl Miniport for Changing {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let resource = self.inner.create_allocations(at, args)?;
        // A context may also keep its old area.
        let _ = self.inner.change_areas(at, true);
        Ok(resource)
    }
}
