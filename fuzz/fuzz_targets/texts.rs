//! Bytes as traces and as steps.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_told(bytes);
});
