//! The driver function that a thread runs, for the report of a fault.
//!
//! A signal handler reads it, so it is a plain cell of the thread, without a destructor.

use crate::Component;
use std::cell::Cell;

/// A driver function that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCall {
    /// The component that the function belongs to.
    pub component: Component,
    /// The Windows name of the function.
    pub name: &'static str,
}

std::thread_local! {
    static RUNNING: Cell<Option<RunningCall>> = const { Cell::new(None) };
}

/// Marks this thread as running a driver function, until the guard drops.
#[derive(Debug)]
pub struct RunningCallGuard(Option<RunningCall>);

impl RunningCallGuard {
    /// Enters a function.
    pub fn enter(component: Component, name: &'static str) -> Self {
        Self(RUNNING.replace(Some(RunningCall { component, name })))
    }
}

impl Drop for RunningCallGuard {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

impl RunningCall {
    /// The function that this thread runs. A signal handler may call this.
    pub fn current() -> Option<Self> {
        RUNNING.try_with(Cell::get).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_function_runs() {
        let name = || RunningCall::current().map(|call| call.name);
        assert_eq!(name(), None);
        let outer = RunningCallGuard::enter(Component::Umd, "pfnFlush");
        {
            let _inner = RunningCallGuard::enter(Component::Driver, "DxgkDdiRender");
            assert_eq!(name(), Some("DxgkDdiRender"));
        }
        assert_eq!(name(), Some("pfnFlush"));
        drop(outer);
        assert_eq!(name(), None);
    }
}
