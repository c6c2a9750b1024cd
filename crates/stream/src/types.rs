//! Ids of objects, driver handles, and the results of driver calls.

use crate::allocator::Allocator;
use crate::bag::DriverBag;
use crate::device::Device;
use crate::filter::Filter;
use crate::frame::Frame;
use crate::pin::Pin;
use crate::pointer::StreamPointer;
use flight::{Id, Kind, Object, Subject};

pub use flight::{DriverError, DriverHandle, DriverResult, HandleSlot};

macro_rules! ids {
    ($($(#[doc = $doc:literal])+ $name:ident $object:ident $kind:ident $variant:ident;)*) => {
        $(
            $(#[doc = $doc])+
            pub type $name = Id<$object>;

            impl Object for $object {
                const KIND: Kind = Kind::$kind;
            }

            impl From<$name> for ObjectId {
                fn from(id: $name) -> Self {
                    ObjectId::$variant(id)
                }
            }
        )*

        /// An object of any kind that events are about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum ObjectId {
            $($(#[doc = $doc])+ $variant($name),)*
        }

        impl ObjectId {
            /// The object as the subject of an event.
            pub fn subject(self) -> Subject {
                match self {
                    $(ObjectId::$variant(id) => id.subject(),)*
                }
            }
        }
    };
}

// Drivers and clients hold these ids, and may use them after their objects have ended: the class
// driver looks up every id from outside with `get`.
ids! {
    /// A streaming device (`PKSDEVICE`).
    DeviceId Device KsDevice Device;
    /// A filter (`PKSFILTER`).
    FilterId Filter Filter Filter;
    /// A pin (`PKSPIN`).
    PinId Pin Pin Pin;
    /// An allocator.
    AllocatorId Allocator Allocator Allocator;
    /// A frame.
    FrameId Frame Frame Frame;
    /// A position in a pin's queue (`PKSSTREAM_POINTER`).
    PointerId StreamPointer StreamPointer Pointer;
}

/// A bag that a driver created (`KsAllocateObjectBag`).
pub type BagId = Id<DriverBag>;

/// The driver handle of a device (`KSDEVICE.Context`).
pub type DriverDevice = DriverHandle<DeviceId>;
/// The driver handle of a filter (`KSFILTER.Context`).
pub type DriverFilter = DriverHandle<FilterId>;
/// The driver handle of a pin (`KSPIN.Context`).
pub type DriverPin = DriverHandle<PinId>;
/// The driver handle of an allocator, set by `AVStrMiniInitializeAllocator`.
pub type DriverAllocator = DriverHandle<AllocatorId>;
/// The driver handle of a frame: the address of its memory.
pub type DriverFrame = DriverHandle<FrameId>;

/// The state of a pin (`KSSTATE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinState {
    /// No resources are held.
    #[default]
    Stop,
    /// Resources are held.
    Acquire,
    /// Everything is ready.
    Pause,
    /// Data flows.
    Run,
}

impl PinState {
    /// All states, in order.
    pub const ALL: [PinState; 4] =
        [PinState::Stop, PinState::Acquire, PinState::Pause, PinState::Run];

    /// Its name in events.
    pub fn name(self) -> &'static str {
        ["stop", "acquire", "pause", "run"][self as usize]
    }

    /// The next state on the way to another.
    #[must_use]
    pub fn next_towards(self, to: PinState) -> PinState {
        let here = self as usize;
        match here.cmp(&(to as usize)) {
            std::cmp::Ordering::Less => Self::ALL[here + 1],
            std::cmp::Ordering::Equal => self,
            std::cmp::Ordering::Greater => Self::ALL[here - 1],
        }
    }
}

/// The header of a frame (`KSSTREAM_HEADER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// When to present it, in steps of 100 ns (`PresentationTime`).
    pub time: u64,
    /// Its duration (`Duration`).
    pub duration: u64,
    /// How many of its bytes are data (`DataUsed`).
    pub data_used: u32,
    /// The last frame (`OPTIONSF_ENDOFSTREAM`).
    pub end_of_stream: bool,
    /// Data is missing before it (`OPTIONSF_DATADISCONTINUITY`).
    pub discontinuity: bool,
}
