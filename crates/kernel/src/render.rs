//! Packets with lists: rendered by the driver, put in place, patched and sent (WDDM 1.x).
//!
//! # Invariants
//!
//! 1. A packet's allocations are held where they are from when it is first in its line until it
//!    is over: all of them, or none.
//! 2. Its buffer is given back when no hardware can read it any more.

use crate::ddi::Driver;
use crate::device::{Inside, Loss};
use crate::dispatch::Load;
use crate::gate::{Class, Pass};
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::listed::{ListedSubmission, Listing, PatchLocation, Patching, Rendering, UserMemory};
use crate::memory::number;
use crate::memory::place::Plan;
use crate::miniport::{Answer, DriverContext, Generation, Refusal, Token};
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::world::World;
use flight::{Fence, Kind, Passive, Ram, RuleId, Run, Subject, What, Who};
use std::sync::Arc;

/// A driver that needs more buffers than this for one call does not get on.
const MOST_PASSES: u32 = 1000;

const RENDER: &str = "DxgkDdiRender";
const PATCH: &str = "DxgkDdiPatch";

/// What a client has a context do (`D3DKMTRender`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RenderOrder {
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
pub(crate) struct Listed {
    adapter: u32,
    context: u32,
    /// Its buffer in the machine's memory, how much of it is the driver's, and how much is
    /// written.
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    uses: Vec<Use>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// What it uses is held.
    held: bool,
    /// The node that has it, its number there, and whether it was patched for that.
    sent: Option<(usize, Fence, bool)>,
}

/// A packet on its way to the hardware, with where what it uses is.
struct Going {
    driver: Arc<Driver>,
    ram: Arc<dyn Ram>,
    node: Subject,
    fence: Fence,
    list: Vec<Listing>,
    run: Run,
    size: u32,
    written: u32,
    private: Vec<u8>,
    patches: Vec<PatchLocation>,
    null: bool,
    /// It is not patched: what its driver was told is still so.
    skips: bool,
}

/// An allocation that a packet uses.
#[derive(Clone, Debug)]
struct Use {
    view: u32,
    word: usize,
    extent: u32,
    write: bool,
    bytes: u64,
    /// Where it was when its driver wrote the commands: the segment, and the address.
    told: Option<(u32, u64)>,
}

impl Kernel {
    /// Has a driver write the hardware's commands for a client's, and gives them to its context.
    /// Answers how many packets that are.
    pub fn render(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &RenderOrder,
    ) -> Result<u32, Refused> {
        self.in_context(at, process, order.context, |at, context, inside| {
            self.look_again(inside)?;
            let uses = self.uses(process, inside.device, order)?;
            let named = once(&uses);
            let queued = self.make_packets(at, process, context, inside, order, &uses);
            self.count_named(&mut self.world.hold(), &named, false);
            let count = queued?;
            self.send(at, process.0, context, inside)?;
            Ok(count)
        })
    }

    /// Has the driver write packets, and puts them into their context's line.
    fn make_packets(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: u32,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<u32, Refused> {
        if inside.driver.generation == Generation::Two {
            self.judge_resident(context, inside, uses)?;
        }
        let packets = self.translate(at, process, context, inside, order, uses)?;
        let count = u32::try_from(packets.len()).unwrap_or(u32::MAX);
        self.world.hold().keep_listed(uses.iter().map(|it| (it.view, it.extent)));
        let mut refused = Ok(());
        for packet in packets {
            let number = {
                let world = &mut *self.world.hold();
                self.count_named(world, &packet.extents(), true);
                world.listed.add(packet)
            };
            refused =
                refused.and_then(|()| self.queue_packet(context, inside, Load::Listed(number)));
            if refused.is_err() {
                self.end_listed(&mut self.world.hold(), number);
            }
        }
        refused.map(|()| count)
    }

    /// Whether the kernel brings what packets list, for a device's driver: from WDDM 2 on its
    /// client has it resident before.
    pub fn brings_listed(&self, process: ProcessId, device: Handle) -> bool {
        let world = self.world.hold();
        let number = world.resolve(process, Argument::Device, device, Kind::Device);
        let device = number.ok().and_then(|it| world.devices.get(it));
        let on = device.and_then(|it| world.adapters.get(it.adapter));
        on.is_some_and(|it| it.driver.generation == Generation::One)
    }

    /// What a client's list names: counted as named, until its call is over.
    fn uses(
        &self,
        process: ProcessId,
        device: u32,
        order: &RenderOrder,
    ) -> Result<Vec<Use>, Refused> {
        let mut guard = self.world.hold();
        let world = &mut *guard;
        let views = world.listed_instances(process, device, order)?;
        let mut uses = Vec::with_capacity(views.len());
        for ((view, extent), (_, write)) in views.into_iter().zip(&order.list) {
            let subject = Kind::View.nr(view);
            let it = world.extents.get(extent).ok_or(Refused::NoVideoMemory)?;
            let memory = world.memory(it.adapter).ok_or(Refused::NoVideoMemory)?.1;
            if it.offer.is_some() {
                return Err(Refused::Offered(subject));
            }
            // WINDOWS: what is locked is mapped into an aperture; with none to go to, the packet
            // is refused (documented).
            if it.lock.is_some() && !memory.maps(it) {
                return Err(Refused::LockedAway(subject));
            }
            let word = world.views.get(view).and_then(|it| it.word.as_ref());
            let word = word.map_or(0, Token::word);
            let bytes = it.bytes;
            uses.push(Use { view, word, extent, write: *write, bytes, told: None });
        }
        self.count_named(world, &once(&uses), true);
        Ok(uses)
    }

    /// From WDDM 2 on a client has what it lists resident: nobody brings it.
    fn judge_resident(
        &self,
        context: u32,
        inside: &Inside<'_>,
        uses: &[Use],
    ) -> Result<(), Refused> {
        let missing = {
            let world = self.world.hold();
            let there = |it: &&Use| {
                let listed = world.views.get(it.view).is_some_and(|it| it.resident > 0);
                listed && world.place_now(it.extent).is_some()
            };
            uses.iter().find(|it| !there(it)).map(|it| Kind::View.nr(it.view))
        };
        let about = Kind::Context.nr(context);
        let broken =
            missing.map(|it| format!("a packet of {about} lists {it}: it is not resident"));
        let refused = broken.is_some();
        let (rule, place) = (RuleId::RESID_MAKE_011, "D3DKMTRender.AllocationCount");
        self.log.judge(rule, Who::Client, about, place, broken);
        if refused {
            // WINDOWS: it is refused, and its device is in error (documented).
            self.lose_device(inside.device, Loss::PageFault);
            return Err(Refused::Removed(inside.subject()));
        }
        Ok(())
    }

    /// Has the driver write the hardware's commands, into as many buffers as it needs.
    fn translate(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: u32,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<Vec<Listed>, Refused> {
        let (mut packets, mut multipass, mut pass) = (Vec::new(), 0, 0);
        let refused = loop {
            pass += 1;
            let mut packet = match self.new_packet(context, inside, order, uses) {
                Ok(it) => it,
                Err(why) => break Err(why),
            };
            let (room, before) = (packet.size, multipass);
            let answer = self.render_pass(at, process, inside, order, &mut packet, &mut multipass);
            let full = matches!(answer, Err(Refused::Driver(Refusal::NoRoom)));
            let stays = full && multipass == before;
            let stuck = stays || pass > MOST_PASSES;
            self.judge_pass(context, full, stuck, packet.written > 0);
            let said = match &answer {
                Ok(()) => "ok".into(),
                Err(Refused::Driver(why)) => why.name(),
                Err(_) => "refused".into(),
            };
            let small = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
            let rendered = What::PacketRendered {
                pass,
                commands: small(order.commands.len()),
                room,
                bytes: packet.written,
                uses: small(packet.uses.len()),
                patches: small(packet.patches.len()),
                answer: said,
            };
            self.log.emit(Kind::Context.nr(context), rendered);
            // What a driver wrote before it found no room is a packet as well.
            if answer.is_ok() || (full && packet.written > 0) {
                packets.push(packet);
            } else {
                self.world.hold().give_back_buffer(packet.adapter, packet.run);
            }
            match answer {
                Ok(()) => break Ok(()),
                Err(_) if full && !stuck && pass <= MOST_PASSES => (),
                Err(why) => break Err(why),
            }
        };
        match refused {
            Ok(()) => Ok(packets),
            Err(why) => {
                let world = &mut *self.world.hold();
                for it in packets {
                    world.give_back_buffer(it.adapter, it.run);
                }
                Err(why)
            }
        }
    }

    /// A buffer for a packet, and where what it uses is now.
    fn new_packet(
        &self,
        context: u32,
        inside: &Inside<'_>,
        order: &RenderOrder,
        uses: &[Use],
    ) -> Result<Listed, Refused> {
        let world = &mut *self.world.hold();
        world.works(inside.device)?;
        let lists = world.contexts.get_mut(context).and_then(|it| it.lists.as_mut());
        let lists = lists.ok_or(Refused::NoLists(Kind::Context.nr(context)))?;
        lists.renders = lists.renders.wrapping_add(1);
        let sizes = lists.sizes;
        // A driver that guarantees so has as much room as its client.
        let length = u32::try_from(order.commands.len()).unwrap_or(u32::MAX);
        let size = if sizes.guaranteed { sizes.commands.max(length) } else { sizes.commands };
        let memory = world.memory(inside.adapter).ok_or(Refused::NoVideoMemory)?.1;
        let bytes = u64::from(size).max(1).next_multiple_of(PAGE);
        let run = memory.ram.take(bytes).ok_or(Refused::NoRoom { trim: bytes })?;
        let uses = uses.iter().map(|it| Use { told: world.place_now(it.extent), ..it.clone() });
        Ok(Listed {
            adapter: inside.adapter,
            context,
            run,
            size,
            written: 0,
            private: vec![0; sizes.private as usize],
            uses: uses.collect(),
            patches: Vec::new(),
            null: order.null,
            held: false,
            sent: None,
        })
    }

    /// One call of `DxgkDdiRender`.
    fn render_pass(
        &self,
        at: &mut Passive,
        process: ProcessId,
        inside: &Inside<'_>,
        order: &RenderOrder,
        packet: &mut Listed,
        multipass: &mut u32,
    ) -> Result<(), Refused> {
        let (driver, room) = (&inside.driver, packet.size);
        let keys = Class::Zero.keys(inside.adapter, driver.generation, process.0);
        let pass = self.enter(at, keys)?;
        self.look_again(inside)?;
        let (word, ram, most) = {
            let world = self.world.hold();
            let gone = Refused::Removed(inside.subject());
            let it = world.contexts.get(packet.context).ok_or(gone.clone())?;
            let most = it.lists.as_ref().map_or(0, |it| it.sizes.patches);
            let word = it.word.clone().ok_or(gone)?;
            let ram = world.memory(inside.adapter).ok_or(Refused::NoVideoMemory)?.1.ram.clone();
            (word, ram, most)
        };
        let list: Vec<Listing> = packet.uses.iter().map(Use::told).collect();
        let commands = UserMemory::commands(order.commands.clone());
        let named = UserMemory::locations(order.patches.clone());
        let mut answer = Err(Refusal::NoMemory);
        let rest = Run { start: packet.run.start, bytes: u64::from(room) };
        let mut private = std::mem::take(&mut packet.private);
        let mut wrote = (0, Vec::new());
        ram.lend(rest, &mut |buffer| {
            let mut rendering = Rendering {
                context: &word,
                commands: &commands,
                list: &list,
                named: &named,
                buffer,
                address: packet.run.start,
                private: &mut private,
                written: 0,
                patches: Vec::new(),
                most_patches: most,
                multipass,
            };
            answer = driver.render(at, &pass, process.0, &mut rendering);
            wrote = (rendering.written, std::mem::take(&mut rendering.patches));
        });
        drop(word);
        packet.private = private;
        let about = Kind::Context.nr(packet.context);
        self.judge_fetches(about, &commands, &named);
        let (written, patches) = wrote;
        if answer.is_ok() || answer == Err(Refusal::NoRoom) {
            self.judge_written(about, (written, room), (patches.len(), most));
            self.judge_patches(about, &patches, written.min(room), list.len());
        }
        (packet.written, packet.patches) = (written.min(room), patches);
        packet.patches.retain(|it| (it.allocation as usize) < list.len());
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
        let twice = commands.again().map(|at| format!("byte {at} of the client's commands"));
        let twice = twice.or_else(|| {
            named.again().map(|at| format!("entry {at} of the client's patch locations"))
        });
        let broken = twice
            .map(|what| format!("the driver read {what} twice: a client can change it in between"));
        self.log.judge(
            RuleId::KMD_RENDER_001,
            Who::Driver,
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
        self.log.judge(RuleId::KMD_RENDER_003, Who::Driver, about, place, broken);
    }

    /// WINDOWS: the page says "strictly increasing" and speaks of elements that share a split
    /// offset; it is read as not decreasing (our decision). Slots are not judged: nobody knows
    /// how many a driver has.
    fn judge_patches(&self, about: Subject, patches: &[PatchLocation], written: u32, list: usize) {
        let falls = patches.windows(2).position(|it| it[1].split < it[0].split);
        let outside = |it: &PatchLocation| {
            it.split > written || it.place >= written || it.allocation as usize >= list
        };
        let broken = if let Some(at) = falls {
            Some(format!(
                "SplitOffset is {} in entry {at} and {} in the next: it does not fall",
                patches[at].split,
                patches[at + 1].split
            ))
        } else {
            patches.iter().position(outside).map(|at| {
                let it = patches[at];
                format!(
                    "entry {at} is for allocation {} of {list}, at byte {}, split at {}, but {written} \
                     bytes were written",
                    it.allocation, it.place, it.split
                )
            })
        };
        let place = "DxgkDdiRender.pPatchLocationListOut";
        self.log.judge(RuleId::KMD_RENDER_009, Who::Driver, about, place, broken);
    }

    /// A driver whose buffer is full goes on with the next, unless it said that it never is.
    fn judge_pass(&self, context: u32, full: bool, stuck: bool, wrote: bool) {
        let lists = |it: &crate::context::Context| it.lists.as_ref().map(|it| it.sizes.guaranteed);
        let guaranteed = self.world.hold().contexts.get(context).and_then(lists);
        let about = Kind::Context.nr(context);
        let nowhere = || "the driver got nowhere with an empty buffer of the size it wants";
        let broken = (stuck && !wrote).then(|| nowhere().to_owned());
        self.log.judge(RuleId::KMD_CTX_005, Who::Driver, about, RENDER, broken);
        let keeps =
            || "the driver asked for another buffer, and keeps no progress in MultipassOffset";
        let broken = (stuck && wrote).then(|| keeps().to_owned());
        self.log.judge(RuleId::KMD_RENDER_006, Who::Driver, about, RENDER, broken);
        if guaranteed == Some(true) {
            let broken = full.then(|| {
                "the driver asked for another buffer, though it guarantees that one is enough"
                    .to_owned()
            });
            self.log.judge(RuleId::KMD_RENDER_007, Who::Driver, about, RENDER, broken);
        }
    }
}

/// Packets in their lines.
impl Kernel {
    /// Has everything that a packet uses on its way, and held from then on. Where there is no
    /// room, whoever comes back finds some when other packets are over; if there are none, its
    /// device is lost.
    pub(crate) fn place_listed(&self, world: &mut World, packet: u32) {
        let Some(it) = world.listed.get(packet).filter(|it| !it.held) else { return };
        let (adapter, context, extents) = (it.adapter, it.context, it.extents());
        let gone = |it: &u32| world.extents.get(*it).is_none_or(|it| it.ending);
        if extents.iter().any(gone) {
            let device = world.contexts.get(context).map_or(0, |it| it.device);
            self.lose(world, device, Loss::PageFault);
            return;
        }
        let mut plan = Plan::default();
        if let Some(extent) = world.stirs(packet) {
            self.stir(world, extent, &mut plan);
        }
        for extent in &extents {
            world.hold_extent(*extent, true);
        }
        let short = extents.iter().find_map(|it| self.plan_in(world, *it, &mut plan).err());
        if short.is_some() {
            for it in &extents {
                world.hold_extent(*it, false);
            }
            self.unplan(world, &mut plan);
            self.start_paging(world, adapter, plan, None);
            let others = world.listed.iter().any(|(_, it)| it.held && it.adapter == adapter);
            let pages = world.pagings.iter().any(|(_, it)| it.adapter == adapter);
            if !others && !pages {
                // WINDOWS: it would be cut where its driver says it can be; that is not done yet.
                let device = world.contexts.get(context).map_or(0, |it| it.device);
                self.lose(world, device, Loss::OutOfMemory);
            }
            return;
        }
        if let Some(it) = world.listed.get_mut(packet) {
            it.held = true;
        }
        self.start_paging(world, adapter, plan, None);
    }

    /// Moves something that nobody uses, between the call that wrote a packet's commands and the
    /// one that patches them: its driver may not rely on where it was.
    fn stir(&self, world: &mut World, extent: u32, plan: &mut Plan) {
        let Some(it) = world.extents.get(extent) else { return };
        let (bytes, alignment, segment) = (it.bytes, it.alignment, it.segment());
        if !self.plan_out(world, extent, "a packet is to find it elsewhere", plan) {
            return;
        }
        // While somebody else is where it was, it gets another place.
        let in_the_way = world.memory_mut_of(extent).and_then(|(_, memory)| {
            let ranges = &mut memory.segments.get_mut(segment?)?.ranges;
            Some((segment?, ranges.place(bytes, alignment)?))
        });
        let _ = self.plan_in(world, extent, plan); // If there is none, it gets what there is.
        if let (Some((segment, spot)), Some((_, memory))) =
            (in_the_way, world.memory_mut_of(extent))
            && let Some(it) = memory.segments.get_mut(segment)
        {
            it.ranges.free(spot);
        }
    }

    /// Patches and submits. The scheduler's key is held.
    pub(crate) fn send_listed(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        process: u32,
        (node, fence): (usize, Fence),
        word: &DriverContext,
        packet: u32,
    ) -> Answer<()> {
        let mut going = self.take_off(packet, node, fence)?;
        if !going.skips {
            self.patch_listed(at, pass, process, word, &mut going);
            if let Some(it) = self.world.hold().listed.get_mut(packet) {
                it.private.clone_from(&going.private);
            }
        }
        let Going { size, written, null, .. } = going;
        let started = What::PacketStarted { fence, start: 0, end: written, null };
        self.log.emit(going.node, started);
        let submission = ListedSubmission {
            context: word,
            node: u32::try_from(node).unwrap_or(u32::MAX),
            fence,
            address: going.run.start,
            size,
            submitted: 0..written,
            private: &going.private,
            null,
        };
        going.driver.submit_listed(at, pass, process, &submission)
    }

    /// A packet is about to go: what it uses is where it will be until it is over.
    fn take_off(&self, packet: u32, node: usize, fence: Fence) -> Answer<Going> {
        let world = &mut *self.world.hold();
        let list = world.listings(packet);
        let it = world.listed.get_mut(packet).ok_or(Refusal::Invalid)?;
        // A packet whose addresses are those its driver was told need not be patched.
        let same = it.uses.iter().zip(&list).all(|(told, now)| told.told() == *now);
        let skips = same && fence.0.is_multiple_of(2);
        it.sent = Some((node, fence, !skips));
        let it = world.listed.get(packet).ok_or(Refusal::Invalid)?;
        let on = world.adapters.get(it.adapter).ok_or(Refusal::Invalid)?;
        let node = on.nodes.get(node).ok_or(Refusal::Invalid)?.subject();
        let memory = on.memory.as_ref().ok_or(Refusal::Invalid)?;
        for (using, listing) in it.uses.iter().zip(&list) {
            let Some(it) = world.extents.get(using.extent) else { continue };
            let Some(segment) = memory.numbered(listing.segment) else { continue };
            let (segment, address) = (segment.subject, listing.address);
            self.log.emit(it.owner, What::PacketUses { node, fence, segment, address });
        }
        Ok(Going {
            driver: on.driver.clone(),
            ram: memory.ram.clone(),
            node,
            fence,
            list,
            run: it.run,
            size: it.size,
            written: it.written,
            private: it.private.clone(),
            patches: it.patches.clone(),
            null: it.null,
            skips,
        })
    }

    /// Has the driver write addresses into a packet.
    ///
    /// WINDOWS: a refusal stops the system (observed); here the packet goes on, and the answer is
    /// judged.
    fn patch_listed(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        process: u32,
        word: &DriverContext,
        going: &mut Going,
    ) {
        let Going { written, fence, null, .. } = *going;
        self.log.emit(going.node, What::PacketPatched { fence, start: 0, end: written });
        let (driver, list, patches) = (&going.driver, &going.list, &going.patches);
        let address = going.run.start;
        let mut call = |list: &[Listing], buffer: &mut [u8], private: &mut [u8]| {
            let mut patching = Patching {
                context: Some(word),
                list,
                patches,
                buffer,
                address,
                submitted: 0..written,
                private,
                fence,
                null,
            };
            driver.patch(at, pass, Some(process), &mut patching)
        };
        let private = &mut going.private;
        let whole = Run { start: address, bytes: u64::from(going.size) };
        going.ram.lend(whole, &mut |buffer| {
            let before = buffer.to_vec();
            // WINDOWS: after a preemption a packet is patched again, with other addresses
            // (documented); so are some here, before they start.
            let mut once = None;
            if fence.0 % 4 == 1 {
                let (mut scratch, mut spare) = (before.clone(), private.clone());
                let first = call(list, &mut scratch, &mut spare);
                let elsewhere: Vec<Listing> = list.iter().map(Listing::elsewhere).collect();
                let second = call(&elsewhere, buffer, private);
                once = Some(scratch).filter(|_| first.is_ok() && second.is_ok());
            }
            let answer = call(list, buffer, private);
            let bytes = (&before[..], &*buffer, once.as_deref());
            self.judge_patched(going.node, answer, written, bytes);
        });
    }

    fn judge_patched(
        &self,
        node: Subject,
        answer: Answer<()>,
        written: u32,
        (before, after, once): (&[u8], &[u8], Option<&[u8]>),
    ) {
        let returned = !matches!(answer, Err(Refusal::Crashed | Refusal::Absent));
        let broken = answer
            .err()
            .filter(|_| returned)
            .map(|why| format!("{PATCH} answered {}, but it cannot fail", why.name()));
        self.log.judge(RuleId::KMD_SUBMIT_001, Who::Driver, node, PATCH, broken);
        let behind = written as usize;
        let outside = before.iter().zip(after).skip(behind).position(|(one, two)| one != two);
        let broken = outside.map(|at| {
            let at = at + behind;
            format!("the driver changed byte {at}, but bytes 0 to {written} are submitted")
        });
        let place = "DxgkDdiPatch.pDmaBuffer";
        self.log.judge(RuleId::KMD_SUBMIT_002, Who::Driver, node, place, broken);
        let Some(once) = once.filter(|_| answer.is_ok()) else { return };
        let other = once.iter().zip(after).take(behind).position(|(one, two)| one != two);
        let broken = other.map(|at| {
            format!(
                "patched a second time, with other addresses, a packet has another byte {at} than \
                 one that was patched with them once"
            )
        });
        self.log.judge(RuleId::KMD_SUBMIT_003, Who::Driver, node, place, broken);
    }

    /// A packet is over: what it held may move, and its buffer goes, now or when no hardware can
    /// read it any more.
    pub(crate) fn end_listed(&self, world: &mut World, packet: u32) {
        let Some(it) = world.listed.remove(packet) else { return };
        if it.sent.is_some() && it.null {
            // What its driver did with its commands was said when it did.
            let place = "DxgkDdiSubmitCommand.NullRendering";
            let about = Kind::Context.nr(it.context);
            self.log.judge(RuleId::KMD_SUBMIT_011, Who::Driver, about, place, None);
        }
        let extents = it.extents();
        if it.held {
            for extent in &extents {
                world.hold_extent(*extent, false);
            }
        }
        self.count_named(world, &extents, false);
        let passed = |(node, fence, _): (usize, Fence, bool)| {
            let on = world.adapters.get(it.adapter).and_then(|it| it.nodes.get(node));
            on.is_none_or(|it| it.passed.covers(fence))
        };
        match it.sent.filter(|sent| !passed(*sent)) {
            Some((node, fence, _)) => {
                let on = world.adapters.get_mut(it.adapter).and_then(|it| it.memory.as_mut());
                if let Some(memory) = on {
                    memory.late.push((node, fence, it.run));
                }
            }
            None => world.give_back_buffer(it.adapter, it.run),
        }
        if !world.runnable.is_empty() {
            self.ring(&self.bell);
        }
    }
}

/// What hardware does.
impl Kernel {
    /// A command of a packet reads or writes: that has to be something on its list.
    pub(crate) fn judge_use(&self, adapter: Subject, node: u32, fence: Fence, range: (u64, u64)) {
        let world = self.world.hold();
        let sent = |it: &Listed| {
            let mine = it.adapter == adapter.number;
            it.sent.filter(|it| mine && it.0 == node as usize && it.1 == fence)
        };
        let found = world.listed.iter().find_map(|(_, it)| Some((it, sent(it)?.2)));
        let Some((packet, patched)) = found else { return };
        let (address, bytes) = range;
        let within = |start: u64, size: u64| {
            address >= start && address.saturating_add(bytes) <= start.saturating_add(size)
        };
        let listed = packet
            .uses
            .iter()
            .any(|it| world.place_now(it.extent).is_some_and(|(_, start)| within(start, it.bytes)));
        let told = |it: &&Use| it.told.is_some_and(|(_, start)| within(start, it.bytes));
        let stale = packet.uses.iter().find(told);
        let of = |it: &Use| world.extents.get(it.extent).map(|it| it.owner);
        let stranger = world.extents.iter().find(|(number, it)| {
            let mine = packet.uses.iter().any(|using| using.extent == *number);
            let start = world.memory(adapter.number).and_then(|(_, memory)| memory.address(it));
            it.adapter == adapter.number && !mine && start.is_some_and(|at| within(at, it.bytes))
        });
        let about = Kind::Context.nr(packet.context);
        let at = format!("a packet of {about} uses {bytes} bytes at {address:#x}");
        let null = packet.null.then(|| format!("{at}, though its commands are not to be done"));
        if packet.null {
            let place = "DxgkDdiSubmitCommand.NullRendering";
            self.log.judge(RuleId::KMD_SUBMIT_011, Who::Driver, about, place, null);
        }
        let foreign = stranger.filter(|_| !listed && stale.is_none());
        let broken =
            foreign.map(|(_, it)| format!("{at}, where {} is: it is not listed", it.owner));
        let reached = broken.is_some();
        self.log.judge(RuleId::KMD_RENDER_002, Who::Driver, about, RENDER, broken);
        let broken = (!listed && !reached).then(|| match stale.and_then(of) {
            Some(it) => format!("{at}, where {it} was when the driver wrote the command"),
            None => format!("{at}, where nothing is that it lists"),
        });
        let (rule, place) = if patched {
            (RuleId::KMD_RENDER_005, "DxgkDdiRender.pPatchLocationListOut")
        } else {
            (RuleId::KMD_RENDER_004, "DxgkDdiRender.pDmaBuffer")
        };
        self.log.judge(rule, Who::Driver, about, place, broken);
    }
}

impl Listed {
    /// What it uses, each once.
    fn extents(&self) -> Vec<u32> {
        once(&self.uses)
    }
}

/// The extents that are used, each once.
fn once(uses: &[Use]) -> Vec<u32> {
    let mut extents: Vec<u32> = uses.iter().map(|it| it.extent).collect();
    extents.sort_unstable();
    extents.dedup();
    extents
}

impl Use {
    /// As its driver was told when it wrote the commands.
    fn told(&self) -> Listing {
        let (segment, address) = self.told.unwrap_or_default();
        Listing { view: self.word, write: self.write, segment, address }
    }
}

impl Listing {
    /// The same, at another address.
    fn elsewhere(&self) -> Self {
        Self { address: self.address.wrapping_add(PAGE), ..*self }
    }
}

impl World {
    /// Buffers of packets that were lost go when their node has passed them.
    pub(crate) fn free_late(&mut self, adapter: u32) {
        let Some(on) = self.adapters.get_mut(adapter) else { return };
        let Some(memory) = on.memory.as_mut().filter(|it| !it.late.is_empty()) else { return };
        let passed =
            |node: usize, fence: Fence| on.nodes.get(node).is_none_or(|it| it.passed.covers(fence));
        for (node, fence, run) in std::mem::take(&mut memory.late) {
            if passed(node, fence) {
                memory.ram.give_back(run);
            } else {
                memory.late.push((node, fence, run));
            }
        }
    }

    fn give_back_buffer(&self, adapter: u32, run: Run) {
        if let Some((_, memory)) = self.memory(adapter) {
            memory.ram.give_back(run);
        }
    }

    /// Whether all that a packet uses is in place.
    pub(crate) fn is_placed(&self, packet: u32) -> bool {
        let Some(it) = self.listed.get(packet).filter(|it| it.held) else { return false };
        it.uses.iter().all(|it| self.place_now(it.extent).is_some())
    }

    /// What is moved before a packet is patched, of every third one: something that its driver
    /// was told the address of, and that nobody uses now.
    fn stirs(&self, packet: u32) -> Option<u32> {
        let it = self.listed.get(packet)?;
        let lists = self.contexts.get(it.context)?.lists.as_ref()?;
        let free = |it: &&Use| {
            let extent = self.extents.get(it.extent);
            let idle = |it: &crate::memory::Extent| {
                it.rank.is_some() && it.pending == 0 && it.lock.is_none() && it.offer.is_none()
            };
            it.told.is_some() && extent.is_some_and(idle)
        };
        let third = lists.renders.is_multiple_of(3);
        it.uses.iter().find(free).filter(|_| third).map(|it| it.extent)
    }

    /// Where a packet's buffer is, how much of it is written, and the driver's bytes of it.
    pub(crate) fn listed_buffer(&self, packet: u32) -> Option<(u64, u32, Vec<u8>)> {
        let it = self.listed.get(packet)?;
        Some((it.run.start, it.written, it.private.clone()))
    }

    /// The segment that an extent is in, by its driver's number, and its address; none while it
    /// is on its way.
    fn place_now(&self, extent: u32) -> Option<(u32, u64)> {
        let it = self.extents.get(extent).filter(|it| it.pending == 0)?;
        let (_, memory) = self.memory(it.adapter)?;
        Some((number(it.segment()?), memory.address(it)?))
    }

    /// What a packet uses, with where it is now.
    fn listings(&self, packet: u32) -> Vec<Listing> {
        let Some(it) = self.listed.get(packet) else { return Vec::new() };
        let now = |it: &Use| Use { told: self.place_now(it.extent), ..it.clone() }.told();
        it.uses.iter().map(now).collect()
    }
}
