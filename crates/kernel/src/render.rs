//! Packets with lists: rendered by the driver; put in place, patched and sent in `sent` (WDDM 1.x).
//!
//! # Invariants
//!
//! 1. A packet's allocations are held where they are from when it is first in its line until it
//!    is over: all of them, or none.
//! 2. Its buffer is given back when no hardware can read it any more.

mod sent;

use crate::context::Context;
use crate::ddi::Driver;
use crate::device::Device;
use crate::device::{RundownGuard, DeviceLoss};
use crate::dispatch::PacketPayload;
use crate::gate::ThreadingLevel;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::{AllocationListEntry, PatchLocation, RenderArgs, UserMemory};
use crate::memory::Extent;
use crate::miniport::{Generation, DriverError, DriverHandle};
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, KernelError};
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::KernelState;
use flight::{Fence, Passive, Ram, RuleId, Run, Subject, EventKind, Component};
use std::sync::Arc;

/// A driver that needs more buffers than this for one call does not get on.
const MAX_PASSES: u32 = 1000;

const RENDER: &str = "DxgkDdiRender";
const PATCH: &str = "DxgkDdiPatch";

/// What a client has a context do (`D3DKMTRender`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderRequest {
    /// The context.
    pub context: Handle,
    /// The client's commands.
    pub commands: Vec<u8>,
    /// What they use: each view, and whether they write to it.
    pub list: Vec<(Handle, bool)>,
    /// Where they name it.
    pub patches: Vec<PatchLocation>,
    /// They are not to be done (`NullRendering`).
    pub null: bool,
}

/// A packet with lists: what it uses, and where its commands name it.
pub(crate) struct RenderPacket {
    adapter: Id<Adapter>,
    context: Id<Context>,
    /// Its buffer in the machine's memory, how much of it is the driver's, and how much is
    /// written.
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    uses: Vec<AllocationUse>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// What it uses is held.
    holds_extents: bool,
    /// The node that has it, its number there, and whether it was patched for that.
    submission: Option<(usize, Fence, bool)>,
}

/// A packet on its way to the hardware, with where what it uses is.
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
    /// It is not patched: what its driver was told is still so.
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
    /// Where it was when its driver wrote the commands: the segment, and the address.
    rendered_at: Option<(u32, u64)>,
}

impl Kernel {
    /// Has a driver write the hardware's commands for a client's, and gives them to its context.
    /// Answers how many packets that are.
    pub fn render(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &RenderRequest,
    ) -> Result<u32, KernelError> {
        self.with_context(at, process, order.context, |at, context, inside| {
            self.recheck_device(inside)?;
            let uses = self.allocation_uses(process, inside.device, order)?;
            let named = distinct_extents(&uses);
            let queued = self.create_render_packets(at, process, context, inside, order, &uses);
            self.count_packet_references(&mut self.state.lock(), &named, false);
            let count = queued?;
            self.submit_ready(at, process.0, context, inside)?;
            Ok(count)
        })
    }

    /// Has the driver write packets, and puts them into their context's line.
    fn create_render_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        inside: &RundownGuard<'_>,
        order: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<u32, KernelError> {
        if inside.driver.generation == Generation::Two {
            self.judge_resident(context, inside, uses)?;
        }
        let packets = self.render_to_packets(at, process, context, inside, order, uses)?;
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        self.state.lock().record_listed(uses.iter().map(|it| (it.view, it.extent)));
        let mut refused = Ok(());
        for packet in packets {
            let number = {
                let world = &mut *self.state.lock();
                self.count_packet_references(world, &packet.extents(), true);
                world.render_packets.insert(packet)
            };
            refused =
                refused.and_then(|()| self.queue_packet(context, inside, PacketPayload::Render(number)));
            if refused.is_err() {
                self.end_render_packet(&mut self.state.lock(), number);
            }
        }
        refused.map(|()| count)
    }

    /// Whether the kernel brings what packets list, for a device's driver: from WDDM 2 on its
    /// client has it resident before.
    pub fn pages_in_listed(&self, process: ProcessId, device: Handle) -> bool {
        let world = self.state.lock();
        let number = world.resolve_handle::<Device>(process, Argument::Device, device);
        number.is_ok_and(|it| world.pages_in_listed(it))
    }

    /// What a client's list names: counted as named, until its call is over.
    fn allocation_uses(
        &self,
        process: ProcessId,
        device: Id<Device>,
        order: &RenderRequest,
    ) -> Result<Vec<AllocationUse>, KernelError> {
        let mut guard = self.state.lock();
        let world = &mut *guard;
        let views = world.listed_instances(process, device, order)?;
        let mut uses = Vec::with_capacity(views.len());
        for ((view, extent), (_, write)) in views.into_iter().zip(&order.list) {
            let subject = view.subject();
            let it = world.extents.get(extent).ok_or(KernelError::NoVideoMemory)?;
            let memory = world.memory(it.adapter).ok_or(KernelError::NoVideoMemory)?.1;
            if it.offer.is_some() {
                return Err(KernelError::Offered(subject));
            }
            // WINDOWS: what is locked is mapped into an aperture; with none to go to, the packet
            // is refused (documented).
            if it.lock.is_some() && !memory.is_aperture_mappable(it) {
                return Err(KernelError::LockedOutsideAperture(subject));
            }
            let word = world.views.get(view).and_then(|it| it.driver_handle.as_ref());
            let word = word.map_or(0, DriverHandle::word);
            let bytes = it.bytes;
            uses.push(AllocationUse { view, driver_handle: word, extent, write: *write, bytes, rendered_at: None });
        }
        self.count_packet_references(world, &distinct_extents(&uses), true);
        Ok(uses)
    }

    /// From WDDM 2 on a client has what it lists resident: nobody brings it.
    fn judge_resident(
        &self,
        context: Id<Context>,
        inside: &RundownGuard<'_>,
        uses: &[AllocationUse],
    ) -> Result<(), KernelError> {
        let missing = {
            let world = self.state.lock();
            let there = |it: &&AllocationUse| {
                let listed = world.views.get(it.view).is_some_and(|it| it.resident > 0);
                listed && world.current_location(it.extent).is_some()
            };
            uses.iter().find(|it| !there(it)).map(|it| it.view.subject())
        };
        let about = context.subject();
        let broken =
            missing.map(|it| format!("a packet of {about} lists {it}: it is not resident"));
        let refused = broken.is_some();
        let (rule, place) = (RuleId::RESID_MAKE_011, "D3DKMTRender.AllocationCount");
        self.log.judge(rule, Component::Client, about, place, broken);
        if refused {
            // WINDOWS: it is refused, and its device is in error (documented).
            self.lose_device(inside.device, DeviceLoss::PageFault);
            return Err(KernelError::Removed(inside.subject()));
        }
        Ok(())
    }

    /// Has the driver write the hardware's commands, into as many buffers as it needs.
    fn render_to_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Id<Context>,
        inside: &RundownGuard<'_>,
        order: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<Vec<RenderPacket>, KernelError> {
        let (mut packets, mut multipass, mut permit) = (Vec::new(), 0, 0);
        let refused = loop {
            permit += 1;
            let mut packet = match self.new_render_packet(context, inside, order, uses) {
                Ok(it) => it,
                Err(why) => break Err(why),
            };
            let (room, before) = (packet.size, multipass);
            let answer = self.render_pass(at, process, inside, order, &mut packet, &mut multipass);
            let full = matches!(answer, Err(KernelError::Driver(DriverError::NoRoom)));
            let stays = full && multipass == before;
            let stuck = stays || permit > MAX_PASSES;
            self.judge_pass(context, full, stuck, packet.written > 0);
            let said = match &answer {
                Ok(()) => "ok".into(),
                Err(KernelError::Driver(why)) => why.name(),
                Err(_) => "refused".into(),
            };
            let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
            let rendered = EventKind::PacketRendered {
                pass: permit,
                commands: small(order.commands.len()),
                capacity: room,
                bytes: packet.written,
                uses: small(packet.uses.len()),
                patches: small(packet.patches.len()),
                result: said,
            };
            self.log.emit(context.subject(), rendered);
            // What a driver wrote before it found no room is a packet as well.
            if answer.is_ok() || (full && packet.written > 0) {
                packets.push(packet);
            } else {
                self.state.lock().free_dma_buffer(packet.adapter, packet.run);
            }
            match answer {
                Ok(()) => break Ok(()),
                Err(_) if full && !stuck && permit <= MAX_PASSES => (),
                Err(why) => break Err(why),
            }
        };
        match refused {
            Ok(()) => Ok(packets),
            Err(why) => {
                let world = &mut *self.state.lock();
                for it in packets {
                    world.free_dma_buffer(it.adapter, it.run);
                }
                Err(why)
            }
        }
    }

    /// A buffer for a packet, and where what it uses is now.
    fn new_render_packet(
        &self,
        context: Id<Context>,
        inside: &RundownGuard<'_>,
        order: &RenderRequest,
        uses: &[AllocationUse],
    ) -> Result<RenderPacket, KernelError> {
        let world = &mut *self.state.lock();
        world.check_working(inside.device)?;
        let lists = world.contexts.get_mut(context).and_then(|it| it.lists.as_mut());
        let lists = lists.ok_or(KernelError::NoLists(context.subject()))?;
        lists.renders = lists.renders.wrapping_add(1);
        let sizes = lists.sizes;
        // A driver that guarantees so has as much room as its client.
        let length = u32::try_from(order.commands.len()).unwrap_or(u32::MAX);
        let size = if sizes.guaranteed { sizes.commands.max(length) } else { sizes.commands };
        let memory = world.memory(inside.adapter).ok_or(KernelError::NoVideoMemory)?.1;
        let bytes = u64::from(size).max(1).next_multiple_of(PAGE);
        let run = memory.ram.allocate(bytes).ok_or(KernelError::NoMemory { trim: bytes })?;
        let uses = uses.iter().map(|it| AllocationUse { rendered_at: world.current_location(it.extent), ..it.clone() });
        Ok(RenderPacket {
            adapter: inside.adapter,
            context,
            run,
            size,
            written: 0,
            private: vec![0; sizes.private as usize],
            uses: uses.collect(),
            patches: Vec::new(),
            null: order.null,
            holds_extents: false,
            submission: None,
        })
    }

    /// One call of `DxgkDdiRender`.
    fn render_pass(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &RundownGuard<'_>,
        order: &RenderRequest,
        packet: &mut RenderPacket,
        multipass: &mut u32,
    ) -> Result<(), KernelError> {
        let (driver, room) = (&inside.driver, packet.size);
        let keys = ThreadingLevel::Zero.keys(inside.adapter, driver.generation, process.0);
        let permit = self.acquire_permit(at, keys)?;
        self.recheck_device(inside)?;
        let (word, ram, most) = {
            let world = self.state.lock();
            let zombie = KernelError::Removed(inside.subject());
            let it = world.contexts.get(packet.context).ok_or(zombie.clone())?;
            let most = it.lists.as_ref().map_or(0, |it| it.sizes.patches);
            let word = it.driver_handle.clone().ok_or(zombie)?;
            let ram = world.memory(inside.adapter).ok_or(KernelError::NoVideoMemory)?.1.ram.clone();
            (word, ram, most)
        };
        let list: Vec<AllocationListEntry> = packet.uses.iter().map(AllocationUse::list_entry).collect();
        let commands = UserMemory::commands(order.commands.clone());
        let named = UserMemory::locations(order.patches.clone());
        let mut answer = Err(DriverError::NoMemory);
        let rest = Run { start: packet.run.start, bytes: u64::from(room) };
        let mut private = std::mem::take(&mut packet.private);
        let mut wrote = (0, Vec::new());
        ram.with_slice(rest, &mut |buffer| {
            let mut rendering = RenderArgs {
                context: &word,
                commands: &commands,
                allocation_list: &list,
                patch_locations: &named,
                buffer,
                address: packet.run.start,
                private: &mut private,
                written: 0,
                patches: Vec::new(),
                max_patches: most,
                multipass,
            };
            answer = driver.render(at, &permit, process.0, &mut rendering);
            wrote = (rendering.written, std::mem::take(&mut rendering.patches));
        });
        drop(word);
        packet.private = private;
        let about = packet.context.subject();
        self.judge_fetches(about, &commands, &named);
        let (written, patches) = wrote;
        if answer.is_ok() || answer == Err(DriverError::NoRoom) {
            self.judge_written(about, (written, room), (patches.len(), most));
            self.judge_patches(about, &patches, written.min(room), list.len());
        }
        (packet.written, packet.patches) = (written.min(room), patches);
        packet.patches.retain(|it| (it.allocation_index as usize) < list.len());
        Ok(answer?)
    }
}

/// Rules on what a driver answers.
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
        (written, room): (u32, u32),
        (patches, most): (usize, u32),
    ) {
        let broken = if written > room {
            Some(format!("the driver says it wrote {written} bytes of commands, into {room}"))
        } else if patches > most as usize {
            Some(format!("the driver says it wrote {patches} patch locations, into {most}"))
        } else {
            None
        };
        let place = "DxgkDdiRender.pDmaBuffer";
        self.log.judge(RuleId::KMD_RENDER_003, Component::Driver, about, place, broken);
    }

    /// WINDOWS: the page says "strictly increasing" and speaks of elements that share a split
    /// offset; it is read as not decreasing (our decision). Slots are not judged: nobody knows
    /// how many a driver has.
    fn judge_patches(&self, about: Subject, patches: &[PatchLocation], written: u32, list: usize) {
        let falls = patches.windows(2).position(|it| it[1].split_offset < it[0].split_offset);
        let outside = |it: &PatchLocation| {
            it.split_offset > written || it.patch_offset >= written || it.allocation_index as usize >= list
        };
        let broken = if let Some(at) = falls {
            Some(format!(
                "SplitOffset is {} in entry {at} and {} in the next: it does not fall",
                patches[at].split_offset,
                patches[at + 1].split_offset
            ))
        } else {
            patches.iter().position(outside).map(|at| {
                let it = patches[at];
                format!(
                    "entry {at} is for allocation {} of {list}, at byte {}, split at {}, but {written} \
                     bytes were written",
                    it.allocation_index, it.patch_offset, it.split_offset
                )
            })
        };
        let place = "DxgkDdiRender.pPatchLocationListOut";
        self.log.judge(RuleId::KMD_RENDER_009, Component::Driver, about, place, broken);
    }

    /// A driver whose buffer is full goes on with the next, unless it said that it never is.
    fn judge_pass(&self, context: Id<Context>, full: bool, stuck: bool, wrote: bool) {
        let lists = |it: &Context| it.lists.as_ref().map(|it| it.sizes.guaranteed);
        let guaranteed = self.state.lock().contexts.get(context).and_then(lists);
        let about = context.subject();
        let nowhere = || "the driver got nowhere with an empty buffer of the size it wants";
        let broken = (stuck && !wrote).then(|| nowhere().to_owned());
        self.log.judge(RuleId::KMD_CTX_005, Component::Driver, about, RENDER, broken);
        let keeps =
            || "the driver asked for another buffer, and keeps no progress in MultipassOffset";
        let broken = (stuck && wrote).then(|| keeps().to_owned());
        self.log.judge(RuleId::KMD_RENDER_006, Component::Driver, about, RENDER, broken);
        if guaranteed == Some(true) {
            let broken = full.then(|| {
                "the driver asked for another buffer, though it guarantees that one is enough"
                    .to_owned()
            });
            self.log.judge(RuleId::KMD_RENDER_007, Component::Driver, about, RENDER, broken);
        }
    }
}

impl KernelState {
    /// Whether what packets of a device list is brought: so it was before WDDM 2.
    pub(crate) fn pages_in_listed(&self, device: Id<Device>) -> bool {
        let on = self.devices.get(device).and_then(|it| self.adapters.get(it.adapter));
        on.is_some_and(|it| it.driver.generation == Generation::One)
    }
}

impl RenderPacket {
    /// What it uses, each once.
    fn extents(&self) -> Vec<Id<Extent>> {
        distinct_extents(&self.uses)
    }
}

/// The extents that are used, each once.
fn distinct_extents(uses: &[AllocationUse]) -> Vec<Id<Extent>> {
    let mut extents: Vec<Id<Extent>> = uses.iter().map(|it| it.extent).collect();
    extents.sort_unstable();
    extents.dedup();
    extents
}

impl AllocationUse {
    /// As its driver was told when it wrote the commands.
    fn list_entry(&self) -> AllocationListEntry {
        let (segment, address) = self.rendered_at.unwrap_or_default();
        AllocationListEntry { view_handle: self.driver_handle, write: self.write, segment, address }
    }
}

impl AllocationListEntry {
    /// The same, at another address.
    fn at_other_address(&self) -> Self {
        Self { address: self.address.wrapping_add(PAGE), ..*self }
    }
}
