//! Bytes as calls of the guarded door: `cargo +nightly fuzz run --sanitizer none thunk`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    stories::call_as_told(bytes);
});
