//! Arbitrary bytes as the file of a driver: they are read or refused, without a panic.

use nt::image::{Binding, DriverImage, LoadedImage};

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

/// Loads bytes as an image without any import, if they can be read as the body of one: it is
/// mapped, relocated, bound and protected. Its code does not run.
pub fn load_as_image(bytes: &[u8]) {
    let Some(rest) = bytes.get(2..) else { return };
    let Ok(DriverImage::Image(image)) = DriverImage::parse(&[b"MZ", rest].concat()) else {
        return;
    };
    let loaded = LoadedImage::load(image, |_| Binding::Absent);
    if let Err(error) = loaded {
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }
}
