//! The test pattern of the sources: a picture that can be computed from its number.

use stream::Format;

/// Pixels per line.
pub const WIDTH: u32 = 16;
/// Lines per picture.
pub const HEIGHT: u32 = 12;
/// Bytes per picture.
pub const BYTES: u32 = WIDTH * HEIGHT * 4;
/// The duration of a picture, in units of 100 ns.
pub const INTERVAL: u64 = 100_000;

/// Video (`KSDATAFORMAT_TYPE_VIDEO`).
pub const VIDEO: u128 = 0x7364_6976_0000_0010_8000_00aa_0038_9b71;
/// Four bytes per pixel (`MEDIASUBTYPE_RGB32`).
pub const RGB32: u128 = 0xe436_eb7e_524f_11ce_9f53_0020_af0b_a770;
/// The format block is the driver's own (`KSDATAFORMAT_SPECIFIER_NONE`).
pub const NOTHING: u128 = 0x0f64_17d6_c318_11d0_a43f_00a0_c922_3196;

/// The format of the pictures. The number of pictures follows it; zero means no end.
pub fn format(pictures: u32) -> Format {
    Format {
        major: VIDEO,
        sub_format: RGB32,
        specifier: NOTHING,
        sample_size: BYTES,
        block: pictures.to_le_bytes().to_vec(),
    }
}

/// The number of pictures that a format requests; zero means no end.
pub fn pictures(format: &Format) -> u32 {
    format.block.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// A pixel of a picture: blue, green, red and zero. The first pixel is the picture's number.
pub fn pixel(number: u64, x: u32, y: u32) -> [u8; 4] {
    let low = |value: u64| value.to_le_bytes()[0];
    if (x, y) == (0, 0) {
        return [low(number), low(number >> 8), low(number >> 16), 0];
    }
    let (x, y) = (u64::from(x), u64::from(y));
    [low(x * 16 + number * 4), low(y * 20), low((x ^ y) * 15 + number), 0]
}

/// A whole picture, line by line.
pub fn picture(number: u64) -> Vec<u8> {
    let addresses = (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (x, y)));
    addresses.flat_map(|(x, y)| pixel(number, x, y)).collect()
}

/// The number of a picture, of which at least the first pixel is present.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let [blue, green, red, _] = bytes.first_chunk::<4>()?;
    Some(u64::from(u32::from_le_bytes([*blue, *green, *red, 0])))
}

/// Returns what is wrong with the bytes of a picture, which may be shorter than a whole one.
pub fn wrong(bytes: &[u8]) -> Option<String> {
    let Some(number) = number(bytes) else { return Some("it has no pixel".to_owned()) };
    let right = picture(number);
    let at = bytes.iter().zip(&right).position(|(one, other)| one != other)?;
    Some(format!("byte {at} of picture {number} is {}, not {}", bytes[at], right[at]))
}
