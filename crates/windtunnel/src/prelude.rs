//! What a miniport in Rust and its tests name: `use windtunnel::prelude::*;`.

pub use crate::{TestClient, Flight, FlightResult, NoHardware, Outcome, ScenarioStopped, Testbed, HandleAllocator};
pub use crate::{find_scenario, fly_setup, set_up};
pub use flight::{DeviceLevel, Dispatch, Fence, InterruptLine, Log, HardwareModel, Passive, Pool};
pub use kernel::allocation::Allocation;
pub use kernel::context::Context;
pub use kernel::device::Device;
pub use kernel::miniport::{
    DriverResult, NewAllocation, CreateAllocationArgs, HandleSlot, CreatedAllocations, CreateContextArgs, DestroyAllocationArgs, DriverAllocation, DriverContext,
    DriverDevice, DriverResource, DriverView, ResourceDisposition, Features, Generation, OwningResource, Miniport, OpenAllocationArgs,
    DriverError, AllocationInfo, StandardAllocationArgs, StandardPrivateData, SubmitCommandVirtualArgs, SurfaceInfo, DriverHandle, NewView,
};
pub use kernel::resource::Resource;
pub use kernel::services::KernelCallbacks;
pub use kernel::view::View;
pub use kernel::{Handle, DriverSetup};
pub use thunk::{Client, CreateAllocation, CreatedAllocation, DestroyAllocation};
