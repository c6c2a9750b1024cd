//! Random steps from bytes, with a driver that may fail once, compared with the model.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let case = harness::Case::decode(bytes);
    assert!(case.fly().is_ok(), "{}", case.shrink().text());
});
