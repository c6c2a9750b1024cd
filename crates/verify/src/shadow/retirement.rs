//! What is remembered of the end of views: what was asked, and how far it has come.

use super::{Resource, Serial};

/// What a destroy call asked for.
#[derive(Clone, Copy, Debug)]
pub struct RetireRequest {
    /// The event of the request.
    pub seq: u64,
    /// Not to wait for the device's work (`AssumeNotInUse`).
    pub assume_not_in_use: bool,
    /// To wait for the end (`SynchronousDestroy`).
    pub synchronous: bool,
}

/// Of a retirement.
#[derive(Debug)]
pub struct Retirement {
    /// What was asked.
    pub request: RetireRequest,
    /// How many views it ends.
    pub views: u32,
    /// How many of them are closed.
    pub closed: u32,
    /// The resources its views belong to.
    pub groups: Vec<ResourceGroup>,
    /// How many allocations these were the last views of, and are not gone.
    pub orphans: u32,
    /// Whether it is done.
    pub done: bool,
    /// Whether who asked has the answer.
    pub returned: bool,
}

/// Views of one resource, ended by one retirement.
#[derive(Debug)]
pub struct ResourceGroup {
    /// The resource.
    pub resource: Serial<Resource>,
    /// Whether the resource's own name ended with them.
    pub whole: bool,
    /// How many of the views are not closed.
    pub open: u32,
}

impl Retirement {
    /// The views of that resource.
    pub fn group(&self, resource: Serial<Resource>) -> Option<&ResourceGroup> {
        self.groups.iter().find(|group| group.resource == resource)
    }

    pub(crate) fn group_mut(&mut self, resource: Serial<Resource>) -> &mut ResourceGroup {
        let at = self.groups.iter().position(|group| group.resource == resource);
        let at = at.unwrap_or_else(|| {
            self.groups.push(ResourceGroup { resource, whole: false, open: 0 });
            self.groups.len() - 1
        });
        &mut self.groups[at]
    }
}
