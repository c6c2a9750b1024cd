//! Destruction of resources and devices.
//!
//! A resource is released as a whole, once no unsubmitted command uses it. If the GPU still uses
//! it, the release is deferred to the next flush, or to the end of the device.
#![forbid(unsafe_code)]

use super::driver::SoftDevice;
use super::flaw::Flaw;
use super::resource::Group;
use abi::D3DKMT_HANDLE;
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_INVALIDARG, E_NOTIMPL, E_OUTOFMEMORY};
use abi::ukm::D3DDDICB_DESTROYALLOCATION2FLAGS as DestroyFlags;
use std::mem;
use umd::{DeallocateRequest, Resource, RuntimeContext, RuntimeResource, UmdResult};

/// The limit of resources that wait for their release.
const MAX_DEFERRED: usize = 8;

impl SoftDevice {
    pub(super) fn destroy_resource_entry(&mut self, resource: Resource) -> UmdResult<()> {
        self.group(resource)?;
        if self.flaw == Flaw::ReturnsIllegalDestroyError {
            return Err(E_NOTIMPL);
        }
        let late = self.flaw == Flaw::FreesBeforeFlush;
        if self.batch.has_group(resource.number) && !late {
            self.submit()?;
        }
        let mut group = self.groups.remove(&resource.number).ok_or(E_INVALIDARG)?;
        let gone = self.free_or_defer(&mut group);
        match gone {
            Ok(FreeOutcome::Freed) => {}
            Ok(FreeOutcome::Deferred) => self.deferred.push_back(group),
            Ok(FreeOutcome::Forgotten) => self.never_freed.push(group),
            Err(failure) => {
                // The resource still exists and can be destroyed again.
                self.groups.insert(resource.number, group);
                return Err(failure);
            }
        }
        if late {
            let _ = self.submit(); // Too late; the result is ignored.
        }
        if self.deferred.len() > MAX_DEFERRED {
            self.free_deferred()?;
        }
        if self.flaw == Flaw::FailsAfterFree { Err(E_OUTOFMEMORY) } else { Ok(()) }
    }

    fn free_or_defer(&mut self, group: &mut Group) -> UmdResult<FreeOutcome> {
        self.unlock_all(group)?;
        if self.flaw == Flaw::NeverFreesDeferred {
            return Ok(FreeOutcome::Forgotten);
        }
        if [Flaw::DefersFreeByHandle, Flaw::ReleasesInReverse].contains(&self.flaw) {
            return Ok(FreeOutcome::Deferred);
        }
        let all = [group.members(), group.renamed_allocations()].concat();
        let busy = all.iter().any(|number| self.is_busy(*number));
        let may_wait =
            !group.shared && !group.shown && self.flaw != Flaw::SetsAssumeNotInUseWrongly;
        if busy && may_wait {
            return Ok(FreeOutcome::Deferred);
        }
        self.release(group).map(|()| FreeOutcome::Freed)
    }

    /// An application may destroy a locked resource.
    fn unlock_all(&self, group: &mut Group) -> UmdResult<()> {
        for surface in &mut group.surfaces {
            if surface.at.take().is_some() {
                self.unlock_allocation(surface.locked)?;
            }
            surface.locks = 0;
            for it in mem::take(&mut surface.asynchronous).into_iter().filter(|number| *number != 0)
            {
                self.unlock_allocation(it)?;
            }
        }
        Ok(())
    }

    /// Unlocks a surface that the application has locked.
    pub(super) fn unlock_application_locks(&self) {
        let surfaces = self.groups.values().flat_map(|group| &group.surfaces);
        for it in surfaces.filter(|surface| surface.at.is_some()) {
            // On a failure the surface is locked again, so that nothing changes for the
            // application.
            let _ = self.unlock_allocation(it.locked);
            let _ = self.lock_allocation(it.locked, 0, it.layout.bytes);
        }
    }

    /// Releases a resource and the additional allocations of its surfaces.
    fn release(&mut self, group: &mut Group) -> UmdResult<()> {
        let (members, extras) = (group.members(), group.renamed_allocations());
        if !extras.is_empty() {
            self.free(
                &DeallocateRequest { list: extras.clone(), ..DeallocateRequest::default() },
                &extras,
            )?;
            for surface in &mut group.surfaces {
                surface.instances.retain(|instance| instance.member);
                (surface.current, surface.stage) = (0, None);
            }
        }
        if members.is_empty() {
            return Ok(());
        }
        self.release_members(group, &members)?;
        for it in members.iter().chain(&extras) {
            self.used.remove(it);
            self.shown.remove(it);
        }
        Ok(())
    }

    fn release_members(&mut self, group: &Group, members: &[D3DKMT_HANDLE]) -> UmdResult<()> {
        let whole = group.whole();
        let listed = |list: &[D3DKMT_HANDLE]| DeallocateRequest {
            list: list.to_vec(),
            ..DeallocateRequest::default()
        };
        let by_list = matches!(
            self.flaw,
            Flaw::FreesListLeaksResource
                | Flaw::FreesOneAllocationOnly
                | Flaw::FreesAllocationsIndividually
        );

        match self.flaw {
            Flaw::FreesListThenResource if !group.shared => {
                self.free(&listed(members), members)?;
                self.free(&whole, &[])
            }
            // Shared resources are not freed by list, and a resource with one surface is freed as a
            // whole.
            _ if by_list && group.shared => self.free(&whole, members),
            Flaw::FreesOneAllocationOnly | Flaw::FreesAllocationsIndividually
                if members.len() < 2 =>
            {
                self.free(&whole, members)
            }
            Flaw::FreesListLeaksResource => self.free(&listed(members), members),
            Flaw::FreesOneAllocationOnly => {
                let one = members.get(..1).unwrap_or_default();
                self.free(&listed(one), one)
            }
            Flaw::FreesAllocationsIndividually => {
                members.chunks(1).try_for_each(|one| self.free(&listed(one), one))
            }
            Flaw::FreesTwice => {
                self.free(&whole, members)?;
                self.released.push(whole); // Released again at the end.
                Ok(())
            }
            Flaw::FreesLocked => {
                let shapes = group.surfaces.first().map_or(0, |surface| surface.layout.bytes);
                if let Some(first) = members.first() {
                    self.wait_for(*first)?;
                    let _ = self.lock_allocation(*first, 0, shapes)?;
                }
                self.free(&whole, members)
            }
            Flaw::FreesSharedByList if group.shared => {
                let list = listed(members);
                self.free(&list, members).or_else(|_| self.free(&whole, members))
            }
            Flaw::FreesResourceWithList => {
                let both = DeallocateRequest { resource: group.runtime, list: members.to_vec() };
                self.free(&both, members).or_else(|_| self.free(&whole, members))
            }
            Flaw::FreesByOwnHandle | Flaw::DefersFreeByHandle => {
                let own =
                    DeallocateRequest { resource: RuntimeResource(group.handle), ..whole.clone() };
                self.free(&own, members).or_else(|_| self.free(&whole, members))
            }
            _ => self.free(&whole, members),
        }
    }

    /// One call of the runtime, with `AssumeNotInUse` where the driver knows that nothing uses the
    /// memory.
    fn free(&self, release: &DeallocateRequest, allocations: &[D3DKMT_HANDLE]) -> UmdResult<()> {
        if self.fence.is_none() {
            return self.callbacks.deallocate(release);
        }
        let used = |number: &D3DKMT_HANDLE| self.batch.has(*number) || self.is_busy(*number);
        let idle = !allocations.iter().any(used) || self.flaw == Flaw::SetsAssumeNotInUseWrongly;
        let flags = if idle { DestroyFlags::AssumeNotInUse } else { 0 };
        self.callbacks.deallocate2(release, flags)
    }

    /// Releases the deferred resources.
    pub(super) fn free_deferred(&mut self) -> UmdResult<()> {
        for it in mem::take(&mut self.released) {
            let _ = self.callbacks.deallocate(&it); // The repeated release fails.
        }
        if self.flaw == Flaw::ReleasesInReverse {
            self.deferred.make_contiguous().reverse();
        }
        while let Some(mut group) = self.deferred.pop_front() {
            if let Err(failure) = self.release(&mut group) {
                self.deferred.push_front(group);
                return Err(failure);
            }
        }
        Ok(())
    }

    /// Releases everything. Returns the first failure, but releases the rest nevertheless.
    pub(super) fn free_all(&mut self) -> UmdResult<()> {
        let mut answer = self.submit();
        answer = answer.and(self.free_deferred());
        for (_, mut group) in mem::take(&mut self.groups) {
            let unlocked = self.unlock_all(&mut group);
            answer = answer.and(unlocked).and(self.release(&mut group));
        }
        let own = self.destroy_own_objects();
        answer.and(own)
    }

    /// Releases the device's objects other than resources.
    pub(super) fn destroy_own_objects(&mut self) -> UmdResult<()> {
        let mut answer = Ok(());
        if let Some(fence) = self.fence.take() {
            answer = answer.and(self.callbacks.destroy_sync(fence.object));
        }
        let context = mem::take(&mut self.context);
        if context != RuntimeContext::default() && self.flaw != Flaw::LeaksContext {
            let other = (self.flaw == Flaw::DestroysContextTwice)
                .then(|| self.callbacks.create_context(0, 0, &mut []));
            answer = answer.and(self.callbacks.destroy_context(context));
            let other = other.transpose();
            // After a removal no other context can be created, which is forwarded.
            answer = answer.and(other.as_ref().map(|_| ()).map_err(|failure| *failure));
            if let Ok(Some((other, _))) = other {
                // It is already destroyed, and the other one was created only for this flaw.
                let ended = [context, other].map(|it| self.callbacks.destroy_context(it));
                let removed = ended.into_iter().find(|it| *it == Err(D3DDDIERR_DEVICEREMOVED));
                answer = answer.and(removed.unwrap_or(Ok(())));
            }
        }
        if let Some(queue) = self.queue.take() {
            answer = answer.and(self.callbacks.destroy_paging_queue(queue.queue));
        }
        answer
    }
}

/// The result of releasing a resource.
enum FreeOutcome {
    Freed,
    Deferred,
    Forgotten,
}
