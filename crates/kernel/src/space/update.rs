//! Updates of addresses that wait for a fence.

/// Updates of one call.
#[derive(Debug)]
pub(crate) struct Update {}
