//! Calls of an unguarded session from bytes: the planted bug that the fuzzer must find.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::call_unguarded(bytes);
});
