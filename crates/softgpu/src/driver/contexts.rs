//! Contexts: made with their save areas, ended with them, and the packets between.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::build;
use crate::format;
use crate::gpu::{NODES, Packet};
use flight::Passive;
use kernel::context::Context;
use kernel::miniport::{
    Answer, Blank, ContextOrder, DriverContext, DriverDevice, Refusal, Submission,
};
use std::sync::{Arc, PoisonError, Weak};

/// The engines of a node, as bits; no bit leaves the choice to us.
const ENGINES: u32 = 1;

/// How many bytes of commands a packet has at most, in its private data.
const PRIVATE: u32 = 0x1000;

impl SoftGpu {
    pub(crate) fn takes_context(&self, device: &DriverDevice, order: &ContextOrder) -> bool {
        let known = self.state().records.knows_device(device.word());
        known && order.node < NODES && order.engine & !ENGINES == 0
    }

    pub(super) fn make_context(
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

    pub(super) fn end_context(&self, at: &mut Passive, context: &DriverContext) -> Answer<()> {
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

    pub(super) fn start_packet(&self, packet: &Submission<'_>) -> Answer<()> {
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
}
