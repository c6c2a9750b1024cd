//! Devices, contexts and packets for the hardware.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::private_data::{PrivateData, pointer};
use crate::query::judge;
use crate::shown::{self, judge_private_data};
use crate::status::result_from_status;
use crate::system_handle::HandleKind;
use abi::HANDLE;
use abi::display::{
    DXGK_CONTEXTINFO, DXGK_CREATECONTEXTFLAGS, DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE,
    DXGKARG_SUBMITCOMMANDVIRTUAL,
};
use flight::RuleId;
use kernel::context::Context;
use kernel::device::Device;
use kernel::miniport::{
    CreateContextArgs, DriverContext, DriverDevice, DriverError, DriverResult, HandleSlot,
    SubmitCommandVirtualArgs,
};
use kernel::segment::SegmentSet;

impl TableDriver {
    pub(crate) fn call_create_device(
        &self,
        slot: HandleSlot<'_, Device>,
    ) -> DriverResult<DriverDevice> {
        let call = self.table.DxgkDdiCreateDevice.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        // WINDOWS: `hDevice` is the kernel's handle on input, for callbacks, and the driver's on
        // output.
        let name = HandleKind::Device.handle(slot.kernel_handle());
        let mut args = DXGKARG_CREATEDEVICE { hDevice: name, ..DXGKARG_CREATEDEVICE::ZERO };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                // outlives the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)?;
        Ok(slot.fill(driver_handle_from(name, args.hDevice)))
    }

    pub(crate) fn call_destroy_device(&self, device: &DriverDevice) -> DriverResult<()> {
        let call = self.table.DxgkDdiDestroyDevice.ok_or(DriverError::NoEntryPoint)?;
        let door = self.adapter()?.door;
        // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own.
        let status = self.run_driver(&door, || unsafe { call(pointer(device.as_raw())) });
        result_from_status(status)
    }

    pub(crate) fn call_create_context(
        &self,
        device: &DriverDevice,
        context_args: &CreateContextArgs,
        slot: HandleSlot<'_, Context>,
    ) -> DriverResult<(DriverContext, u32)> {
        let call = self.table.DxgkDdiCreateContext.ok_or(DriverError::NoEntryPoint)?;
        let adapter = self.adapter()?;
        let mut private = PrivateData::copy(&context_args.private)?;
        let name = HandleKind::Context.handle(slot.kernel_handle()); // In and out, like `hDevice`.
        // Its packets are submitted with `DxgkDdiSubmitCommandVirtual`.
        let flags = DXGK_CREATECONTEXTFLAGS::VirtualAddressing;
        let system = if context_args.system { DXGK_CREATECONTEXTFLAGS::SystemContext } else { 0 };
        let mut args = DXGKARG_CREATECONTEXT {
            hContext: name,
            NodeOrdinal: context_args.node,
            EngineAffinity: context_args.engine,
            Flags: DXGK_CREATECONTEXTFLAGS { Value: flags | system },
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGKARG_CREATECONTEXT::ZERO
        };

        let status = self.run_driver(&adapter.door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own;
                // `args` and `private` outlive the call, even if it unwinds.
                unsafe { call(pointer(device.as_raw()), args) }
            })
        });

        judge_private_data(&adapter.door, &private);
        result_from_status(status)?;
        judge_dma_segments(&adapter, args.Flags, &args.ContextInfo);
        let most = args.ContextInfo.DmaBufferPrivateDataSize;
        Ok((slot.fill(driver_handle_from(name, args.hContext)), most))
    }

    pub(crate) fn call_destroy_context(&self, context: &DriverContext) -> DriverResult<()> {
        let call = self.table.DxgkDdiDestroyContext.ok_or(DriverError::NoEntryPoint)?;
        let door = self.adapter()?.door;
        // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own.
        let status = self.run_driver(&door, || unsafe { call(pointer(context.as_raw())) });
        result_from_status(status)
    }

    pub(crate) fn call_submit_command_virtual(
        &self,
        packet: &SubmitCommandVirtualArgs<'_>,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiSubmitCommandVirtual.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut private = PrivateData::copy(packet.private)?;
        let args = DXGKARG_SUBMITCOMMANDVIRTUAL {
            hContext: pointer(packet.context.as_raw()),
            DmaBufferVirtualAddress: packet.commands,
            DmaBufferSize: packet.length,
            pDmaBufferPrivateData: private.pointer(),
            DmaBufferPrivateDataSize: private.size(),
            DmaBufferUmdPrivateDataSize: private.size(),
            SubmissionFenceId: packet.fence.0,
            NodeOrdinal: packet.node,
            ..DXGKARG_SUBMITCOMMANDVIRTUAL::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // `private` outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        judge_private_data(&door, &private);
        let answer = result_from_status(status);
        if answer.is_ok() {
            door.dma_buffers().keep_submission(packet.node, packet.fence, private);
        }
        answer
    }
}

/// Entry rule: DMA buffers come from aperture segments, and a context with virtual addressing names
/// at least one. An adapter without segments has none to name.
///
/// WINDOWS: a set with a memory segment makes the creation fail (documented), an empty set of a
/// context with virtual addressing ends in bug check 0x3B (observed by two driver projects). The
/// flight continues, so that the rest of the driver is judged too.
pub(crate) fn judge_dma_segments(
    adapter: &Adapter,
    flags: DXGK_CREATECONTEXTFLAGS,
    info: &DXGK_CONTEXTINFO,
) {
    if adapter.bases.is_empty() {
        return;
    }
    let services = adapter.door.services();
    let set = SegmentSet(info.DmaBufferSegmentSet);
    let memory: Vec<_> = set.iter().filter(|segment| !adapter.apertures.has(*segment)).collect();
    let broken = if set.is_empty() && flags.has(DXGK_CREATECONTEXTFLAGS::VirtualAddressing) {
        Some("DmaBufferSegmentSet is zero on a context with virtual addressing".to_owned())
    } else {
        memory.first().map(|segment| {
            format!("DmaBufferSegmentSet includes segment {segment}, which is not an aperture")
        })
    };
    judge(services, RuleId::KMD_CTX_002, "DxgkDdiCreateContext.ContextInfo", broken);
}

/// The driver handle that a driver returned. An unchanged kernel handle counts as none.
pub(crate) fn driver_handle_from(name: HANDLE, after: HANDLE) -> usize {
    if after == name { 0 } else { after.expose_provenance() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn a_name_that_stays_is_no_word() {
        let (kernel, driver) =
            (ptr::without_provenance_mut(0x40), ptr::without_provenance_mut(0x1000));
        assert_eq!(
            (driver_handle_from(kernel, kernel), driver_handle_from(kernel, driver)),
            (0, 0x1000)
        );
        assert_eq!(driver_handle_from(ptr::null_mut(), ptr::null_mut()), 0);
    }
}
