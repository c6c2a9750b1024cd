//! What a row of the DDI table says, and what is made from it.

use crate::adapter::start::Adapter;
use crate::ddi::miniport::DriverError;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use flight::{Id, Irql, Level, Support, internal_error};
use std::marker::PhantomData;

/// A row of the DDI table, as the funnel uses it. The type is the level of the call.
pub(crate) struct Ddi<L> {
    /// Its Windows name, which is its name in events and reports.
    pub(crate) name: &'static str,
    /// The threading level it runs at.
    pub(crate) class: ThreadingLevel,
    /// Another threading level that it may run at: then the permit says which one it is.
    pub(crate) other: Option<ThreadingLevel>,
    /// What it may answer besides success.
    pub(crate) legal: Legal,
    pub(crate) level: PhantomData<fn() -> L>,
}

/// What a DDI may answer besides success.
#[derive(Clone, Copy, Debug)]
pub enum Legal {
    /// The list is open: any failure.
    Any,
    /// The list is closed. A handle that could not be looked up is legal besides.
    Only(&'static [DriverError]),
}

/// A row of the DDI table as data, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The level it is called at.
    pub level: Irql,
    /// Its threading level.
    pub class: ThreadingLevel,
    /// What it may answer.
    pub legal: Legal,
    /// How much of it there is.
    pub state: Support,
}

impl<L: Level> Ddi<L> {
    /// The row as data.
    pub(crate) const fn line(&self, missing: &'static str) -> Line {
        Line {
            name: self.name,
            level: L::IRQL,
            class: self.class,
            legal: self.legal,
            state: Support::from_missing(missing),
        }
    }

    /// The threading level of a call under this permit.
    ///
    /// A permit of an exclusive level serves lower levels, too: an adapter that starts has the
    /// driver to itself. Any other permit is a bug of the kernel, and ends the flight.
    #[track_caller]
    pub(crate) fn class_under(
        &self,
        permit: &DdiPermit<'_>,
        adapter: Id<Adapter>,
    ) -> ThreadingLevel {
        let (name, held) = (self.name, permit.class());
        if !permit.is_for(adapter) {
            internal_error(format!("{name} of {adapter} is called under a permit for it"));
        }
        match self.other {
            Some(other) if other == held => held,
            _ if held.serves(self.class) => self.class,
            _ => {
                let (needed, held) = (self.class.name(), held.name());
                internal_error(format!(
                    "{name} is called under a permit of threading level {needed}, not {held}"
                ))
            }
        }
    }

    /// The threading level of a call without a permit, which only a DDI of none has.
    #[track_caller]
    pub(crate) fn class_without_permit(&self) -> ThreadingLevel {
        if self.class != ThreadingLevel::None {
            let (name, needed) = (self.name, self.class.name());
            internal_error(format!("{name} is called under a permit of threading level {needed}"));
        }
        self.class
    }
}

impl Legal {
    /// Whether it may be refused so.
    pub fn allows(self, why: DriverError) -> bool {
        match self {
            Legal::Any => true,
            // WINDOWS: a failed look-up inside the call is answered with an invalid handle in
            // any DDI (documented at GetHandleData). A crash and an absent entry are judged
            // elsewhere.
            Legal::Only(list) => {
                list.contains(&why)
                    || matches!(
                        why,
                        DriverError::NoHandle | DriverError::Crashed | DriverError::Absent
                    )
            }
        }
    }
}

/// Makes the DDI table. A row is
///
/// ```text
/// WindowsName: Level, ThreadingLevel [or another], any | [failures] [, missing "words"] {
///     /// What the method does.
///     wrapper fn method(arguments) [-> answer] [, else default];
/// }
/// ```
///
/// From it come the row itself (`row::WindowsName`), its line in [`TABLE`](super::TABLE), the
/// method of [`Miniport`](crate::ddi::miniport::Miniport), which asks the delegate or answers the
/// default (`Absent`), and the funnel's wrapper. The wrapper is, by the word before `fn`,
///
/// - `system`: for no process;
/// - `process`: takes the process whose handles callbacks resolve;
/// - `details`: takes what the call carries, too;
/// - `by_hand`: written in `ddi.rs`, because it does more than call the driver.
macro_rules! ddi {
    ($(
        $name:ident: $level:ident, $class:ident $(or $other:ident)?, $legal:tt
        $(, missing $missing:literal)? {
            $(
                $(#[doc = $doc:literal])+
                $wrapper:ident fn $method:ident($($arg:ident: $type:ty),* $(,)?)
                $(-> $answer:ty)? $(, else $default:expr)?;
            )+
        }
    )*) => {
        /// The rows, under their Windows names.
        #[expect(non_upper_case_globals, reason = "Windows's names")]
        pub(crate) mod row {
            use super::*;
            $(pub(crate) const $name: Ddi<$level> = Ddi {
                name: stringify!($name),
                class: ThreadingLevel::$class,
                other: ddi!(@other $($other)?),
                legal: ddi!(@legal $legal),
                level: PhantomData,
            };)*
        }

        /// Every DDI the kernel calls.
        pub const TABLE: &[Line] = &[$(row::$name.line(concat!($($missing)?))),*];

        /// Their names.
        pub const NAMES: &[&str] = &[$(row::$name.name),*];

        /// A display miniport driver, with the adapter it drives.
        ///
        /// What a driver does not answer itself, the driver it stands on answers; with none, the
        /// entry is absent. So a variant of a driver says only what is different about it.
        pub trait Miniport: Send + Sync {
            /// The driver it stands on, if it is a variant of one.
            fn stands_on(&self) -> Option<&dyn Miniport> {
                None
            }

            /// The driver model it was written for.
            fn generation(&self) -> Generation {
                self.stands_on().map_or(Generation::Two, |delegate| delegate.generation())
            }

            /// The entries it offers, by their names in the DDI table: all, if it does not say.
            fn offers(&self) -> Vec<&'static str> {
                self.stands_on().map_or_else(|| NAMES.to_vec(), |delegate| delegate.offers())
            }

            $($(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "`", stringify!($name), "`, called at level `", stringify!($level),
                    "` and threading level `", stringify!($class), "`."
                )]
                fn $method(&self, at: &mut $level, $($arg: $type),*) -> DriverResult<ddi!(@answer $($answer)?)> {
                    match self.stands_on() {
                        Some(delegate) => delegate.$method(at, $($arg),*),
                        None => ddi!(@default $($default)?),
                    }
                }
            )+)*
        }

        impl Driver {
            $($(ddi! {
                @wrapper $wrapper $name $method ($($arg: $type),*) ddi!(@answer $($answer)?)
            })+)*
        }
    };

    (@other) => { None };
    (@other $other:ident) => { Some(ThreadingLevel::$other) };

    (@legal any) => { Legal::Any };
    (@legal [$($why:ident),*]) => { Legal::Only(&[$(DriverError::$why),*]) };

    (@answer) => { () };
    (@answer $answer:ty) => { $answer };

    (@default) => { Err(DriverError::Absent) };
    (@default $default:expr) => { $default };

    (@wrapper by_hand $($rest:tt)*) => {};
    (@wrapper system $name:ident $method:ident ($($arg:ident: $type:ty),*) $answer:ty) => {
        pub(crate) fn $method(
            &self,
            at: &mut Passive,
            permit: &DdiPermit<'_>,
            $($arg: $type),*
        ) -> DriverResult<$answer> {
            self.call(&row::$name, at, permit, no_details(None), |driver, at| {
                driver.$method(at, $($arg),*)
            })
        }
    };
    (@wrapper process $name:ident $method:ident ($($arg:ident: $type:ty),*) $answer:ty) => {
        pub(crate) fn $method(
            &self,
            at: &mut Passive,
            permit: &DdiPermit<'_>,
            process: impl Into<Option<flight::Id<$crate::lifetime::process::Process>>>,
            $($arg: $type),*
        ) -> DriverResult<$answer> {
            self.call(&row::$name, at, permit, no_details(process.into()), |driver, at| {
                driver.$method(at, $($arg),*)
            })
        }
    };
    (@wrapper details $name:ident $method:ident ($($arg:ident: $type:ty),*) $answer:ty) => {
        pub(crate) fn $method(
            &self,
            at: &mut Passive,
            permit: &DdiPermit<'_>,
            details: CallDetails<'_>,
            $($arg: $type),*
        ) -> DriverResult<$answer> {
            self.call(&row::$name, at, permit, details, |driver, at| {
                driver.$method(at, $($arg),*)
            })
        }
    };
}

pub(super) use ddi;
