//! The interface of an `AVStream` minidriver, as in `ks.h`.
//!
//! Two sources agree on layouts that are not marked: mingw-w64 and the docs, `ReactOS` or
//! `windows-sys`. The numbers of flags and GUIDs are those of `windows-sys`.

mod allocator;
mod automation;
mod callback;
mod device;
mod filter;
mod format;
mod frame;
mod guid;
mod pin;
mod time;
mod video;
mod vram;

pub use allocator::*;
pub use automation::*;
pub use callback::*;
pub use device::*;
pub use filter::*;
pub use format::*;
pub use frame::*;
pub use guid::*;
pub use pin::*;
pub use time::*;
pub use video::*;
pub use vram::*;
