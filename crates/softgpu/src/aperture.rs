//! The aperture's page table: the system page that each aperture page maps.

use crate::plan::PAGE;
use flight::Run;

/// What an aperture page maps: a page, by its physical address, or nothing.
#[derive(Debug)]
pub(crate) struct Aperture(Vec<Option<u64>>);

impl Aperture {
    /// An aperture of `bytes` bytes in which no page is mapped.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(vec![None; usize::try_from(bytes / PAGE).unwrap_or(0)])
    }

    /// Maps consecutive aperture pages. Returns whether the range is inside the aperture.
    pub(crate) fn map(&mut self, page: u64, start: u64, count: u64) -> bool {
        self.set(page, count, |value| start.checked_add(value * PAGE))
    }

    /// Maps each page of the range to the dummy page.
    pub(crate) fn unmap(&mut self, page: u64, count: u64, dummy: u64) -> bool {
        self.set(page, count, |_| Some(dummy))
    }

    /// Unmaps every page, as a power-on does.
    pub(crate) fn reset(&mut self) {
        self.0.fill(None);
    }

    fn set(&mut self, page: u64, count: u64, shown: impl Fn(u64) -> Option<u64>) -> bool {
        let index = |at| usize::try_from(at).ok();
        let range = page.checked_add(count).and_then(|end| Some(index(page)?..index(end)?));
        let Some(entries) = range.and_then(|it| self.0.get_mut(it)) else { return false };
        for (entry, at) in entries.iter_mut().zip(0..) {
            *entry = shown(at);
        }
        true
    }

    /// The memory behind a range, in order, with adjacent pieces merged. Returns `None` if a page
    /// of the range is not mapped.
    pub(crate) fn pieces(&self, offset: u64, bytes: u64) -> Option<Vec<Run>> {
        let mut pieces: Vec<Run> = Vec::new();
        let (mut at, end) = (offset, offset.checked_add(bytes)?);
        while at < end {
            let entry = self.0.get(usize::try_from(at / PAGE).ok()?)?;
            let start = (*entry)?.checked_add(at % PAGE)?;
            let bytes = (PAGE - at % PAGE).min(end - at);
            match pieces.last_mut() {
                Some(last) if last.start + last.bytes == start => last.bytes += bytes,
                _ => pieces.push(Run { start, bytes }),
            }
            at += bytes;
        }
        Some(pieces)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_shown_until_the_dummy_is() {
        let mut aperture = Aperture::new(4 * PAGE);
        assert_eq!(aperture.pieces(0, 1), None);
        assert!(aperture.map(0, 0x10000, 2) && aperture.map(2, 0x50000, 1));
        let run = |start, bytes| Run { start, bytes };
        let all = [run(0x10010, 2 * PAGE - 16), run(0x50000, 8)];
        assert_eq!(aperture.pieces(16, 2 * PAGE - 8), Some(all.to_vec()));
        assert_eq!(aperture.pieces(2 * PAGE, PAGE + 1), None, "the last page shows nothing");
        assert!(aperture.unmap(1, 2, 0x9000));
        let dummies = [run(0x9ff0, 16), run(0x9000, PAGE)];
        assert_eq!(aperture.pieces(2 * PAGE - 16, PAGE + 16), Some(dummies.to_vec()));
        aperture.reset();
        assert_eq!(aperture.pieces(0, 1), None);
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut aperture = Aperture::new(2 * PAGE);
        assert!(!aperture.map(1, 0x10000, 2) && !aperture.map(u64::MAX, 0x10000, 2));
        assert!(!aperture.unmap(3, 1, 0));
        assert!(aperture.pieces(PAGE, 1).is_none() && aperture.pieces(u64::MAX, 1).is_none());
        assert_eq!(aperture.pieces(2 * PAGE, 0), Some(Vec::new()));
    }
}
