//! Packets with lists, from when they are first in their line until they are done: what they list
//! is brought, addresses are written, the hardware gets them.

use super::{Going, Listed, PATCH, RENDER, Use};
use crate::device::Loss;
use crate::gate::Pass;
use crate::kernel::Kernel;
use crate::listed::{ListedSubmission, Listing, Patching};
use crate::memory::Extent;
use crate::memory::number;
use crate::memory::place::Plan;
use crate::miniport::{Answer, DriverContext, Refusal};
use crate::process::Process;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Fence, Passive, RuleId, Run, Subject, What, Who};

/// Packets in their lines.
impl Kernel {
    /// Has everything that a packet uses on its way, and held from then on. Where there is no
    /// room, whoever comes back finds some when other packets are over; if there are none, its
    /// device is lost.
    pub(crate) fn place_listed(&self, world: &mut World, packet: Id<Listed>) {
        let Some(it) = world.listed.get(packet).filter(|it| !it.held) else { return };
        let (adapter, context, extents) = (it.adapter, it.context, it.extents());
        let gone = |it: &Id<Extent>| world.extents.get(*it).is_none_or(|it| it.ending);
        if extents.iter().any(gone) {
            let device = world.contexts[context].device;
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
                let device = world.contexts[context].device;
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
    fn stir(&self, world: &mut World, extent: Id<Extent>, plan: &mut Plan) {
        // What a packet lists may have ended before it.
        let Some(it) = world.extents.get(extent) else { return };
        let (bytes, alignment, segment) = (it.bytes, it.alignment, it.segment());
        if !self.plan_out(world, extent, "a packet is to find it elsewhere", plan) {
            return;
        }
        // While somebody else is where it was, it gets another place.
        let (_, memory) = world.memory_mut_of(extent);
        let in_the_way = segment.and_then(|segment| {
            let ranges = &mut memory.segments[segment].ranges;
            Some((segment, ranges.place(bytes, alignment)?))
        });
        let _ = self.plan_in(world, extent, plan); // If there is none, it gets what there is.
        if let Some((segment, spot)) = in_the_way {
            let (_, memory) = world.memory_mut_of(extent);
            memory.segments[segment].ranges.free(spot);
        }
    }

    /// Patches and submits. The scheduler's key is held.
    pub(crate) fn send_listed(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        process: Id<Process>,
        (node, fence): (usize, Fence),
        word: &DriverContext,
        packet: Id<Listed>,
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
    fn take_off(&self, packet: Id<Listed>, node: usize, fence: Fence) -> Answer<Going> {
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
            // What a packet lists may have ended before it.
            let Some(it) = world.extents.get(using.extent) else { continue };
            let Some(segment) = memory.numbered(listing.segment) else { continue };
            let (segment, address) = (segment.subject, listing.address);
            self.log.emit(it.owner.subject(), What::PacketUses { node, fence, segment, address });
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
        process: Id<Process>,
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
    pub(crate) fn end_listed(&self, world: &mut World, packet: Id<Listed>) {
        // It may have ended with its device already.
        let Some(it) = world.listed.take(packet) else { return };
        if it.sent.is_some() && it.null {
            // What its driver did with its commands was said when it did.
            let place = "DxgkDdiSubmitCommand.NullRendering";
            let about = it.context.subject();
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
    pub(crate) fn judge_use(
        &self,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        range: (u64, u64),
    ) {
        let world = self.world.hold();
        let sent = |it: &Listed| {
            let mine = it.adapter == adapter;
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
        let of = |it: &Use| world.extents.get(it.extent).map(|it| it.owner.subject());
        let stranger = world.extents.iter().find(|(number, it)| {
            let mine = packet.uses.iter().any(|using| using.extent == *number);
            let start = world.memory(adapter).and_then(|(_, memory)| memory.address(it));
            it.adapter == adapter && !mine && start.is_some_and(|at| within(at, it.bytes))
        });
        let about = packet.context.subject();
        let at = format!("a packet of {about} uses {bytes} bytes at {address:#x}");
        let null = packet.null.then(|| format!("{at}, though its commands are not to be done"));
        if packet.null {
            let place = "DxgkDdiSubmitCommand.NullRendering";
            self.log.judge(RuleId::KMD_SUBMIT_011, Who::Driver, about, place, null);
        }
        let foreign = stranger.filter(|_| !listed && stale.is_none());
        let broken = foreign
            .map(|(_, it)| format!("{at}, where {} is: it is not listed", it.owner.subject()));
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

impl World {
    /// Buffers of packets that were lost go when their node has passed them.
    pub(crate) fn free_late(&mut self, adapter: Id<Adapter>) {
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

    pub(super) fn give_back_buffer(&self, adapter: Id<Adapter>, run: Run) {
        if let Some((_, memory)) = self.memory(adapter) {
            memory.ram.give_back(run);
        }
    }

    /// Whether all that a packet uses is in place.
    pub(crate) fn is_placed(&self, packet: Id<Listed>) -> bool {
        let Some(it) = self.listed.get(packet).filter(|it| it.held) else { return false };
        it.uses.iter().all(|it| self.place_now(it.extent).is_some())
    }

    /// What is moved before a packet is patched, of every third one: something that its driver
    /// was told the address of, and that nobody uses now.
    fn stirs(&self, packet: Id<Listed>) -> Option<Id<Extent>> {
        let it = self.listed.get(packet)?;
        let lists = self.contexts.get(it.context)?.lists.as_ref()?;
        let free = |it: &&Use| {
            let extent = self.extents.get(it.extent);
            let idle = |it: &Extent| {
                it.rank.is_some() && it.pending == 0 && it.lock.is_none() && it.offer.is_none()
            };
            it.told.is_some() && extent.is_some_and(idle)
        };
        let third = lists.renders.is_multiple_of(3);
        it.uses.iter().find(free).filter(|_| third).map(|it| it.extent)
    }

    /// Where a packet's buffer is, how much of it is written, and the driver's bytes of it.
    pub(crate) fn listed_buffer(&self, packet: Id<Listed>) -> Option<(u64, u32, Vec<u8>)> {
        let it = self.listed.get(packet)?;
        Some((it.run.start, it.written, it.private.clone()))
    }

    /// The segment that an extent is in, by its driver's number, and its address; none while it
    /// is on its way.
    pub(super) fn place_now(&self, extent: Id<Extent>) -> Option<(u32, u64)> {
        let it = self.extents.get(extent).filter(|it| it.pending == 0)?;
        let (_, memory) = self.memory(it.adapter)?;
        Some((number(it.segment()?), memory.address(it)?))
    }

    /// What a packet uses, with where it is now.
    fn listings(&self, packet: Id<Listed>) -> Vec<Listing> {
        let Some(it) = self.listed.get(packet) else { return Vec::new() };
        let now = |it: &Use| Use { told: self.place_now(it.extent), ..it.clone() }.told();
        it.uses.iter().map(now).collect()
    }
}
