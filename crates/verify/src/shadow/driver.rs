//! What is remembered of a driver: its calls, its words, and its pool blocks.

use super::{Adapter, Allocation, Device, Serial};
use flight::{Subject, Text};
use smallvec::SmallVec;

/// Of a call of the driver.
#[derive(Debug)]
pub struct Call {
    /// The DDI.
    pub name: Text,
    /// The adapter whose driver is called.
    pub adapter: Serial<Adapter>,
    /// The pool blocks taken in it that are still out: word, size and tag.
    pub blocks: Vec<(Serial<DriverPointer>, u64, Text)>,
    /// The words of what it ends.
    pub ends: SmallVec<[Serial<DriverPointer>; 2]>,
    /// The device it opens something for that is there already.
    pub opens_for: Option<Serial<Device>>,
    /// What the driver waited for in it, other than for another thread of its own.
    pub gpu_wait: Option<Text>,
}

/// Of a driver's word.
#[derive(Debug, Default)]
pub struct DriverPointer {
    /// The pool block of that address, if there is or was one.
    pub block: Option<Block>,
    /// What the driver gave it for.
    pub uses: SmallVec<[PointerUse; 1]>,
    /// The last allocation it was given for, also when that is gone.
    pub allocation: Option<Serial<Allocation>>,
}

/// A pool block.
#[derive(Debug)]
pub struct Block {
    /// Its size.
    pub bytes: u64,
    /// The tag it was taken with.
    pub tag: Text,
    /// The call it was taken in.
    pub taken_in: Option<Serial<Call>>,
    /// Whether that was the one in which its driver met the adapter.
    pub added: bool,
    /// The entry it was freed in, once it is.
    pub freed: Option<Text>,
    /// Whether it was out when it should not have been any more.
    pub leaked: bool,
}

/// What a word stands for.
#[derive(Clone, Copy, Debug)]
pub struct PointerUse {
    /// What the driver gave it for.
    pub of: Subject,
    /// Whether the driver has been told of its end.
    pub ending: bool,
    /// The last call that lent the word without ending it.
    pub lent_in: Option<Serial<Call>>,
}

impl DriverPointer {
    /// Its block, if it is still out, should not be any more.
    pub(crate) fn leak(&mut self) {
        if let Some(block) = &mut self.block {
            block.leaked |= block.freed.is_none();
        }
    }

    /// The block, while it is out.
    pub fn allocated_block(&self) -> Option<&Block> {
        self.block.as_ref().filter(|block| block.freed.is_none())
    }

    /// Where the block was freed, if it was.
    pub fn freed(&self) -> Option<&Text> {
        self.block.as_ref()?.freed.as_ref()
    }

    /// The first allocation or resource it stands for whose end the driver was not told of.
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
