//! Creating one allocation without a resource: the usual call. It takes the steps of `create.rs`
//! and `open.rs` in a row, without lists.
#![expect(clippy::inline_always, reason = "steps of the path of one allocation")]

use crate::base::digest::digest;
use crate::base::error::KernelError;
use crate::base::id_list::{Id, IdList};
use crate::ddi::miniport::{
    CallList, CreateAllocationArgs, NewAllocation, NewView, OpenAllocationArgs,
};
use crate::ddi::permit::{DdiPermit, PermitKeys, ThreadingLevel};
use crate::ddi::{CallDetails, no_details};
use crate::kernel::Kernel;
use crate::lifetime::create::CreateScope;
use crate::lifetime::open::{NewObjects, check_still_valid};
use crate::lifetime::process::ProcessId;
use crate::lock::StateGuard;
use crate::objects::allocation::Allocation;
use crate::objects::handle_table::{Handle, ReservedHandle};
use crate::objects::view::View;
use crate::state::KernelState;
use flight::{EventKind, Hex, Log, Passive};

/// A view that is live except for its handle, and the locked state.
type OpenedView<'k> = (Id<View>, StateGuard<'k, KernelState>);

impl Kernel {
    /// Creates one allocation without a resource, as [`Kernel::create_allocations`] does. The
    /// driver may edit the private data. Returns the handle of the allocation.
    pub fn create_allocation(
        &self,
        at: &mut Passive,
        process: ProcessId,
        device: Handle,
        private: &mut [u8],
    ) -> Result<Handle, KernelError> {
        let guard; // Declared before the state guard, so that it is dropped after the guard.
        let mut state = self.state.lock();
        guard = self.enter_working_device(&mut state, process, device)?;
        let name = self.reserve_handle(&mut state, process.0)?;
        let creating =
            CreateScope { process: process.0, device: &guard, joins: None, shared: None };
        let (adapter, generation) = (guard.adapter, guard.driver.generation);
        let keys = ThreadingLevel::Zero.keys(adapter, generation, process.0);
        let is_free = state.permits.acquire(&keys);
        drop(state);
        let permit = if is_free {
            DdiPermit::of_acquired(self, keys)
        } else {
            match self.wait_for_create_permit(at, &creating, keys) {
                Ok(permit) => permit,
                Err(why) => return self.refuse(process, name, why),
            }
        };
        match self.create_standalone(at, &permit, &creating, &name, private) {
            Ok((view, mut state)) => {
                let handle = name.handle();
                self.publish_handle(&mut state, process.0, name, view.into());
                permit.release(&mut state);
                guard.release(&mut state);
                Ok(handle)
            }
            Err(why) => {
                drop(permit);
                self.refuse(process, name, why)
            }
        }
    }

    /// Gives the reserved handle back. Returns the error of the call.
    #[cold]
    fn refuse(
        &self,
        process: ProcessId,
        name: ReservedHandle,
        why: KernelError,
    ) -> Result<Handle, KernelError> {
        self.cancel_handle(&mut self.state.lock(), process.0, name);
        Err(why)
    }

    /// Calls the driver, and returns with the state locked. On failure everything except the
    /// reserved handle is undone.
    #[inline(always)]
    fn create_standalone<'k>(
        &'k self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        name: &ReservedHandle,
        private: &mut [u8],
    ) -> Result<OpenedView<'k>, KernelError> {
        let CreateScope { process, device: guard, .. } = *creating;
        let driver = &guard.driver;
        let given = if self.log.is_enabled() { digest(private) } else { Hex(0) };
        let added = {
            let mut args = CreateAllocationArgs {
                allocations: CallList::new(),
                resource: None,
                private: &mut [],
            };
            args.allocations.push(NewAllocation::new(&mut *private, false));
            driver.create_allocations(at, permit, no_details(Some(process)), &mut args)?;
            args.allocations.first_mut().and_then(
                |NewAllocation { driver_handle, info, .. }| {
                    let driver_handle = driver_handle.take()?;
                    let mut state = self.state.lock();
                    let digests = || (given, given);
                    let number = self.add_allocation(
                        &mut state,
                        guard,
                        None,
                        driver_handle,
                        info,
                        false,
                        digests,
                    );
                    let fits = self.check_requirements(&state, guard.adapter, number, info);
                    Some((number, fits && !info.is_impossible(), state))
                },
            )
        };
        let (allocation, mut state) = match added {
            Some((allocation, true, state)) => (allocation, state),
            bad => {
                let made = bad.map(|(allocation, ..)| (allocation, None));
                let why = KernelError::BadAllocationInfo;
                return self.undo_standalone(at, creating, permit, made, why);
            }
        };
        let view = state.add_view(process, guard.device, None, name, allocation);
        drop(state);
        let opened = self.open_standalone(at, permit, creating, view, name.handle(), private);
        let live = opened.and_then(|mut state| {
            check_still_valid(&state, creating)?;
            state.publish_view(view, None, Some(private));
            Ok(state)
        });
        match live {
            Ok(state) => Ok((view, state)),
            Err(why) => {
                self.undo_standalone(at, creating, permit, Some((allocation, Some(view))), why)
            }
        }
    }

    /// Waits for a permit to create objects, and checks again afterwards whether that is possible.
    #[cold]
    fn wait_for_create_permit(
        &self,
        at: &mut Passive,
        creating: &CreateScope<'_>,
        keys: PermitKeys,
    ) -> Result<DdiPermit<'_>, KernelError> {
        let (permit, state) = self.acquire_permit_locked(at, self.state.lock(), keys)?;
        check_still_valid(&state, creating)?;
        drop(state);
        Ok(permit)
    }

    /// Calls `DxgkDdiOpenAllocation` for the view. Returns with the state locked.
    #[inline(always)]
    fn open_standalone<'k>(
        &'k self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        view: Id<View>,
        handle: Handle,
        private: &mut [u8],
    ) -> Result<StateGuard<'k, KernelState>, KernelError> {
        let guard = creating.device;
        let mut args = OpenAllocationArgs {
            device: guard.driver_handle()?,
            views: CallList::new(),
            create: true,
            read_only: false,
            private: &[],
        };
        args.views.push(NewView::new(handle, private));
        let log_arguments = |log: &Log| {
            let device = guard.subject();
            let (resource, create, batch) = (None, true, 1);
            log.emit(view.subject(), || EventKind::DdiOpens { device, resource, create, batch });
        };
        let details =
            CallDetails { process: Some(creating.process), log_arguments: &log_arguments };
        guard.driver.open_allocations(at, permit, details, &mut args)?;
        let driver_handle = args.views.first_mut().and_then(|view| view.driver_handle.take());
        let mut state = self.state.lock();
        self.set_opened(&mut state, guard, view, None, driver_handle);
        Ok(state)
    }

    /// Undoes a create: closes the view if it was opened, and destroys the allocation if there is
    /// one. Returns the error of the call.
    #[cold]
    fn undo_standalone<T>(
        &self,
        at: &mut Passive,
        creating: &CreateScope<'_>,
        permit: &DdiPermit<'_>,
        made: Option<(Id<Allocation>, Option<Id<View>>)>,
        why: KernelError,
    ) -> Result<T, KernelError> {
        let views: IdList<View> = made.and_then(|(_, view)| view).into_iter().collect();
        let allocations: IdList<Allocation> =
            made.map(|(allocation, _)| allocation).into_iter().collect();
        let objects = NewObjects { allocations, views, ..NewObjects::default() };
        self.undo_create(at, creating, permit, objects);
        Err(why)
    }
}
