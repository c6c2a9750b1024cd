//! Reads from an image that is laid out in memory, with every access checked against its size.

use super::parse::ImageError;

/// The longest text.
const MAX_TEXT: usize = 4096;

/// An image laid out by its sections, read by relative virtual address (RVA).
#[derive(Clone, Copy)]
pub(super) struct Layout<'a>(pub(super) &'a [u8]);

impl<'a> Layout<'a> {
    /// The bytes of a range. `what` names the structure in the error.
    pub(super) fn bytes(self, rva: u32, length: usize, what: &str) -> Result<&'a [u8], ImageError> {
        let start = rva as usize;
        let end = start.checked_add(length);
        end.and_then(|end| self.0.get(start..end)).ok_or_else(|| {
            ImageError(format!(
                "{what} at {rva:#x} has {length} bytes, but the image ends at {:#x}",
                self.0.len()
            ))
        })
    }

    pub(super) fn u16(self, rva: u32, what: &str) -> Result<u16, ImageError> {
        self.array(rva, what).map(u16::from_le_bytes)
    }

    pub(super) fn u32(self, rva: u32, what: &str) -> Result<u32, ImageError> {
        self.array(rva, what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(self, rva: u32, what: &str) -> Result<u64, ImageError> {
        self.array(rva, what).map(u64::from_le_bytes)
    }

    /// A text that ends with a zero byte. Control characters are refused: it is printed.
    pub(super) fn text(self, rva: u32, what: &str) -> Result<String, ImageError> {
        let bytes = self.0.get(rva as usize..).unwrap_or_default();
        let end = bytes.iter().take(MAX_TEXT).position(|byte| *byte == 0).ok_or_else(|| {
            ImageError(format!(
                "{what} at {rva:#x} does not end inside the image, or has more than {MAX_TEXT} bytes"
            ))
        })?;
        let text = String::from_utf8_lossy(&bytes[..end]);
        if text.chars().any(char::is_control) {
            return Err(ImageError(format!("{what} at {rva:#x} has control characters")));
        }
        Ok(text.into_owned())
    }

    fn array<const N: usize>(self, rva: u32, what: &str) -> Result<[u8; N], ImageError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(rva, N, what)?);
        Ok(array)
    }
}
