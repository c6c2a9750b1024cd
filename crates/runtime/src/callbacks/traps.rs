//! Named traps: what the slots of the tables hold that nothing serves yet.
//!
//! A driver that calls one is told that it is not implemented, and the log says which one it was:
//! so the next thing to build is known.

use crate::adapter::AdapterState;
use crate::call_stack::{self, current_frame};
use abi::HRESULT;
use abi::hresult::E_NOTIMPL;
use abi::umd::{D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS};
use flight::EventKind;
use std::sync::atomic::Ordering::Relaxed;

/// The number of a slot. A name that is not there does not compile, for all uses are constant.
const fn slot_index(slots: &[&str], name: &str) -> usize {
    let mut at = 0;
    while at < slots.len() {
        if same(slots[at], name) {
            return at;
        }
        at += 1;
    }
    panic!("no such slot")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Says that a callback is not there, where a driver is running that could have called it.
fn log_missing_callback(name: &'static str) -> HRESULT {
    let Some(frame) = current_frame() else { return E_NOTIMPL };
    if let Some(device) = call_stack::device(frame.handle) {
        note_caps_query(&device.adapter, name);
        device.log().emit(device.subject, EventKind::EntryMissing { name: name.into() });
    } else if let Some(adapter) = call_stack::adapter(frame.handle) {
        note_caps_query(&adapter, name);
        adapter.run.log().emit(adapter.subject, EventKind::EntryMissing { name: name.into() });
    }
    E_NOTIMPL
}

/// A driver that asks in vain what the hardware can do has asked.
fn note_caps_query(adapter: &AdapterState, name: &'static str) {
    if name == "pfnQueryAdapterInfoCb2" {
        adapter.caps_queried.store(true, Relaxed);
    }
}

/// What slot `SLOT` of a device's table holds. Its arguments are not looked at.
extern "win64-unwind" fn missing_device_callback<const SLOT: usize>() -> HRESULT {
    log_missing_callback(D3DDDI_DEVICECALLBACKS::SLOTS[SLOT])
}

/// What slot `SLOT` of an adapter's table holds. Its arguments are not looked at.
extern "win64-unwind" fn missing_adapter_callback<const SLOT: usize>() -> HRESULT {
    log_missing_callback(D3DDDI_ADAPTERCALLBACKS::SLOTS[SLOT])
}

macro_rules! traps {
    ($table:ident $trap:ident { $($name:ident),+ $(,)? }) => {
        $table {
            $($name: Some($trap::<{ slot_index($table::SLOTS, stringify!($name)) }>),)+
            ..$table::ZERO
        }
    };
}

/// A device's table with nothing but traps.
pub(crate) const DEVICE: D3DDDI_DEVICECALLBACKS = traps! { D3DDDI_DEVICECALLBACKS missing_device_callback {
    pfnSetDisplayModeCb, pfnPresentCb, pfnCreateOverlayCb, pfnUpdateOverlayCb, pfnFlipOverlayCb, pfnDestroyOverlayCb, pfnSetAsyncCallbacksCb, pfnSetDisplayPrivateDriverFormatCb, pfnPresentMultiPlaneOverlayCb, pfnLogUMDMarkerCb, pfnInvalidateCacheCb, pfnGetResourcePresentPrivateDriverDataCb, pfnUpdateAllocationPropertyCb, pfnOfferAllocations2Cb, pfnReclaimAllocations3Cb, pfnAcquireResourceCb, pfnReleaseResourceCb, pfnCreateHwContextCb, pfnDestroyHwContextCb, pfnCreateHwQueueCb, pfnDestroyHwQueueCb, pfnSubmitCommandToHwQueueCb, pfnSubmitWaitForSyncObjectsToHwQueueCb, pfnSubmitSignalSyncObjectsToHwQueueCb, pfnSubmitPresentBltToHwQueueCb, pfnSubmitPresentToHwQueueCb, pfnSubmitHistorySequenceCb,
} };

/// An adapter's table with nothing but traps.
pub(crate) const ADAPTER: D3DDDI_ADAPTERCALLBACKS = traps! { D3DDDI_ADAPTERCALLBACKS missing_adapter_callback {
    pfnGetMultisampleMethodListCb, pfnQueryAdapterInfoCb2,
} };
