//! The no-op driver with submission: packets and paging need no commands and no time, so that the
//! kernel is measured. Its adapter has memory and page tables on request.

use crate::noop_driver::Idle;
use flight::{DeviceLevel, Dispatch, Fence, HardwareModel, InterruptLine, Passive, Ram};
use kernel::DriverSetup;
use kernel::address::AddressSpace;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, CreateContextArgs, DriverContext, DriverDevice,
    DriverError, DriverProcess, DriverResource, DriverResult, Features, HandleSlot, Miniport,
    SubmitCommandVirtualArgs,
};
use kernel::mmu::{CreateProcessArgs, MmuFeatures, Root, RootSize, UpdateMode};
use kernel::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use kernel::segment::{
    MemoryFeatures, PagingFeatures, PlacementRequirements, SegmentFlags, SegmentInfo, SegmentSet,
};
use softgpu::MmuPlan;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The size of an allocation and of a buffer.
pub(crate) const PAGE: u64 = 4096;

/// The start of its memory, behind the required aperture.
const BASE: u64 = 1 << 40;
/// The memory segment.
const MEMORY: u32 = 2;
/// The address translation of the built-in GPU, with all page tables in the memory segment.
const PLAN: MmuPlan = MmuPlan {
    levels: 3,
    index_bits: 9,
    root_bits: 9,
    segment: MEMORY,
    mode: UpdateMode::Physical,
    window: 0,
};
/// The priority of every allocation.
const NORMAL: u32 = 0x7800_0000;

/// The memory of an adapter.
pub(crate) struct AdapterConfig {
    pub(crate) ram: Arc<dyn Ram>,
    /// The size of the memory in bytes; nothing is ever written to it.
    pub(crate) bytes: u64,
    /// The number of pages of an allocation.
    pub(crate) pages: u64,
    /// The CPU address of the memory, on an adapter that translates addresses.
    pub(crate) tables: Option<u64>,
}

/// The driver of an adapter with memory.
pub(crate) fn set_up(ram: Arc<dyn Ram>, bytes: u64) -> DriverSetup {
    set_up_with(Some(AdapterConfig { ram, bytes, pages: 1, tables: None }))
}

/// The driver of an adapter with submission, with or without memory.
pub(crate) fn set_up_with(fitted: Option<AdapterConfig>) -> DriverSetup {
    let it = Arc::new(PagingDriver { idle: Idle::default(), fitted, state: Mutex::default() });
    let pool = Arc::new(Idle::default());
    DriverSetup { miniport: it.clone(), hardware: it, pool }
}

struct PagingDriver {
    idle: Idle,
    fitted: Option<AdapterConfig>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    services: Option<Arc<KernelCallbacks>>,
    /// The last fence that was submitted without an interrupt yet.
    queued: Option<Fence>,
    /// The last fence with an interrupt that is not reported yet.
    done: Option<Fence>,
}

impl PagingDriver {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn services(&self) -> DriverResult<Arc<KernelCallbacks>> {
        self.state().services.clone().ok_or(DriverError::Invalid)
    }
}

impl Miniport for PagingDriver {
    fn delegate(&self) -> Option<&dyn Miniport> {
        Some(&self.idle)
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<KernelCallbacks>) -> DriverResult<()> {
        self.state().services = Some(services.clone());
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        let services = self.state().services.take();
        drop(services); // Before the callback, which must not run under the lock.
        Ok(())
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        let Some(fitted) = &self.fitted else {
            return Ok(Features { nodes: 1, ..Features::default() });
        };
        let (memory, mmu) = (fitted.memory(), fitted.mmu());
        Ok(Features { nodes: 1, memory: Some(memory), mmu, ..Features::default() })
    }

    fn create_context(
        &self,
        _at: &mut Passive,
        _device: &DriverDevice,
        _order: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        Ok((slot.fill(self.idle.next_handle()), u32::MAX))
    }

    fn destroy_context(&self, _at: &mut Passive, _context: DriverContext) -> DriverResult<()> {
        Ok(())
    }

    fn create_process(
        &self,
        _at: &mut Passive,
        _order: CreateProcessArgs,
        slot: HandleSlot<'_, AddressSpace>,
    ) -> DriverResult<DriverProcess> {
        Ok(slot.fill(self.idle.next_handle()))
    }

    fn destroy_process(&self, _at: &mut Passive, _process: DriverProcess) -> DriverResult<()> {
        Ok(())
    }

    fn get_root_page_table_size(&self, _at: &mut Passive, entries: u32) -> DriverResult<RootSize> {
        Ok(PLAN.root_size(entries))
    }

    fn set_root_page_table(
        &self,
        _at: &mut Passive,
        _context: &DriverContext,
        _root: Root,
    ) -> DriverResult<()> {
        Ok(())
    }

    fn create_allocations(
        &self,
        at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let resource = self.idle.create_allocations(at, args)?;
        let Some(fitted) = &self.fitted else { return Ok(resource) };
        let segments = SegmentSet::of(&[MEMORY]);
        let wants = PlacementRequirements {
            segments,
            priority: NORMAL,
            ..PlacementRequirements::default()
        };
        for new in &mut args.allocations {
            let size = fitted.pages * PAGE;
            new.info = AllocationInfo { size, requirements: wants, ..new.info };
        }
        Ok(resource)
    }

    fn submit_command_virtual(
        &self,
        _at: &mut Dispatch,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        self.state().queued = Some(packet.fence);
        Ok(())
    }

    fn build_paging_buffer(
        &self,
        _at: &mut Passive,
        _building: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        Ok(())
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        self.state().queued = Some(packet.fence);
        Ok(())
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        let services = self.services()?;
        let Some(done) = self.state().done.take() else { return Ok(false) };
        services.notify_interrupt(at, 0, done);
        services.queue_dpc();
        Ok(true)
    }

    fn dpc_routine(&self, at: &mut Dispatch) -> DriverResult<()> {
        self.services()?.notify_dpc(at);
        Ok(())
    }
}

impl AdapterConfig {
    fn memory(&self) -> MemoryFeatures {
        let shape = |base, size, flags| SegmentInfo {
            base,
            size,
            commit_limit: size,
            flags,
            ..SegmentInfo::default()
        };
        let aperture = SegmentFlags { aperture: true, ..SegmentFlags::default() };
        let cpu_visible = self.tables.is_some();
        let flags = SegmentFlags { application_target: true, cpu_visible, ..Default::default() };
        let memory = SegmentInfo { cpu_address: self.tables, ..shape(BASE, self.bytes, flags) };
        let buffer = u32::try_from(PAGE).unwrap_or(u32::MAX);
        let paging = PagingFeatures { buffer, ..PagingFeatures::default() };
        MemoryFeatures { segments: vec![shape(0, PAGE, aperture), memory], paging }
    }

    /// Translates like the built-in GPU.
    fn mmu(&self) -> Option<MmuFeatures> {
        self.tables.map(|_| PLAN.features())
    }
}

impl HardwareModel for PagingDriver {
    fn idle(&self) -> bool {
        self.state().queued.is_none()
    }

    fn step(&self, at: &mut Passive, line: &dyn InterruptLine) {
        let queued = {
            let mut state = self.state();
            let queued = state.queued.take();
            state.done = queued.or(state.done);
            queued
        };
        if queued.is_some() {
            line.raise(at);
        }
    }

    fn ram(&self) -> Option<Arc<dyn Ram>> {
        self.fitted.as_ref().map(|adapter_config| adapter_config.ram.clone())
    }
}
