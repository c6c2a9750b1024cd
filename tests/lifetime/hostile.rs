//! A hostile client makes any call that a seed draws.

use harness::{call_from_bytes, repeats};

#[test]
fn thousands_of_drawn_calls_break_nothing() {
    let mut random = 1_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33).to_le_bytes()[0]
    };
    // Each client has its own kernel; a thousand clients are for the long mode.
    let callers = repeats(250, 1000);
    let mut good = 0;
    for _ in 0..callers {
        let bytes: Vec<u8> = (0..200).map(|_| draw()).collect();
        good += call_from_bytes(&bytes);
    }
    let good = u64::try_from(good).expect("a count");
    assert!(good > 10 * callers, "it gets further than the door: {good}");
}
