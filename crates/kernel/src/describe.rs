//! Primaries: what is to be shown on a display, so its driver can say what it looks like.

use crate::build::Built;
use crate::create::{CreateOrder, Making};
use crate::gate::Pass;
use crate::kernel::Kernel;
use crate::miniport::{Answer, Surface};
use flight::{Passive, RuleId, Who};

impl Kernel {
    /// Has the driver describe the primaries of a create call.
    ///
    /// WINDOWS: pages say that primaries and sources of presents are described, not when. Our
    /// decision: once, when they are open. Nothing reads the description yet, so a driver that
    /// has none is named and the primary is made.
    pub(crate) fn describe_primaries(
        &self,
        at: &mut Passive,
        pass: &Pass<'_>,
        making: &Making<'_>,
        order: &CreateOrder,
        built: &Built,
    ) {
        for place in &order.primaries {
            let Some(&number) = built.allocations.get(*place) else { continue };
            // Nobody else knows it yet: it is between, and its pass is ours.
            let word = self.world.hold().allocations.get_mut(number).and_then(|it| it.word.take());
            let Some(word) = word else { continue };
            let driver = &making.inside.driver;
            let described = driver.describe_allocation(at, pass, making.process, &word);
            if let Some(it) = self.world.hold().allocations.get_mut(number) {
                it.word = Some(word);
            }
            let about = number.subject();
            let (rule, place) = (RuleId::KMD_STD_001, "DxgkDdiDescribeAllocation");
            self.log.judge(rule, Who::Driver, about, place, unclear(described));
        }
    }
}

/// What is missing in a description of a primary.
fn unclear(described: Answer<Surface>) -> Option<String> {
    match described {
        Err(why) => Some(format!("a primary was not described: {}", why.name())),
        Ok(Surface { width, height, format }) if width == 0 || height == 0 || format == 0 => {
            Some(format!(
                "a primary was described as {width} by {height} in format {format}: none of these \
                 can be zero"
            ))
        }
        Ok(_) => None,
    }
}
