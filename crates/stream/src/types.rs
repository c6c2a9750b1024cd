//! Ids of objects, driver handles, and the results of driver calls.

use crate::allocator::Allocator;
use crate::bag::DriverBag;
use crate::device::Device;
use crate::filter::Filter;
use crate::frame::Frame;
use crate::pin::Pin;
use crate::pointer::StreamPointer;
use flight::{Id, Kind, Object, Subject, Text};
use std::fmt;
use std::marker::PhantomData;

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

/// A driver's handle of a `T`. Only a [`HandleSlot`] creates one.
///
/// Not `Clone`: ending the handle moves it, so ending it twice does not compile. Not `Debug`:
/// pointers do not repeat from run to run, so events number a pointer when it first appears.
#[must_use = "a dropped token leaks inside the driver"]
pub struct DriverHandle<T>(usize, PhantomData<fn() -> T>);

/// The right to set one driver handle, in this call. Only the class driver creates one.
pub struct HandleSlot<'a, T>(PhantomData<&'a ()>, PhantomData<fn() -> T>);

impl<T> DriverHandle<T> {
    /// The pointer, for the driver that set it.
    pub fn value(&self) -> usize {
        self.0
    }

    /// The same handle again, to pass it in the next call: the state stores handles as numbers.
    pub(crate) fn duplicate(word: usize) -> Self {
        Self(word, PhantomData)
    }
}

impl<T> HandleSlot<'_, T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData, PhantomData)
    }

    /// Sets the driver handle.
    pub fn set(self, word: usize) -> DriverHandle<T> {
        DriverHandle(word, PhantomData)
    }
}

/// What a driver returns, and what its services return to it.
pub type DriverResult<T> = Result<T, DriverError>;

/// Why a call of a driver or of a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverError {
    /// There is no entry point for this.
    NoEntryPoint,
    /// An argument is invalid.
    Invalid,
    /// Memory ran out.
    NoMemory,
    /// There is no data, or the frame was cancelled (`STATUS_DEVICE_NOT_READY`).
    NotReady,
    /// The format does not match: the next range may (`STATUS_NO_MATCH`).
    NoMatch,
    /// The request is pending (`STATUS_PENDING`).
    Pending,
    /// The request is not supported.
    Unsupported,
    /// An object it needs is in use.
    Busy,
    /// The wait would never end.
    Deadlock,
    /// The driver panicked.
    Crashed,
    /// A status that is only passed on.
    Other(u32),
}

impl DriverError {
    /// Its name in events.
    pub fn name(self) -> Text {
        match self {
            DriverError::NoEntryPoint => "absent".into(),
            DriverError::Invalid => "invalid".into(),
            DriverError::NoMemory => "no-memory".into(),
            DriverError::NotReady => "not-ready".into(),
            DriverError::NoMatch => "no-match".into(),
            DriverError::Pending => "pending".into(),
            DriverError::Unsupported => "unsupported".into(),
            DriverError::Busy => "busy".into(),
            DriverError::Deadlock => "deadlock".into(),
            DriverError::Crashed => "crashed".into(),
            DriverError::Other(number) => format!("{number:#010x}").into(),
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriverError::NoEntryPoint => "the entry point is not implemented",
            DriverError::Invalid => "an argument is invalid",
            DriverError::NoMemory => "out of memory",
            DriverError::NotReady => "no data is ready",
            DriverError::NoMatch => "the format does not match",
            DriverError::Pending => "the request is pending",
            DriverError::Unsupported => "the request is not supported",
            DriverError::Busy => "a resource is in use",
            DriverError::Deadlock => "the wait would never end",
            DriverError::Crashed => "the driver crashed",
            DriverError::Other(status) => return write!(f, "failed with status {status:#010x}"),
        })
    }
}

impl std::error::Error for DriverError {}

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
