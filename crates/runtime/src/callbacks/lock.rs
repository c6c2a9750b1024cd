//! Locks of allocations.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use super::submit::find_unsubmitted;
use crate::call_stack::current_frame;
use crate::device::DeviceState;
use crate::ledger::ResourceStage;
use crate::result::hresult_from_status;
use abi::D3DKMT_HANDLE;
use abi::kmt::{D3DKMT_LOCK, D3DKMT_LOCK2, D3DKMT_UNLOCK, D3DKMT_UNLOCK2};
use abi::ukm::D3DDDICB_LOCKFLAGS as Flags;
use abi::umd::{D3DDDICB_LOCK, D3DDDICB_LOCK2, D3DDDICB_UNLOCK, D3DDDICB_UNLOCK2};
use flight::RuleId;
use thunk::claims;

/// The callback that may rename an allocation.
pub(super) const LOCK: &str = "pfnLockCb";

callback! {
    /// Maps an allocation for the CPU. A discarding lock may return another allocation handle.
    lock "pfnLockCb" Submits mut D3DDDICB_LOCK: |device, at, request| {
        device.judge_lock(NAME, request);
        let mut args = D3DKMT_LOCK {
            hDevice: device.kernel_handle,
            hAllocation: request.hAllocation,
            PrivateDriverData: request.PrivateDriverData,
            NumPages: request.NumPages,
            pPages: request.pPages,
            Flags: request.Flags,
            ..D3DKMT_LOCK::ZERO
        };
        let refused = device.failure_injection.take_failure(NAME);
        let locked = match refused {
            Some(refused) => Err(refused),
            None => through!(D3DKMTLock, device, at, &raw mut args),
        };
        if request.Flags.has(Flags::Discard) && locked.is_err() {
            device.note_failed_discard(request.hAllocation);
        }
        locked?;
        request.pData = args.pData;
        request.GpuVirtualAddress = args.GpuVirtualAddress;
        if args.hAllocation != request.hAllocation {
            let mut ledger = device.ledger();
            let written = find_unsubmitted(&ledger, &[request.hAllocation]).is_some();
            ledger.rename(request.hAllocation, args.hAllocation, written);
            request.hAllocation = args.hAllocation;
        }
        device.note_lock(request.hAllocation);
        Ok(())
    }
}

callback! {
    /// Unlocks allocations.
    unlock "pfnUnlockCb" Submits const D3DDDICB_UNLOCK: |device, at, request| {
        let (list, count) = (request.phAllocations, request.NumAllocations);
        // SAFETY: The driver's creator vouches for the list.
        let list = unsafe { claims::read_small_list::<_, 4>(list, count as usize) }.map_err(hresult_from_status)?;
        let args = D3DKMT_UNLOCK {
            hDevice: device.kernel_handle,
            NumAllocations: count,
            phAllocations: list.as_ptr(),
        };
        device.judge_unlock(NAME, &list);
        through!(D3DKMTUnlock, device, at, &raw const args)?;
        device.note_unlocks(&list);
        Ok(())
    }
}

callback! {
    /// Maps an allocation for the CPU, without waiting.
    lock2 "pfnLock2Cb" Submits mut D3DDDICB_LOCK2: |device, at, request| {
        let mut args = D3DKMT_LOCK2 {
            hDevice: device.kernel_handle,
            hAllocation: request.hAllocation,
            Flags: request.Flags,
            ..D3DKMT_LOCK2::ZERO
        };
        through!(D3DKMTLock2, device, at, &raw mut args)?;
        request.pData = args.pData;
        device.note_lock(request.hAllocation);
        Ok(())
    }
}

callback! {
    /// Unlocks an allocation that `pfnLock2Cb` locked.
    unlock2 "pfnUnlock2Cb" Submits const D3DDDICB_UNLOCK2: |device, at, request| {
        let args = D3DKMT_UNLOCK2 { hDevice: device.kernel_handle, hAllocation: request.hAllocation };
        device.judge_unlock(NAME, &[request.hAllocation]);
        through!(D3DKMTUnlock2, device, at, &raw const args)?;
        device.note_unlocks(&[request.hAllocation]);
        Ok(())
    }
}

impl DeviceState {
    fn note_lock(&self, allocation: D3DKMT_HANDLE) {
        let ledger = &mut *self.ledger();
        let Some(piece) = ledger.allocations.get_mut(&allocation) else { return };
        piece.locks += 1;
        // CPU writes in a drawing call need no submission.
        let drawing = current_frame()
            .is_some_and(|call_frame| matches!(call_frame.name, "pfnBlt" | "pfnColorFill"));
        if !drawing {
            return;
        }
        // An allocation without a resource stands for the drawn resource: the driver has renamed
        // it.
        let resources =
            piece.resource.map_or_else(|| ledger.drawn_in_call.clone(), |index| vec![index]);
        for group in resources {
            if let Some(group) = ledger.resources.get_mut(&group) {
                group.drawn = None;
            }
        }
    }

    fn note_unlocks(&self, list: &[D3DKMT_HANDLE]) {
        let mut ledger = self.ledger();
        for allocation in list {
            if let Some(piece) = ledger.allocations.get_mut(allocation) {
                piece.locks = piece.locks.saturating_sub(1);
            }
        }
    }

    /// Records that a discarding lock failed.
    pub(super) fn note_failed_discard(&self, allocation: D3DKMT_HANDLE) {
        let ledger = &mut *self.ledger();
        ledger.failed_discard = Some((allocation, ledger.submissions));
    }

    /// Judges that a driver whose discarding lock failed submits its commands and then retries.
    fn judge_discard_retry(&self, name: &'static str, request: &D3DDDICB_LOCK) {
        if !request.Flags.has(Flags::Discard) {
            return;
        }
        let allocation = request.hAllocation;
        let ledger = &mut *self.ledger();
        let listed = find_unsubmitted(ledger, &[allocation]).is_some();
        let now = ledger.submissions;
        let refused = ledger.failed_discard.take_if(|pair| pair.0 == allocation);
        let again = refused.is_some_and(|pair| pair.1 == now) && (listed || ledger.has_drawn());
        let drawn = ledger
            .resource_of(allocation)
            .is_some_and(|resource_entry| resource_entry.drawn == Some(now));
        let claims = request.Flags.has(Flags::NoExistingReference) && (listed || drawn);
        let broken = if again {
            Some(format!(
                "a discarding lock of allocation {allocation:#x} failed, and is repeated without a \
                 submission in between"
            ))
        } else {
            claims.then(|| {
                format!(
                    "NoExistingReference is set, and commands that use allocation \
                     {allocation:#x} were not submitted"
                )
            })
        };
        self.judge(RuleId::UMD_LOCK_006, name, broken);
    }

    /// Judges how an allocation is locked.
    fn judge_lock(&self, name: &'static str, asked: &D3DDDICB_LOCK) {
        let flags = asked.Flags;
        let broken = (flags.has(Flags::IgnoreSync) && !flags.has(Flags::DonotWait))
            .then(|| "IgnoreSync is set and DonotWait is not: it has no effect".to_owned());
        self.judge(RuleId::UMD_LOCK_007, name, broken);
        let shared = {
            let ledger = self.ledger();
            let group = ledger.resource_of(asked.hAllocation);
            group
                .filter(|resource_entry| resource_entry.is_shared())
                .map(|resource_entry| resource_entry.subject)
        };
        let broken = shared
            .filter(|_| flags.has(Flags::Discard))
            .map(|about| format!("{about} is shared, and a lock discards it: it is not renamed"));
        self.judge(RuleId::UMD_RES_004, name, broken);
        self.judge_discard_retry(name, asked);
    }

    /// Judges that the driver does not unlock what the application still has locked.
    fn judge_unlock(&self, name: &'static str, list: &[D3DKMT_HANDLE]) {
        // The application no longer owns a resource that is being destroyed.
        let ends = |text: &str| matches!(text, "pfnDestroyResource" | "pfnDestroyDevice");
        if current_frame().is_some_and(|call_frame| ends(call_frame.name)) {
            return;
        }
        let ledger = self.ledger();
        // The application does not use a resource that it has destroyed or is destroying.
        let dropping = current_frame().filter(|call_frame| call_frame.name == "pfnDestroyResource");
        let dropping = dropping
            .and_then(|call_frame| ledger.resources.get(&call_frame.resource?))
            .map(|resource_entry| resource_entry.subject);
        let used = list.iter().find_map(|number| {
            ledger
                .allocations
                .get(number)
                .filter(|allocation_entry| allocation_entry.locks == 1)?;
            let group = ledger
                .resource_of(*number)
                .filter(|resource_entry| resource_entry.stage == ResourceStage::Live)?;
            if Some(group.subject) == dropping {
                return None;
            }
            // The surface of an allocation is known only if each surface has one allocation.
            let whole = group.members.len() == group.locks.len();
            let place =
                group.members.iter().position(|member| member == number).filter(|_| whole)?;
            let locks = group.locks.get(place).copied().unwrap_or(0);
            (locks > 0).then_some((*number, group.subject))
        });
        drop(ledger);
        let broken = used.map(|(it, about)| {
            format!("allocation {it:#x} is unlocked, and the application has {about} locked")
        });
        self.judge(RuleId::UMD_LOCK_004, name, broken);
    }
}
