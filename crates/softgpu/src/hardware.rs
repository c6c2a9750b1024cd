//! What a driver of the built-in GPU reports to its user-mode driver about the hardware.
//!
//! The data that `D3DKMTQueryAdapterInfo` returns for type `KMTQAITYPE_UMDRIVERPRIVATE`: 32 bytes,
//! little endian. They are `WTUM`, the version, flags, the number of nodes, and zeroes.

use kernel::miniport::DriverError;

/// The size of that data.
pub const HARDWARE_INFO_SIZE: usize = 32;

const MAGIC: [u8; 4] = *b"WTUM";
const VERSION: u32 = 1;

const LISTS: u32 = 1;
const ADDRESSES: u32 = 2;
const MEMORY: u32 = 4;
const RESIDENT: u32 = 8;

/// What the hardware and its miniport support.
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HardwareInfo {
    /// Packets have lists (`DxgkDdiRender`).
    pub lists: bool,
    /// Addresses are virtual (`GpuMmuSupported`).
    pub addresses: bool,
    /// The GPU has memory of its own.
    pub memory: bool,
    /// Allocations must be resident before a packet uses them (WDDM 2); else the kernel makes them
    /// resident.
    pub resident: bool,
    /// How many nodes take packets.
    pub nodes: u32,
}

impl HardwareInfo {
    /// Writes the data into a user-mode driver's buffer. Fails without writing if the buffer is too
    /// short; the rest of a longer buffer is not written.
    pub fn write(self, buffer: &mut [u8]) -> Result<(), DriverError> {
        let place = buffer.first_chunk_mut::<HARDWARE_INFO_SIZE>().ok_or(DriverError::Invalid)?;
        let bit = |set: bool, flag: u32| if set { flag } else { 0 };
        let flags = bit(self.lists, LISTS)
            | bit(self.addresses, ADDRESSES)
            | bit(self.memory, MEMORY)
            | bit(self.resident, RESIDENT);
        let numbers = [u32::from_le_bytes(MAGIC), VERSION, flags, self.nodes, 0, 0, 0, 0];
        for (to, number) in place.chunks_exact_mut(4).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    }
}

/// Reads the data at the start of a user-mode driver's buffer. Unknown flags and further bytes are
/// reserved for later drivers and ignored.
pub fn read_hardware_info(buffer: &[u8]) -> Result<HardwareInfo, DriverError> {
    let answer = buffer.first_chunk::<HARDWARE_INFO_SIZE>().ok_or(DriverError::Invalid)?;
    let (handles, _) = answer.as_chunks::<4>();
    let number = |at: usize| handles.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    match (handles.first(), number(1)) {
        (Some(&MAGIC), VERSION) => {
            let has = |flag| number(2) & flag != 0;
            Ok(HardwareInfo {
                lists: has(LISTS),
                addresses: has(ADDRESSES),
                memory: has(MEMORY),
                resident: has(RESIDENT),
                nodes: number(3),
            })
        }
        (Some(&MAGIC), _) => Err(DriverError::Mismatch),
        _ => Err(DriverError::Invalid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: HardwareInfo =
        HardwareInfo { lists: true, addresses: true, memory: true, resident: true, nodes: 0x0102 };

    #[test]
    fn the_answer_is_thirty_two_bytes_and_reads_back() {
        let mut bytes = [0xaa; 40];
        assert_eq!(ALL.write(&mut bytes), Ok(()));
        let mut expected = *b"WTUM\x01\0\0\0\x0f\0\0\0\x02\x01\0\0................\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa";
        expected[16..32].fill(0);
        assert_eq!(bytes, expected, "the rest is as it was");
        assert_eq!(read_hardware_info(&bytes), Ok(ALL));
        for bits in 0..16_u32 {
            let [lists, addresses, memory, resident] =
                [1, 2, 4, 8].map(|number| bits & number != 0);
            let info = HardwareInfo { lists, addresses, memory, resident, nodes: bits };
            assert_eq!(info.write(&mut bytes), Ok(()));
            assert_eq!((bytes[8], read_hardware_info(&bytes)), (bytes[12], Ok(info)));
        }
    }

    #[test]
    fn a_short_buffer_is_refused_and_left_alone() {
        for length in 0..HARDWARE_INFO_SIZE {
            let mut bytes = vec![0xaa; length];
            assert_eq!(ALL.write(&mut bytes), Err(DriverError::Invalid), "{length}");
            assert_eq!(bytes, vec![0xaa; length]);
            assert_eq!(read_hardware_info(&bytes), Err(DriverError::Invalid), "{length}");
        }
    }

    #[test]
    fn an_answer_that_is_not_ours_is_refused() {
        let mut answer = [0; HARDWARE_INFO_SIZE];
        assert_eq!(ALL.write(&mut answer), Ok(()));
        for at in 0..8 {
            let mut bytes = answer;
            bytes[at] ^= 0x40;
            let why = if at < 4 { DriverError::Invalid } else { DriverError::Mismatch };
            assert_eq!(read_hardware_info(&bytes), Err(why), "byte {at}");
        }
    }
}
