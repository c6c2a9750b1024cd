//! Reads bytes as the file of a driver.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_driver_file(bytes);
});
