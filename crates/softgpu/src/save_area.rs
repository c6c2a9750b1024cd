//! The save area of a context: the registers that an engine saves at a context switch.

/// The size of a save area.
pub const AREA_SIZE: u64 = 4096;

/// The offset of the registers; the bytes before them belong to the driver.
pub const SAVED_AT: u64 = 2048;

/// The size of the registers.
pub const REGISTERS_SIZE: usize = 32;

const MARK: [u8; 8] = *b"WTSGctx\x01";

/// The registers of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// How many packets completed.
    pub packets: u64,
    /// How many commands completed.
    pub commands: u64,
    /// The fence of the last completed packet.
    pub fence: u64,
}

impl Registers {
    /// The registers as they are stored in the area.
    pub fn encode(&self) -> [u8; REGISTERS_SIZE] {
        let mut bytes = [0; REGISTERS_SIZE];
        let handles = [self.packets, self.commands, self.fence].map(u64::to_le_bytes);
        let (all, _) = bytes.as_chunks_mut();
        for (to, driver_handle) in all.iter_mut().zip([MARK].into_iter().chain(handles)) {
            *to = driver_handle;
        }
        bytes
    }

    /// The registers stored in an area, if it was ever written.
    pub fn decode(bytes: &[u8; REGISTERS_SIZE]) -> Option<Self> {
        let (handles, _) = bytes.as_chunks();
        let [MARK, packets, commands, fence] = *handles else { return None };
        let [packets, commands, fence] = [packets, commands, fence].map(u64::from_le_bytes);
        Some(Self { packets, commands, fence })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_read_back_and_zeroes_are_none() {
        let registers = Registers { packets: 1, commands: u64::MAX, fence: 3 };
        assert_eq!(Registers::decode(&registers.encode()), Some(registers));
        assert_eq!(Registers::decode(&[0; REGISTERS_SIZE]), None);
    }
}
