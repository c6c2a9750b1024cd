//! Arguments of the driver's functions, copied out of the runtime's structures.

use crate::memory::Memory;
use abi::D3DKMT_HANDLE;
use abi::umd::D3DDDI_RESOURCEFLAGS;

/// The runtime's handle of a resource, for callbacks (`hResource`). Zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeResource(pub usize);

/// The runtime's handle of a context (`hContext`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContext(pub usize);

/// A resource that a call is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The driver's number of the resource, which the driver returned on creation.
    pub number: u64,
    /// The handle that the runtime has. Only a bad driver needs it.
    pub handle: usize,
}

/// Arguments of `OpenAdapter` (`D3DDDIARG_OPENADAPTER`).
#[derive(Clone, Copy, Debug)]
pub struct OpenAdapterArgs {
    /// `Interface`: 9.
    pub interface: u32,
    /// `Version` of the interface, one of `D3D_UMD_INTERFACE_VERSION_*`.
    pub version: u32,
}

/// Arguments of `CreateDevice` (`D3DDDIARG_CREATEDEVICE`).
#[derive(Clone, Copy, Debug)]
pub struct CreateDeviceArgs {
    /// `Interface`.
    pub interface: u32,
    /// `Version`.
    pub version: u32,
    /// `Flags`.
    pub flags: u32,
}

/// One surface of a resource (`D3DDDI_SURFACEINFO`).
#[derive(Clone, Copy, Debug)]
pub struct Surface {
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// In pixels; 0 is equivalent to 1.
    pub depth: u32,
    /// `pSysMem`: memory of the runtime, valid until the resource is destroyed.
    pub memory: Option<Memory>,
    /// `SysMemPitch`: bytes from one row of that memory to the next.
    pub pitch: u32,
    /// `SysMemSlicePitch`: bytes from one slice to the next.
    pub slice_pitch: u32,
}

/// Arguments of `CreateResource` (`D3DDDIARG_CREATERESOURCE`, `D3DDDIARG_CREATERESOURCE2`).
#[derive(Clone, Debug)]
pub struct CreateResourceArgs {
    /// `hResource`: the runtime's handle.
    pub runtime: RuntimeResource,
    /// `Format`.
    pub format: i32,
    /// `Pool`.
    pub pool: i32,
    /// `pSurfList`.
    pub surfaces: Vec<Surface>,
    /// `MultisampleType` and `MultisampleQuality`: valid for render targets.
    pub samples: (i32, u32),
    /// `MipLevels`: valid for textures.
    pub levels: u32,
    /// `Fvf`: valid for vertex buffers.
    pub fvf: u32,
    /// `VidPnSourceId`: valid for primaries.
    pub source: u32,
    /// `RefreshRate`: valid for primaries.
    pub refresh: (u32, u32),
    /// `Flags`.
    pub flags: D3DDDI_RESOURCEFLAGS,
    /// `Flags2`, or zero.
    pub flags2: u32,
    /// `Rotation`.
    pub rotation: i32,
}

/// One allocation of an opened resource (`D3DDDI_OPENALLOCATIONINFO`).
#[derive(Clone, Debug)]
pub struct OpenAllocationInfo {
    /// `hAllocation`.
    pub allocation: D3DKMT_HANDLE,
    /// The private data from the driver that created the allocation.
    pub private: Vec<u8>,
}

/// Arguments of `OpenResource`, for a resource of another device (`D3DDDIARG_OPENRESOURCE`).
#[derive(Clone, Debug)]
pub struct OpenResourceArgs {
    /// `hResource`: the runtime's handle.
    pub runtime: RuntimeResource,
    /// `hKMResource`.
    pub kernel: D3DKMT_HANDLE,
    /// `pOpenAllocationInfo`.
    pub allocations: Vec<OpenAllocationInfo>,
    /// The private data from the driver that created the resource.
    pub private: Vec<u8>,
    /// `Rotation`.
    pub rotation: i32,
    /// `Flags`.
    pub flags: u32,
}

/// A part of a volume (`D3DDDIBOX`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Volume {
    /// Where it starts: left, top, front.
    pub from: [u32; 3],
    /// Where it ends: right, bottom, back.
    pub to: [u32; 3],
}

/// A rectangle (`RECT`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Left edge.
    pub left: i32,
    /// Upper edge.
    pub top: i32,
    /// One past the right edge.
    pub right: i32,
    /// One past the lower edge.
    pub bottom: i32,
}

/// Arguments of `Lock` (`D3DDDIARG_LOCK`).
#[derive(Clone, Copy, Debug)]
pub struct LockArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Box`: valid if a flag is set.
    pub volume: Volume,
    /// `Flags`: `D3DDDI_LOCKFLAGS`.
    pub flags: abi::umd::D3DDDI_LOCKFLAGS,
}

/// Where the application sees a locked subresource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockResult {
    /// `pSurfData`.
    pub address: usize,
    /// `Pitch`.
    pub pitch: u32,
    /// `SlicePitch`.
    pub slice_pitch: u32,
}

/// Arguments of `Unlock` and `UnlockAsync` (`D3DDDIARG_UNLOCK`, `D3DDDIARG_UNLOCKASYNC`).
#[derive(Clone, Copy, Debug)]
pub struct UnlockArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Flags.NotifyOnly`.
    pub notify_only: bool,
}

/// Arguments of `LockAsync` (`D3DDDIARG_LOCKASYNC`). The driver may be busy with other work.
#[derive(Clone, Copy, Debug)]
pub struct LockAsyncArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Box`: valid if a flag is set.
    pub volume: Volume,
    /// `Flags`.
    pub flags: abi::umd::D3DDDI_LOCKASYNCFLAGS,
}

/// Where the application sees the subresource, and the values for [`RenameArgs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockAsyncResult {
    /// The locked memory.
    pub locked: LockResult,
    /// `hCookie`.
    pub cookie: usize,
    /// `GpuVirtualAddress`.
    pub gpu: u64,
}

/// Arguments of `Rename`: makes a subresource's new instance current (`D3DDDIARG_RENAME`).
#[derive(Clone, Copy, Debug)]
pub struct RenameArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `hCookie`, from [`LockAsyncResult`].
    pub cookie: usize,
    /// `GpuVirtualAddress`.
    pub gpu: u64,
}

/// Arguments of `Blt`: copies from one subresource to another (`D3DDDIARG_BLT`).
#[derive(Clone, Copy, Debug)]
pub struct BltArgs {
    /// The source.
    pub from: Resource,
    /// `SrcSubResourceIndex`.
    pub from_index: u32,
    /// `SrcRect`.
    pub from_area: Rect,
    /// The destination.
    pub to: Resource,
    /// `DstSubResourceIndex`.
    pub to_index: u32,
    /// `DstRect`.
    pub to_area: Rect,
    /// `ColorKey`.
    pub key: u32,
    /// `Flags`.
    pub flags: abi::umd::D3DDDI_BLTFLAGS,
}

/// Arguments of `ColorFill`: fills a part of a subresource (`D3DDDIARG_COLORFILL`).
#[derive(Clone, Copy, Debug)]
pub struct ColorFillArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `DstRect`.
    pub area: Rect,
    /// `Color`, as A8R8G8B8.
    pub color: u32,
}

/// Where an allocation or a resource is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResidencyStatus {
    /// In GPU memory.
    GpuMemory,
    /// In system memory that the GPU can access.
    SharedMemory,
    /// In no memory that the GPU can access.
    NotResident,
}
