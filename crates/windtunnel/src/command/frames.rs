//! `--frames`: writes the frames of a streaming minidriver as PNG files.

use super::CommandError;
use super::check::write_error;
use drivers::stream::pattern::WIDTH;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::Path;
use windtunnel::{FlightResult, HostKind};

/// Writes frames to a directory and counts them.
pub(crate) struct FrameWriter<'a> {
    directory: Option<&'a Path>,
    written: usize,
    /// Frames that are not written, because their size is not a multiple of the line size.
    partial: usize,
}

impl<'a> FrameWriter<'a> {
    pub(crate) fn new(directory: Option<&'a Path>) -> Self {
        Self { directory, written: 0, partial: 0 }
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
            let path = directory.join(name);
            let created = fs::create_dir_all(directory).and_then(|()| write(&path, &frame.bytes));
            created.map_err(|reason| write_error(&path, &reason))?;
            self.written += 1;
        }
        Ok(())
    }

    /// Prints how many frames were written, and where.
    pub(crate) fn print_summary(&self) {
        let Some(directory) = self.directory else { return };
        let partial = match self.partial {
            0 => String::new(),
            some => format!("; {some} more have incomplete lines"),
        };
        println!("\n{} frames written to {}{partial}", self.written, directory.display());
    }
}

/// A BGRX image with all complete lines of `bytes`.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let lines = bytes.len() / (WIDTH as usize * 4);
    let height = u32::try_from(lines).map_err(io::Error::other)?;
    let mut encoder = png::Encoder::new(BufWriter::new(File::create(path)?), WIDTH, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let pixels: Vec<u8> =
        bytes.chunks_exact(4).flat_map(|bytes| [bytes[2], bytes[1], bytes[0]]).collect();
    let mut writer = encoder.write_header().map_err(io::Error::other)?;
    writer.write_image_data(&pixels).map_err(io::Error::other)
}
