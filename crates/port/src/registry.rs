//! Maps the handles that a driver gets to our objects. These are the only global tables.
//!
//! A callback is a C function, so its data has no other location. A handle is a counter, never an
//! address: an invalid handle is not found, and never finds another object.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Objects by handle. The registry does not keep them alive.
pub(crate) struct Registry<T> {
    inner: Mutex<RegistryState<T>>,
}

struct RegistryState<T> {
    last: usize,
    entries: BTreeMap<usize, Weak<T>>,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self { inner: Mutex::new(RegistryState { last: 0, entries: BTreeMap::new() }) }
    }

    /// Creates an object that knows its handle. No handle is used twice, and none is zero.
    pub(crate) fn insert(&self, make: impl FnOnce(usize) -> T) -> Arc<T> {
        let key = {
            let mut inner = self.inner();
            inner.last += 1;
            inner.last
        };
        let it = Arc::new(make(key));
        self.inner().entries.insert(key, Arc::downgrade(&it));
        it
    }

    /// The object with this handle, while it exists.
    pub(crate) fn find(&self, key: usize) -> Option<Arc<T>> {
        self.inner().entries.get(&key)?.upgrade()
    }

    /// Removes a handle.
    pub(crate) fn remove(&self, key: usize) {
        self.inner().entries.remove(&key);
    }

    fn inner(&self) -> MutexGuard<'_, RegistryState<T>> {
        // A panic cannot leave the data under the lock inconsistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_finds_what_it_was_given_to_and_nothing_after() {
        let registry = Registry::new();
        let (a, b) = (registry.insert(|key| key), registry.insert(|key| key));
        assert_eq!((*a, *b), (1, 2));
        assert_eq!(registry.find(2).as_deref(), Some(&2));
        assert!(registry.find(0).is_none() && registry.find(3).is_none());
        registry.remove(1);
        assert!(registry.find(1).is_none());
        assert_eq!(*registry.insert(|key| key), 3, "no key is used twice");
    }

    #[test]
    fn it_keeps_nothing_alive() {
        let registry = Registry::new();
        drop(registry.insert(|key| key));
        assert!(registry.find(1).is_none());
    }
}
