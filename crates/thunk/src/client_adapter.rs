//! Calls of a client about adapters and displays, and sync files.
#![expect(unsafe_code, reason = "calls the entry points")]

use crate::client::{Client, check_status};
use crate::table;
use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CHECKOCCLUSION, D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP,
    D3DKMT_CREATESYNCFILE, D3DKMT_ENUMADAPTERS2, D3DKMT_OPENADAPTERFROMDEVICENAME,
    D3DKMT_OPENADAPTERFROMHDC, D3DKMT_QUERYADAPTERINFO, D3DKMT_SETVIDPNSOURCEOWNER,
    D3DKMT_VIDPNSOURCEOWNER_TYPE, KMTQUERYADAPTERINFOTYPE,
};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;
use std::ptr;

impl Client {
    /// `D3DKMTOpenAdapterFromHdc` with the number of a device context.
    pub fn open_device_context(
        &self,
        at: &mut Passive,
        context: usize,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut args = D3DKMT_OPENADAPTERFROMHDC {
            hDc: ptr::without_provenance_mut(context),
            ..D3DKMT_OPENADAPTERFROMHDC::ZERO
        };
        let (session, to) = (self.session(), &raw mut args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTOpenAdapterFromHdc(session, at, to) })?;
        Ok(args.hAdapter)
    }

    /// `D3DKMTOpenAdapterFromDeviceName` of the path of a device.
    pub fn open_device_name(
        &self,
        at: &mut Passive,
        path: &str,
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let path: Vec<u16> = path.encode_utf16().chain([0]).collect();
        let mut args = D3DKMT_OPENADAPTERFROMDEVICENAME {
            pDeviceName: path.as_ptr(),
            ..D3DKMT_OPENADAPTERFROMDEVICENAME::ZERO
        };
        let (session, to) = (self.session(), &raw mut args);
        // SAFETY: `args` and `path` outlive the call; `path` ends with a zero.
        check_status(unsafe { table::D3DKMTOpenAdapterFromDeviceName(session, at, to) })?;
        Ok(args.hAdapter)
    }

    /// `D3DKMTEnumAdapters2` with an array that has no elements. Returns the number of adapters.
    pub fn enumerate_into_nothing(&self, at: &mut Passive) -> Result<u32, NTSTATUS> {
        let mut list = [D3DKMT_ADAPTERINFO::ZERO; 1];
        let mut args = D3DKMT_ENUMADAPTERS2 { NumAdapters: 0, pAdapters: list.as_mut_ptr() };
        // SAFETY: `args` and `list` outlive the call, which may write no element.
        check_status(unsafe { table::D3DKMTEnumAdapters2(self.session(), at, &raw mut args) })?;
        Ok(args.NumAdapters)
    }

    /// `D3DKMTQueryAdapterInfo` of a type, with this buffer.
    pub fn query_adapter(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
        kind: KMTQUERYADAPTERINFOTYPE,
        buffer: &mut [u8],
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: kind,
            pPrivateDriverData: buffer.as_mut_ptr().cast(),
            PrivateDriverDataSize: u32::try_from(buffer.len()).unwrap_or(u32::MAX),
        };
        let (session, args) = (self.session(), &raw const args);
        // SAFETY: `args` and `buffer` outlive the call; the size in `args` is that of `buffer`, or
        // `u32::MAX`, which the entry point rejects.
        check_status(unsafe { table::D3DKMTQueryAdapterInfo(session, at, args) })
    }

    /// `D3DKMTSetVidPnSourceOwner` for the first display source.
    pub fn own_source(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        how: D3DKMT_VIDPNSOURCEOWNER_TYPE,
    ) -> Result<(), NTSTATUS> {
        let source = 0;
        let args = D3DKMT_SETVIDPNSOURCEOWNER {
            hDevice: device,
            pType: &raw const how,
            pVidPnSourceId: &raw const source,
            VidPnSourceCount: 1,
        };
        let (session, args) = (self.session(), &raw const args);
        // SAFETY: `args` and its lists outlive the call.
        check_status(unsafe { table::D3DKMTSetVidPnSourceOwner(session, at, args) })
    }

    /// `D3DKMTCheckVidPnExclusiveOwnership` of the first display source. It fails if the source is
    /// owned exclusively.
    pub fn check_source(&self, at: &mut Passive, adapter: D3DKMT_HANDLE) -> Result<(), NTSTATUS> {
        let args = D3DKMT_CHECKVIDPNEXCLUSIVEOWNERSHIP { hAdapter: adapter, VidPnSourceId: 0 };
        let (session, args) = (self.session(), &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTCheckVidPnExclusiveOwnership(session, at, args) })
    }

    /// `D3DKMTCheckOcclusion` of a window. It fails if the window is occluded.
    pub fn check_occlusion(&self, at: &mut Passive, window: usize) -> Result<(), NTSTATUS> {
        let args = D3DKMT_CHECKOCCLUSION { hWindow: ptr::without_provenance_mut(window) };
        let (session, args) = (self.session(), &raw const args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTCheckOcclusion(session, at, args) })
    }

    /// `D3DKMTCreateSyncFile`. Returns the file: an event, in a session whose events are the kernel's.
    pub fn create_sync_file(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        fence: D3DKMT_HANDLE,
        value: u64,
    ) -> Result<usize, NTSTATUS> {
        let mut args = D3DKMT_CREATESYNCFILE {
            hDevice: device,
            hMonitoredFence: fence,
            FenceValue: value,
            hSyncFile: 0,
        };
        let (session, to) = (self.session(), &raw mut args);
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTCreateSyncFile(session, at, to) })?;
        Ok(usize::try_from(args.hSyncFile).unwrap_or(0))
    }
}
