//! Things by number, and lists of such numbers.

pub(crate) use flight::Store;
use smallvec::SmallVec;

/// Numbers of things, nearly always of one: a list without the heap.
pub(crate) type Few = SmallVec<[u32; 4]>;
