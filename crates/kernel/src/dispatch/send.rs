//! What is first in a line goes to its node, or is cancelled.

use super::{Item, Load, Sent};
use crate::context::Context;
use crate::device::Device;
use crate::device::{Inside, Loss};
use crate::gate::{Class, Pass};
use crate::kernel::Kernel;
use crate::lock::Held;
use crate::miniport::{Cancelled, Refusal, Submission};
use crate::process::Process;
use crate::refused::Refused;
use crate::schedule::Flying;
use crate::store::Id;
use crate::world::World;
use flight::{Passive, What};
use std::sync::Arc;

impl Kernel {
    /// Sends what can be sent of a context, waiting for the pass.
    pub(crate) fn send(
        &self,
        at: &mut Passive,
        process: Id<Process>,
        context: Id<Context>,
        inside: &Inside<'_>,
    ) -> Result<(), Refused> {
        let driver = &inside.driver;
        let mut world = self.world.hold();
        loop {
            self.place_first(&mut world, context);
            if !world.is_next(context) {
                // Somebody sends it when what it lacks is there.
                if world.contexts.get(context).is_some_and(|it| it.line.has_packet_first()) {
                    self.make_runnable(&mut world, context);
                }
                return Ok(());
            }
            // While this parked, the driver may have made more for the context.
            if let Err(why) = self.plan_saved(&mut world, inside.adapter, context) {
                // It is in line, and would never be sent.
                self.lose(&mut world, inside.device, Loss::OutOfMemory);
                return Err(why);
            }
            if !world.is_ready(context) {
                drop(world);
                let about = context.subject();
                let what = |_: &World| format!("what {about} saves into");
                let there = |it: &World| {
                    !it.is_next(context) || it.is_ready(context) || it.has_more(context)
                };
                if !self.wait_until(at, about, what, there) {
                    self.make_runnable(&mut self.world.hold(), context);
                    return Err(Refused::Stuck);
                }
                world = self.world.hold();
            }
            let keys = Class::Scheduler.keys(inside.adapter, driver.generation, process);
            let (pass, held) = self.enter_held(at, world, keys)?;
            // On a refusal the world is not held, and the pass gives its keys back itself.
            world = self.send_under(at, &pass, held, process, context)?;
            pass.leave(&mut world);
        }
    }

    /// Sends for a context whose pass can be had. Answers whether it did something.
    pub(crate) fn try_send(&self, at: &mut Passive) -> bool {
        let mut all = self.world.hold().by_priority();
        all.retain(|it| self.try_send_for(at, *it));
        !all.is_empty()
    }

    fn try_send_for(&self, at: &mut Passive, context: Id<Context>) -> bool {
        let pass; // Before the world, so that it is dropped after it.
        let process = {
            let world = &mut *self.world.hold();
            self.place_first(world, context);
            if !world.is_next(context) {
                world.unless_waits(context);
                return false;
            }
            let owner = world.contexts[context].device;
            let it = &world.devices[owner];
            let (adapter, process) = (it.adapter, it.owner());
            if !world.is_ready(context) {
                // The driver may have made more for the context.
                if world.has_more(context) && self.plan_saved(world, adapter, context).is_err() {
                    self.lose(world, owner, Loss::OutOfMemory);
                }
                return false;
            }
            let Some(generation) = world.adapters.get(adapter).map(|it| it.driver.generation)
            else {
                return false;
            };
            let keys = Class::Scheduler.keys(adapter, generation, process);
            let Some(taken) = self.try_enter(world, keys) else { return false };
            pass = taken;
            process
        };
        // A refusal loses the device; there is nobody to tell.
        let sent = self.send_under(at, &pass, self.world.hold(), process, context);
        let mut world = sent.unwrap_or_else(|_| self.world.hold());
        world.unless_waits(context);
        pass.leave(&mut world);
        true
    }

    /// Has what the first packet of a line lists on its way.
    fn place_first(&self, world: &mut World, context: Id<Context>) {
        let first = world.contexts.get(context).and_then(|it| it.line.first_listed());
        let Some(packet) = first else { return };
        let device = world.contexts.get(context).and_then(|it| world.devices.get(it.device));
        if device.is_some_and(|it| it.lost.is_none()) {
            self.place_listed(world, packet);
        }
    }

    /// Sends what can be sent, and comes back with the world held. The scheduler's key is held.
    fn send_under<'k>(
        &'k self,
        at: &mut Passive,
        pass: &Pass<'_>,
        mut world: Held<'k, World>,
        process: Id<Process>,
        context: Id<Context>,
    ) -> Result<Held<'k, World>, Refused> {
        while let Some((device, driver, sent)) = self.take_first(&mut world, context) {
            drop(world);
            if let Some(witness) = self.witness.get() {
                witness.works();
            }
            let Sent { node, fence, word, load } = sent;
            let index = node;
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            let answer = match &load {
                Load::Virtual(given) => {
                    let packet = &given.packet;
                    let submission = Submission {
                        context: &word,
                        node,
                        fence,
                        commands: packet.commands,
                        length: packet.length,
                        private: &packet.private,
                    };
                    driver.submit(at, pass, process, &submission)
                }
                Load::Listed(it) => self.send_listed(at, pass, process, (index, fence), &word, *it),
            };
            drop(word);
            world = self.world.hold();
            self.has_sent(&mut world, context);
            if let Err(why) = answer {
                // WINDOWS: a refused packet puts its device in error, and its fence counts as
                // done (documented for an invalid parameter).
                self.lose(&mut world, device, Loss::Refused);
                return Err(if why == Refusal::Invalid {
                    Refused::Removed(device.subject())
                } else {
                    Refused::Driver(why)
                });
            }
        }
        Ok(world)
    }

    /// Who sends for a context has left its driver: the context may go.
    fn has_sent(&self, world: &mut World, context: Id<Context>) {
        let it = &mut world.contexts[context];
        it.inside -= 1;
        let device = it.device;
        let adapter = world.devices[device].adapter;
        world.rest_context(adapter, context);
        self.wake(world);
    }

    /// Takes the first packet of a line, if it can be sent, and draws its fence. The context
    /// cannot go until whoever sends for it has sent it.
    fn take_first(
        &self,
        world: &mut World,
        context: Id<Context>,
    ) -> Option<(Id<Device>, Arc<crate::ddi::Driver>, Sent)> {
        self.settle_line(world, context);
        self.place_first(world, context);
        if !world.may_send(context) {
            return None;
        }
        let it = world.contexts.get_mut(context)?;
        let (word, index, device) = (it.word.clone()?, it.node, it.device);
        let adapter = world.devices.get(device)?.adapter;
        let on = world.adapters.get_mut(adapter)?;
        let (driver, node) = (on.driver.clone(), on.nodes.get_mut(index)?);
        let Some(Item::Packet(packet, load)) = it.line.line.pop_front() else { return None };
        it.line.sent.push_back(Item::Packet(packet, load.again()));
        it.inside += 1;
        node.given = node.given.next();
        let (fence, subject) = (node.given, node.subject());
        node.queue.push_back(Flying {
            fence,
            of: Some((context, device)),
            batch: None,
            lost: false,
        });
        let of = context.subject();
        self.log.emit(of, What::PacketSubmitted { packet, node: subject, fence });
        self.settle_line(world, context);
        Some((device, driver, Sent { node: index, fence, word, load }))
    }

    /// Tells a driver of a packet that will never be sent. Answers whether it did.
    pub(crate) fn try_cancel(&self, at: &mut Passive) -> bool {
        let pass; // Before the world, so that it is dropped after it.
        let (driver, word, context, load) = {
            let world = &mut *self.world.hold();
            let Some(context) = world.cancelled.front().map(|it| it.0) else { return false };
            let device = world.contexts[context].device;
            let adapter = world.devices[device].adapter;
            let driver = world.adapters.get(adapter).map(|it| it.driver.clone());
            let word = world.contexts.get(context).and_then(|it| it.word.clone());
            let Some((driver, word)) = driver.zip(word) else {
                if let Some((_, load)) = world.cancelled.pop_front() {
                    self.end_load(world, &load);
                }
                // There is nobody to tell any more; whoever ends the context does not wait.
                world.contexts[context].line.cancelling -= 1;
                self.wake(world);
                return true;
            };
            let keys = Class::Scheduler.keys(adapter, driver.generation, None);
            let Some(taken) = self.try_enter(world, keys) else { return false };
            pass = taken;
            let Some((_, load)) = world.cancelled.pop_front() else { return false };
            (driver, word, context, load)
        };
        match &load {
            Load::Virtual(given) => {
                let packet = &given.packet;
                let cancelled = Cancelled {
                    context: &word,
                    commands: packet.commands,
                    length: packet.length,
                    private: &packet.private,
                };
                // WINDOWS: a refusal stops the system (documented); the answer is judged.
                let _ = driver.cancel(at, &pass, &cancelled);
            }
            Load::Listed(packet) => {
                let buffer = self.world.hold().listed_buffer(*packet);
                if let Some((commands, length, private)) = buffer {
                    let private = &private;
                    let cancelled = Cancelled { context: &word, commands, length, private };
                    let _ = driver.cancel(at, &pass, &cancelled);
                }
            }
        }
        drop(word);
        let world = &mut *self.world.hold();
        self.end_load(world, &load);
        world.contexts[context].line.cancelling -= 1;
        self.wake(world);
        true
    }
}
