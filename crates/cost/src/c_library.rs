//! A client like one in C: it calls the exported functions, behind which is the global kernel.
#![expect(unsafe_code, reason = "calls functions as C does")]

use crate::ring::{Ring, TwoPassDriver};
use crate::{MeasureError, wanted};
use abi::kmt::{
    D3DKMT_ADAPTERINFO, D3DKMT_CLOSEADAPTER, D3DKMT_CREATEALLOCATION, D3DKMT_CREATEDEVICE,
    D3DKMT_DESTROYALLOCATION2, D3DKMT_DESTROYDEVICE, D3DKMT_ENUMADAPTERS2,
};
use abi::ukm::D3DDDI_ALLOCATIONINFO;
use abi::{D3DKMT_HANDLE, NTSTATUS};
use softgpu::format;

/// A device of this process, on the adapter of the C library.
pub(crate) struct CLibraryClient {
    adapter: D3DKMT_HANDLE,
    device: D3DKMT_HANDLE,
    private: Vec<u8>,
}

impl CLibraryClient {
    pub(crate) fn open() -> Result<Self, MeasureError> {
        let mut first = D3DKMT_ADAPTERINFO::ZERO;
        let mut list = D3DKMT_ENUMADAPTERS2 { NumAdapters: 1, pAdapters: &raw mut first };
        // SAFETY: `list` has one element and outlives the call.
        let status = unsafe { d3dkmt::D3DKMTEnumAdapters2(&raw mut list) };
        done("D3DKMTEnumAdapters2", status)?;
        let adapter = first.hAdapter;
        let mut args = D3DKMT_CREATEDEVICE { hAdapter: adapter, ..D3DKMT_CREATEDEVICE::ZERO };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTCreateDevice(&raw mut args) };
        done("D3DKMTCreateDevice", status)?;
        Ok(Self { adapter, device: args.hDevice, private: format::describe(4096) })
    }

    pub(crate) fn device(&self) -> D3DKMT_HANDLE {
        self.device
    }

    /// Destroys the device with its remaining objects.
    pub(crate) fn close(self) -> Result<(), MeasureError> {
        let args = D3DKMT_DESTROYDEVICE { hDevice: self.device };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTDestroyDevice(&raw const args) };
        done("D3DKMTDestroyDevice", status)?;
        let args = D3DKMT_CLOSEADAPTER { hAdapter: self.adapter };
        // SAFETY: The arguments outlive the call.
        let status = unsafe { d3dkmt::D3DKMTCloseAdapter(&raw const args) };
        done("D3DKMTCloseAdapter", status)
    }
}

impl TwoPassDriver<()> for CLibraryClient {
    type Name = D3DKMT_HANDLE;

    fn create(&mut self, _at: &mut ()) -> Result<D3DKMT_HANDLE, MeasureError> {
        let mut info = D3DDDI_ALLOCATIONINFO {
            pPrivateDriverData: self.private.as_mut_ptr().cast(),
            PrivateDriverDataSize: u32::try_from(self.private.len()).unwrap_or(0),
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let mut args = D3DKMT_CREATEALLOCATION {
            hDevice: self.device,
            NumAllocations: 1,
            pAllocationInfo: &raw mut info,
            ..D3DKMT_CREATEALLOCATION::ZERO
        };
        // SAFETY: The arguments, the one description and its data outlive the call.
        let status = unsafe { d3dkmt::D3DKMTCreateAllocation(&raw mut args) };
        done("D3DKMTCreateAllocation", status)?;
        Ok(info.hAllocation)
    }

    fn destroy(&mut self, _at: &mut (), name: D3DKMT_HANDLE) -> Result<(), MeasureError> {
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: self.device,
            phAllocationList: &raw const name,
            AllocationCount: 1,
            ..D3DKMT_DESTROYALLOCATION2::ZERO
        };
        // SAFETY: The arguments and the one handle outlive the call.
        let status = unsafe { d3dkmt::D3DKMTDestroyAllocation2(&raw const args) };
        done("D3DKMTDestroyAllocation2", status)
    }
}

/// Runs `count` pairs among `live` allocations, and nothing else.
pub(crate) fn counted(live: usize, count: usize) -> Result<(), MeasureError> {
    let mut client = CLibraryClient::open()?;
    let mut ring = Ring::with_room(live);
    ring.fill(&mut client, &mut ())?;
    ring.pairs(&mut client, &mut (), false, count)?;
    client.close()
}

pub(crate) fn done(call: &str, status: NTSTATUS) -> Result<(), MeasureError> {
    wanted(call, if abi::nt_success(status) { Ok(()) } else { Err(status) })
}
