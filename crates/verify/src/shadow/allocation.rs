//! What is remembered of resources and allocations, and of devices' views of both.

use super::memory::{Memory, Wanted};
use super::retirement::Asked;
use super::{Adapter, Call, Device, Retirement, Serial, Word};
use flight::Subject;

/// Of a resource.
#[derive(Debug)]
pub struct Resource {
    /// The adapter that owns it.
    pub adapter: Serial<Adapter>,
    /// Whether it was created to be opened by a global handle.
    pub global: bool,
    /// How many members are not gone.
    pub live: u32,
    /// How many of these the driver was told of, by the last call that told of any.
    pub told: u32,
    /// That call.
    pub told_in: Option<Serial<Call>>,
    /// How many devices' views of it are not closed.
    pub views: u32,
    /// The driver's last word for it.
    pub word: Option<Serial<Word>>,
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
    pub resource: Serial<Resource>,
    /// The device it was opened for.
    pub device: Serial<Device>,
}

/// Of an allocation.
#[derive(Debug)]
pub struct Allocation {
    /// The adapter that owns it.
    pub adapter: Serial<Adapter>,
    /// The device that created it.
    pub creator: Serial<Device>,
    /// Its memory.
    pub memory: Memory,
    /// The resource it is a member of.
    pub resource: Option<Serial<Resource>>,
    /// The driver's word for it.
    pub word: Option<Serial<Word>>,
    /// Whether the driver was told to destroy it, and in which call.
    pub told: Option<Option<Serial<Call>>>,
    /// How many views of it are not closed.
    pub views: u32,
    /// How many views of it are not idle.
    pub busy: u32,
    /// How often the driver holds its data.
    pub held: u32,
    /// The retirement that closed its last view.
    pub ended_by: Option<Serial<Retirement>>,
    /// How many instances its driver allows, if it says.
    pub limit: Option<u32>,
}

/// Of an instance of an allocation.
#[derive(Debug)]
pub struct Instance {
    /// The allocation.
    pub allocation: Serial<Allocation>,
    /// The view it was made for.
    pub view: Serial<View>,
    /// The driver's word for it.
    pub word: Serial<Word>,
    /// The word that paging work named last.
    pub built: Option<Serial<Word>>,
    /// Its memory.
    pub memory: Memory,
}

/// Of a view.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct View {
    /// What it is a view of.
    pub allocation: Serial<Allocation>,
    /// The device that has it open.
    pub device: Serial<Device>,
    /// The resource its allocation is a member of.
    pub resource: Option<Serial<Resource>>,
    /// How far its end has come.
    pub stage: Stage,
    /// The retirement that ends it.
    pub retirement: Option<Serial<Retirement>>,
    /// What that one was asked.
    pub asked: Option<Asked>,
    /// Whether the driver was told to close it.
    pub told: bool,
    /// The driver's word for it.
    pub word: Option<Serial<Word>>,
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
    pub fn spared_by(&self, call: Option<Serial<Call>>) -> u32 {
        let ended = if self.told_in == call { self.told } else { 0 };
        self.live.saturating_sub(ended)
    }
}
