//! The display miniport of the built-in GPU: complete, and it keeps every rule.
//!
//! # Invariants
//!
//! 1. A word is the address of a pool block of ours. Its record is made after the block was
//!    taken and removed before the block is freed, so a word that comes round meets no old one.
//! 2. The lock is never held while services, the pool or the hardware are called.
//! 3. What can be refused is refused before the first record is made: undoing is giving
//!    blocks back.

use crate::allocation::Allocation;
use crate::blocks::{build, free};
use crate::building;
use crate::description::read_shape;
use crate::engine::Paging;
use crate::format::{
    self, DESCRIPTION_SIZE, HardwareInfo, STANDARD_RESOURCE, STANDARD_RESOURCE_SIZE,
};
use crate::gpu::{Gpu, NODES, Packet};
use crate::listed::SIZES;
use crate::mmu::MmuPlan;
use crate::paged;
use crate::plan::{LOCAL, MemoryPlan, PAGE};
use crate::records::{Ended, Records, View};
use flight::{DeviceLevel, Dispatch, Fence, Passive, Ram, TableRoot};
use kernel::context::Context;
use kernel::device::Device;
use kernel::handle::Handle;
use kernel::listed::{BufferSizes, ListedSubmission, Patching, Rendering};
use kernel::miniport::{
    Answer, Births, Blank, Born, Cancelled, CollectReason, ContextOrder, Doomed, DriverAllocation,
    DriverContext, DriverDevice, DriverProcess, DriverResource, DriverView, Escape, Fate, Features,
    Generation, Home, Interrupt, Miniport, Opening, Refusal, SchedulingFeatures, Shape, Standard,
    Submission, Surface, ViewBirth,
};
use kernel::mmu::{ProcessOrder, Root, RootSize, WindowMap};
use kernel::operation::{Building, PagingSubmission};
use kernel::power::{PowerOrder, PowerState, Powered};
use kernel::services::Services;
use kernel::space::Space;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::vec::Drain;

/// `D3DDDIFMT_A8`: a byte is a pixel.
const A8: i32 = 28;
/// The engines of a node, as bits; no bit leaves the choice to us.
const ENGINES: u32 = 1;
/// How many bytes of commands a packet has at most, in its private data.
const PRIVATE: u32 = 0x1000;

/// What only a driver of hardware with virtual addresses has.
const VIRTUAL: [&str; 6] = [
    "DxgkDdiCreateProcess",
    "DxgkDdiDestroyProcess",
    "DxgkDdiGetRootPageTableSize",
    "DxgkDdiSetRootPageTable",
    "DxgkDdiMapCpuHostAperture",
    "DxgkDdiUnmapCpuHostAperture",
];

/// The driver of a [`Gpu`].
pub struct SoftGpu {
    pub(crate) gpu: Arc<Gpu>,
    /// What memory the adapter has, if it has some.
    plan: Option<MemoryPlan>,
    /// How large the buffers of packets with lists are, if it is a driver of WDDM 1.x.
    pub(crate) lists: Option<BufferSizes>,
    state: Mutex<State>,
    /// Held by who makes or frees save areas: a context has one end.
    pub(crate) areas: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct State {
    /// From `add_device` to `remove_device`.
    services: Option<Arc<Services>>,
    /// Its hardware was pulled out: it is not touched any more.
    pulled: bool,
    pub(crate) records: Records,
}

impl SoftGpu {
    /// A driver, and the hardware it drives: an adapter without memory, so allocations are
    /// memory of the driver's own.
    pub fn new() -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::of(Gpu::new(), None, None)
    }

    /// The same with memory, which is part of the machine's. It panics if that is too small.
    pub fn with_memory(ram: Arc<dyn Ram>, plan: MemoryPlan) -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::on(ram, plan, None)
    }

    /// The same as a driver of WDDM 1.x: packets name what they use, in lists.
    pub fn with_lists(ram: Arc<dyn Ram>, plan: MemoryPlan) -> (Arc<SoftGpu>, Arc<Gpu>) {
        Self::on(ram, plan, Some(SIZES))
    }

    fn on(
        ram: Arc<dyn Ram>,
        plan: MemoryPlan,
        lists: Option<BufferSizes>,
    ) -> (Arc<SoftGpu>, Arc<Gpu>) {
        let plan = plan.whole();
        let gpu = Gpu::with_memory(ram, &plan);
        let gpu = gpu.unwrap_or_else(|| panic!("the machine has less memory than {plan:?}"));
        Self::of(gpu, Some(plan), lists)
    }

    fn of(
        gpu: Gpu,
        plan: Option<MemoryPlan>,
        lists: Option<BufferSizes>,
    ) -> (Arc<SoftGpu>, Arc<Gpu>) {
        let gpu = Arc::new(gpu);
        (
            Arc::new(Self {
                gpu: gpu.clone(),
                plan,
                lists,
                state: Mutex::default(),
                areas: Mutex::default(),
            }),
            gpu,
        )
    }

    /// The bytes behind a client's handle, for tests.
    ///
    /// `None` if no device has opened it, if the range is outside, if devices of several
    /// processes mean different memory by it, and if the adapter has memory and this is not in
    /// it.
    pub fn read(&self, handle: Handle, range: Range<u64>) -> Option<Vec<u8>> {
        let allocation = self.state().records.named_anywhere(handle)?;
        match allocation.memory() {
            Some(own) => own.read(range),
            None => self.peek(allocation.place()?, allocation.size(), range),
        }
    }

    /// How the hardware translates, if it does.
    pub(crate) fn mmu(&self) -> Option<MmuPlan> {
        self.plan.and_then(|it| it.mmu)
    }

    /// What an allocation is, from its private data.
    fn shape(&self, private: &[u8]) -> Answer<Shape> {
        if self.plan.is_some() {
            let mut shape = read_shape(private)?;
            // A driver of WDDM 1.x is told in each packet where things are.
            let told = self.lists.is_none();
            (shape.wants.flags.physical, shape.wants.flags.notify) = (told, told);
            return Ok(shape);
        }
        let size = format::read_description(private)?.next_multiple_of(PAGE);
        Ok(Shape { size, alignment: PAGE, ..Shape::default() })
    }

    pub(crate) fn takes_context(&self, device: &DriverDevice, order: &ContextOrder) -> bool {
        let known = self.state().records.knows_device(device.word());
        known && order.node < NODES && order.engine & !ENGINES == 0
    }

    pub(crate) fn services(&self) -> Answer<Arc<Services>> {
        self.state().services.clone().ok_or(Refusal::Invalid)
    }

    /// Ends things: their records under the lock, then their blocks without it.
    pub(crate) fn end(&self, body: impl FnOnce(&mut Records, &mut Ended)) -> Answer<()> {
        let services = self.services()?;
        let mut ended = Ended::default();
        body(&mut self.state().records, &mut ended);
        free(&**services.pool(), &ended.words);
        if ended.unknown { Err(Refusal::Invalid) } else { Ok(()) }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

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
        if self.lists.is_some() {
            return Err(Refusal::Unsupported);
        }
        if !self.takes_context(device, order) {
            return Err(Refusal::Invalid);
        }
        let services = self.services()?;
        build(&**services.pool(), |blocks| {
            let block = blocks.take()?;
            let area = if self.plan.is_some() && !order.system {
                let names = (device.word(), word.kernel_name());
                self.make_area(at, &services, blocks, names)?
            } else {
                None
            };
            let records = &mut self.state().records;
            records.add_context(block, device.word(), area);
            if order.system {
                records.set_system(block);
            }
            Ok((word.fill(block), PRIVATE))
        })
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
        let areas = self.areas.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.state().records.context(context.word());
        if let Some((_, Some(area))) = known {
            // A refusal leaves nothing to retry with: the context ends all the same.
            let _ = self.services()?.destroy_context_memory(at, area.name);
            self.end(|records, ended| records.change_area(context.word(), None, ended))?;
        }
        drop(areas);
        self.end(|records, ended| records.end_context(context.word(), ended))
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
        build(&**self.services()?.pool(), |blocks| {
            let resource = match births.resource {
                Some(Home::New(blank)) => Some((blocks.take()?, blank)),
                Some(Home::Known(it, _)) if !self.state().records.knows_resource(it.word()) => {
                    return Err(Refusal::Invalid);
                }
                Some(Home::Known(..)) | None => None,
            };
            let mut described = Vec::new();
            for birth in births.allocations {
                let shape = self.shape(birth.private)?;
                described.push((blocks.take()?, shape, birth.word));
            }

            let records = &mut self.state().records;
            let resource = resource.map(|(word, blank)| {
                records.add_resource(word);
                blank.fill(word)
            });
            let make = if self.plan.is_some() { Allocation::absent } else { Allocation::own };
            let allocations = described.into_iter().map(|(word, shape, blank)| {
                records.add_allocation(word, make(word, shape.size));
                (blank.fill(word), shape)
            });
            Ok(Born { allocations: allocations.collect(), resource })
        })
    }

    fn destroy_allocations(
        &self,
        _at: &mut Passive,
        doomed: Doomed<'_>,
    ) -> Answer<Option<DriverResource>> {
        self.end(|records, ended| {
            for allocation in doomed.allocations {
                records.end_allocation(allocation.word(), ended);
            }
            match doomed.resource {
                Some(Fate::Goes(it)) => records.end_resource(it.word(), ended),
                Some(Fate::Stays(it, _)) => ended.unknown |= !records.knows_resource(it.word()),
                None => (),
            }
        })?;
        Ok(None)
    }

    /// A row of bytes, as its private data says.
    fn describe_allocation(
        &self,
        _at: &mut Passive,
        allocation: &DriverAllocation,
    ) -> Answer<Surface> {
        let bytes = self.state().records.allocation(allocation.word()).map(|it| it.size());
        let bytes = bytes.ok_or(Refusal::Invalid)?;
        let width = u32::try_from(bytes).map_err(|_| Refusal::Invalid)?;
        Ok(Surface { width, height: 1, format: A8 })
    }

    fn open_allocations(&self, at: &mut Passive, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        let services = self.services()?;
        let device = opening.device.word();
        if !self.state().records.knows_device(device) {
            return Err(Refusal::Invalid);
        }
        build(&**services.pool(), |blocks| {
            let mut found = Vec::new();
            for ViewBirth { handle, word, .. } in opening.views {
                let allocation = services.handle_data(at, handle, false);
                let allocation = allocation.ok_or(Refusal::NoHandle)?;
                let allocation = self.state().records.allocation(allocation).map(Arc::downgrade);
                let allocation = allocation.ok_or(Refusal::Invalid)?;
                found.push((blocks.take()?, View { device, handle, allocation }, word));
            }

            let records = &mut self.state().records;
            let views = found.into_iter().map(|(word, view, blank)| {
                records.add_view(word, view);
                blank.fill(word)
            });
            Ok(views.collect())
        })
    }

    fn close_allocations(
        &self,
        _at: &mut Passive,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        self.end(|records, ended| {
            ended.unknown = !records.knows_device(device.word());
            for view in views {
                records.end_view(view.word(), device.word(), ended);
            }
        })
    }

    fn escape(&self, _at: &mut Passive, escape: Escape<'_>) -> Answer<()> {
        format::answer_escape(escape.private, escape.hardware, || self.gpu.packets())
    }

    fn submit(&self, _at: &mut Dispatch, packet: &Submission<'_>) -> Answer<()> {
        if packet.node >= NODES {
            return Err(Refusal::Invalid);
        }
        let commands = format::decode(packet.private)?;
        let commands = self.state().records.resolve(packet.context.word(), commands)?;
        if self.plan.is_some() {
            let fetch = (packet.length > 0).then_some((packet.commands, packet.length));
            let fetch = fetch.filter(|_| self.mmu().is_some());
            return self.draw(packet.context.word(), (packet.node, packet.fence), commands, fetch);
        }
        let own = |it: Weak<Allocation>| {
            let memory = it.upgrade().and_then(|it| it.memory().map(Arc::downgrade));
            Ok(memory.unwrap_or_default())
        };
        let commands = commands.into_iter().map(|it| it.resolve(own)).collect::<Answer<_>>()?;
        self.gpu.push(Packet { node: packet.node, fence: packet.fence, commands });
        Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;
    use flight::{Log, Stepped};
    use kernel::miniport::StandardPrivate;

    fn fly(body: impl FnOnce(&SoftGpu, &mut Passive)) {
        let (driver, _gpu) = SoftGpu::new();
        Stepped::fly(0, &Arc::new(Log::silent()), |_, at| body(&driver, at)).unwrap();
    }

    #[test]
    fn a_standard_allocation_is_sized_first_and_filled_then() {
        fly(|driver, at| {
            let mut standard =
                Standard { bytes: 8192, private: None, allocation_size: 0, resource_size: 0 };
            driver.standard_data(at, &mut standard).unwrap();
            assert_eq!((standard.allocation_size, standard.resource_size), (16, 8));
            standard.private = Some(StandardPrivate::default());
            driver.standard_data(at, &mut standard).unwrap();
            let private = standard.private.unwrap();
            assert_eq!(format::read_description(&private.allocation), Ok(8192));
            assert_eq!(private.allocation.len(), 16);
            assert_eq!(private.resource, b"WTSGres\0");
        });
    }

    #[test]
    fn without_an_adapter_there_is_nothing_to_start_or_remove() {
        fly(|driver, at| {
            assert_eq!(driver.start_device(at), Err(Refusal::Invalid));
            assert_eq!(driver.remove_device(at), Err(Refusal::Invalid));
            let scheduling = SchedulingFeatures {
                preempts: true,
                cancels: true,
                resets_engines: true,
                narrow: false,
            };
            assert_eq!(
                driver.query_adapter(at),
                Ok(Features { nodes: 2, scheduling, ..Features::default() })
            );
            assert_eq!(driver.read(Handle(0x4000_0040), 0..1), None);
        });
    }
}
