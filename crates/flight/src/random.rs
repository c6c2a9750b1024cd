//! Pseudo-random numbers from a seed, the same in every run.

/// The next number below `bound` (splitmix64). Returns zero if `bound` is zero.
pub fn next_random(state: &mut u64, bound: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) % bound.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_repeat_and_stay_below_their_bound() {
        let (mut one, mut same) = (7, 7);
        let numbers: Vec<u64> = (0..100).map(|_| next_random(&mut one, 10)).collect();
        assert!(numbers.iter().all(|value| *value < 10));
        assert!((0..10).all(|value| numbers.contains(&value)), "each comes: {numbers:?}");
        assert!(numbers.iter().all(|value| *value == next_random(&mut same, 10)));
        assert_eq!(next_random(&mut one, 0), 0);
    }
}
