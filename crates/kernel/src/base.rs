//! Ranges, errors and lists of ids.

pub(crate) mod error;
pub(crate) mod id_list;
pub mod range;
