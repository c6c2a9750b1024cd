//! Why a call was refused, in words, for the report of its client.
//!
//! The function that refuses a call notes the reason with the status ([`refused`]); what made the
//! call takes it ([`with_refusal`]). Without a report nothing is noted and no text is made.
//!
//! # Invariants
//!
//! 1. State is kept during a call, on its thread only.
//! 2. A call that broke a rule or used something absent is in the report already and has no refusal.
//! 3. A failure by design of the API, such as a buffer that is too small, is not a refusal.

use abi::NTSTATUS;
use abi::status::{
    STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_PRESENT_OCCLUDED, STATUS_INVALID_PARAMETER,
    STATUS_OBJECT_NAME_NOT_FOUND,
};
use std::cell::{Cell, RefCell};

/// Statuses that are errors by their number and answers by their meaning: a size that is too small,
/// a window that is not visible, a name that does not exist yet.
const ANSWERS: [NTSTATUS; 3] =
    [STATUS_BUFFER_TOO_SMALL, STATUS_GRAPHICS_PRESENT_OCCLUDED, STATUS_OBJECT_NAME_NOT_FOUND];

/// The reason of a call that returned an error without noting one: a bug of this crate.
pub const NO_REASON: &str = "the reason is not known";

/// A refused call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedCall {
    /// What the call returned.
    pub status: NTSTATUS,
    /// Which argument was refused, and why.
    pub reason: String,
}

/// The reason that was noted last.
#[derive(Debug)]
enum Reason {
    /// It is in the report: a broken rule, or something absent. Or it is no refusal.
    Reported,
    /// In words, for this status.
    Words(NTSTATUS, String),
    /// The caller's memory could not be accessed.
    Memory(BadMemory),
}

/// Memory of the caller that could not be accessed.
#[derive(Clone, Copy, Debug)]
struct BadMemory {
    address: usize,
    bytes: usize,
    /// The member with the address, if it is known.
    member: Option<&'static str>,
}

thread_local! {
    /// Whether the current call notes a reason.
    static NOTES: Cell<bool> = const { Cell::new(false) };
    static REASON: RefCell<Option<Reason>> = const { RefCell::new(None) };
}

/// Runs a call. Returns its status, and why it was refused, if it was.
pub fn with_refusal(call: impl FnOnce() -> NTSTATUS) -> (NTSTATUS, Option<RefusedCall>) {
    REASON.take();
    let before = NOTES.replace(true);
    let status = call();
    NOTES.set(before);
    (status, refusal(status, REASON.take()))
}

/// Why a call with this status was refused, by the reason that was noted last.
fn refusal(status: NTSTATUS, reason: Option<Reason>) -> Option<RefusedCall> {
    /// The two bits of an error.
    const ERROR: u32 = 3;
    if status.cast_unsigned() >> 30 != ERROR || ANSWERS.contains(&status) {
        return None;
    }
    let reason = match reason {
        Some(Reason::Reported) => return None,
        Some(Reason::Words(of, reason)) if of == status => reason,
        Some(Reason::Memory(memory)) => memory.describe(),
        Some(Reason::Words(..)) | None => NO_REASON.to_owned(),
    };
    Some(RefusedCall { status, reason })
}

fn note(reason: impl FnOnce() -> Reason) {
    if NOTES.get() {
        REASON.set(Some(reason()));
    }
}

/// Notes why a call is refused, and returns its status.
#[cold]
pub(crate) fn refused(status: NTSTATUS, reason: &str) -> NTSTATUS {
    refused_with(status, || reason.to_owned())
}

/// As [`refused`], with a text that is made only for a report.
#[cold]
pub(crate) fn refused_with(status: NTSTATUS, reason: impl FnOnce() -> String) -> NTSTATUS {
    note(|| Reason::Words(status, reason()));
    status
}

/// As [`refused`], for an invalid parameter.
#[cold]
pub(crate) fn invalid(reason: &str) -> NTSTATUS {
    refused(STATUS_INVALID_PARAMETER, reason)
}

/// As [`refused_with`], for an invalid parameter.
#[cold]
pub(crate) fn invalid_with(reason: impl FnOnce() -> String) -> NTSTATUS {
    refused_with(STATUS_INVALID_PARAMETER, reason)
}

/// Notes that the report has the reason already, or needs none.
#[cold]
pub(crate) fn reported() {
    note(|| Reason::Reported);
}

/// Notes that memory of the caller could not be accessed, and returns the status.
#[cold]
pub(crate) fn inaccessible(status: NTSTATUS, address: usize, bytes: usize) -> NTSTATUS {
    note(|| Reason::Memory(BadMemory { address, bytes, member: None }));
    status
}

/// Notes that the structure of a call, at this address, could not be accessed, if that is why the
/// call is refused.
#[cold]
pub(crate) fn of_structure(status: NTSTATUS, structure: usize) -> NTSTATUS {
    name_memory("the argument structure", |memory| memory.address == structure);
    status
}

fn name_memory(name: &'static str, is_meant: impl FnOnce(&BadMemory) -> bool) {
    if !NOTES.get() {
        return;
    }
    REASON.with_borrow_mut(|reason| {
        if let Some(Reason::Memory(memory)) = reason
            && memory.member.is_none()
            && is_meant(memory)
        {
            memory.member = Some(name);
        }
    });
}

/// The result of an access to the caller's memory.
pub(crate) trait OfMember {
    /// Notes the member of the structure that has the address.
    fn of_member(self, name: &'static str) -> Self;
}

impl<T> OfMember for Result<T, NTSTATUS> {
    #[inline]
    fn of_member(self, name: &'static str) -> Self {
        self.inspect_err(|_| name_member(name))
    }
}

#[cold]
fn name_member(name: &'static str) {
    name_memory(name, |_| true);
}

impl BadMemory {
    fn describe(self) -> String {
        let Self { address, bytes, member } = self;
        let member = member.unwrap_or("an address");
        if address == 0 {
            format!("{member} is NULL, but must point to {bytes} bytes")
        } else {
            format!("{member} is {address:#x}, where {bytes} bytes cannot be read or written")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::status::{STATUS_NO_MEMORY, STATUS_PENDING, STATUS_SUCCESS};

    fn of(call: impl FnOnce() -> NTSTATUS) -> Option<String> {
        with_refusal(call).1.map(|refusal| refusal.reason)
    }

    #[test]
    fn a_refused_call_has_the_last_reason_of_its_status() {
        let twice = || {
            refused(STATUS_NO_MEMORY, "no room");
            invalid("Size is 0")
        };
        assert_eq!(of(twice), Some("Size is 0".to_owned()));
        let other = || {
            invalid("Size is 0");
            STATUS_NO_MEMORY
        };
        assert_eq!(of(other), Some(NO_REASON.to_owned()));
        assert_eq!(of(|| STATUS_INVALID_PARAMETER), Some(NO_REASON.to_owned()), "it was taken");
    }

    #[test]
    fn what_is_reported_and_what_is_an_answer_is_no_refusal() {
        let reported = || {
            reported();
            STATUS_INVALID_PARAMETER
        };
        assert_eq!(of(reported), None);
        for status in [STATUS_SUCCESS, STATUS_PENDING, STATUS_BUFFER_TOO_SMALL] {
            assert_eq!(of(|| status), None);
        }
    }

    #[test]
    fn no_text_is_made_without_a_report() {
        let status = invalid_with(|| unreachable!("no report is requested"));
        assert_eq!((status, of(|| STATUS_SUCCESS)), (STATUS_INVALID_PARAMETER, None));
    }

    #[test]
    fn memory_is_named_by_its_member_or_as_the_structure() {
        let member = || {
            let list: Result<(), _> = Err(inaccessible(STATUS_INVALID_PARAMETER, 0, 8));
            list.of_member("pList").of_member("outer").unwrap_err()
        };
        let expected = "pList is NULL, but must point to 8 bytes";
        assert_eq!(of(member), Some(expected.to_owned()));
        let structure = || of_structure(inaccessible(STATUS_INVALID_PARAMETER, 0x10, 64), 0x10);
        let expected = "the argument structure is 0x10, where 64 bytes cannot be read or written";
        assert_eq!(of(structure), Some(expected.to_owned()));
    }
}
