//! Bytes as whole lives, with a driver that may fail once, next to the model.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let case = harness::Case::told(bytes);
    assert!(case.fly().is_ok(), "{}", case.shrink().text());
});
