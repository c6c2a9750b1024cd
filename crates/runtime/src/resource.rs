//! Resources: created, opened and destroyed through a driver.
#![expect(unsafe_code, reason = "calls a driver through its tables")]

use crate::call_stack;
use crate::device::{Device, DriverCallGuard};
use crate::identical::set_reserved_members;
use crate::ledger::{ResourceEntry, ResourceStage};
use crate::resource_description::{Resource, ResourceDescription, Surface};
use crate::result::{self, hresult_from_status};
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DERR_NOTAVAILABLE, D3DERR_OUTOFVIDEOMEMORY, E_INVALIDARG,
    E_OUTOFMEMORY, succeeded,
};
use abi::ukm::D3DDDI_OPENALLOCATIONINFO;
use abi::umd::{
    D3DDDI_DEVICEFUNCS, D3DDDI_RESOURCEFLAGS as Flags, D3DDDI_RESOURCEFLAGS2, D3DDDI_SURFACEINFO,
    D3DDDIARG_CREATERESOURCE, D3DDDIARG_CREATERESOURCE2, D3DDDIARG_OPENRESOURCE,
    D3DDDIPOOL_SYSTEMMEM,
};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::{EventKind, Kind, Passive, RuleId};
use std::collections::BTreeSet;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

impl ResourceEntry {
    /// Whether the application has it, even if the driver has freed its memory.
    pub(crate) fn is_application_owned(&self) -> bool {
        matches!(self.stage, ResourceStage::Live | ResourceStage::Freed)
    }
}

impl Device {
    /// Creates a group of surfaces (`CreateResource`, or `CreateResource2` if one of its flags is
    /// set).
    pub fn create_resource(
        &self,
        at: &mut Passive,
        wanted: &ResourceDescription,
    ) -> Result<Resource, HRESULT> {
        let number = self.0.adapter.run.surfaces.fetch_add(1, Relaxed) + 1;
        let handle = call_stack::new_handle();
        let mut system: Vec<Box<[u8]>> = Vec::new();
        if wanted.pool == D3DDDIPOOL_SYSTEMMEM {
            let memory =
                wanted.surfaces.iter().map(|surface| surface.memory()).collect::<Option<_>>();
            system = memory.ok_or(E_OUTOFMEMORY)?;
        }
        let memory: Vec<*mut u8> = system.iter_mut().map(|bytes| bytes.as_mut_ptr()).collect();
        let info = |(place, it): (usize, &Surface)| D3DDDI_SURFACEINFO {
            Width: it.width,
            Height: it.height,
            Depth: 1,
            pSysMem: memory.get(place).map_or(ptr::null(), |byte| byte.cast_const().cast()),
            SysMemPitch: if memory.is_empty() { 0 } else { it.width.saturating_mul(4) },
            SysMemSlicePitch: 0,
        };
        let list: Vec<D3DDDI_SURFACEINFO> = wanted.surfaces.iter().enumerate().map(info).collect();
        let group = ResourceEntry {
            subject: Kind::Surfaces.subject(number),
            surfaces: wanted.clone(),
            driver_handle: 0,
            kernel_handle: 0,
            global_handle: 0,
            members: Vec::new(),
            stage: ResourceStage::Creating,
            opened: false,
            allocate_count: 0,
            list_free_count: 0,
            private_data: Vec::new(),
            locks: vec![0; wanted.surfaces.len()],
            written: BTreeSet::new(),
            drawn: None,
            system_memory: system,
        };
        self.0.ledger().insert(handle, group);
        let name = if wanted.flags2 == 0 { "pfnCreateResource" } else { "pfnCreateResource2" };
        let inside = self.0.enter(at, (name, Some(handle))).inspect_err(|_| {
            self.0.ledger().remove(handle); // The driver was not called for it.
        })?;
        let (answer, driver) = call_create_resource(at, &inside, handle, wanted, &list);
        let failed = inside.callback_errors();
        self.judge_system_memory(wanted, &failed, answer);
        if succeeded(answer) && failed.is_empty() {
            self.judge_identical(handle);
        }
        self.judge_kind(wanted, &failed, answer);
        self.finish_resource(("pfnCreateResource", handle), &failed, answer, driver)
    }

    /// Records the outcome of a driver's create or open call.
    fn finish_resource(
        &self,
        (name, handle): (&'static str, usize),
        failed: &[HRESULT],
        answer: HRESULT,
        driver: usize,
    ) -> Result<Resource, HRESULT> {
        let inner = &self.0;
        if !succeeded(answer) {
            let mut ledger = inner.ledger();
            // Some buffers have a specific error result that hides the reason.
            let buffer = ledger.resources.get(&handle).is_some_and(ResourceEntry::is_buffer);
            let propagated = failed.contains(&answer) || (buffer && answer == D3DERR_NOTAVAILABLE);
            let broken = failed.last().filter(|_| !propagated).map(|value| {
                let (private_data, answer) =
                    (result::hresult_name(*value), result::hresult_name(answer));
                format!("a callback returned {private_data}, and {name} returns {answer}")
            });
            inner.judge(RuleId::UMD_RES_010, name, broken);
            // No destroy call follows: whatever the driver leaves of it is leaked.
            let left = ledger
                .resources
                .get(&handle)
                .is_some_and(|resource_entry| resource_entry.kernel_handle != 0);
            if left {
                ledger.mark_destroyed(handle);
            } else {
                ledger.remove_resource(handle);
            }
            return Err(answer);
        }
        self.judge_ignored_error(name, handle, failed);
        let broken = {
            let ledger = inner.ledger();
            let twin = ledger.find_by_driver_handle(driver);
            if driver == handle {
                Some("hResource is still the runtime's handle".to_owned())
            } else if driver == 0 {
                Some("hResource is NULL".to_owned())
            } else {
                twin.map(|_| "hResource is the driver's handle of another resource".to_owned())
            }
        };
        inner.judge(RuleId::UMD_RES_001, "pfnCreateResource.hResource", broken);
        let mut ledger = inner.ledger();
        ledger.set_driver_handle(handle, driver);
        let Some(group) = ledger.resources.get(&handle) else { return Err(E_INVALIDARG) };
        let (count, shared) =
            (group.surfaces.surfaces.len(), group.surfaces.has_flag(Flags::SharedResource));
        inner.log().emit(group.subject, || EventKind::SurfacesCreated {
            device: inner.subject,
            count: u32::try_from(count).unwrap_or(u32::MAX),
            allocations: u32::try_from(group.members.len()).unwrap_or(u32::MAX),
            shared,
            opened: group.opened,
        });
        Ok(Resource(handle))
    }

    /// Judges a driver's result for a kind of resource that it does not create.
    fn judge_kind(&self, wanted: &ResourceDescription, failed: &[HRESULT], answer: HRESULT) {
        let buffer = wanted.has_flag(Flags::VertexBuffer | Flags::IndexBuffer);
        let of_memory = [E_OUTOFMEMORY, D3DERR_OUTOFVIDEOMEMORY, D3DDDIERR_DEVICEREMOVED];
        let broken = match answer {
            D3DERR_NOTAVAILABLE if !buffer => {
                Some("D3DERR_NOTAVAILABLE is for vertex and index buffers".to_owned())
            }
            _ if succeeded(answer) || !buffer => None,
            D3DERR_NOTAVAILABLE => None,
            // A callback's error may be forwarded unchanged.
            _ if of_memory.contains(&answer) || failed.contains(&answer) => None,
            _ => Some(format!(
                "a vertex or index buffer was not created, and the result is {}",
                result::hresult_name(answer)
            )),
        };
        self.0.judge(RuleId::UMD_RES_006, "pfnCreateResource", broken);
    }

    /// The shared handle of a resource, for other processes.
    pub fn share(&self, resource: Resource) -> Result<D3DKMT_HANDLE, HRESULT> {
        let ledger = self.0.ledger();
        let group = ledger
            .resources
            .get(&resource.0)
            .filter(|resource_entry| resource_entry.stage == ResourceStage::Live);
        let global = group.map_or(0, |resource_entry| resource_entry.global_handle);
        if global == 0 { Err(E_INVALIDARG) } else { Ok(global) }
    }

    /// Opens a resource that another process shares (`OpenResource`).
    pub fn open_resource(
        &self,
        at: &mut Passive,
        global: D3DKMT_HANDLE,
    ) -> Result<Resource, HRESULT> {
        let inner = &self.0;
        let client = &inner.adapter.client;
        let shared =
            client.open_resource(at, inner.kernel_handle, global).map_err(hresult_from_status)?;
        let surfaces = ResourceDescription::from_bytes(&shared.runtime);
        let Some(surfaces) = surfaces else {
            self.destroy_kernel_resource(at, shared.resource);
            return Err(E_INVALIDARG); // Not shared by a runtime.
        };
        let number = inner.adapter.run.surfaces.fetch_add(1, Relaxed) + 1;
        let handle = call_stack::new_handle();
        let locks = vec![0; surfaces.surfaces.len()];
        let group = ResourceEntry {
            subject: Kind::Surfaces.subject(number),
            surfaces,
            driver_handle: 0,
            kernel_handle: shared.resource,
            global_handle: global,
            members: Vec::new(),
            stage: ResourceStage::Creating,
            opened: true,
            allocate_count: 0,
            list_free_count: 0,
            private_data: Vec::new(),
            locks,
            written: BTreeSet::new(),
            drawn: None,
            system_memory: Vec::new(),
        };
        {
            let mut ledger = inner.ledger();
            ledger.insert(handle, group);
            ledger.add(Some(handle), shared.allocations.iter().copied());
        }
        let (mut private, mut place) = (shared.private, 0);
        let info = |(allocation, size): (&D3DKMT_HANDLE, &usize)| {
            let at = shared.privates.as_ptr().wrapping_add(place);
            place += size;
            D3DDDI_OPENALLOCATIONINFO {
                hAllocation: *allocation,
                pPrivateDriverData: at.cast(),
                PrivateDriverDataSize: u32::try_from(*size).unwrap_or(u32::MAX),
            }
        };
        let mut list: Vec<_> = shared.allocations.iter().zip(&shared.sizes).map(info).collect();
        let mut args = D3DDDIARG_OPENRESOURCE {
            NumAllocations: u32::try_from(list.len()).unwrap_or(u32::MAX),
            pOpenAllocationInfo: list.as_mut_ptr(),
            hKMResource: shared.resource,
            pPrivateDriverData: private.as_mut_ptr().cast(),
            PrivateDriverDataSize: u32::try_from(private.len()).unwrap_or(u32::MAX),
            hResource: ptr::without_provenance_mut(handle),
            ..D3DDDIARG_OPENRESOURCE::ZERO
        };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnOpenResource;
        let inside = inner.enter(at, ("pfnOpenResource", Some(handle)));
        let (answer, failed) = match &inside {
            Ok(inside) => {
                let answer = inside.call(at, slot, |open, driver| {
                    // SAFETY: The driver supplied the function and its handle; everything that
                    // `args` points to outlives the call.
                    unsafe { open(driver, &raw mut args) }
                });
                (answer, inside.callback_errors())
            }
            Err(error) => (*error, Vec::new()),
        };
        if !succeeded(answer) {
            let mut ledger = inner.ledger();
            // A driver that could not use the resource may have freed it already.
            let kernel = ledger
                .resources
                .get(&handle)
                .map_or(0, |resource_entry| resource_entry.kernel_handle);
            ledger.mark_freed(handle);
            ledger.remove_resource(handle);
            drop(ledger);
            if kernel != 0 {
                self.destroy_kernel_resource(at, kernel);
            }
            return Err(answer);
        }
        let driver = args.hResource.expose_provenance();
        self.finish_resource(("pfnOpenResource", handle), &failed, answer, driver)
    }

    /// Destroys a kernel resource that no driver has.
    fn destroy_kernel_resource(&self, at: &mut Passive, resource: D3DKMT_HANDLE) {
        let device = self.0.kernel_handle;
        let destroy =
            thunk::DestroyAllocation { device, resource, ..thunk::DestroyAllocation::default() };
        let _ = self.0.adapter.client.destroy(at, &destroy); // Freed with the device at the latest.
    }

    /// Destroys a resource, with all its surfaces (`DestroyResource`). After an error the resource
    /// still exists.
    pub fn destroy_resource(&self, at: &mut Passive, resource: Resource) -> Result<(), HRESULT> {
        const NAME: &str = "pfnDestroyResource";
        let inner = &self.0;
        {
            let ledger = inner.ledger();
            let group = ledger
                .resources
                .get(&resource.0)
                .filter(|resource_entry| resource_entry.is_application_owned());
            let broken = group.is_none().then(|| {
                let destroyed =
                    ledger.was_resource(resource.0) || ledger.resources.contains_key(&resource.0);
                let destroyed = if destroyed { ": it is already destroyed" } else { "" };
                format!("the resource does not belong to the device{destroyed}")
            });
            if !inner.judge_client(RuleId::UMD_DESTROY_004, "DestroyResource.hResource", broken) {
                return Err(E_INVALIDARG);
            }
        }
        // No other thread may enter before the handle is known to be invalid.
        let inside = inner.enter(at, (NAME, Some(resource.0)))?;
        let (driver, locks) = {
            let mut ledger = inner.ledger();
            let Some(group) = ledger.resources.get_mut(&resource.0) else {
                return Err(E_INVALIDARG);
            };
            // The driver must unlock what the application has locked.
            let none = vec![0; group.locks.len()];
            (group.driver_handle, std::mem::replace(&mut group.locks, none))
        };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnDestroyResource;
        let answer = inside.call(at, slot, |destroy, device| {
            // SAFETY: The driver supplied the function and both handles.
            unsafe { destroy(device, ptr::with_exposed_provenance_mut(driver)) }
        });
        let removed = inside.reports_removal(answer);
        let mut ledger = inner.ledger();
        let Some(group) = ledger.resources.get_mut(&resource.0) else { return Err(E_INVALIDARG) };
        // A resource that was freed before may have new allocations.
        let bare = group.kernel_handle == 0 && group.members.is_empty();
        let (freed, about) = (group.stage == ResourceStage::Freed && bare, group.subject);
        // A "device removed" result must be forwarded, whatever could be freed.
        let broken = (freed && !succeeded(answer) && !removed).then(|| {
            let answer = result::hresult_name(answer);
            format!("{about} was freed, but {NAME} returns {answer}, which means that it was not")
        });
        inner.judge(RuleId::UMD_DESTROY_024, NAME, broken);
        let allowed = [E_OUTOFMEMORY, D3DDDIERR_DEVICEREMOVED, E_INVALIDARG];
        let broken = (!succeeded(answer) && !allowed.contains(&answer))
            .then(|| format!("{NAME} returns {}", result::hresult_name(answer)));
        inner.judge(RuleId::UMD_ERR_004, NAME, broken);
        if !succeeded(answer) && !freed {
            group.locks = locks;
            return Err(answer);
        }
        // The driver's handle is invalid from here on: the driver may reuse it.
        let driver_handle = group.driver_handle;
        ledger.mark_destroyed(resource.0);
        // A resource in the application's memory has nothing for the driver to free.
        let destroyed = bare;
        inner.log().emit(about, || EventKind::SurfacesDropped { released: freed });
        ledger.mark_handle_dead(driver_handle);
        if destroyed {
            ledger.remove_resource(resource.0);
        }
        if succeeded(answer) { Ok(()) } else { Err(answer) }
    }
}

/// Calls the driver's create function.
fn call_create_resource(
    at: &mut Passive,
    inside: &DriverCallGuard,
    handle: usize,
    wanted: &ResourceDescription,
    list: &[D3DDDI_SURFACEINFO],
) -> (HRESULT, usize) {
    let mut args = D3DDDIARG_CREATERESOURCE2 {
        Format: wanted.format,
        Pool: wanted.pool,
        pSurfList: list.as_ptr(),
        SurfCount: u32::try_from(list.len()).unwrap_or(u32::MAX),
        hResource: ptr::without_provenance_mut(handle),
        Flags: Flags { Value: wanted.flags },
        Rotation: 1,
        Flags2: D3DDDI_RESOURCEFLAGS2 { Value: wanted.flags2 },
        ..D3DDDIARG_CREATERESOURCE2::ZERO
    };
    set_reserved_members(wanted, &mut args);
    let answer = if wanted.flags2 == 0 {
        let mut first = D3DDDIARG_CREATERESOURCE {
            Format: args.Format,
            Pool: args.Pool,
            pSurfList: args.pSurfList,
            SurfCount: args.SurfCount,
            MultisampleType: args.MultisampleType,
            MultisampleQuality: args.MultisampleQuality,
            MipLevels: args.MipLevels,
            Fvf: args.Fvf,
            VidPnSourceId: args.VidPnSourceId,
            RefreshRate: args.RefreshRate,
            hResource: args.hResource,
            Flags: args.Flags,
            Rotation: args.Rotation,
        };
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnCreateResource;
        let answer = inside.call(at, slot, |create, driver| {
            // SAFETY: The driver supplied the function and its handle; everything that the
            // arguments point to outlives the call.
            unsafe { create(driver, &raw mut first) }
        });
        args.hResource = first.hResource;
        answer
    } else {
        let slot = |raw: &D3DDDI_DEVICEFUNCS| raw.pfnCreateResource2;
        inside.call(at, slot, |create, driver| {
            // SAFETY: As above.
            unsafe { create(driver, &raw mut args) }
        })
    };
    (answer, args.hResource.expose_provenance())
}
