//! `--frames`: writes the frames of a streaming minidriver as PNG files, large enough to see, and
//! all of them on one contact sheet.

use super::CommandError;
use super::check::write_whole;
use drivers::stream::pattern::WIDTH;
use std::fs;
use std::io;
use std::path::Path;
use windtunnel::{FlightResult, HostKind};

/// Writes frames to a directory and counts them.
pub(crate) struct FrameWriter<'a> {
    directory: Option<&'a Path>,
    written: usize,
    /// Frames that are not written, because their size is not a multiple of the line size.
    partial: usize,
    /// The frames of the contact sheet.
    sheet: Vec<Image>,
}

/// The contact sheet.
const SHEET: &str = "contact-sheet.png";
/// The most frames on the contact sheet.
const SHEET_FRAMES: usize = 400;
/// Frames in a line of the contact sheet.
const SHEET_COLUMNS: usize = 10;
/// Pixels around the frames of the contact sheet.
const SHEET_GAP: usize = 4;
/// The background of the contact sheet.
const SHEET_COLOUR: [u8; 3] = [0x40, 0x40, 0x40];
/// A written frame has at least this many pixels in a line; on the contact sheet, a quarter.
const MIN_WIDTH: usize = 256;

impl<'a> FrameWriter<'a> {
    pub(crate) fn new(directory: Option<&'a Path>) -> Self {
        Self { directory, written: 0, partial: 0, sheet: Vec::new() }
    }

    /// Writes the frames of a flight.
    pub(crate) fn write_flight(
        &mut self,
        flight_result: &FlightResult,
        on: HostKind,
    ) -> Result<(), CommandError> {
        let Some(directory) = self.directory else { return Ok(()) };
        for (number, frame) in flight_result.frames.iter().enumerate() {
            let name = match flight_result.seed {
                Some(seed) if on.seed() != Some(seed) => {
                    format!("{}.{seed}-{number:03}.png", flight_result.scenario)
                }
                _ => format!("{}-{number:03}.png", flight_result.scenario),
            };
            let line = WIDTH as usize * 4;
            if frame.bytes.is_empty() || frame.bytes.len() % line != 0 {
                self.partial += 1;
                continue;
            }
            let image = Image::of_frame(&frame.bytes);
            image.scaled_to(MIN_WIDTH).write(directory, &name)?;
            if self.sheet.len() < SHEET_FRAMES {
                self.sheet.push(image.scaled_to(MIN_WIDTH / 4));
            }
            self.written += 1;
        }
        Ok(())
    }

    /// Writes the contact sheet, if there are frames.
    pub(crate) fn write_sheet(&self) -> Result<(), CommandError> {
        match self.directory {
            Some(directory) if !self.sheet.is_empty() => {
                contact_sheet(&self.sheet).write(directory, SHEET)
            }
            _ => Ok(()),
        }
    }

    /// Prints how many frames were written, and where.
    pub(crate) fn print_summary(&self) {
        let Some(directory) = self.directory else { return };
        let partial = match self.partial {
            0 => String::new(),
            some => format!("; {some} more have incomplete lines"),
        };
        let sheet = match (self.sheet.len(), self.written) {
            (0, _) => String::new(),
            (all, written) if all == written => format!(", and together to {SHEET}"),
            (some, _) => format!(", and the first {some} together to {SHEET}"),
        };
        let directory = directory.display();
        println!("\n{} frames written to {directory}{sheet}{partial}", self.written);
    }
}

/// An image with three bytes for each pixel.
struct Image {
    width: usize,
    pixels: Vec<[u8; 3]>,
}

impl Image {
    /// A BGRX frame with complete lines.
    fn of_frame(bytes: &[u8]) -> Self {
        let pixels = bytes.chunks_exact(4).map(|bytes| [bytes[2], bytes[1], bytes[0]]).collect();
        Self { width: WIDTH as usize, pixels }
    }

    fn height(&self) -> usize {
        self.pixels.len() / self.width
    }

    /// The image enlarged by the smallest whole factor that gives it this width.
    fn scaled_to(&self, width: usize) -> Self {
        let factor = width.div_ceil(self.width).max(1);
        let mut pixels = Vec::with_capacity(self.pixels.len() * factor * factor);
        for line in self.pixels.chunks_exact(self.width) {
            let wide: Vec<[u8; 3]> =
                line.iter().flat_map(|pixel| std::iter::repeat_n(*pixel, factor)).collect();
            for _ in 0..factor {
                pixels.extend_from_slice(&wide);
            }
        }
        Self { width: self.width * factor, pixels }
    }

    /// Writes a PNG file; creates the directory if needed.
    fn write(&self, directory: &Path, name: &str) -> Result<(), CommandError> {
        write_whole(&directory.join(name), |path| fs::write(path, self.encode()?))
    }

    /// The bytes of a PNG file.
    fn encode(&self) -> io::Result<Vec<u8>> {
        let size = |pixels: usize| u32::try_from(pixels).map_err(io::Error::other);
        let (width, height) = (size(self.width)?, size(self.height())?);
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let mut writer = encoder.write_header().map_err(io::Error::other)?;
        writer.write_image_data(self.pixels.as_flattened()).map_err(io::Error::other)?;
        writer.finish().map_err(io::Error::other)?;
        Ok(bytes)
    }
}

/// The images in lines, in their order.
fn contact_sheet(images: &[Image]) -> Image {
    let columns = images.len().min(SHEET_COLUMNS);
    let lines = images.len().div_ceil(SHEET_COLUMNS);
    let cell_width = images.iter().map(|image| image.width).max().unwrap_or(0) + SHEET_GAP;
    let cell_height = images.iter().map(Image::height).max().unwrap_or(0) + SHEET_GAP;
    let width = columns * cell_width + SHEET_GAP;
    let height = lines * cell_height + SHEET_GAP;
    let mut pixels = vec![SHEET_COLOUR; width * height];
    for (number, image) in images.iter().enumerate() {
        let left = number % SHEET_COLUMNS * cell_width + SHEET_GAP;
        let top = number / SHEET_COLUMNS * cell_height + SHEET_GAP;
        for (line, row) in image.pixels.chunks_exact(image.width).enumerate() {
            let start = (top + line) * width + left;
            pixels[start..start + image.width].copy_from_slice(row);
        }
    }
    Image { width, pixels }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(width: usize, colours: &[u8]) -> Image {
        Image { width, pixels: colours.iter().map(|colour| [*colour; 3]).collect() }
    }

    #[test]
    fn a_small_frame_is_enlarged_by_a_whole_factor() {
        let small = image(2, &[1, 2, 3, 4]);
        let large = small.scaled_to(5);
        assert_eq!((large.width, large.height()), (6, 6));
        let colour = |x: usize, y: usize| large.pixels[y * large.width + x][0];
        assert_eq!((colour(2, 2), colour(3, 2), colour(2, 3), colour(5, 5)), (1, 2, 3, 4));
        assert_eq!(small.scaled_to(1).width, 2, "never made smaller");
    }

    #[test]
    fn a_contact_sheet_has_every_frame_in_its_place() {
        let images: Vec<Image> = (1..=11).map(|colour| image(1, &[colour, colour])).collect();
        let sheet = contact_sheet(&images);
        assert_eq!((sheet.width, sheet.height()), (10 * 5 + 4, 2 * 6 + 4));
        let colour = |x: usize, y: usize| sheet.pixels[y * sheet.width + x];
        assert_eq!(colour(0, 0), SHEET_COLOUR);
        assert_eq!((colour(4, 4), colour(9, 4), colour(4, 10)), ([1; 3], [2; 3], [11; 3]));
        assert_eq!(colour(9, 10), SHEET_COLOUR, "the second line has one frame");
    }
}
