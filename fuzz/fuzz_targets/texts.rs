//! Parses bytes as a trace, as steps and as an allow file.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_trace_and_steps(bytes);
    harness::read_as_allow_file(bytes);
});
