//! Pool memory as a service, for drivers written in safe Rust.

/// Memory that is watched: who took it, whether it came back, and whether it stayed untouched
/// after that. A block is named by its address, which is also a good word for an object.
pub trait Pool: Send + Sync {
    /// Takes a block of zeroes (`ExAllocatePool2`).
    fn allocate_pool(&self, bytes: usize, tag: u32) -> Option<usize>;

    /// Gives a block back (`ExFreePoolWithTag`).
    fn free(&self, block: usize, tag: u32);

    /// Whether the live block that starts at `block` holds `word`, and `word` is itself a
    /// live block: whether one thing of the driver points at another.
    fn refers_to(&self, block: usize, driver_handle: usize) -> bool;

    /// Whether the address is in a live block of paged memory (`POOL_FLAG_PAGED`).
    fn is_paged(&self, _address: usize) -> bool {
        false
    }

    /// Looks for writes into freed blocks.
    fn inspect(&self);

    /// The adapter is about to start: what is taken from here on is given back when it stops.
    fn adapter_started(&self) {}

    /// Says which of the blocks taken since [`Pool::begin`] are still out: the adapter has stopped.
    fn adapter_stopped(&self) {}

    /// Says which blocks are still out, at the end of their driver.
    fn close(&self);
}
