//! I/O request packets (`IofCallDriver`, `IofCompleteRequest`, …), under their Windows names.
//!
//! A packet is a block of the driver's pool in the layout of Windows, followed by its stack
//! locations: a packet that is not freed is a leak. Requests are answered at once, by the driver's
//! own dispatch routine or by Rust code ([`crate::RequestHandler`]).
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_irql};
use crate::executive::DeviceControl;
use crate::import_table::import_rows;
use crate::io::function_at;
use crate::io_layout::{device, driver, irp, stack};
use crate::status::{
    STATUS_INVALID_DEVICE_REQUEST, STATUS_MORE_PROCESSING_REQUIRED, STATUS_NOT_SUPPORTED,
    STATUS_SUCCESS, STATUS_UNSUCCESSFUL,
};
use crate::{Executive, ex, mm_mdl};
use abi::{BOOLEAN, NTSTATUS, PDEVICE_OBJECT, PIRP, PVOID, nt_success};
use std::ptr::{null_mut, with_exposed_provenance_mut};

import_rows! {
    IoAllocateIrp lacks "no quota";
    IoBuildDeviceIoControlRequest lacks "the thread is not recorded";
    IoBuildSynchronousFsdRequest lacks "the thread is not recorded";
    IoFreeIrp;
    IoInitializeIrp;
    IoReuseIrp;
    IofCallDriver;
    IofCompleteRequest lacks "no priority boost";
}

/// The tags of packets and of their buffers in the driver's pool.
const IRP_TAG: u32 = u32::from_le_bytes(*b"Irp ");
const BUFFER_TAG: u32 = u32::from_le_bytes(*b"IoSb");

/// Major functions.
const CREATE: u8 = 0x00;
const CLOSE: u8 = 0x02;
const READ: u8 = 0x03;
const WRITE: u8 = 0x04;
const DEVICE_CONTROL: u8 = 0x0E;
const INTERNAL_DEVICE_CONTROL: u8 = 0x0F;
const CLEANUP: u8 = 0x12;
const POWER: u8 = 0x16;
const PNP: u8 = 0x1B;

/// `Flags` of a packet: a buffer of the system is copied out (input) and freed.
const BUFFERED_IO: u32 = 0x10;
const DEALLOCATE_BUFFER: u32 = 0x20;
const INPUT_OPERATION: u32 = 0x40;

/// `Flags` of a device: how reads and writes are passed.
const DO_BUFFERED_IO: u32 = 0x04;
const DO_DIRECT_IO: u32 = 0x10;

/// `Control` of a stack location.
const PENDING_RETURNED: u8 = 0x01;
const INVOKE_ON_CANCEL: u8 = 0x20;
const INVOKE_ON_SUCCESS: u8 = 0x40;
const INVOKE_ON_ERROR: u8 = 0x80;

/// A dispatch routine of a driver.
type Dispatch = unsafe extern "win64-unwind" fn(PDEVICE_OBJECT, PIRP) -> NTSTATUS;
/// A completion routine of a driver.
type Completion = unsafe extern "win64-unwind" fn(PDEVICE_OBJECT, PIRP, PVOID) -> NTSTATUS;

/// A packet in the driver's memory.
#[derive(Clone, Copy)]
struct Packet(DriverMemory);

impl Packet {
    /// Allocates a packet with this many stack locations.
    fn allocate(import: &'static str, locations: u8) -> Option<Self> {
        let bytes = irp::SIZE + usize::from(locations) * stack::SIZE;
        let block = ex::allocate(import, bytes, IRP_TAG, true, false)?;
        // SAFETY: The block is new and has these bytes.
        let packet = Self(unsafe { DriverMemory::at(with_exposed_provenance_mut::<u8>(block)) });
        packet.initialize(locations);
        Some(packet)
    }

    /// Writes the fields of a packet, which is zeroed.
    fn initialize(self, locations: u8) {
        let bytes = irp::SIZE + usize::from(locations) * stack::SIZE;
        self.0.write(0, irp::TYPE);
        self.0.write(irp::SIZE_FIELD, u16::try_from(bytes).unwrap_or(u16::MAX));
        let list = self.0.part(irp::THREAD_LIST);
        list.write(0, list.address());
        list.write(8, list.address());
        self.0.write(irp::STACK_COUNT, locations);
        self.0.write(irp::CURRENT_LOCATION, locations.wrapping_add(1));
        self.0.write(irp::CURRENT_STACK, self.0.part(bytes).address());
    }

    /// The current stack location.
    fn location(self) -> DriverMemory {
        self.0.follow(irp::CURRENT_STACK)
    }

    /// The stack location of the driver that is called next.
    fn next_location(self) -> DriverMemory {
        self.location().part(0_usize.wrapping_sub(stack::SIZE))
    }

    /// Moves the current stack location up (towards the requester) or down.
    fn advance(self, up: bool) {
        let location: u8 = self.0.read(irp::CURRENT_LOCATION);
        let current = self.location();
        let (location, current) = if up {
            (location.wrapping_add(1), current.part(stack::SIZE))
        } else {
            (location.wrapping_sub(1), current.part(0_usize.wrapping_sub(stack::SIZE)))
        };
        self.0.write(irp::CURRENT_LOCATION, location);
        self.0.write(irp::CURRENT_STACK, current.address());
    }

    fn status(self) -> NTSTATUS {
        self.0.read(irp::STATUS)
    }

    fn set_status(self, status: NTSTATUS, information: usize) {
        self.0.write(irp::STATUS, status);
        self.0.write(irp::INFORMATION, information);
    }

    fn free(self, import: &'static str) {
        ex::free_pool(import, self.0.pointer(), IRP_TAG);
    }

    /// Gives the packet a buffer of the system, with a copy of `input`.
    fn buffer(
        self,
        import: &'static str,
        bytes: usize,
        input: Option<DriverMemory>,
        input_bytes: usize,
    ) {
        let Some(block) = ex::allocate(import, bytes.max(1), BUFFER_TAG, true, false) else {
            return;
        };
        self.0.write(irp::SYSTEM_BUFFER, block);
        if let Some(input) = input {
            self.0.follow(irp::SYSTEM_BUFFER).write_bytes(&input.read_bytes(input_bytes));
        }
        let flags: u32 = self.0.read(irp::FLAGS);
        self.0.write(irp::FLAGS, flags | BUFFERED_IO | DEALLOCATE_BUFFER);
    }

    /// Ends a packet that the I/O manager frees: copies the result to the requester.
    fn finish(self, import: &'static str) {
        let (flags, status): (u32, _) = (self.0.read(irp::FLAGS), self.status());
        let information: usize = self.0.read(irp::INFORMATION);
        let buffer = self.0.follow(irp::SYSTEM_BUFFER);
        let copied = flags & INPUT_OPERATION != 0 && status.cast_unsigned() >> 30 != 3;
        if flags & BUFFERED_IO != 0 && copied && information != 0 {
            let user = self.0.follow(irp::USER_BUFFER);
            user.write_bytes(&buffer.read_bytes(information));
        }
        if flags & DEALLOCATE_BUFFER != 0 {
            ex::free_pool(import, buffer.pointer(), BUFFER_TAG);
        }
        if let Some(list) = self.0.follow(irp::MDL_ADDRESS).non_null() {
            mm_mdl::unlock_and_free(import, list);
        }
        if let Some(user) = self.0.follow(irp::USER_IOSB).non_null() {
            user.write(0, status);
            user.write(8, information);
        }
        let event: PVOID = self.0.follow(irp::USER_EVENT).pointer();
        self.free(import);
        if !event.is_null() {
            // SAFETY: The requester passed the event.
            unsafe { crate::KeSetEvent(event, 0, 0) };
        }
    }
}

/// Allocates a packet.
pub unsafe extern "win64-unwind" fn IoAllocateIrp(locations: u8, _charge_quota: BOOLEAN) -> PIRP {
    judge_irql("IoAllocateIrp");
    let packet = guarded(None, || Packet::allocate("IoAllocateIrp", locations));
    packet.map_or(null_mut(), |packet| packet.0.pointer())
}

/// Frees a packet that the driver allocated.
pub unsafe extern "win64-unwind" fn IoFreeIrp(packet: PIRP) {
    judge_irql("IoFreeIrp");
    // SAFETY: The caller's contract.
    Packet(unsafe { DriverMemory::at(packet) }).free("IoFreeIrp");
}

/// Initialises a packet in memory of the driver.
pub unsafe extern "win64-unwind" fn IoInitializeIrp(packet: PIRP, bytes: u16, locations: u8) {
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(packet) };
    memory.write_bytes(&vec![0; bytes.into()]);
    Packet(memory).initialize(locations);
}

/// Initialises a packet of the driver again.
pub unsafe extern "win64-unwind" fn IoReuseIrp(packet: PIRP, status: NTSTATUS) {
    // SAFETY: The caller's contract.
    let packet = Packet(unsafe { DriverMemory::at(packet) });
    let locations: u8 = packet.0.read(irp::STACK_COUNT);
    let bytes = irp::SIZE + usize::from(locations) * stack::SIZE;
    packet.0.write_bytes(&vec![0; bytes]);
    packet.initialize(locations);
    packet.set_status(status, 0);
}

/// Builds an I/O control request, which the I/O manager frees when it is completed.
pub unsafe extern "win64-unwind" fn IoBuildDeviceIoControlRequest(
    code: u32,
    target: PDEVICE_OBJECT,
    input: PVOID,
    input_length: u32,
    output: PVOID,
    output_length: u32,
    internal: BOOLEAN,
    event: PVOID,
    result: PVOID,
) -> PIRP {
    const NAME: &str = "IoBuildDeviceIoControlRequest";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let target = unsafe { DriverMemory::at(target) };
    // SAFETY: The caller's contract.
    let input = unsafe { DriverMemory::at(input) };
    let build = || {
        let executive = Executive::current(NAME)?;
        let packet = Packet::allocate(NAME, target.read(device::STACK_SIZE))?;
        let location = packet.next_location();
        let major = if internal == 0 { DEVICE_CONTROL } else { INTERNAL_DEVICE_CONTROL };
        location.write(stack::MAJOR, major);
        location.write(stack::OUTPUT_LENGTH, output_length);
        location.write(stack::INPUT_LENGTH, input_length);
        location.write(stack::CONTROL_CODE, code);
        let (input_bytes, output_bytes) = (input_length as usize, output_length as usize);
        match code & 3 {
            METHOD_NEITHER => location.write(stack::TYPE3_INPUT, input.address()),
            METHOD_BUFFERED if input_length != 0 || output_length != 0 => {
                packet.buffer(NAME, input_bytes.max(output_bytes), input.non_null(), input_bytes);
                if !output.is_null() {
                    let flags: u32 = packet.0.read(irp::FLAGS);
                    packet.0.write(irp::FLAGS, flags | INPUT_OPERATION);
                }
            }
            METHOD_BUFFERED => {}
            _ => {
                if !input.is_null() {
                    packet.buffer(NAME, input_bytes, Some(input), input_bytes);
                }
                if !output.is_null() {
                    let list = mm_mdl::build_locked(NAME, output, output_length)?;
                    packet.0.write(irp::MDL_ADDRESS, list.address());
                }
            }
        }
        packet.0.write_pointer(irp::USER_BUFFER, output.cast_const());
        packet.0.write_pointer(irp::USER_EVENT, event.cast_const());
        packet.0.write_pointer(irp::USER_IOSB, result.cast_const());
        executive.io().requests.insert(packet.0.address());
        Some(packet)
    };
    guarded(None, build).map_or(null_mut(), |packet| packet.0.pointer())
}

/// The transfer methods of a control code. The others are direct.
const METHOD_BUFFERED: u32 = 0;
const METHOD_NEITHER: u32 = 3;

/// Builds a request of a file-system kind, which the I/O manager frees when it is completed.
pub unsafe extern "win64-unwind" fn IoBuildSynchronousFsdRequest(
    major: u32,
    target: PDEVICE_OBJECT,
    buffer: PVOID,
    length: u32,
    offset: *const i64,
    event: PVOID,
    result: PVOID,
) -> PIRP {
    const NAME: &str = "IoBuildSynchronousFsdRequest";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let target = unsafe { DriverMemory::at(target) };
    // SAFETY: The caller's contract.
    let data = unsafe { DriverMemory::at(buffer) };
    // SAFETY: The caller's contract.
    let offset = unsafe { DriverMemory::at(offset) };
    let build = || {
        let executive = Executive::current(NAME)?;
        let packet = Packet::allocate(NAME, target.read(device::STACK_SIZE))?;
        let location = packet.next_location();
        let major = u8::try_from(major).unwrap_or(u8::MAX);
        location.write(stack::MAJOR, major);
        if matches!(major, READ | WRITE) {
            location.write(stack::OUTPUT_LENGTH, length);
            location
                .write(stack::CONTROL_CODE, offset.non_null().map_or(0, |at| at.read::<i64>(0)));
            let flags: u32 = target.read(device::FLAGS);
            packet.0.write_pointer(irp::USER_BUFFER, buffer.cast_const());
            if flags & DO_BUFFERED_IO != 0 {
                let input = (major == WRITE).then_some(data);
                packet.buffer(NAME, length as usize, input, length as usize);
                let direction = if major == READ { INPUT_OPERATION } else { 0 };
                packet.0.write(irp::FLAGS, packet.0.read::<u32>(irp::FLAGS) | direction);
            } else if flags & DO_DIRECT_IO != 0 {
                let list = mm_mdl::build_locked(NAME, buffer, length)?;
                packet.0.write(irp::MDL_ADDRESS, list.address());
            }
        }
        packet.0.write_pointer(irp::USER_EVENT, event.cast_const());
        packet.0.write_pointer(irp::USER_IOSB, result.cast_const());
        executive.io().requests.insert(packet.0.address());
        Some(packet)
    };
    guarded(None, build).map_or(null_mut(), |packet| packet.0.pointer())
}

/// Sends a packet to a device: its driver's dispatch routine is called with the next stack location.
///
/// WINDOWS: a packet without a further stack location is a bug check (0x35); here it fails.
pub unsafe extern "win64-unwind" fn IofCallDriver(
    target: PDEVICE_OBJECT,
    packet: PIRP,
) -> NTSTATUS {
    judge_irql("IofCallDriver");
    // SAFETY: The caller's contract.
    let memory = unsafe { DriverMemory::at(target) };
    // SAFETY: The caller's contract.
    let request = Packet(unsafe { DriverMemory::at(packet) });
    if request.0.read::<u8>(irp::CURRENT_LOCATION) <= 1 {
        crate::dbg::print(
            "IofCallDriver",
            "IofCallDriver of an IRP without a further stack location".to_owned(),
        );
        return STATUS_INVALID_DEVICE_REQUEST;
    }
    request.advance(false);
    let location = request.location();
    location.write(stack::DEVICE_OBJECT, memory.address());
    let major = usize::from(location.read::<u8>(stack::MAJOR)).min(driver::MAJOR_FUNCTIONS - 1);
    let of = memory.follow(device::DRIVER_OBJECT);
    let address: usize = of.read(driver::MAJOR_FUNCTION + major * 8);
    // SAFETY: A driver object has dispatch routines there.
    let Some(dispatch) = (unsafe { function_at::<Dispatch>(address) }) else {
        request.set_status(STATUS_INVALID_DEVICE_REQUEST, 0);
        return STATUS_INVALID_DEVICE_REQUEST;
    };
    // SAFETY: The routine is called as a dispatch routine of its driver.
    unsafe { dispatch(target, packet) }
}

/// Completes a packet: calls the completion routines from the current stack location up.
pub unsafe extern "win64-unwind" fn IofCompleteRequest(packet: PIRP, _boost: i8) {
    const NAME: &str = "IofCompleteRequest";
    judge_irql(NAME);
    // SAFETY: The caller's contract.
    let request = Packet(unsafe { DriverMemory::at(packet) });
    let count: u8 = request.0.read(irp::STACK_COUNT);
    while request.0.read::<u8>(irp::CURRENT_LOCATION) <= count {
        let location = request.location();
        let control: u8 = location.read(stack::CONTROL);
        let pending = control & PENDING_RETURNED;
        request.0.write(irp::PENDING_RETURNED, pending);
        request.advance(true);
        let inside = request.0.read::<u8>(irp::CURRENT_LOCATION) <= count;
        let wanted = if nt_success(request.status()) { INVOKE_ON_SUCCESS } else { INVOKE_ON_ERROR };
        let cancelled = request.0.read::<u8>(irp::CANCEL) != 0 && control & INVOKE_ON_CANCEL != 0;
        let address: usize = location.read(stack::COMPLETION_ROUTINE);
        // SAFETY: The driver wrote its completion routine there.
        let routine = unsafe { function_at::<Completion>(address) };
        if let Some(routine) = routine.filter(|_| control & wanted != 0 || cancelled) {
            let of = if inside {
                request.location().follow(stack::DEVICE_OBJECT).pointer()
            } else {
                null_mut()
            };
            let context = location.follow(stack::CONTEXT).pointer();
            // SAFETY: The routine is called as a completion routine of its driver.
            if unsafe { routine(of, packet, context) } == STATUS_MORE_PROCESSING_REQUIRED {
                return; // The driver owns the packet again, or has freed it.
            }
        } else if pending != 0 && inside {
            let above = request.location();
            above.write(stack::CONTROL, above.read::<u8>(stack::CONTROL) | PENDING_RETURNED);
        }
    }
    guarded((), || {
        let executive = Executive::current(NAME);
        let address = request.0.address();
        if executive.is_some_and(|executive| executive.io().requests.remove(&address)) {
            request.finish(NAME);
        }
    });
}

/// The dispatch routine of a driver that has set none: the request is invalid.
pub(crate) unsafe extern "win64-unwind" fn refuse_request(
    _device: PDEVICE_OBJECT,
    packet: PIRP,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    Packet(unsafe { DriverMemory::at(packet) }).set_status(STATUS_INVALID_DEVICE_REQUEST, 0);
    // SAFETY: The caller's contract.
    unsafe { IofCompleteRequest(packet, 0) };
    STATUS_INVALID_DEVICE_REQUEST
}

/// The dispatch routine of the system's devices: Rust code answers.
pub(crate) unsafe extern "win64-unwind" fn answer_request(
    target: PDEVICE_OBJECT,
    packet: PIRP,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let request = Packet(unsafe { DriverMemory::at(packet) });
    let (status, information) =
        guarded((STATUS_UNSUCCESSFUL, 0), || answer(target.addr(), request));
    request.set_status(status, information);
    // SAFETY: The caller's contract.
    unsafe { IofCompleteRequest(packet, 0) };
    status
}

/// The answer to a request: its status and its information.
fn answer(target: usize, request: Packet) -> (NTSTATUS, usize) {
    let location = request.location();
    match location.read::<u8>(stack::MAJOR) {
        major @ (DEVICE_CONTROL | INTERNAL_DEVICE_CONTROL) => {
            let executive = Executive::current("IofCallDriver");
            let handler = executive.and_then(|executive| {
                let name = executive.device_name(target)?;
                executive.handler(&name)
            });
            let Some(handler) = handler else { return (STATUS_INVALID_DEVICE_REQUEST, 0) };
            handler.device_control(&device_control(request, major == INTERNAL_DEVICE_CONTROL))
        }
        CREATE | CLOSE | CLEANUP | POWER => (STATUS_SUCCESS, 0),
        // WINDOWS: documented. A bus driver leaves the status of a minor code it does not know.
        PNP => match location.read::<u8>(stack::MINOR) {
            // Start, query remove, remove, cancel remove, stop, query stop, cancel stop, surprise.
            0..=6 | 0x17 => (STATUS_SUCCESS, 0),
            _ => (request.status(), request.0.read(irp::INFORMATION)),
        },
        READ | WRITE => (STATUS_INVALID_DEVICE_REQUEST, 0),
        _ => (STATUS_NOT_SUPPORTED, 0),
    }
}

/// The buffers of an I/O control request, by its transfer method.
fn device_control(request: Packet, internal: bool) -> DeviceControl {
    let location = request.location();
    let code: u32 = location.read(stack::CONTROL_CODE);
    let system = request.0.follow(irp::SYSTEM_BUFFER);
    let (input, output) = match code & 3 {
        METHOD_BUFFERED => (system, system),
        METHOD_NEITHER => (location.follow(stack::TYPE3_INPUT), request.0.follow(irp::USER_BUFFER)),
        _ => (system, mm_mdl::system_address(request.0.follow(irp::MDL_ADDRESS))),
    };
    DeviceControl {
        code,
        internal,
        input: input.pointer(),
        input_length: location.read::<u32>(stack::INPUT_LENGTH) as usize,
        output: output.pointer(),
        output_length: location.read::<u32>(stack::OUTPUT_LENGTH) as usize,
    }
}
