//! A client of an adapter with memory that makes allocations resident and evicts them.
//!
//! The client runs the work of the kernel's and the hardware's threads itself before it waits: a
//! deterministic host runs one thread at a time, and thread switches are a cost of the system.

use crate::fixture::serve;
use crate::{MeasureError, wanted};
use abi::D3DKMT_HANDLE;
use abi::ukm::D3DDDI_EVICT_FLAGS;
use flight::{Log, Passive, Spawner};
use kernel::{AdapterId, DriverSetup, Kernel};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, PagingQueue, PagingStatus};

/// The most allocations in a call while all become resident for the first time.
const CHUNK: usize = 50;

/// A kernel with a driver that pages, and its one client.
pub(crate) struct ResidencyFixture {
    host: Arc<dyn Spawner>,
    kernel: Arc<Kernel>,
    adapter: AdapterId,
    client: Client,
    device: D3DKMT_HANDLE,
    queue: PagingQueue,
}

impl ResidencyFixture {
    pub(crate) fn open(
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        log: &Arc<Log>,
        driver_setup: DriverSetup,
    ) -> Result<Self, MeasureError> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let adapter = kernel
            .add_adapter(at, driver_setup)
            .map_err(|reason| MeasureError(format!("a driver that starts: {}", reason.entry)))?;
        let client = Client::new(&kernel);
        let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
        let first = *adapters.first().ok_or(MeasureError("an adapter".to_owned()))?;
        let device = wanted("D3DKMTCreateDevice", client.create_device(at, first))?;
        let queue = wanted("D3DKMTCreatePagingQueue", client.create_paging_queue(at, device, 0))?;
        Ok(Self { host: host.clone(), kernel, adapter, client, device, queue })
    }

    /// Ends the client and removes the adapter.
    pub(crate) fn close(self, at: &mut Passive) {
        serve(&self.host, &self.kernel, self.adapter);
        self.client.kill(at);
        self.kernel.remove_adapter(at, self.adapter);
    }

    /// Fills the list with new allocations, and makes each resident and evicts it once.
    pub(crate) fn fill(
        &self,
        at: &mut Passive,
        list: &mut Vec<D3DKMT_HANDLE>,
        private: &[u8],
        lazily: bool,
    ) -> Result<(), MeasureError> {
        let request = CreateAllocation::new(self.device, vec![private.to_vec()]);
        while list.len() < list.capacity() {
            let made = wanted("D3DKMTCreateAllocation", self.client.create(at, &request))?;
            list.extend(made.allocations.first());
        }
        // Not more than fit into memory.
        for chunk in list.chunks((list.len() / 4).clamp(1, CHUNK)) {
            self.make_resident(at, chunk)?;
            self.evict(at, chunk, lazily)?;
        }
        Ok(())
    }

    /// Makes allocations resident and waits for the paging fence.
    pub(crate) fn make_resident(
        &self,
        at: &mut Passive,
        list: &[D3DKMT_HANDLE],
    ) -> Result<(), MeasureError> {
        let made = self.client.make_resident(at, self.queue.queue, list, 0);
        match wanted("D3DKMTMakeResident", made)? {
            PagingStatus::Resident => Ok(()),
            PagingStatus::Pending(value) => {
                while self.kernel.run_pending_work(at)
                    | self.kernel.run_hardware_turn(at, self.adapter)
                {}
                let waited = self.client.wait(at, self.device, self.queue.fence, value);
                wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            PagingStatus::NoMemory(bytes) => {
                Err(MeasureError(format!("{bytes} bytes more of memory")))
            }
        }
    }

    /// Evicts allocations: at once, or when their location is needed.
    pub(crate) fn evict(
        &self,
        at: &mut Passive,
        list: &[D3DKMT_HANDLE],
        lazily: bool,
    ) -> Result<(), MeasureError> {
        let flags = if lazily { D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary } else { 0 };
        wanted("D3DKMTEvict", self.client.evict(at, self.device, list, flags)).map(drop)
    }
}
