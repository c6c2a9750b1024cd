//! Who is behind a handle that a driver was given: the one global table of the house.
//!
//! A callback is a C function, so there is nowhere else to keep what it needs. A handle is a
//! number that counts, never an address: a wrong one is not found, and finds nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Things by the key they were given. It keeps none of them alive.
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

    /// Makes something that knows its key. No key is used twice, and none is zero.
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

    /// What has this key, while it lives.
    pub(crate) fn find(&self, key: usize) -> Option<Arc<T>> {
        self.inner().entries.get(&key)?.upgrade()
    }

    /// Forgets a key.
    pub(crate) fn remove(&self, key: usize) {
        self.inner().entries.remove(&key);
    }

    fn inner(&self) -> MutexGuard<'_, RegistryState<T>> {
        // Every step under the lock is whole.
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
