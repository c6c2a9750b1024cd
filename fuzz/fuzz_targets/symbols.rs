//! Reads bytes as the symbols of a driver: a PDB, or the debug information and the unwind tables of a
//! shared object.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    harness::read_as_symbol_file(bytes);
});
