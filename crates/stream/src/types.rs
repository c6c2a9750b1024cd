//! Ids of objects, drivers' handles for them, and what calls of drivers return.

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
// driver looks up with `get` what comes from outside.
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
    /// A place in a pin's queue (`PKSSTREAM_POINTER`).
    PointerId StreamPointer StreamPointer Pointer;
}

/// A bag that a driver made itself (`KsAllocateObjectBag`).
pub type BagId = Id<DriverBag>;

/// The driver's word for a device (`KSDEVICE.Context`).
pub type DriverDevice = DriverHandle<DeviceId>;
/// The driver's word for a filter (`KSFILTER.Context`).
pub type DriverFilter = DriverHandle<FilterId>;
/// The driver's word for a pin (`KSPIN.Context`).
pub type DriverPin = DriverHandle<PinId>;
/// The driver's word for an allocator: what `AVStrMiniInitializeAllocator` made.
pub type DriverAllocator = DriverHandle<AllocatorId>;
/// The driver's word for a frame: where its memory is.
pub type DriverFrame = DriverHandle<FrameId>;

/// What a driver calls a `T`. Only a [`HandleSlot`] makes one.
///
/// Not `Clone`: to end it is to move it, so to end it twice does not compile. Not `Debug`:
/// pointers do not repeat, so events number a word at first sight.
#[must_use = "a dropped token leaks inside the driver"]
pub struct DriverHandle<T>(usize, PhantomData<fn() -> T>);

/// The right to give one word, in this call. Only the class driver makes one.
pub struct HandleSlot<'a, T>(PhantomData<&'a ()>, PhantomData<fn() -> T>);

impl<T> DriverHandle<T> {
    /// The word, for the driver it came from.
    pub fn value(&self) -> usize {
        self.0
    }

    /// The same word again, to lend it in the next call: the world keeps words as numbers.
    pub(crate) fn duplicate(word: usize) -> Self {
        Self(word, PhantomData)
    }
}

impl<T> HandleSlot<'_, T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData, PhantomData)
    }

    /// Gives the word.
    pub fn set(self, word: usize) -> DriverHandle<T> {
        DriverHandle(word, PhantomData)
    }
}

/// What a driver answers, and what its services answer it.
pub type DriverResult<T> = Result<T, DriverError>;

/// Why a call of a driver or of a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverError {
    /// There is no entry for this.
    NoEntryPoint,
    /// It was given something it cannot take.
    Invalid,
    /// It ran out of memory.
    NoMemory,
    /// There is no data, or the frame was cancelled (`STATUS_DEVICE_NOT_READY`).
    NotReady,
    /// It does not match: the next range may (`STATUS_NO_MATCH`).
    NoMatch,
    /// It is not over yet (`STATUS_PENDING`).
    Pending,
    /// The request is not supported.
    Unsupported,
    /// Something it needs is in use.
    Busy,
    /// A wait would never end.
    Deadlock,
    /// It panicked.
    Crashed,
    /// A number that we only pass on.
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

/// Where a pin is (`KSSTATE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum PinState {
    /// Nothing is held.
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
    /// All of them, in order.
    pub const ALL: [PinState; 4] =
        [PinState::Stop, PinState::Acquire, PinState::Pause, PinState::Run];

    /// Its name in events.
    pub fn name(self) -> &'static str {
        ["stop", "acquire", "pause", "run"][self as usize]
    }

    /// The next one on the way to another.
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

/// What is said with a frame's bytes (`KSSTREAM_HEADER`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// When it is to be shown, in steps of 100 ns (`PresentationTime`).
    pub time: u64,
    /// For how long (`Duration`).
    pub duration: u64,
    /// How many of its bytes are data (`DataUsed`).
    pub data_used: u32,
    /// Nothing follows (`OPTIONSF_ENDOFSTREAM`).
    pub end_of_stream: bool,
    /// Something is missing before it (`OPTIONSF_DATADISCONTINUITY`).
    pub discontinuity: bool,
}
