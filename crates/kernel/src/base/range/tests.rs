use super::*;

const PAGE: u64 = 4096;

/// A repeatable sequence of numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A reference model: a list of placed ranges, searched linearly.
struct LinearRanges {
    size: u64,
    granule: u64,
    placed: Vec<(u64, u64)>,
}

impl LinearRanges {
    /// The free ranges, in order.
    fn free(&self) -> Vec<(u64, u64)> {
        let mut placed = self.placed.clone();
        placed.sort_unstable();
        let mut at = 0;
        let mut free = Vec::new();
        for (start, size) in placed.into_iter().chain([(self.size, 0)]) {
            if start > at {
                free.push((at, start - at));
            }
            at = start + size;
        }
        free
    }

    fn fits(&self, size: u64, align: u64) -> bool {
        let size = size.next_multiple_of(self.granule);
        let fits =
            |(start, free): &(u64, u64)| start.next_multiple_of(align) + size <= start + free;
        self.free().iter().any(fits)
    }
}

/// Random steps in a small memory: it is full, empty and fragmented in turn.
fn live(seed: u64, granule: u64) {
    let mut random = Random(seed);
    let size = granule * (40 + random.below(400));
    let mut naive = LinearRanges { size, granule, placed: Vec::new() };
    let (mut ranges, mut spots) = (Ranges::new(size, granule), Vec::<PlacedRange>::new());
    for step in 0..3_000 {
        let filling = step / 300 % 2 == 0;
        if spots.is_empty() || random.below(10) < if filling { 7 } else { 3 } {
            let limit = if random.below(8) == 0 { size / 2 } else { granule * 12 };
            let (size, align) = (1 + random.below(limit), 1 << random.below(18));
            let range = ranges.allocate(size, align);
            assert_eq!(range.is_some(), naive.fits(size, align), "{size} at {align}");
            let Some(range) = range else { continue };
            assert_eq!(range.size(), size.next_multiple_of(granule));
            assert_eq!(range.start() % align, 0);
            naive.placed.push((range.start(), range.size()));
            spots.push(range);
        } else {
            let at = usize::try_from(random.below(spots.len() as u64)).unwrap();
            naive.placed.swap_remove(at);
            ranges.free(spots.swap_remove(at));
        }
        assert_eq!(ranges.validate(), Ok(()));
        let free: Vec<_> =
            ranges.pieces().filter(|range_piece| range_piece.placed.is_none()).collect();
        assert!(
            free.iter().map(|range_piece| (range_piece.start, range_piece.size)).eq(naive.free())
        );
        assert_eq!(ranges.free_bytes(), naive.free().iter().map(|pair| pair.1).sum());
        assert_eq!(ranges.largest(), naive.free().iter().map(|pair| pair.1).max().unwrap_or(0));
    }
    for range in spots {
        ranges.free(range);
    }
    assert_eq!((ranges.validate(), ranges.largest()), (Ok(()), size));
}

#[test]
fn it_places_what_a_list_that_is_looked_through_places() {
    for seed in 1..5 {
        live(seed << 40 | 0x7f4a_7c15, PAGE);
        live(seed << 40 | 0x4f6c_dd1d, 16 * PAGE);
    }
}

#[test]
fn an_aligned_range_wastes_nothing() {
    let mut ranges = Ranges::new(64 * PAGE, PAGE);
    let first = ranges.allocate(1, 1).unwrap();
    let aligned = ranges.allocate(16 * PAGE, 16 * PAGE).unwrap();
    assert_eq!((first.size(), aligned.start()), (PAGE, 16 * PAGE));
    let skipped = ranges.allocate(15 * PAGE, PAGE).unwrap();
    assert_eq!(skipped.start(), PAGE, "what was skipped is free");
    assert_eq!(ranges.free_bytes(), 32 * PAGE);
    let rest = ranges.allocate(32 * PAGE, 32 * PAGE).unwrap();
    assert_eq!((rest.start(), ranges.free_bytes(), ranges.largest()), (32 * PAGE, 0, 0));
}

#[test]
fn the_last_fit_is_found_though_its_class_is_not_sure() {
    let mut ranges = Ranges::new(1_000 * PAGE, PAGE);
    assert!(ranges.allocate(1_001 * PAGE, 1).is_none());
    let all = ranges.allocate(1_000 * PAGE, 1).unwrap();
    assert!(ranges.allocate(1, 1).is_none());
    ranges.free(all);
    assert!(ranges.allocate(999 * PAGE, 1).is_some());
}

#[test]
fn a_hostile_request_is_refused() {
    let mut ranges = Ranges::new(64 * PAGE, PAGE);
    for (size, align) in [(0, 1), (PAGE, 0), (PAGE, 3 * PAGE), (u64::MAX, 1), (1 << 44, PAGE)] {
        assert!(ranges.allocate(size, align).is_none(), "{size} at {align}");
    }
    // Address 0 satisfies every alignment.
    assert_eq!(ranges.allocate(PAGE, 1 << 43).unwrap().start(), 0);
    assert!(ranges.allocate(PAGE, 1 << 43).is_none());
    assert_eq!(ranges.validate(), Ok(()));
}

#[test]
fn a_memory_too_small_or_too_large_is_one_still() {
    let mut none = Ranges::new(PAGE - 1, PAGE);
    assert_eq!((none.allocate(1, 1), none.largest(), none.validate()), (None, 0, Ok(())));
    let mut vast = Ranges::new(u64::MAX, PAGE);
    assert_eq!(vast.free_bytes(), u64::from(u32::MAX) * PAGE);
    let half = vast.allocate(1 << 43, 1 << 43).unwrap();
    let other = vast.allocate((1 << 43) - PAGE, 1 << 43).unwrap();
    assert_eq!((half.start(), other.start(), vast.largest()), (0, 1 << 43, 0));
    vast.free(half);
    assert_eq!((vast.largest(), vast.validate()), (1 << 43, Ok(())));
}

#[test]
fn pieces_name_their_spots_in_order() {
    let mut ranges = Ranges::new(8 * PAGE, PAGE);
    let spots: Vec<_> = (0..3).map(|_| ranges.allocate(2 * PAGE, 1).unwrap()).collect();
    let [a, b, c] = <[PlacedRange; 3]>::try_from(spots).unwrap();
    let (first, last) = (a.number(), c.number());
    ranges.free(b);
    let pieces: Vec<_> = ranges
        .pieces()
        .map(|range_piece| (range_piece.start / PAGE, range_piece.size / PAGE, range_piece.placed))
        .collect();
    assert_eq!(pieces, [(0, 2, Some(first)), (2, 2, None), (4, 2, Some(last)), (6, 2, None)]);
    ranges.free(a);
    ranges.free(c);
    assert_eq!(ranges.pieces().count(), 1, "neighbours are one again");
}

#[test]
fn a_place_that_was_asked_for_is_given_if_it_is_free() {
    let mut ranges = Ranges::new(16 * PAGE, PAGE);
    let low = ranges.allocate_at(2 * PAGE, 3 * PAGE).unwrap();
    let high = ranges.allocate_at(15 * PAGE, PAGE).unwrap();
    assert_eq!((low.start(), high.start()), (2 * PAGE, 15 * PAGE));
    for (start, size) in [(PAGE, 2), (4 * PAGE, 1), (15 * PAGE, 1), (14 * PAGE, 2), (0, 0)] {
        assert!(ranges.allocate_at(start, size * PAGE).is_none(), "{start:#x}");
    }
    assert!(
        ranges.allocate_at(16 * PAGE, PAGE).is_none() && ranges.allocate_at(u64::MAX, 1).is_none()
    );
    assert_eq!((ranges.free_bytes(), ranges.largest()), (12 * PAGE, 10 * PAGE));
    ranges.free(low);
    let whole = ranges.allocate_at(0, 15 * PAGE).unwrap();
    assert_eq!(ranges.free_bytes(), 0);
    ranges.free(whole);
    ranges.free(high);
    assert_eq!(ranges.validate(), Ok(()));
    assert_eq!(ranges.largest(), 16 * PAGE);
}

#[test]
fn classes_rise_with_lengths() {
    let lengths = (1..70_000).chain(u32::MAX - 16..=u32::MAX);
    let mut last = 0;
    for length in lengths {
        let now = class(length);
        assert!(now >= last, "{length}");
        last = now;
        if let Some(sure) = rounded_class(length) {
            assert!(sure >= now && sure <= now + 1);
            assert_eq!(sure == now, class(length - 1) < now, "only the first of a class is sure");
        }
    }
    assert_eq!(last, LAST);
}
