//! Frees a resource or a list of allocations.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use super::submit::find_unsubmitted;
use crate::call_stack::current_frame;
use crate::device::DeviceState;
use crate::ledger::{FreedAllocations, ResourceEntry, ResourceStage};
use crate::result::hresult_from_status;
use abi::hresult::E_INVALIDARG;
use abi::kmt::D3DKMT_DESTROYALLOCATION2;
use abi::ukm::D3DDDICB_DESTROYALLOCATION2FLAGS;
use abi::umd::{D3DDDICB_DEALLOCATE, D3DDDICB_DEALLOCATE2};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::{EventKind, Passive, RuleId};
use kernel::Handle;
use smallvec::SmallVec;
use std::ptr;
use thunk::claims;

callback! {
    /// Frees a resource or a list of allocations.
    deallocate "pfnDeallocateCb" Allocates const D3DDDICB_DEALLOCATE: |device, at, request| {
        let all = D3DDDICB_DEALLOCATE2 {
            hResource: request.hResource,
            NumAllocations: request.NumAllocations,
            HandleList: request.HandleList,
            ..D3DDDICB_DEALLOCATE2::ZERO
        };
        deallocate_resource(device, at, NAME, &all)
    }
}

callback! {
    /// Frees a resource or a list of allocations, with flags.
    deallocate2 "pfnDeallocate2Cb" Allocates const D3DDDICB_DEALLOCATE2: |device, at, request| {
        deallocate_resource(device, at, NAME, request)
    }
}

fn deallocate_resource(
    device: &DeviceState,
    at: &mut Passive,
    name: &'static str,
    request: &D3DDDICB_DEALLOCATE2,
) -> Result<(), HRESULT> {
    let (named, count) = (!request.hResource.is_null(), request.NumAllocations);
    // WINDOWS: one page documents that the list is ignored beside a resource; Windows fails the
    // call if both are set (observed).
    let broken =
        (named && count > 0).then(|| format!("hResource and a list of {count} are both set"));
    if !device.judge(RuleId::UMD_DESTROY_023, name, broken) {
        return Err(E_INVALIDARG);
    }
    let resource = request.hResource.addr();
    let kernel = device.resource(request.hResource, name)?;
    let mut list: SmallVec<[D3DKMT_HANDLE; 4]> = SmallVec::new();
    if !named {
        // SAFETY: The driver's creator vouches for the list.
        let listed = unsafe { claims::read_small_list(request.HandleList, count as usize) };
        list = listed.map_err(hresult_from_status)?;
    }
    let ledger = device.ledger();
    if named {
        let group = ledger.resources.get(&resource);
        if !device.judge_double_free(name, group) {
            return Err(E_INVALIDARG);
        }
        list.extend_from_slice(group.map_or(&[], |resource_entry| &resource_entry.members));
    }
    let going = ledger.freed_allocations(&list);
    if !named && !device.judge_list(name, going) {
        return Err(E_INVALIDARG);
    }
    device.judge_use(name, going, find_unsubmitted(&ledger, &list));
    drop(ledger);
    if request.Flags.has(D3DDDICB_DESTROYALLOCATION2FLAGS::AssumeNotInUse) {
        device.judge_assume_not_in_use(name, &list);
    }
    if !named || kernel != 0 {
        let listed: &[D3DKMT_HANDLE] = if named { &[] } else { &list };
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: device.kernel_handle,
            hResource: kernel,
            phAllocationList: if listed.is_empty() { ptr::null() } else { listed.as_ptr() },
            AllocationCount: u32::try_from(listed.len()).unwrap_or(u32::MAX),
            Flags: request.Flags,
        };
        through!(D3DKMTDestroyAllocation2, device, at, &raw const args)?;
    }
    let mut ledger = device.ledger();
    if named {
        if let Some(group) = ledger.resources.get(&resource) {
            device.log().emit(group.subject, || EventKind::SurfacesReleased {});
        }
        ledger.mark_freed(resource);
        drop(ledger);
        // The resource was freed as a whole, by its handle. Other leftovers are judged when the
        // device is destroyed.
        let kept = [RuleId::UMD_DESTROY_005, RuleId::UMD_DESTROY_006, RuleId::UMD_DESTROY_007];
        for rule in kept {
            device.judge(rule, name, None);
        }
    } else {
        ledger.remove_listed(&list);
    }
    Ok(())
}

impl DeviceState {
    /// Judges the owners of the listed allocations. Returns whether the list may be freed.
    fn judge_list(&self, name: &'static str, going: FreedAllocations) -> bool {
        let shared = going.shared.map(|about| {
            format!("{about} is shared, and freed by a list instead of its hResource")
        });
        // WINDOWS: one page allows a list for allocations of a resource, if hResource follows; the
        // other does not (both documented). A note.
        let broken = going
            .grouped
            .map(|about| format!("the list has allocations of {about}, and hResource is NULL"));
        self.judge(RuleId::UMD_DESTROY_008, name, broken);
        self.judge(RuleId::UMD_DESTROY_009, name, shared)
    }

    /// Judges that a freed resource is not freed again. Returns whether the rule holds.
    fn judge_double_free(&self, name: &'static str, group: Option<&ResourceEntry>) -> bool {
        let again = group.filter(|resource_entry| resource_entry.stage == ResourceStage::Freed);
        let broken =
            again.map(|resource_entry| format!("{} was already freed", resource_entry.subject));
        let shared = group.is_some_and(ResourceEntry::is_shared);
        let rule = if shared { RuleId::UMD_DESTROY_009 } else { RuleId::UMD_DESTROY_010 };
        self.judge(rule, name, broken)
    }

    /// Judges that an allocation freed with `AssumeNotInUse` is in no submitted packet that is
    /// still pending.
    ///
    /// Packets of one context complete in order, so the number of pending packets identifies them.
    /// With several contexts the owner of the allocation is unknown, and nothing is judged.
    fn judge_assume_not_in_use(&self, name: &'static str, list: &[D3DKMT_HANDLE]) {
        let session = self.session();
        let ledger = self.ledger();
        let mut contexts = ledger.contexts.values().map(|context| context.kernel);
        let (Some(context), None) = (contexts.next(), contexts.next()) else { return };
        // After "device removed" nothing is queued. A driver that renames allocations on its own may
        // draw with unknown memory.
        if ledger.removed || ledger.has_standalone {
            return;
        }
        let resources = list.iter().filter_map(|number| ledger.resource_of(*number));
        let last = resources
            .filter_map(|resource_entry| Some((resource_entry.drawn?, resource_entry.subject)))
            .max_by_key(|pair| pair.0);
        let submitted = ledger.submissions;
        drop(ledger);
        let unfinished = session.kernel().unfinished(session.process(), Handle(context));
        let unfinished = u64::from(unfinished.unwrap_or(0));
        let used = last.filter(|(drawn, _)| *drawn < submitted && submitted - drawn <= unfinished);
        let broken = used.map(|(_, about)| {
            format!(
                "AssumeNotInUse is set, and {unfinished} packets are pending: one of them draws \
                 with {about}"
            )
        });
        self.judge(RuleId::UMD_DESTROY_012, name, broken);
    }

    /// Judges whether the freed allocations are in use: by the application, by a lock, or by
    /// commands that list one of them.
    fn judge_use(
        &self,
        name: &'static str,
        going: FreedAllocations,
        listed: Option<D3DKMT_HANDLE>,
    ) {
        let broken = match (listed, going.drawn) {
            (Some(it), _) => Some(format!(
                "allocation {it:#x} is freed, and commands that use it are in a buffer that was \
                 not submitted"
            )),
            (None, Some(about)) => Some(format!(
                "{about} is freed, and nothing was submitted since the application drew with it"
            )),
            (None, None) => None,
        };
        let locked = going.locked.map(|number| {
            let within = current_frame().map_or("", |call_frame| call_frame.name);
            format!("allocation {number:#x} is freed while it is locked, in {within}")
        });
        self.judge(RuleId::UMD_DESTROY_001, name, broken);
        self.judge(RuleId::UMD_DESTROY_011, name, locked);
    }
}
