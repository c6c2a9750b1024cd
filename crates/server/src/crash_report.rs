//! The finding of a driver that ended its process: a fault, a bug check, a deadline, an exit.

use crate::crash_place::Places;
use crate::missed_block::{MissedAccess, paged_sentence};
use flight::{Component, Event, EventKind, Kind, RuleId, Subject};
use nt::BlockKind;
use nt::image::{CrashKind, CrashRecord, RefusedInstruction, Section};
use verify::StackFrame;

/// The name of driver code that no call leads to, before the first call.
pub const DRIVER_ENTRY: &str = "DriverEntry";
/// The name of driver code that no call leads to, after the first call.
pub const OUTSIDE_OF_CALLS: &str = "a routine of the driver that is not a DDI";

/// The rule that a fault breaks, and the sentence.
pub fn judge_record(
    component: Component,
    record: &CrashRecord,
    places: &Places<'_>,
    stack: &[StackFrame],
    events: &[Event],
) -> (RuleId, String) {
    let is_lock = record.block.kind() == BlockKind::EndedLock;
    let missed = MissedAccess::of(record).filter(|_| component == Component::Driver || is_lock);
    if let Some(missed) = missed {
        let message = missed.sentence(record, places, stack, events, noun(component));
        return (missed.rule(record), message);
    }
    if record.paged != 0 && component == Component::Driver {
        return (RuleId::WT_PAGED_001, paged_sentence(record, places, stack));
    }
    let rule = match record.kind() {
        CrashKind::Watchdog => RuleId::WT_TIME_003,
        CrashKind::Deadlock => RuleId::WT_LOCK_001,
        _ if is_assertion(record) => RuleId::WT_ASSERT_001,
        CrashKind::KernelStack => RuleId::WT_STACK_001,
        _ => RuleId::WT_CRASH_001,
    };
    (rule, message(component, record, places, stack))
}

/// The event of a fault, without its number: the entry, and the sentence.
pub fn event_of(
    record: &CrashRecord,
    rule: RuleId,
    component: Component,
    (argument, message): (String, String),
) -> Event {
    let call = u32::try_from(record.call).ok().filter(|call| *call != 0);
    let subject = call.map_or(Subject::RUN, |call| Kind::Call.subject(call));
    let (argument, message) = (argument.into(), message.into());
    let kind = EventKind::RuleBroken { rule, component, argument, message };
    let thread = if record.thread == u32::MAX { 0 } else { record.thread };
    Event { seq: 0, thread, call, subject, kind }
}

/// The component in a sentence.
pub fn noun(component: Component) -> &'static str {
    if component == Component::Umd { "the user-mode driver" } else { "the driver" }
}

/// What Windows does if driver code does not return.
pub fn hangs(component: Component) -> &'static str {
    match component {
        Component::Umd => "the application hangs",
        _ => "the thread hangs, without a bug check",
    }
}

/// What the driver did, where, and what Windows does.
fn message(
    component: Component,
    record: &CrashRecord,
    places: &Places<'_>,
    stack: &[StackFrame],
) -> String {
    let section = places.section(record);
    let windows = match component {
        Component::Umd => windows_in_application(record),
        _ if section.is_some_and(|section| !section.discardable) => "bug check 0xBE".to_owned(),
        _ => windows(record),
    };
    if record.kind() == CrashKind::Limit {
        return nt::image::limit_message().to_owned(); // A flight in this process.
    }
    let place = places.name(record, stack);
    if record.kind() == CrashKind::Deadlock {
        let acquired = places.caller(record.bug_check[0]);
        let acquired = acquired.map_or(String::new(), |place| format!(" (acquired in {place})"));
        return format!(
            "{} waits for a spin lock that its thread already holds{acquired}, in {place}: {windows}",
            noun(component)
        );
    }
    format!("{}: {windows}", what(component, record, (places, section), &place))
}

/// What is at an address, in parentheses.
fn address_note(address: u64, section: Option<&Section>) -> String {
    match section {
        _ if address < 0x10000 => " (NULL)".to_owned(),
        Some(section) if section.discardable => {
            format!(" (section {}, which is discarded after DriverEntry)", section.name)
        }
        Some(section) => format!(" (section {}, which is read-only)", section.name),
        None => port::describe_system_handle(address)
            .map_or(String::new(), |noun| format!(" ({noun}, which is not to be dereferenced)")),
    }
}

/// Whether the driver raised an assertion failure (`NT_ASSERT`).
fn is_assertion(record: &CrashRecord) -> bool {
    match record.kind() {
        CrashKind::Breakpoint => record.code[..2] == [0xcd, 0x2c],
        CrashKind::Unhandled => record.bug_check[0] == u64::from(nt::image::ASSERTION_FAILURE),
        _ => false,
    }
}

/// What the driver did, and where.
fn what(
    component: Component,
    record: &CrashRecord,
    (places, section): (&Places<'_>, Option<&Section>),
    place: &str,
) -> String {
    let driver = noun(component);
    let comma = if component == Component::Umd { "" } else { "," };
    let irql = match component {
        Component::Umd => String::new(),
        _ => format!(" at {}", irql_name(record.irql)),
    };
    match record.kind() {
        _ if is_assertion(record) => {
            format!("{driver}'s own assertion (int 2Ch) failed{irql} in {place}")
        }
        CrashKind::Access => {
            let access = access(record, places, section);
            format!("{driver} {access}{irql} in {place}")
        }
        CrashKind::Instruction => {
            let instruction = match record.refused_instruction() {
                Some(RefusedInstruction::Privileged(name)) => {
                    format!("{name}, a privileged instruction that is not emulated")
                }
                Some(RefusedInstruction::Interrupt(number)) => {
                    format!("int {number:02X}h, a software interrupt that is not emulated")
                }
                None => "an instruction that is not allowed".to_owned(),
            };
            format!("{driver} executed {instruction}{comma}{irql} in {place}")
        }
        CrashKind::Breakpoint if record.code[..2] == [0xcd, 0x2d] => {
            format!("{driver} called the debugger with int 2Dh{comma}{irql} in {place}")
        }
        CrashKind::Arithmetic => format!("{driver} divided by zero{irql} in {place}"),
        CrashKind::Breakpoint => {
            format!("{driver} ran into a breakpoint or an assertion{irql} in {place}")
        }
        CrashKind::FastFail => {
            let code = record.bug_check[0];
            format!("{driver} called __fastfail({code}){irql} in {place}")
        }
        CrashKind::StackOverflow => format!("{driver}'s stack overflowed in {place}"),
        CrashKind::KernelStack => {
            format!("{driver} used more than the 24 KiB of a kernel stack{irql} in {place}")
        }
        CrashKind::Deadline => {
            format!("{driver} did not return within the deadline;{irql} it was in {place}")
        }
        CrashKind::BugCheck => {
            let [code, parameters @ ..] = record.bug_check;
            let [a, b, c, d] = parameters;
            format!(
                "{driver} called KeBugCheckEx({code:#x}, {a:#x}, {b:#x}, {c:#x}, {d:#x}) in {place}"
            )
        }
        CrashKind::Unhandled => {
            let status = record.bug_check[0];
            format!("{driver} raised {status:#010x} in {place}, and no handler took it")
        }
        CrashKind::Watchdog => format!(
            "{driver} polled for 20 seconds of virtual time{irql} or above, without an end, in {place}"
        ),
        CrashKind::Abort => format!("{driver} aborted the process in {place}"),
        CrashKind::Exit => {
            let status = record.bug_check[0];
            format!("{driver} ended the process with exit status {status} in {place}")
        }
        CrashKind::SystemCall => {
            let number = record.bug_check[0];
            format!("{driver} made system call {number} of this machine{irql} in {place}")
        }
        CrashKind::Sanitizer => {
            let error = record.sanitizer_error();
            format!("{driver} has an error that AddressSanitizer reports: {error}{irql} in {place}")
        }
        CrashKind::Stopped => format!("{driver} stopped the process{irql} in {place}"),
        CrashKind::ThreadEnd => {
            let how = match record.bug_check[0] {
                0 => " by pthread_exit",
                1 => " by pthread_cancel",
                _ => ": frames were unwound, by the end of the thread or an exception",
            };
            format!("{driver} ended a thread that calls it{how}{irql} in {place}")
        }
        CrashKind::Memory => format!(
            "{driver} takes more and more memory: its process went beyond the limit \
             (--max-memory);{irql} it was in {place}"
        ),
        CrashKind::Deadlock | CrashKind::Limit | CrashKind::None => String::new(),
    }
}

/// An access to memory, as a verb with its object.
fn access(record: &CrashRecord, places: &Places<'_>, section: Option<&Section>) -> String {
    if record.branch_target != 0 {
        return format!(
            "executed address {:#x}, which is no canonical address,",
            record.branch_target
        );
    }
    match record.refused_operand() {
        Some((name, true)) => {
            return format!("executed {name} with an address that is not aligned,");
        }
        Some((name, false)) => {
            return format!("executed {name} with an operand that the processor refuses,");
        }
        None => (),
    }
    // A non-canonical address is reported as zero, and without the kind of the access.
    let fetch = record.error & 0x10 != 0;
    let accessed = record.accessed_address().filter(|_| record.address == 0 && !fetch);
    let non_canonical = accessed.is_some_and(|address| address != 0);
    let verb = match record.error {
        _ if fetch => "executed",
        _ if record.error & 2 != 0 || (non_canonical && record.writes_memory()) => "wrote to",
        _ => "read from",
    };
    if record.block.kind() == BlockKind::NoBlock {
        return format!("{verb} unallocated memory, far from every block,");
    }
    let address = accessed.unwrap_or(record.address);
    let note = match address_note(address, section) {
        note if note.is_empty() && is_data_fetch(record) => ", which is data,".to_owned(),
        note => note,
    };
    format!("{verb} {}{note}", places.describe(address, record))
}

/// Whether the fault was the execution of memory that is there and no code.
fn is_data_fetch(record: &CrashRecord) -> bool {
    const PRESENT_AND_FETCH: u64 = 0x11;
    record.error & PRESENT_AND_FETCH == PRESENT_AND_FETCH
}

/// What Windows does if kernel-mode code does this.
fn windows(record: &CrashRecord) -> String {
    const DISPATCH_LEVEL: u32 = 2;
    /// The page is there, and was to be written.
    const READ_ONLY: u64 = 3;
    let raised = record.irql >= DISPATCH_LEVEL;
    match record.kind() {
        CrashKind::Access if is_data_fetch(record) => "bug check 0xFC".to_owned(),
        CrashKind::Access if record.error & READ_ONLY == READ_ONLY => "bug check 0xBE".to_owned(),
        CrashKind::Access if raised && record.general_protection == 0 => {
            "bug check 0xD1".to_owned()
        }
        CrashKind::Access if record.address >= nt::image::USER_PROBE_ADDRESS => {
            "bug check 0x50".to_owned()
        }
        CrashKind::StackOverflow | CrashKind::KernelStack => "bug check 0x7F (0x8)".to_owned(),
        CrashKind::FastFail => format!("bug check 0x139 ({:#x})", record.bug_check[0]),
        CrashKind::Watchdog => "bug check 0x133".to_owned(),
        CrashKind::Deadlock => "the processor hangs, bug check 0x133".to_owned(),
        CrashKind::Deadline if raised => "bug check 0x133".to_owned(),
        CrashKind::Deadline | CrashKind::Stopped | CrashKind::ThreadEnd => {
            hangs(Component::Driver).to_owned()
        }
        CrashKind::Memory => "allocations of the whole system fail".to_owned(),
        CrashKind::SystemCall => {
            "Windows crashes, because its system services are entered from user mode only (ours)"
                .to_owned()
        }
        CrashKind::Sanitizer => {
            "other memory is damaged or read, and any bug check follows".to_owned()
        }
        CrashKind::BugCheck => format!("bug check {:#X}", record.bug_check[0]).replace("0X", "0x"),
        _ => "bug check 0x7E in a system thread, 0x3B in a system call".to_owned(),
    }
}

/// What Windows does if user-mode code does this: nothing of the driver's is handled by the
/// application.
fn windows_in_application(record: &CrashRecord) -> String {
    let status = match record.kind() {
        CrashKind::Access => "0xC0000005",
        CrashKind::Instruction => match record.refused_instruction() {
            Some(RefusedInstruction::Privileged(_)) => "0xC0000096",
            _ => "0xC000001D",
        },
        CrashKind::Arithmetic => "0xC0000094",
        CrashKind::Breakpoint => "0x80000003",
        CrashKind::StackOverflow => "0xC00000FD",
        CrashKind::FastFail | CrashKind::Abort => "0xC0000409",
        CrashKind::Deadline | CrashKind::Stopped | CrashKind::ThreadEnd => {
            return hangs(Component::Umd).to_owned();
        }
        _ => return "the application ends".to_owned(),
    };
    format!("the application ends with {status}")
}

pub(crate) fn irql_name(irql: u32) -> String {
    match irql {
        0 => "PASSIVE_LEVEL".to_owned(),
        1 => "APC_LEVEL".to_owned(),
        2 => "DISPATCH_LEVEL".to_owned(),
        other => format!("IRQL {other}"),
    }
}
