//! Packets at GPU virtual addresses: submission, and the check of their writes.

use crate::adapter::start::Adapter;
use crate::base::error::{Argument, KernelError};
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::process::ProcessId;
use crate::objects::allocation::Allocation;
use crate::objects::device_access::RundownGuard;
use crate::objects::handle_table::Handle;
use crate::schedule::dispatch::PacketPayload;
use crate::state::KernelState;
use flight::{Component, Fence, MemoryWrite, Passive, RuleId};
use smallvec::SmallVec;

/// A packet's private data. Up to 32 bytes need no heap.
pub type PacketData = SmallVec<[u8; 32]>;

/// Work for a context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// GPU virtual address of the commands.
    pub commands: u64,
    /// Size of the commands in bytes.
    pub length: u32,
    /// The client's private data.
    pub private: PacketData,
    /// Handles of the primaries that the commands write (`WrittenPrimaries`).
    pub primaries: Vec<Handle>,
}

/// A packet with its handles resolved.
#[derive(Clone)]
pub(crate) struct SubmittedCommands {
    pub(crate) commands: u64,
    pub(crate) length: u32,
    pub(crate) private: PacketData,
    /// The primaries that the client declared as written.
    primaries: Vec<Id<Allocation>>,
}

impl SubmittedCommands {
    /// A copy of the private data. A clone of such a list is made byte by byte.
    #[inline]
    pub(crate) fn copy_private(&self) -> PacketData {
        SmallVec::from_slice(&self.private)
    }
}

impl Kernel {
    /// Queues a packet on a context (`D3DKMTSubmitCommand`), and sends it if no work is ahead of
    /// it.
    ///
    /// Fails if a handle is invalid or the device does not work.
    pub fn submit(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        packet: Packet,
    ) -> Result<(), KernelError> {
        self.submit_to(at, process, &[context], packet)
    }

    /// Queues a packet on several contexts: on all of them, or on none.
    ///
    /// WINDOWS: a packet that cannot be sent on one of them is sent on the others all the same, and
    /// the first failure is returned (our decision).
    pub fn submit_to(
        &self,
        at: &mut Passive,
        process: ProcessId,
        contexts: &[Handle],
        packet: Packet,
    ) -> Result<(), KernelError> {
        // Declared before the state guard: a guard of a device that drops locks the state.
        let mut entered = SmallVec::<[(Id<Context>, RundownGuard<'_>); 1]>::new();
        let mut state = self.state.lock();
        let mut result = self.queue_all(&mut state, process, contexts, packet, &mut entered);
        if result.is_ok() {
            for (number, guard) in &entered {
                let sent;
                (state, sent) = self.submit_ready_locked(at, state, process.0, *number, guard);
                if sent.is_err() && result.is_ok() {
                    result = sent;
                }
            }
        }
        while let Some((number, guard)) = entered.pop() {
            Self::leave_context_locked(&mut state, number, guard);
        }
        result
    }

    /// Enters the contexts and queues a packet on all of them, or on none.
    fn queue_all<'k>(
        &'k self,
        state: &mut KernelState,
        process: ProcessId,
        contexts: &[Handle],
        packet: Packet,
        entered: &mut SmallVec<[(Id<Context>, RundownGuard<'k>); 1]>,
    ) -> Result<(), KernelError> {
        for context in contexts {
            entered.push(self.enter_context_locked(state, process, *context)?);
        }
        let payload = PacketPayload::Virtual(state.check_packet(process, packet)?);
        for (number, guard) in &*entered {
            self.may_queue(state, *number, guard, &payload)?;
        }
        let Some(((last, _), others)) = entered.split_last() else { return Ok(()) };
        for (number, _) in others {
            self.push_packet(state, *number, payload.clone());
        }
        self.push_packet(state, *last, payload);
        Ok(())
    }

    /// Entry rule: if a packet's commands write to a primary, the client has declared that primary.
    pub(crate) fn judge_write(
        &self,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        to: MemoryWrite,
    ) {
        let state = self.state.lock();
        // The hardware may run a packet that is lost, or paging work.
        let Some((context, packet)) = state.packet_of(adapter, node, fence) else { return };
        let about = context.subject();
        for number in state.written_allocations(adapter, context, to) {
            if state.allocations.get(number).is_none_or(|allocation| !allocation.primary) {
                continue;
            }
            let broken = (!packet.primaries.contains(&number)).then(|| {
                format!(
                    "a packet of {about} wrote {} bytes of {}, a primary that is not among the {} \
                     it declares",
                    to.bytes,
                    number.subject(),
                    packet.primaries.len()
                )
            });
            let place = "D3DKMTSubmitCommand.WrittenPrimaries";
            self.log.judge(RuleId::SUBMIT_CMD_004, Component::Client, about, place, broken);
        }
    }
}

impl KernelState {
    fn check_packet(
        &self,
        process: ProcessId,
        packet: Packet,
    ) -> Result<SubmittedCommands, KernelError> {
        let Packet { commands, length, private, primaries: named } = packet;
        let mut primaries = Vec::with_capacity(named.len());
        for (place, handle) in named.into_iter().enumerate() {
            let view = self.resolve_view(process, Argument::Allocation(place), handle)?;
            primaries.push(self.views[view].allocation);
        }
        Ok(SubmittedCommands { commands, length, private, primaries })
    }

    /// The packet with this fence on a node, and its context.
    fn packet_of(
        &self,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
    ) -> Option<(Id<Context>, &SubmittedCommands)> {
        let queue = &self.adapters.get(adapter)?.nodes.get(node as usize)?.queue;
        let place = queue.iter().position(|in_flight_packet| in_flight_packet.fence == fence)?;
        let in_flight = queue.get(place).filter(|in_flight_packet| {
            !in_flight_packet.lost && in_flight_packet.batch.is_none()
        })?;
        let before = queue
            .iter()
            .take(place)
            .filter(|in_flight_packet| in_flight_packet.context() == in_flight.context())
            .count();
        let (context, _) = in_flight.client();
        let given = self.contexts[context].queue.submitted_packet(before)?;
        Some((context, given))
    }

    /// The allocations in the range that was written.
    fn written_allocations(
        &self,
        adapter: Id<Adapter>,
        context: Id<Context>,
        to: MemoryWrite,
    ) -> Vec<Id<Allocation>> {
        let end = to.address.saturating_add(to.bytes);
        let mut all: Vec<Id<Allocation>> = if to.translated {
            let owner = self.devices[self.contexts[context].device].owner();
            let space = self.space_of(owner, adapter);
            let views = space.map(|space| self.memory.mapped_views(space, &(to.address..end)));
            let views = views.into_iter().flatten();
            views.filter_map(|view| self.views.get(view).map(|view| view.allocation)).collect()
        } else {
            // The driver may describe no memory.
            let Some(memory) = self.adapter_memory(adapter) else { return Vec::new() };
            let meets = |extent: &crate::memory::Extent| {
                let start = memory.address(extent);
                start.is_some_and(|at| at < end && to.address < at.saturating_add(extent.bytes))
            };
            let extents = self.memory.extents_of(adapter).filter(|pair| meets(pair.1));
            let there = extents.map(|pair| pair.1.owner);
            there.filter_map(|owner| self.allocation_of(owner)).collect()
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}
