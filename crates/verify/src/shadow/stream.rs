//! What is remembered of streaming: devices, filters, pins, allocators, frames.

use flight::{Subject, Text};
use smallvec::SmallVec;

/// Items in the bag of an object.
pub type Bag = SmallVec<[Subject; 2]>;

/// Of a streaming device.
#[derive(Debug, Default)]
pub struct KsDevice {
    /// Filters of it can be opened.
    pub started: bool,
    /// How many are open.
    pub filters: u32,
    /// What is in its bag.
    pub bag: Bag,
}

/// Of a filter: from the call on that makes it.
#[derive(Debug, Default)]
pub struct Filter {
    /// Its device, when it is there.
    pub device: Option<Subject>,
    /// The factories of its pins that are there.
    pub pins: SmallVec<[u32; 2]>,
    /// What is in its bag.
    pub bag: Bag,
}

/// Of a pin: from the call on that makes it.
#[derive(Debug)]
pub struct Pin {
    /// It is there.
    pub created: bool,
    /// Its filter, when it is there.
    pub filter: Option<Subject>,
    /// Which of the filter's pins it is.
    pub factory: u32,
    /// Its states are walked in steps.
    pub standard: bool,
    /// Its process routine is called at dispatch level.
    pub dispatch: bool,
    /// What its client wants; none before it wanted anything.
    pub client: Option<Text>,
    /// Where its driver is.
    pub state: Text,
    /// Its allocators, the last one last.
    pub allocators: SmallVec<[Subject; 1]>,
    /// The call in which its driver is told that it is closed.
    pub closing: Option<Subject>,
    /// The call that processes it.
    pub processing: Option<Subject>,
    /// What is in its bag.
    pub bag: Bag,
}

impl Default for Pin {
    fn default() -> Self {
        Self {
            created: false,
            filter: None,
            factory: 0,
            standard: true,
            dispatch: false,
            client: None,
            state: "stop".into(),
            allocators: SmallVec::new(),
            closing: None,
            processing: None,
            bag: Bag::new(),
        }
    }
}

/// Of an allocator.
#[derive(Debug)]
pub struct Allocator {
    /// Its pin.
    pub pin: Subject,
    /// Whose it is.
    pub by: Text,
    /// How often its driver was told to make it, and to delete it.
    pub initialised: u32,
    /// The same.
    pub deletes: u32,
    /// It can be used.
    pub ready: bool,
    /// It is gone.
    pub deleted: bool,
    /// How many frames there may be; zero is any.
    pub most: u32,
    /// How many there were, and how many its driver was told to free.
    pub made: u32,
    /// The same.
    pub freed: u32,
    /// How many there are.
    pub out: u32,
}

/// Of a frame.
#[derive(Debug)]
pub struct Frame {
    /// Its allocator.
    pub allocator: Option<Subject>,
    /// How many clones point to it.
    pub clones: u32,
    /// The pointer that keeps it from being cancelled.
    pub held: Option<Subject>,
}

/// Of a stream pointer: a clone, or one that keeps a frame from being cancelled.
#[derive(Debug)]
pub struct StreamPointer {
    /// The frame it is a clone to.
    pub of: Option<Subject>,
    /// The frame it keeps.
    pub keeps: Option<Subject>,
}

/// Of a call of a streaming minidriver.
#[derive(Debug)]
pub struct KsCall {
    /// Its entry.
    pub name: Text,
    /// What it is about.
    pub about: Subject,
}
