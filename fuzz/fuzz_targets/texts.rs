//! Parses bytes as a trace and as steps.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_trace_and_steps(bytes);
});
