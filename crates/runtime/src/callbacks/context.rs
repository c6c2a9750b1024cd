//! Contexts, escapes and capability queries.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

use super::submit::clear_allocation_list;
use crate::call_stack;
use crate::device::DeviceState;
use crate::ledger::Context;
use abi::HANDLE;
use abi::kmt::{
    D3DKMT_CREATECONTEXT, D3DKMT_CREATECONTEXTVIRTUAL, D3DKMT_DESTROYCONTEXT, D3DKMT_ESCAPE,
    D3DKMT_QUERYADAPTERINFO, KMTQAITYPE_UMDRIVERPRIVATE,
};
use abi::umd::{
    D3DDDICB_CREATECONTEXT, D3DDDICB_CREATECONTEXTVIRTUAL, D3DDDICB_DESTROYCONTEXT,
    D3DDDICB_ESCAPE, D3DDDICB_QUERYADAPTERINFO,
};
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

callback! {
    /// Queries the miniport's capabilities.
    query_adapter_info "pfnQueryAdapterInfoCb" adapter D3DDDICB_QUERYADAPTERINFO:
    |adapter, at, request| {
        adapter.caps_queried.store(true, Relaxed);
        let args = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter.kernel_handle,
            Type: KMTQAITYPE_UMDRIVERPRIVATE,
            pPrivateDriverData: request.pPrivateDriverData,
            PrivateDriverDataSize: request.PrivateDriverDataSize,
        };
        through!(D3DKMTQueryAdapterInfo, adapter, at, &raw const args)
    }
}

// WINDOWS: the first argument is the adapter's handle, the device's is in the structure
// (documented).
callback! {
    /// Passes data to the miniport.
    escape "pfnEscapeCb" adapter D3DDDICB_ESCAPE: |adapter, at, request| {
        let device = call_stack::device(request.hDevice.addr());
        let context = match &device {
            Some(device) if !request.hContext.is_null() => device.context(request.hContext, NAME)?,
            _ => 0,
        };
        let args = D3DKMT_ESCAPE {
            hAdapter: adapter.kernel_handle,
            hDevice: device.map_or(0, |state| state.kernel_handle),
            Flags: request.Flags,
            pPrivateDriverData: request.pPrivateDriverData,
            PrivateDriverDataSize: request.PrivateDriverDataSize,
            hContext: context,
            ..D3DKMT_ESCAPE::ZERO
        };
        through!(D3DKMTEscape, adapter, at, &raw const args)
    }
}

callback! {
    /// Creates a context whose packets have allocation lists, with its first buffers.
    create_context "pfnCreateContextCb" Submits mut D3DDDICB_CREATECONTEXT: |device, at, request| {
        let mut args = D3DKMT_CREATECONTEXT {
            hDevice: device.kernel_handle,
            NodeOrdinal: request.NodeOrdinal,
            EngineAffinity: request.EngineAffinity,
            Flags: request.Flags,
            pPrivateDriverData: request.pPrivateDriverData,
            PrivateDriverDataSize: request.PrivateDriverDataSize,
            ..D3DKMT_CREATECONTEXT::ZERO
        };
        through!(D3DKMTCreateContext, device, at, &raw mut args)?;
        request.pCommandBuffer = args.pCommandBuffer;
        request.CommandBufferSize = args.CommandBufferSize;
        request.pAllocationList = args.pAllocationList;
        request.AllocationListSize = args.AllocationListSize;
        request.pPatchLocationList = args.pPatchLocationList;
        request.PatchLocationListSize = args.PatchLocationListSize;
        request.hContext = record_context(device, Context {
            kernel: args.hContext,
            list: (args.pAllocationList.expose_provenance(), args.AllocationListSize),
            commands: (args.pCommandBuffer.expose_provenance(), args.CommandBufferSize),
            patches: (args.pPatchLocationList.expose_provenance(), args.PatchLocationListSize),
        });
        Ok(())
    }
}

callback! {
    /// Creates a context whose packets use GPU virtual addresses.
    create_context_virtual "pfnCreateContextVirtualCb" Submits mut D3DDDICB_CREATECONTEXTVIRTUAL:
    |device, at, request| {
        let mut args = D3DKMT_CREATECONTEXTVIRTUAL {
            hDevice: device.kernel_handle,
            NodeOrdinal: request.NodeOrdinal,
            EngineAffinity: request.EngineAffinity,
            Flags: request.Flags,
            pPrivateDriverData: request.pPrivateDriverData,
            PrivateDriverDataSize: request.PrivateDriverDataSize,
            ..D3DKMT_CREATECONTEXTVIRTUAL::ZERO
        };
        through!(D3DKMTCreateContextVirtual, device, at, &raw mut args)?;
        request.hContext = record_context(device, Context { kernel: args.hContext, ..Context::default() });
        Ok(())
    }
}

/// Records a context, and returns the driver's handle for it.
fn record_context(device: &DeviceState, context: Context) -> HANDLE {
    let name = call_stack::new_handle();
    let mut ledger = device.ledger();
    ledger.contexts.insert(name, context);
    ledger.had_context = true;
    drop(ledger);
    clear_allocation_list(context.list);
    ptr::without_provenance_mut(name)
}

callback! {
    /// Destroys a context.
    destroy_context "pfnDestroyContextCb" Submits const D3DDDICB_DESTROYCONTEXT:
    |device, at, request| {
        let args = D3DKMT_DESTROYCONTEXT { hContext: device.context(request.hContext, NAME)? };
        through!(D3DKMTDestroyContext, device, at, &raw const args)?;
        device.ledger().contexts.remove(&request.hContext.addr());
        Ok(())
    }
}
