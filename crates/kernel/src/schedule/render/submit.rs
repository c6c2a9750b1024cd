//! Submitting packets with lists: pages in their allocations, patches their addresses and sends
//! them to the hardware.

use super::{AllocationUse, OutgoingPacket, PATCH, RENDER, RenderPacket};
use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::miniport::{DriverContext, DriverError, DriverResult};
use crate::ddi::permit::DdiPermit;
use crate::ddi::render_args::{AllocationListEntry, PatchArgs, SubmitCommandArgs};
use crate::kernel::Kernel;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::lifetime::process::Process;
use crate::lifetime::retire::DESTROY_FLAGS;
use crate::memory::Extent;
use crate::memory::place::PagingPlan;
use crate::memory::segment_number;
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{Component, EventKind, Fence, Passive, RuleId, Run, Subject};

/// Queued packets.
impl Kernel {
    /// Plans page-ins for all allocations of a packet, and holds them from then on. If there is no
    /// room, the packet is tried again after other packets complete; if no other packet holds
    /// allocations and no paging work is pending, the device is lost.
    pub(crate) fn page_in_render_packet(&self, state: &mut KernelState, packet: Id<RenderPacket>) {
        // The packet may have ended with its device.
        let Some(it) = state.schedule.render_packets.get(packet) else { return };
        let (adapter, context, extents) = (it.adapter, it.context, it.extents());
        let holds_extents = it.holds_extents;
        let is_ending =
            |extent: &Id<Extent>| state.memory.extent(*extent).is_none_or(|extent| extent.ending);
        if extents.iter().any(is_ending) {
            let device = state.contexts[context].device;
            self.device_lost(state, device, DeviceLoss::PageFault);
            return;
        }
        if holds_extents {
            return;
        }
        let mut plan = PagingPlan::default();
        if let Some(extent) = state.extent_to_relocate(packet) {
            self.relocate_for_test(state, extent, &mut plan);
        }
        for extent in &extents {
            state.hold_extent(*extent, true);
        }
        let short =
            extents.iter().find_map(|extent| self.plan_page_in(state, *extent, &mut plan).err());
        if short.is_some() {
            for it in &extents {
                state.hold_extent(*it, false);
            }
            self.undo_plan(state, &mut plan);
            self.start_paging(state, adapter, plan, None);
            let others = state
                .schedule
                .render_packets
                .iter()
                .any(|(_, packet)| packet.holds_extents && packet.adapter == adapter);
            let pages = state.memory.has_paging_work_of(adapter);
            if !others && !pages {
                // WINDOWS: the packet would be split where its driver allows it; that is not
                // implemented yet.
                let device = state.contexts[context].device;
                self.device_lost(state, device, DeviceLoss::OutOfMemory);
            }
            return;
        }
        state.schedule.render_packets[packet].holds_extents = true;
        self.start_paging(state, adapter, plan, None);
    }

    /// Patches and submits a packet. The caller holds the scheduler's permit key.
    pub(crate) fn submit_render_packet(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: Id<Process>,
        (node, fence): (usize, Fence),
        driver_handle: &DriverContext,
        packet: Id<RenderPacket>,
    ) -> DriverResult<()> {
        let mut going = self.prepare_render_packet(packet, node, fence)?;
        if !going.skips_patch {
            self.patch_render_packet(at, permit, process, driver_handle, &mut going);
            // The packet may have ended with its device during the driver call.
            if let Some(it) = self.state.lock().schedule.render_packets.get_mut(packet) {
                it.private.clone_from(&going.private);
            }
        }
        let OutgoingPacket { size, written, null, .. } = going;
        self.log.emit(going.node, || EventKind::PacketStarted {
            fence,
            start: 0,
            end: written,
            null,
        });
        let submission = SubmitCommandArgs {
            context: driver_handle,
            node: u32::try_from(node).unwrap_or(u32::MAX),
            fence,
            address: going.run.start,
            size,
            submitted: 0..written,
            private: &going.private,
            null,
        };
        going.driver.submit_command(at, permit, process, &submission)
    }

    /// Fixes the addresses of a packet's allocations until the packet is over.
    fn prepare_render_packet(
        &self,
        packet: Id<RenderPacket>,
        node: usize,
        fence: Fence,
    ) -> DriverResult<OutgoingPacket> {
        let state = &mut *self.state.lock();
        let list = state.allocation_list(packet);
        // The packet may have ended with its device before it was submitted.
        let it = state.schedule.render_packets.get_mut(packet).ok_or(DriverError::Invalid)?;
        // A packet needs no patch if its addresses are those that its driver rendered with.
        let same = it.uses.iter().zip(&list).all(|(told, now)| told.list_entry() == *now);
        let skips_patch = same && fence.0.is_multiple_of(2);
        it.submission = Some((node, fence, !skips_patch));
        state.note_submitted_alone(packet);
        let it = &state.schedule.render_packets[packet];
        let on = state.adapters.get(it.adapter).ok_or(DriverError::Invalid)?;
        let node = on.nodes.get(node).ok_or(DriverError::Invalid)?.subject();
        let memory = on.memory.as_ref().ok_or(DriverError::Invalid)?;
        for (using, listing) in it.uses.iter().zip(&list) {
            // A listed allocation may have ended before the packet.
            let Some(it) = state.memory.extent(using.extent) else { continue };
            // An allocation that is not resident has no segment.
            let Some(segment) = memory.segment_numbered(listing.segment) else { continue };
            let (segment, address) = (segment.subject, listing.address);
            self.log.emit(it.owner.subject(), || EventKind::PacketUses {
                node,
                fence,
                segment,
                address,
            });
        }
        Ok(OutgoingPacket {
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
            skips_patch,
        })
    }

    /// Calls `DxgkDdiPatch` for a packet.
    ///
    /// WINDOWS: a failure stops the system (observed). Here the packet is submitted nevertheless,
    /// and the returned status is judged.
    fn patch_render_packet(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        process: Id<Process>,
        driver_handle: &DriverContext,
        going: &mut OutgoingPacket,
    ) {
        let OutgoingPacket { written, fence, null, .. } = *going;
        self.log.emit(going.node, || EventKind::PacketPatched { fence, start: 0, end: written });
        let (driver, list, patches) = (&going.driver, &going.list, &going.patches);
        let address = going.run.start;
        let mut call = |list: &[AllocationListEntry], buffer: &mut [u8], private: &mut [u8]| {
            let mut args = PatchArgs {
                context: Some(driver_handle),
                allocation_list: list,
                patches,
                buffer,
                address,
                submitted: 0..written,
                private,
                fence,
                null,
            };
            driver.patch(at, permit, Some(process), &mut args)
        };
        let private = &mut going.private;
        let whole = Run { start: address, bytes: u64::from(going.size) };
        going.ram.with_slice(whole, &mut |buffer| {
            let before = buffer.to_vec();
            // WINDOWS: after a preemption a packet is patched again, with other addresses
            // (documented); so are some here, before they start.
            let mut once = None;
            if fence.0 % 4 == 1 {
                let (mut scratch, mut spare) = (before.clone(), private.clone());
                let first = call(list, &mut scratch, &mut spare);
                let elsewhere: Vec<AllocationListEntry> =
                    list.iter().map(AllocationListEntry::at_other_address).collect();
                let second = call(&elsewhere, buffer, private);
                once = Some(scratch).filter(|_| first.is_ok() && second.is_ok());
            }
            let result = call(list, buffer, private);
            let bytes = (&before[..], &*buffer, once.as_deref());
            self.judge_patched(going.node, result, written, bytes);
        });
    }

    fn judge_patched(
        &self,
        node: Subject,
        result: DriverResult<()>,
        written: u32,
        (before, after, once): (&[u8], &[u8], Option<&[u8]>),
    ) {
        let returned = !matches!(result, Err(DriverError::Crashed | DriverError::NoEntryPoint));
        let broken = result
            .err()
            .filter(|_| returned)
            .map(|why| format!("{PATCH} returned {}, but it cannot fail", why.name()));
        self.log.judge(RuleId::KMD_SUBMIT_001, Component::Driver, node, PATCH, broken);
        let waits = written as usize;
        let outside = before.iter().zip(after).skip(waits).position(|(one, two)| one != two);
        let broken = outside.map(|at| {
            let at = at + waits;
            format!("the driver changed byte {at}, but bytes 0 to {written} are submitted")
        });
        let place = "DxgkDdiPatch.pDmaBuffer";
        self.log.judge(RuleId::KMD_SUBMIT_002, Component::Driver, node, place, broken);
        // The packet was patched once, or the driver failed.
        let Some(once) = once.filter(|_| result.is_ok()) else { return };
        let other = once.iter().zip(after).take(waits).position(|(one, two)| one != two);
        let broken = other.map(|at| {
            format!(
                "byte {at} of a packet that was patched twice, with different addresses, differs \
                 from a packet that was patched once"
            )
        });
        self.log.judge(RuleId::KMD_SUBMIT_003, Component::Driver, node, place, broken);
    }

    /// Releases the memory of a packet that will never be submitted. Its buffer stays for
    /// `DxgkDdiCancelCommand`; its allocations can be destroyed before that call.
    pub(crate) fn release_cancelled_packet(
        &self,
        state: &mut KernelState,
        packet: Id<RenderPacket>,
    ) {
        let Some(it) = state.schedule.render_packets.get_mut(packet) else { return };
        if std::mem::replace(&mut it.released, true) {
            return;
        }
        let (extents, held) = (it.extents(), it.holds_extents);
        self.release_extents(state, &extents, held);
    }

    /// Ends a packet's use of the memory of its allocations.
    fn release_extents(&self, state: &mut KernelState, extents: &[Id<Extent>], held: bool) {
        for extent in extents.iter().filter(|_| held) {
            // An extent may be destroyed before a packet that lists it.
            if state.memory.extent(*extent).is_some() {
                state.hold_extent(*extent, false);
            }
        }
        self.count_packet_references(state, extents, false);
    }

    /// Ends a packet: releases its allocations, and frees its buffer now or when no hardware can
    /// read the buffer.
    pub(crate) fn end_render_packet(&self, state: &mut KernelState, packet: Id<RenderPacket>) {
        // It may have ended with its device already.
        let Some(it) = state.schedule.render_packets.take(packet) else { return };
        if it.submission.is_some() && it.null {
            // Breaks of this rule were reported when the commands ran.
            let place = "DxgkDdiSubmitCommand.NullRendering";
            let about = it.context.subject();
            self.log.judge(RuleId::KMD_SUBMIT_011, Component::Driver, about, place, None);
        }
        if !it.released {
            self.release_extents(state, &it.extents(), it.holds_extents);
        }
        let passed = |(node, fence, _): (usize, Fence, bool)| {
            let on = state.adapters.get(it.adapter).and_then(|adapter| adapter.nodes.get(node));
            on.is_none_or(|node| node.passed.covers(fence))
        };
        match it.submission.filter(|sent| !passed(*sent)) {
            Some((node, fence, _)) => {
                let on =
                    state.adapters.get_mut(it.adapter).and_then(|adapter| adapter.memory.as_mut());
                if let Some(memory) = on {
                    memory.unfreed_buffers.push((node, fence, it.run));
                }
            }
            None => state.free_dma_buffer(it.adapter, it.run),
        }
        if !state.schedule.runnable.is_empty() {
            self.wake_one(&self.work_available);
        }
    }
}

/// Checks of what the client and the hardware do.
impl Kernel {
    /// Entry rule: no packet that is not submitted yet lists a view that the client destroys as not
    /// in use. One that is submitted may be done, and the client may know that before the driver
    /// reports it.
    pub(crate) fn judge_not_listed(
        &self,
        state: &KernelState,
        device: Id<Device>,
        views: &[Id<View>],
    ) {
        let waits = |packet: &RenderPacket| {
            packet.submission.is_none()
                && !packet.released
                && state.contexts.get(packet.context).is_some_and(|it| it.device == device)
        };
        for (_, packet) in state.schedule.render_packets.iter().filter(|pair| waits(pair.1)) {
            let listed = packet.uses.iter().find(|listed| views.contains(&listed.view));
            let message = listed.map(|listed| {
                format!(
                    "{} is destroyed with AssumeNotInUse, but a queued packet of {} lists it",
                    state.views[listed.view].allocation, packet.context
                )
            });
            let (rule, component) = (RuleId::ALLOC_DESTROY_008, state.component_of(packet.context));
            self.log.judge(rule, component, device.subject(), DESTROY_FLAGS, message);
        }
    }

    /// Judges that a command of a packet accesses an allocation on the packet's list.
    pub(crate) fn judge_use(
        &self,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        range: (u64, u64),
    ) {
        let state = self.state.lock();
        // Only packets with allocation lists are judged.
        let Some((_, packet, patched)) = state.sent_render_packet(adapter, node as usize, fence)
        else {
            return;
        };
        // A client that destroys a listed allocation as unused breaks a rule, not the driver.
        let ended = |using: &AllocationUse| state.memory.extent(using.extent).is_none();
        if packet.uses.iter().any(ended) {
            return;
        }
        let (address, bytes) = range;
        let within = |start: u64, size: u64| {
            address >= start && address.saturating_add(bytes) <= start.saturating_add(size)
        };
        let listed = packet.uses.iter().any(|allocation_use| {
            state
                .current_location(allocation_use.extent)
                .is_some_and(|(_, start)| within(start, allocation_use.bytes))
        });
        let told = |allocation_use: &&AllocationUse| {
            allocation_use.rendered_at.is_some_and(|(_, start)| within(start, allocation_use.bytes))
        };
        let stale = packet.uses.iter().find(told);
        let of = |allocation_use: &AllocationUse| {
            state.memory.extent(allocation_use.extent).map(|extent| extent.owner.subject())
        };
        let stranger = state.memory.extents_of(adapter).find(|(number, it)| {
            let mine = packet.uses.iter().any(|using| using.extent == *number);
            let start = state.adapter_memory(adapter).and_then(|memory| memory.address(it));
            !mine && start.is_some_and(|at| within(at, it.bytes))
        });
        let about = packet.context.subject();
        let at = format!("a packet of {about} uses {bytes} bytes at {address:#x}");
        let null = packet.null.then(|| format!("{at}, although NullRendering is set"));
        if packet.null {
            let place = "DxgkDdiSubmitCommand.NullRendering";
            self.log.judge(RuleId::KMD_SUBMIT_011, Component::Driver, about, place, null);
        }
        let foreign = stranger.filter(|_| !listed && stale.is_none());
        let broken = foreign.map(|(_, it)| {
            format!("{at}, the address of {}, which is not on its list", it.owner.subject())
        });
        let reached = broken.is_some();
        self.log.judge(RuleId::KMD_RENDER_002, Component::Driver, about, RENDER, broken);
        let broken = (!listed && !reached).then(|| match stale.and_then(of) {
            Some(it) => format!("{at}, the address of {it} when the driver wrote the command"),
            None => format!("{at}, where no listed allocation is"),
        });
        let (rule, place) = address_rule(patched);
        self.log.judge(rule, Component::Driver, about, place, broken);
    }
}

/// The rule on the addresses of a packet, and its place.
pub(super) fn address_rule(patched: bool) -> (RuleId, &'static str) {
    if patched {
        (RuleId::KMD_RENDER_005, "DxgkDdiRender.pPatchLocationListOut")
    } else {
        (RuleId::KMD_RENDER_004, "DxgkDdiRender.pDmaBuffer")
    }
}

impl KernelState {
    /// The packet with an allocation list that was submitted with a fence, and whether it was
    /// patched.
    pub(super) fn sent_render_packet(
        &self,
        adapter: Id<Adapter>,
        node: usize,
        fence: Fence,
    ) -> Option<(Id<RenderPacket>, &RenderPacket, bool)> {
        self.schedule.render_packets.iter().find_map(|(id, packet)| {
            let (on, of, patched) = packet.submission?;
            (packet.adapter == adapter && (on, of) == (node, fence))
                .then_some((id, packet, patched))
        })
    }

    /// Frees the buffers of lost packets that their node has passed.
    pub(crate) fn free_deferred_buffers(&mut self, adapter: Id<Adapter>) {
        // A stopped adapter has no memory, and no buffer may be left to free.
        let Some(on) = self.adapters.get_mut(adapter) else { return };
        let Some(memory) = on.memory.as_mut().filter(|memory| !memory.unfreed_buffers.is_empty())
        else {
            return;
        };
        let passed = |node: usize, fence: Fence| {
            on.nodes.get(node).is_none_or(|node| node.passed.covers(fence))
        };
        for (node, fence, run) in std::mem::take(&mut memory.unfreed_buffers) {
            if passed(node, fence) {
                memory.ram.free(run);
            } else {
                memory.unfreed_buffers.push((node, fence, run));
            }
        }
    }

    pub(super) fn free_dma_buffer(&self, adapter: Id<Adapter>, run: Run) {
        if let Some(memory) = self.adapter_memory(adapter) {
            memory.ram.free(run);
        }
    }

    /// Whether all allocations of a packet are resident.
    pub(crate) fn is_packet_resident(&self, packet: Id<RenderPacket>) -> bool {
        // The packet may have ended with its device.
        let Some(it) = self
            .schedule
            .render_packets
            .get(packet)
            .filter(|render_packet| render_packet.holds_extents)
        else {
            return false;
        };
        it.uses.iter().all(|allocation_use| self.current_location(allocation_use.extent).is_some())
    }

    /// The extent to move before a packet is patched, for every third packet: one whose address the
    /// driver was given, and that no work uses now.
    fn extent_to_relocate(&self, packet: Id<RenderPacket>) -> Option<Id<Extent>> {
        let it = self.schedule.render_packets.get(packet)?;
        let lists = self.contexts.get(it.context)?.lists.as_ref()?;
        let free = |allocation_use: &&AllocationUse| {
            let extent = self.memory.extent(allocation_use.extent);
            let idle = |extent: &Extent| {
                extent.rank.is_some()
                    && extent.pending == 0
                    && extent.lock.is_none()
                    && extent.offer.is_none()
            };
            allocation_use.rendered_at.is_some() && extent.is_some_and(idle)
        };
        let third = lists.renders.is_multiple_of(3);
        it.uses.iter().find(free).filter(|_| third).map(|allocation_use| allocation_use.extent)
    }

    /// The address of a packet's buffer, the written size, and the driver's private data.
    pub(crate) fn render_buffer(&self, packet: Id<RenderPacket>) -> Option<(u64, u32, Vec<u8>)> {
        let it = self.schedule.render_packets.get(packet)?;
        Some((it.run.start, it.written, it.private.clone()))
    }

    /// The segment id and the address of an extent; `None` while paging work for it is pending.
    pub(super) fn current_location(&self, extent: Id<Extent>) -> Option<(u32, u64)> {
        let it = self.memory.extent(extent).filter(|extent| extent.pending == 0)?;
        let memory = self.adapter_memory(it.adapter)?;
        Some((segment_number(it.segment()?), memory.address(it)?))
    }

    /// The allocation list of a packet with current addresses.
    fn allocation_list(&self, packet: Id<RenderPacket>) -> Vec<AllocationListEntry> {
        // The packet may have ended with its device.
        let Some(it) = self.schedule.render_packets.get(packet) else { return Vec::new() };
        let now = |allocation_use: &AllocationUse| {
            AllocationUse {
                rendered_at: self.current_location(allocation_use.extent),
                ..allocation_use.clone()
            }
            .list_entry()
        };
        it.uses.iter().map(now).collect()
    }
}
