//! Kernel handles: the numbers that `Zw`, `Ps` and `Io` functions give to a driver.
//!
//! A handle is a counter in steps of four, as on Windows, and is never reused: a closed handle finds
//! nothing. What it refers to is any value that the function which opened it knows.

use crate::owned::{self, OwnedKind};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The bit that marks a kernel handle, as on Windows: driver code sometimes tests for it.
const KERNEL_HANDLE: usize = 0xFFFF_FFFF_8000_0000;

static HANDLES: Mutex<Handles> = Mutex::new(Handles { last: 0, open: BTreeMap::new() });

struct Handles {
    last: usize,
    open: BTreeMap<usize, Arc<dyn Any + Send + Sync>>,
}

/// Opens a handle for a value.
pub(crate) fn open(value: Arc<dyn Any + Send + Sync>) -> usize {
    let mut handles = handles();
    handles.last += 4;
    let handle = KERNEL_HANDLE | handles.last;
    handles.open.insert(handle, value);
    owned::add(OwnedKind::Handle, handle);
    handle
}

/// The value of an open handle. `None` if the handle is not open or refers to another type.
pub(crate) fn find<T: Any + Send + Sync>(handle: usize) -> Option<Arc<T>> {
    handles().open.get(&handle)?.clone().downcast().ok()
}

/// Closes a handle. Returns whether it was open.
pub(crate) fn close(handle: usize) -> bool {
    let closed = handles().open.remove(&handle);
    owned::remove(OwnedKind::Handle, handle);
    closed.is_some() // The value is dropped here, outside the lock.
}

fn handles() -> MutexGuard<'static, Handles> {
    HANDLES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_finds_its_value_until_it_is_closed() {
        let (first, second) = (open(Arc::new(7_u32)), open(Arc::new("key")));
        assert!(first != second && first.is_multiple_of(4));
        assert_eq!(find::<u32>(first).as_deref(), Some(&7));
        assert!(find::<u32>(second).is_none(), "of another type");
        assert!(close(first) && !close(first));
        assert!(find::<u32>(first).is_none());
        assert!(close(second));
    }
}
