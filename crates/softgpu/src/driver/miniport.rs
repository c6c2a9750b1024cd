//! The entry points of the driver, implemented with its records and its hardware.
//!
//! The invariants are those of [`SoftGpu`]'s module.

use super::SoftGpu;
use crate::blocks::build;
use crate::engine::Paging;
use crate::format::{
    self, DESCRIPTION_SIZE, HardwareInfo, STANDARD_RESOURCE, STANDARD_RESOURCE_SIZE,
};
use crate::gpu::NODES;
use crate::mmu::MmuPlan;
use crate::paged;
use crate::paging_buffer;
use crate::plan::LOCAL;
use flight::{DeviceLevel, Dispatch, Fence, Passive, TableRoot};
use kernel::address::AddressSpace;
use kernel::callbacks::KernelCallbacks;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CancelCommandArgs, CollectReason, CreateAllocationArgs, CreateContextArgs,
    DestroyAllocationArgs, Drain, DriverAllocation, DriverContext, DriverDevice, DriverError,
    DriverProcess, DriverResource, DriverResult, DriverView, EscapeArgs, Features, Generation,
    HandleSlot, Interrupt, Miniport, OpenAllocationArgs, SchedulingFeatures,
    StandardAllocationArgs, SubmitCommandVirtualArgs, SurfaceInfo,
};
use kernel::mmu::{CreateProcessArgs, MapHostApertureArgs, Root, RootSize};
use kernel::operation::{BuildPagingBufferArgs, SubmitPagingArgs};
use kernel::power::{PowerState, PowerTarget, SetPowerArgs};
use kernel::render_args::{BufferSizes, PatchArgs, RenderArgs, SubmitCommandArgs};
use std::sync::Arc;

/// Entry points that only a driver of hardware with virtual addresses has.
const VIRTUAL: [&str; 6] = [
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiGetRootPageTableSize",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiMapCpuHostAperture",
    "DxgkDdiUnmapCpuHostAperture",
];

impl Miniport for SoftGpu {
    fn generation(&self) -> Generation {
        if self.lists.is_some() { Generation::One } else { Generation::Two }
    }

    /// Without GPU memory there is nothing to page, and packets are submitted in one way.
    fn entry_points(&self) -> Vec<&'static str> {
        let has = |it: &&'static str| match *it {
            "DxgkDdiBuildPagingBuffer" | "DxgkDdiSubmitCommand" => self.gpu.cpu_address().is_some(),
            "DxgkDdiRender" | "DxgkDdiPatch" => self.lists.is_some(),
            "DxgkDdiSubmitCommandVirtual" => self.lists.is_none(),
            // The adapter displays nothing, so there is nothing to hand over.
            "DxgkDdiStopDeviceAndReleasePostDisplayOwnership" => false,
            it => !VIRTUAL.contains(&it) || self.mmu().is_some(),
        };
        kernel::ddi::NAMES.iter().copied().filter(has).collect()
    }

    fn add_device(&self, _at: &mut Passive, callbacks: &Arc<KernelCallbacks>) -> DriverResult<()> {
        // Invariant 2, as in `remove_device`: the last owner of services drops them unlocked.
        drop(self.set_callbacks(Some(callbacks.clone())));
        Ok(())
    }

    fn start_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.callbacks()?;
        self.gpu.reset();
        Ok(())
    }

    fn query_adapter_info(&self, _at: &mut Passive) -> DriverResult<Features> {
        let memory = self.plan.zip(self.gpu.cpu_address()).map(|(plan, cpu)| plan.features(cpu));
        let scheduling = SchedulingFeatures {
            preempts: true,
            cancellation: true,
            engine_reset: true,
            fences_32_bit: false,
        };
        let mmu = self.mmu().map(MmuPlan::features);
        Ok(Features { nodes: NODES, memory, mmu, scheduling })
    }

    fn query_umd_private(&self, _at: &mut Passive, data: &mut [u8]) -> DriverResult<()> {
        let info = HardwareInfo {
            lists: self.lists.is_some(),
            addresses: self.mmu().is_some(),
            memory: self.plan.is_some(),
            resident: self.plan.is_some() && self.lists.is_none(),
            nodes: NODES,
        };
        info.write(data)
    }

    fn stop_device(&self, _at: &mut Passive) -> DriverResult<()> {
        if !self.state().surprise_removed {
            self.gpu.reset();
        }
        Ok(())
    }

    fn set_power_state(&self, _at: &mut Passive, args: SetPowerArgs) -> DriverResult<()> {
        match (args.of, args.state) {
            (PowerTarget::Adapter, PowerState::D3) => self.gpu.lose_power(),
            (PowerTarget::Adapter, PowerState::D0) => self.gpu.start_after_power(),
            (PowerTarget::Child(_), _) => (),
        }
        Ok(())
    }

    fn notify_surprise_removal(&self, _at: &mut Passive) -> DriverResult<()> {
        self.state().surprise_removed = true;
        Ok(())
    }

    fn reset_device(&self, _at: &mut DeviceLevel) -> DriverResult<()> {
        self.gpu.reset();
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> DriverResult<()> {
        self.set_callbacks(None).map(drop).ok_or(DriverError::Invalid)
    }

    fn unload(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _at: &mut Passive,
        driver_handle: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        build(&**self.callbacks()?.pool(), |blocks| {
            let block = blocks.allocate()?;
            self.state().records.add_device(block, driver_handle.kernel_handle());
            Ok(driver_handle.fill(block))
        })
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> DriverResult<()> {
        self.remove_handles(|records, completions| {
            records.remove_device(device.as_raw(), completions);
        })
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        self.new_context(at, device, args, driver_handle)
    }

    fn create_context_with_lists(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, BufferSizes)> {
        self.new_context_with_lists(at, device, args, driver_handle)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> DriverResult<()> {
        self.remove_context(at, &context)
    }

    fn create_process(
        &self,
        _at: &mut Passive,
        _order: CreateProcessArgs,
        driver_handle: HandleSlot<'_, AddressSpace>,
    ) -> DriverResult<DriverProcess> {
        build(&**self.callbacks()?.pool(), |blocks| {
            let block = blocks.allocate()?;
            self.state().records.add_process(block);
            Ok(driver_handle.fill(block))
        })
    }

    fn destroy_process(&self, _at: &mut Passive, process: DriverProcess) -> DriverResult<()> {
        self.remove_handles(|records, completions| {
            records.remove_process(process.as_raw(), completions);
        })
    }

    fn get_root_page_table_size(&self, _at: &mut Passive, entries: u32) -> DriverResult<RootSize> {
        Ok(self.mmu().ok_or(DriverError::NoEntryPoint)?.root_size(entries))
    }

    fn set_root_page_table(
        &self,
        _at: &mut Passive,
        context: &DriverContext,
        root: Root,
    ) -> DriverResult<()> {
        self.mmu().ok_or(DriverError::NoEntryPoint)?;
        let Root { segment, offset, entries } = root;
        let root = TableRoot { segment, offset, entries };
        let known = self.state().records.set_root(context.as_raw(), root);
        if known { Ok(()) } else { Err(DriverError::Invalid) }
    }

    fn map_cpu_host_aperture(
        &self,
        _at: &mut Passive,
        map: MapHostApertureArgs<'_>,
    ) -> DriverResult<()> {
        let pairs: Vec<(u64, u64)> =
            map.window.iter().copied().zip(map.memory.iter().copied()).collect();
        let shown = map.segment == LOCAL && self.gpu.map_host_aperture(&pairs);
        if shown { Ok(()) } else { Err(DriverError::Invalid) }
    }

    fn unmap_cpu_host_aperture(
        &self,
        _at: &mut Passive,
        segment: u32,
        window: &[u64],
    ) -> DriverResult<()> {
        let hidden = segment == LOCAL && self.gpu.unmap_host_aperture(window);
        if hidden { Ok(()) } else { Err(DriverError::Invalid) }
    }

    fn get_standard_allocation_driver_data(
        &self,
        _at: &mut Passive,
        standard: &mut StandardAllocationArgs,
    ) -> DriverResult<()> {
        match &mut standard.private {
            None => {
                standard.allocation_size = DESCRIPTION_SIZE;
                standard.resource_size = STANDARD_RESOURCE_SIZE;
            }
            Some(private) => {
                private.allocation = format::describe(standard.bytes);
                private.resource = STANDARD_RESOURCE.to_vec();
            }
        }
        Ok(())
    }

    fn create_allocations(
        &self,
        _at: &mut Passive,
        args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.new_allocations(args)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        self.remove_allocations(args)
    }

    fn describe_allocation(
        &self,
        _at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> DriverResult<SurfaceInfo> {
        self.surface_info(allocation)
    }

    fn open_allocations(
        &self,
        at: &mut Passive,
        args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        self.new_views(at, args)
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        self.remove_views(device, views)
    }

    fn escape(&self, _at: &mut Passive, escape: EscapeArgs<'_>) -> DriverResult<()> {
        format::answer_escape(escape.private, escape.hardware, || self.gpu.packets())
    }

    fn submit_command_virtual(
        &self,
        _at: &mut Dispatch,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        self.push_packet(packet)
    }

    fn render(&self, _at: &mut Passive, args: &mut RenderArgs<'_>) -> DriverResult<()> {
        self.translate_commands(args)
    }

    fn patch(&self, _at: &mut Passive, args: &mut PatchArgs<'_>) -> DriverResult<()> {
        self.patch_commands(args)
    }

    fn submit_command(
        &self,
        _at: &mut Dispatch,
        packet: &SubmitCommandArgs<'_>,
    ) -> DriverResult<()> {
        self.push_patched(packet)
    }

    fn build_paging_buffer(
        &self,
        _at: &mut Passive,
        args: &mut BuildPagingBufferArgs<'_>,
    ) -> DriverResult<()> {
        self.plan.ok_or(DriverError::NoEntryPoint)?;
        paged::note_residency(&self.state().records, &args.operation);
        let system = self.prepare_tables(&args.operation)?;
        paging_buffer::build_paging_buffer_in(args, system)
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &SubmitPagingArgs<'_>) -> DriverResult<()> {
        self.plan.ok_or(DriverError::NoEntryPoint)?;
        if packet.node >= NODES {
            return Err(DriverError::Invalid);
        }
        let SubmitPagingArgs { node, fence, commands, length, switch, .. } = *packet;
        self.gpu.push_paging(Paging { node, fence, commands, length, switch });
        Ok(())
    }

    fn preempt_command(
        &self,
        _at: &mut Dispatch,
        node: u32,
        preemption: Fence,
    ) -> DriverResult<()> {
        self.gpu.preempt(node, preemption);
        Ok(())
    }

    fn query_current_fence(&self, at: &mut Passive, node: u32) -> DriverResult<Fence> {
        self.report_progress(at, node)
    }

    fn cancel_command(
        &self,
        _at: &mut Passive,
        _packet: &CancelCommandArgs<'_>,
    ) -> DriverResult<()> {
        Ok(()) // The driver keeps nothing for a packet before it receives the packet.
    }

    fn query_engine_status(&self, _at: &mut Passive, node: u32) -> DriverResult<bool> {
        Ok(self.gpu.is_responsive(node))
    }

    fn query_dependent_engine_group(&self, _at: &mut Passive, node: u32) -> DriverResult<u64> {
        1_u64.checked_shl(node).ok_or(DriverError::Invalid)
    }

    fn reset_engine(&self, at: &mut Passive, node: u32) -> DriverResult<Option<Fence>> {
        // A packet that completed on its own is not lost by the reset.
        self.report_progress(at, node)?;
        Ok(Some(self.gpu.reset_node(node)))
    }

    fn reset_from_timeout(&self, _at: &mut Passive) -> DriverResult<()> {
        self.gpu.reset_nodes();
        Ok(())
    }

    fn restart_from_timeout(&self, _at: &mut Passive) -> DriverResult<()> {
        Ok(())
    }

    fn collect_dbg_info(
        &self,
        _at: &mut Passive,
        _reason: CollectReason,
        into: &mut [u8],
    ) -> DriverResult<usize> {
        let said = (0..NODES).map(|node| self.gpu.done(node).0.to_le_bytes());
        let notes: Vec<u8> = said.flatten().collect();
        let length = notes.len().min(into.len());
        into[..length].copy_from_slice(&notes[..length]);
        Ok(length)
    }

    fn interrupt_routine(&self, at: &mut DeviceLevel) -> DriverResult<bool> {
        let Ok(callbacks) = self.callbacks() else { return Ok(false) };
        let mut ours = false;
        for node in 0..NODES {
            ours |= self.report(at, &callbacks, node);
        }
        if self.gpu.take_vsync() {
            callbacks.notify_vsync(at);
            ours = true;
        }
        if ours {
            callbacks.queue_dpc();
        }
        Ok(ours)
    }

    fn dpc_routine(&self, at: &mut Dispatch) -> DriverResult<()> {
        self.callbacks()?.notify_dpc(at);
        Ok(())
    }

    fn control_interrupt(
        &self,
        _at: &mut Passive,
        of: Interrupt,
        with_plan: bool,
    ) -> DriverResult<()> {
        match of {
            Interrupt::Vsync => self.gpu.set_vsync(with_plan),
            Interrupt::Completed => return Err(DriverError::Unimplemented),
        }
        Ok(())
    }
}
