//! Adapter queries from user mode: some are answered by the driver, the others from what the driver
//! reported when it started.

use crate::adapter::start::{Adapter, AdapterId, AdapterState};
use crate::base::error::{Argument, KernelError};
use crate::ddi::miniport::{DriverKind, Generation, SchedulingFeatures, WddmVersion};
use crate::ddi::permit::ThreadingLevel;
use crate::kernel::Kernel;
use crate::lifetime::process::ProcessId;
use crate::objects::handle_table::Handle;
use crate::state::KernelState;
use flight::Passive;

/// What is known of a running adapter without a call of its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterInfo {
    /// The adapter.
    pub adapter: AdapterId,
    /// Its driver's kind.
    pub kind: DriverKind,
    /// Its driver's model.
    pub generation: Generation,
    /// The version of WDDM that its driver declares.
    pub version: WddmVersion,
    /// Number of nodes.
    pub nodes: u32,
    /// The address translation, if the adapter has one.
    pub translation: Option<TranslationInfo>,
    /// Its driver's scheduling features.
    pub scheduling: SchedulingFeatures,
    /// Its segments, in order.
    pub segments: Vec<SegmentUse>,
    /// How often it was reset.
    pub resets: usize,
}

impl AdapterInfo {
    /// Number of display sources.
    ///
    /// WINDOWS: a driver reports its number (documented); one source for each adapter with displays
    /// is our decision.
    pub fn sources(&self) -> u32 {
        u32::from(self.kind != DriverKind::ComputeOnly)
    }

    /// Bytes that its segments have: apertures into system memory, or its own memory.
    pub fn bytes(&self, apertures: bool) -> u64 {
        let segments = self.segments.iter().filter(|segment| segment.aperture == apertures);
        segments.map(|segment| segment.limit).sum()
    }
}

/// The address translation of an adapter, as clients see it (`D3DKMT_GPUMMU_CAPS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationInfo {
    /// Number of bits of an address.
    pub address_bits: u32,
    /// Memory can be read-only.
    pub read_only: bool,
    /// Memory can be marked no-execute.
    pub no_execute: bool,
}

/// How much of a segment is in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Whether it is an aperture.
    pub aperture: bool,
    /// How many bytes may be in use at once.
    pub limit: u64,
    /// Number of bytes in use.
    pub committed: u64,
    /// Number of bytes that were ever evicted.
    pub evicted: u64,
}

impl Kernel {
    /// Returns what is known of an adapter that a client has opened.
    pub fn adapter_info(
        &self,
        process: ProcessId,
        adapter: Handle,
    ) -> Result<AdapterInfo, KernelError> {
        let state = self.state.lock();
        let number = state.resolve_handle::<Adapter>(process, Argument::Adapter, adapter)?;
        let info = state.adapters.get(number).map(|adapter| adapter.info(AdapterId(number)));
        info.ok_or(KernelError::Removed(number.subject()))
    }

    /// Returns what is known of each running adapter.
    pub fn adapter_infos(&self) -> Vec<AdapterInfo> {
        let state = self.state.lock();
        let running = state.adapters.iter().filter(|(_, it)| it.state == AdapterState::Running);
        running.map(|(number, adapter)| adapter.info(AdapterId(number))).collect()
    }

    /// Returns the number of GPU nodes of an adapter; none of one that was removed.
    pub fn node_count(&self, adapter: AdapterId) -> u32 {
        let state = self.state.lock();
        let nodes = state.adapters.get(adapter.0).map_or(0, |adapter| adapter.nodes.len());
        u32::try_from(nodes).unwrap_or(u32::MAX)
    }

    /// Returns the host's time, in units of 100 ns (`D3DKMTQueryClockCalibration`).
    pub fn clock(&self) -> u64 {
        self.host.now()
    }

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

impl Adapter {
    fn info(&self, adapter: AdapterId) -> AdapterInfo {
        let memory = self.memory.as_ref();
        let translation =
            memory.and_then(|memory| memory.mmu.as_ref()).map(|mmu| TranslationInfo {
                address_bits: mmu.features.address_bits,
                read_only: mmu.features.read_only,
                no_execute: mmu.features.no_execute,
            });
        let segments = memory.into_iter().flat_map(|memory| &memory.segments);
        let segments = segments.map(|segment| SegmentUse {
            aperture: segment.info.flags.aperture,
            limit: segment.info.usable_bytes(),
            committed: segment.committed,
            evicted: segment.evicted,
        });
        AdapterInfo {
            adapter,
            kind: self.driver.miniport.kind(),
            generation: self.driver.generation,
            version: self.driver.miniport.wddm_version(),
            nodes: u32::try_from(self.nodes.len()).unwrap_or(u32::MAX),
            translation,
            scheduling: self.scheduling,
            segments: segments.collect(),
            resets: self.resets.len(),
        }
    }
}
