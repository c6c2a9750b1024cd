//! Named traps: the entries of the callback tables that are not implemented.
//!
//! A driver that calls a trap gets `E_NOTIMPL`, and the log names the callback, so that the next
//! callback to implement is known.

use crate::adapter::AdapterState;
use crate::call_stack::{self, current_frame};
use abi::HRESULT;
use abi::hresult::E_NOTIMPL;
use abi::umd::{D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS};
use flight::EventKind;
use std::sync::atomic::Ordering::Relaxed;

/// The index of a slot. An unknown name does not compile, because all uses are constant.
const fn slot_index(slots: &[&str], name: &str) -> usize {
    let mut at = 0;
    while at < slots.len() {
        if same(slots[at], name) {
            return at;
        }
        at += 1;
    }
    panic!("unknown slot")
}

const fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Logs a missing callback, attributed to the driver that runs on this thread.
fn log_missing_callback(name: &'static str) -> HRESULT {
    let Some(frame) = current_frame() else { return E_NOTIMPL };
    if let Some(device) = call_stack::device(frame.handle) {
        note_caps_query(&device.adapter, name);
        device.log().emit(device.subject, || EventKind::EntryMissing { name: name.into() });
    } else if let Some(adapter) = call_stack::adapter(frame.handle) {
        note_caps_query(&adapter, name);
        adapter.run.log().emit(adapter.subject, || EventKind::EntryMissing { name: name.into() });
    }
    E_NOTIMPL
}

/// Records that a driver queried capabilities, although the query is not implemented.
fn note_caps_query(adapter: &AdapterState, name: &'static str) {
    if name == "pfnQueryAdapterInfoCb2" {
        adapter.caps_queried.store(true, Relaxed);
    }
}

/// The trap in slot `SLOT` of a device's table. It ignores its arguments.
extern "win64-unwind" fn missing_device_callback<const SLOT: usize>() -> HRESULT {
    log_missing_callback(D3DDDI_DEVICECALLBACKS::SLOTS[SLOT])
}

/// The trap in slot `SLOT` of an adapter's table. It ignores its arguments.
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

/// A device's table that contains only traps.
pub(crate) const DEVICE: D3DDDI_DEVICECALLBACKS = traps! { D3DDDI_DEVICECALLBACKS missing_device_callback {
    pfnSetDisplayModeCb, pfnPresentCb, pfnCreateOverlayCb, pfnUpdateOverlayCb, pfnFlipOverlayCb, pfnDestroyOverlayCb, pfnSetAsyncCallbacksCb, pfnSetDisplayPrivateDriverFormatCb, pfnPresentMultiPlaneOverlayCb, pfnLogUMDMarkerCb, pfnInvalidateCacheCb, pfnGetResourcePresentPrivateDriverDataCb, pfnUpdateAllocationPropertyCb, pfnOfferAllocations2Cb, pfnReclaimAllocations3Cb, pfnAcquireResourceCb, pfnReleaseResourceCb, pfnCreateHwContextCb, pfnDestroyHwContextCb, pfnCreateHwQueueCb, pfnDestroyHwQueueCb, pfnSubmitCommandToHwQueueCb, pfnSubmitWaitForSyncObjectsToHwQueueCb, pfnSubmitSignalSyncObjectsToHwQueueCb, pfnSubmitPresentBltToHwQueueCb, pfnSubmitPresentToHwQueueCb, pfnSubmitHistorySequenceCb,
} };

/// An adapter's table that contains only traps.
pub(crate) const ADAPTER: D3DDDI_ADAPTERCALLBACKS = traps! { D3DDDI_ADAPTERCALLBACKS missing_adapter_callback {
    pfnGetMultisampleMethodListCb, pfnQueryAdapterInfoCb2,
} };
