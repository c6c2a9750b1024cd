//! Digests of private data.

use flight::Hex;

/// A short digest of private data, for events (FNV-1a).
pub(crate) fn digest(bytes: &[u8]) -> Hex {
    let step = |hash: u32, byte: &u8| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    Hex(bytes.iter().fold(0x811c_9dc5, step))
}
