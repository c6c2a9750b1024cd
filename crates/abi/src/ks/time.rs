//! Time: of a frame, of a clock and of the machine, in units of 100 nanoseconds.
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use super::{
    KSSTATE, PFNKSPINCANCELTIMER, PFNKSPINCORRELATEDTIME, PFNKSPINRESOLUTION, PFNKSPINSETTIMER,
};
use crate::{GUID, NTSTATUS, PVOID};

/// A time stamp: `Time` * `Numerator` / `Denominator`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSTIME {
    /// In 100 nanoseconds where the fraction is 1 / 1.
    pub Time: i64,
    pub Numerator: u32,
    pub Denominator: u32,
}
layout! { KSTIME: 16 { Time: 0, Numerator: 8, Denominator: 12 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSINTERVAL {
    pub TimeBase: i64,
    pub Interval: i64,
}
layout! { KSINTERVAL: 16 { TimeBase: 0, Interval: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSRESOLUTION {
    /// Between two ticks, in 100 nanoseconds.
    pub Granularity: i64,
    /// Of a notification, either way, in 100 nanoseconds.
    pub Error: i64,
}
layout! { KSRESOLUTION: 16 { Granularity: 0, Error: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KSCORRELATED_TIME {
    pub Time: i64,
    pub SystemTime: i64,
}
layout! { KSCORRELATED_TIME: 16 { Time: 0, SystemTime: 8 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSQUALITY {
    pub Context: PVOID,
    /// How many of the frames are used, in thousandths.
    pub Proportion: u32,
    /// How late, in units of the interface; below zero, too early.
    pub DeltaTime: i64,
}
layout! { KSQUALITY: 24 { Context: 0, Proportion: 8, DeltaTime: 16 } }

/// A clock of the minidriver (`Clock` of [`KSPIN_DISPATCH`](super::KSPIN_DISPATCH)).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct KSCLOCK_DISPATCH {
    pub SetTimer: Option<PFNKSPINSETTIMER>,
    pub CancelTimer: Option<PFNKSPINCANCELTIMER>,
    pub CorrelatedTime: Option<PFNKSPINCORRELATEDTIME>,
    pub Resolution: Option<PFNKSPINRESOLUTION>,
}
layout! { KSCLOCK_DISPATCH: 32 { SetTimer: 0, CancelTimer: 8, CorrelatedTime: 16, Resolution: 24 } }

/// The functions of a reference clock, in order. One source: mingw-w64.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IKsReferenceClockVtbl {
    pub QueryInterface: Option<
        unsafe extern "win64-unwind" fn(
            this: *mut IKsReferenceClock,
            InterfaceId: *const GUID,
            Interface: *mut PVOID,
        ) -> NTSTATUS,
    >,
    pub AddRef: Option<unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock) -> u32>,
    pub Release: Option<unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock) -> u32>,
    pub GetTime: Option<unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock) -> i64>,
    pub GetPhysicalTime:
        Option<unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock) -> i64>,
    pub GetCorrelatedTime: Option<
        unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock, SystemTime: *mut i64) -> i64,
    >,
    pub GetCorrelatedPhysicalTime: Option<
        unsafe extern "win64-unwind" fn(this: *mut IKsReferenceClock, SystemTime: *mut i64) -> i64,
    >,
    pub GetResolution: Option<
        unsafe extern "win64-unwind" fn(
            this: *mut IKsReferenceClock,
            Resolution: *mut KSRESOLUTION,
        ) -> NTSTATUS,
    >,
    pub GetState: Option<
        unsafe extern "win64-unwind" fn(
            this: *mut IKsReferenceClock,
            State: *mut KSSTATE,
        ) -> NTSTATUS,
    >,
}
layout! { IKsReferenceClockVtbl: 72 { QueryInterface: 0, AddRef: 8, Release: 16, GetTime: 24, GetPhysicalTime: 32, GetCorrelatedTime: 40, GetCorrelatedPhysicalTime: 48, GetResolution: 56, GetState: 64 } }

/// A reference clock, as `KsPinGetReferenceClockInterface` gives one.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IKsReferenceClock {
    pub lpVtbl: *const IKsReferenceClockVtbl,
}
layout! { IKsReferenceClock: 8 { lpVtbl: 0 } }
