//! Which virtual thread, and which driver call on it, the running code belongs to.
//!
//! Thread-local on purpose: an event takes both from here, so nobody has to pass them.

use crate::sync::thread_local;
use std::cell::Cell;

thread_local! {
    static THREAD: Cell<u32> = const { Cell::new(0) };
    static CALL: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The number of the virtual thread that runs here, as its events have it.
pub fn current() -> u32 {
    THREAD.with(Cell::get)
}

pub(crate) fn become_thread(number: u32) -> u32 {
    THREAD.with(|it| it.replace(number))
}

pub(crate) fn call() -> Option<u32> {
    CALL.with(Cell::get)
}

/// While it lives, this thread is inside a call of a driver.
#[derive(Debug)]
pub struct InCall(Option<u32>);

impl InCall {
    /// Enters call `number`.
    pub fn enter(number: u32) -> Self {
        Self(CALL.with(|it| it.replace(Some(number))))
    }

    /// The call this thread is in.
    pub fn current() -> Option<u32> {
        call()
    }
}

impl Drop for InCall {
    fn drop(&mut self) {
        CALL.with(|it| it.set(self.0));
    }
}
