//! Arbitrary bytes as the file of a driver: they are read or refused, without a panic.

use nt::image::DriverImage;

/// Reads bytes as an image or a shared object, as they are and as the body of a file with the magic
/// number of each. Returns whether they could be loaded.
pub fn read_as_driver_file(bytes: &[u8]) -> bool {
    for magic in [&b"MZ"[..], b"\x7fELF\x02\x01\x01"] {
        if let Some(rest) = bytes.get(magic.len()..) {
            read(&[magic, rest].concat());
        }
    }
    read(bytes)
}

fn read(file: &[u8]) -> bool {
    match DriverImage::parse(file) {
        Ok(image) => {
            assert!(image.import_names().iter().all(|name| name.len() <= file.len()));
            true
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            false
        }
    }
}
