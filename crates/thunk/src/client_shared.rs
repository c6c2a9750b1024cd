//! A client in safe Rust: one allocation that is shared by its global handle, without the heap.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::client::{Client, check_status, size};
use crate::table;
use abi::kmt::{
    D3DKMT_CREATEALLOCATION, D3DKMT_CREATEALLOCATIONFLAGS, D3DKMT_DESTROYALLOCATION2,
    D3DKMT_OPENRESOURCE,
};
use abi::ukm::{D3DDDI_ALLOCATIONINFO, D3DDDI_OPENALLOCATIONINFO};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::Passive;

impl Client {
    /// `D3DKMTCreateAllocation` of a shared resource with one allocation. Returns the resource and
    /// its global handle. The driver may edit the private data.
    pub fn create_shared_one(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        private: &mut [u8],
    ) -> Result<(D3DKMT_HANDLE, D3DKMT_HANDLE), NTSTATUS> {
        let mut info = D3DDDI_ALLOCATIONINFO {
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: size(private),
            ..D3DDDI_ALLOCATIONINFO::ZERO
        };
        let flags = D3DKMT_CREATEALLOCATIONFLAGS::CreateResource
            | D3DKMT_CREATEALLOCATIONFLAGS::CreateShared;
        let mut args = D3DKMT_CREATEALLOCATION {
            hDevice: device,
            NumAllocations: 1,
            pAllocationInfo: &raw mut info,
            Flags: D3DKMT_CREATEALLOCATIONFLAGS { Value: flags },
            ..D3DKMT_CREATEALLOCATION::ZERO
        };
        // SAFETY: `info` and `private` outlive the call and have the lengths in `args`.
        let status = unsafe { table::D3DKMTCreateAllocation(&self.session, at, &raw mut args) };
        check_status(status).map(|()| (args.hResource, args.hGlobalShare))
    }

    /// `D3DKMTOpenResource` of a resource with one allocation, whose private data has the length of
    /// the buffer. Returns the resource.
    pub fn open_shared_one(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        global: D3DKMT_HANDLE,
        private: &mut [u8],
    ) -> Result<D3DKMT_HANDLE, NTSTATUS> {
        let mut info = D3DDDI_OPENALLOCATIONINFO::ZERO;
        let mut args = D3DKMT_OPENRESOURCE {
            hDevice: device,
            hGlobalShare: global,
            NumAllocations: 1,
            pOpenAllocationInfo: &raw mut info,
            pTotalPrivateDriverDataBuffer: private.as_mut_ptr().cast(),
            TotalPrivateDriverDataBufferSize: size(private),
            ..D3DKMT_OPENRESOURCE::ZERO
        };
        // SAFETY: `info` and `private` outlive the call and have the lengths in `args`.
        check_status(unsafe { table::D3DKMTOpenResource(&self.session, at, &raw mut args) })?;
        Ok(args.hResource)
    }

    /// `D3DKMTDestroyAllocation2` of a resource, without flags.
    pub fn destroy_resource(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        resource: D3DKMT_HANDLE,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_DESTROYALLOCATION2 {
            hDevice: device,
            hResource: resource,
            ..D3DKMT_DESTROYALLOCATION2::ZERO
        };
        // SAFETY: `args` outlives the call and has no list.
        check_status(unsafe { table::D3DKMTDestroyAllocation2(&self.session, at, &raw const args) })
    }
}
