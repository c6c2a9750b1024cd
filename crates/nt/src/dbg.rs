//! The debugger output functions (`DbgPrint`, …) under their Windows names. What a driver prints is
//! an event.
//!
//! # Safety
//!
//! Every pointer is valid as the function's documentation page requires; the arguments have the
//! types that the format names.
#![expect(unsafe_code, reason = "a driver calls these as C")]
#![expect(non_snake_case, reason = "Windows's names")]
#![expect(clippy::missing_safety_doc, reason = "one contract for all, in the module's text")]

use crate::driver_memory::DriverMemory;
use crate::entry::{guarded, judge_at_most};
use crate::format::{Arguments, Characters, format, widened};
use crate::import_table::{import_rows, variadic};
use crate::ke_irql::PASSIVE_LEVEL;
use crate::processor::current;
use crate::waits::current_call;
use abi::NTSTATUS;
use abi::status::STATUS_SUCCESS;
use flight::EventKind;

import_rows! {
    DbgBreakPoint lacks "an event; the driver goes on";
    DbgBreakPointWithStatus lacks "an event; the driver goes on";
    DbgPrint;
    DbgPrintEx lacks "no filter by component and level";
    DbgPrompt lacks "no one answers: the response is empty";
    vDbgPrintEx lacks "no filter by component and level";
    vDbgPrintExWithPrefix lacks "no filter by component and level";
}

/// The longest text that is printed at once, in bytes. WINDOWS: documented; a longer one is cut
/// off.
const MAX_TEXT: usize = 512;

/// Emits the text that a driver prints.
pub(crate) fn print(import: &'static str, text: String) {
    let Some((_, log)) = current(import) else { return };
    log.emit(current_call(), || EventKind::DriverPrinted { text: text.into() });
}

/// Entry rule: a format with Unicode characters or strings is printed at `PASSIVE_LEVEL`.
fn judge_format(import: &'static str, form: DriverMemory) {
    if has_unicode(&form.read_c_string(MAX_TEXT)) {
        judge_at_most(import, &format!("{import} with a Unicode format"), PASSIVE_LEVEL);
    }
}

/// Whether a format has `%C`, `%S`, or `%c`, `%s` or `%Z` with the size `l` or `w`.
fn has_unicode(form: &[u8]) -> bool {
    let mut rest = form;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        rest = &rest[at + 1..];
        let width = rest.iter().take_while(|byte| b"-+ #0123456789.*".contains(byte)).count();
        rest = &rest[width..];
        match rest {
            [b'C' | b'S', ..] | [b'l' | b'w', b'c' | b's' | b'Z', ..] => return true,
            [b'%', after @ ..] => rest = after,
            _ => (),
        }
    }
    false
}

/// The text of a format with its arguments.
fn formatted(form: DriverMemory, arguments: Arguments) -> String {
    let form = form.read_c_string(MAX_TEXT);
    let mut units = format(&widened(&form), arguments, Characters::Narrow);
    units.truncate(MAX_TEXT);
    let text = String::from_utf16_lossy(&units);
    text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
}

fn print_formatted(import: &'static str, form: DriverMemory, arguments: Arguments) -> NTSTATUS {
    guarded((), || {
        judge_format(import, form);
        print(import, formatted(form, arguments));
    });
    STATUS_SUCCESS
}

variadic! {
    /// Prints a format with its arguments.
    DbgPrint -> print_arguments;
    /// Prints a format with its arguments, for a component and a level.
    DbgPrintEx -> print_component_arguments;
}

/// `DbgPrint(Format, …)`.
unsafe extern "win64-unwind" fn print_arguments(slots: *const u64) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let arguments = unsafe { Arguments::at(slots) };
    print_formatted("DbgPrint", arguments.memory(0), arguments.skip(1))
}

/// `DbgPrintEx(ComponentId, Level, Format, …)`.
unsafe extern "win64-unwind" fn print_component_arguments(slots: *const u64) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let arguments = unsafe { Arguments::at(slots) };
    print_formatted("DbgPrintEx", arguments.memory(2), arguments.skip(3))
}

/// Prints a format with arguments, for a component and a level.
pub unsafe extern "win64-unwind" fn vDbgPrintEx(
    _component: u32,
    _level: u32,
    form: *const u8,
    arguments: *const u64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let form = unsafe { DriverMemory::at(form) };
    // SAFETY: The caller's contract.
    print_formatted("vDbgPrintEx", form, unsafe { Arguments::at(arguments) })
}

/// Prints a prefix and a format with arguments, for a component and a level.
pub unsafe extern "win64-unwind" fn vDbgPrintExWithPrefix(
    prefix: *const u8,
    _component: u32,
    _level: u32,
    form: *const u8,
    arguments: *const u64,
) -> NTSTATUS {
    // SAFETY: The caller's contract.
    let prefix = unsafe { DriverMemory::at(prefix) };
    // SAFETY: The caller's contract.
    let form = unsafe { DriverMemory::at(form) };
    // SAFETY: The caller's contract.
    let arguments = unsafe { Arguments::at(arguments) };
    guarded((), || {
        judge_format("vDbgPrintExWithPrefix", form);
        let prefix = String::from_utf8_lossy(&prefix.read_c_string(MAX_TEXT)).into_owned();
        print("vDbgPrintExWithPrefix", prefix + &formatted(form, arguments));
    });
    STATUS_SUCCESS
}

/// Stops in the debugger: there is none, so the driver goes on.
pub extern "win64-unwind" fn DbgBreakPoint() {
    guarded((), || print("DbgBreakPoint", "DbgBreakPoint".to_owned()));
}

/// Stops in the debugger with a status: there is none, so the driver goes on.
pub extern "win64-unwind" fn DbgBreakPointWithStatus(status: u32) {
    let text = format!("DbgBreakPointWithStatus({status:#x})");
    guarded((), || print("DbgBreakPointWithStatus", text));
}

/// Asks the user of the debugger: there is none, so the response is empty and its length zero.
pub unsafe extern "win64-unwind" fn DbgPrompt(
    prompt: *const u8,
    response: *mut u8,
    length: u32,
) -> u32 {
    // SAFETY: The caller's contract.
    let prompt = unsafe { DriverMemory::at(prompt) };
    // SAFETY: The caller's contract.
    let response = unsafe { DriverMemory::at(response) };
    if length != 0 && !response.is_null() {
        response.write(0, 0_u8);
    }
    let text = String::from_utf8_lossy(&prompt.read_c_string(MAX_TEXT)).into_owned();
    guarded((), || print("DbgPrompt", text));
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::tests::{call, fly};
    use std::ffi::c_char;

    fn printed(body: impl FnOnce()) -> Vec<String> {
        let text = |event: flight::Event| match event.kind {
            EventKind::DriverPrinted { text } => Some(text.to_string()),
            _ => None,
        };
        fly(body).into_iter().filter_map(text).collect()
    }

    #[test]
    fn arguments_in_registers_and_on_the_stack_are_printed() {
        type Print = unsafe extern "win64-unwind" fn(*const c_char, i32, u64, i32, i32, i32) -> i32;
        type PrintEx = unsafe extern "win64-unwind" fn(u32, u32, *const c_char, i32, i32) -> i32;
        // SAFETY: On x64 a call with these arguments is one of a variadic function.
        let print: Print = unsafe { std::mem::transmute(DbgPrint as *const ()) };
        // SAFETY: As above.
        let print_ex: PrintEx = unsafe { std::mem::transmute(DbgPrintEx as *const ()) };
        let lines = printed(|| {
            let form = c"%d %I64x %d %d %d\n".as_ptr();
            assert_eq!(call!(print, form, 1, 1 << 40, 3, -4, 5), 0);
            assert_eq!(call!(print_ex, 77, 0, c"level %d, %d".as_ptr(), 6, 7), 0);
        });
        assert_eq!(lines, ["1 10000000000 3 -4 5", "level 6, 7"]);
    }

    #[test]
    fn lists_of_arguments_are_printed_behind_their_prefix() {
        let (form, slots) = (c"%u".as_ptr().cast(), [12_u64]);
        let lines = printed(|| {
            call!(vDbgPrintEx, 0, 0, form, slots.as_ptr());
            call!(vDbgPrintExWithPrefix, c"gpu: ".as_ptr().cast(), 0, 0, form, slots.as_ptr());
            DbgBreakPoint();
            DbgBreakPointWithStatus(3);
        });
        let breaks = ["DbgBreakPoint", "DbgBreakPointWithStatus(0x3)"];
        assert_eq!(lines, ["12", "gpu: 12", breaks[0], breaks[1]]);
    }

    #[test]
    fn a_prompt_gets_an_empty_response() {
        let mut response = [7_u8; 2];
        let lines = printed(|| {
            let length = call!(DbgPrompt, c"Break?".as_ptr().cast(), response.as_mut_ptr(), 2);
            assert_eq!(length, 0);
        });
        assert_eq!((lines, response), (vec!["Break?".to_owned()], [0, 7]));
    }

    #[test]
    fn a_long_text_is_cut_off() {
        let form: Vec<u8> = [b'x'; 700].into_iter().chain([0]).collect();
        let lines = printed(|| {
            call!(vDbgPrintEx, 0, 0, form.as_ptr(), [0_u64].as_ptr());
        });
        assert_eq!(lines[0].len(), MAX_TEXT);
    }

    #[test]
    fn a_unicode_format_above_passive_level_is_judged() {
        let events = fly(|| {
            let print = |form: &[u8]| call!(vDbgPrintEx, 0, 0, form.as_ptr(), [0_u64; 4].as_ptr());
            print(b"%ws\0");
            crate::KeRaiseIrqlToDpcLevel();
            print(b"%s %d %p %%ws %llx\0");
            print(b"%-10ws\0");
            print(b"100%% %wZ\0");
            crate::KeLowerIrql(0);
        });
        assert_eq!(crate::entry::tests::count(&events, "rule.broken"), 2);
    }
}
