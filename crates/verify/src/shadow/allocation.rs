//! What is remembered of resources and allocations, and of devices' views of both.

use super::memory::{Memory, Wanted};
use super::retirement::Asked;
use flight::Subject;

/// Of a resource.
#[derive(Debug)]
pub struct Resource {
    /// The adapter that owns it.
    pub adapter: Subject,
    /// Whether it was created to be opened by a global handle.
    pub global: bool,
    /// How many members are not gone.
    pub live: u32,
    /// How many of these the driver was told of, by the last call that told of any.
    pub told: u32,
    /// That call.
    pub told_in: Option<u32>,
    /// How many devices' views of it are not closed.
    pub views: u32,
    /// The driver's last word for it.
    pub word: Option<Subject>,
    /// What it has for its openers, if it is shared.
    pub data: Option<Data>,
}

/// How many bytes a shared resource has for its openers.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    /// Of the runtime's data.
    pub runtime: u64,
    /// Of its members' private data, together.
    pub total: u64,
}

/// Of a device's view of a resource.
#[derive(Debug)]
pub struct ResourceView {
    /// The resource.
    pub resource: Subject,
    /// The device it was opened for.
    pub device: Subject,
}

/// Of an allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The adapter that owns it.
    pub adapter: Subject,
    /// The device that created it.
    pub creator: Subject,
    /// Its memory.
    pub memory: Memory,
    /// The resource it is a member of.
    pub resource: Option<Subject>,
    /// The driver's word for it.
    pub word: Option<Subject>,
    /// Whether the driver was told to destroy it, and in which call.
    pub told: Option<Option<u32>>,
    /// How many views of it are not closed.
    pub views: u32,
    /// How many views of it are not idle.
    pub busy: u32,
    /// How often the driver holds its data.
    pub held: u32,
    /// The retirement that closed its last view.
    pub ended_by: Option<Subject>,
    /// How many instances its driver allows, if it says.
    pub limit: Option<u32>,
}

/// Of an instance of an allocation.
#[derive(Debug)]
pub struct Instance {
    /// The allocation.
    pub allocation: Subject,
    /// The view it was made for.
    pub view: Subject,
    /// The driver's word for it.
    pub word: Subject,
    /// The word that paging work named last.
    pub built: Option<Subject>,
    /// Its memory.
    pub memory: Memory,
}

/// Of a view.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct View {
    /// What it is a view of.
    pub allocation: Subject,
    /// The device that has it open.
    pub device: Subject,
    /// The resource its allocation is a member of.
    pub resource: Option<Subject>,
    /// How far its end has come.
    pub stage: Stage,
    /// The retirement that ends it.
    pub retirement: Option<Subject>,
    /// What that one was asked.
    pub asked: Option<Asked>,
    /// Whether the driver was told to close it.
    pub told: bool,
    /// The driver's word for it.
    pub word: Option<Subject>,
    /// Whether its device created the allocation.
    pub creator: bool,
    /// What the driver says of the allocation's memory.
    pub wanted: Wanted,
    /// How often its client wants it to be resident.
    pub resident: u32,
    /// The event of the last request for a lock.
    pub lock_asked: u64,
    /// Whether its client said, since it is listed, that the GPU has not written to it.
    pub clean: bool,
    /// The event of its offer.
    pub offered: u64,
    /// Whether it was taken back, to be mapped into an aperture, and not locked since.
    pub reclaimed: bool,
    /// What has its memory: the allocation, or the newest instance of it.
    pub newest: Subject,
}

/// How far the end of a view has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has its name.
    Named,
    /// Its name is closed.
    Unnamed,
    /// Nothing uses it.
    Idle,
}

impl Resource {
    /// How many members are alive that `call` does not end.
    pub fn spared_by(&self, call: Option<u32>) -> u32 {
        let ended = if self.told_in == call { self.told } else { 0 };
        self.live.saturating_sub(ended)
    }
}
