//! A client's queues of paging work, each with a fence that counts what is done.

use crate::device::Device;
use crate::device::Shown;
use crate::handle::Handle;
use crate::handle::ObjectId;
use crate::kernel::Kernel;
use crate::miniport::Generation;
use crate::operation::PAGE;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::start::Adapter;
use crate::store::Id;
use crate::sync::marks::Mark;
use crate::world::World;
use flight::{Passive, Run, What};
use smallvec::smallvec;

/// A queue of paging work (`hPagingQueue`).
pub(crate) struct Queue {
    pub(crate) device: Id<Device>,
    pub(crate) adapter: Id<Adapter>,
    pub(crate) handle: Handle,
    /// The name of its fence (`hSyncObject`).
    pub(crate) fence: Handle,
    /// The last value that work of it will signal.
    pub(crate) given: u64,
    /// The last one signalled.
    pub(crate) done: u64,
    /// Where the fence's value lies.
    run: Run,
    /// Where the client's CPU sees it.
    view: usize,
}

/// What a client gets for a new queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewQueue {
    /// The queue.
    pub queue: Handle,
    /// Its fence.
    pub fence: Handle,
    /// Where the CPU sees the fence's value.
    pub value: usize,
}

impl Kernel {
    /// Makes a queue (`D3DKMTCreatePagingQueue`).
    pub fn create_queue(
        &self,
        process: ProcessId,
        device: Handle,
        priority: u32,
    ) -> Result<NewQueue, Refused> {
        let inside = self.enter_device(process, device)?;
        let world = &mut *self.world.hold();
        let adapter = inside.adapter;
        let ram = world.memory(adapter).map(|it| it.1.ram.clone()).ok_or(Refused::NoVideoMemory)?;
        // WINDOWS: a driver of WDDM 1.x has none (observed).
        if inside.driver.generation == Generation::One {
            return Err(Refused::FirstGeneration(adapter.subject()));
        }
        let name = self.reserve(world, process.0)?;
        let fence = match self.reserve(world, process.0) {
            Ok(it) => it,
            Err(why) => {
                self.take_back(world, process.0, smallvec![name]);
                return Err(why);
            }
        };
        let page = ram.take(PAGE);
        let seen = page.and_then(|it| Some((it, ram.view(&[it])?)));
        let Some((run, view)) = seen else {
            if let Some(page) = page {
                ram.give_back(page);
            }
            self.take_back(world, process.0, smallvec![name, fence]);
            return Err(Refused::NoRoom { trim: 0 });
        };
        let made = NewQueue { queue: name.handle(), fence: fence.handle(), value: view };
        let number = world.queues.insert(Queue {
            device: inside.device,
            adapter,
            handle: made.queue,
            fence: made.fence,
            given: 0,
            done: 0,
            run,
            view,
        });
        let subject = number.subject();
        self.log.emit(subject, What::QueueCreated { device: inside.subject(), priority });
        self.publish(world, process.0, name, number.into());
        self.publish(world, process.0, fence, ObjectId::QueueFence(number));
        if let Some(it) = world.devices.get_mut(inside.device) {
            it.queues.insert(number);
        }
        Ok(made)
    }

    /// Ends a queue once its work is done (`D3DKMTDestroyPagingQueue`).
    pub fn destroy_queue(
        &self,
        at: &mut Passive,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(), Refused> {
        let number = {
            let world = self.world.hold();
            world.resolve::<Queue>(process, Argument::Queue, handle)?
        };
        self.end_queue(at, number);
        Ok(())
    }

    /// Waits for a queue's work, then forgets it.
    pub(crate) fn end_queue(&self, at: &mut Passive, number: Id<Queue>) {
        let about = number.subject();
        {
            let world = &mut *self.world.hold();
            // Another thread may have ended it meanwhile.
            let Some(it) = world.queues.get(number) else { return };
            let process = world.devices[it.device].owner();
            for name in [it.handle, it.fence] {
                self.unname(world, process, name);
            }
        }
        let over = |it: &World| it.queues.get(number).is_none_or(|it| it.done >= it.given);
        while !self.wait_until(at, about, |_| format!("the paging work of {about}"), over) {
            let adapter = self.world.hold().queues[number].adapter;
            if !self.lose_paging(adapter) {
                break; // It was lost before, and that did not help: nothing more can.
            }
        }
        let mut world = self.world.hold();
        // Another thread may have ended it meanwhile.
        let Some(it) = world.queues.take(number) else { return };
        if let Some(ram) = world.memory(it.adapter).map(|it| it.1.ram.clone()) {
            world.hide(it.device, Shown { ram, run: it.run, view: it.view });
        }
        if let Some(it) = world.devices.get_mut(it.device) {
            it.queues.remove(&number);
        }
        self.log.emit(about, What::QueueDestroyed {});
        // Who waited for more than it ever had to signal waits no longer.
        self.look_again_at(&mut world, Mark::Queue(number));
        self.let_go_on(&mut world);
        self.wake(&mut world);
    }

    pub(crate) fn signal_queue(&self, world: &mut World, number: Id<Queue>, value: u64) {
        // Another thread may have ended it meanwhile.
        let Some(it) = world.queues.get_mut(number) else { return };
        it.done = it.done.max(value);
        let (adapter, start) = (it.adapter, it.run.start);
        self.log.emit(number.subject(), What::QueueSignalled { value });
        if let Some((_, memory)) = world.memory(adapter) {
            memory.ram.write(start, &value.to_le_bytes());
        }
        self.look_again_at(world, Mark::Queue(number));
        self.let_go_on(world);
    }
}

impl World {
    /// The queue a client names, which must be of a device that works.
    pub(crate) fn queue_of(
        &self,
        process: ProcessId,
        handle: Handle,
    ) -> Result<(Id<Queue>, Id<Device>), Refused> {
        let number = self.resolve::<Queue>(process, Argument::Queue, handle)?;
        let device = self.queues[number].device;
        Ok((number, device))
    }

    /// The next value of a queue.
    pub(crate) fn next_value(&mut self, queue: Id<Queue>) -> u64 {
        self.queues.get_mut(queue).map_or(0, |it| {
            it.given += 1;
            it.given
        })
    }
}
