//! A client of the driver that takes work, which does what other threads would do, too
//! (`holder.rs` says why).

use crate::kinds::Watch;
use crate::pager::{Fitted, fit};
use crate::site::{Watcher, log};
use crate::{NotMeasured, wanted};
use abi::D3DKMT_HANDLE;
use flight::{Crew, Log, Passive, Stepped};
use kernel::{AdapterId, Kernel};
use std::sync::Arc;
use thunk::{Client, Create, SyncObject};

/// A kernel with a driver that takes work, and its one client that is measured.
pub(crate) struct Station {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) id: AdapterId,
    pub(crate) client: Client,
    pub(crate) adapter: D3DKMT_HANDLE,
    pub(crate) device: D3DKMT_HANDLE,
    host: Arc<dyn Crew>,
    watcher: Option<Watcher>,
}

impl Station {
    /// Runs the story with a station. It ends everything afterwards: a watched run that was not
    /// clean is no measurement.
    pub(crate) fn fly<T: Send>(
        watch: Watch,
        fitted: Option<Fitted>,
        story: impl FnOnce(&mut Station, &mut Passive) -> Result<T, NotMeasured> + Send,
    ) -> Result<T, NotMeasured> {
        let log = log(watch);
        let flown = Stepped::fly(0, &log, |host, at| {
            let host: Arc<dyn Crew> = host.clone();
            let mut station = Self::open(&host, at, &log, watch, fitted)?;
            let told = story(&mut station, at)?;
            station.close(at)?;
            Ok(told)
        });
        flown.map_err(|why| NotMeasured(format!("a flight to end: {why:?}")))?
    }

    fn open(
        host: &Arc<dyn Crew>,
        at: &mut Passive,
        log: &Arc<Log>,
        watch: Watch,
        fitted: Option<Fitted>,
    ) -> Result<Self, NotMeasured> {
        let kernel = Kernel::new(host.clone(), log.clone());
        let id = kernel
            .add_adapter(at, fit(fitted))
            .map_err(|why| NotMeasured(format!("a driver that starts: {}", why.entry)))?;
        let watcher = Watcher::of(watch, log);
        let (client, adapter, device) = part(&kernel, at)?;
        Ok(Self { kernel, id, client, adapter, device, host: host.clone(), watcher })
    }

    fn close(mut self, at: &mut Passive) -> Result<(), NotMeasured> {
        crate::site::serve(&self.host, &self.kernel, self.id);
        self.client.kill(at);
        self.kernel.remove_adapter(at, self.id);
        self.watcher.as_mut().map_or(Ok(()), Watcher::end)
    }

    /// What threads of the kernel and the hardware would do.
    pub(crate) fn serve(&self, at: &mut Passive) {
        while self.kernel.work(at) | self.kernel.turn(at, self.id) {}
    }

    /// Whoever watches gets what has happened.
    pub(crate) fn watch(&mut self) {
        if let Some(it) = &mut self.watcher {
            it.look();
        }
    }

    /// Another process with a device.
    pub(crate) fn another(&self, at: &mut Passive) -> Result<Client, NotMeasured> {
        part(&self.kernel, at).map(|it| it.0)
    }

    pub(crate) fn context(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, NotMeasured> {
        let made = self.client.create_context(at, self.device, 0);
        wanted("D3DKMTCreateContextVirtual", made)
    }

    pub(crate) fn fence(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, NotMeasured> {
        let fence = SyncObject::Monitored(0);
        let made = self.client.create_sync(at, self.device, fence, 0);
        wanted("D3DKMTCreateSynchronizationObject2", made).map(|it| it.object)
    }

    pub(crate) fn allocation(&self, at: &mut Passive) -> Result<D3DKMT_HANDLE, NotMeasured> {
        let order = Create::on(self.device, vec![vec![0xa5; 32]]);
        let made = wanted("D3DKMTCreateAllocation", self.client.create(at, &order))?;
        made.allocations.first().copied().ok_or(NotMeasured("a handle".to_owned()))
    }
}

fn part(
    kernel: &Arc<Kernel>,
    at: &mut Passive,
) -> Result<(Client, D3DKMT_HANDLE, D3DKMT_HANDLE), NotMeasured> {
    let client = Client::new(kernel);
    let adapters = wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
    let adapter = *adapters.first().ok_or(NotMeasured("an adapter".to_owned()))?;
    let device = wanted("D3DKMTCreateDevice", client.create_device(at, adapter))?;
    Ok((client, adapter, device))
}
