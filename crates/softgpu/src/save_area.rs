//! The save area of a context: what an engine writes down of one when another has its turn.

/// How many bytes it has.
pub const AREA_SIZE: u64 = 4096;

/// Where the registers are in it; what is before them is the driver's own.
pub const SAVED_AT: u64 = 2048;

/// How many bytes they have there.
pub const REGISTERS_SIZE: usize = 32;

const MARK: [u8; 8] = *b"WTSGctx\x01";

/// What an engine remembers of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// How many packets it has done.
    pub packets: u64,
    /// How many commands it has done.
    pub commands: u64,
    /// The fence of the last packet that was done.
    pub fence: u64,
}

impl Registers {
    /// As they stand in the area.
    pub fn encode(&self) -> [u8; REGISTERS_SIZE] {
        let mut bytes = [0; REGISTERS_SIZE];
        let handles = [self.packets, self.commands, self.fence].map(u64::to_le_bytes);
        let (all, _) = bytes.as_chunks_mut();
        for (to, driver_handle) in all.iter_mut().zip([MARK].into_iter().chain(handles)) {
            *to = driver_handle;
        }
        bytes
    }

    /// What stands in an area, if that was ever written.
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
