//! Allocations: created and described for the adapter, opened and closed for a device.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::fill::Fill;
use crate::flags;
use crate::placement;
use crate::private_data::{PrivateData, count, pointer};
use crate::shown::{self, ShownList, judge_private_data};
use crate::status::result_from_status;
use abi::HANDLE;
use abi::display::{
    DXGK_ALLOCATIONINFO, DXGK_CREATEALLOCATIONFLAGS, DXGK_DESTROYALLOCATIONFLAGS,
    DXGK_OPENALLOCATIONFLAGS, DXGK_OPENALLOCATIONINFO, DXGKARG_CLOSEALLOCATION,
    DXGKARG_CREATEALLOCATION, DXGKARG_DESCRIBEALLOCATION, DXGKARG_DESTROYALLOCATION,
    DXGKARG_OPENALLOCATION,
};
use flight::{Component, RuleId};
use kernel::miniport::{
    AllocationInfo, CreateAllocationArgs, DestroyAllocationArgs, Drain, DriverAllocation,
    DriverDevice, DriverError, DriverResource, DriverResult, DriverView, OpenAllocationArgs,
    OwningResource, ResourceDisposition, SurfaceInfo,
};

impl TableDriver {
    pub(crate) fn call_create_allocation(
        &self,
        create_args: &mut CreateAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let call = self.table.DxgkDdiCreateAllocation.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let CreateAllocationArgs { allocations, resource, private: common } = create_args;
        let mut shared = PrivateData::copy(common)?;
        let copies =
            allocations.iter().map(|new_allocation| PrivateData::copy(new_allocation.private));
        let mut own = copies.collect::<DriverResult<Vec<_>>>()?;
        let info = |private: &mut PrivateData| DXGK_ALLOCATIONINFO {
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGK_ALLOCATIONINFO::ZERO
        };
        let mut infos = ShownList::new(own.iter_mut().map(info).collect());
        let (before, home) = match resource.take() {
            None => (0, None),
            Some(OwningResource::New(slot)) => (0, Some((slot, true))),
            Some(OwningResource::Existing(handle, slot)) => (handle.as_raw(), Some((slot, false))),
        };
        let flags = if home.is_some() { DXGK_CREATEALLOCATIONFLAGS::Resource } else { 0 };
        let mut args = DXGKARG_CREATEALLOCATION {
            pPrivateDriverData: shared.pointer(),
            PrivateDriverDataSize: shared.size(),
            NumAllocations: count(infos.len())?,
            pAllocationInfo: infos.pointer(),
            hResource: pointer(before),
            Flags: DXGK_CREATEALLOCATIONFLAGS { Value: flags },
        };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        judge_lengths(&door, own.iter().chain([&shared]));
        let infos = door.run(|| infos.into_values());
        result_from_status(status)?;
        common.copy_from_slice(&shared.bytes());
        let primaries = allocations.iter().map(|new_allocation| new_allocation.primary);
        flags::judge(door.services(), infos.iter().zip(primaries));
        for ((new, private), info) in allocations.iter_mut().zip(own).zip(infos) {
            new.private.copy_from_slice(&private.bytes());
            new.fill(info.hAllocation.expose_provenance(), allocation_info(&info));
        }
        let after = args.hResource.expose_provenance();
        let changed = home.filter(|(_, new)| *new || after != before);
        Ok(changed.map(|(slot, _)| slot.fill(after)))
    }

    pub(crate) fn call_destroy_allocation(
        &self,
        destroy_args: DestroyAllocationArgs<'_>,
    ) -> DriverResult<Option<DriverResource>> {
        let call = self.table.DxgkDdiDestroyAllocation.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let list = destroy_args.allocations.map(|driver_handle| pointer(driver_handle.as_raw()));
        let mut list: ShownList<HANDLE> = ShownList::new(list.collect());
        let (before, slot, flags) = match destroy_args.resource {
            None => (0, None, 0),
            Some(ResourceDisposition::Keep(it, slot)) => (it.as_raw(), Some(slot), 0),
            Some(ResourceDisposition::Destroy(it)) => {
                (it.as_raw(), None, DXGK_DESTROYALLOCATIONFLAGS::DestroyResource)
            }
        };
        // WINDOWS: `hResource` is documented as in and out, although the parameter points to const.
        // A driver may write it, so `args` is mutable and read back below.
        let mut args = DXGKARG_DESTROYALLOCATION {
            NumAllocations: count(list.len())?,
            pAllocationList: list.pointer(),
            hResource: pointer(before),
            Flags: DXGK_DESTROYALLOCATIONFLAGS { Value: flags },
        };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `list` and
                // `args` outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        result_from_status(status)?;
        let after = args.hResource.expose_provenance();
        Ok(slot.filter(|_| after != before).map(|handle_slot| handle_slot.fill(after)))
    }

    pub(crate) fn call_describe_allocation(
        &self,
        allocation: &DriverAllocation,
    ) -> DriverResult<SurfaceInfo> {
        let call = self.table.DxgkDdiDescribeAllocation.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let query = |fill: Fill| {
            let mut args = DXGKARG_DESCRIBEALLOCATION {
                hAllocation: pointer(allocation.as_raw()),
                Width: fill.value(),
                Height: fill.value(),
                Format: fill.value(),
                ..DXGKARG_DESCRIBEALLOCATION::ZERO
            };
            let status = self.run_driver(&door, || {
                shown::in_out(&mut args, |args| {
                    // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args`
                    // outlives the call, even if it unwinds.
                    unsafe { call(pointer(context), args) }
                })
            });
            result_from_status(status).map(|()| args)
        };
        let unset = |answer: &DriverResult<DXGKARG_DESCRIBEALLOCATION>, fill: Fill| {
            let Ok(args) = answer else { return Vec::new() };
            let members = [
                ("Width", fill.is_in(&args.Width)),
                ("Height", fill.is_in(&args.Height)),
                ("Format", fill.is_in(&args.Format)),
            ];
            members.into_iter().filter_map(|(name, unset)| unset.then_some(name)).collect()
        };
        let (answer, unset) = door.next_fill().query(query, unset);
        let args = answer?;
        let is_set = |name: &str| !unset.contains(&name);
        Ok(SurfaceInfo {
            width: is_set("Width").then_some(args.Width),
            height: is_set("Height").then_some(args.Height),
            format: is_set("Format").then_some(args.Format),
        })
    }

    pub(crate) fn call_open_allocation(
        &self,
        open_args: &mut OpenAllocationArgs<'_>,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiOpenAllocation.ok_or(DriverError::NoEntryPoint)?;
        let door = self.adapter()?.door;
        let OpenAllocationArgs { device, views, create, read_only, private: common } = open_args;
        let (create, read_only) = (*create, *read_only);
        let mut shared = PrivateData::copy(common)?;
        let copies = views.iter().map(|new_view| PrivateData::copy(new_view.private));
        let mut own = copies.collect::<DriverResult<Vec<_>>>()?;
        let info = |(handle, private): (u32, &mut PrivateData)| DXGK_OPENALLOCATIONINFO {
            hAllocation: handle,
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGK_OPENALLOCATIONINFO::ZERO
        };
        let handles = views.iter().map(|new_view| new_view.handle.0);
        let mut infos = ShownList::new(handles.zip(&mut own).map(info).collect());
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let flags = flag(create, DXGK_OPENALLOCATIONFLAGS::Create)
            | flag(read_only, DXGK_OPENALLOCATIONFLAGS::ReadOnly);
        let args = DXGKARG_OPENALLOCATION {
            NumAllocations: count(infos.len())?,
            pOpenAllocation: infos.pointer(),
            pPrivateDriverData: shared.pointer(),
            PrivateDriverSize: shared.size(),
            Flags: DXGK_OPENALLOCATIONFLAGS { Value: flags },
            ..DXGKARG_OPENALLOCATION::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own;
                // `args` and all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(device.as_raw()), args) }
            })
        });

        let infos = door.run(|| infos.into_values());
        result_from_status(status)?;
        judge_resource_data(&door, common, &shared);
        for private in &own {
            judge_private_data(&door, private);
        }
        for ((new, private), info) in views.iter_mut().zip(own).zip(infos) {
            new.private.copy_from_slice(&private.bytes());
            new.fill(info.hDeviceSpecificAllocation.expose_provenance());
        }
        Ok(())
    }

    pub(crate) fn call_close_allocation(
        &self,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> DriverResult<()> {
        let call = self.table.DxgkDdiCloseAllocation.ok_or(DriverError::NoEntryPoint)?;
        let door = self.adapter()?.door;
        let list = views.map(|driver_handle| pointer(driver_handle.as_raw()));
        let mut list: ShownList<HANDLE> = ShownList::new(list.collect());
        let args = DXGKARG_CLOSEALLOCATION {
            NumAllocations: count(list.len())?,
            pOpenHandleList: list.pointer(),
        };

        let status = self.run_driver(&door, || {
            shown::input(&args, |args| {
                // SAFETY: By invariant 1 the function is valid, and the handle is the driver's own;
                // `list` and `args` outlive the call, even if it unwinds.
                unsafe { call(pointer(device.as_raw()), args) }
            })
        });

        result_from_status(status)
    }
}

/// Entry rule: a driver accepts private data of any length and with any contents.
fn judge_lengths<'a>(door: &Door, private_data: impl Iterator<Item = &'a PrivateData>) {
    for private in private_data.filter(|data| data.size() > 0) {
        let size = private.size();
        let written = private.written_outside();
        let broken = written.map(|text| format!("private data has {size} bytes, but {text}"));
        let (services, place) = (door.services(), "DxgkDdiCreateAllocation.pPrivateDriverData");
        let about = services.adapter();
        services.log().judge(RuleId::KMD_ALLOC_012, Component::Driver, about, place, broken);
    }
}

/// Entry rule: a driver that opens an allocation only reads the resource's private data.
fn judge_resource_data(door: &Door, before: &[u8], after: &PrivateData) {
    if before.is_empty() {
        return; // There is no data to write to.
    }
    let after = after.bytes();
    let place = before.iter().zip(&after).position(|(before, after)| before != after);
    let broken = place.map(|index| {
        format!("byte {index} of the resource's private data was changed, but it is read only here")
    });
    let (services, place) = (door.services(), "DxgkDdiOpenAllocation.pPrivateDriverData");
    let about = services.adapter();
    services.log().judge(RuleId::KMD_OPEN_003, Component::Driver, about, place, broken);
}

fn allocation_info(info: &DXGK_ALLOCATIONINFO) -> AllocationInfo {
    AllocationInfo {
        size: info.Size as u64,
        alignment: info.Alignment.into(),
        pitch_aligned_size: info.PitchAlignedSize as u64,
        requirements: placement::allocation_requirements(info),
    }
}
