//! Pool memory as a service, for drivers written in safe Rust.

/// Tracked memory: which blocks are allocated, whether they are freed, and whether they are written
/// after that. A block is identified by its address, which can also serve as a driver handle.
pub trait Pool: Send + Sync {
    /// Allocates a zeroed block (`ExAllocatePool2`).
    fn allocate_pool(&self, bytes: usize, tag: u32) -> Option<usize>;

    /// Frees a block (`ExFreePoolWithTag`).
    fn free(&self, block: usize, tag: u32);

    /// Whether it has blocks. If not, it only returns unique odd numbers, and a driver may number its
    /// objects itself.
    fn has_blocks(&self) -> bool {
        true
    }

    /// Whether the live block at `block` contains `driver_handle`, which is itself a live block:
    /// whether one object of the driver points to another.
    fn refers_to(&self, block: usize, driver_handle: usize) -> bool;

    /// Whether the address is in a live block of paged memory (`POOL_FLAG_PAGED`).
    fn is_paged(&self, _address: usize) -> bool {
        false
    }

    /// Checks for writes into freed blocks and next to live ones, when a call of the driver has
    /// returned. `call` is its name.
    fn inspect(&self, call: &'static str);

    /// The adapter is about to start: blocks allocated from now on must be freed when it stops.
    fn adapter_started(&self) {}

    /// Reports the blocks allocated since [`Pool::adapter_started`] that are still allocated after
    /// the adapter stopped.
    fn adapter_stopped(&self) {}

    /// Reports the blocks that are still allocated when their driver is unloaded.
    fn close(&self);
}
