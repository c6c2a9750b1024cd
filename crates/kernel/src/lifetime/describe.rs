//! Primaries: what is to be shown on a display, so its driver can say what it looks like.

use crate::ddi::miniport::{DriverResult, SurfaceInfo};
use crate::ddi::permit::DdiPermit;
use crate::kernel::Kernel;
use crate::lifetime::create::{CreateAllocationRequest, CreateScope};
use crate::lifetime::open::NewObjects;
use flight::{Component, Passive, RuleId};

impl Kernel {
    /// Has the driver describe the primaries of a create call.
    ///
    /// WINDOWS: pages say that primaries and sources of presents are described, not when. Our
    /// decision: once, when they are open. Nothing reads the description yet, so a driver that
    /// has none is named and the primary is made.
    pub(crate) fn describe_primaries(
        &self,
        at: &mut Passive,
        permit: &DdiPermit<'_>,
        creating: &CreateScope<'_>,
        request: &CreateAllocationRequest,
        objects: &NewObjects,
    ) {
        for place in &request.primaries {
            let Some(&number) = objects.allocations.get(*place) else { continue };
            // Nobody else knows it yet: it is between, and its pass is ours.
            let driver_handle = self
                .state
                .lock()
                .allocations
                .get_mut(number)
                .and_then(|allocation| allocation.driver_handle.take());
            let Some(driver_handle) = driver_handle else { continue };
            let driver = &creating.device.driver;
            let described =
                driver.describe_allocation(at, permit, creating.process, &driver_handle);
            if let Some(it) = self.state.lock().allocations.get_mut(number) {
                it.driver_handle = Some(driver_handle);
            }
            let about = number.subject();
            let (rule, place) = (RuleId::KMD_STD_001, "DxgkDdiDescribeAllocation");
            self.log.judge(rule, Component::Driver, about, place, describe_error(described));
        }
    }
}

/// What is missing in a description of a primary.
fn describe_error(described: DriverResult<SurfaceInfo>) -> Option<String> {
    match described {
        Err(why) => Some(format!("a primary was not described: {}", why.name())),
        Ok(SurfaceInfo { width, height, format }) if width == 0 || height == 0 || format == 0 => {
            Some(format!(
                "a primary was described as {width} by {height} in format {format}: none of these \
                 can be zero"
            ))
        }
        Ok(_) => None,
    }
}
