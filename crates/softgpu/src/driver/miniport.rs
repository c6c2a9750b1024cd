//! Each request of the kernel, answered by the driver's records and its hardware.
//!
//! The invariants are those of [`SoftGpu`]'s module.

use super::SoftGpu;
use crate::blocks::build;
use crate::building;
use crate::engine::Paging;
use crate::format::{
    self, DESCRIPTION_SIZE, HardwareInfo, STANDARD_RESOURCE, STANDARD_RESOURCE_SIZE,
};
use crate::gpu::NODES;
use crate::mmu::MmuPlan;
use crate::paged;
use crate::plan::LOCAL;
use flight::{DeviceLevel, Dispatch, Fence, Passive, TableRoot};
use kernel::context::Context;
use kernel::device::Device;
use kernel::listed::{BufferSizes, ListedSubmission, Patching, Rendering};
use kernel::miniport::{
    Answer, Births, Blank, Born, Cancelled, CollectReason, ContextOrder, Doomed, DriverAllocation,
    DriverContext, DriverDevice, DriverProcess, DriverResource, DriverView, Escape, Features,
    Generation, Interrupt, Miniport, Opening, Refusal, SchedulingFeatures, Standard, Submission,
    Surface,
};
use kernel::mmu::{ProcessOrder, Root, RootSize, WindowMap};
use kernel::operation::{Building, PagingSubmission};
use kernel::power::{PowerOrder, PowerState, Powered};
use kernel::services::Services;
use kernel::space::Space;
use std::sync::Arc;
use std::vec::Drain;

/// What only a driver of hardware with virtual addresses has.
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

    /// Without memory there is nothing to page, and packets come in one way.
    fn offers(&self) -> Vec<&'static str> {
        let has = |it: &&'static str| match *it {
            "DxgkDdiBuildPagingBuffer" | "DxgkDdiSubmitCommand" => self.gpu.cpu().is_some(),
            "DxgkDdiRender" | "DxgkDdiPatch" => self.lists.is_some(),
            "DxgkDdiSubmitCommandVirtual" => self.lists.is_none(),
            // It shows nothing, so there is nothing to hand on.
            "DxgkDdiStopDeviceAndReleasePostDisplayOwnership" => false,
            it => !VIRTUAL.contains(&it) || self.mmu().is_some(),
        };
        kernel::ddi::NAMES.iter().copied().filter(has).collect()
    }

    fn add_device(&self, _at: &mut Passive, services: &Arc<Services>) -> Answer<()> {
        // Invariant 2, as in `remove_device`: the last owner of services drops them unlocked.
        let before = {
            let mut state = self.state();
            state.pulled = false;
            state.services.replace(services.clone())
        };
        drop(before);
        Ok(())
    }

    fn start_device(&self, _at: &mut Passive) -> Answer<()> {
        self.services()?;
        self.gpu.reset();
        Ok(())
    }

    fn query_adapter(&self, _at: &mut Passive) -> Answer<Features> {
        let memory = self.plan.zip(self.gpu.cpu()).map(|(plan, cpu)| plan.features(cpu));
        let scheduling = SchedulingFeatures {
            preempts: true,
            cancels: true,
            resets_engines: true,
            narrow: false,
        };
        let mmu = self.mmu().map(MmuPlan::features);
        Ok(Features { nodes: NODES, memory, mmu, scheduling })
    }

    fn tell_user_mode(&self, _at: &mut Passive, data: &mut [u8]) -> Answer<()> {
        let info = HardwareInfo {
            lists: self.lists.is_some(),
            addresses: self.mmu().is_some(),
            memory: self.plan.is_some(),
            resident: self.plan.is_some() && self.lists.is_none(),
            nodes: NODES,
        };
        info.write(data)
    }

    fn stop_device(&self, _at: &mut Passive) -> Answer<()> {
        if !self.state().pulled {
            self.gpu.reset();
        }
        Ok(())
    }

    fn set_power(&self, _at: &mut Passive, order: PowerOrder) -> Answer<()> {
        match (order.of, order.state) {
            (Powered::Adapter, PowerState::D3) => self.gpu.lose_power(),
            (Powered::Adapter, PowerState::D0) => self.gpu.wake(),
            (Powered::Child(_), _) => (),
        }
        Ok(())
    }

    fn pulled_out(&self, _at: &mut Passive) -> Answer<()> {
        self.state().pulled = true;
        Ok(())
    }

    fn reset_device(&self, _at: &mut DeviceLevel) -> Answer<()> {
        self.gpu.reset();
        Ok(())
    }

    fn remove_device(&self, _at: &mut Passive) -> Answer<()> {
        let services = self.state().services.take();
        services.map(drop).ok_or(Refusal::Invalid)
    }

    fn unload(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn create_device(&self, _at: &mut Passive, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        build(&**self.services()?.pool(), |blocks| {
            let block = blocks.take()?;
            self.state().records.add_device(block, word.kernel_name());
            Ok(word.fill(block))
        })
    }

    fn destroy_device(&self, _at: &mut Passive, device: DriverDevice) -> Answer<()> {
        self.end(|records, ended| records.end_device(device.word(), ended))
    }

    fn create_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        self.make_context(at, device, order, word)
    }

    fn create_listed_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, BufferSizes)> {
        self.new_listed_context(at, device, order, word)
    }

    fn destroy_context(&self, at: &mut Passive, context: DriverContext) -> Answer<()> {
        self.end_context(at, &context)
    }

    fn create_process(
        &self,
        _at: &mut Passive,
        _order: ProcessOrder,
        word: Blank<'_, Space>,
    ) -> Answer<DriverProcess> {
        build(&**self.services()?.pool(), |blocks| {
            let block = blocks.take()?;
            self.state().records.add_process(block);
            Ok(word.fill(block))
        })
    }

    fn destroy_process(&self, _at: &mut Passive, process: DriverProcess) -> Answer<()> {
        self.end(|records, ended| records.end_process(process.word(), ended))
    }

    fn root_size(&self, _at: &mut Passive, entries: u32) -> Answer<RootSize> {
        Ok(self.mmu().ok_or(Refusal::Absent)?.root_size(entries))
    }

    fn set_root(&self, _at: &mut Passive, context: &DriverContext, root: Root) -> Answer<()> {
        self.mmu().ok_or(Refusal::Absent)?;
        let Root { segment, offset, entries } = root;
        let root = TableRoot { segment, offset, entries };
        let known = self.state().records.set_root(context.word(), root);
        if known { Ok(()) } else { Err(Refusal::Invalid) }
    }

    fn map_window(&self, _at: &mut Passive, map: WindowMap<'_>) -> Answer<()> {
        let pairs: Vec<(u64, u64)> =
            map.window.iter().copied().zip(map.memory.iter().copied()).collect();
        let shown = map.segment == LOCAL && self.gpu.show_window(&pairs);
        if shown { Ok(()) } else { Err(Refusal::Invalid) }
    }

    fn unmap_window(&self, _at: &mut Passive, segment: u32, window: &[u64]) -> Answer<()> {
        let hidden = segment == LOCAL && self.gpu.hide_window(window);
        if hidden { Ok(()) } else { Err(Refusal::Invalid) }
    }

    fn standard_data(&self, _at: &mut Passive, standard: &mut Standard) -> Answer<()> {
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

    fn create_allocations(&self, _at: &mut Passive, births: Births<'_>) -> Answer<Born> {
        self.make_allocations(births)
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.end_allocations(doomed)
    }

    fn describe_allocation(
        &self,
        _at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> Answer<Surface> {
        self.surface_of(allocation)
    }

    fn open_allocations(&self, at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        self.make_views(at, opening)
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.end_views(device, views)
    }

    fn escape(&self, _at: &mut Passive, escape: Escape<'_>) -> Answer<()> {
        format::answer_escape(escape.private, escape.hardware, || self.gpu.packets())
    }

    fn submit(&self, _at: &mut Dispatch, packet: &Submission<'_>) -> Answer<()> {
        self.start_packet(packet)
    }

    fn render(&self, _at: &mut Passive, rendering: &mut Rendering<'_>) -> Answer<()> {
        self.render_listed(rendering)
    }

    fn patch(&self, _at: &mut Passive, patching: &mut Patching<'_>) -> Answer<()> {
        self.patch_listed(patching)
    }

    fn submit_listed(&self, _at: &mut Dispatch, packet: &ListedSubmission<'_>) -> Answer<()> {
        self.start_listed(packet)
    }

    fn build_paging(&self, _at: &mut Passive, building: &mut Building<'_>) -> Answer<()> {
        self.plan.ok_or(Refusal::Absent)?;
        paged::note(&self.state().records, &building.operation);
        let system = self.prepare_tables(&building.operation)?;
        building::build_in(building, system)
    }

    fn submit_paging(&self, _at: &mut Dispatch, packet: &PagingSubmission<'_>) -> Answer<()> {
        self.plan.ok_or(Refusal::Absent)?;
        if packet.node >= NODES {
            return Err(Refusal::Invalid);
        }
        let PagingSubmission { node, fence, commands, length, switch, .. } = *packet;
        self.gpu.push_paging(Paging { node, fence, commands, length, switch });
        Ok(())
    }

    fn preempt(&self, _at: &mut Dispatch, node: u32, preemption: Fence) -> Answer<()> {
        self.gpu.preempt(node, preemption);
        Ok(())
    }

    fn current_fence(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        self.say_done(at, node)
    }

    fn cancel(&self, _at: &mut Passive, _packet: &Cancelled<'_>) -> Answer<()> {
        Ok(()) // It keeps nothing for a packet before it has it.
    }

    fn engine_answers(&self, _at: &mut Passive, node: u32) -> Answer<bool> {
        Ok(self.gpu.answers(node))
    }

    fn dependent_nodes(&self, _at: &mut Passive, node: u32) -> Answer<u64> {
        1_u64.checked_shl(node).ok_or(Refusal::Invalid)
    }

    fn reset_engine(&self, at: &mut Passive, node: u32) -> Answer<Fence> {
        // What is done by itself is not lost by the reset.
        self.say_done(at, node)?;
        Ok(self.gpu.reset_node(node))
    }

    fn reset(&self, _at: &mut Passive) -> Answer<()> {
        self.gpu.reset_nodes();
        Ok(())
    }

    fn restart(&self, _at: &mut Passive) -> Answer<()> {
        Ok(())
    }

    fn collect(&self, _at: &mut Passive, _reason: CollectReason, into: &mut [u8]) -> Answer<usize> {
        let said = (0..NODES).map(|node| self.gpu.done(node).0.to_le_bytes());
        let notes: Vec<u8> = said.flatten().collect();
        let length = notes.len().min(into.len());
        into[..length].copy_from_slice(&notes[..length]);
        Ok(length)
    }

    fn interrupt(&self, at: &mut DeviceLevel) -> Answer<bool> {
        let Ok(services) = self.services() else { return Ok(false) };
        let mut ours = false;
        for node in 0..NODES {
            ours |= self.report(at, &services, node);
        }
        if self.gpu.take_vsync() {
            services.notify_vsync(at);
            ours = true;
        }
        if ours {
            services.queue_dpc();
        }
        Ok(ours)
    }

    fn dpc(&self, at: &mut Dispatch) -> Answer<()> {
        self.services()?.notify_dpc(at);
        Ok(())
    }

    fn control_interrupt(&self, _at: &mut Passive, of: Interrupt, on: bool) -> Answer<()> {
        match of {
            Interrupt::Vsync => self.gpu.set_vsync(on),
            Interrupt::Completed => return Err(Refusal::Unimplemented),
        }
        Ok(())
    }
}
