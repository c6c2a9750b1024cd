//! The callbacks that the kernel offers to a driver, in Rust types.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use flight::{Host, Log, Pool, Subject};
use std::sync::{Arc, Weak};

/// The callbacks of one adapter.
///
/// Each callback takes the proof of its IRQL. A door without a proof obtains it from
/// [`flight::At::at_current_irql`] and rejects a call at the wrong IRQL.
pub struct KernelCallbacks {
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<dyn Pool>,
}

impl KernelCallbacks {
    /// Records the driver's handle for its adapter (`MiniportDeviceContext`).
    pub fn set_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.set_driver_handle(driver_handle, self.adapter.subject());
        }
    }

    /// Records that the driver has returned from the call that removed its adapter.
    pub fn end_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.end_driver_handle(driver_handle, self.adapter.subject(), false);
        }
    }

    /// The driver's memory.
    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.pool
    }

    /// The host that runs the kernel's threads.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// The log in which doors record what they see.
    pub fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// The adapter's locally unique id (`AdapterLuid`).
    pub fn luid(&self) -> u64 {
        crate::adapter::start::AdapterId(self.adapter).luid()
    }

    /// The adapter, for events.
    pub fn adapter(&self) -> Subject {
        self.adapter.subject()
    }
}
