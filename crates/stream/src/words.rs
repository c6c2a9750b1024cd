//! Ids of objects, drivers' handles for them, and what calls of drivers return.

use crate::allocator::Allocator;
use crate::bag::DriverBag;
use crate::device::Device;
use crate::filter::Filter;
use crate::frame::Frame;
use crate::pin::Pin;
use crate::pointer::Pointer;
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
    PointerId Pointer StreamPointer Pointer;
}

/// A bag that a driver made itself (`KsAllocateObjectBag`).
pub type BagId = Id<DriverBag>;

/// The driver's word for a device (`KSDEVICE.Context`).
pub type DriverDevice = Token<DeviceId>;
/// The driver's word for a filter (`KSFILTER.Context`).
pub type DriverFilter = Token<FilterId>;
/// The driver's word for a pin (`KSPIN.Context`).
pub type DriverPin = Token<PinId>;
/// The driver's word for an allocator: what `AVStrMiniInitializeAllocator` made.
pub type DriverAllocator = Token<AllocatorId>;
/// The driver's word for a frame: where its memory is.
pub type DriverFrame = Token<FrameId>;

/// What a driver calls a `T`. Only a [`Blank`] makes one.
///
/// Not `Clone`: to end it is to move it, so to end it twice does not compile. Not `Debug`:
/// pointers do not repeat, so events number a word at first sight.
#[must_use = "a dropped token leaks inside the driver"]
pub struct Token<T>(usize, PhantomData<fn() -> T>);

/// The right to give one word, in this call. Only the class driver makes one.
pub struct Blank<'a, T>(PhantomData<&'a ()>, PhantomData<fn() -> T>);

impl<T> Token<T> {
    /// The word, for the driver it came from.
    pub fn word(&self) -> usize {
        self.0
    }

    /// The same word again, to lend it in the next call: the world keeps words as numbers.
    pub(crate) fn lent(word: usize) -> Self {
        Self(word, PhantomData)
    }
}

impl<T> Blank<'_, T> {
    pub(crate) fn new() -> Self {
        Self(PhantomData, PhantomData)
    }

    /// Gives the word.
    pub fn fill(self, word: usize) -> Token<T> {
        Token(word, PhantomData)
    }
}

/// What a driver answers, and what its services answer it.
pub type Answer<T> = Result<T, Refusal>;

/// Why a call of a driver or of a service failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no entry for this.
    Absent,
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

impl Refusal {
    /// Its name in events.
    pub fn name(self) -> Text {
        match self {
            Refusal::Absent => "absent".into(),
            Refusal::Invalid => "invalid".into(),
            Refusal::NoMemory => "no-memory".into(),
            Refusal::NotReady => "not-ready".into(),
            Refusal::NoMatch => "no-match".into(),
            Refusal::Pending => "pending".into(),
            Refusal::Unsupported => "unsupported".into(),
            Refusal::Busy => "busy".into(),
            Refusal::Deadlock => "deadlock".into(),
            Refusal::Crashed => "crashed".into(),
            Refusal::Other(number) => format!("{number:#010x}").into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refusal::Absent => "the entry point is not implemented",
            Refusal::Invalid => "an argument is invalid",
            Refusal::NoMemory => "out of memory",
            Refusal::NotReady => "no data is ready",
            Refusal::NoMatch => "the format does not match",
            Refusal::Pending => "the request is pending",
            Refusal::Unsupported => "the request is not supported",
            Refusal::Busy => "a resource is in use",
            Refusal::Deadlock => "the wait would never end",
            Refusal::Crashed => "the driver crashed",
            Refusal::Other(status) => return write!(f, "failed with status {status:#010x}"),
        })
    }
}

impl std::error::Error for Refusal {}

/// Where a pin is (`KSSTATE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
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

impl State {
    /// All of them, in order.
    pub const ALL: [State; 4] = [State::Stop, State::Acquire, State::Pause, State::Run];

    /// Its name in events.
    pub fn name(self) -> &'static str {
        ["stop", "acquire", "pause", "run"][self as usize]
    }

    /// The next one on the way to another.
    #[must_use]
    pub fn towards(self, to: State) -> State {
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
    pub used: u32,
    /// Nothing follows (`OPTIONSF_ENDOFSTREAM`).
    pub end: bool,
    /// Something is missing before it (`OPTIONSF_DATADISCONTINUITY`).
    pub discontinuity: bool,
}
