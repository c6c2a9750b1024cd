//! A model of a surface in plain Rust: the expected value of every byte.

use runtime::{Rect, Surface};
use std::collections::VecDeque;

/// The length of a surface's history.
const MAX_NOTES: usize = 8;

/// The expected contents of a surface.
pub struct Picture {
    /// The width and height.
    pub surface: Surface,
    /// Each byte, if it has been written.
    pub bytes: Vec<Option<u8>>,
    /// The lines that packets may still use.
    pub used: Vec<bool>,
    /// The number of locks.
    pub locks: u32,
    /// The last operations, for failure messages.
    last: VecDeque<(&'static str, Rect)>,
}

impl Picture {
    /// An operation and its lines.
    pub fn note(&mut self, what: &'static str, area: Rect) {
        if self.last.len() == MAX_NOTES {
            self.last.pop_front();
        }
        self.last.push_back((what, area));
    }

    /// Creates a surface that holds this value everywhere, or unknown bytes.
    pub fn new(surface: Surface, first: Option<u8>) -> Self {
        let lines = surface.height as usize;
        let (bytes, used) = (vec![first; surface.bytes()], vec![false; lines]);
        Self { surface, bytes, used, locks: 0, last: VecDeque::new() }
    }

    /// Bytes per line.
    pub fn line(&self) -> usize {
        self.surface.width as usize * 4
    }

    /// The byte ranges of the lines of an area.
    pub fn lines(&self, area: Rect) -> Vec<std::ops::Range<usize>> {
        let line = self.line();
        let (left, right) = (area.left as usize * 4, area.right as usize * 4);
        (area.top..area.bottom)
            .map(|number| number as usize * line)
            .map(|index| index + left..index + right)
            .collect()
    }

    /// Marks lines as used by packets.
    pub fn use_lines(&mut self, area: Rect) {
        self.used[area.top as usize..area.bottom as usize].fill(true);
    }

    /// Sets the first bytes.
    pub fn set(&mut self, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = Some(*from);
        }
    }

    /// Marks that only the CPU uses the surface.
    pub fn idle(&mut self) {
        self.used.fill(false);
    }

    /// Compares the known bytes with the actual bytes.
    pub fn compare(&self, found: &[u8], what: &str) -> Result<(), String> {
        let wrong = |(it, byte): (&Option<u8>, &u8)| it.is_some_and(|octet| octet != *byte);
        match self.bytes.iter().zip(found).position(wrong) {
            None => Ok(()),
            Some(at) => Err(format!(
                "{what}: byte {at} of {:?} is {:#x} and must be {:x?}, after {:?}",
                self.surface, found[at], self.bytes[at], self.last
            )),
        }
    }
}
