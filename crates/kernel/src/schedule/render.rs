//! Packets with lists (WDDM 1.x): rendering them with the driver. Module `submit` pages in, patches
//! and sends them.
//!
//! # Invariants
//!
//! 1. A packet's allocations are held in place from when the packet reaches the front of its queue
//!    until it is over: all of them, or none.
//! 2. A packet's buffer is freed when no hardware can read it.

mod finished;
mod submit;

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::miniport::{DriverError, DriverHandle, Generation};
use crate::ddi::operation::PAGE;
use crate::ddi::permit::ThreadingLevel;
use crate::ddi::render_args::{AllocationListEntry, PatchLocation, RenderArgs, UserMemory};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::Device;
use crate::lifetime::device::DeviceLoss;
use crate::lifetime::process::ProcessId;
use crate::memory::Extent;
use crate::objects::device_access::EnteredDevice;
use crate::objects::handle_table::Handle;
use crate::objects::view::View;
use crate::schedule::dispatch::PacketPayload;
use crate::schedule::state::ScheduleState;
use crate::state::KernelState;
use flight::{Component, EventKind, Fence, Passive, Ram, RuleId, Run, Subject};
use std::sync::Arc;

/// Number of buffers for one call after which a driver counts as making no progress.
const MAX_PASSES: u32 = 1000;

const RENDER: &str = "DxgkDdiRender";
const PATCH: &str = "DxgkDdiPatch";

/// A client's request to render (`D3DKMTRender`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderRequest {
    /// The context.
    pub context: Handle,
    /// The client's commands.
    pub commands: Vec<u8>,
    /// The allocations that the commands use, and whether they write to them.
    pub list: Vec<(Handle, bool)>,
    /// Where the commands refer to the allocations.
    pub patches: Vec<PatchLocation>,
    /// The commands are not to be executed (`NullRendering`).
    pub null: bool,
}

/// A packet with lists: the allocations it uses, and where its commands refer to them.
pub(crate) struct RenderPacket {
    adapter: Id<Adapter>,
    context: Id<Context>,
    /// Its buffer in system memory, the size the driver may use, and the size written.
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    uses: Vec<AllocationUse>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// The packet's allocations are held in place.
    holds_extents: bool,
    /// It was cancelled, and uses its allocations no more.
    released: bool,
    /// The node it was submitted to, its fence there, and whether it was patched for that.
    submission: Option<(usize, Fence, bool)>,
    /// The client's commands, if it has all of them and an observer judges their effect.
    commands: Option<ObservedCommands>,
}

/// What the memory observer is told of a packet.
struct ObservedCommands {
    bytes: Vec<u8>,
    /// The handles of the allocation list.
    handles: Vec<Handle>,
    /// How many packets of clients were submitted when it was, if no other one was in flight then.
    alone_after: Option<u64>,
}

/// A packet that is being submitted, with the current addresses of its allocations.
struct OutgoingPacket {
    driver: Arc<Driver>,
    ram: Arc<dyn Ram>,
    node: Subject,
    fence: Fence,
    list: Vec<AllocationListEntry>,
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// The packet is not patched, because the addresses the driver rendered with are current.
    skips_patch: bool,
}

/// An allocation that a packet uses.
#[derive(Clone, Debug)]
struct AllocationUse {
    view: Id<View>,
    driver_handle: usize,
    extent: Id<Extent>,
    write: bool,
    bytes: u64,
    /// The segment and the address that the driver rendered with.
    rendered_at: Option<(u32, u64)>,
}

impl ScheduleState {
    /// Whether the packet with lists that a node got with a fence was patched, and the allocations
    /// that it holds in place.
    pub(crate) fn submitted_list(
        &self,
        adapter: Id<Adapter>,
        (node, fence): (usize, Fence),
    ) -> Option<(bool, Vec<Id<Extent>>)> {
        let is_it = |packet: &RenderPacket| {
            let sent = packet.submission.is_some_and(|sent| (sent.0, sent.1) == (node, fence));
            sent && packet.adapter == adapter && packet.holds_extents && !packet.null
        };
        let packet = self.render_packets.iter().map(|pair| pair.1).find(|it| is_it(it))?;
        Some((packet.submission?.2, packet.extents()))
    }
}

impl Kernel {
    /// Renders a client's commands with the driver, and queues the packets on the context. Returns
    /// the number of packets.
    ///
    /// Fails if a handle is invalid, the device does not work, or the driver fails.
    pub fn render(
        &self,
        at: &mut Passive,
        process: ProcessId,
        request: &RenderRequest,
    ) -> Result<u32, KernelError> {
        self.with_context(at, process, request.context, |at, context, guard| {
            self.recheck_device(guard)?;
            let uses = self.allocation_uses(process, guard.device, request)?;
            let named = distinct_extents(&uses);
            let queued = self.create_render_packets(at, process, context, guard, request, &uses);
            {
                let state = &mut *self.state.lock();
                self.count_packet_references(state, &named, false);
                self.end_listing(state, &uses);
            }
            let count = queued?;
            self.submit_ready(at, process.0, context, guard)?;
            Ok(count)
        })
    }

    /// Renders packets with the driver, and queues them on their context.
    fn create_render_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        guard: &EnteredDevice,
        request: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<u32, KernelError> {
        if guard.driver.generation == Generation::Two {
            self.judge_resident(context, guard, uses)?;
        }
        let mut packets = self.render_to_packets(at, process, context, guard, request, uses)?;
        self.keep_observed_commands(&guard.driver, request, &mut packets);
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        self.state.lock().record_listed(
            uses.iter().map(|allocation_use| (allocation_use.view, allocation_use.extent)),
        );
        let mut error = Ok(());
        for packet in packets {
            let number = {
                let state = &mut *self.state.lock();
                self.count_packet_references(state, &packet.extents(), true);
                state.schedule.render_packets.insert(packet)
            };
            error = error
                .and_then(|()| self.queue_packet(context, guard, PacketPayload::Render(number)));
            if error.is_err() {
                self.end_render_packet(&mut self.state.lock(), number);
            }
        }
        error.map(|()| count)
    }

    /// Whether the kernel pages in the allocations that packets of this device list. From WDDM 2 on
    /// the client makes them resident.
    pub fn pages_in_listed(&self, process: ProcessId, device: Handle) -> bool {
        let state = self.state.lock();
        let number = state.resolve_handle::<Device>(process, Argument::Device, device);
        number.is_ok_and(|device| state.pages_in_listed(device))
    }

    /// Resolves the handles of a client's allocation list. Counts the allocations as used, and lists
    /// their views, until the call is over.
    fn allocation_uses(
        &self,
        process: ProcessId,
        device: Id<Device>,
        request: &RenderRequest,
    ) -> Result<Vec<AllocationUse>, KernelError> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        let views = state.listed_instances(process, device, request)?;
        let mut uses = Vec::with_capacity(views.len());
        for ((view, extent), (_, write)) in views.into_iter().zip(&request.list) {
            let subject = view.subject();
            let it = state.memory.extent(extent).ok_or(KernelError::NoVideoMemory)?;
            let memory = state.adapter_memory(it.adapter).ok_or(KernelError::NoVideoMemory)?;
            if it.offer.is_some() {
                return Err(KernelError::Offered(subject));
            }
            // WINDOWS: a locked allocation is mapped into an aperture segment; if no aperture
            // segment can have it, the packet fails (documented).
            if it.lock.is_some() && !memory.is_aperture_mappable(it) {
                return Err(KernelError::LockedOutsideAperture(subject));
            }
            let driver_handle = state.views.get(view).and_then(|view| view.driver_handle.as_ref());
            let driver_handle = driver_handle.map_or(0, DriverHandle::as_raw);
            let bytes = it.bytes;
            uses.push(AllocationUse {
                view,
                driver_handle,
                extent,
                write: *write,
                bytes,
                rendered_at: None,
            });
        }
        self.count_packet_references(state, &distinct_extents(&uses), true);
        state.schedule.begin_listing(uses.iter().map(|allocation_use| allocation_use.view));
        Ok(uses)
    }

    /// The call that listed these views is over.
    fn end_listing(&self, state: &mut KernelState, uses: &[AllocationUse]) {
        for allocation_use in uses {
            state.schedule.end_listing(allocation_use.view);
        }
        // A destroy may wait for it.
        state.waiters.wake_all(&*self.host);
    }

    /// Judges that the listed allocations are resident. From WDDM 2 on the kernel does not page
    /// them in.
    fn judge_resident(
        &self,
        context: Id<Context>,
        guard: &EnteredDevice,
        uses: &[AllocationUse],
    ) -> Result<(), KernelError> {
        let missing = {
            let state = self.state.lock();
            let there = |allocation_use: &&AllocationUse| {
                let listed =
                    state.views.get(allocation_use.view).is_some_and(|view| view.resident > 0);
                listed && state.current_location(allocation_use.extent).is_some()
            };
            uses.iter()
                .find(|allocation_use| !there(allocation_use))
                .map(|allocation_use| allocation_use.view.subject())
        };
        let about = context.subject();
        let broken = missing
            .map(|subject| format!("a packet of {about} lists {subject}, which is not resident"));
        let error = broken.is_some();
        let (rule, place) = (RuleId::RESID_MAKE_011, "D3DKMTRender.AllocationCount");
        self.log.judge(rule, Component::Client, about, place, broken);
        if error {
            // WINDOWS: the call fails, and its device is in error (documented).
            self.device_lost(&mut self.state.lock(), guard.device, DeviceLoss::PageFault);
            return Err(KernelError::Removed(guard.subject()));
        }
        Ok(())
    }

    /// Calls the driver to write the hardware's commands, into as many buffers as it needs.
    fn render_to_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        guard: &EnteredDevice,
        request: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<Vec<RenderPacket>, KernelError> {
        let (mut packets, mut multipass, mut permit) = (Vec::new(), 0, 0);
        let error = loop {
            permit += 1;
            let mut packet = match self.new_render_packet(context, guard, request, uses) {
                Ok(it) => it,
                Err(why) => break Err(why),
            };
            let (capacity, before) = (packet.size, multipass);
            let result = self.render_pass(at, process, guard, request, &mut packet, &mut multipass);
            let full = matches!(result, Err(KernelError::Driver(DriverError::NoRoom)));
            let stays = full && multipass == before;
            let stuck = stays || permit > MAX_PASSES;
            self.judge_pass(context, full, stuck, packet.written > 0);
            let message = match &result {
                Ok(()) => "ok".into(),
                Err(KernelError::Driver(why)) => why.name(),
                Err(_) => "refused".into(),
            };
            let small = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
            self.log.emit(context.subject(), || EventKind::PacketRendered {
                pass: permit,
                commands: small(request.commands.len()),
                capacity,
                bytes: packet.written,
                uses: small(packet.uses.len()),
                patches: small(packet.patches.len()),
                result: message,
            });
            // The commands written before a buffer was full are a packet as well.
            if result.is_ok() || (full && packet.written > 0) {
                packets.push(packet);
            } else {
                self.state.lock().free_dma_buffer(packet.adapter, packet.run);
            }
            match result {
                Ok(()) => break Ok(()),
                Err(_) if full && !stuck && permit <= MAX_PASSES => (),
                Err(why) => break Err(why),
            }
        };
        match error {
            Ok(()) => Ok(packets),
            Err(why) => {
                let state = &mut *self.state.lock();
                for it in packets {
                    state.free_dma_buffer(it.adapter, it.run);
                }
                Err(why)
            }
        }
    }

    /// Allocates a buffer for a packet, and records the current addresses of its allocations.
    fn new_render_packet(
        &self,
        context: Id<Context>,
        guard: &EnteredDevice,
        request: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<RenderPacket, KernelError> {
        let state = &mut *self.state.lock();
        state.check_working(guard.device)?;
        let lists = state.contexts.get_mut(context).and_then(|context| context.lists.as_mut());
        let lists = lists.ok_or(KernelError::NoLists(context.subject()))?;
        lists.renders = lists.renders.wrapping_add(1);
        let sizes = lists.sizes;
        // A driver with a guaranteed size gets at least the size of the client's commands.
        let length = u32::try_from(request.commands.len()).unwrap_or(u32::MAX);
        let size = if sizes.guaranteed { sizes.commands.max(length) } else { sizes.commands };
        let memory = state.adapter_memory(guard.adapter).ok_or(KernelError::NoVideoMemory)?;
        let bytes = u64::from(size).max(1).next_multiple_of(PAGE);
        let run = memory.ram.allocate(bytes).ok_or(KernelError::NoMemory { trim: bytes })?;
        let uses = uses.iter().map(|allocation_use| AllocationUse {
            rendered_at: state.current_location(allocation_use.extent),
            ..allocation_use.clone()
        });
        Ok(RenderPacket {
            adapter: guard.adapter,
            context,
            run,
            size,
            written: 0,
            private: vec![0; sizes.private as usize],
            uses: uses.collect(),
            patches: Vec::new(),
            null: request.null,
            holds_extents: false,
            released: false,
            submission: None,
            commands: None,
        })
    }

    /// One call of `DxgkDdiRender`.
    fn render_pass(
        &self,
        at: &mut Passive,
        process: ProcessId,
        guard: &EnteredDevice,
        request: &RenderRequest,
        packet: &mut RenderPacket,
        multipass: &mut u32,
    ) -> Result<(), KernelError> {
        let (driver, capacity) = (&guard.driver, packet.size);
        let keys = ThreadingLevel::Zero.keys(guard.adapter, driver.generation, process.0);
        let permit = self.acquire_permit(at, keys)?;
        self.recheck_device(guard)?;
        let (driver_handle, ram, limit) = {
            let state = self.state.lock();
            let removed = KernelError::Removed(guard.subject());
            let it = state.contexts.get(packet.context).ok_or(removed.clone())?;
            let limit = it.lists.as_ref().map_or(0, |render_lists| render_lists.sizes.patches);
            let driver_handle = it.driver_handle.clone().ok_or(removed)?;
            let ram =
                state.adapter_memory(guard.adapter).ok_or(KernelError::NoVideoMemory)?.ram.clone();
            (driver_handle, ram, limit)
        };
        let list: Vec<AllocationListEntry> =
            packet.uses.iter().map(AllocationUse::list_entry).collect();
        let commands = UserMemory::commands(request.commands.clone());
        let named = UserMemory::locations(request.patches.clone());
        let mut result = Err(DriverError::NoMemory);
        let rest = Run { start: packet.run.start, bytes: u64::from(capacity) };
        let mut private = std::mem::take(&mut packet.private);
        let mut wrote = (0, Vec::new());
        ram.with_slice(rest, &mut |buffer| {
            let mut args = RenderArgs {
                context: &driver_handle,
                commands: &commands,
                allocation_list: &list,
                patch_locations: &named,
                buffer,
                address: packet.run.start,
                private: &mut private,
                written: 0,
                patches: Vec::new(),
                max_patches: limit,
                multipass,
            };
            result = driver.render(at, &permit, process.0, &mut args);
            wrote = (args.written, std::mem::take(&mut args.patches));
        });
        drop(driver_handle);
        packet.private = private;
        let about = packet.context.subject();
        self.judge_fetches(about, &commands, &named);
        let (written, patches) = wrote;
        if result.is_ok() || result == Err(DriverError::NoRoom) {
            self.judge_written(about, (written, capacity), (patches.len(), limit));
            self.judge_patches(about, &patches, written.min(capacity), list.len());
        }
        (packet.written, packet.patches) = (written.min(capacity), patches);
        packet
            .patches
            .retain(|patch_location| (patch_location.allocation_index as usize) < list.len());
        Ok(result?)
    }
}

/// Rules on what `DxgkDdiRender` returns.
impl Kernel {
    fn judge_fetches(
        &self,
        about: Subject,
        commands: &UserMemory<u8>,
        named: &UserMemory<PatchLocation>,
    ) {
        let twice = commands.read_twice().map(|at| format!("byte {at} of the client's commands"));
        let twice = twice.or_else(|| {
            named.read_twice().map(|at| format!("entry {at} of the client's patch locations"))
        });
        let broken = twice
            .map(|what| format!("the driver read {what} twice: a client can change it in between"));
        self.log.judge(
            RuleId::KMD_RENDER_001,
            Component::Driver,
            about,
            "DxgkDdiRender.pCommand",
            broken,
        );
    }

    fn judge_written(
        &self,
        about: Subject,
        (written, capacity): (u32, u32),
        (patches, limit): (usize, u32),
    ) {
        let broken = if written > capacity {
            Some(format!(
                "the driver returned {written} bytes of commands in a buffer of {capacity}"
            ))
        } else if patches > limit as usize {
            Some(format!("the driver returned {patches} patch locations in a list of {limit}"))
        } else {
            None
        };
        let place = "DxgkDdiRender.pDmaBuffer";
        self.log.judge(RuleId::KMD_RENDER_003, Component::Driver, about, place, broken);
    }

    /// WINDOWS: the page says "strictly increasing" and speaks of elements that share a split
    /// offset; it is read as not decreasing (our decision). Slots are not judged: the kernel does
    /// not know how many a driver has.
    fn judge_patches(&self, about: Subject, patches: &[PatchLocation], written: u32, list: usize) {
        let falls = patches.windows(2).position(|patch_locations| {
            patch_locations[1].split_offset < patch_locations[0].split_offset
        });
        let outside = |patch_location: &PatchLocation| {
            patch_location.split_offset > written
                || patch_location.patch_offset >= written
                || patch_location.allocation_index as usize >= list
        };
        let broken = if let Some(at) = falls {
            Some(format!(
                "SplitOffset is {} in entry {at} and {} in the next, but must not decrease",
                patches[at].split_offset,
                patches[at + 1].split_offset
            ))
        } else {
            patches.iter().position(outside).map(|at| {
                let it = patches[at];
                format!(
                    "entry {at} is for allocation {} of {list}, at byte {}, split at {}, but \
                     {written} bytes were written",
                    it.allocation_index, it.patch_offset, it.split_offset
                )
            })
        };
        let place = "DxgkDdiRender.pPatchLocationListOut";
        self.log.judge(RuleId::KMD_RENDER_009, Component::Driver, about, place, broken);
    }

    /// Judges that a driver whose buffer is full continues in the next one, unless it guaranteed
    /// that one buffer is enough.
    fn judge_pass(&self, context: Id<Context>, full: bool, stuck: bool, wrote: bool) {
        let lists = |context: &Context| {
            context.lists.as_ref().map(|render_lists| render_lists.sizes.guaranteed)
        };
        let guaranteed = self.state.lock().contexts.get(context).and_then(lists);
        let about = context.subject();
        let nowhere = || "the driver made no progress with an empty buffer of the size it requires";
        let broken = (stuck && !wrote).then(|| nowhere().to_owned());
        self.log.judge(RuleId::KMD_CTX_005, Component::Driver, about, RENDER, broken);
        let keeps = || "the driver requested another buffer without progress in MultipassOffset";
        let broken = (stuck && wrote).then(|| keeps().to_owned());
        self.log.judge(RuleId::KMD_RENDER_006, Component::Driver, about, RENDER, broken);
        if guaranteed == Some(true) {
            let broken = full.then(|| {
                "the driver requested another buffer, although it guarantees that one is enough"
                    .to_owned()
            });
            self.log.judge(RuleId::KMD_RENDER_007, Component::Driver, about, RENDER, broken);
        }
    }
}

impl RenderPacket {
    /// The extents of its allocations, each once.
    fn extents(&self) -> Vec<Id<Extent>> {
        distinct_extents(&self.uses)
    }
}

/// The extents of the allocations, each once.
fn distinct_extents(uses: &[AllocationUse]) -> Vec<Id<Extent>> {
    let mut extents: Vec<Id<Extent>> =
        uses.iter().map(|allocation_use| allocation_use.extent).collect();
    extents.sort_unstable();
    extents.dedup();
    extents
}

impl AllocationUse {
    /// The entry that the driver rendered with.
    fn list_entry(&self) -> AllocationListEntry {
        let (segment, address) = self.rendered_at.unwrap_or_default();
        AllocationListEntry { view_handle: self.driver_handle, write: self.write, segment, address }
    }
}

impl AllocationListEntry {
    /// The same entry, at another address.
    fn at_other_address(&self) -> Self {
        Self { address: self.address.wrapping_add(PAGE), ..*self }
    }
}
