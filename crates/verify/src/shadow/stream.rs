//! Shadows of streaming: devices, filters, pins, allocators, frames, pointers.

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
    /// Its state changes go through every intermediate state.
    pub standard: bool,
    /// It is processed at dispatch level.
    pub dispatch: bool,
    /// The minimum state in which it is processed.
    pub min_state: usize,
    /// The driver's state.
    pub state: usize,
    /// The state it is being brought to.
    pub requested: Option<usize>,
    /// The driver refused that state.
    pub failed: bool,
    /// The call that closes it.
    pub closing: Option<Serial<StreamCall>>,
    /// The call that processes it.
    pub processing: Option<Serial<StreamCall>>,
    /// How many allocators of its driver it has.
    pub allocators: u32,
    /// How many items are in its bag.
    pub bagged: u32,
}

/// Of an allocator.
#[derive(Debug)]
pub struct StreamAllocator {
    /// Its pin.
    pub pin: Serial<StreamPin>,
    /// Its owner.
    pub by: Text,
    /// How often its initialisation was requested.
    pub initialised: u32,
    /// It is ready.
    pub ready: bool,
    /// The driver handle.
    pub driver_handle: Option<Serial<DriverPointer>>,
    /// How many frames may be outstanding, zero for any number.
    pub frames: u32,
    /// How many are outstanding.
    pub out: u32,
}

/// Of a frame.
#[derive(Debug)]
pub struct StreamFrame {
    /// Its allocator; `None` if its driver injected it.
    pub allocator: Option<Serial<StreamAllocator>>,
    /// The driver handle.
    pub pointer: Serial<DriverPointer>,
    /// How many clones point to it.
    pub clones: u32,
    /// How many pointers to it are locked.
    pub locks: u32,
    /// An edge has passed it.
    pub passed: bool,
    /// Its driver was called to free it.
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
