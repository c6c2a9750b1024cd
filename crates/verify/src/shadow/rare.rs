//! The part of a shadow that only few objects of its kind need.

use std::ops::{Deref, DerefMut};

/// A record whose usual value needs no memory.
#[derive(Debug)]
pub struct Rare<T>(Option<Box<T>>);

/// A record with a usual value.
pub trait Usual: Sized + 'static {
    /// The usual value.
    const USUAL: &'static Self;

    /// A record with that value.
    fn usual() -> Self;
}

impl<T> Default for Rare<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Usual> Deref for Rare<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::USUAL)
    }
}

impl<T: Usual> DerefMut for Rare<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(T::usual()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::Memory;
    use super::*;

    #[test]
    fn a_record_has_its_usual_value_until_it_is_written() {
        let mut memory = Rare::<Memory>::default();
        assert_eq!((memory.bytes, memory.0.is_none()), (0, true));
        memory.bytes = 7;
        assert_eq!((memory.bytes, memory.locks), (7, 0));
        assert_eq!(Rare::<Memory>::default().bytes, 0);
        assert_eq!(format!("{:?}", Memory::usual()), format!("{:?}", Memory::default()));
    }
}
