//! Primaries: the driver describes the surfaces that a display can show.

use crate::ddi::miniport::{DriverResult, SurfaceInfo};
use crate::ddi::permit::DdiPermit;
use crate::kernel::Kernel;
use crate::lifetime::create::{CreateAllocationRequest, CreateScope};
use crate::lifetime::open::NewObjects;
use flight::{Component, Passive, RuleId, invariant};

impl Kernel {
    /// Calls `DxgkDdiDescribeAllocation` for the primaries of a create call.
    ///
    /// WINDOWS: pages say that primaries and sources of presents are described, not when. Our
    /// decision: once, when they are open. No code reads the description yet, so a missing
    /// description is reported and the primary is created anyway.
    pub(crate) fn describe_primaries(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        request: &CreateAllocationRequest,
        objects: &NewObjects,
    ) {
        for place in &request.primaries {
            // The client may mark an allocation that it does not create.
            let Some(&number) = objects.allocations.get(*place) else { continue };
            // No other thread knows the allocation yet: its handle is not published, and this
            // thread holds the permit.
            let driver_handle = self.state.lock().allocations[number].driver_handle.take();
            let driver_handle = invariant(driver_handle, "a new allocation has a driver handle");
            let driver = &creating.device.driver;
            let described =
                driver.describe_allocation(at, permit, creating.process, &driver_handle);
            self.state.lock().allocations[number].driver_handle = Some(driver_handle);
            let about = number.subject();
            let (rule, place) = (RuleId::KMD_STD_001, "DxgkDdiDescribeAllocation");
            self.log.judge(rule, Component::Driver, about, place, describe_error(described));
        }
    }
}

/// Returns why a description of a primary is incomplete, or `None`.
fn describe_error(described: DriverResult<SurfaceInfo>) -> Option<String> {
    let SurfaceInfo { width, height, format } = match described {
        Err(why) => return Some(format!("a primary was not described: {}", why.name())),
        Ok(info) => info,
    };
    let (Some(width), Some(height), Some(format)) = (width, height, format) else {
        let members = [
            ("Width", width.is_none()),
            ("Height", height.is_none()),
            ("Format", format.is_none()),
        ];
        let unset: Vec<&str> = members.iter().filter(|pair| pair.1).map(|pair| pair.0).collect();
        let unset = unset.join(", ");
        return Some(format!("a primary was described, but the driver has not set {unset}"));
    };
    (width == 0 || height == 0 || format == 0).then(|| {
        format!(
            "a primary was described as {width} by {height} in format {format}: none of these can \
             be zero"
        )
    })
}
