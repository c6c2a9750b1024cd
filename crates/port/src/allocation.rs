//! Allocations: created and described for the adapter, opened and closed for a device.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::door::Door;
use crate::flags;
use crate::private::{Private, count, pointer};
use crate::status::answer;
use crate::wants;
use abi::HANDLE;
use abi::display::{
    DXGK_ALLOCATIONINFO, DXGK_CREATEALLOCATIONFLAGS, DXGK_DESTROYALLOCATIONFLAGS,
    DXGK_OPENALLOCATIONFLAGS, DXGK_OPENALLOCATIONINFO, DXGKARG_CLOSEALLOCATION,
    DXGKARG_CREATEALLOCATION, DXGKARG_DESCRIBEALLOCATION, DXGKARG_DESTROYALLOCATION,
    DXGKARG_OPENALLOCATION,
};
use flight::{RuleId, Who};
use kernel::miniport::{
    Answer, Births, Born, Doomed, DriverAllocation, DriverDevice, DriverResource, DriverView, Fate,
    Home, Opening, Refusal, Shape, Surface,
};
use std::vec::Drain;

impl TableDriver {
    pub(crate) fn new_allocations(&self, births: Births<'_>) -> Answer<Born> {
        let call = self.table.DxgkDdiCreateAllocation.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let Births { allocations, resource, private: common } = births;
        let mut shared = Private::copy(common)?;
        let copies = allocations.iter().map(|it| Private::copy(it.private));
        let mut own = copies.collect::<Answer<Vec<_>>>()?;
        let info = |private: &mut Private| DXGK_ALLOCATIONINFO {
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGK_ALLOCATIONINFO::ZERO
        };
        let mut infos: Vec<_> = own.iter_mut().map(info).collect();
        let (before, home) = match resource {
            None => (0, None),
            Some(Home::New(blank)) => (0, Some((blank, true))),
            Some(Home::Known(word, blank)) => (word.word(), Some((blank, false))),
        };
        let flags = if home.is_some() { DXGK_CREATEALLOCATIONFLAGS::Resource } else { 0 };
        let mut args = DXGKARG_CREATEALLOCATION {
            pPrivateDriverData: shared.pointer(),
            PrivateDriverDataSize: shared.size(),
            NumAllocations: count(infos.len())?,
            pAllocationInfo: infos.as_mut_ptr(),
            hResource: pointer(before),
            Flags: DXGK_CREATEALLOCATIONFLAGS { Value: flags },
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // and all it points to outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw mut args) }
        });

        judge_lengths(&door, own.iter().chain([&shared]));
        answer(status)?;
        *common = shared.bytes();
        let primaries = allocations.iter().map(|it| it.primary);
        flags::judge(door.services(), infos.iter().zip(primaries));
        let born = allocations.into_iter().zip(own).zip(infos).map(|((birth, private), info)| {
            *birth.private = private.bytes();
            (birth.word.fill(info.hAllocation.expose_provenance()), shape(&info))
        });
        let after = args.hResource.expose_provenance();
        let changed = home.filter(|(_, new)| *new || after != before);
        Ok(Born {
            allocations: born.collect(),
            resource: changed.map(|(blank, _)| blank.fill(after)),
        })
    }

    pub(crate) fn end_allocations(&self, doomed: Doomed<'_>) -> Answer<Option<DriverResource>> {
        let call = self.table.DxgkDdiDestroyAllocation.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let list: Vec<HANDLE> = doomed.allocations.map(|it| pointer(it.word())).collect();
        let (before, blank, flags) = match doomed.resource {
            None => (0, None, 0),
            Some(Fate::Stays(it, blank)) => (it.word(), Some(blank), 0),
            Some(Fate::Goes(it)) => (it.word(), None, DXGK_DESTROYALLOCATIONFLAGS::DestroyResource),
        };
        // WINDOWS: `hResource` is documented as in and out, although the parameter points to
        // const. A driver may write it: so a mutable place, read back below.
        let mut args = DXGKARG_DESTROYALLOCATION {
            NumAllocations: count(list.len())?,
            pAllocationList: list.as_ptr(),
            hResource: pointer(before),
            Flags: DXGK_DESTROYALLOCATIONFLAGS { Value: flags },
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `list`
            // and `args` outlive the call, also one that unwinds.
            unsafe { call(pointer(context), &raw mut args) }
        });

        answer(status)?;
        let after = args.hResource.expose_provenance();
        Ok(blank.filter(|_| after != before).map(|it| it.fill(after)))
    }

    pub(crate) fn describe_one(&self, allocation: &DriverAllocation) -> Answer<Surface> {
        let call = self.table.DxgkDdiDescribeAllocation.ok_or(Refusal::Absent)?;
        let Adapter { door, context, .. } = self.adapter()?;
        let mut args = DXGKARG_DESCRIBEALLOCATION {
            hAllocation: pointer(allocation.word()),
            ..DXGKARG_DESCRIBEALLOCATION::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariants 1 and 2 the function is there and knows `context`; `args`
            // outlives the call, also one that unwinds.
            unsafe { call(pointer(context), &raw mut args) }
        });

        answer(status)?;
        Ok(Surface { width: args.Width, height: args.Height, format: args.Format })
    }

    pub(crate) fn new_views(&self, opening: Opening<'_>) -> Answer<Vec<DriverView>> {
        let call = self.table.DxgkDdiOpenAllocation.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        let Opening { device, views, create, private: common } = opening;
        let mut shared = Private::copy(common)?;
        let copies = views.iter().map(|it| Private::copy(it.private));
        let mut own = copies.collect::<Answer<Vec<_>>>()?;
        let info = |(handle, private): (u32, &mut Private)| DXGK_OPENALLOCATIONINFO {
            hAllocation: handle,
            pPrivateDriverData: private.pointer(),
            PrivateDriverDataSize: private.size(),
            ..DXGK_OPENALLOCATIONINFO::ZERO
        };
        let handles = views.iter().map(|it| it.handle.0);
        let mut infos: Vec<_> = handles.zip(&mut own).map(info).collect();
        let flags = if create { DXGK_OPENALLOCATIONFLAGS::Create } else { 0 };
        let args = DXGKARG_OPENALLOCATION {
            NumAllocations: count(infos.len())?,
            pOpenAllocation: infos.as_mut_ptr(),
            pPrivateDriverData: shared.pointer(),
            PrivateDriverSize: shared.size(),
            Flags: DXGK_OPENALLOCATIONFLAGS { Value: flags },
            ..DXGKARG_OPENALLOCATION::ZERO
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there, and the word is the driver's own;
            // `args` and all it points to outlive the call, also one that unwinds.
            unsafe { call(pointer(device.word()), &raw const args) }
        });

        answer(status)?;
        judge_common(&door, common, &shared);
        let opened = views.into_iter().zip(own).zip(infos).map(|((birth, private), info)| {
            *birth.private = private.bytes();
            birth.word.fill(info.hDeviceSpecificAllocation.expose_provenance())
        });
        Ok(opened.collect())
    }

    pub(crate) fn end_views(
        &self,
        device: &DriverDevice,
        views: Drain<'_, DriverView>,
    ) -> Answer<()> {
        let call = self.table.DxgkDdiCloseAllocation.ok_or(Refusal::Absent)?;
        let door = self.adapter()?.door;
        let list: Vec<HANDLE> = views.map(|it| pointer(it.word())).collect();
        let args = DXGKARG_CLOSEALLOCATION {
            NumAllocations: count(list.len())?,
            pOpenHandleList: list.as_ptr(),
        };

        let status = self.inside(&door, || {
            // SAFETY: By invariant 1 the function is there, and the word is the driver's own;
            // `list` and `args` outlive the call, also one that unwinds.
            unsafe { call(pointer(device.word()), &raw const args) }
        });

        answer(status)
    }
}

/// Entry rule: a driver takes private data to be as long as it is, whatever is in it.
fn judge_lengths<'a>(door: &Door, given: impl Iterator<Item = &'a Private>) {
    for private in given.filter(|it| it.size() > 0) {
        let broken = private.overrun().map(|bytes| {
            let size = private.size();
            format!("private data has {size} bytes, but up to {bytes} bytes behind it were written")
        });
        let (services, place) = (door.services(), "DxgkDdiCreateAllocation.pPrivateDriverData");
        let about = services.adapter();
        services.log().judge(RuleId::KMD_ALLOC_012, Who::Driver, about, place, broken);
    }
}

/// Entry rule: a driver that opens reads the resource's private data, and does not write it.
fn judge_common(door: &Door, before: &[u8], after: &Private) {
    if before.is_empty() {
        return; // There was nothing to write to.
    }
    let after = after.bytes();
    let place = before.iter().zip(&after).position(|(before, after)| before != after);
    let broken = place.map(|it| {
        format!("byte {it} of the resource's private data was changed, but it is read only here")
    });
    let (services, place) = (door.services(), "DxgkDdiOpenAllocation.pPrivateDriverData");
    let about = services.adapter();
    services.log().judge(RuleId::KMD_OPEN_003, Who::Driver, about, place, broken);
}

fn shape(info: &DXGK_ALLOCATIONINFO) -> Shape {
    Shape {
        size: info.Size as u64,
        alignment: info.Alignment.into(),
        pitch_aligned_size: info.PitchAlignedSize as u64,
        wants: wants::of_allocation(info),
    }
}
