//! The driver function that a thread runs, for the report of a fault.
//!
//! A signal handler reads it, so it is a plain cell of the thread, without a destructor.

use crate::Component;
use std::cell::Cell;
use std::sync::atomic::{Ordering, compiler_fence};

/// A driver function that a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunningCall {
    /// The component that the function belongs to.
    pub component: Component,
    /// The Windows name of the function.
    pub name: &'static str,
}

/// The function of a thread. The component is set last and cleared first, so that a signal handler
/// never sees a name that is half written.
struct RunningCells {
    /// `None` if the thread runs no function of a driver.
    component: Cell<Option<Component>>,
    name: Cell<&'static str>,
}

impl RunningCells {
    #[inline]
    fn get(&self) -> Option<RunningCall> {
        let component = self.component.get()?;
        Some(RunningCall { component, name: self.name.get() })
    }

    #[inline]
    fn set(&self, call: Option<RunningCall>) {
        self.component.set(None);
        if let Some(RunningCall { component, name }) = call {
            compiler_fence(Ordering::Release);
            self.name.set(name);
            compiler_fence(Ordering::Release);
            self.component.set(Some(component));
        }
    }
}

std::thread_local! {
    static RUNNING: RunningCells =
        const { RunningCells { component: Cell::new(None), name: Cell::new("") } };
}

/// Marks this thread as running a driver function, until the guard drops.
#[derive(Debug)]
pub struct RunningCallGuard(Option<RunningCall>);

impl RunningCallGuard {
    /// Enters a function.
    #[inline]
    pub fn enter(component: Component, name: &'static str) -> Self {
        RUNNING.with(|cells| {
            let before = cells.get();
            cells.set(Some(RunningCall { component, name }));
            Self(before)
        })
    }
}

impl Drop for RunningCallGuard {
    #[inline]
    fn drop(&mut self) {
        RUNNING.with(|cells| cells.set(self.0));
    }
}

impl RunningCall {
    /// A call by the driver function that this thread runs, for a sentence: `name`, and the function.
    pub fn describe(name: &str) -> String {
        let of = Self::current().map_or(String::new(), |call| format!(" of {}", call.name));
        format!("{name}{of}")
    }

    /// The function that this thread runs. A signal handler may call this.
    pub fn current() -> Option<Self> {
        RUNNING.try_with(RunningCells::get).ok().flatten()
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
