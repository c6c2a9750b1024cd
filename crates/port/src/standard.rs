//! Standard allocations: surfaces that the kernel describes and that the driver adds private data
//! to.
#![expect(unsafe_code, reason = "calls the functions a driver registered")]

use crate::display::{Adapter, TableDriver};
use crate::private_data::{MAX_SIZE, PrivateData, pointer};
use crate::shown::{self, ShownList, judge_private_data};
use crate::status::result_from_status;
use abi::display::{
    D3DKMDT_GDISURFACE_TEXTURE, D3DKMDT_GDISURFACEDATA, D3DKMDT_STANDARDALLOCATION_GDISURFACE,
    DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA,
};
use abi::ukm::D3DDDIFMT_A8;
use flight::{Component, RuleId};
use kernel::miniport::{DriverError, DriverResult, StandardAllocationArgs};

impl TableDriver {
    /// Makes one query: for sizes without private data, for the bytes with it.
    pub(crate) fn call_get_standard_allocation(
        &self,
        standard: &mut StandardAllocationArgs,
    ) -> DriverResult<()> {
        let call =
            self.table.DxgkDdiGetStandardAllocationDriverData.ok_or(DriverError::NoEntryPoint)?;
        let Adapter { door, context, .. } = self.adapter_with_log()?;
        // Our reading of a size in bytes: one row.
        let surface = D3DKMDT_GDISURFACEDATA {
            Width: u32::try_from(standard.bytes).map_err(|_| DriverError::Invalid)?,
            Height: 1,
            Format: D3DDDIFMT_A8,
            Type: D3DKMDT_GDISURFACE_TEXTURE,
            ..D3DKMDT_GDISURFACEDATA::ZERO
        };
        let described = surface;
        let mut shown_surface = ShownList::new(vec![surface]);
        let filled = standard.private.is_some();
        let fill = door.next_fill();
        let room = |size: u32| PrivateData::filled(if filled { size } else { 0 }, fill.byte());
        let mut allocation = room(standard.allocation_size)?;
        let mut resource = room(standard.resource_size)?;
        let mut args = DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA {
            StandardAllocationType: D3DKMDT_STANDARDALLOCATION_GDISURFACE,
            pCreateData: shown_surface.pointer().cast(),
            pAllocationPrivateDriverData: allocation.pointer(),
            AllocationPrivateDriverDataSize: allocation.size(),
            pResourcePrivateDriverData: resource.pointer(),
            ResourcePrivateDriverDataSize: resource.size(),
            ..DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA::ZERO
        };

        let status = self.run_driver(&door, || {
            shown::in_out(&mut args, |args| {
                // SAFETY: By invariants 1 and 2 the function and `context` are valid; `args` and
                // all it points to outlive the call, even if it unwinds.
                unsafe { call(pointer(context), args) }
            })
        });

        for private in [&allocation, &resource] {
            judge_private_data(&door, private);
        }
        result_from_status(status)?;
        let surface = shown_surface.into_values();
        if !filled {
            let broken = (surface != [described]).then(|| {
                "the driver changed the description of the surface in a call that asks for sizes only"
                    .to_owned()
            });
            let (services, rule) = (door.services(), RuleId::KMD_STD_002);
            let place = "DxgkDdiGetStandardAllocationDriverData.pCreateData";
            services.log().judge(rule, Component::Driver, services.adapter(), place, broken);
        }
        if let Some(private) = &mut standard.private {
            private.allocation = allocation.bytes();
            private.resource = resource.bytes();
            standard.allocation_size = args.AllocationPrivateDriverDataSize;
            standard.resource_size = args.ResourcePrivateDriverDataSize;
        } else {
            let sizes = [args.AllocationPrivateDriverDataSize, args.ResourcePrivateDriverDataSize];
            // The driver chooses the size, and memory of that size is about to be allocated.
            if sizes.iter().any(|number| *number > MAX_SIZE) {
                return Err(DriverError::NoMemory);
            }
            [standard.allocation_size, standard.resource_size] = sizes;
        }
        Ok(())
    }
}
