//! Memory of the runtime that a driver may access.

/// Access to the memory that a runtime maps for its drivers.
///
/// A driver may pass any address and length, also after an unlock. So the driver's host, which
/// knows what is currently mapped, does the copying: unmapped bytes are not touched.
pub trait VisibleMemory: 'static {
    /// Copies bytes out, if all of them are mapped now. Returns whether they are.
    fn read(address: usize, bytes: &mut [u8]) -> bool;

    /// Copies bytes in, if all of them are mapped now. Returns whether they are.
    fn write(address: usize, bytes: &[u8]) -> bool;
}

/// The functions of a [`VisibleMemory`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryAccess {
    read: fn(usize, &mut [u8]) -> bool,
    write: fn(usize, &[u8]) -> bool,
}

impl MemoryAccess {
    pub(crate) fn new<S: VisibleMemory>() -> Self {
        Self { read: S::read, write: S::write }
    }
}

/// A memory range: a locked allocation, or the runtime's memory for a surface.
///
/// It is an address and a length, not a borrow: after the unlock, or after the resource is
/// destroyed, reads and writes fail.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    address: usize,
    length: usize,
    host: MemoryAccess,
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        (self.address, self.length) == (other.address, other.length)
    }
}

impl Eq for Memory {}

impl Memory {
    pub(crate) fn new(host: MemoryAccess, address: usize, length: usize) -> Self {
        Self { address, length: if address == 0 { 0 } else { length }, host }
    }

    /// The address, to pass it on.
    pub fn address(&self) -> usize {
        self.address
    }

    /// The length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether the length is zero.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Copies bytes out. Returns whether they are in range and mapped.
    #[must_use]
    pub fn read(&self, offset: usize, bytes: &mut [u8]) -> bool {
        let from = self.at(offset, bytes.len());
        from.is_some_and(|from| bytes.is_empty() || (self.host.read)(from, bytes))
    }

    /// Copies bytes in. Returns whether they are in range and mapped.
    #[must_use]
    pub fn write(&self, offset: usize, bytes: &[u8]) -> bool {
        let to = self.at(offset, bytes.len());
        to.is_some_and(|to| bytes.is_empty() || (self.host.write)(to, bytes))
    }

    /// An eight-byte value that other threads write at any time: a fence's value.
    pub fn value(&self) -> Option<u64> {
        let mut bytes = [0; size_of::<u64>()];
        self.read(0, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }

    fn at(&self, offset: usize, length: usize) -> Option<usize> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        self.address.checked_add(offset).filter(|_| inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// The bytes mapped at 0x1000, if any.
    static SHOWN: Mutex<Option<[u8; 4]>> = Mutex::new(Some([1, 2, 3, 4]));

    struct Four;

    impl VisibleMemory for Four {
        fn read(address: usize, bytes: &mut [u8]) -> bool {
            let shown = SHOWN.lock().unwrap();
            let from = shown
                .as_ref()
                .and_then(|memory| memory.get(address - 0x1000..)?.get(..bytes.len()));
            from.map(|it| bytes.copy_from_slice(it)).is_some()
        }

        fn write(address: usize, bytes: &[u8]) -> bool {
            let mut shown = SHOWN.lock().unwrap();
            let to = shown
                .as_mut()
                .and_then(|memory| memory.get_mut(address - 0x1000..)?.get_mut(..bytes.len()));
            to.map(|it| it.copy_from_slice(bytes)).is_some()
        }
    }

    #[test]
    fn only_what_is_inside_and_shown_is_touched() {
        let host = MemoryAccess::new::<Four>();
        let memory = Memory::new(host, 0x1000, 3);
        let mut seen = [0; 2];
        assert!(memory.read(1, &mut seen));
        assert_eq!(seen, [2, 3]);
        assert!(memory.write(0, &[7]) && memory.write(3, &[]));
        assert!(!memory.write(2, &[8, 8]) && !memory.read(usize::MAX, &mut seen));
        assert_eq!((*SHOWN.lock().unwrap(), memory.value()), (Some([7, 2, 3, 4]), None));
        assert!(Memory::new(host, 0, 8).is_empty());
        let large = Memory::new(host, 0x1000, 0x1000);
        assert!(!large.write(3, &[8, 8]), "the length exceeds the mapping");
        *SHOWN.lock().unwrap() = None;
        assert!(!memory.read(0, &mut seen) && !memory.write(0, &[1]), "it is shown no more");
    }
}
