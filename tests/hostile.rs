//! A hostile caller does anything: what a fuzzer found worth keeping, and what a seed draws.

use std::fs;
use std::path::Path;
use stories::call_as_told;

#[test]
fn the_corpus_breaks_nothing() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/thunk");
    let (mut count, mut good) = (0, 0);
    for entry in fs::read_dir(corpus).expect("the corpus") {
        good += call_as_told(&fs::read(entry.expect("a file").path()).expect("its bytes"));
        count += 1;
    }
    assert!(count >= 4, "{count} in the corpus");
    assert!(good >= 20, "honest calls succeed: {good}");
}

#[test]
fn thousands_of_drawn_calls_break_nothing() {
    let mut random = 1_u64;
    let mut draw = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33).to_le_bytes()[0]
    };
    let mut good = 0;
    for _ in 0..2_000 {
        let bytes: Vec<u8> = (0..200).map(|_| draw()).collect();
        good += call_as_told(&bytes);
    }
    assert!(good > 10_000, "it gets further than the door: {good}");
}
