//! The finding of a driver that ended its process: a fault, a bug check, a deadline.

use crate::driver_file::DriverFile;
use crate::missed_block::MissedAccess;
use flight::{Component, Event, EventKind, Kind, RuleId, Subject};
use nt::image::{Channel, CrashKind, CrashRecord, Number};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// What the end of a process means.
pub(crate) struct Crash {
    /// The finding, if it is the driver's fault.
    pub(crate) event: Option<Event>,
    /// What the flight needed and did not get.
    pub(crate) need: Option<String>,
}

/// Explains the end of a flight's process that did not finish.
pub(crate) fn crash_event(
    file: &DriverFile,
    channel: &Channel,
    status: ExitStatus,
    events: &[Event],
) -> Crash {
    let record = channel.record();
    let places = Places { file, channel };
    let need = "the driver to return from every call".to_owned();
    if let Some(name) = places.absent_import(&record) {
        let need = format!("import {name}, which is not implemented");
        return Crash { event: None, need: Some(need) };
    }
    let missed = MissedAccess::of(&record);
    let message = match (record.kind(), &missed) {
        (CrashKind::None, _) => ended_by_itself(status),
        (_, Some(missed)) => missed.sentence(&record, &places),
        _ => format!("{} {}", what(&record, &places), windows(&record)),
    };
    let rule = missed.map_or(RuleId::WT_CRASH_001, |missed| missed.rule());
    let call = u32::try_from(record.call).ok().filter(|call| *call != 0);
    let called = events
        .iter()
        .any(|event| matches!(event.kind, EventKind::DdiCall { .. } | EventKind::KsCall { .. }));
    let outside = if called { "a routine of the driver that is not a DDI" } else { "DriverEntry" };
    let place = call_name(events, call).unwrap_or(outside).to_owned();
    let kind = EventKind::RuleBroken {
        rule,
        component: Component::Driver,
        argument: place.into(),
        message: message.into(),
    };
    let subject = call.map_or(Subject::RUN, |call| Kind::Call.subject(call));
    let seq = events.last().map_or(1, |event| event.seq + 1);
    let event = Event { seq, thread: record.thread, call, subject, kind };
    Crash { event: Some(event), need: Some(need) }
}

/// The name of a driver call.
fn call_name(events: &[Event], call: Option<u32>) -> Option<&str> {
    let call = call?;
    events.iter().rev().find_map(|event| match &event.kind {
        EventKind::DdiCall { name, .. } | EventKind::KsCall { name, .. }
            if event.call == Some(call) =>
        {
            Some(&**name)
        }
        _ => None,
    })
}

/// The sentence for a process that left no record.
fn ended_by_itself(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("the driver ended the process with exit status {code}"),
        (None, Some(signal)) => format!("the process of the driver was ended by signal {signal}"),
        (None, None) => "the process of the driver ended".to_owned(),
    }
}

/// What the driver did, and where.
fn what(record: &CrashRecord, places: &Places<'_>) -> String {
    // A bug check has the return address of the call: the call is in front of it.
    let back = u64::from(record.kind() == CrashKind::BugCheck);
    let place = places.name(record.instruction.saturating_sub(back), record);
    let irql = irql_name(record.irql);
    match record.kind() {
        CrashKind::Access => {
            let verb = match record.error {
                _ if record.error & 0x10 != 0 => "executed",
                _ if record.error & 2 != 0 => "wrote to",
                _ => "read from",
            };
            // A non-canonical address is reported as zero.
            let fetch = record.error & 0x10 != 0;
            let accessed = record.accessed_address().filter(|_| record.address == 0 && !fetch);
            let address = accessed.unwrap_or(record.address);
            let note = if address < 0x10000 { " (NULL)" } else { "" };
            format!("the driver {verb} address {address:#x}{note} at {irql} in {place}:")
        }
        CrashKind::Instruction => {
            format!("the driver executed an instruction that is not allowed, at {irql} in {place}:")
        }
        CrashKind::Arithmetic => format!("the driver divided by zero at {irql} in {place}:"),
        CrashKind::Breakpoint => {
            format!("the driver ran into a breakpoint or an assertion at {irql} in {place}:")
        }
        CrashKind::FastFail => {
            let code = record.bug_check[0];
            format!("the driver called __fastfail({code}) at {irql} in {place}:")
        }
        CrashKind::StackOverflow => format!("the driver's stack overflowed in {place}:"),
        CrashKind::Deadline => {
            format!("the driver did not return within the deadline; at {irql} it was in {place}:")
        }
        CrashKind::BugCheck => {
            let [code, parameters @ ..] = record.bug_check;
            let [a, b, c, d] = parameters;
            format!(
                "the driver called KeBugCheckEx({code:#x}, {a:#x}, {b:#x}, {c:#x}, {d:#x}) in \
                 {place}:"
            )
        }
        CrashKind::Unhandled => {
            let status = record.bug_check[0];
            format!("the driver raised {status:#010x} in {place}, and no handler took it:")
        }
        CrashKind::Abort => format!("the driver aborted the process in {place}:"),
        CrashKind::None => String::new(),
    }
}

/// What Windows does.
fn windows(record: &CrashRecord) -> String {
    const DISPATCH_LEVEL: u32 = 2;
    let raised = record.irql >= DISPATCH_LEVEL;
    match record.kind() {
        CrashKind::Access if raised => "bug check 0xD1".to_owned(),
        CrashKind::Access if record.address >= nt::image::USER_PROBE_ADDRESS => {
            "bug check 0x50".to_owned()
        }
        CrashKind::StackOverflow => "bug check 0x7F (0x8)".to_owned(),
        CrashKind::FastFail => format!("bug check 0x139 ({:#x})", record.bug_check[0]),
        CrashKind::Deadline if raised => "bug check 0x133".to_owned(),
        CrashKind::Deadline => "the thread hangs, without a bug check".to_owned(),
        CrashKind::BugCheck => format!("bug check {:#X}", record.bug_check[0]).replace("0X", "0x"),
        _ => "bug check 0x7E in a system thread, 0x3B in a system call".to_owned(),
    }
}

pub(crate) fn irql_name(irql: u32) -> String {
    match irql {
        0 => "PASSIVE_LEVEL".to_owned(),
        1 => "APC_LEVEL".to_owned(),
        2 => "DISPATCH_LEVEL".to_owned(),
        other => format!("IRQL {other}"),
    }
}

/// Names of addresses.
pub(crate) struct Places<'a> {
    file: &'a DriverFile,
    channel: &'a Channel,
}

impl Places<'_> {
    /// The offset of an address in the image.
    fn offset(&self, address: u64) -> Option<u64> {
        let base = self.channel.number(Number::ImageBase);
        let offset = address.checked_sub(base)?;
        (base != 0 && offset < self.channel.number(Number::ImageSize)).then_some(offset)
    }

    /// The absent import that the driver used.
    fn absent_import(&self, record: &CrashRecord) -> Option<String> {
        let used = if record.error & 0x10 != 0 { record.instruction } else { record.address };
        let offset = used.checked_sub(self.channel.number(Number::Traps))?;
        if record.kind() != CrashKind::Access || offset >= self.channel.number(Number::TrapBytes) {
            return None;
        }
        let index = usize::try_from(offset).ok()? / nt::image::TRAP;
        self.file.image().import_names().get(index).map(|name| (*name).to_owned())
    }

    /// The place of a call by its return address. `None` if it is outside of the driver.
    pub(crate) fn caller(&self, returns_to: u64) -> Option<String> {
        Some(self.file.place(self.offset(returns_to.checked_sub(1)?)?))
    }

    /// The name of an address: of the image, or of the place that called into our code.
    pub(crate) fn name(&self, address: u64, record: &CrashRecord) -> String {
        if let Some(offset) = self.offset(address) {
            return self.file.place(offset);
        }
        match self.offset(record.caller.saturating_sub(1)) {
            Some(caller) => {
                let names = self.file.image().import_names();
                let import = names.get(record.import as usize).copied().unwrap_or("an import");
                format!("{import}, called by {}", self.file.place(caller))
            }
            None => format!("code at {address:#x}"),
        }
    }
}
