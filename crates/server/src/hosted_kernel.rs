//! A kernel with its host, its driver and its report.

use crate::internal::Workers;
use crate::report::Report;
use flight::{Log, Spawner, ThreadedHost};
use kernel::{AdapterId, DriverSetup, Kernel};
use std::sync::{Arc, OnceLock};

/// The kernel of this process.
static RUNNING: OnceLock<Arc<Kernel>> = OnceLock::new();

/// The kernel of this process, once it has started.
pub fn running() -> Option<&'static Arc<Kernel>> {
    RUNNING.get()
}

/// A kernel that threads of clients call.
pub struct HostedKernel {
    /// Runs its threads, and adopts those of clients.
    pub host: Arc<ThreadedHost>,
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Its adapter, if it has one.
    pub adapter: Option<AdapterId>,
    /// Set if a report was requested.
    pub report: Option<Arc<Report>>,
}

impl HostedKernel {
    /// Starts a kernel with the driver that `set_up` returns. Without a driver it has no adapter.
    ///
    /// # Errors
    ///
    /// That of `set_up`, or why the driver did not start, in one line.
    pub fn start(
        report: Option<Arc<Report>>,
        set_up: impl FnOnce(&Arc<ThreadedHost>, &Arc<Log>) -> Result<Option<DriverSetup>, String>,
    ) -> Result<Self, String> {
        let log = Arc::new(if report.is_some() { Log::new() } else { Log::silent() });
        let host = ThreadedHost::new(&log);
        host.expect_external_threads();
        let kernel = Kernel::new(host.clone(), log.clone());
        let workers: Arc<dyn Spawner> = Arc::new(Workers(host.clone()));
        let (worker, work_available) = (kernel.clone(), kernel.work_available());
        workers.spawn_worker("system", work_available, move |at| worker.run_pending_work(at));
        let mut running = None;
        if let Some(setup) = set_up(&host, &log)? {
            let added = host.adopt("client", |at| kernel.add_adapter(at, setup));
            let adapter = added.map_err(|error| format!("the driver did not start: {error}"))?;
            kernel.start_workers(&workers, adapter);
            running = Some(adapter);
        }
        // Only for messages about a broken invariant, of the first kernel.
        _ = RUNNING.set(kernel.clone());
        Ok(Self { host, kernel, adapter: running, report })
    }
}
