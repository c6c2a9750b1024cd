//! Ranges, errors and lists of ids.

pub(crate) mod digest;
pub(crate) mod error;
pub(crate) mod id_list;
pub mod range;
