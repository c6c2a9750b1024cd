//! The type of a row of the entry point table, and the code generated from the rows.

use crate::session::Session;
use abi::NTSTATUS;
use flight::{Passive, RuleId, Support};
use std::ffi::c_void;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct EntryRow {
    /// The Windows name of the entry point.
    pub name: &'static str,
    /// What is missing, as text; empty if it is complete.
    pub missing: &'static str,
    /// The rules judged on its arguments, and on the kernel's errors.
    pub rules: &'static [RuleId],
    /// The statuses it returns itself, besides success.
    pub statuses: &'static [NTSTATUS],
    /// The DDIs whose failure it returns.
    pub forwards_errors_of: &'static [&'static str],
    /// The caller's obligation besides valid pointers, as text, or empty. A caller with random
    /// arguments cannot fulfil it.
    pub requires: &'static str,
    /// The parameters in C of an entry point that takes the members of its structure one by one;
    /// empty for all others.
    pub parameters: &'static str,
    /// The type of its argument, as in Rust: `*mut D3DKMT_ENUMADAPTERS2`.
    pub pointer: &'static str,
    /// The size of the structure that the argument points to.
    pub bytes: usize,
    /// The entry point, for callers that choose it by row.
    pub call: EntryPoint,
}

/// An entry point whose argument is an address: its contract is that of the function with the
/// row's name.
pub type EntryPoint = unsafe fn(&Session, &mut Passive, *mut c_void) -> NTSTATUS;

impl EntryRow {
    /// How much of it is implemented.
    pub const fn support(&self) -> Support {
        Support::from_missing(self.missing)
    }
}

/// Defines the functions with the Windows names, and `ENTRIES`, from the rows of
/// [`for_each_entry_point!`](crate::for_each_entry_point).
macro_rules! entry_points {
    ($(
        $name:ident(* $mutability:tt $module:ident :: $args:ident) => $file:ident :: $function:ident {
            $(rules: $rules:tt,)?
            statuses: $statuses:tt,
            $(forwards_errors_of: $ddis:tt,)?
            $(missing: $missing:expr,)?
            $(requires: $requires:literal,)?
            $(parameters: $parameters:literal,)?
        }
    )+) => {
        $(
            #[doc = concat!("`", stringify!($name), "`: see [`ENTRIES`] for its statuses.")]
            ///
            /// # Safety
            ///
            /// `args` is NULL or valid for reads and writes, and so are the pointers that its
            /// structure holds, as far as the structure says. In a guarded session
            /// ([`Session::guarded`]) they may be any numbers, but what is mapped where the
            /// call returns data is overwritten.
            $(#[doc = concat!("\n\nIn any session, ", $requires, ".")])?
            pub unsafe fn $name(
                session: &Session,
                at: &mut Passive,
                args: *$mutability abi::$module::$args,
            ) -> NTSTATUS {
                session.call(stringify!($name), || {
                    // SAFETY: The contract of this function is that of the row's function.
                    unsafe { crate::$file::$function(session, at, args) }
                        .map_err(|status| crate::refusal::of_structure(status, args.addr()))
                })
            }
        )+

        /// Every entry point.
        pub const ENTRIES: &[EntryRow] = &[$(
            EntryRow {
                name: stringify!($name),
                missing: $crate::entry::listed!(missing $($missing)?),
                rules: $crate::entry::listed!(rules $($rules)?),
                statuses: $crate::entry::listed!(statuses $statuses),
                forwards_errors_of: $crate::entry::listed!(forwards_errors_of $($ddis)?),
                requires: concat!($($requires)?),
                parameters: concat!($($parameters)?),
                pointer: concat!("*", stringify!($mutability), " ", stringify!($args)),
                bytes: size_of::<abi::$module::$args>(),
                call: |session: &Session, at: &mut Passive, args: *mut c_void| {
                    // SAFETY: The caller keeps the contract of the function for this address.
                    unsafe { $name(session, at, args.cast()) }
                },
            },
        )+];
    };
}
pub(crate) use entry_points;

/// A list of a row: in brackets, the name of a constant, or nothing.
macro_rules! listed {
    (rules [$($rule:ident),+ $(,)?]) => { &[$(RuleId::$rule),+] };
    (statuses [$($status:ident),+ $(,)?]) => { &[$($status),+] };
    (forwards_errors_of [$($ddi:ident),+ $(,)?]) => { &[$(stringify!($ddi)),+] };
    (missing $missing:expr) => { $missing };
    (missing) => { "" };
    ($list:ident $constant:ident) => { $constant };
    ($list:ident) => { &[] };
}
pub(crate) use listed;

/// A rule judged on the arguments of a call.
pub(crate) struct ArgumentRule<A> {
    pub(crate) id: RuleId,
    /// The entry and the argument.
    pub(crate) argument: &'static str,
    /// The status when broken; `None` if the call continues as on Windows.
    pub(crate) refuses: Option<NTSTATUS>,
    /// The sentence, when broken.
    pub(crate) broken: fn(&A) -> Option<String>,
}

/// Judges all rules of a call. Those of a call whose arguments are `usual` are kept, which the
/// caller has found out with fewer comparisons than the rules make.
#[inline]
pub(crate) fn judge_usual_arguments<A>(
    session: &Session,
    rules: &[ArgumentRule<A>],
    arguments: &A,
    usual: bool,
) -> Result<(), NTSTATUS> {
    if !usual {
        return judge_arguments(session, rules, arguments);
    }
    count_kept(session, rules, || rules.iter().all(|rule| (rule.broken)(arguments).is_none()));
    Ok(())
}

/// Counts the rules of a call that keeps all of them; a build with assertions looks whether it does.
#[inline]
pub(crate) fn count_kept<A>(
    session: &Session,
    rules: &[ArgumentRule<A>],
    are_kept: impl FnOnce() -> bool,
) {
    debug_assert!(are_kept());
    if session.log().is_enabled() {
        for rule in rules {
            session.log().count_kept(rule.id);
        }
    }
}

/// Judges all rules of a call. Returns the status of the first broken rule that fails the call.
pub(crate) fn judge_arguments<A>(
    session: &Session,
    rules: &[ArgumentRule<A>],
    arguments: &A,
) -> Result<(), NTSTATUS> {
    let mut error = Ok(());
    for rule in rules {
        let broken = (rule.broken)(arguments);
        if let (Some(status), true, true) = (rule.refuses, broken.is_some(), error.is_ok()) {
            error = Err(status);
        }
        // A log that keeps nothing counts nothing.
        if session.log().is_enabled() {
            session.judge(rule.id, rule.argument, broken);
        }
    }
    error
}
