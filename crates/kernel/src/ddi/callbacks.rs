//! What a driver may ask of the kernel: its callbacks, in plain words.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use flight::{Host, Log, Pool, Subject};
use std::sync::{Arc, Weak};

/// The callbacks of one adapter.
///
/// Each takes the proof of its level; a door that has no proof takes it from
/// [`flight::At::here`] and refuses what does not fit.
pub struct KernelCallbacks {
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<dyn Pool>,
}

impl KernelCallbacks {
    /// Says which word the driver gave for its adapter (`MiniportDeviceContext`).
    pub fn set_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.set_driver_handle(driver_handle, self.adapter.subject());
        }
    }

    /// Says that the driver was told to forget its adapter, and has returned.
    pub fn end_driver_handle(&self, driver_handle: usize) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.end_driver_handle(driver_handle, self.adapter.subject(), false);
        }
    }

    /// The driver's memory.
    pub fn pool(&self) -> &Arc<dyn Pool> {
        &self.pool
    }

    /// Who runs this.
    pub fn host(&self) -> &Arc<dyn Host> {
        &self.host
    }

    /// Where doors say what they saw.
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
