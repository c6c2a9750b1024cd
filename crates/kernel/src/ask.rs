//! Questions of user mode: what a driver tells its other half about the hardware.

use crate::gate::Class;
use crate::handle::Handle;
use crate::kernel::Kernel;
use crate::process::ProcessId;
use crate::refused::{Argument, Refused};
use crate::start::Adapter;
use crate::world::World;
use flight::Passive;

impl Kernel {
    /// Has a driver answer its user-mode half, in place of what that sent
    /// (`D3DKMTQueryAdapterInfo`, type `KMTQAITYPE_UMDRIVERPRIVATE`).
    ///
    /// WINDOWS: the entry is of level zero (documented). It may overlap a change of power
    /// (documented); here it waits for that like any other call (our decision).
    pub fn tell_user_mode(
        &self,
        at: &mut Passive,
        process: ProcessId,
        adapter: Handle,
        data: &mut [u8],
    ) -> Result<(), Refused> {
        let world = self.world.hold();
        let number = world.resolve::<Adapter>(process, Argument::Adapter, adapter)?;
        let gone = Refused::Removed(number.subject());
        let running = |world: &World| world.adapters.get(number).and_then(Adapter::running);
        let driver = running(&world).ok_or(gone.clone())?;
        drop(world);
        let pass = self.enter(at, Class::Zero.keys(number, driver.generation, process.0))?;
        // Who parked looks again.
        running(&self.world.hold()).ok_or(gone)?;
        Ok(driver.tell_user_mode(at, &pass, process.0, data)?)
    }
}
