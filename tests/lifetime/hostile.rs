//! A hostile caller does anything that a seed draws.

use harness::call_as_told;

#[test]
fn thousands_of_drawn_calls_break_nothing() {
    let mut random = 1_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33).to_le_bytes()[0]
    };
    let mut good = 0;
    for _ in 0..1_000 {
        let bytes: Vec<u8> = (0..200).map(|_| draw()).collect();
        good += call_as_told(&bytes);
    }
    assert!(good > 10_000, "it gets further than the door: {good}");
}
