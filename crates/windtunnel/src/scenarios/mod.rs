//! The scenarios, by subject.

pub(crate) mod bad;
pub(crate) mod destroy;
pub(crate) mod life;
pub(crate) mod saved;
pub(crate) mod share;
pub(crate) mod threads;
