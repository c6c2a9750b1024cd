//! Memory of a client behind an allocation: pages of its process (`ExistingSysMem`), or a section
//! (`ExistingSection`).

mod client_pages;
mod section;

pub(crate) use section::duplicate;

use crate::session::Session;
use abi::NTSTATUS;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use client_pages::ClientPages;
use flight::{ExistingMemory, FailedAccess, RuleId};
use section::{BadSection, Section};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// Why memory of a client cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unusable {
    /// It is not mapped, or not as it must be, from this address on.
    Inaccessible(usize),
    /// The operating system does not let this process copy the client's bytes.
    Forbidden,
}

/// The memory at an address of the caller: whole pages, to which the GPU writes unless `read_only`.
///
/// WINDOWS: memory that cannot be secured is an invalid parameter (our reading).
pub(crate) fn at_address(
    session: &Session,
    start: usize,
    bytes: usize,
    read_only: bool,
) -> Result<Arc<dyn ExistingMemory>, NTSTATUS> {
    let Some(process) = session.pointers().caller_process() else {
        session.missing_entry(
            "D3DKMTCreateAllocation.Flags.ExistingSysMem of another process, with a driver from a \
             file: it maps pages in its own process",
        );
        return Err(STATUS_NOT_SUPPORTED);
    };
    let checked = session.pointers().check_range(start, bytes);
    let pages = checked.map(|()| ClientPages::new(process, start, bytes, !read_only));
    let pages = pages.unwrap_or(Err(Unusable::Inaccessible(start)));
    let broken = match pages {
        Err(Unusable::Inaccessible(from)) => {
            let access = if read_only { "reading" } else { "reading and writing" };
            let end = start.saturating_add(bytes);
            Some(format!(
                "of the memory from {start:#x} to {end:#x}, the byte at {from:#x} is not mapped \
                 for {access}"
            ))
        }
        Ok(_) | Err(Unusable::Forbidden) => None,
    };
    session.judge(RuleId::WT_MEMORY_001, "D3DKMTCreateAllocation.pSystemMem", broken);
    match pages {
        Ok(pages) => Ok(Arc::new(pages)),
        Err(Unusable::Inaccessible(_)) => Err(STATUS_INVALID_PARAMETER),
        // A caller that has ended is not told.
        Err(Unusable::Forbidden) if session.pointers().is_caller_gone() => {
            Err(STATUS_INVALID_PARAMETER)
        }
        Err(Unusable::Forbidden) => {
            session.missing_entry(
                "D3DKMTCreateAllocation.Flags.ExistingSysMem where the system forbids \
                 process_vm_readv",
            );
            Err(STATUS_NOT_SUPPORTED)
        }
    }
}

/// The first bytes of a section of the caller, to which the GPU writes unless `read_only`.
///
/// WINDOWS: a handle that is not that of a section is an invalid parameter (our reading of the
/// page).
pub(crate) fn of_section(
    session: &Session,
    handle: usize,
    bytes: usize,
    read_only: bool,
) -> Result<Arc<dyn ExistingMemory>, NTSTATUS> {
    let section = Section::find(session.pointers(), handle, bytes, !read_only);
    let (mut no_section, mut too_short) = (None, None);
    match section {
        Ok(_) => (),
        Err(BadSection::NotOpen) => {
            no_section = Some(format!("hSection is {handle:#x}, which is no open handle"));
        }
        Err(BadSection::OtherKind) => {
            no_section = Some(format!("hSection is {handle:#x}, a handle of another kind"));
        }
        Err(BadSection::TooShort(has)) => {
            too_short = Some(format!("the section has {has:#x} of {bytes:#x} bytes"));
        }
        Err(BadSection::NoAccess) => {
            too_short = Some("the section's handle does not allow the access".to_owned());
        }
    }
    let is_section = no_section.is_none();
    session.judge(RuleId::ALLOC_CREATE_017, "D3DKMTCreateAllocation.hSection", no_section);
    if is_section {
        session.judge(RuleId::WT_MEMORY_001, "D3DKMTCreateAllocation.hSection", too_short);
    }
    section.map_or(Err(STATUS_INVALID_PARAMETER), |section| Ok(Arc::new(section) as _))
}

/// The first access to memory that a client has taken away.
#[derive(Debug, Default)]
struct FirstFailure(AtomicU64);

impl FirstFailure {
    /// Notes a failure, if it is the first one.
    fn note(&self, offset: usize, is_write: bool) {
        // Zero is no failure.
        let value = (offset as u64) << 1 | u64::from(is_write);
        _ = self.0.compare_exchange(0, value + 1, Ordering::SeqCst, Ordering::SeqCst);
    }

    fn get(&self) -> Option<FailedAccess> {
        let value = self.0.load(Ordering::SeqCst).checked_sub(1)?;
        Some(FailedAccess { offset: value >> 1, is_write: value & 1 != 0 })
    }
}

/// The range of an access to memory of `bytes` bytes, if it is inside.
fn inside(bytes: usize, offset: u64, length: usize) -> Option<Range<usize>> {
    let offset = usize::try_from(offset).ok()?;
    let end = offset.checked_add(length)?;
    (end <= bytes).then_some(offset..end)
}

/// The parts of a range that are in one page each: where they are, and where in the range.
fn by_pages(range: Range<usize>) -> impl Iterator<Item = (usize, Range<usize>)> {
    let (start, end) = (range.start, range.end);
    let mut at = start;
    std::iter::from_fn(move || {
        let here = at;
        let next = (here / PAGE + 1).saturating_mul(PAGE).min(end);
        at = next;
        (here < end).then(|| (here, here - start..next - start))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_where_pages_begin() {
        let parts: Vec<_> = by_pages(PAGE - 1..2 * PAGE + 2).collect();
        let wanted = [(PAGE - 1, 0..1), (PAGE, 1..PAGE + 1), (2 * PAGE, PAGE + 1..PAGE + 3)];
        assert_eq!(parts, wanted);
        assert_eq!(by_pages(PAGE..PAGE).count(), 0);
    }

    #[test]
    fn the_first_failure_is_kept() {
        let failed = FirstFailure::default();
        assert_eq!(failed.get(), None);
        failed.note(0, false);
        failed.note(PAGE, true);
        assert_eq!(failed.get(), Some(FailedAccess { offset: 0, is_write: false }));
    }

    #[test]
    fn an_access_past_the_end_is_outside() {
        assert_eq!(inside(PAGE, 1, PAGE - 1), Some(1..PAGE));
        assert_eq!(inside(PAGE, 1, PAGE), None);
        assert_eq!(inside(PAGE, u64::MAX, 1), None);
    }
}
