//! Shadows of retirements: the request, and its progress.

use super::{Resource, Serial};

/// The request of a destroy call.
#[derive(Clone, Copy, Debug)]
pub struct RetireRequest {
    /// The event of the request.
    pub seq: u64,
    /// Do not wait for the device's work (`AssumeNotInUse`).
    pub assume_not_in_use: bool,
    /// Wait for the end (`SynchronousDestroy`).
    pub synchronous: bool,
}

/// Of a retirement.
#[derive(Debug)]
pub struct Retirement {
    /// The request.
    pub request: RetireRequest,
    /// How many views it ends.
    pub views: u32,
    /// How many of them are closed.
    pub closed: u32,
    /// The resources its views belong to.
    pub groups: Vec<ResourceGroup>,
    /// How many allocations lost their last view and are not destroyed.
    pub orphans: u32,
    /// Whether it is done.
    pub done: bool,
    /// Whether the call has returned to the client.
    pub returned: bool,
}

/// Views of one resource, ended by one retirement.
#[derive(Debug)]
pub struct ResourceGroup {
    /// The resource.
    pub resource: Serial<Resource>,
    /// Whether the resource's own handle was closed with them.
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
