//! What a driver is asked, copied out of the runtime's structures.

use crate::memory::Memory;
use abi::D3DKMT_HANDLE;
use abi::umd::D3DDDI_RESOURCEFLAGS;

/// The runtime's name of a resource, for callbacks (`hResource`). Zero is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuntimeResource(pub usize);

/// The runtime's name of a context (`hContext`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RuntimeContext(pub usize);

/// A resource that the runtime talks about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resource {
    /// The driver's number of it: what it answered when it made it.
    pub number: u64,
    /// What the runtime has as its handle: no driver needs it but a bad one.
    pub handle: usize,
}

/// Opens an adapter (`D3DDDIARG_OPENADAPTER`).
#[derive(Clone, Copy, Debug)]
pub struct OpenAdapterArgs {
    /// `Interface`: nine.
    pub interface: u32,
    /// `Version`: of the interface, one of `D3D_UMD_INTERFACE_VERSION_*`.
    pub version: u32,
}

/// Makes a device (`D3DDDIARG_CREATEDEVICE`).
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
    /// In pixels: 0 and 1 mean the same.
    pub depth: u32,
    /// `pSysMem`: memory of the runtime's, which is there until the resource is destroyed.
    pub memory: Option<Memory>,
    /// `SysMemPitch`: bytes from one row of that memory to the next.
    pub pitch: u32,
    /// `SysMemSlicePitch`: bytes from one slice to the next.
    pub slice_pitch: u32,
}

/// Makes a resource (`D3DDDIARG_CREATERESOURCE`, `D3DDDIARG_CREATERESOURCE2`).
#[derive(Clone, Debug)]
pub struct CreateResourceArgs {
    /// `hResource`, as the runtime calls it.
    pub runtime: RuntimeResource,
    /// `Format`.
    pub format: i32,
    /// `Pool`.
    pub pool: i32,
    /// `pSurfList`.
    pub surfaces: Vec<Surface>,
    /// `MultisampleType` and `MultisampleQuality`: mean something of what is rendered to.
    pub samples: (i32, u32),
    /// `MipLevels`: mean something of textures.
    pub levels: u32,
    /// `Fvf`: means something of vertex buffers.
    pub fvf: u32,
    /// `VidPnSourceId`: means something of primaries.
    pub source: u32,
    /// `RefreshRate`: means something of primaries.
    pub refresh: (u32, u32),
    /// `Flags`.
    pub flags: D3DDDI_RESOURCEFLAGS,
    /// `Flags2`, or zero.
    pub flags2: u32,
    /// `Rotation`.
    pub rotation: i32,
}

/// One allocation of a resource that is opened (`D3DDDI_OPENALLOCATIONINFO`).
#[derive(Clone, Debug)]
pub struct OpenAllocationInfo {
    /// `hAllocation`.
    pub allocation: D3DKMT_HANDLE,
    /// What the driver that made it said of it.
    pub private: Vec<u8>,
}

/// Opens a resource that another device made (`D3DDDIARG_OPENRESOURCE`).
#[derive(Clone, Debug)]
pub struct OpenResourceArgs {
    /// `hResource`, as the runtime calls it.
    pub runtime: RuntimeResource,
    /// `hKMResource`.
    pub kernel: D3DKMT_HANDLE,
    /// `pOpenAllocationInfo`.
    pub allocations: Vec<OpenAllocationInfo>,
    /// What the driver that made it said of it.
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
    /// Behind the right edge.
    pub right: i32,
    /// Behind the lower edge.
    pub bottom: i32,
}

/// Shows a subresource to the application (`D3DDDIARG_LOCK`).
#[derive(Clone, Copy, Debug)]
pub struct LockArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Box`: means something if a flag says so.
    pub volume: Volume,
    /// `Flags`: `D3DDDI_LOCKFLAGS`.
    pub flags: abi::umd::D3DDDI_LOCKFLAGS,
}

/// Where the application sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockResult {
    /// `pSurfData`.
    pub address: usize,
    /// `Pitch`.
    pub pitch: u32,
    /// `SlicePitch`.
    pub slice_pitch: u32,
}

/// Ends a lock (`D3DDDIARG_UNLOCK`, `D3DDDIARG_UNLOCKASYNC`).
#[derive(Clone, Copy, Debug)]
pub struct UnlockArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Flags.NotifyOnly`.
    pub notify_only: bool,
}

/// Shows a subresource while the driver may be busy elsewhere (`D3DDDIARG_LOCKASYNC`).
#[derive(Clone, Copy, Debug)]
pub struct LockAsyncArgs {
    /// The resource.
    pub resource: Resource,
    /// `SubResourceIndex`.
    pub index: u32,
    /// `Box`: means something if a flag says so.
    pub volume: Volume,
    /// `Flags`.
    pub flags: abi::umd::D3DDDI_LOCKASYNCFLAGS,
}

/// Where the application sees it, and what [`RenameArgs`] is to say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockAsyncResult {
    /// Where.
    pub locked: LockResult,
    /// `hCookie`.
    pub cookie: usize,
    /// `GpuVirtualAddress`.
    pub gpu: u64,
}

/// The new instance of a subresource counts from here on (`D3DDDIARG_RENAME`).
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

/// Copies from one subresource to another (`D3DDDIARG_BLT`).
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

/// Fills a part of a subresource (`D3DDDIARG_COLORFILL`).
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

/// Where something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResidencyStatus {
    /// Where the GPU is fastest.
    GpuMemory,
    /// In memory that both see.
    SharedMemory,
    /// Nowhere that the GPU sees.
    NotResident,
}
