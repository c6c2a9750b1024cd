//! A client of the driver with submission. The client also runs the work of other threads (see
//! `residency_fixture.rs`).

use crate::fixture::{EventWatcher, log};
use crate::paging_driver::{AdapterConfig, set_up_with};
use crate::row_kinds::Watch;
use crate::{MeasureError, wanted};
use abi::D3DKMT_HANDLE;
use flight::{DeterministicHost, Log, Passive, Spawner};
use kernel::{AdapterId, Kernel};
use std::sync::Arc;
use thunk::{Client, CreateAllocation, SyncObject};

/// A kernel with a driver with submission, and the measured client.
pub(crate) struct WorkFixture {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) id: AdapterId,
    pub(crate) client: Client,
    pub(crate) adapter: D3DKMT_HANDLE,
    pub(crate) device: D3DKMT_HANDLE,
    host: Arc<dyn Spawner>,
    watcher: Option<EventWatcher>,
}

impl WorkFixture {
    /// Runs `body` with a fixture, then ends everything. Fails if the verifier found something:
    /// then the measurement is invalid.
    pub(crate) fn fly<T: Send>(
        watch: Watch,
        config: Option<AdapterConfig>,
        body: impl FnOnce(&mut WorkFixture, &mut Passive) -> Result<T, MeasureError> + Send,
    ) -> Result<T, MeasureError> {
        let log = log(watch);
        let flown = DeterministicHost::fly(0, &log, |host, at| {
            let host: Arc<dyn Spawner> = host.clone();
            let mut fixture = Self::open(&host, at, &log, watch, config)?;
            let told = body(&mut fixture, at)?;
            fixture.close(at)?;
            Ok(told)
        });
        flown.map_err(|reason| MeasureError(format!("a flight to end: {reason:?}")))?
    }

    fn open(
        host: &Arc<dyn Spawner>,
        at: &mut Passive,
        log: &Arc<Log>,
        watch: Watch,
        config: Option<AdapterConfig>,
    ) -> Result<Self, MeasureError> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let id = kernel
            .add_adapter(at, set_up_with(config))
            .map_err(|reason| MeasureError(format!("a driver that starts: {}", reason.entry)))?;
        let watcher = EventWatcher::of(watch, log);
        let (client, adapter, device) = part(&kernel, at)?;
        Ok(Self { kernel, id, client, adapter, device, host: host.clone(), watcher })
    }

    fn close(mut self, at: &mut Passive) -> Result<(), MeasureError> {
        crate::fixture::serve(&self.host, &self.kernel, self.id);
        self.client.kill(at);
        self.kernel.remove_adapter(at, self.id);
        self.watcher.as_mut().map_or(Ok(()), EventWatcher::end)
    }

    /// Runs the work of the kernel's and the hardware's threads.
    pub(crate) fn serve(&self, at: &mut Passive) {
        while self.kernel.run_pending_work(at) | self.kernel.run_hardware_turn(at, self.id) {}
    }

    /// Runs the observer, if any.
    pub(crate) fn watch(&mut self) {
        if let Some(it) = &mut self.watcher {
            it.look();
        }
    }

    /// Creates another process with a device.
    pub(crate) fn another_client(&self, at: &mut Passive) -> Result<Client, MeasureError> {
        part(&self.kernel, at).map(|entry| entry.0)
    }

    pub(crate) fn context(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, MeasureError> {
        let made = self.client.create_context(at, self.device, 0);
        wanted("D3DKMTCreateContextVirtual", made)
    }

    pub(crate) fn fence(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, MeasureError> {
        let fence = SyncObject::Monitored(0);
        let made = self.client.create_sync(at, self.device, fence, 0);
        wanted("D3DKMTCreateSynchronizationObject2", made).map(|new_sync| new_sync.object)
    }

    pub(crate) fn allocation(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, MeasureError> {
        let request = CreateAllocation::new(self.device, vec![vec![0xa5; 32]]);
        let made = wanted("D3DKMTCreateAllocation", self.client.create(at, &request))?;
        made.allocations.first().copied().ok_or(MeasureError("a handle".to_owned()))
    }
}

fn part(
    kernel: &Arc<Kernel>,
    at: &mut Passive,
) -> Result<(Client, D3DKMT_HANDLE, D3DKMT_HANDLE), MeasureError> {
    let client = Client::new(kernel);
    let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
    let adapter = *adapters.first().ok_or(MeasureError("an adapter".to_owned()))?;
    let device = wanted("D3DKMTCreateDevice", client.create_device(at, adapter))?;
    Ok((client, adapter, device))
}
