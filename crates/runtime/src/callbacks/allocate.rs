//! Allocations for resources, and for the driver's own use.
#![expect(unsafe_code, reason = "a driver calls this, with its own pointer")]

use crate::call_stack::current_frame;
use crate::device::DeviceState;
use crate::ledger::{Ledger, ResourceEntry, ResourceStage};
use crate::result::hresult_from_status;
use abi::hresult::{E_INVALIDARG, E_NOTIMPL};
use abi::kmt::{D3DKMT_CREATEALLOCATION, D3DKMT_CREATEALLOCATIONFLAGS as Flags};
use abi::ukm::D3DDDI_ALLOCATIONINFO;
use abi::umd::{D3DDDI_RESOURCEFLAGS, D3DDDICB_ALLOCATE};
use abi::{D3DKMT_HANDLE, HRESULT};
use core::ffi::c_void;
use flight::{EventKind, Passive, RuleId};
use thunk::{DestroyAllocation, claims};

const NAME: &str = "pfnAllocateCb";

callback! {
    /// Creates allocations, with or without a resource.
    allocate "pfnAllocateCb" Allocates mut D3DDDICB_ALLOCATE: |device, at, request| {
        create_allocations(device, at, request)
    }
}

// WINDOWS: the list is of D3DDDI_ALLOCATIONINFO; a Direct3D 10 or later driver uses the other
// member of the union (our reading).
fn create_allocations(
    device: &DeviceState,
    at: &mut Passive,
    request: &mut D3DDDICB_ALLOCATE,
) -> Result<(), HRESULT> {
    let kernel = device.resource(request.hResource, NAME)?;
    let handle = (!request.hResource.is_null()).then(|| request.hResource.addr());
    let (runtime, shared) = {
        let ledger = device.ledger();
        let group = handle.and_then(|index| ledger.resources.get(&index));
        device.judge_allocating(&ledger, handle, group)?;
        let shared = group.is_some_and(|resource_entry| {
            resource_entry.surfaces.has_flag(D3DDDI_RESOURCEFLAGS::SharedResource)
        });
        (group.map(|resource_entry| resource_entry.surfaces.to_bytes()).unwrap_or_default(), shared)
    };
    let (infos, count) = (request.pAllocationInfo, request.NumAllocations as usize);
    // SAFETY: The driver's creator vouches for the list.
    let list = unsafe { claims::read_small_list::<_, 1>(infos.cast_const(), count) };
    let mut list = list.map_err(hresult_from_status)?;
    // SAFETY: As above. A list that cannot be written is detected before anything is created.
    unsafe { claims::write_list(infos, &list) }.map_err(hresult_from_status)?;
    let mut flags = 0;
    if handle.is_some() {
        flags |= Flags::CreateResource;
    }
    if shared {
        flags |= Flags::CreateShared;
    }
    let mut args = D3DKMT_CREATEALLOCATION {
        hDevice: device.kernel_handle,
        hResource: kernel,
        pPrivateRuntimeData: runtime.as_ptr().cast(),
        PrivateRuntimeDataSize: u32::try_from(runtime.len()).unwrap_or(u32::MAX),
        pPrivateDriverData: request.pPrivateDriverData,
        PrivateDriverDataSize: request.PrivateDriverDataSize,
        NumAllocations: request.NumAllocations,
        pAllocationInfo: list.as_mut_ptr(),
        Flags: Flags { Value: flags },
        ..D3DKMT_CREATEALLOCATION::ZERO
    };
    // WINDOWS: an allocation with pSystemMem uses the application's memory (documented). The kernel
    // does not allocate it, so a driver that requests it works there with the CPU.
    if list.iter().any(|info| !info.pSystemMem.is_null()) {
        device.log_missing("pfnAllocateCb with pSystemMem");
        return Err(E_NOTIMPL);
    }
    // Only a resource's private data is compared with other descriptions.
    let private_data = if handle.is_some() { private_data_of(request, &list)? } else { Vec::new() };
    through!(D3DKMTCreateAllocation, device, at, &raw mut args)?;
    // The result is in our copy of the list; the driver's memory may have changed by now. SAFETY:
    // The driver's creator vouches for the list.
    if let Err(error) = unsafe { claims::write_list(infos, &list) } {
        device.undo(
            at,
            (kernel, args.hResource),
            list.iter().map(|info| info.hAllocation).collect(),
        );
        return Err(hresult_from_status(error));
    }
    request.hKMResource = args.hResource;
    let mut ledger = device.ledger();
    ledger.add(handle, list.iter().map(|info| info.hAllocation));
    if let Some(group) = handle.and_then(|index| ledger.resources.get_mut(&index)) {
        (group.kernel_handle, group.allocate_count) = (args.hResource, group.allocate_count + 1);
        group.private_data.extend(private_data);
        if args.hGlobalShare != 0 {
            group.global_handle = args.hGlobalShare;
        }
        let allocations = u32::try_from(list.len()).unwrap_or(u32::MAX);
        device.log().emit(group.subject, || EventKind::SurfacesBacked { allocations });
    }
    Ok(())
}

/// The private data that the driver passes for allocations and for their resource.
fn private_data_of(
    request: &D3DDDICB_ALLOCATE,
    given: &[D3DDDI_ALLOCATIONINFO],
) -> Result<Vec<Vec<u8>>, HRESULT> {
    let whole = (request.pPrivateDriverData.cast_mut(), request.PrivateDriverDataSize);
    let each = given.iter().map(|info| (info.pPrivateDriverData, info.PrivateDriverDataSize));
    let all = std::iter::once(whole).chain(each);
    let read = |(data, size): (*mut c_void, u32)| {
        let (data, size) = (data.cast_const().cast::<u8>(), size as usize);
        // SAFETY: The driver's creator vouches for the data.
        unsafe { claims::read_list(data, size) }.map_err(hresult_from_status)
    };
    all.map(read).collect()
}

impl DeviceState {
    /// Destroys what was just created and could not be returned: a resource with all its
    /// allocations, or only the new allocations of a resource that existed `before`.
    fn undo(
        &self,
        at: &mut Passive,
        (before, finish_resource): (D3DKMT_HANDLE, D3DKMT_HANDLE),
        list: Vec<D3DKMT_HANDLE>,
    ) {
        let mut destroy =
            DestroyAllocation { device: self.kernel_handle, ..DestroyAllocation::default() };
        if before == 0 && finish_resource != 0 {
            destroy.resource = finish_resource;
        } else {
            destroy.list = list;
        }
        let _ = self.adapter.client.destroy(at, &destroy); // Freed with the device at the latest.
    }

    /// Judges an allocation call, for the resource in `named` or for none.
    fn judge_allocating(
        &self,
        ledger: &Ledger,
        handle: Option<usize>,
        named: Option<&ResourceEntry>,
    ) -> Result<(), HRESULT> {
        let within = current_frame().and_then(|call_frame| call_frame.resource);
        // The shared resource that the driver creates in this call, if any.
        let making = within
            .and_then(|index| ledger.resources.get(&index).map(|group| (index, group)))
            .filter(|(_, it)| it.stage == ResourceStage::Creating && it.is_shared() && !it.opened)
            .map(|(handle, it)| (handle, it.subject, it.allocate_count));
        let opened = named
            .filter(|resource_entry| resource_entry.opened)
            .map(|resource_entry| resource_entry.subject);
        let late = named
            .filter(|resource_entry| {
                resource_entry.is_shared()
                    && !resource_entry.opened
                    && resource_entry.stage != ResourceStage::Creating
            })
            .map(|resource_entry| resource_entry.subject);
        let broken =
            opened.map(|about| format!("{about} was opened, so it already has its memory"));
        let mut kept = self.judge(RuleId::UMD_RES_009, NAME, broken);
        if let Some((making, about, calls)) = making {
            let broken = if handle == Some(making) {
                (calls > 0)
                    .then(|| format!("{about} is shared, and gets allocations for a second time"))
            } else {
                Some(format!("{about} is shared, and hResource is not its handle"))
            };
            kept &= self.judge(RuleId::UMD_RES_003, NAME, broken);
        }
        let broken =
            late.map(|about| format!("{about} is shared, and gets allocations after its creation"));
        kept &= self.judge(RuleId::UMD_RES_004, NAME, broken);
        if kept { Ok(()) } else { Err(E_INVALIDARG) }
    }
}
