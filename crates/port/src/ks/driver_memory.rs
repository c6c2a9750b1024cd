//! Memory of the door that a driver sees.
//!
//! No reference to it is ever created, so no access by the driver violates Rust's aliasing rules.
//!
//! # Invariants
//!
//! 1. `address` is the start of `bytes` bytes of `storage`. Its provenance is exposed, every byte of
//!    it has been written, and only `drop` frees memory of the heap.
#![expect(unsafe_code, reason = "owns the memory of structures that a driver sees")]

use abi::MDL;
use abi::ks::{
    IKsReferenceClock, KSDATAFORMAT, KSDEVICE, KSFILTER, KSFILTERFACTORY, KSGATE, KSMAPPING, KSPIN,
    KSPROCESSPIN, KSPROCESSPIN_INDEXENTRY, KSSTREAM_HEADER, KSSTREAM_POINTER,
};
use nt::{BlockKind, ShownMemory};
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr;

/// The fill byte for the memory of a destroyed object.
const ENDED_BYTE: u8 = 0xDD;
const ALIGN: usize = 16;

/// A block of memory.
#[derive(Debug)]
pub(crate) struct DriverMemory {
    address: usize,
    bytes: usize,
    storage: Storage,
}

/// What the memory is.
#[derive(Debug)]
enum Storage {
    Heap(Layout),
    /// Held for its memory.
    Guarded {
        _memory: ShownMemory,
    },
    /// Guarded, and its object is destroyed: no access any more.
    Inaccessible,
}

/// A structure for which any bytes are a valid value.
pub(crate) trait PlainData: Copy {}

macro_rules! plain {
    ($($name:ty)*) => { $(impl PlainData for $name {})* };
}

plain! {
    IKsReferenceClock KSDATAFORMAT KSDEVICE KSFILTER KSFILTERFACTORY KSGATE KSMAPPING KSPIN
    KSPROCESSPIN
    KSPROCESSPIN_INDEXENTRY KSSTREAM_HEADER KSSTREAM_POINTER MDL usize u8
}

impl DriverMemory {
    /// Allocates `bytes` zero bytes, at least one.
    pub(crate) fn new(bytes: usize) -> Self {
        if let Some(memory) = ShownMemory::zeroed(bytes.max(1), BlockKind::StreamObject) {
            let (address, bytes) = (memory.address(), memory.size());
            return Self { address, bytes, storage: Storage::Guarded { _memory: memory } };
        }
        let layout = Layout::from_size_align(bytes.max(1).next_multiple_of(ALIGN), ALIGN);
        let layout = layout.unwrap_or(Layout::new::<[u128; 1]>());
        // SAFETY: The size of the layout is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        if start.is_null() {
            handle_alloc_error(layout);
        }
        let (address, bytes) = (start.expose_provenance(), layout.size());
        Self { address, bytes, storage: Storage::Heap(layout) }
    }

    /// Allocates memory with a value in it.
    pub(crate) fn from_value<T: PlainData>(value: T) -> Self {
        let place = Self::new(size_of::<T>());
        place.write(0, value);
        place
    }

    /// Allocates memory with these bytes.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let place = Self::new(bytes.len());
        for (at, byte) in bytes.iter().enumerate() {
            place.write(at, *byte);
        }
        place
    }

    /// The address.
    pub(crate) fn address(&self) -> usize {
        self.address
    }

    /// The address, as a pointer for a driver.
    pub(crate) fn pointer<T>(&self) -> *mut T {
        ptr::with_exposed_provenance_mut(self.address)
    }

    /// Reads a value. Returns `None` if it is out of range.
    pub(crate) fn read<T: PlainData>(&self, offset: usize) -> Option<T> {
        let from = self.checked_pointer::<T>(offset)?.cast_const();
        // SAFETY: By invariant 1 the bytes are ours and written, and any bytes are a valid `T`.
        // Volatile, because a driver may have changed them.
        Some(unsafe { from.read_volatile() })
    }

    /// Writes a value. A value out of range is not written.
    pub(crate) fn write<T: PlainData>(&self, offset: usize, value: T) {
        if let Some(to) = self.checked_pointer::<T>(offset) {
            // SAFETY: By invariant 1 the bytes are ours.
            unsafe { to.write_volatile(value) };
        }
    }

    fn checked_pointer<T>(&self, offset: usize) -> Option<*mut T> {
        let end = offset.checked_add(size_of::<T>())?;
        let accessible = !matches!(self.storage, Storage::Inaccessible);
        let aligned = (self.address + offset).is_multiple_of(align_of::<T>());
        let fits = end <= self.bytes && aligned && accessible;
        fits.then(|| ptr::with_exposed_provenance_mut(self.address + offset))
    }

    /// Makes the memory of a destroyed object useless: inaccessible if it is guarded, else filled
    /// with a pattern.
    pub(crate) fn end(&mut self) {
        if let Storage::Guarded { .. } = &self.storage {
            self.storage = Storage::Inaccessible;
        }
        self.fill_ended();
    }

    fn fill_ended(&self) {
        (0..self.bytes).for_each(|at| self.write(at, ENDED_BYTE));
    }

    /// Whether the memory is unchanged since the object was destroyed. Restores the pattern.
    pub(crate) fn is_untouched(&self) -> bool {
        if let Storage::Inaccessible = &self.storage {
            return true;
        }
        let pattern = usize::from_ne_bytes([ENDED_BYTE; size_of::<usize>()]);
        let words = (0..self.bytes).step_by(size_of::<usize>());
        let rests = words.into_iter().all(|at| self.read(at) == Some(pattern));
        if !rests {
            self.fill_ended();
        }
        rests
    }
}

impl Drop for DriverMemory {
    fn drop(&mut self) {
        if let Storage::Heap(layout) = self.storage {
            let start: *mut u8 = ptr::with_exposed_provenance_mut(self.address);
            // SAFETY: By invariant 1 it was allocated with this layout and is freed once.
            unsafe { dealloc(start, layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_inside_is_neither_read_nor_written() {
        let place = DriverMemory::new(24);
        place.write(8, 7_usize);
        assert_eq!((place.read(8), place.read::<usize>(3)), (Some(7_usize), None));
        assert_eq!(place.read::<usize>(32), None);
        place.write(32, 9_usize);
    }

    #[test]
    fn who_writes_to_what_has_ended_is_seen_once() {
        let mut place = DriverMemory::from_value(1_usize);
        place.end();
        assert!(place.is_untouched());
        place.write(5, 0_u8);
        assert!(!place.is_untouched() && place.is_untouched());
    }
}
