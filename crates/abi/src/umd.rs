//! The interface of a Direct3D 9 user-mode display driver, as in `d3dumddi.h`.
//!
//! One source: docs, for most of it.

mod adapter;
mod callback;
mod lock;
mod resource;
mod sync;
mod tables;

pub use adapter::*;
pub use callback::*;
pub use lock::*;
pub use resource::*;
pub use sync::*;
pub use tables::*;

/// The interface that opens an adapter: Direct3D 9.
pub const D3D9_INTERFACE: u32 = 9;

/// The version of the interface, in Windows Vista.
pub const D3D_UMD_INTERFACE_VERSION_VISTA: u32 = 0x000C;
/// The same, in Windows 7.
pub const D3D_UMD_INTERFACE_VERSION_WIN7: u32 = 0x2003;
/// The same, in Windows 8.
pub const D3D_UMD_INTERFACE_VERSION_WIN8: u32 = 0x3004;
/// The same, with WDDM 1.3.
pub const D3D_UMD_INTERFACE_VERSION_WDDM1_3: u32 = 0x4002;
/// The same, with WDDM 2.0.
pub const D3D_UMD_INTERFACE_VERSION_WDDM2_0: u32 = 0x5002;
