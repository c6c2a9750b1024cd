//! Emulates what compiled drivers do directly and a process may not: the IRQL in CR8, `cli` and
//! `sti`, ports, and reads of the page that Windows shares with every process
//! (`KUSER_SHARED_DATA`).

use super::processor_block::ProcessorBlock;
use super::signals::Interrupted;
use crate::clock;
use crate::device_request::DeviceRequest;
use crate::processor::{self, irql_number, set_irql_number};
use flight::Host;
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// The address of `KUSER_SHARED_DATA`.
const SHARED_DATA: u64 = 0xffff_f780_0000_0000;

/// Its size.
const SHARED_DATA_SIZE: u64 = 0x1000;

/// Builds the tables of the decoder, so that a handler does not have to.
pub(super) fn prepare() {
    let code = [0x44, 0x0f, 0x20, 0xc0];
    let instruction = decode(&code, 0);
    debug_assert_eq!(instruction.code(), Code::Mov_r64_cr);
}

/// The instruction at an address.
pub(super) fn decode(code: &[u8], at: u64) -> Instruction {
    Decoder::with_ip(64, code, at, DecoderOptions::NONE).decode()
}

/// Emulates the interrupted instruction, if it is one of the known ones. Returns whether it was.
pub(super) fn emulate(interrupted: &mut Interrupted<'_>) -> bool {
    if ProcessorBlock::existing().is_none() {
        return false;
    }
    let (code, length) = interrupted.code();
    let instruction = decode(&code[..length], interrupted.instruction());
    let done = match instruction.code() {
        Code::Mov_r64_cr if instruction.op1_register() == Register::CR8 => {
            set(interrupted, instruction.op0_register(), irql_number().into())
        }
        Code::Mov_cr_r64 if instruction.op0_register() == Register::CR8 => {
            let value = value_of(interrupted, instruction.op1_register());
            set_irql_number(u8::try_from(value & 0xf).unwrap_or(0));
            true
        }
        Code::Cli | Code::Sti => true,
        _ if is_port_access(&instruction) => port_access(interrupted, &instruction),
        _ => shared_data_read(interrupted, &instruction),
    };
    if done {
        interrupted.set_instruction(instruction.next_ip());
    }
    done
}

fn is_port_access(instruction: &Instruction) -> bool {
    matches!(instruction.mnemonic(), Mnemonic::In | Mnemonic::Out)
}

/// Emulates an access to a port. No device answers: a read returns ones, a write has no effect.
fn port_access(interrupted: &mut Interrupted<'_>, instruction: &Instruction) -> bool {
    let writes = instruction.mnemonic() == Mnemonic::Out;
    // The port is the operand that is an immediate byte or DX.
    let operand = u32::from(!writes);
    let port = match instruction.op_kind(operand) {
        OpKind::Register => value_of(interrupted, Register::RDX) & 0xffff,
        _ => instruction.immediate(operand),
    };
    let port = u16::try_from(port).unwrap_or(u16::MAX);
    DeviceRequest::Port { writes, port }.record();
    writes || set(interrupted, instruction.op0_register(), u64::MAX)
}

/// Emulates a plain load from the shared page.
fn shared_data_read(interrupted: &mut Interrupted<'_>, instruction: &Instruction) -> bool {
    let load = matches!(instruction.mnemonic(), Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsxd);
    if !load
        || instruction.op0_kind() != OpKind::Register
        || instruction.op1_kind() != OpKind::Memory
    {
        return false;
    }
    let address =
        instruction.virtual_address(1, 0, |register, _, _| Some(value_of(interrupted, register)));
    let Some(offset) = address.and_then(|address| address.checked_sub(SHARED_DATA)) else {
        return false;
    };
    let size = instruction.memory_size().size() as u64;
    if offset + size > SHARED_DATA_SIZE {
        return false;
    }
    let (page, mut bytes) = (shared_data(), [0; 8]);
    let start = usize::try_from(offset).unwrap_or(FIELDS).min(FIELDS);
    let end = usize::try_from(offset + size.min(8)).unwrap_or(FIELDS).min(FIELDS);
    bytes[..end - start].copy_from_slice(&page[start..end]);
    let mut value = u64::from_le_bytes(bytes);
    if instruction.mnemonic() == Mnemonic::Movsxd {
        let low = u32::try_from(value & 0xffff_ffff).unwrap_or(0);
        value = i64::from(low.cast_signed()).cast_unsigned();
    }
    set(interrupted, instruction.op0_register(), value)
}

/// `NtBuildNumber`.
const BUILD_NUMBER: u32 = crate::rtl::VERSION.2;

/// The size of the part of the shared page that has fields here.
const FIELDS: usize = 0x32c;

/// The shared page: times, and the version of Windows.
///
/// WINDOWS: the offsets are those of the public description of `KUSER_SHARED_DATA`.
fn shared_data() -> [u8; FIELDS] {
    const TICK_COUNT_MULTIPLIER: u64 = 0x0fa0_0000;
    let mut page = [0; FIELDS];
    let mut put = |offset: usize, value: u64| {
        page[offset..offset + 4].copy_from_slice(&value.to_le_bytes()[..4]);
    };
    put(0x004, TICK_COUNT_MULTIPLIER);
    let host = processor::current("KUSER_SHARED_DATA");
    if let Some((host, _)) = &host {
        host.pass_time(1); // A driver that polls a time reaches it.
    }
    let read = |clock: fn(&dyn Host) -> u64| host.as_ref().map_or(0, |(host, _)| clock(&**host));
    let times = [
        (0x008, read(clock::interrupt_time)),
        (0x014, read(clock::system_time)),
        (0x320, read(clock::tick_count)),
    ];
    for (offset, time) in times {
        // A time is its low part, its high part, and the high part again.
        put(offset, time);
        put(offset + 4, time >> 32);
        put(offset + 8, time >> 32);
    }
    put(0x260, BUILD_NUMBER.into());
    put(0x26c, 10);
    page
}

/// The value of a register in interrupted code.
pub(super) fn value_of(interrupted: &Interrupted<'_>, register: Register) -> u64 {
    if register == Register::RIP {
        return interrupted.instruction();
    }
    if !register.is_gpr() {
        return 0; // A segment whose base is zero.
    }
    let value = interrupted.register(register.full_register().number());
    match register.size() {
        4 => value & 0xffff_ffff,
        _ => value,
    }
}

/// Writes a general register as an instruction would. Returns whether it is one.
fn set(interrupted: &mut Interrupted<'_>, register: Register, value: u64) -> bool {
    if !register.is_gpr() {
        return false;
    }
    let number = register.full_register().number();
    let old = interrupted.register(number);
    let new = match register.size() {
        8 => value,
        4 => value & 0xffff_ffff,
        2 => old & !0xffff | value & 0xffff,
        _ if register.is_gpr8() && register.number() < 4 + 16 => old & !0xff | value & 0xff,
        _ => return false,
    };
    interrupted.set_register(number, new);
    true
}
