//! A client of an adapter with memory: it has allocations come and go.
//!
//! What threads of the kernel and the hardware would do it does itself before it waits: on
//! `Stepped` only one thread runs at a time, and what their turns cost is the system's.

use crate::site::serve;
use crate::{NotMeasured, wanted};
use abi::D3DKMT_HANDLE;
use abi::ukm::D3DDDI_EVICT_FLAGS;
use flight::{Crew, Log, Passive};
use kernel::{AdapterId, Kernel, Plugged};
use std::sync::Arc;
use thunk::{Client, Create, Made, PagingQueue};

/// At most so many are named in a call while all of them come for the first time.
const CHUNK: usize = 50;

/// A kernel with a driver that pages, and its one client.
pub(crate) struct Holder {
    host: Arc<dyn Crew>,
    kernel: Arc<Kernel>,
    adapter: AdapterId,
    client: Client,
    device: D3DKMT_HANDLE,
    queue: PagingQueue,
}

impl Holder {
    pub(crate) fn open(
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        log: &Arc<Log>,
        plugged: Plugged,
    ) -> Result<Self, NotMeasured> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let adapter = kernel
            .add_adapter(at, plugged)
            .map_err(|why| NotMeasured(format!("a driver that starts: {}", why.entry)))?;
        let client = Client::new(&kernel);
        let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
        let first = *adapters.first().ok_or(NotMeasured("an adapter".to_owned()))?;
        let device = wanted("D3DKMTCreateDevice", client.create_device(at, first))?;
        let queue = wanted("D3DKMTCreatePagingQueue", client.create_queue(at, device, 0))?;
        Ok(Self { host: host.clone(), kernel, adapter, client, device, queue })
    }

    /// Ends everything.
    pub(crate) fn close(self, at: &mut Passive) {
        serve(&self.host, &self.kernel, self.adapter);
        self.client.kill(at);
        self.kernel.remove_adapter(at, self.adapter);
    }

    /// Creates as many as there is room for in the list, and has each come once and go.
    pub(crate) fn fill(
        &self,
        at: &mut Passive,
        list: &mut Vec<D3DKMT_HANDLE>,
        private: &[u8],
        lazily: bool,
    ) -> Result<(), NotMeasured> {
        let order = Create::on(self.device, vec![private.to_vec()]);
        while list.len() < list.capacity() {
            let made = wanted("D3DKMTCreateAllocation", self.client.create(at, &order))?;
            list.extend(made.allocations.first());
        }
        // Not more than there may be room for.
        for chunk in list.chunks((list.len() / 4).clamp(1, CHUNK)) {
            self.come(at, chunk)?;
            self.go(at, chunk, lazily)?;
        }
        Ok(())
    }

    /// Has them come, and waits until they are there.
    pub(crate) fn come(&self, at: &mut Passive, list: &[D3DKMT_HANDLE]) -> Result<(), NotMeasured> {
        let made = self.client.make_resident(at, self.queue.queue, list, 0);
        match wanted("D3DKMTMakeResident", made)? {
            Made::Resident => Ok(()),
            Made::Pending(value) => {
                while self.kernel.work(at) | self.kernel.turn(at, self.adapter) {}
                let waited = self.client.wait(at, self.device, self.queue.fence, value);
                wanted("D3DKMTWaitForSynchronizationObjectFromCpu", waited)
            }
            Made::NoRoom(bytes) => Err(NotMeasured(format!("{bytes} bytes more of memory"))),
        }
    }

    /// Has them go: at once, or once their place is needed.
    pub(crate) fn go(
        &self,
        at: &mut Passive,
        list: &[D3DKMT_HANDLE],
        lazily: bool,
    ) -> Result<(), NotMeasured> {
        let flags = if lazily { D3DDDI_EVICT_FLAGS::EvictOnlyIfNecessary } else { 0 };
        wanted("D3DKMTEvict", self.client.evict(at, self.device, list, flags)).map(drop)
    }
}
