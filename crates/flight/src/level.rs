//! Levels: proofs of how interruptible the caller is (`IRQL`).
//!
//! A function that takes `&mut Passive` can only be called where somebody has one, and only
//! a host makes them. So telling a driver to destroy from inside a completion does not compile.
//!
//! # Invariants
//!
//! 1. A proof is neither `Copy` nor `Send`, and is borrowed mutably for a call: there is one
//!    usable proof per virtual thread at a time.
//! 2. While a higher proof is lent, the lower one cannot be used.

use crate::Host;
use std::fmt;
use std::marker::PhantomData;

/// Not `Send`, not `Copy`, and nobody outside this crate can write it.
type Unforgeable = PhantomData<*mut ()>;

/// Nothing is held back: waiting is allowed (`PASSIVE_LEVEL`).
#[derive(Debug)]
pub struct Passive(Unforgeable);

/// The scheduler is held back (`DISPATCH_LEVEL`).
#[derive(Debug)]
pub struct Dispatch(Unforgeable);

/// The device's interrupt is held back (`DIRQL`).
#[derive(Debug)]
pub struct DeviceLevel(Unforgeable);

/// A level as a value, for those who must ask (a door, a trace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Irql {
    /// See [`Passive`].
    Passive,
    /// See [`Dispatch`].
    Dispatch,
    /// See [`DeviceLevel`].
    Device,
}

/// A proof of a level.
pub trait Level: Sized {
    /// The level it proves.
    const IRQL: Irql;
    #[doc(hidden)]
    fn create(_: LevelSeal) -> Self;
}

/// The right to make proofs. Only this crate has it.
#[derive(Debug)]
pub struct LevelSeal(());

/// The level a callback finds itself at.
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

    /// Lends the proof of level `L` to `body`, and tells the host for as long.
    pub fn raised<L: Level, R>(&mut self, host: &dyn Host, body: impl FnOnce(&mut L) -> R) -> R {
        raise(host, body)
    }
}

impl Dispatch {
    /// Lends the proof of the device's level to `body`, and tells the host for as long.
    pub fn raised<R>(&mut self, host: &dyn Host, body: impl FnOnce(&mut DeviceLevel) -> R) -> R {
        raise(host, body)
    }
}

fn raise<L: Level, R>(host: &dyn Host, body: impl FnOnce(&mut L) -> R) -> R {
    let before = host.set_irql(L::IRQL);
    // A panic of the body passes through here: the level goes back all the same.
    let back = IrqlGuard { host, previous: before };
    let answer = body(&mut L::create(LevelSeal(())));
    drop(back);
    answer
}

struct IrqlGuard<'a> {
    host: &'a dyn Host,
    previous: Irql,
}

impl Drop for IrqlGuard<'_> {
    fn drop(&mut self) {
        self.host.set_irql(self.previous);
    }
}

impl At<'_> {
    /// Lends the proof of the level at which `host` says the caller is: the way in for a
    /// callback, whose caller is a driver and has no proof to show.
    pub fn at_current_irql<R>(host: &dyn Host, body: impl FnOnce(At<'_>) -> R) -> R {
        match host.irql() {
            Irql::Passive => body(At::Passive(&mut Passive(PhantomData))),
            Irql::Dispatch => body(At::Dispatch(&mut Dispatch(PhantomData))),
            Irql::Device => body(At::Device(&mut DeviceLevel(PhantomData))),
        }
    }

    /// Which one it is.
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
