//! IRQLs as types: proofs of the caller's IRQL.
//!
//! A function that takes `&mut Passive` can only be called with such a proof, and only a host
//! creates them. So calling a driver's destroy function from inside a completion does not compile.
//!
//! # Invariants
//!
//! 1. A proof is neither `Copy` nor `Send`, and is borrowed mutably for a call: there is one usable
//!    proof per virtual thread at a time.
//! 2. While a higher proof is lent, the lower one cannot be used.

use crate::{Host, thread};
use std::fmt;
use std::marker::PhantomData;

/// Not `Send`, not `Copy`, and not constructible outside this crate.
type Unforgeable = PhantomData<*mut ()>;

/// `PASSIVE_LEVEL`: nothing is masked, and waiting is allowed.
#[derive(Debug)]
pub struct Passive(Unforgeable);

/// `DISPATCH_LEVEL`: the thread scheduler is masked.
#[derive(Debug)]
pub struct Dispatch(Unforgeable);

/// `DIRQL`: the device's interrupt is masked.
#[derive(Debug)]
pub struct DeviceLevel(Unforgeable);

/// An IRQL as a value, for code that checks it at run time (a door, a trace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irql {
    /// See [`Passive`].
    Passive,
    /// See [`Dispatch`].
    Dispatch,
    /// See [`DeviceLevel`].
    Device,
}

/// A proof of an IRQL.
pub trait Level: Sized {
    /// The IRQL it proves.
    const IRQL: Irql;
    #[doc(hidden)]
    fn create(_: LevelSeal) -> Self;
}

/// The right to create proofs. Only this crate has it.
#[derive(Debug)]
pub struct LevelSeal(());

/// The IRQL at which a callback runs.
#[derive(Debug)]
pub enum At<'a> {
    /// At [`Passive`].
    Passive(&'a mut Passive),
    /// At [`Dispatch`].
    Dispatch(&'a mut Dispatch),
    /// At [`DeviceLevel`].
    Device(&'a mut DeviceLevel),
}

macro_rules! level {
    ($($name:ident $irql:ident),*) => {$(
        impl Level for $name {
            const IRQL: Irql = Irql::$irql;
            fn create(_: LevelSeal) -> Self {
                Self(PhantomData)
            }
        }
    )*};
}

level!(Passive Passive, Dispatch Dispatch, DeviceLevel Device);

impl Passive {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }

    /// Lends the proof of level `L` to `body` and raises the thread's IRQL meanwhile.
    #[inline]
    pub fn raised<L: Level, R>(&mut self, body: impl FnOnce(&mut L) -> R) -> R {
        raise(body)
    }
}

impl Dispatch {
    /// Lends the proof of the device level to `body` and raises the thread's IRQL meanwhile.
    pub fn raised<R>(&mut self, body: impl FnOnce(&mut DeviceLevel) -> R) -> R {
        raise(body)
    }
}

#[inline]
fn raise<L: Level, R>(body: impl FnOnce(&mut L) -> R) -> R {
    // The guard restores the IRQL even if the body panics.
    let back = IrqlGuard(thread::set_irql(L::IRQL));
    let answer = body(&mut L::create(LevelSeal(())));
    drop(back);
    answer
}

/// The IRQL to restore.
struct IrqlGuard(Irql);

impl Drop for IrqlGuard {
    fn drop(&mut self) {
        thread::set_irql(self.0);
    }
}

impl At<'_> {
    /// Lends the proof of the caller's current IRQL, according to `host`. For callbacks, whose
    /// caller is a driver and has no proof.
    pub fn at_current_irql<R>(host: &dyn Host, body: impl FnOnce(At<'_>) -> R) -> R {
        match host.irql() {
            Irql::Passive => body(At::Passive(&mut Passive(PhantomData))),
            Irql::Dispatch => body(At::Dispatch(&mut Dispatch(PhantomData))),
            Irql::Device => body(At::Device(&mut DeviceLevel(PhantomData))),
        }
    }

    /// The IRQL as a value.
    pub fn irql(&self) -> Irql {
        match self {
            At::Passive(_) => Irql::Passive,
            At::Dispatch(_) => Irql::Dispatch,
            At::Device(_) => Irql::Device,
        }
    }
}

impl Irql {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Irql::Passive => "passive",
            Irql::Dispatch => "dispatch",
            Irql::Device => "device",
        }
    }
}

impl fmt::Display for Irql {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
