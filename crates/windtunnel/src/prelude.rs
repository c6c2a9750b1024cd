//! Types that a miniport in Rust and its tests use: `use windtunnel::prelude::*;`.

pub use crate::{
    Flight, FlightResult, HandleAllocator, NoHardware, Outcome, ScenarioStopped, TestClient,
    Testbed,
};
pub use crate::{find_scenario, fly_setup, set_up};
pub use flight::{DeviceLevel, Dispatch, Fence, HardwareModel, InterruptLine, Log, Passive, Pool};
pub use kernel::allocation::Allocation;
pub use kernel::callbacks::KernelCallbacks;
pub use kernel::context::Context;
pub use kernel::device::Device;
pub use kernel::miniport::{
    AllocationInfo, CallList, CreateAllocationArgs, CreateContextArgs, DestroyAllocationArgs,
    Drain, DriverAllocation, DriverContext, DriverDevice, DriverError, DriverHandle,
    DriverResource, DriverResult, DriverView, Features, Generation, HandleSlot, Miniport,
    NewAllocation, NewView, OpenAllocationArgs, OwningResource, ResourceDisposition,
    StandardAllocationArgs, StandardPrivateData, SubmitCommandVirtualArgs, SurfaceInfo,
};
pub use kernel::resource::Resource;
pub use kernel::view::View;
pub use kernel::{DriverSetup, Handle};
pub use thunk::{Client, CreateAllocation, CreatedAllocation, DestroyAllocation};
