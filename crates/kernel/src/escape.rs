//! Escapes: private data that a client and its driver exchange through the kernel.
//!
//! # Invariants
//!
//! 1. A driver is called for things that cannot go meanwhile: the caller is inside its device
//!    and its context, and its pass keeps the adapter from stopping.
//! 2. At level two the pass is the adapter's alone, and was taken while no packet was queued
//!    there. Whoever submits needs the adapter, too, so none comes meanwhile.

use crate::context::Context;
use crate::device::Device;
use crate::device::{Inside, Loss};
use crate::gate::{Class, Pass, Stuck};
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::miniport::{DriverContext, Escape, Generation};
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::schedule::Flying;
use crate::start::Adapter;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, What};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whom an escape is for, and how it is delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EscapeOrder {
    /// The adapter.
    pub adapter: Handle,
    /// A device of it.
    pub device: Option<Handle>,
    /// A context of that device, or of any.
    pub context: Option<Handle>,
    /// Whether the driver is to have the adapter to itself, idle (level two).
    pub hardware: bool,
    /// The client's flags: a number the kernel only passes on.
    pub flags: u32,
}

/// What an order names, by number.
struct Named {
    adapter: Id<Adapter>,
    /// The device, or the context's.
    device: Option<Id<Device>>,
    context: Option<Id<Context>>,
}

/// What an escape keeps from going while it is delivered.
struct Kept<'k> {
    adapter: Id<Adapter>,
    inside: Option<Inside<'k>>,
    context: Option<(Id<Context>, Arc<DriverContext>)>,
}

impl Kernel {
    /// Has a driver answer a client's private data, in its place (`D3DKMTEscape`).
    ///
    /// WINDOWS: without hardware access it comes at level zero, beside other calls (our
    /// decision). A device that is lost takes none (our decision).
    pub fn escape(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &EscapeOrder,
        private: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let kept = self.keep(process, order)?;
        let answer = self.deliver(at, process, order, &kept, private);
        self.let_go(kept);
        answer
    }

    /// Looks at an escape that is for nobody here: whether what it names is there.
    pub fn look_at_escape(&self, process: ProcessId, order: &EscapeOrder) -> Result<(), Refused> {
        self.named(&self.world.hold(), process, order).map(|_| ())
    }

    fn named(
        &self,
        world: &World,
        process: ProcessId,
        order: &EscapeOrder,
    ) -> Result<Named, Refused> {
        let named = world.named_by(process, order);
        let (hardware, resolved) = (order.hardware, named.is_ok());
        self.log.emit(process.subject(), What::EscapeAsked { hardware, resolved });
        named
    }

    /// Invariant 1, but for the adapter.
    fn keep(&self, process: ProcessId, order: &EscapeOrder) -> Result<Kept<'_>, Refused> {
        let mut world = self.world.hold();
        let Named { adapter, device, context } = self.named(&world, process, order)?;
        if let Some(device) = device {
            world.works(device)?;
        }
        let word = context.map(|number| {
            let word = world.contexts.get(number).and_then(|it| it.word.clone());
            word.map(|it| (number, it)).ok_or(Refused::Removed(number.subject()))
        });
        let context = word.transpose()?;
        let inside = device.map(|it| self.inside(&mut world, it)).transpose()?;
        if let Some(it) = context.as_ref().and_then(|(it, _)| world.contexts.get_mut(*it)) {
            it.inside += 1;
        }
        Ok(Kept { adapter, inside, context })
    }

    fn let_go(&self, kept: Kept<'_>) {
        if let Some((number, word)) = kept.context {
            drop(word); // Before the context may go: whoever ends it needs the only one.
            let mut world = self.world.hold();
            world.contexts[number].inside -= 1;
            self.wake(&mut world);
        }
        drop(kept.inside);
    }

    fn deliver(
        &self,
        at: &mut Passive,
        process: ProcessId,
        order: &EscapeOrder,
        kept: &Kept<'_>,
        private: &mut Vec<u8>,
    ) -> Result<(), Refused> {
        let gone = Refused::Removed(kept.adapter.subject());
        let running = |world: &World| world.adapters.get(kept.adapter).and_then(Adapter::running);
        let driver = running(&self.world.hold()).ok_or(gone.clone())?;
        let pass = if order.hardware {
            self.enter_idle(at, kept.adapter, driver.generation)?
        } else {
            self.enter(at, Class::Zero.keys(kept.adapter, driver.generation, process.0))?
        };
        // Who parked looks again.
        running(&self.world.hold()).ok_or(gone)?;
        if let Some(inside) = &kept.inside {
            self.look_again(inside)?;
        }
        let escape = Escape {
            device: kept.inside.as_ref().map(Inside::word).transpose()?,
            context: kept.context.as_ref().map(|(_, word)| &**word),
            hardware: order.hardware,
            flags: order.flags,
            private,
        };
        Ok(driver.escape(at, &pass, process.0, escape)?)
    }

    /// Waits for a pass of level two: invariant 2. Nobody parks with an adapter to itself, so
    /// the work is waited for first, and again if more has come.
    pub(crate) fn enter_idle(
        &self,
        at: &mut Passive,
        adapter: Id<Adapter>,
        generation: Generation,
    ) -> Result<Pass<'_>, Stuck> {
        loop {
            self.flush(at, adapter)?;
            let keys = Class::Two.keys(adapter, generation, None);
            let (pass, mut world) = self.enter_held(at, self.world.hold(), keys)?;
            if world.busy_devices(adapter).is_empty() {
                drop(world);
                return Ok(pass);
            }
            pass.leave(&mut world);
        }
    }

    /// Waits until no packet is queued on an adapter. Work that nothing could end is given up:
    /// its devices are lost, and what they had queued counts as done.
    fn flush(&self, at: &mut Passive, adapter: Id<Adapter>) -> Result<(), Stuck> {
        let about = adapter.subject();
        let idle = |world: &World| world.busy_devices(adapter).is_empty();
        while !self.wait_until(at, about, |_| format!("the work on {about}"), idle) {
            let busy = self.world.hold().busy_devices(adapter);
            let lost = busy.into_iter().filter(|it| self.lose_device(*it, Loss::Hung));
            if lost.count() == 0 {
                return Err(Stuck);
            }
        }
        Ok(())
    }
}

impl World {
    /// What an order names: a context of its device, on its adapter.
    fn named_by(&self, process: ProcessId, order: &EscapeOrder) -> Result<Named, Refused> {
        let adapter = self.resolve::<Adapter>(process, Argument::Adapter, order.adapter)?;
        let device = order.device.map(|it| self.resolve(process, Argument::Device, it));
        let device: Option<Id<Device>> = device.transpose()?;
        let context = order.context.map(|it| self.resolve(process, Argument::Context, it));
        let context: Option<Id<Context>> = context.transpose()?;
        let owner = context.map(|it| self.contexts[it].device);
        if let (Some(device), Some(owner), Some(handle)) = (device, owner, order.context)
            && device != owner
        {
            let (argument, owner) = (Argument::Context, owner.subject());
            return Err(Refused::OtherDevice { argument, handle, owner });
        }
        let device = device.or(owner);
        let on = device.and_then(|it| self.devices.get(it)).map(|it| it.adapter);
        match (device, on) {
            (Some(device), Some(on)) if on != adapter => {
                Err(Refused::OtherAdapter(device.subject()))
            }
            _ => Ok(Named { adapter, device, context }),
        }
    }

    /// The devices that have packets queued on an adapter.
    fn busy_devices(&self, adapter: Id<Adapter>) -> BTreeSet<Id<Device>> {
        let nodes = self.adapters.get(adapter).into_iter().flat_map(|it| &it.nodes);
        nodes.flat_map(|it| &it.queue).filter_map(Flying::device).collect()
    }
}
