//! A driver that gives its contexts other save areas while they run.

use flight::Passive;
use kernel::miniport::{CreateAllocationArgs, CreatedAllocations, DriverResult, Miniport};
use softgpu::SoftGpu;
use std::sync::Arc;

/// The built-in driver with memory. Whenever it creates allocations it frees the save areas of
/// all contexts, whatever these are at, and makes new ones.
pub(crate) struct Changing {
    inner: Arc<SoftGpu>,
}

impl Changing {
    /// It, around the built-in driver.
    pub(crate) fn around(inner: Arc<SoftGpu>) -> Arc<Self> {
        Arc::new(Self { inner })
    }
}

impl Miniport for Changing {
    fn stands_on(&self) -> Option<&dyn Miniport> {
        Some(&*self.inner)
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: CreateAllocationArgs<'_>,
    ) -> DriverResult<CreatedAllocations> {
        let created = self.inner.create_allocations(at, args)?;
        // Contexts that keep what they have are as good.
        let _ = self.inner.change_areas(at, true);
        Ok(created)
    }
}
