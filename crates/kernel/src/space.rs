//! Address spaces: what a process has on an adapter.

/// A process on an adapter (`hKmdProcess`), with its addresses.
pub struct Space {}
