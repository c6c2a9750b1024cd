//! The finding of a driver that ended its process: a fault, a bug check, a deadline, an exit.

use crate::crash_place::Places;
use crate::driver::Driver;
use crate::missed_block::{MissedAccess, paged_sentence};
use crate::native_umd::NativeUmd;
use flight::{Component, Event, EventKind, Kind, RuleId, Subject};
use nt::BlockKind;
use nt::image::{Channel, CrashKind, CrashRecord, ProcessEnd, Section};
use std::os::unix::process::ExitStatusExt as _;
use verify::StackFrame;

/// The names of driver code that no call leads to: before and after the first call.
pub(crate) const DRIVER_ENTRY: &str = "DriverEntry";
pub(crate) const OUTSIDE_OF_CALLS: &str = "a routine of the driver that is not a DDI";

/// What the end of a process means.
pub(crate) struct Crash {
    /// The finding, if it is the driver's fault.
    pub(crate) event: Option<Event>,
    /// What the flight needed and did not get.
    pub(crate) need: Option<String>,
    /// The driver's frames, the innermost first.
    pub(crate) stack: Vec<StackFrame>,
}

/// Explains the end of a flight's process that did not finish.
pub(crate) fn crash_event(
    driver: Driver,
    umd: Option<&NativeUmd>,
    channel: &Channel,
    end: ProcessEnd,
    events: &[Event],
) -> Crash {
    let record = channel.record();
    let file = if let Driver::File(file) = driver { Some(file) } else { None };
    let places = Places::of_child(file, umd, channel);
    if let Some(name) = places.absent_import(&record) {
        let need = format!("import {name}, which is not implemented");
        return Crash { event: None, need: Some(need), stack: Vec::new() };
    }
    let stack = places.stack(&record);
    let open = match record.kind() {
        CrashKind::None => open_call(events),
        // The parent wrote the record, and knows the function by the events only.
        _ if !matches!(end, ProcessEnd::Ended(_)) => open_call(events),
        _ => record.running(),
    };
    let in_umd = umd.is_some() && (file.is_none() || places.is_in_umd(&record));
    let (component, place) = match open {
        Some((component, name)) => (component, name),
        None if in_umd => (Component::Umd, "a routine that the runtime did not call".to_owned()),
        None => (Component::Driver, outside_of_calls(events).to_owned()),
    };
    let (rule, message) = match record.kind() {
        CrashKind::None => (RuleId::WT_CRASH_001, ended_without_record(component, end)),
        _ => judge_record(component, &record, &places, &stack, events),
    };
    let mut event = event_of(&record, rule, component, (place, message));
    if component == Component::Umd && event.call.is_none() {
        event.subject = last_umd_subject(events).unwrap_or(Subject::RUN);
    }
    event.seq = events.last().map_or(1, |event| event.seq + 1);
    let need = format!("{} to return from every call", noun(component));
    Crash { event: Some(event), need: Some(need), stack }
}

/// The rule that a fault breaks, and the sentence.
pub(crate) fn judge_record(
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
pub(crate) fn event_of(
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
fn noun(component: Component) -> &'static str {
    if component == Component::Umd { "the user-mode driver" } else { "the driver" }
}

/// The name of driver code that no call leads to.
fn outside_of_calls(events: &[Event]) -> &'static str {
    let call =
        |event: &Event| matches!(event.kind, EventKind::DdiCall { .. } | EventKind::KsCall { .. });
    let called = events.iter().any(call);
    if called { OUTSIDE_OF_CALLS } else { DRIVER_ENTRY }
}

/// The subject of the last call of the user-mode driver.
fn last_umd_subject(events: &[Event]) -> Option<Subject> {
    let call = |event: &&Event| matches!(event.kind, EventKind::UmdCall { .. });
    events.iter().rev().find(call).map(|event| event.subject)
}

/// The driver function that was entered last and has not returned, and its component.
fn open_call(events: &[Event]) -> Option<(Component, String)> {
    let mut open: Vec<(u32, Component, &str)> = Vec::new();
    for event in events {
        let thread = event.thread;
        match &event.kind {
            EventKind::UmdCall { name } => open.push((thread, Component::Umd, name)),
            EventKind::DdiCall { name, .. } | EventKind::KsCall { name, .. } => {
                open.push((thread, Component::Driver, name));
            }
            EventKind::UmdReturn { .. }
            | EventKind::DdiReturn { .. }
            | EventKind::KsReturn { .. } => {
                let last = open.iter().rposition(|(of, ..)| *of == thread);
                last.map(|index| open.remove(index));
            }
            _ => (),
        }
    }
    open.pop().map(|(_, component, name)| (component, name.to_owned()))
}

/// The sentence for a process that left no record.
fn ended_without_record(component: Component, end: ProcessEnd) -> String {
    let driver = noun(component);
    let hangs = hangs(component);
    let status = match end {
        ProcessEnd::Silent(_) => {
            return format!(
                "{driver} did not return within the deadline, and its process gave no sign of \
                 life: {hangs}"
            );
        }
        ProcessEnd::Stopped(_) => return format!("{driver} stopped the process: {hangs}"),
        ProcessEnd::Ended(status) => status,
    };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("{driver} ended the process with exit status {code}"),
        (None, Some(signal)) => format!("the process of {driver} was ended by signal {signal}"),
        (None, None) => format!("the process of {driver} ended"),
    }
}

/// What Windows does if driver code does not return.
fn hangs(component: Component) -> &'static str {
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
    let place = places.name(record, stack);
    if record.kind() == CrashKind::Deadlock {
        let acquired = places.caller(record.bug_check[0]);
        let acquired = acquired.map_or(String::new(), |place| format!(" (acquired in {place})"));
        return format!(
            "{} waits for a spin lock that its thread already holds{acquired}, in {place}: {windows}",
            noun(component)
        );
    }
    format!("{}: {windows}", what(component, record, section, &place))
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
    section: Option<&Section>,
    place: &str,
) -> String {
    let driver = noun(component);
    let irql = match component {
        Component::Umd => String::new(),
        _ => format!(" at {}", irql_name(record.irql)),
    };
    match record.kind() {
        _ if is_assertion(record) => {
            format!("{driver}'s own assertion (int 2Ch) failed{irql} in {place}")
        }
        CrashKind::Access => {
            // A non-canonical address is reported as zero, and without the kind of the access.
            let fetch = record.error & 0x10 != 0;
            let accessed = record.accessed_address().filter(|_| record.address == 0 && !fetch);
            let non_canonical = accessed.is_some_and(|address| address != 0);
            let verb = match record.error {
                _ if fetch => "executed",
                _ if record.error & 2 != 0 || (non_canonical && record.writes_memory()) => {
                    "wrote to"
                }
                _ => "read from",
            };
            let address = accessed.unwrap_or(record.address);
            let note = address_note(address, section);
            format!("{driver} {verb} address {address:#x}{note}{irql} in {place}")
        }
        CrashKind::Instruction => {
            let comma = if irql.is_empty() { "" } else { "," };
            format!("{driver} executed an instruction that is not allowed{comma}{irql} in {place}")
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
        CrashKind::Stopped => format!("{driver} stopped the process{irql} in {place}"),
        CrashKind::Deadlock | CrashKind::None => String::new(),
    }
}

/// What Windows does if kernel-mode code does this.
fn windows(record: &CrashRecord) -> String {
    const DISPATCH_LEVEL: u32 = 2;
    /// The page is there, and was to be written.
    const READ_ONLY: u64 = 3;
    let raised = record.irql >= DISPATCH_LEVEL;
    match record.kind() {
        CrashKind::Access if record.error & READ_ONLY == READ_ONLY => "bug check 0xBE".to_owned(),
        CrashKind::Access if raised => "bug check 0xD1".to_owned(),
        CrashKind::Access if record.address >= nt::image::USER_PROBE_ADDRESS => {
            "bug check 0x50".to_owned()
        }
        CrashKind::StackOverflow | CrashKind::KernelStack => "bug check 0x7F (0x8)".to_owned(),
        CrashKind::FastFail => format!("bug check 0x139 ({:#x})", record.bug_check[0]),
        CrashKind::Watchdog => "bug check 0x133".to_owned(),
        CrashKind::Deadlock => "the processor hangs, bug check 0x133".to_owned(),
        CrashKind::Deadline if raised => "bug check 0x133".to_owned(),
        CrashKind::Deadline | CrashKind::Stopped => hangs(Component::Driver).to_owned(),
        CrashKind::SystemCall => {
            "Windows crashes, because its system services are entered from user mode only (ours)"
                .to_owned()
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
        CrashKind::Instruction => "0xC000001D",
        CrashKind::Arithmetic => "0xC0000094",
        CrashKind::Breakpoint => "0x80000003",
        CrashKind::StackOverflow => "0xC00000FD",
        CrashKind::FastFail | CrashKind::Abort => "0xC0000409",
        CrashKind::Deadline | CrashKind::Stopped => return hangs(Component::Umd).to_owned(),
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
