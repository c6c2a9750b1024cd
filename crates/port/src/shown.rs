//! Argument structures and arrays in memory that a driver sees: guarded, if memory is guarded.
//!
//! A call passes a structure by address. If memory is guarded, the driver gets a copy between
//! inaccessible pages, which is gone after the call; else it gets the structure itself.
#![expect(unsafe_code, reason = "copies structures to memory that a driver sees")]

use crate::door::Door;
use crate::private_data::PrivateData;
use flight::{Component, RuleId};
use nt::{BlockKind, ShownMemory};
use std::ptr;

/// Calls `body` with the address of a structure, which the driver may write.
///
/// Any bytes that the driver writes there are a valid `T`.
pub(crate) fn in_out<T: Copy, R>(value: &mut T, body: impl FnOnce(*mut T) -> R) -> R {
    let Some(memory) = copy_of(value, BlockKind::Arguments) else { return body(value) };
    let at: *mut T = ptr::with_exposed_provenance_mut(memory.address());
    let answer = body(at);
    // SAFETY: The memory has the size and the alignment of a `T`, and what was written there last
    // is a valid one.
    *value = unsafe { at.read_volatile() };
    judge_overrun(&memory, "arguments");
    answer
}

/// Calls `body` with the address of a structure that the driver only reads.
pub(crate) fn input<T: Copy, R>(value: &T, body: impl FnOnce(*const T) -> R) -> R {
    let Some(memory) = copy_of(value, BlockKind::Arguments) else { return body(value) };
    let answer = body(ptr::with_exposed_provenance(memory.address()));
    judge_overrun(&memory, "arguments");
    answer
}

/// A copy of a value in guarded memory, if memory is guarded.
fn copy_of<T: Copy>(value: &T, kind: BlockKind) -> Option<ShownMemory> {
    const { assert!(align_of::<T>() <= 8, "shown memory is aligned to 8 bytes") };
    let memory = ShownMemory::zeroed(size_of::<T>(), kind)?;
    let at: *mut T = ptr::with_exposed_provenance_mut(memory.address());
    // SAFETY: The memory has the size and the alignment of a `T`.
    unsafe { at.write(*value) };
    Some(memory)
}

/// An array that an argument structure points to.
pub(crate) struct ShownList<T> {
    values: Vec<T>,
    memory: Option<ShownMemory>,
}

impl<T: Copy> ShownList<T> {
    /// An array with these elements.
    pub(crate) fn new(values: Vec<T>) -> Self {
        const { assert!(align_of::<T>() <= 8, "shown memory is aligned to 8 bytes") };
        let memory = ShownMemory::zeroed(size_of_val(values.as_slice()), BlockKind::List);
        if let Some(memory) = &memory {
            let at: *mut T = ptr::with_exposed_provenance_mut(memory.address());
            // SAFETY: The memory has the size of the array and the alignment of its elements.
            unsafe { ptr::copy_nonoverlapping(values.as_ptr(), at, values.len()) };
        }
        Self { values, memory }
    }

    /// The number of elements.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// The address of the array.
    pub(crate) fn pointer(&mut self) -> *mut T {
        match &self.memory {
            Some(memory) => ptr::with_exposed_provenance_mut(memory.address()),
            None => self.values.as_mut_ptr(),
        }
    }

    /// The elements as the driver left them. Any bytes that it writes are a valid `T`.
    pub(crate) fn into_values(self) -> Vec<T> {
        let Self { mut values, memory } = self;
        if let Some(memory) = memory {
            let at: *const T = ptr::with_exposed_provenance(memory.address());
            let length = values.len();
            // SAFETY: The memory has the size of the array and the alignment of its elements.
            unsafe { ptr::copy_nonoverlapping(at, values.as_mut_ptr(), length) };
            judge_overrun(&memory, "lists");
        }
        values
    }
}

/// Entry rule: a driver writes nothing next to what a call passes.
fn judge_overrun(memory: &ShownMemory, place: &'static str) {
    let Some(door) = Door::running() else { return };
    judge_bytes(&door, (memory.size(), memory.overrun()), place);
}

/// Entry rule: a driver writes nothing next to the private data that a call passes.
pub(crate) fn judge_private_data(door: &Door, private: &PrivateData) {
    let size = private.size() as usize;
    if size > 0 {
        let behind = private.overrun().map(|bytes| (size + bytes - 1).cast_signed());
        let before = || private.underrun().map(|bytes| -bytes.cast_signed());
        judge_bytes(door, (size, behind.or_else(before)), "pPrivateDriverData");
    }
}

/// Entry rule: a driver writes nothing next to what a call passes: a size, and the offset of a
/// byte outside that was written.
fn judge_bytes(door: &Door, (size, written): (usize, Option<isize>), place: &'static str) {
    let services = door.services();
    let broken = written.map(|at| match usize::try_from(at) {
        Ok(at) => {
            format!("{size} bytes were passed, and byte {} behind them was written", at + 1 - size)
        }
        Err(_) => format!("{size} bytes were passed, and byte {at} was written"),
    });
    let (rule, about) = (RuleId::WT_BUFFER_001, services.adapter());
    services.log().judge(rule, Component::Driver, about, place, broken);
}
