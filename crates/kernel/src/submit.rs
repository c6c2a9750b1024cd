//! Packets at virtual addresses: giving them to contexts, and what their commands write.

use crate::device::Inside;
use crate::dispatch::Load;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::space::addresses::Held;
use crate::world::World;
use flight::{Fence, Kind, Passive, RuleId, Subject, Who, Written};
use std::sync::Arc;

/// Work for a context.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Where the commands are, in the client's GPU addresses.
    pub commands: u64,
    /// How many bytes of them.
    pub length: u32,
    /// The client's private data.
    pub private: Vec<u8>,
    /// The primaries that the commands write, as the client names them (`WrittenPrimaries`).
    pub primaries: Vec<Handle>,
}

/// A packet that was believed.
pub(crate) struct Given {
    pub(crate) packet: Packet,
    /// The allocations that it says it writes.
    primaries: Vec<u32>,
}

impl Kernel {
    /// Gives a context work (`D3DKMTSubmitCommand`). It is sent now if nothing is before it.
    pub fn submit(
        &self,
        at: &mut Passive,
        process: ProcessId,
        context: Handle,
        packet: Packet,
    ) -> Result<(), Refused> {
        self.submit_to(at, process, &[context], packet)
    }

    /// Gives several contexts the same work: all of them, or none.
    ///
    /// WINDOWS: a packet that cannot be sent on one of them is sent on the others all the same,
    /// and the first refusal is answered (our decision).
    pub fn submit_to(
        &self,
        at: &mut Passive,
        process: ProcessId,
        contexts: &[Handle],
        packet: Packet,
    ) -> Result<(), Refused> {
        let mut entered: Vec<(u32, Inside<'_>)> = Vec::with_capacity(contexts.len());
        let all = contexts.iter().try_for_each(|context| {
            entered.push(self.enter_context(process, *context)?);
            Ok(())
        });
        let queued = all.and_then(|()| self.queue_all(process, &entered, packet));
        let mut answer = queued;
        if answer.is_ok() {
            for (number, inside) in &entered {
                let sent = self.send(at, process.0, *number, inside);
                answer = answer.and(sent);
            }
        }
        for (number, inside) in entered {
            self.leave_context_call(number, inside);
        }
        answer
    }

    fn queue_all(
        &self,
        process: ProcessId,
        entered: &[(u32, Inside<'_>)],
        packet: Packet,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let load = Load::Virtual(Arc::new(world.believe(process, packet)?));
        for (number, inside) in entered {
            self.may_queue(world, *number, inside, &load)?;
        }
        for (number, _) in entered {
            self.put_packet(world, *number, load.again());
        }
        Ok(())
    }

    /// Entry rule: commands of a packet wrote to memory, and its client has named the primaries
    /// among what is there.
    pub(crate) fn judge_write(&self, adapter: Subject, node: u32, fence: Fence, to: Written) {
        let world = self.world.hold();
        let Some((context, packet)) = world.packet_of(adapter.number, node, fence) else { return };
        let about = Kind::Context.nr(context);
        for number in world.written(adapter.number, context, to) {
            if world.allocations.get(number).is_none_or(|it| !it.primary) {
                continue;
            }
            let broken = (!packet.primaries.contains(&number)).then(|| {
                format!(
                    "a packet of {about} wrote {} bytes of {}, a primary that is not among the {} \
                     it names",
                    to.bytes,
                    Kind::Allocation.nr(number),
                    packet.primaries.len()
                )
            });
            let place = "D3DKMTSubmitCommand.WrittenPrimaries";
            self.log.judge(RuleId::SUBMIT_CMD_004, Who::Client, about, place, broken);
        }
    }
}

impl World {
    fn believe(&self, process: ProcessId, packet: Packet) -> Result<Given, Refused> {
        let named = packet.primaries.iter().enumerate().map(|(place, handle)| {
            let argument = Argument::Allocation(place);
            let view = self.resolve(process, argument, *handle, Kind::View)?;
            Ok(self.views.get(view).map_or(0, |it| it.allocation))
        });
        let primaries = named.collect::<Result<_, Refused>>()?;
        Ok(Given { packet, primaries })
    }

    /// The packet that has a fence on a node, and its context.
    fn packet_of(&self, adapter: u32, node: u32, fence: Fence) -> Option<(u32, Arc<Given>)> {
        let queue = &self.adapters.get(adapter)?.nodes.get(node as usize)?.queue;
        let place = queue.iter().position(|it| it.fence == fence)?;
        let flying = queue.get(place).filter(|it| !it.lost && it.batch.is_none())?;
        let before = queue.iter().take(place).filter(|it| it.context == flying.context).count();
        let given = self.contexts.get(flying.context)?.line.sent_packet(before)?;
        Some((flying.context, given))
    }

    /// The allocations that are where something was written.
    fn written(&self, adapter: u32, context: u32, to: Written) -> Vec<u32> {
        let end = to.address.saturating_add(to.bytes);
        let mut all: Vec<u32> = if to.translated {
            let owner = self.contexts.get(context).and_then(|it| self.devices.get(it.device));
            let space = owner.and_then(|it| self.space_of(it.process, adapter));
            let space = space.and_then(|it| self.spaces.get(it));
            let parts = space.map(|it| it.addresses.parts(&(to.address..end)));
            let view = |held: Held| match held {
                Held::Mapped { view, .. } => self.views.get(view).map(|it| it.allocation),
                Held::Reserved | Held::Driver | Held::NoAccess | Held::Zero => None,
            };
            parts.into_iter().flatten().filter_map(|it| view(it.1.held)).collect()
        } else {
            let Some((_, memory)) = self.memory(adapter) else { return Vec::new() };
            let meets = |it: &crate::memory::Extent| {
                let start = memory.address(it).filter(|_| it.adapter == adapter);
                start.is_some_and(|at| at < end && to.address < at.saturating_add(it.bytes))
            };
            let there = self.extents.iter().filter(|it| meets(it.1)).map(|it| it.1.owner);
            there.filter_map(|it| self.allocation_of(it)).collect()
        };
        all.sort_unstable();
        all.dedup();
        all
    }
}
