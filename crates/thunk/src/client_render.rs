//! A client in safe Rust: packets with allocation lists.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, check_status, size};
use crate::table;
use abi::kmt::{D3DKMT_CREATECONTEXT, D3DKMT_RENDER, D3DKMT_RENDERFLAGS};
use abi::ukm::{D3DDDI_ALLOCATIONLIST, D3DDDI_PATCHLOCATIONLIST};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;
use std::ptr;

/// A context whose packets have allocation lists, with its current buffers.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext {
    /// The context.
    pub context: D3DKMT_HANDLE,
    /// Address and size of the command buffer.
    pub commands: (usize, u32),
    /// Address and length of the allocation list.
    pub list: (usize, u32),
    /// Address and length of the patch location list.
    pub patches: (usize, u32),
}

/// A packet with allocation lists. `Default` is empty.
#[derive(Clone, Debug, Default)]
pub struct RenderCommand {
    /// Its commands.
    pub commands: Vec<u8>,
    /// The offset of the commands in the command buffer.
    pub offset: u32,
    /// The allocations that it uses, each with whether it writes to it.
    pub list: Vec<(D3DKMT_HANDLE, bool)>,
    /// Its patch locations: an index of the allocation list and a byte offset.
    pub patches: Vec<(u32, u32)>,
    /// Flags of the call.
    pub flags: u32,
    /// The requested sizes of the next buffers, if the flags request a resize.
    pub resize: (u32, u32, u32),
    /// A command length to pass instead of the actual one.
    pub length: Option<u32>,
}

impl Client {
    /// `D3DKMTCreateContext`.
    pub fn create_context_with_lists(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        node: u32,
    ) -> Result<RenderContext, NTSTATUS> {
        self.create_context_with_lists_and_data(at, device, node, &[])
    }

    /// The same, with private data for the driver.
    pub fn create_context_with_lists_and_data(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        node: u32,
        private: &[u8],
    ) -> Result<RenderContext, NTSTATUS> {
        let mut args = D3DKMT_CREATECONTEXT {
            hDevice: device,
            NodeOrdinal: node,
            EngineAffinity: 1,
            pPrivateDriverData: private.as_ptr().cast_mut().cast(),
            PrivateDriverDataSize: size(private),
            ..D3DKMT_CREATECONTEXT::ZERO
        };
        // SAFETY: `args` and `private` outlive the call; `args` has the length of `private`.
        check_status(unsafe { table::D3DKMTCreateContext(&self.session, at, &raw mut args) })?;
        Ok(RenderContext {
            context: args.hContext,
            commands: (args.pCommandBuffer.expose_provenance(), args.CommandBufferSize),
            list: (args.pAllocationList.expose_provenance(), args.AllocationListSize),
            patches: (args.pPatchLocationList.expose_provenance(), args.PatchLocationListSize),
        })
    }

    /// `D3DKMTRender`: writes a packet into the buffers of a context and submits it. The context
    /// has new buffers afterwards, also after a failure.
    pub fn render(
        &self,
        at: &mut Passive,
        context: &mut RenderContext,
        packet: &RenderCommand,
    ) -> Result<u32, NTSTATUS> {
        self.write_packet(context, packet);
        self.render_written(at, context, packet)
    }

    /// Writes a packet into the buffers of a context, truncated to their sizes.
    pub fn write_packet(&self, context: &RenderContext, packet: &RenderCommand) {
        let entry = |pair: &(D3DKMT_HANDLE, bool)| {
            let list = D3DDDI_ALLOCATIONLIST { hAllocation: pair.0, Value: pair.1.into() };
            [list.hAllocation, list.Value]
        };
        let location = |pair: &(u32, u32)| {
            let (allocation, argument) = *pair;
            [allocation, 0, 0, 0, argument, argument]
        };
        let list: Vec<u8> = bytes(packet.list.iter().flat_map(entry));
        let patches: Vec<u8> = bytes(packet.patches.iter().flat_map(location));
        put(context.commands, 1, packet.offset as usize, &packet.commands);
        put(context.list, size_of::<D3DDDI_ALLOCATIONLIST>(), 0, &list);
        put(context.patches, size_of::<D3DDDI_PATCHLOCATIONLIST>(), 0, &patches);
    }

    /// The call alone, for a client that has written the buffers itself.
    pub fn render_written(
        &self,
        at: &mut Passive,
        context: &mut RenderContext,
        packet: &RenderCommand,
    ) -> Result<u32, NTSTATUS> {
        let count = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
        let length = packet.offset.saturating_add(count(packet.commands.len()));
        let (commands, list, patches) = packet.resize;
        let mut args = D3DKMT_RENDER {
            hContext: context.context,
            CommandOffset: packet.offset,
            CommandLength: packet.length.unwrap_or(length),
            AllocationCount: count(packet.list.len()),
            PatchLocationCount: count(packet.patches.len()),
            NewCommandBufferSize: commands,
            NewAllocationListSize: list,
            NewPatchLocationListSize: patches,
            Flags: D3DKMT_RENDERFLAGS { Value: packet.flags },
            ..D3DKMT_RENDER::ZERO
        };
        // SAFETY: `args` outlives the call.
        let status = unsafe { table::D3DKMTRender(&self.session, at, &raw mut args) };
        if !args.pNewCommandBuffer.is_null() {
            let (list, patches) = (args.pNewAllocationList, args.pNewPatchLocationList);
            *context = RenderContext {
                context: context.context,
                commands: (args.pNewCommandBuffer.expose_provenance(), args.NewCommandBufferSize),
                list: (list.expose_provenance(), args.NewAllocationListSize),
                patches: (patches.expose_provenance(), args.NewPatchLocationListSize),
            };
        }
        check_status(status).map(|()| args.QueuedBufferCount)
    }
}

/// Writes bytes into a buffer of `entries` entries, truncated to its size.
fn put((address, entries): (usize, u32), entry: usize, offset: usize, bytes: &[u8]) {
    let capacity = (entries as usize * entry).saturating_sub(offset);
    let bytes = &bytes[..bytes.len().min(capacity)];
    let to = ptr::with_exposed_provenance_mut::<u8>(address).wrapping_add(offset);
    // SAFETY: The kernel maps `entries * entry` bytes there until the context is destroyed, and
    // only this client writes to them until it renders.
    unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

fn bytes(words: impl Iterator<Item = u32>) -> Vec<u8> {
    words.flat_map(u32::to_ne_bytes).collect()
}
