//! Reads bytes as the file of a driver, and loads them if they are an image.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_driver_file(bytes);
    harness::load_as_image(bytes);
});
