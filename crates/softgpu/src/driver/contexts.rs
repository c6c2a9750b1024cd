//! Contexts: created and destroyed with their save areas, and the packets submitted to them.

use super::SoftGpu;
use crate::allocation::Allocation;
use crate::blocks::build;
use crate::format;
use crate::gpu::{NODES, Packet};
use flight::Passive;
use kernel::context::Context;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot,
    SubmitCommandVirtualArgs,
};
use std::sync::{Arc, Weak};

/// The engines of a node, as bits; zero leaves the choice to the driver.
const ENGINES: u32 = 1;

/// The maximum size of a packet's commands in its private data.
const PRIVATE: u32 = 0x1000;

impl SoftGpu {
    pub(crate) fn accepts_context(&self, device: &DriverDevice, args: &CreateContextArgs) -> bool {
        let known = self.state().records.has_device(device.as_raw());
        known && args.node < NODES && args.engine & !ENGINES == 0
    }

    pub(super) fn new_context(
        &self,
        at: &mut Passive,
        device: &DriverDevice,
        args: &CreateContextArgs,
        driver_handle: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        if self.lists.is_some() {
            return Err(DriverError::Unsupported);
        }
        if !self.accepts_context(device, args) {
            return Err(DriverError::Invalid);
        }
        let callbacks = self.callbacks()?;
        build(&**callbacks.pool(), |blocks| {
            let block = blocks.allocate()?;
            let area = if self.plan.is_some() && !args.system {
                let owner = (device.as_raw(), driver_handle.kernel_handle());
                self.make_area(at, &callbacks, blocks, owner)?
            } else {
                None
            };
            let records = &mut self.state().records;
            records.add_context(block, device.as_raw(), area);
            if args.system {
                records.set_system(block);
            }
            Ok((driver_handle.fill(block), PRIVATE))
        })
    }

    pub(super) fn remove_context(
        &self,
        at: &mut Passive,
        context: &DriverContext,
    ) -> DriverResult<()> {
        let areas = self.areas.lock();
        let known = self.state().records.context(context.as_raw());
        if let Some((_, Some(area))) = known {
            // A failure cannot be retried: the context ends anyway.
            let _ = self.callbacks()?.destroy_context_allocation(at, area.kernel_handle);
            self.remove_handles(|records, completions| {
                records.change_area(context.as_raw(), None, completions);
            })?;
        }
        drop(areas);
        self.remove_handles(|records, completions| {
            records.remove_context(context.as_raw(), completions);
        })
    }

    pub(super) fn push_packet(&self, packet: &SubmitCommandVirtualArgs<'_>) -> DriverResult<()> {
        if packet.node >= NODES {
            return Err(DriverError::Invalid);
        }
        let commands = format::decode(packet.private)?;
        let commands = self.state().records.resolve(packet.context.as_raw(), commands)?;
        if self.plan.is_some() {
            let fetch = (packet.length > 0).then_some((packet.commands, packet.length));
            let fetch = fetch.filter(|_| self.mmu().is_some());
            return self.push_render_work(
                packet.context.as_raw(),
                (packet.node, packet.fence),
                commands,
                fetch,
            );
        }
        let own = |it: Weak<Allocation>| {
            let memory =
                it.upgrade().and_then(|allocation| allocation.memory().map(Arc::downgrade));
            Ok(memory.unwrap_or_default())
        };
        let commands = commands
            .into_iter()
            .map(|command| command.resolve(own))
            .collect::<DriverResult<_>>()?;
        self.gpu.push(Packet { node: packet.node, fence: packet.fence, commands });
        Ok(())
    }
}
