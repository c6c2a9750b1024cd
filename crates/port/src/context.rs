//! Devices, contexts, and the packets that go to the hardware.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::private::{Private, pointer};
use crate::status::answer;
use abi::HANDLE;
use abi::display::{
    DXGK_CREATECONTEXTFLAGS, DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE,
    DXGKARG_SUBMITCOMMANDVIRTUAL,
};
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    Answer, Blank, ContextOrder, DriverContext, DriverDevice, Refusal, Submission,
};
use std::ptr;

impl TableDriver {
    pub(crate) fn new_device(&self, word: Blank<'_, Device>) -> Answer<DriverDevice> {
        let call = self.table.DxgkDdiCreateDevice.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.told()?;
        // WINDOWS: `hDevice` goes in as the kernel's handle, for callbacks, and comes out as the
        // driver's.
        let name = kernel_name(&word);
        let mut args = DXGKARG_CREATEDEVICE { hDevice: name, ..DXGKARG_CREATEDEVICE::ZERO };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // outlives the call, also one that unwinds.
            unsafe { call(pointer(context), &raw mut args) }
        });

        answer(status)?;
        Ok(word.fill(given(name, args.hDevice)))
    }

    pub(crate) fn end_device(&self, device: &DriverDevice) -> Answer<()> {
        let call = self.table.DxgkDdiDestroyDevice.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        // SAFETY: By invariant 1 the function is there, and the word is the driver's own.
        let status = self.inside(&door, || unsafe { call(pointer(device.word())) });
        answer(status)
    }

    pub(crate) fn new_context(
        &self,
        device: &DriverDevice,
        order: &ContextOrder,
        word: Blank<'_, Context>,
    ) -> Answer<(DriverContext, u32)> {
        let call = self.table.DxgkDdiCreateContext.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        let mut private = Private::copy(&order.private)?;
        let name = kernel_name(&word); // In and out, as that of a device.
        // Its packets come by `DxgkDdiSubmitCommandVirtual`.
        let flags = DXGK_CREATECONTEXTFLAGS::VirtualAddressing;
        let system = if order.system { DXGK_CREATECONTEXTFLAGS::SystemContext } else { 0 };
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: name,
            NodeOrdinal: order.node,
            EngineAffinity: order.engine,
            Flags: DXGK_CREATECONTEXTFLAGS { Value: flags | system },
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGKARG_CREATECONTEXT::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there, and the word is the driver's own;
            // `args` and `private` outlive the call, also one that unwinds.
            unsafe { call(pointer(device.word()), &raw mut args) }
        });

        answer(status)?;
        let most = args.ContextInfo.DmaBufferPrivateDataSize;
        Ok((word.fill(given(name, args.hContext)), most))
    }

    pub(crate) fn end_context(&self, context: &DriverContext) -> Answer<()> {
        let call = self.table.DxgkDdiDestroyContext.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        // SAFETY: By invariant 1 the function is there, and the word is the driver's own.
        let status = self.inside(&door, || unsafe { call(pointer(context.word())) });
        answer(status)
    }

    pub(crate) fn give(&self, packet: &Submission<'_>) -> Answer<()> {
        let call = self.table.DxgkDdiSubmitCommandVirtual.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut private = Private::copy(packet.private)?;
        let args = DXGKARG_SUBMITCOMMANDVIRTUAL {
            hContext: pointer(packet.context.word()),
            DmaBufferVirtualAddress: packet.commands,
            DmaBufferSize: packet.length,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            DmaBufferUmdPrivateDataSize: private.size(),
            SubmissionFenceId: packet.fence.0,
            NodeOrdinal: packet.node,
            ..DXGKARG_SUBMITCOMMANDVIRTUAL::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and `private` outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw const args) }
        });

        answer(status)
    }
}

/// The kernel's name for what is being made, for the driver to use in callbacks.
pub(crate) fn kernel_name<T>(word: &Blank<'_, T>) -> HANDLE {
    ptr::without_provenance_mut(word.kernel_name())
}

/// The word that a driver gave. One that left the kernel's name where it was gave none.
pub(crate) fn given(name: HANDLE, after: HANDLE) -> usize {
    if after == name { 0 } else { after.expose_provenance() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stays_is_no_word() {
        let (name, word) = (ptr::without_provenance_mut(0x40), ptr::without_provenance_mut(0x1000));
        assert_eq!((given(name, name), given(name, word)), (0, 0x1000));
        assert_eq!(given(ptr::null_mut(), ptr::null_mut()), 0);
    }
}
