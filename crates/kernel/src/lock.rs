//! The lock of this crate, with one instance (`Kernel::state`), and values that are set once.
#![expect(clippy::disallowed_types, reason = "a OnceLock that is not global")]

pub(crate) use flight::{Lock, StateGuard};

/// A `T` that is set once, and read without a lock.
pub(crate) type Once<T> = std::sync::OnceLock<T>;
