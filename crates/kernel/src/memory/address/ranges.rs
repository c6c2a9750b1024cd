//! The address ranges of a space: which are in use, and what is mapped there.
//!
//! # Invariants (checked by [`AddressRanges::validate`])
//!
//! 1. Ranges are whole pages, do not overlap, and lie between `LOWEST_ADDRESS` and the end.
//! 2. A range keeps the number of its reservation, whatever is mapped into it.
//! 3. A range that is only reserved belongs to a reservation.
//! 4. The free spans and the ranges of each view are indexed, so that neither is searched.

use crate::base::id_list::Id;
use crate::ddi::operation::PAGE;
use crate::memory::address::gaps::AddressGaps;
use crate::objects::view::View;
use flight::invariant;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range as Span;

/// The lowest address of a range: zero means "anywhere" to clients.
///
/// WINDOWS: the first address is not documented (our decision).
pub(crate) const LOWEST_ADDRESS: u64 = 64 << 10;

/// The addresses of a space.
#[derive(Debug)]
pub(crate) struct AddressRanges {
    end: u64,
    ranges: BTreeMap<u64, AddressRange>,
    gaps: AddressGaps,
    /// The ranges of each view, by their start.
    views: BTreeSet<(Id<View>, u64)>,
    last_reservation: u32,
    /// Reservations up to this number belong to the driver: they are older than those of clients.
    driver_ranges: u32,
}

/// A range in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressRange {
    pub(crate) end: u64,
    /// The reservation it is in; zero if a map call allocated it.
    pub(crate) reservation: u32,
    pub(crate) backing: Backing,
}

/// What is mapped at a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Nothing yet: every access faults.
    Reserved,
    /// Reserved for the driver only.
    Driver,
    /// Every access faults, on purpose.
    NoAccess,
    /// Reads return zero, writes are lost.
    Zero,
    /// A part of a view's allocation.
    Mapped {
        /// The view.
        view: Id<View>,
        /// Offset of the range in its allocation.
        offset: u64,
        /// The permitted access.
        access: Access,
    },
}

/// The permitted access of a range (`D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Writes are permitted.
    pub write: bool,
    /// Execution is permitted.
    pub execute: bool,
    /// The driver-defined bits (`DriverProtection`).
    pub driver: u64,
}

/// The bounds of a new range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AddressBounds {
    pub(crate) minimum: u64,
    /// The end; zero means the end of all addresses.
    pub(crate) maximum: u64,
    pub(crate) alignment: u64,
}

/// The state of a span of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeState {
    /// All of it is free.
    Free,
    /// All of it is in use; `reserved` if every part is in a reservation.
    Used { reserved: bool },
    /// Some of it is free, or it is outside of this space.
    Mixed,
}

impl Backing {
    /// The backing at an offset of `bytes` bytes.
    fn advanced(self, bytes: u64) -> Self {
        match self {
            Backing::Mapped { view, offset, access } => {
                Backing::Mapped { view, offset: offset + bytes, access }
            }
            other => other,
        }
    }

    /// Whether it has page-table entries.
    pub(crate) fn has_entries(self) -> bool {
        matches!(self, Backing::Zero | Backing::Mapped { .. })
    }

    /// Its name in events.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Backing::Reserved => "reserved",
            Backing::Driver => "the driver's",
            Backing::NoAccess => "no-access",
            Backing::Zero => "zero",
            Backing::Mapped { .. } => "mapped",
        }
    }
}

impl AddressRanges {
    /// A space of `bits` address bits, all free.
    pub(crate) fn new(bits: u32) -> Self {
        let end = 1_u64.checked_shl(bits).unwrap_or(1 << 63);
        let (ranges, views) = (BTreeMap::new(), BTreeSet::new());
        Self {
            end,
            ranges,
            gaps: AddressGaps::new(LOWEST_ADDRESS..end),
            views,
            last_reservation: 0,
            driver_ranges: 0,
        }
    }

    /// The end of all addresses.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Whether no range is in use.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The lowest free span of that size within bounds.
    pub(crate) fn find(&self, size: u64, bounds: AddressBounds) -> Option<u64> {
        let top = if bounds.maximum == 0 { self.end } else { bounds.maximum.min(self.end) };
        let step = bounds.alignment.max(PAGE);
        let from = bounds.minimum.max(LOWEST_ADDRESS);
        self.gaps.find(size, step, from).filter(|at| at + size <= top)
    }

    /// Inserts a range into a free span.
    fn insert(&mut self, start: u64, range: AddressRange) {
        self.gaps.take(&(start..range.end));
        self.index_view(start, range.backing, true);
        self.ranges.insert(start, range);
    }

    /// Removes a range.
    fn remove(&mut self, start: u64) {
        if let Some(range) = self.ranges.remove(&start) {
            self.index_view(start, range.backing, false);
            self.gaps.insert(start..range.end);
        }
    }

    /// Adds a range to the index of views, or removes it.
    fn index_view(&mut self, start: u64, backing: Backing, there: bool) {
        if let Backing::Mapped { view, .. } = backing {
            if there {
                self.views.insert((view, start));
            } else {
                self.views.take(&(view, start));
            }
        }
    }

    /// The ranges of a view.
    pub(crate) fn of_view(&self, view: Id<View>) -> impl Iterator<Item = Span<u64>> + '_ {
        let starts = self.views.range((view, 0)..=(view, u64::MAX)).map(|pair| pair.1);
        starts.filter_map(|start| Some(start..self.ranges.get(&start)?.end))
    }

    /// The state of a span.
    pub(crate) fn state_of(&self, span: &Span<u64>) -> RangeState {
        if span.start < LOWEST_ADDRESS || span.end > self.end || span.start >= span.end {
            return RangeState::Mixed;
        }
        let (mut covered, mut reserved) = (span.start, true);
        let mut any = false;
        for (part, range) in self.parts(span) {
            any = true;
            if range.backing == Backing::Driver {
                return RangeState::Mixed;
            }
            reserved &= range.reservation != 0;
            if part.start == covered {
                covered = part.end;
            }
        }
        match (any, covered == span.end) {
            (false, _) => RangeState::Free,
            (true, true) => RangeState::Used { reserved },
            (true, false) => RangeState::Mixed,
        }
    }

    /// The ranges of a span, cut to the span.
    pub(crate) fn parts(&self, span: &Span<u64>) -> Vec<(Span<u64>, AddressRange)> {
        let first = self.ranges.range(..=span.start).next_back().map_or(span.start, |pair| *pair.0);
        let all = self.ranges.range(first..span.end.max(first));
        let cut = |(start, range): (&u64, &AddressRange)| {
            let part = (*start).max(span.start)..range.end.min(span.end);
            let backing = range.backing.advanced(part.start.saturating_sub(*start));
            (part.start < part.end).then_some((part, AddressRange { backing, ..*range }))
        };
        all.filter_map(cut).collect()
    }

    /// Whether a range of a span has entries.
    pub(crate) fn has_entries(&self, span: &Span<u64>) -> bool {
        let before = self.ranges.range(..span.start).next_back().map(|pair| pair.1);
        let before = before.filter(|address_range| address_range.end > span.start).into_iter();
        let guard = self.ranges.range(span.clone()).map(|pair| pair.1);
        before.chain(guard).any(|address_range| address_range.backing.has_entries())
    }

    /// All ranges.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Span<u64>, AddressRange)> + '_ {
        self.ranges.iter().map(|(start, range)| (*start..range.end, *range))
    }

    /// The range that contains an address.
    pub(crate) fn at(&self, address: u64) -> Option<(Span<u64>, AddressRange)> {
        let (start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some((*start..range.end, *range))
    }

    /// Reserves a free span. Returns the number of the reservation.
    pub(crate) fn reserve(&mut self, span: Span<u64>, backing: Backing) -> u32 {
        self.last_reservation += 1;
        let reservation = self.last_reservation;
        self.insert(span.start, AddressRange { end: span.end, reservation, backing });
        reservation
    }

    /// Reserves a span for the driver, before clients have any. Clients can map into a
    /// client-visible one.
    pub(crate) fn reserve_for_driver(&mut self, span: Span<u64>, shown: bool) {
        self.driver_ranges =
            self.reserve(span, if shown { Backing::Reserved } else { Backing::Driver });
    }

    /// Whether a span is completely in reservations of the driver.
    pub(crate) fn is_driver_reserved(&self, span: &Span<u64>) -> bool {
        self.parts(span).iter().all(|pair| (1..=self.driver_ranges).contains(&pair.1.reservation))
    }

    /// Sets the backing of a span. It replaces the existing backing; reservations stay.
    pub(crate) fn set_backing(&mut self, span: &Span<u64>, backing: Backing) {
        let parts = self.parts(span);
        self.free(span);
        let mut at = span.start;
        let mut put = |part: Span<u64>, reservation| {
            if part.start < part.end {
                let backing = backing.advanced(part.start - span.start);
                self.insert(part.start, AddressRange { end: part.end, reservation, backing });
            }
        };
        for (part, range) in parts {
            put(at..part.start, 0);
            at = part.end;
            put(part, range.reservation);
        }
        put(at..span.end, 0);
    }

    /// Frees the used parts of a span. Ranges that cross its bounds are cut.
    pub(crate) fn free(&mut self, span: &Span<u64>) {
        self.split_at(span.start);
        self.split_at(span.end);
        let starts: Vec<u64> = self.ranges.range(span.clone()).map(|pair| *pair.0).collect();
        for start in starts {
            self.remove(start);
        }
    }

    /// Restores the ranges of a span, as `parts` returned them.
    pub(crate) fn restore(&mut self, span: &Span<u64>, before: Vec<(Span<u64>, AddressRange)>) {
        self.free(span);
        for (part, range) in before {
            self.insert(part.start, AddressRange { end: part.end, ..range });
        }
    }

    /// Ends the mapping of a view: ranges of a reservation become reserved again, others are freed.
    pub(crate) fn unmap(&mut self, span: &Span<u64>) {
        self.split_at(span.start);
        self.split_at(span.end);
        let parts = self.parts(span);
        for (part, range) in parts {
            if range.reservation == 0 {
                self.remove(part.start);
            } else {
                let it = self.ranges.get_mut(&part.start);
                let it = invariant(it, "a part begins at the start of a range");
                let backing = std::mem::replace(&mut it.backing, Backing::Reserved);
                self.index_view(part.start, backing, false);
            }
        }
    }

    /// Splits the range that contains an address.
    fn split_at(&mut self, address: u64) {
        // No range begins below the address.
        let Some((start, range)) = self.ranges.range(..address).next_back() else { return };
        let (start, range) = (*start, *range);
        if range.end <= address {
            return;
        }
        let backing = range.backing.advanced(address - start);
        invariant(self.ranges.get_mut(&start), "the range was just found").end = address;
        self.index_view(address, backing, true);
        self.ranges.insert(address, AddressRange { backing, ..range });
    }

    /// Checks the invariants.
    pub(crate) fn validate(&self) -> Result<(), String> {
        let mut last = LOWEST_ADDRESS;
        for (start, range) in &self.ranges {
            let whole = start.is_multiple_of(PAGE) && range.end.is_multiple_of(PAGE);
            if !whole || *start < last || range.end <= *start || range.end > self.end {
                return Err(format!(
                    "range {start:#x} to {:#x} is misaligned or out of bounds",
                    range.end
                ));
            }
            if range.backing == Backing::Reserved && range.reservation == 0 {
                return Err(format!("range {start:#x} is reserved but has no reservation"));
            }
            if last < *start && !self.gaps.has(&(last..*start)) {
                return Err(format!("the gap before {start:#x} is not recorded"));
            }
            if let Backing::Mapped { view, .. } = range.backing
                && !self.views.contains(&(view, *start))
            {
                return Err(format!("range {start:#x} is not listed at its view"));
            }
            last = range.end;
        }
        let mapped = self
            .ranges
            .values()
            .filter(|address_range| matches!(address_range.backing, Backing::Mapped { .. }));
        if mapped.count() != self.views.len() {
            return Err("a view is listed at a range that is not its own".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::id_list::ids;

    const ANYWHERE: AddressBounds = AddressBounds { minimum: 0, maximum: 0, alignment: PAGE };

    /// A mapping of the view with that number.
    fn mapped(number: usize, offset: u64) -> Backing {
        mapped_view(ids::<View, 8>()[number], offset)
    }

    fn mapped_view(view: Id<View>, offset: u64) -> Backing {
        Backing::Mapped { view, offset, access: Access::default() }
    }

    #[test]
    fn the_lowest_free_span_is_found_within_bounds() {
        let mut it = AddressRanges::new(32);
        assert_eq!(it.find(PAGE, ANYWHERE), Some(LOWEST_ADDRESS));
        it.set_backing(&(LOWEST_ADDRESS..LOWEST_ADDRESS + 4 * PAGE), mapped(1, 0));
        assert_eq!(it.find(PAGE, ANYWHERE), Some(LOWEST_ADDRESS + 4 * PAGE));
        let large = AddressBounds { alignment: 64 << 10, ..ANYWHERE };
        assert_eq!(it.find(PAGE, large), Some(2 * LOWEST_ADDRESS));
        let low = AddressBounds { maximum: LOWEST_ADDRESS + 5 * PAGE, ..ANYWHERE };
        assert_eq!(it.find(PAGE, low), Some(LOWEST_ADDRESS + 4 * PAGE));
        assert_eq!(it.find(2 * PAGE, low), None);
        let high = AddressBounds { minimum: (1 << 32) - PAGE, ..ANYWHERE };
        assert_eq!(it.find(PAGE, high), Some((1 << 32) - PAGE));
        assert_eq!(it.find(2 * PAGE, high), None);
        assert_eq!(it.find(u64::MAX, ANYWHERE), None);
        assert_eq!(it.find(0, ANYWHERE), None);
    }

    #[test]
    fn a_gap_between_ranges_is_found() {
        let mut it = AddressRanges::new(32);
        let at = |page: u64| LOWEST_ADDRESS + page * PAGE;
        it.set_backing(&(at(0)..at(2)), mapped(1, 0));
        it.set_backing(&(at(4)..at(6)), mapped(2, 0));
        assert_eq!(it.find(2 * PAGE, ANYWHERE), Some(at(2)));
        assert_eq!(it.find(3 * PAGE, ANYWHERE), Some(at(6)));
        let guard = AddressBounds { minimum: at(1), ..ANYWHERE };
        assert_eq!(it.find(PAGE, guard), Some(at(2)));
        it.validate().unwrap();
    }

    #[test]
    fn what_is_put_into_a_reservation_stays_in_it() {
        let mut it = AddressRanges::new(32);
        let span = LOWEST_ADDRESS..LOWEST_ADDRESS + 16 * PAGE;
        let number = it.reserve(span.clone(), Backing::Reserved);
        let middle = LOWEST_ADDRESS + 4 * PAGE..LOWEST_ADDRESS + 8 * PAGE;
        it.set_backing(&middle, mapped(3, 0x1000));
        assert_eq!(it.state_of(&span), RangeState::Used { reserved: true });
        let parts = it.parts(&(LOWEST_ADDRESS + 5 * PAGE..LOWEST_ADDRESS + 9 * PAGE));
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0].1.backing, mapped(3, 0x2000));
        assert!(parts.iter().all(|pair| pair.1.reservation == number));
        it.unmap(&middle);
        assert_eq!(it.parts(&span).len(), 3);
        assert!(it.parts(&span).iter().all(|pair| pair.1.backing == Backing::Reserved));
        it.validate().unwrap();
    }

    #[test]
    fn a_partial_free_splits() {
        let mut it = AddressRanges::new(32);
        let span = LOWEST_ADDRESS..LOWEST_ADDRESS + 8 * PAGE;
        it.set_backing(&span, mapped(1, 0));
        it.free(&(LOWEST_ADDRESS + 2 * PAGE..LOWEST_ADDRESS + 3 * PAGE));
        assert_eq!(it.state_of(&span), RangeState::Mixed);
        assert_eq!(
            it.state_of(&(LOWEST_ADDRESS + 2 * PAGE..LOWEST_ADDRESS + 3 * PAGE)),
            RangeState::Free
        );
        assert_eq!(
            it.at(LOWEST_ADDRESS + 3 * PAGE).map(|pair| pair.1.backing),
            Some(mapped(1, 3 * PAGE))
        );
        assert_eq!(it.at(LOWEST_ADDRESS + 2 * PAGE), None);
        it.unmap(&span);
        assert!(it.is_empty());
        it.validate().unwrap();
    }

    #[test]
    fn a_later_range_covers_an_earlier_one() {
        let mut it = AddressRanges::new(32);
        let at = |page: u64| LOWEST_ADDRESS + page * PAGE;
        it.set_backing(&(at(0)..at(4)), mapped(1, 0));
        it.set_backing(&(at(2)..at(6)), mapped(2, 0));
        assert_eq!(it.at(at(1)).map(|pair| pair.0), Some(at(0)..at(2)));
        assert_eq!(it.at(at(3)).map(|pair| pair.1.backing), Some(mapped(2, 0)));
        it.validate().unwrap();
    }

    #[test]
    fn what_is_no_span_is_mixed() {
        let it = AddressRanges::new(32);
        assert_eq!(it.state_of(&(0..PAGE)), RangeState::Mixed);
        let end = it.end();
        assert_eq!(it.state_of(&(end - PAGE..end + PAGE)), RangeState::Mixed);
        assert_eq!(it.state_of(&(LOWEST_ADDRESS..LOWEST_ADDRESS)), RangeState::Mixed);
    }

    #[test]
    fn any_order_of_puts_and_frees_keeps_the_invariants() {
        let mut it = AddressRanges::new(32);
        let mut seed = 1_u64;
        let mut draw = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        for view in ids::<View, 2000>() {
            let start = LOWEST_ADDRESS + draw(64) * PAGE;
            let span = start..start + (1 + draw(16)) * PAGE;
            match draw(4) {
                0 if it.state_of(&span) == RangeState::Free => {
                    it.reserve(span, Backing::Reserved);
                }
                1 => it.free(&span),
                2 => it.unmap(&span),
                _ => it.set_backing(&span, mapped_view(view, 0)),
            }
            it.validate().unwrap();
        }
    }
}
