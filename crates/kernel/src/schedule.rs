//! Scheduling: packets from submission to completion.

pub(crate) mod dispatch;
pub(crate) mod gpu_sync;
pub(crate) mod lists;
pub(crate) mod preempt;
pub(crate) mod render;
pub(crate) mod report;
pub(crate) mod root_check;
pub(crate) mod state;
pub(crate) mod submit;
