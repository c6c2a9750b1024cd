//! What a driver may ask of the kernel: its callbacks, in plain words.

use crate::handle::Handle;
use crate::kernel::Kernel;
use flight::{DeviceLevel, Dispatch, Fence, Host, InCall, Kind, Log, Passive, Pool, Subject};
use std::sync::{Arc, Weak};

/// The callbacks of one adapter.
///
/// Each takes the proof of its level; a door that has no proof takes it from
/// [`flight::At::here`] and refuses what does not fit.
pub struct Services {
    pub(crate) kernel: Weak<Kernel>,
    pub(crate) adapter: Subject,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) log: Arc<Log>,
    pub(crate) pool: Arc<dyn Pool>,
}

impl Services {
    /// Reports a packet done (`DxgkCbNotifyInterrupt`). It is recorded, nothing more.
    pub fn notify_interrupt(&self, at: &mut DeviceLevel, node: u32, fence: Fence) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.report(at, self.adapter, node, fence);
        }
    }

    /// Asks for the DPC (`DxgkCbQueueDpc`), at any level. Answers whether it was not yet queued.
    pub fn queue_dpc(&self) -> bool {
        self.kernel.upgrade().is_some_and(|kernel| kernel.queue_dpc(self.adapter))
    }

    /// Acts on what was reported (`DxgkCbNotifyDpc`).
    pub fn notify_dpc(&self, at: &mut Dispatch) {
        if let Some(kernel) = self.kernel.upgrade() {
            kernel.settle(at, self.adapter);
        }
    }

    /// The driver's word behind a client's allocation or resource handle
    /// (`DxgkCbAcquireHandleData`), in the process the running call is for: the adapter's word,
    /// or with `of_device` the view's. Also for what this very call is building.
    pub fn handle_data(&self, at: &mut Passive, handle: Handle, of_device: bool) -> Option<usize> {
        self.kernel.upgrade()?.handle_data(at, handle, of_device)
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
        crate::start::AdapterId(self.adapter.number).luid()
    }

    /// The adapter, for events.
    pub fn adapter(&self) -> Subject {
        self.adapter
    }
}

impl Kernel {
    /// The driver's word behind a client's handle, in the process the running call is for.
    pub(crate) fn handle_data(
        &self,
        _at: &mut Passive,
        handle: Handle,
        of_device: bool,
    ) -> Option<usize> {
        let world = self.world.hold();
        let process = (*world.calls.get(&InCall::current()?)?)?;
        let subject = world.processes.get(process)?.names.find_for_driver(handle)?;
        match subject.kind {
            Kind::View if of_device => Some(world.views.get(subject.number)?.word.as_ref()?.word()),
            Kind::View => {
                let allocation = world.views.get(subject.number)?.allocation;
                Some(world.allocations.get(allocation)?.word.as_ref()?.word())
            }
            Kind::ResourceView => {
                let resource = world.resource_views.get(subject.number)?.resource;
                Some(world.resources.get(resource)?.said)
            }
            _ => None,
        }
    }
}
