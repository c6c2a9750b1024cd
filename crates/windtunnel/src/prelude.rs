//! What a miniport in Rust and its tests name: `use windtunnel::prelude::*;`.

pub use crate::{Bench, Flight, Flown, NoHardware, Outcome, Stopped, Tunnel, Words};
pub use crate::{find_scenario, fly_plugged, plug};
pub use flight::{DeviceLevel, Dispatch, Fence, Line, Log, Machine, Passive, Pool};
pub use kernel::allocation::Allocation;
pub use kernel::context::Context;
pub use kernel::device::Device;
pub use kernel::miniport::{
    Answer, Birth, Births, Blank, Born, ContextOrder, Doomed, DriverAllocation, DriverContext,
    DriverDevice, DriverResource, DriverView, Fate, Features, Generation, Home, Miniport, Opening,
    Refusal, Shape, Standard, StandardPrivate, Submission, Surface, Token, ViewBirth,
};
pub use kernel::resource::Resource;
pub use kernel::services::Services;
pub use kernel::view::View;
pub use kernel::{Handle, Plugged};
pub use thunk::{Client, Create, Created, Destroy};
