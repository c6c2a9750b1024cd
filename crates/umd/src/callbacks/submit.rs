//! Contexts and their submissions.

use super::{Callbacks, count};
use crate::args::RuntimeContext;
use crate::buffers::ContextBuffers;
use crate::result::{UmdResult, to_result};
use abi::D3DKMT_HANDLE;
use abi::ukm::{D3DDDI_CREATECONTEXTFLAGS, D3DDDI_ESCAPEFLAGS};
use abi::umd::{
    D3DDDICB_CREATECONTEXT, D3DDDICB_CREATECONTEXTVIRTUAL, D3DDDICB_DESTROYCONTEXT,
    D3DDDICB_ESCAPE, D3DDDICB_RENDER, D3DDDICB_RENDERFLAGS, D3DDDICB_SUBMITCOMMAND,
};
use core::ptr;

/// The used part of a context's buffers (`D3DDDICB_RENDER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RenderRequest {
    /// `CommandOffset`.
    pub offset: u32,
    /// `CommandLength`.
    pub length: u32,
    /// `NumAllocations`.
    pub allocation_count: u32,
    /// `NumPatchLocations`.
    pub patch_count: u32,
    /// `Flags`: `D3DDDICB_RENDERFLAGS`.
    pub flags: u32,
    /// The requested sizes of the next buffers, if the flags say so.
    pub resize: (u32, u32, u32),
}

impl Callbacks {
    /// `pfnCreateContextCb`, on engine 0 of a node, for packets with allocation lists.
    pub fn create_context(
        &self,
        node: u32,
        flags: u32,
        private: &mut [u8],
    ) -> UmdResult<(RuntimeContext, ContextBuffers)> {
        let mut args = D3DDDICB_CREATECONTEXT {
            NodeOrdinal: node,
            EngineAffinity: 1,
            Flags: D3DDDI_CREATECONTEXTFLAGS { Value: flags },
            pPrivateDriverData: bytes(private),
            PrivateDriverDataSize: count(private.len()),
            ..D3DDDICB_CREATECONTEXT::ZERO
        };
        to_result(self.call_mut(self.table().pfnCreateContextCb, &mut args))?;
        let buffers = ContextBuffers::new(
            self.inner.host,
            (args.pCommandBuffer, args.CommandBufferSize),
            (args.pAllocationList, args.AllocationListSize),
            (args.pPatchLocationList, args.PatchLocationListSize),
        );
        Ok((RuntimeContext(args.hContext.expose_provenance()), buffers))
    }

    /// `pfnCreateContextVirtualCb`, on engine 0 of a node.
    pub fn create_context_virtual(
        &self,
        node: u32,
        flags: u32,
        private: &mut [u8],
    ) -> UmdResult<RuntimeContext> {
        let mut args = D3DDDICB_CREATECONTEXTVIRTUAL {
            NodeOrdinal: node,
            EngineAffinity: 1,
            Flags: D3DDDI_CREATECONTEXTFLAGS { Value: flags },
            pPrivateDriverData: bytes(private),
            PrivateDriverDataSize: count(private.len()),
            ..D3DDDICB_CREATECONTEXTVIRTUAL::ZERO
        };
        to_result(self.call_mut(self.table().pfnCreateContextVirtualCb, &mut args))?;
        Ok(RuntimeContext(args.hContext.expose_provenance()))
    }

    /// `pfnDestroyContextCb`.
    pub fn destroy_context(&self, context: RuntimeContext) -> UmdResult<()> {
        let args =
            D3DDDICB_DESTROYCONTEXT { hContext: ptr::with_exposed_provenance_mut(context.0) };
        self.call_const(self.table().pfnDestroyContextCb, &args)
    }

    /// `pfnRenderCb`. Afterwards the context has the buffers that the runtime returned, also after
    /// a failure. Returns the number of queued packets.
    pub fn render(
        &self,
        context: RuntimeContext,
        buffers: &mut ContextBuffers,
        request: &RenderRequest,
    ) -> UmdResult<u32> {
        let new = |flag: u32, new_size: u32, now: u32| {
            if request.flags & flag == 0 { now } else { new_size }
        };
        let mut args = D3DDDICB_RENDER {
            CommandOffset: request.offset,
            CommandLength: request.length,
            NumAllocations: request.allocation_count,
            NumPatchLocations: request.patch_count,
            NewCommandBufferSize: new(
                D3DDDICB_RENDERFLAGS::ResizeCommandBuffer,
                request.resize.0,
                buffers.command_capacity(),
            ),
            NewAllocationListSize: new(
                D3DDDICB_RENDERFLAGS::ResizeAllocationList,
                request.resize.1,
                buffers.allocation_capacity(),
            ),
            NewPatchLocationListSize: new(
                D3DDDICB_RENDERFLAGS::ResizePatchLocationList,
                request.resize.2,
                buffers.patch_capacity(),
            ),
            Flags: D3DDDICB_RENDERFLAGS { Value: request.flags },
            hContext: ptr::with_exposed_provenance_mut(context.0),
            ..D3DDDICB_RENDER::ZERO
        };
        let result = self.call_mut(self.table().pfnRenderCb, &mut args);
        *buffers = ContextBuffers::new(
            self.inner.host,
            (args.pNewCommandBuffer, args.NewCommandBufferSize),
            (args.pNewAllocationList, args.NewAllocationListSize),
            (args.pNewPatchLocationList, args.NewPatchLocationListSize),
        );
        to_result(result).map(|()| args.QueuedBufferCount)
    }

    /// `pfnSubmitCommandCb`, with commands in private data, and the primaries they write.
    pub fn submit(
        &self,
        contexts: &[RuntimeContext],
        private: &[u8],
        primaries: &[D3DKMT_HANDLE],
    ) -> UmdResult<()> {
        let mut args = D3DDDICB_SUBMITCOMMAND::ZERO;
        // A list that is too long is truncated, but the true length is passed.
        args.BroadcastContextCount = count(contexts.len());
        for (to, from) in args.BroadcastContext.iter_mut().zip(contexts) {
            *to = ptr::with_exposed_provenance_mut(from.0);
        }
        args.NumPrimaries = count(primaries.len());
        for (to, from) in args.WrittenPrimaries.iter_mut().zip(primaries) {
            *to = *from;
        }
        args.pPrivateDriverData = private.as_ptr().cast_mut().cast();
        args.PrivateDriverDataSize = count(private.len());
        self.call_const(self.table().pfnSubmitCommandCb, &args)
    }

    /// `pfnEscapeCb`: the miniport writes its result to the same bytes.
    pub fn escape(&self, context: RuntimeContext, flags: u32, private: &mut [u8]) -> UmdResult<()> {
        let args = D3DDDICB_ESCAPE {
            hDevice: ptr::with_exposed_provenance_mut(self.inner.device),
            Flags: D3DDDI_ESCAPEFLAGS { Value: flags },
            pPrivateDriverData: bytes(private),
            PrivateDriverDataSize: count(private.len()),
            hContext: ptr::with_exposed_provenance_mut(context.0),
        };
        self.call_const(self.table().pfnEscapeCb, &args)
    }
}

fn bytes(private: &mut [u8]) -> *mut core::ffi::c_void {
    if private.is_empty() { ptr::null_mut() } else { private.as_mut_ptr().cast() }
}
