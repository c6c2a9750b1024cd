//! Adapter queries from user mode, answered by the driver.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::ddi::permit::ThreadingLevel;
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::Passive;

impl Kernel {
    /// Passes a user-mode driver's private data to the kernel-mode driver, which replaces the data
    /// with its reply (`D3DKMTQueryAdapterInfo`, type `KMTQAITYPE_UMDRIVERPRIVATE`).
    ///
    /// WINDOWS: the entry is of level zero (documented). It may overlap a change of power
    /// (documented); here it waits for that like any other call (our decision).
    pub fn query_umd_private(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: Handle,
        data: &mut [u8],
    ) -> Result<(), KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        let removed = KernelError::Removed(number.subject());
        let running =
            |state: &KernelState| state.adapters.get(number).and_then(Adapter::running_driver);
        let driver = running(&state).ok_or(removed.clone())?;
        drop(state);
        let permit = self
            .acquire_permit(at, ThreadingLevel::Zero.keys(number, driver.generation, process.0))?;
        // Check again after the wait.
        running(&self.state.lock()).ok_or(removed)?;
        Ok(driver.query_umd_private(at, &permit, process.0, data)?)
    }
}
