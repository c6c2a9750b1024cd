//! Driver handles: a driver's handles of its own objects (`hAllocation`, `hDevice`, `Context`).
//!
//! A handle is affine: it is lent to a call, or moved into the call that destroys its object. So
//! destroying an object twice does not compile. Only the two kernels create a [`HandleSlot`]; a
//! test of the source enforces this.

use std::marker::PhantomData;

/// A driver's handle of a `T`. Only a [`HandleSlot`] creates one.
///
/// Not `Clone`: destroying the object moves the handle. Not `Debug`: pointers differ from run to
/// run, so events number a handle when they first see it.
#[must_use = "a dropped handle leaks inside the driver"]
pub struct DriverHandle<T>(usize, PhantomData<fn() -> T>);

/// The right to set one driver handle, in this call. Only a kernel creates one.
pub struct HandleSlot<'a, T> {
    kernel_handle: u32,
    call: PhantomData<&'a ()>,
    object: PhantomData<fn() -> T>,
}

impl<T> DriverHandle<T> {
    /// The value, for the driver it came from.
    pub fn as_raw(&self) -> usize {
        self.0
    }

    /// The value, for the call that destroys the object.
    pub fn into_raw(self) -> usize {
        self.0
    }
}

impl<T> HandleSlot<'_, T> {
    /// A slot for an object that has no kernel handle.
    #[expect(clippy::new_without_default, reason = "only the kernels create one")]
    pub fn new() -> Self {
        Self::for_object(0)
    }

    /// A slot for an object with this kernel handle.
    pub fn for_object(kernel_handle: u32) -> Self {
        Self { kernel_handle, call: PhantomData, object: PhantomData }
    }

    /// The kernel's handle of the object (`hDevice` and `hContext` on the way in), for callbacks.
    /// Zero if it has none.
    pub fn kernel_handle(&self) -> usize {
        self.kernel_handle as usize
    }

    /// Sets the handle.
    pub fn fill(self, raw: usize) -> DriverHandle<T> {
        DriverHandle(raw, PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_the_value_that_the_driver_set() {
        let slot: HandleSlot<'_, u8> = HandleSlot::for_object(0x40);
        assert_eq!(slot.kernel_handle(), 0x40);
        let handle = slot.fill(7);
        assert_eq!(handle.as_raw(), 7);
        assert_eq!(handle.into_raw(), 7);
        assert_eq!(HandleSlot::<u8>::new().kernel_handle(), 0);
    }
}
