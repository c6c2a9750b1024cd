//! What the byte oracle sees of the memory of the GPU and of the system.

use flight::{PagingMove, PagingMovement, Ram, Run};

/// Bytes at GPU addresses.
pub(crate) enum GpuBytes {
    /// They can be seen.
    Seen(Vec<u8>),
    /// The GPU does not reach all of them.
    Unreached,
    /// There is no model of the hardware, and the CPU does not see them.
    Unseen,
}

impl GpuBytes {
    /// The bytes, if they can be seen.
    pub(crate) fn seen(self) -> Option<Vec<u8>> {
        match self {
            GpuBytes::Seen(bytes) => Some(bytes),
            GpuBytes::Unreached | GpuBytes::Unseen => None,
        }
    }
}

/// The bytes at the operation's GPU address.
pub(crate) fn read_at_gpu(it: &PagingMove<'_>) -> GpuBytes {
    read_gpu(it, it.address, it.bytes)
}

/// The bytes at another GPU address.
pub(crate) fn read_gpu(it: &PagingMove<'_>, address: u64, length: u64) -> GpuBytes {
    let Ok(size) = usize::try_from(length) else { return GpuBytes::Unreached };
    let mut bytes = vec![0; size];
    if it.hardware.models_hardware() {
        let there = it.hardware.peek(address, &mut bytes);
        return if there { GpuBytes::Seen(bytes) } else { GpuBytes::Unreached };
    }
    let physical = it.visible.iter().find_map(|memory| memory.physical_address(address, length));
    match physical {
        Some(start) if it.ram.read(start, &mut bytes) => GpuBytes::Seen(bytes),
        _ => GpuBytes::Unseen,
    }
}

/// The bytes at the destination of an operation. Those that an aperture maps are seen in their pages
/// if there is no model of the hardware.
pub(crate) fn read_arrived(it: &PagingMove<'_>) -> GpuBytes {
    let pages = match it.movement {
        PagingMovement::PageOut => true,
        PagingMovement::Map => !it.hardware.models_hardware(),
        _ => false,
    };
    if !pages {
        return read_at_gpu(it);
    }
    read_system(it.ram, it.runs, it.bytes).map_or(GpuBytes::Unreached, GpuBytes::Seen)
}

/// The bytes of these pieces of system memory.
pub(crate) fn read_system(ram: &dyn Ram, runs: &[Run], length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let mut rest = bytes.as_mut_slice();
    for run in runs {
        let size = usize::try_from(run.bytes).ok()?.min(rest.len());
        let (piece, more) = rest.split_at_mut(size);
        if !ram.read(run.start, piece) {
            return None;
        }
        rest = more;
    }
    rest.is_empty().then_some(bytes)
}
