//! Until contexts have queues of their own: waits and signals as they come.

use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::sync::marks::Marks;
use crate::world::World;
use flight::{Kind, Passive};

impl Kernel {
    pub(crate) fn queue_wait(
        &self,
        _at: &mut Passive,
        process: ProcessId,
        context: Handle,
        wait: Marks,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve(process, Argument::Context, context, Kind::Context)?;
        if !self.try_pass(world, number, &wait) {
            world.sync.standing.push((number, wait));
        }
        Ok(())
    }

    pub(crate) fn queue_signal(
        &self,
        _at: &mut Passive,
        process: ProcessId,
        context: Handle,
        signal: Marks,
    ) -> Result<(), Refused> {
        let world = &mut *self.world.hold();
        let number = world.resolve(process, Argument::Context, context, Kind::Context)?;
        self.signal_marks(world, number, &signal);
        Ok(())
    }

    pub(crate) fn advance(&self, world: &mut World, context: u32) {
        let Some(place) = world.sync.standing.iter().position(|it| it.0 == context) else { return };
        let (_, wait) = world.sync.standing.remove(place);
        if !self.try_pass(world, context, &wait) {
            world.sync.standing.insert(place, (context, wait));
        }
    }
}
