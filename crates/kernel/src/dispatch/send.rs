//! What is first in a line goes to its node, or is cancelled.

use super::{QueueItem, PacketPayload, SubmittedPacket};
use crate::context::Context;
use crate::device::Device;
use crate::device::{RundownGuard, DeviceLoss};
use crate::gate::{ThreadingLevel, DdiPermit};
use crate::kernel::Kernel;
use crate::lock::StateGuard;
use crate::miniport::{CancelCommandArgs, DriverError, SubmitCommandVirtualArgs};
use crate::process::Process;
use crate::refused::KernelError;
use crate::schedule::InFlightPacket;
use crate::store::Id;
use crate::world::KernelState;
use flight::{Passive, EventKind};
use std::sync::Arc;

impl Kernel {
    /// Sends what can be sent of a context, waiting for the pass.
    pub(crate) fn submit_ready(
        &self,
        at: &mut Passive,
        process: Id<Process>,
        context: Id<Context>,
        inside: &RundownGuard<'_>,
    ) -> Result<(), KernelError> {
        let driver = &inside.driver;
        let mut world = self.state.lock();
        loop {
            self.page_in_first(&mut world, context);
            if !world.is_next(context) {
                // Somebody sends it when what it lacks is there.
                if world.contexts.get(context).is_some_and(|it| it.queue.has_packet_first()) {
                    self.make_runnable(&mut world, context);
                }
                return Ok(());
            }
            // While this parked, the driver may have made more for the context.
            if let Err(why) = self.plan_context_allocations(&mut world, inside.adapter, context) {
                // It is in line, and would never be sent.
                self.mark_lost(&mut world, inside.device, DeviceLoss::OutOfMemory);
                return Err(why);
            }
            if !world.is_ready(context) {
                drop(world);
                let about = context.subject();
                let what = |_: &KernelState| format!("what {about} saves into");
                let there = |it: &KernelState| {
                    !it.is_next(context) || it.is_ready(context) || it.has_more(context)
                };
                if !self.wait_until(at, about, what, there) {
                    self.make_runnable(&mut self.state.lock(), context);
                    return Err(KernelError::Stuck);
                }
                world = self.state.lock();
            }
            let keys = ThreadingLevel::OneScheduler.keys(inside.adapter, driver.generation, process);
            let (permit, held) = self.acquire_permit_locked(at, world, keys)?;
            // On a refusal the world is not held, and the pass gives its keys back itself.
            world = self.submit_with_permit(at, &permit, held, process, context)?;
            permit.release(&mut world);
        }
    }

    /// Sends for a context whose pass can be had. Answers whether it did something.
    pub(crate) fn try_submit(&self, at: &mut Passive) -> bool {
        let mut all = self.state.lock().by_priority();
        all.retain(|it| self.try_submit_context(at, *it));
        !all.is_empty()
    }

    fn try_submit_context(&self, at: &mut Passive, context: Id<Context>) -> bool {
        let permit; // Before the world, so that it is dropped after it.
        let process = {
            let world = &mut *self.state.lock();
            self.page_in_first(world, context);
            if !world.is_next(context) {
                world.clear_runnable_if_empty(context);
                return false;
            }
            let owner = world.contexts[context].device;
            let it = &world.devices[owner];
            let (adapter, process) = (it.adapter, it.owner());
            if !world.is_ready(context) {
                // The driver may have made more for the context.
                if world.has_more(context) && self.plan_context_allocations(world, adapter, context).is_err() {
                    self.mark_lost(world, owner, DeviceLoss::OutOfMemory);
                }
                return false;
            }
            let Some(generation) = world.adapters.get(adapter).map(|it| it.driver.generation)
            else {
                return false;
            };
            let keys = ThreadingLevel::OneScheduler.keys(adapter, generation, process);
            let Some(taken) = self.try_acquire_permit(world, keys) else { return false };
            permit = taken;
            process
        };
        // A refusal loses the device; there is nobody to tell.
        let sent = self.submit_with_permit(at, &permit, self.state.lock(), process, context);
        let mut world = sent.unwrap_or_else(|_| self.state.lock());
        world.clear_runnable_if_empty(context);
        permit.release(&mut world);
        true
    }

    /// Has what the first packet of a line lists on its way.
    fn page_in_first(&self, world: &mut KernelState, context: Id<Context>) {
        let first = world.contexts.get(context).and_then(|it| it.queue.first_render_packet());
        let Some(packet) = first else { return };
        let device = world.contexts.get(context).and_then(|it| world.devices.get(it.device));
        if device.is_some_and(|it| it.lost.is_none()) {
            self.page_in_render_packet(world, packet);
        }
    }

    /// Sends what can be sent, and comes back with the world held. The scheduler's key is held.
    fn submit_with_permit<'k>(
        &'k self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        mut world: StateGuard<'k, KernelState>,
        process: Id<Process>,
        context: Id<Context>,
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        while let Some((device, driver, sent)) = self.take_first_packet(&mut world, context) {
            drop(world);
            if let Some(witness) = self.observer.get() {
                witness.packet_ran();
            }
            let SubmittedPacket { node, fence, driver_handle: word, payload: load } = sent;
            let index = node;
            let node = u32::try_from(node).unwrap_or(u32::MAX);
            let answer = match &load {
                PacketPayload::Virtual(given) => {
                    let packet = &given.packet;
                    let submission = SubmitCommandVirtualArgs {
                        context: &word,
                        node,
                        fence,
                        commands: packet.commands,
                        length: packet.length,
                        private: &packet.private,
                    };
                    driver.submit_command_virtual(at, permit, process, &submission)
                }
                PacketPayload::Render(it) => self.submit_render_packet(at, permit, process, (index, fence), &word, *it),
            };
            drop(word);
            world = self.state.lock();
            self.note_submitted(&mut world, context);
            if let Err(why) = answer {
                // WINDOWS: a refused packet puts its device in error, and its fence counts as
                // done (documented for an invalid parameter).
                self.mark_lost(&mut world, device, DeviceLoss::SubmitFailed);
                return Err(if why == DriverError::Invalid {
                    KernelError::Removed(device.subject())
                } else {
                    KernelError::Driver(why)
                });
            }
        }
        Ok(world)
    }

    /// Who sends for a context has left its driver: the context may go.
    fn note_submitted(&self, world: &mut KernelState, context: Id<Context>) {
        let it = &mut world.contexts[context];
        it.active_calls -= 1;
        let device = it.device;
        let adapter = world.devices[device].adapter;
        world.release_idle_context(adapter, context);
        self.wake_all(world);
    }

    /// Takes the first packet of a line, if it can be sent, and draws its fence. The context
    /// cannot go until whoever sends for it has sent it.
    fn take_first_packet(
        &self,
        world: &mut KernelState,
        context: Id<Context>,
    ) -> Option<(Id<Device>, Arc<crate::ddi::Driver>, SubmittedPacket)> {
        self.advance_queue(world, context);
        self.page_in_first(world, context);
        if !world.may_submit(context) {
            return None;
        }
        let it = world.contexts.get_mut(context)?;
        let (word, index, device) = (it.driver_handle.clone()?, it.node, it.device);
        let adapter = world.devices.get(device)?.adapter;
        let on = world.adapters.get_mut(adapter)?;
        let (driver, node) = (on.driver.clone(), on.nodes.get_mut(index)?);
        let Some(QueueItem::Packet(packet, load)) = it.queue.pending.pop_front() else { return None };
        it.queue.submitted.push_back(QueueItem::Packet(packet, load.resubmission()));
        it.active_calls += 1;
        node.submitted = node.submitted.next();
        let (fence, subject) = (node.submitted, node.subject());
        node.queue.push_back(InFlightPacket {
            fence,
            of: Some((context, device)),
            batch: None,
            lost: false,
        });
        let of = context.subject();
        self.log.emit(of, EventKind::PacketSubmitted { packet, node: subject, fence });
        self.advance_queue(world, context);
        Some((device, driver, SubmittedPacket { node: index, fence, driver_handle: word, payload: load }))
    }

    /// Tells a driver of a packet that will never be sent. Answers whether it did.
    pub(crate) fn try_cancel(&self, at: &mut Passive) -> bool {
        let permit; // Before the world, so that it is dropped after it.
        let (driver, word, context, load) = {
            let world = &mut *self.state.lock();
            let Some(context) = world.cancelled.front().map(|it| it.0) else { return false };
            let device = world.contexts[context].device;
            let adapter = world.devices[device].adapter;
            let driver = world.adapters.get(adapter).map(|it| it.driver.clone());
            let word = world.contexts.get(context).and_then(|it| it.driver_handle.clone());
            let Some((driver, word)) = driver.zip(word) else {
                if let Some((_, load)) = world.cancelled.pop_front() {
                    self.release_payload(world, &load);
                }
                // There is nobody to tell any more; whoever ends the context does not wait.
                world.contexts[context].queue.cancelling -= 1;
                self.wake_all(world);
                return true;
            };
            let keys = ThreadingLevel::OneScheduler.keys(adapter, driver.generation, None);
            let Some(taken) = self.try_acquire_permit(world, keys) else { return false };
            permit = taken;
            let Some((_, load)) = world.cancelled.pop_front() else { return false };
            (driver, word, context, load)
        };
        match &load {
            PacketPayload::Virtual(given) => {
                let packet = &given.packet;
                let cancelled = CancelCommandArgs {
                    context: &word,
                    commands: packet.commands,
                    length: packet.length,
                    private: &packet.private,
                };
                // WINDOWS: a refusal stops the system (documented); the answer is judged.
                let _ = driver.cancel(at, &permit, &cancelled);
            }
            PacketPayload::Render(packet) => {
                let buffer = self.state.lock().render_buffer(*packet);
                if let Some((commands, length, private)) = buffer {
                    let private = &private;
                    let cancelled = CancelCommandArgs { context: &word, commands, length, private };
                    let _ = driver.cancel(at, &permit, &cancelled);
                }
            }
        }
        drop(word);
        let world = &mut *self.state.lock();
        self.release_payload(world, &load);
        world.contexts[context].queue.cancelling -= 1;
        self.wake_all(world);
        true
    }
}
