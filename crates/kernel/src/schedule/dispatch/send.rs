//! Sending queued packets to their nodes, and cancelling packets.

use super::{PacketPayload, QueueItem};
use crate::adapter::start::Adapter;
use crate::base::error::KernelError;
use crate::base::id_list::Id;
use crate::ddi::Driver;
use crate::ddi::miniport::{
    CancelCommandArgs, DriverContext, DriverError, SubmitCommandVirtualArgs,
};
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use crate::kernel::Kernel;
use crate::lifetime::context::Context;
use crate::lifetime::device::{Device, DeviceLoss};
use crate::lifetime::process::Process;
use crate::lock::StateGuard;
use crate::objects::device_access::EnteredDevice;
use crate::schedule::render::RenderPacket;
use crate::schedule::report::InFlightPacket;
use crate::schedule::submit::PacketData;
use crate::state::KernelState;
use flight::{EventKind, Fence, Passive, internal_error, invariant};
use std::sync::Arc;

/// A packet that is being submitted.
struct SubmittedPacket {
    device: Id<Device>,
    node: usize,
    fence: Fence,
    driver_handle: Arc<DriverContext>,
    contents: SubmittedContents,
}

/// What the driver is given of a packet: a copy, because the state is not locked meanwhile.
enum SubmittedContents {
    Virtual { commands: u64, length: u32, private: PacketData },
    Render(Id<RenderPacket>),
}

impl Kernel {
    /// Submits all ready packets of a context, waiting for the permit.
    pub(crate) fn submit_ready(
        &self,
        at: &mut Passive,
        process: Id<Process>,
        context: Id<Context>,
        guard: &EnteredDevice,
    ) -> Result<(), KernelError> {
        self.submit_ready_locked(at, self.state.lock(), process, context, guard).1
    }

    /// The same with the state locked, before and after.
    #[inline(always)]
    pub(crate) fn submit_ready_locked<'k>(
        &'k self,
        at: &mut Passive,
        mut state: StateGuard<'k, KernelState>,
        process: Id<Process>,
        context: Id<Context>,
        guard: &EnteredDevice,
    ) -> (StateGuard<'k, KernelState>, Result<(), KernelError>) {
        let driver = &guard.driver;
        loop {
            // The context may have ended meanwhile.
            let it = state.contexts.get(context);
            let Some(first) = it.and_then(|context| context.queue.first_packet()) else {
                return (state, Ok(()));
            };
            // What is checked below stays true while the state is locked; the page-ins of another
            // packet may evict what this one uses.
            let mut checked = first.render_packet().is_none();
            if !checked {
                self.page_in_first(&mut state, context);
            }
            if !state.is_next(context) {
                // A worker submits it when its dependencies are ready.
                self.make_runnable(&mut state, context);
                return (state, Ok(()));
            }
            // While this thread waited, the driver may have created more context allocations.
            if let Err(why) = self.plan_context_allocations(&mut state, guard.adapter, context) {
                // The packet is queued, and could never be submitted.
                self.device_lost(&mut state, guard.device, DeviceLoss::OutOfMemory);
                return (state, Err(why));
            }
            if !state.is_ready(context) {
                drop(state);
                checked = false;
                let about = context.subject();
                let what = |_: &KernelState| format!("what {about} saves into");
                let there = |state: &KernelState| {
                    !state.is_next(context) || state.is_ready(context) || state.has_more(context)
                };
                if !self.wait_until(at, about, what, there) {
                    state = self.state.lock();
                    self.make_runnable(&mut state, context);
                    return (state, Err(KernelError::Stuck));
                }
                state = self.state.lock();
            }
            let keys = ThreadingLevel::OneScheduler.keys(guard.adapter, driver.generation, process);
            let (permit, held) = if let Some(permit) = self.try_acquire_permit(&mut state, keys) {
                (permit, state)
            } else {
                checked = false;
                match self.acquire_permit_locked(at, state, keys) {
                    Ok(acquired) => acquired,
                    Err(why) => return (self.state.lock(), Err(why.into())),
                }
            };
            let sent =
                self.submit_with_permit(at, driver, &permit, held, (process, context), checked);
            // On failure the state is not locked.
            let (held, failure) = match sent {
                Ok(held) => (held, None),
                Err(why) => (self.state.lock(), Some(why)),
            };
            state = held;
            permit.release(&mut state);
            if let Some(why) = failure {
                return (state, Err(why));
            }
        }
    }

    /// Submits for each runnable context whose permit is free. Returns whether it did any work.
    pub(crate) fn try_submit(&self, at: &mut Passive) -> bool {
        let mut all = self.state.lock().by_priority();
        all.retain(|context| self.try_submit_context(at, *context));
        !all.is_empty()
    }

    fn try_submit_context(&self, at: &mut Passive, context: Id<Context>) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let (driver, process) = {
            let state = &mut *self.state.lock();
            self.page_in_first(state, context);
            if !state.is_next(context) {
                state.clear_runnable_if_empty(context);
                return false;
            }
            let owner = state.contexts[context].device;
            let it = &state.devices[owner];
            let (adapter, process) = (it.adapter, it.owner());
            if !state.is_ready(context) {
                // The driver may have created more context allocations.
                if state.has_more(context)
                    && self.plan_context_allocations(state, adapter, context).is_err()
                {
                    self.device_lost(state, owner, DeviceLoss::OutOfMemory);
                }
                return false;
            }
            let driver = state.adapters[adapter].driver.clone();
            let keys = ThreadingLevel::OneScheduler.keys(adapter, driver.generation, process);
            // A thread holds the permit: the context stays runnable.
            let Some(taken) = self.try_acquire_permit(state, keys) else { return false };
            permit = taken;
            (driver, process)
        };
        // A failure loses the device; there is no caller to return it to.
        let (state, of) = (self.state.lock(), (process, context));
        let sent = self.submit_with_permit(at, &driver, &permit, state, of, false);
        let mut state = sent.unwrap_or_else(|_| self.state.lock());
        state.clear_runnable_if_empty(context);
        permit.release(&mut state);
        true
    }

    /// Plans page-ins for the allocations of the front packet.
    #[inline]
    fn page_in_first(&self, state: &mut KernelState, context: Id<Context>) {
        // The context may have ended meanwhile.
        let Some(it) = state.contexts.get(context) else { return };
        // A packet without lists, another item, or no item is at the front.
        let first = it.queue.first_packet().and_then(PacketPayload::render_packet);
        let Some(packet) = first else { return };
        if state.devices[it.device].lost.is_none() {
            self.page_in_render_packet(state, packet);
        }
    }

    /// Submits all ready packets, and returns with the state locked. The caller holds the
    /// scheduler's permit key. `checked` is whether the first packet is known to be ready.
    #[inline(always)]
    fn submit_with_permit<'k>(
        &'k self,
        at: &mut Passive,
        driver: &Driver,
        permit: &DdiPermit<'_>,
        mut state: StateGuard<'k, KernelState>,
        (process, context): (Id<Process>, Id<Context>),
        mut checked: bool,
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        while std::mem::take(&mut checked) || self.has_ready_packet(&mut state, context) {
            // The context may be destroyed in the driver already.
            let Some(sent) = self.take_first_packet(&mut state, context) else { break };
            drop(state);
            if let Some(observer) = self.observer.get() {
                observer.packet_ran();
            }
            let SubmittedPacket { device, node: index, fence, driver_handle, contents } = sent;
            let result = match &contents {
                SubmittedContents::Virtual { commands, length, private } => {
                    let submission = SubmitCommandVirtualArgs {
                        context: &driver_handle,
                        node: u32::try_from(index).unwrap_or(u32::MAX),
                        fence,
                        commands: *commands,
                        length: *length,
                        private,
                    };
                    driver.submit_command_virtual(at, permit, process, &submission)
                }
                SubmittedContents::Render(it) => self.submit_render_packet(
                    at,
                    permit,
                    process,
                    (index, fence),
                    &driver_handle,
                    *it,
                ),
            };
            drop(driver_handle);
            state = self.state.lock();
            self.note_submitted(&mut state, driver.adapter, context);
            if let Err(why) = result {
                // WINDOWS: a packet that the driver fails puts its device in error, and its fence
                // counts as done (documented for an invalid parameter).
                self.device_lost(&mut state, device, DeviceLoss::SubmitFailed);
                return Err(if why == DriverError::Invalid {
                    KernelError::Removed(device.subject())
                } else {
                    KernelError::Driver(why)
                });
            }
        }
        Ok(state)
    }

    /// Notes that the submitting thread has left the driver, so that the context can end.
    fn note_submitted(&self, state: &mut KernelState, adapter: Id<Adapter>, context: Id<Context>) {
        // The context is removed already if the wait of its end for this call could not end.
        if let Some(it) = state.contexts.get_mut(context) {
            it.active_calls -= 1;
            if it.holds_extents() {
                state.release_idle_context(adapter, context);
            }
        }
        self.wake_all(state);
    }

    /// Whether the front item of a queue, when its waits and signals are processed, is a packet
    /// that can be submitted now.
    #[inline]
    fn has_ready_packet(&self, state: &mut KernelState, context: Id<Context>) -> bool {
        if !self.advance_queue(state, context) {
            return false;
        }
        self.page_in_first(state, context);
        state.may_submit(context)
    }

    /// Takes the front packet of a queue, which can be submitted, and assigns its fence. The
    /// context stays alive until the packet is submitted. Returns `None` if the driver has
    /// destroyed the context.
    #[inline(always)]
    fn take_first_packet(
        &self,
        state: &mut KernelState,
        context: Id<Context>,
    ) -> Option<SubmittedPacket> {
        let it = &mut state.contexts[context];
        let (driver_handle, index, device) = (it.driver_handle.clone()?, it.node, it.device);
        let on = &mut state.adapters[state.devices[device].adapter];
        let node = invariant(on.nodes.get_mut(index), "a packet is submitted to a node");
        let Some(item) = it.queue.pending.pop_front() else {
            internal_error("a packet is at the front of a queue that may be submitted")
        };
        let QueueItem::Packet(packet, payload) = &item else {
            internal_error("a packet is at the front of a queue that may be submitted")
        };
        let packet = *packet;
        let contents = match payload {
            PacketPayload::Virtual(given) => SubmittedContents::Virtual {
                commands: given.commands,
                length: given.length,
                private: given.copy_private(),
            },
            PacketPayload::Render(packet) => SubmittedContents::Render(*packet),
        };
        it.queue.submitted.push_back(item);
        it.active_calls += 1;
        it.queue.sent += 1;
        node.submitted = node.submitted.next();
        let (fence, subject) = (node.submitted, node.subject());
        state.schedule.packets_sent += 1;
        let sent = state.schedule.packets_sent;
        node.queue.push_back(InFlightPacket {
            fence,
            of: Some((context, device)),
            batch: None,
            lost: false,
            sent,
        });
        let of = context.subject();
        self.log.emit(of, || EventKind::PacketSubmitted { packet, node: subject, fence });
        self.advance_queue(state, context);
        Some(SubmittedPacket { device, node: index, fence, driver_handle, contents })
    }

    /// Notifies a driver of a packet that will never be submitted (`DxgkDdiCancelCommand`). Returns
    /// whether it did.
    pub(crate) fn try_cancel(&self, at: &mut Passive) -> bool {
        let permit; // Declared before the state guard, so that it is dropped after the guard.
        let (driver, driver_handle, context, payload) = {
            let state = &mut *self.state.lock();
            // No packet is cancelled.
            let Some(context) = state.schedule.cancelled.front().map(|pair| pair.0) else {
                return false;
            };
            let Some((adapter, driver, driver_handle)) = state.canceller_of(context) else {
                if let Some((_, payload)) = state.schedule.cancelled.pop_front() {
                    self.release_payload(state, &payload);
                }
                // The driver or the context is destroyed already: wake the thread that ends the
                // context.
                state.end_cancel(context);
                self.wake_all(state);
                return true;
            };
            let keys = ThreadingLevel::OneScheduler.keys(adapter, driver.generation, None);
            // A thread holds the permit: the packet stays in the list.
            let Some(taken) = self.try_acquire_permit(state, keys) else { return false };
            permit = taken;
            let front = state.schedule.cancelled.pop_front();
            let (_, payload) = invariant(front, "the first cancelled packet was just found");
            (driver, driver_handle, context, payload)
        };
        match &payload {
            PacketPayload::Virtual(packet) => {
                let cancelled = CancelCommandArgs {
                    context: &driver_handle,
                    commands: packet.commands,
                    length: packet.length,
                    private: &packet.private,
                };
                // WINDOWS: a failure stops the system (documented); the returned status is judged.
                let _ = driver.cancel_command(at, &permit, &cancelled);
            }
            PacketPayload::Render(packet) => {
                let buffer = self.state.lock().render_buffer(*packet);
                if let Some((commands, length, private)) = buffer {
                    let private = &private;
                    let cancelled =
                        CancelCommandArgs { context: &driver_handle, commands, length, private };
                    let _ = driver.cancel_command(at, &permit, &cancelled);
                }
            }
        }
        drop(driver_handle);
        let state = &mut *self.state.lock();
        self.release_payload(state, &payload);
        state.end_cancel(context);
        self.wake_all(state);
        true
    }
}

impl KernelState {
    /// The adapter, its driver, and the driver handle of a context whose packet is cancelled, unless
    /// the driver has destroyed the context.
    fn canceller_of(
        &self,
        context: Id<Context>,
    ) -> Option<(Id<Adapter>, Arc<Driver>, Arc<DriverContext>)> {
        let it = self.contexts.get(context)?;
        let adapter = self.devices.get(it.device)?.adapter;
        let driver = self.adapters.get(adapter)?.driver.clone();
        Some((adapter, driver, it.driver_handle.clone()?))
    }

    /// Counts down the packets of a context that the driver is to be told of.
    fn end_cancel(&mut self, context: Id<Context>) {
        // The context is removed already if its end could not wait for the packet.
        if let Some(it) = self.contexts.get_mut(context) {
            it.queue.cancelling -= 1;
        }
    }
}
