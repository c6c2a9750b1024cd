//! The rows of the DDI table, and the macro that generates code from them.

use crate::adapter::start::Adapter;
use crate::ddi::miniport::DriverError;
use crate::ddi::permit::{DdiPermit, ThreadingLevel};
use flight::{Id, Irql, Level, Support, internal_error};
use std::marker::PhantomData;

/// A row of the DDI table, as the funnel uses it. The type parameter is the IRQL of the call.
pub(crate) struct Ddi<L> {
    /// Its Windows name, which is its name in events and reports.
    pub(crate) name: &'static str,
    /// The threading level it runs at.
    pub(crate) class: ThreadingLevel,
    /// An alternative threading level. The permit decides which of the two applies.
    pub(crate) other: Option<ThreadingLevel>,
    /// The failures that it may return.
    pub(crate) legal: Legal,
    /// Whether it submits work to the hardware.
    pub(crate) gives_work: bool,
    pub(crate) level: PhantomData<fn() -> L>,
}

/// The failures that a DDI may return.
#[derive(Clone, Copy, Debug)]
pub enum Legal {
    /// Any failure: the documented list is open.
    Any,
    /// Only these failures: the documented list is closed. An invalid handle is always legal.
    Only(&'static [DriverError]),
}

/// A row of the DDI table as data, for reports.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Its name.
    pub name: &'static str,
    /// The IRQL it is called at.
    pub level: Irql,
    /// Its threading level.
    pub class: ThreadingLevel,
    /// The failures that it may return.
    pub legal: Legal,
    /// How completely the kernel supports it.
    pub state: Support,
}

/// Whether a DDI submits work to the hardware.
pub(super) const fn gives_work(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        b"DxgkDdiSubmitCommandVirtual" | b"DxgkDdiSubmitCommand" | b"DxgkDdiPreemptCommand"
    )
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
    /// A permit of an exclusive level serves lower levels, too: an adapter that starts has
    /// exclusive use of the driver. Any other permit is a kernel bug and ends the flight.
    #[inline]
    #[track_caller]
    pub(crate) fn class_under(
        &self,
        permit: &DdiPermit<'_>,
        adapter: Id<Adapter>,
    ) -> ThreadingLevel {
        let held = permit.class();
        match self.other {
            _ if !permit.is_for(adapter) => self.wrong_permit(permit, adapter),
            Some(other) if other == held => held,
            _ if held.serves(self.class) => self.class,
            _ => self.wrong_permit(permit, adapter),
        }
    }

    #[cold]
    #[track_caller]
    fn wrong_permit(&self, permit: &DdiPermit<'_>, adapter: Id<Adapter>) -> ! {
        let name = self.name;
        if !permit.is_for(adapter) {
            internal_error(format!(
                "invariant broken: {name} of {adapter} is called under a permit for that adapter"
            ));
        }
        let (needed, held) = (self.class.name(), permit.class().name());
        internal_error(format!(
            "invariant broken: {name} is called under a permit of threading level {needed}; \
             the permit held has level {held}"
        ))
    }

    /// The threading level of a call without a permit. Only a DDI without a threading level allows
    /// it.
    #[track_caller]
    pub(crate) fn class_without_permit(&self) -> ThreadingLevel {
        if self.class != ThreadingLevel::None {
            let (name, needed) = (self.name, self.class.name());
            internal_error(format!(
                "invariant broken: {name} is called under a permit of threading level {needed}; \
                 no permit is held"
            ));
        }
        self.class
    }
}

impl Legal {
    /// Whether the DDI may return this failure.
    pub fn allows(self, why: DriverError) -> bool {
        match self {
            Legal::Any => true,
            // WINDOWS: any DDI may return an invalid handle after a failed lookup inside the call
            // (documented at GetHandleData). A crash and a missing entry point are judged
            // elsewhere.
            Legal::Only(list) => {
                list.contains(&why)
                    || matches!(
                        why,
                        DriverError::NoHandle | DriverError::Crashed | DriverError::NoEntryPoint
                    )
            }
        }
    }
}

/// Generates the DDI table. A row is
///
/// ```text
/// WindowsName: Level, ThreadingLevel [or another], any | [failures] [, missing "reason"] {
///     /// What the method does.
///     wrapper fn method(arguments) [-> result] [, else default];
/// }
/// ```
///
/// Each row generates the row constant (`row::WindowsName`), its entry in
/// [`TABLE`](super::TABLE), the method of [`Miniport`](crate::ddi::miniport::Miniport), which
/// calls the delegate or returns the default (`NoEntryPoint`), and the funnel's wrapper. The keyword
/// before `fn` selects the wrapper:
///
/// - `system`: the call has no process;
/// - `process`: takes the process in which callbacks resolve handles;
/// - `details`: also takes a function that logs the call's arguments;
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
                gives_work: gives_work(stringify!($name)),
                level: PhantomData,
            };)*
        }

        /// Every DDI that the kernel calls.
        pub const TABLE: &[Line] = &[$(row::$name.line(concat!($($missing)?))),*];

        /// Their names.
        pub const NAMES: &[&str] = &[$(row::$name.name),*];

        /// A display miniport driver, with the adapter it drives.
        ///
        /// A call that a driver does not implement goes to its delegate; without a delegate the
        /// entry point is missing. A variant of a driver therefore implements only the differences.
        pub trait Miniport: Send + Sync {
            /// The driver that this driver is a variant of, if any.
            fn delegate(&self) -> Option<&dyn Miniport> {
                None
            }

            /// The driver model it was written for.
            fn generation(&self) -> Generation {
                self.delegate().map_or(Generation::Two, |inner_driver| inner_driver.generation())
            }

            /// The version of WDDM that it declares: the newest one of its model, unless it says so.
            fn wddm_version(&self) -> WddmVersion {
                let newest = || self.generation().newest_version();
                self.delegate().map_or_else(newest, |inner_driver| inner_driver.wddm_version())
            }

            /// The kind of driver, as far as it is known: its capabilities are queried after it has
            /// started.
            fn kind(&self) -> DriverKind {
                self.delegate().map_or(DriverKind::Full, |inner_driver| inner_driver.kind())
            }

            /// The number of devices connected to the adapter, as reported by `start_device`.
            fn children(&self) -> u32 {
                self.delegate().map_or(0, |inner_driver| inner_driver.children())
            }

            /// The implemented entry points, by their names in the DDI table. The default is all of
            /// them.
            fn entry_points(&self) -> Vec<&'static str> {
                self.delegate().map_or_else(|| NAMES.to_vec(), |inner_driver| inner_driver.entry_points())
            }

            $($(
                $(#[doc = $doc])+
                ///
                #[doc = concat!(
                    "`", stringify!($name), "`, called at level `", stringify!($level),
                    "` and threading level `", stringify!($class), "`."
                )]
                fn $method(&self, at: &mut $level, $($arg: $type),*) -> DriverResult<ddi!(@answer $($answer)?)> {
                    match self.delegate() {
                        Some(inner_driver) => inner_driver.$method(at, $($arg),*),
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

    (@default) => { Err(DriverError::NoEntryPoint) };
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
