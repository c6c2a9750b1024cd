//! Finished packets, for the memory observer of hardware without a model.

use super::submit::address_rule;
use super::{AllocationUse, ObservedCommands, RenderPacket, RenderRequest};
use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::kernel::Kernel;
use crate::memory::unseen::visible_memory;
use crate::schedule::report::InFlightPacket;
use crate::state::KernelState;
use flight::{FinishedPacket, PacketUse};

impl Kernel {
    /// Keeps the client's commands with the packet that has all of them, for the memory observer.
    pub(super) fn keep_observed_commands(
        &self,
        driver: &Driver,
        request: &RenderRequest,
        packets: &mut [RenderPacket],
    ) {
        if self.observer.get().is_none() || driver.hardware.models_hardware() {
            return;
        }
        let [packet] = packets else { return };
        packet.commands = Some(ObservedCommands {
            bytes: request.commands.clone(),
            handles: request.list.iter().map(|pair| pair.0).collect(),
            alone_after: None,
        });
    }

    /// Notifies the memory observer of a packet that is done and ran alone.
    pub(crate) fn notify_packet_finished(
        &self,
        state: &KernelState,
        adapter: Id<Adapter>,
        packet: &InFlightPacket,
    ) {
        // A flight may have no observer, and a model of the hardware tells each access itself.
        let Some(observer) = self.observer.get() else { return };
        let Some(on) = state.adapters.get(adapter) else { return };
        let Some(memory) = on.memory.as_ref().filter(|_| !on.driver.hardware.models_hardware())
        else {
            return;
        };
        let (context, _) = packet.client();
        let mut sent = state.schedule.render_packets.iter().map(|pair| pair.1);
        let found = sent.find_map(|it| {
            let (_, fence, patched) = it.submission?;
            (it.context == context && fence == packet.fence).then_some((it, patched))
        });
        let Some((it, patched)) = found.filter(|(it, _)| !it.null) else { return };
        let Some(commands) = it.commands.as_ref() else { return };
        if commands.alone_after != Some(on.client_packets_submitted()) {
            return;
        }
        // A handle can mean either of two instances of an allocation.
        let same = |one: &AllocationUse| {
            it.uses.iter().any(|other| other.view == one.view && other.extent != one.extent)
        };
        if it.uses.iter().any(same) {
            return;
        }
        let uses: Vec<PacketUse> = it
            .uses
            .iter()
            .zip(&commands.handles)
            .map(|(using, handle)| state.packet_use(using, handle.0))
            .collect();
        observer.packet_finished(&FinishedPacket {
            context: context.subject(),
            commands: &commands.bytes,
            uses: &uses,
            rule: address_rule(patched),
            visible: &visible_memory(on),
            ram: &*memory.ram,
        });
    }
}

impl Adapter {
    /// How many packets of clients were submitted to its nodes. It wraps.
    fn client_packets_submitted(&self) -> u64 {
        let submitted = |node: &crate::schedule::report::Node| {
            u64::from(node.submitted.0).wrapping_sub(node.paging_submitted)
        };
        self.nodes.iter().map(submitted).fold(0, u64::wrapping_add)
    }
}

impl KernelState {
    /// Notes for a packet that is being submitted whether another one of a client is in flight.
    pub(super) fn note_submitted_alone(&mut self, packet: Id<RenderPacket>) {
        let Some(it) = self.schedule.render_packets.get(packet) else { return };
        let Some(on) = self.adapters.get(it.adapter).filter(|_| it.commands.is_some()) else {
            return;
        };
        let in_flight = on.nodes.iter().flat_map(|node| &node.queue);
        let of_clients = in_flight.filter(|packet| packet.batch.is_none()).count();
        let lost = on.nodes.iter().any(|node| !node.lost_packets.is_empty());
        // The packet itself is in flight already.
        let alone = of_clients <= 1 && !lost;
        let alone_after = alone.then(|| on.client_packets_submitted());
        if let Some(it) = self.schedule.render_packets.get_mut(packet)
            && let Some(commands) = it.commands.as_mut()
        {
            commands.alone_after = alone_after;
        }
    }

    /// An allocation that a packet uses, for the observer. Of one that the CPU may write to, that has
    /// a layout of its own, or that is not in its place any more, nothing is known.
    fn packet_use(&self, using: &AllocationUse, handle: u32) -> PacketUse {
        let unknown =
            PacketUse { of: using.view.subject(), handle, bytes: 0, address: 0, pages: Vec::new() };
        let Some(extent) = self.memory.extent(using.extent) else { return unknown };
        let Some((number, address)) = self.current_location(using.extent) else { return unknown };
        let flags = extent.requirements.flags;
        let linear = flags.cpu_visible && !flags.swizzled;
        if extent.lock.is_some() || extent.existing.is_some() || !linear {
            return unknown;
        }
        let memory = self.adapter_memory(extent.adapter);
        let segment = memory.and_then(|memory| memory.segment_numbered(number));
        let aperture = segment.is_some_and(|segment| segment.info.flags.aperture);
        let pages = if aperture { extent.backing.clone() } else { Vec::new() };
        PacketUse { of: extent.owner.subject(), handle, bytes: extent.bytes, address, pages }
    }
}
