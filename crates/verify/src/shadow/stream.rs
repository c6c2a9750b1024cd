//! What is remembered of streaming: devices, filters, pins, allocators, frames, pointers.

use super::{DriverPointer, Serial};
use flight::{Subject, Text};
use std::collections::BTreeMap;

/// Of a streaming device.
#[derive(Debug, Default)]
pub struct StreamDevice {
    /// It is started.
    pub started: bool,
    /// How many filters of it there are.
    pub filters: u32,
    /// How many items are in its bag.
    pub bagged: u32,
}

/// Of a filter.
#[derive(Debug, Default)]
pub struct StreamFilter {
    /// Its device.
    pub device: Option<Serial<StreamDevice>>,
    /// It is processed at dispatch level.
    pub dispatch: bool,
    /// How many pins it needs.
    pub needs: u32,
    /// How many pins of each kind it has.
    pub pins: BTreeMap<u32, u32>,
    /// How many items are in its bag.
    pub bagged: u32,
    /// The call that processes it.
    pub processing: Option<Serial<StreamCall>>,
}

/// Of a pin. States are counted from stop on.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct StreamPin {
    /// Its filter.
    pub filter: Option<Serial<StreamFilter>>,
    /// Its kind.
    pub factory: u32,
    /// It exists.
    pub created: bool,
    /// It walks in steps.
    pub standard: bool,
    /// It is processed at dispatch level.
    pub dispatch: bool,
    /// From which state on it is processed.
    pub min_state: usize,
    /// Where its driver is.
    pub state: usize,
    /// Where it is being brought.
    pub requested: Option<usize>,
    /// The driver refused that.
    pub failed: bool,
    /// The call that closes it.
    pub closing: Option<Serial<StreamCall>>,
    /// The call that processes it.
    pub processing: Option<Serial<StreamCall>>,
    /// How many allocators of its driver's it has.
    pub allocators: u32,
    /// How many items are in its bag.
    pub bagged: u32,
}

/// Of an allocator.
#[derive(Debug)]
pub struct StreamAllocator {
    /// Its pin.
    pub pin: Serial<StreamPin>,
    /// Whose it is.
    pub by: Text,
    /// How often it was to be initialised.
    pub initialised: u32,
    /// It is ready.
    pub ready: bool,
    /// The driver's word for it.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// How many frames it may have out, zero for any number.
    pub frames: u32,
    /// How many it has out.
    pub out: u32,
}

/// Of a frame.
#[derive(Debug)]
pub struct StreamFrame {
    /// Where it comes from: none, if its driver injected it.
    pub allocator: Option<Serial<StreamAllocator>>,
    /// The driver's word for it.
    pub pointer: Serial<DriverPointer>,
    /// How many clones point to it.
    pub clones: u32,
    /// How many pointers to it are locked.
    pub locks: u32,
    /// An edge has passed it.
    pub passed: bool,
    /// Its driver was told to free it.
    pub freeing: bool,
}

/// Of a stream pointer.
#[derive(Debug, Default)]
pub struct StreamPointer {
    /// It is a clone, not an edge.
    pub cloned: bool,
    /// What it points to.
    pub frame: Option<Serial<StreamFrame>>,
    /// It is locked.
    pub locked: bool,
}

/// Of a call of a streaming driver.
#[derive(Debug)]
pub struct StreamCall {
    /// Its name.
    pub name: Text,
    /// What it is about.
    pub about: Subject,
}
