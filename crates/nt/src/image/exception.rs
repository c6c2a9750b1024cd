//! Structured exceptions (`__try`, `__except`, `__finally`) of an image.
//!
//! An exception is a raised status, or a fault that the signal handler passes on. The frames of the
//! image are searched for a handler by its own language handlers, with the interface of Windows, and
//! are unwound to it. Our frames are not: an exception that reaches one has no handler.
//!
//! WINDOWS: which faults a handler sees is decided in `signals.rs`; the interface of language
//! handlers and the scope table of `__C_specific_handler` are documented.
#![expect(unsafe_code, reason = "calls handlers of the image and continues at them")]
#![expect(non_snake_case, reason = "Windows's names")]

use super::context::{Context, RAX, RBP, RSP, go_on, raising_entry};
use super::crash::{CrashKind, CrashRecord};
use super::protection_fault::ProtectionFault;
use super::signals::{self, Interrupted};
use super::unwind::{FunctionTable, Handler, read_u32, read_u64};
use crate::entry::guarded;
use crate::import_table::import_rows;
use crate::mm_mdl;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

import_rows! {
    ExRaiseAccessViolation;
    ExRaiseDatatypeMisalignment;
    ExRaiseStatus;
    MmProbeAndLockPages lacks "does not check that memory can be written";
    ProbeForRead;
    ProbeForWrite;
    RtlRaiseException lacks "the context of the raised exception is that of the call";
    RtlUnwindEx;
    __C_specific_handler;
}

/// `STATUS_ACCESS_VIOLATION`.
pub(super) const ACCESS_VIOLATION: u32 = 0xC000_0005;
/// `STATUS_DATATYPE_MISALIGNMENT`.
const DATATYPE_MISALIGNMENT: u32 = 0x8000_0002;

/// The first address that is not a user's: probes refuse it.
///
/// WINDOWS: `MmUserProbeAddress` is `0x7FFF_FFFF_0000` there. Images, pool and stacks of this process
/// are above this line, and buffers of clients are mapped below it.
pub const USER_PROBE_ADDRESS: u64 = 0x0000_3fff_ffff_0000;

const UNWINDING: u32 = 0x2;
const TARGET_UNWIND: u32 = 0x20;

/// A language handler continues the execution.
const CONTINUE_EXECUTION: i32 = 0;
/// A language handler does not handle the exception.
const CONTINUE_SEARCH: i32 = 1;

/// How many frames are unwound at most.
const MAX_FRAMES: usize = 10_000;

/// `EXCEPTION_RECORD`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ExceptionRecord {
    code: u32,
    flags: u32,
    next: u64,
    address: u64,
    parameter_count: u32,
    unused: u32,
    parameters: [u64; 15],
}

/// `EXCEPTION_POINTERS`.
#[repr(C)]
struct ExceptionPointers {
    record: *mut ExceptionRecord,
    context: *mut Context,
}

/// `DISPATCHER_CONTEXT` of x64.
#[repr(C)]
struct DispatcherContext {
    control_pc: u64,
    image_base: u64,
    function_entry: u64,
    establisher_frame: u64,
    target_ip: u64,
    context: *mut Context,
    language_handler: u64,
    handler_data: u64,
    history_table: u64,
    scope_index: u32,
    fill: u32,
}

type LanguageHandler = unsafe extern "win64" fn(
    *mut ExceptionRecord,
    u64,
    *mut Context,
    *mut DispatcherContext,
) -> i32;
type Filter = unsafe extern "win64" fn(*mut ExceptionPointers, u64) -> i32;
type Termination = unsafe extern "win64" fn(u8, u64);

static IMAGES: Mutex<Vec<FunctionTable>> = Mutex::new(Vec::new());

thread_local! {
    /// The exceptions that are being handled on this thread, the innermost last: where each began.
    static RAISED: RefCell<Vec<Context>> = const { RefCell::new(Vec::new()) };
}

/// Exceptions in this image are handled from now on.
pub(super) fn add_image(table: FunctionTable) {
    IMAGES.lock().unwrap_or_else(PoisonError::into_inner).push(table);
}

/// The image at this address is unmapped.
pub(super) fn remove_image(base: u64) {
    let mut images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    images.retain(|image| image.base != base);
}

/// The image that contains an address.
pub(super) fn image_of(address: u64) -> Option<FunctionTable> {
    let images = IMAGES.lock().unwrap_or_else(PoisonError::into_inner);
    images.iter().find(|image| image.contains(address)).copied()
}

/// Whether code at an address can have an exception: that of an image, and the leaf functions that
/// images import.
fn can_raise(address: u64) -> bool {
    image_of(address).is_some() || crate::crt_memory::is_leaf(address)
}

/// Lets a fault continue as an exception, on the stack of the interrupted code. Returns whether
/// there is code of an image that could handle it.
pub(super) fn continue_as_exception(
    interrupted: &mut Interrupted<'_>,
    code: u32,
    parameters: [u64; 2],
) -> bool {
    if !can_raise(interrupted.instruction()) {
        return false;
    }
    let context = interrupted.context();
    let stack = context.general[RSP];
    // Below the frame of the image, which keeps nothing there.
    let place = stack.wrapping_sub(256 + size_of::<Context>() as u64) & !0xf;
    let to = ptr::with_exposed_provenance_mut::<Context>(usize::try_from(place).unwrap_or(0));
    // SAFETY: It is the free part of the interrupted thread's stack: the caller has excluded an
    // overflow of the stack, and a page of it that is not there faults as one.
    unsafe { to.write(context) };
    interrupted.set_call(
        raise_fault as *const () as u64,
        place,
        [place, code.into(), parameters[0], parameters[1]],
    );
    true
}

/// Raises the exception of a fault. Runs on the interrupted stack.
unsafe extern "sysv64" fn raise_fault(
    context: *mut Context,
    code: u64,
    kind: u64,
    address: u64,
) -> ! {
    let code = u32::try_from(code).unwrap_or(0);
    let mut parameters = [0; 15];
    let mut parameter_count = 0;
    if code == ACCESS_VIOLATION {
        (parameters[0], parameters[1], parameter_count) = (kind, address, 2);
    }
    // SAFETY: The signal handler wrote the context there.
    let context = unsafe { &*context };
    dispatch(code, context, parameters, parameter_count)
}

/// Searches the frames for a handler. Continues there, or where the exception was raised; if there
/// is none, the driver is abandoned.
fn dispatch(code: u32, raised: &Context, parameters: [u64; 15], parameter_count: u32) -> ! {
    let start = *raised;
    RAISED.with(|list| list.borrow_mut().push(start));
    let mut record = ExceptionRecord {
        code,
        flags: 0,
        next: 0,
        address: raised.rip,
        parameter_count,
        unused: 0,
        parameters,
    };
    let mut whole = *raised;
    let mut registers = *raised;
    for _ in 0..MAX_FRAMES {
        let pc = registers.rip;
        let Some(unwound) = unwind_frame(&mut registers) else { break };
        let Frame { establisher: frame, function, handler } = unwound;
        let Some((image, handler)) = handler.filter(|(_, handler)| handler.exceptions) else {
            continue;
        };
        let mut dispatcher = DispatcherContext {
            control_pc: pc,
            image_base: image.base,
            function_entry: function,
            establisher_frame: frame,
            target_ip: 0,
            context: &raw mut registers,
            language_handler: handler.routine,
            handler_data: handler.data,
            history_table: 0,
            scope_index: 0,
            fill: 0,
        };
        // SAFETY: The function table names it as a language handler.
        let routine: LanguageHandler = unsafe { function_at(handler.routine) };
        let (record, whole) = (&raw mut record, &raw mut whole);
        // SAFETY: The arguments are those of a language handler, and outlive the call.
        let answer = unsafe { routine(record, frame, whole, &raw mut dispatcher) };
        if answer == CONTINUE_EXECUTION {
            RAISED.with(|list| list.borrow_mut().pop());
            // SAFETY: The handler asks to go on where the exception was raised.
            unsafe { go_on(whole) };
        }
    }
    abandon_unhandled(code, &start, &parameters)
}

/// A frame of an image that was unwound.
struct Frame {
    establisher: u64,
    /// The address of its function's entry in the function table; zero for a leaf function.
    function: u64,
    /// Its handler, with the image.
    handler: Option<(FunctionTable, Handler)>,
}

/// Unwinds one frame. `None` outside of images.
fn unwind_frame(registers: &mut Context) -> Option<Frame> {
    let leaf = |registers: &mut Context| {
        let establisher = registers.general[RSP];
        registers.rip = read_u64(establisher)?;
        registers.general[RSP] = registers.general[RSP].wrapping_add(8);
        Some(Frame { establisher, function: 0, handler: None })
    };
    let Some(image) = image_of(registers.rip) else {
        return if crate::crt_memory::is_leaf(registers.rip) { leaf(registers) } else { None };
    };
    let Some(function) = image.find(registers.rip) else { return leaf(registers) };
    let frame = image.unwind(&function, registers)?;
    Some(Frame {
        establisher: frame.establisher,
        function: function.entry,
        handler: frame.handler.map(|handler| (image, handler)),
    })
}

/// Records the frames of an image at a fault: from the faulting instruction, or, if our code was
/// called by the image, from that call.
pub(super) fn record_frames(record: &mut CrashRecord) {
    let mut registers = Context::ZERO;
    registers.general = record.registers;
    registers.rip = record.rip;
    let is_leaf = crate::crt_memory::is_leaf(record.rip);
    let mut is_call = false;
    if image_of(record.rip).is_none() && !is_leaf {
        if !record.is_in_import() || image_of(record.caller).is_none() {
            return;
        }
        // The other registers at the call are not known: a frame that needs one ends the list.
        registers = Context::ZERO;
        registers.rip = record.caller;
        registers.general[RBP] = record.caller_frame;
        registers.general[RSP] = record.caller_stack.wrapping_add(8);
        is_call = true;
    }
    let mut count = 0;
    while count < record.frames.len() {
        if image_of(registers.rip).is_some() {
            record.frames[count] = registers.rip.saturating_sub(u64::from(is_call));
            count += 1;
        }
        if unwind_frame(&mut registers).is_none() {
            break;
        }
        is_call = true;
    }
    record.frame_count = count as u64;
}

/// A function of the image by its address.
///
/// # Safety
///
/// A function of this type is there.
unsafe fn function_at<F: Copy>(address: u64) -> F {
    let pointer = ptr::with_exposed_provenance::<()>(usize::try_from(address).unwrap_or(0));
    // SAFETY: The caller's contract; function pointers have the size of pointers.
    unsafe { std::mem::transmute_copy(&pointer) }
}

fn abandon_unhandled(code: u32, raised: &Context, parameters: &[u64; 15]) -> ! {
    let protection = ProtectionFault::of_exception(code, parameters, raised);
    let kind = match (protection, code) {
        (Some(fault), _) => fault.kind(),
        (None, ACCESS_VIOLATION) if parameters[0] != u64::MAX => CrashKind::Access,
        _ => CrashKind::Unhandled,
    };
    signals::abandon(kind, |record: &mut CrashRecord| {
        record.instruction = raised.rip;
        record.rip = raised.rip;
        record.registers = raised.general;
        record.address = parameters[1];
        record.error = if parameters[0] == 1 { 2 } else { 0 };
        record.bug_check[0] = code.into();
        if let Some(fault) = protection {
            record.address = 0;
            fault.describe(record);
        }
        signals::read_memory(raised.rip, &mut record.code);
    })
}

/// Unwinds to a frame of the exception that is being handled, runs the termination handlers on the
/// way, and continues at `target`.
fn unwind_to(target_frame: u64, target: u64, code: u32, result: u64) -> ! {
    let start = RAISED.with(|list| list.borrow().last().copied());
    let Some(start) = start else { signals::bug_check(0x1e, [code.into(), target, 0, 0]) };
    let mut record = ExceptionRecord {
        code,
        flags: UNWINDING,
        next: 0,
        address: start.rip,
        parameter_count: 0,
        unused: 0,
        parameters: [0; 15],
    };
    let mut registers = start;
    for _ in 0..MAX_FRAMES {
        let mut body = registers;
        let pc = registers.rip;
        let Some(unwound) = unwind_frame(&mut registers) else { break };
        let Frame { establisher: frame, function, handler } = unwound;
        let reached = frame == target_frame;
        if let Some((image, handler)) = handler.filter(|(_, handler)| handler.unwinds) {
            record.flags = if reached { UNWINDING | TARGET_UNWIND } else { UNWINDING };
            let mut dispatcher = DispatcherContext {
                control_pc: pc,
                image_base: image.base,
                function_entry: function,
                establisher_frame: frame,
                target_ip: target,
                context: &raw mut body,
                language_handler: handler.routine,
                handler_data: handler.data,
                history_table: 0,
                scope_index: 0,
                fill: 0,
            };
            let mut whole = start;
            // SAFETY: The function table names it as a language handler.
            let routine: LanguageHandler = unsafe { function_at(handler.routine) };
            let (record, whole) = (&raw mut record, &raw mut whole);
            // SAFETY: The arguments are those of a language handler, and outlive the call.
            unsafe { routine(record, frame, whole, &raw mut dispatcher) };
        }
        if reached {
            RAISED.with(|list| list.borrow_mut().pop());
            body.rip = target;
            body.general[RAX] = result;
            // SAFETY: The registers are those of the body of the target's frame.
            unsafe { go_on(&raw const body) };
        }
    }
    // The frame is not one of the exception's: the stack is damaged.
    signals::bug_check(0x1e, [code.into(), target, target_frame, 0])
}

/// The language handler of C: searches the scope table of a function.
///
/// # Safety
///
/// The arguments are those of a language handler.
pub(crate) unsafe extern "win64" fn __C_specific_handler(
    record: *mut c_void,
    frame: u64,
    context: *mut c_void,
    dispatcher: *mut c_void,
) -> i32 {
    let (record, context) = (record.cast::<ExceptionRecord>(), context.cast::<Context>());
    // SAFETY: The caller passes a valid dispatcher context, which no other code uses meanwhile.
    let dispatcher = unsafe { &mut *dispatcher.cast::<DispatcherContext>() };
    // SAFETY: The caller passes a valid record.
    let ExceptionRecord { code, flags, .. } = unsafe { record.read() };
    let base = dispatcher.image_base;
    let pc = dispatcher.control_pc.wrapping_sub(base);
    let count = read_u32(dispatcher.handler_data).unwrap_or(0);
    for index in dispatcher.scope_index..count {
        let Some(scope) = Scope::read(dispatcher.handler_data, index) else { break };
        if !scope.contains(pc) {
            continue;
        }
        if flags & UNWINDING != 0 {
            let target = dispatcher.target_ip.wrapping_sub(base);
            let to_target = flags & TARGET_UNWIND != 0;
            if to_target && (scope.contains(target) || scope.target == target) {
                break; // The scope is not left.
            }
            if scope.target == 0 {
                dispatcher.scope_index = index + 1; // It runs once, even if it raises.
                // SAFETY: The scope table names it as a termination handler.
                let end: Termination = unsafe { function_at(base + scope.handler) };
                // SAFETY: It gets the frame that its function established.
                unsafe { end(1, frame) };
            }
            continue;
        }
        if scope.target == 0 {
            continue;
        }
        let answer = if scope.handler == EXECUTE_HANDLER {
            1
        } else {
            let mut pointers = ExceptionPointers { record, context };
            // SAFETY: The scope table names it as a filter.
            let filter: Filter = unsafe { function_at(base + scope.handler) };
            // SAFETY: It gets the exception and the frame that its function established.
            unsafe { filter(&raw mut pointers, frame) }
        };
        if answer < 0 {
            return CONTINUE_EXECUTION;
        }
        if answer > 0 {
            unwind_to(frame, base + scope.target, code, code.into());
        }
    }
    CONTINUE_SEARCH
}

/// The filter of a scope that always takes the exception.
const EXECUTE_HANDLER: u64 = 1;

/// An entry of a scope table.
struct Scope {
    begin: u64,
    end: u64,
    /// A filter, a termination handler, or 1.
    handler: u64,
    /// Where the handler is; zero for a termination handler.
    target: u64,
}

impl Scope {
    fn read(table: u64, index: u32) -> Option<Self> {
        let at = table + 4 + u64::from(index) * 16;
        let field = |offset| read_u32(at + offset).map(u64::from);
        Some(Self { begin: field(0)?, end: field(4)?, handler: field(8)?, target: field(12)? })
    }

    fn contains(&self, rva: u64) -> bool {
        (self.begin..self.end).contains(&rva)
    }
}

/// Unwinds to a frame and continues there.
///
/// # Safety
///
/// Called by a language handler, for a frame of the exception that is being handled.
pub(crate) unsafe extern "win64" fn RtlUnwindEx(
    target_frame: u64,
    target: u64,
    record: *mut c_void,
    result: u64,
    _context: *mut c_void,
    _history: *mut c_void,
) -> ! {
    let record = record.cast::<ExceptionRecord>();
    let code = if record.is_null() {
        0
    } else {
        // SAFETY: The caller passes NULL or a valid record.
        unsafe { (*record).code }
    };
    unwind_to(target_frame, target, code, result)
}

raising_entry! {
    /// Raises a status as an exception.
    ///
    /// # Safety
    ///
    /// Called by code of an image.
    ExRaiseStatus => raise_status
}
raising_entry! {
    /// Raises an access violation.
    ///
    /// # Safety
    ///
    /// Called by code of an image.
    ExRaiseAccessViolation => raise_access_violation
}
raising_entry! {
    /// Raises a misalignment.
    ///
    /// # Safety
    ///
    /// Called by code of an image.
    ExRaiseDatatypeMisalignment => raise_misalignment
}
raising_entry! {
    /// Raises an exception of the caller's.
    ///
    /// # Safety
    ///
    /// Called by code of an image, with an `EXCEPTION_RECORD`.
    RtlRaiseException => raise_record
}
raising_entry! {
    /// Checks that a range is in the part of memory that belongs to users, and aligned.
    ///
    /// # Safety
    ///
    /// Called by code of an image.
    ProbeForRead => probe_for_read
}
raising_entry! {
    /// As `ProbeForRead`; also checks that the range can be written.
    ///
    /// # Safety
    ///
    /// Called by code of an image.
    ProbeForWrite => probe_for_write
}

raising_entry! {
    /// Checks that the pages of a buffer exist and locks them. If they do not, raises an access
    /// violation.
    ///
    /// # Safety
    ///
    /// Called by code of an image, with an `MDL`.
    MmProbeAndLockPages => probe_and_lock_pages
}

unsafe extern "sysv64" fn raise_status(context: *const Context, status: usize) -> usize {
    let code = u32::try_from(status & 0xffff_ffff).unwrap_or(0);
    raise(context, code)
}

unsafe extern "sysv64" fn raise_access_violation(context: *const Context) -> usize {
    raise(context, ACCESS_VIOLATION)
}

unsafe extern "sysv64" fn raise_misalignment(context: *const Context) -> usize {
    raise(context, DATATYPE_MISALIGNMENT)
}

unsafe extern "sysv64" fn raise_record(context: *const Context, record: *const c_void) -> usize {
    // SAFETY: The driver passes a record; a bad pointer faults as it does on Windows.
    let code = unsafe { (*record.cast::<ExceptionRecord>()).code };
    raise(context, code)
}

unsafe extern "sysv64" fn probe_for_read(
    context: *const Context,
    address: usize,
    bytes: usize,
    alignment: usize,
) -> usize {
    // WINDOWS: a probe of no bytes checks nothing (documented).
    if bytes == 0 {
        return 0;
    }
    if alignment.is_power_of_two() && !address.is_multiple_of(alignment) {
        return raise(context, DATATYPE_MISALIGNMENT);
    }
    let end = address.checked_add(bytes);
    let inside = end.is_some_and(|end| end as u64 <= USER_PROBE_ADDRESS);
    if inside { 0 } else { raise(context, ACCESS_VIOLATION) }
}

unsafe extern "sysv64" fn probe_for_write(
    context: *const Context,
    address: usize,
    bytes: usize,
    alignment: usize,
) -> usize {
    const PAGE: usize = 4096;
    // SAFETY: The same arguments.
    unsafe { probe_for_read(context, address, bytes, alignment) };
    let mut page = address;
    while bytes != 0 && page < address + bytes {
        if !is_writable(page) {
            return raise(context, ACCESS_VIOLATION);
        }
        page = (page / PAGE + 1) * PAGE;
    }
    0
}

unsafe extern "sysv64" fn probe_and_lock_pages(
    context: *const Context,
    list: *mut c_void,
    mode: i8,
    operation: u32,
) -> usize {
    // SAFETY: The driver passes a list.
    let lock = || unsafe { mm_mdl::probe_and_lock_pages(list, mode, operation) };
    match guarded(Ok(()), lock) {
        Ok(()) => 0,
        Err(status) => raise(context, status.cast_unsigned()),
    }
}

/// Whether a byte can be written: it is read and written back.
fn is_writable(address: usize) -> bool {
    let mut byte = [0];
    if signals::read_memory(address as u64, &mut byte) != 1 {
        return false;
    }
    signals::write_memory(address as u64, &byte) == 1
}

fn raise(context: *const Context, code: u32) -> usize {
    // SAFETY: A raising entry passes the context that it captured.
    let context = unsafe { &*context };
    // The marker in the first parameter: no access has failed.
    let mut parameters = [0; 15];
    parameters[0] = u64::MAX;
    dispatch(code, context, parameters, 0)
}
