//! Shadows of a driver's calls, driver handles and pool blocks.

use super::{Adapter, Allocation, Device, Process, Serial};
use crate::ddi::KnownDdi;
use flight::{Callers, Subject, Text};
use smallvec::SmallVec;

/// Of a call of the driver.
#[derive(Debug)]
pub struct Call {
    /// The DDI.
    pub name: Text,
    /// The DDI, if its calls change what is recorded of an adapter.
    pub(crate) ddi: KnownDdi,
    /// The thread it runs on.
    pub thread: u32,
    /// The exclusion it runs under.
    pub threading_level: Text,
    /// The process it is for.
    pub process: Option<Serial<Process>>,
    /// The adapter whose driver is called.
    pub adapter: Serial<Adapter>,
    /// The pool blocks allocated in it and not freed: address, size and tag.
    pub blocks: Vec<(Serial<DriverPointer>, u64, Text)>,
    /// The driver handles of the objects it ends.
    pub ends: SmallVec<[Serial<DriverPointer>; 2]>,
    /// The device for which it opens an existing allocation.
    pub opens_for: Option<Serial<Device>>,
    /// What the driver waited for in it, other than for another thread of its own.
    pub gpu_wait: Option<Text>,
}

/// A driver handle.
#[derive(Debug, Default)]
pub struct DriverPointer {
    /// The pool block of that address, if there is or was one.
    pub block: Option<Box<Block>>,
    /// The objects that the driver uses it for.
    pub uses: SmallVec<[PointerUse; 1]>,
}

/// A pool block.
#[derive(Debug)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// The tag it was allocated with.
    pub tag: Text,
    /// The call it was allocated in.
    pub taken_in: Option<Serial<Call>>,
    /// The entry it was allocated in, if the driver was in one.
    pub allocated_in: Option<Text>,
    /// The driver's functions that allocated it.
    pub allocated_by: Callers,
    /// The entry it was freed in, once it is.
    pub freed: Option<Text>,
    /// The driver's functions that freed it, once it is.
    pub freed_by: Callers,
    /// Whether it was not freed when it should have been, and is reported for that.
    pub leaked: bool,
    /// The allocation whose destruction did not free it, until it is known what the driver does
    /// with it.
    pub kept_of: Option<Serial<Allocation>>,
    /// The last allocation its address was used for, even when that is destroyed.
    pub allocation: Option<Serial<Allocation>>,
}

impl Block {
    /// Its size, its tag and the functions that allocated it, as text.
    pub fn details(&self) -> String {
        let allocated = in_functions(", allocated", &self.allocated_by);
        format!("{} bytes, tag {}{allocated}", self.bytes, self.tag)
    }

    /// Whether it was allocated in the call that added the adapter.
    pub fn is_added(&self) -> bool {
        self.allocated_in.as_ref().is_some_and(|name| name == crate::ddi::ADD_DEVICE)
    }
}

/// What the driver did, with ` in ` and its two innermost functions. Empty if they are not known.
pub(crate) fn in_functions(did: &str, callers: &Callers) -> String {
    match callers.innermost() {
        "" => String::new(),
        functions => format!("{did} in {functions}"),
    }
}

/// An object that a driver handle stands for.
#[derive(Clone, Copy, Debug)]
pub struct PointerUse {
    /// The object.
    pub of: Subject,
    /// Whether the driver was called to end it.
    pub ending: bool,
    /// The last call that passed the handle without ending the object.
    pub lent_in: Option<Serial<Call>>,
}

impl DriverPointer {
    /// The block, if it is not freed, should have been.
    pub(crate) fn leak(&mut self) {
        if let Some(block) = &mut self.block {
            block.leaked |= block.freed.is_none();
        }
    }

    /// The block was not freed with this allocation; `None` if that is reported.
    pub(crate) fn keep(&mut self, of: Option<Serial<Allocation>>) {
        if let Some(block) = &mut self.block {
            block.kept_of = of.filter(|_| block.freed.is_none());
        }
    }

    /// The block belongs to a new allocation: it is not freed late any more.
    pub(crate) fn reuse(&mut self, of: Serial<Allocation>) {
        let Some(block) = &mut self.block else { return };
        block.allocation = Some(of);
        if block.kept_of.take().is_some() {
            block.leaked = false;
        }
    }

    /// Whether it is or was the driver handle of an allocation.
    pub fn is_of_allocation(&self) -> bool {
        let used = || self.uses.iter().any(|it| it.of.kind == flight::Kind::Allocation);
        self.block.as_ref().map_or_else(used, |block| block.allocation.is_some())
    }

    /// The block, while it is not freed.
    pub fn allocated_block(&self) -> Option<&Block> {
        self.block.as_deref().filter(|block| block.freed.is_none())
    }

    /// Where the block was freed, if it was.
    pub fn freed(&self) -> Option<&Text> {
        self.block.as_deref()?.freed.as_ref()
    }

    /// The first allocation or resource it stands for whose end the driver was not called for.
    pub fn live_object(&self) -> Option<Subject> {
        let owned = |pointer_use: &&PointerUse| {
            matches!(pointer_use.of.kind, flight::Kind::Allocation | flight::Kind::Resource)
                && !pointer_use.ending
        };
        self.uses.iter().find(owned).map(|pointer_use| pointer_use.of)
    }

    pub(crate) fn use_mut(&mut self, of: Subject) -> Option<&mut PointerUse> {
        self.uses.iter_mut().find(|pointer_use| pointer_use.of == of)
    }
}
