//! Parts of an extent: its bytes move in several steps, each of which moves one part.
//!
//! WINDOWS: a transfer comes in one or several sub-transfers, of which the first has
//! `TransferStart` and the last `TransferEnd` (documented). Their sizes are not documented: here a
//! part has a fixed size, or under pressure a random one. Whether an aperture is mapped in parts is
//! not documented: here it is not.

use crate::ddi::operation::PAGE;
use crate::memory::PagingStep;
use crate::memory::pressure::Pressure;

/// The largest part of a transfer through system memory.
const MAX_PART: u64 = 32 * PAGE;

/// A part of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// The parts in which `bytes` bytes move between a segment and system memory. `None` is all of them.
fn transfer_parts(bytes: u64, pressure: &mut Option<Pressure>) -> Vec<Option<Part>> {
    let most = pressure.as_mut().map_or(MAX_PART, |pressure| pressure.part_bytes(bytes));
    split(bytes, most)
}

/// The two halves in which `bytes` bytes move at virtual addresses.
pub(crate) fn halves(bytes: u64) -> Vec<Option<Part>> {
    match split(bytes, (bytes / 2).next_multiple_of(PAGE))[..] {
        [None] => vec![Some(Part { start: 0, bytes })],
        ref parts => parts.to_vec(),
    }
}

/// Parts of at most this size.
fn split(bytes: u64, most: u64) -> Vec<Option<Part>> {
    if most == 0 || bytes <= most {
        return vec![None];
    }
    let starts = (0..bytes.div_ceil(most)).map(|index| index * most);
    starts.map(|start| Some(Part { start, bytes: most.min(bytes - start) })).collect()
}

impl PagingStep {
    /// The step for an extent of `bytes` bytes, as the steps of its parts.
    pub(crate) fn in_transfer_parts(
        self,
        bytes: u64,
        pressure: &mut Option<Pressure>,
    ) -> impl Iterator<Item = Self> {
        let parts = transfer_parts(bytes, pressure).into_iter();
        parts.map(move |part| Self { part, ..self.clone() })
    }

    /// The part that it moves of an extent of `bytes` bytes.
    pub(crate) fn moved_part(&self, bytes: u64) -> Part {
        self.part.unwrap_or(Part { start: 0, bytes })
    }

    /// Whether no step before it moves a part.
    pub(crate) fn is_first_part(&self) -> bool {
        self.part.is_none_or(|part| part.start == 0)
    }

    /// Whether no step behind it moves a part of the extent of `bytes` bytes.
    pub(crate) fn is_last_part(&self, bytes: u64) -> bool {
        self.part.is_none_or(|part| part.start + part.bytes == bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(parts: &[Option<Part>], bytes: u64) -> bool {
        let mut end = 0;
        parts.iter().all(|part| {
            let Part { start, bytes } = part.unwrap_or(Part { start: 0, bytes });
            let follows = start == end && start.is_multiple_of(PAGE) && bytes > 0;
            end = start + bytes;
            follows
        }) && end == bytes
    }

    #[test]
    fn parts_follow_each_other_and_cover_the_extent() {
        assert_eq!(transfer_parts(MAX_PART, &mut None), [None]);
        assert_eq!(transfer_parts(2 * MAX_PART + PAGE, &mut None).len(), 3);
        assert!(covers(&transfer_parts(2 * MAX_PART + PAGE, &mut None), 2 * MAX_PART + PAGE));
        let mut pressure = Some(Pressure::new(3));
        let lengths = (0..100).map(|_| {
            let parts = transfer_parts(24 * PAGE, &mut pressure);
            assert!(covers(&parts, 24 * PAGE), "{parts:?}");
            parts.len()
        });
        let lengths: std::collections::BTreeSet<usize> = lengths.collect();
        assert!(lengths.contains(&1) && lengths.len() > 3, "{lengths:?}");
    }

    #[test]
    fn a_page_has_one_half() {
        assert_eq!(halves(PAGE), [Some(Part { start: 0, bytes: PAGE })]);
        let two = Some(Part { start: 0, bytes: 2 * PAGE });
        assert_eq!(halves(3 * PAGE), [two, Some(Part { start: 2 * PAGE, bytes: PAGE })]);
    }
}
