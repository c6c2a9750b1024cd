//! The finding of a driver whose flight's process did not finish: by its record, or by how the process
//! ended.

use crate::driver::Driver;
use crate::fly::NEEDS_END;
use crate::native_umd::NativeUmd;
use flight::{Component, Event, EventKind, RuleId, Subject};
use nt::Guard;
use nt::image::{Channel, CrashKind, ProcessEnd, RefusedInstruction};
use server::crash_place::Places;
use server::crash_report::{DRIVER_ENTRY, OUTSIDE_OF_CALLS, event_of, hangs, judge_record, noun};
use std::os::unix::process::ExitStatusExt as _;
use verify::StackFrame;

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
    (driver, guard): (Driver, Guard),
    umd: Option<&NativeUmd>,
    channel: &Channel,
    end: ProcessEnd,
    events: &[Event],
) -> Crash {
    let record = channel.record();
    let file = if let Driver::File(file) = driver { Some(file.opened()) } else { None };
    let places = Places::of_child(file, umd.map(NativeUmd::path), channel);
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
    if record.kind() == CrashKind::Limit {
        return Crash { event: None, need: Some(NEEDS_END.to_owned()), stack };
    }
    let (component, place) = match open {
        Some((component, name)) => (component, name),
        None if in_umd => (Component::Umd, "a routine that the runtime did not call".to_owned()),
        None => (Component::Driver, outside_of_calls(events).to_owned()),
    };
    if let (Component::Driver, Some(RefusedInstruction::Privileged(name))) =
        (component, record.refused_instruction())
    {
        // The kernel of Windows executes it.
        let place = places.name(&record, &stack);
        let need = format!("the privileged instruction {name} in {place}, which is not emulated");
        return Crash { event: None, need: Some(need), stack: Vec::new() };
    }
    if guard == Guard::Exact && matches!(record.refused_operand(), Some((_, true))) {
        let place = places.name(&record, &stack);
        let need = format!(
            "pool that is aligned to 16 bytes, as on Windows, in {place}: fly it without --guard exact"
        );
        return Crash { event: None, need: Some(need), stack: Vec::new() };
    }
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

/// The finding on a driver that wrote over the events of its flight, behind these, and what the
/// flight needs. The routine that did it is not known: what it wrote over can be older.
pub(crate) fn overwritten_event(
    driver: Driver,
    umd: Option<&NativeUmd>,
    events: &[Event],
) -> (String, Event) {
    let in_umd = umd.is_some() && !matches!(driver, Driver::File(_));
    let component = if in_umd { Component::Umd } else { Component::Driver };
    let last = events.last().map_or(0, |event| event.seq);
    let message = format!(
        "{} wrote over the memory in which the process of the flight records its events: what is \
         behind event {last} is lost",
        noun(component)
    );
    let subject = if in_umd { last_umd_subject(events) } else { None }.unwrap_or(Subject::RUN);
    let kind = EventKind::RuleBroken {
        rule: RuleId::WT_BUFFER_001,
        component,
        argument: "a routine that is not known".into(),
        message: message.into(),
    };
    let event = Event { seq: last + 1, thread: 0, call: None, subject, kind };
    (format!("{} to leave the memory of the flight alone", noun(component)), event)
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
