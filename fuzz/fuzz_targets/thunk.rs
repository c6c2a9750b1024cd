//! Calls of a guarded session from bytes, with any pointers and any sizes.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::call_from_bytes(bytes);
});
