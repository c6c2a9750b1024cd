//! A surface in plain Rust: what every byte of it must be.

use runtime::{Rect, Surface};
use std::collections::VecDeque;

/// How much is remembered of what was done with a surface.
const MAX_NOTES: usize = 8;

/// A surface, as it must be.
pub struct Picture {
    /// How large it is.
    pub surface: Surface,
    /// Each byte, as far as somebody has written it.
    pub bytes: Vec<Option<u8>>,
    /// The lines that packets may still use.
    pub used: Vec<bool>,
    /// How often it is locked.
    pub locks: u32,
    /// What was done with it last: for who wants to know why it is wrong.
    last: VecDeque<(&'static str, Rect)>,
}

impl Picture {
    /// What was done with it, and where.
    pub fn note(&mut self, what: &'static str, area: Rect) {
        if self.last.len() == MAX_NOTES {
            self.last.pop_front();
        }
        self.last.push_back((what, area));
    }

    /// One that holds this everywhere, or anything.
    pub fn new(surface: Surface, first: Option<u8>) -> Self {
        let lines = surface.height as usize;
        let (bytes, used) = (vec![first; surface.bytes()], vec![false; lines]);
        Self { surface, bytes, used, locks: 0, last: VecDeque::new() }
    }

    /// How many bytes a line has.
    pub fn line(&self) -> usize {
        self.surface.width as usize * 4
    }

    /// Where the lines of an area lie.
    pub fn lines(&self, area: Rect) -> Vec<std::ops::Range<usize>> {
        let line = self.line();
        let (left, right) = (area.left as usize * 4, area.right as usize * 4);
        (area.top..area.bottom)
            .map(|number| number as usize * line)
            .map(|index| index + left..index + right)
            .collect()
    }

    /// Packets use these lines.
    pub fn use_lines(&mut self, area: Rect) {
        self.used[area.top as usize..area.bottom as usize].fill(true);
    }

    /// Its first bytes are these.
    pub fn set(&mut self, bytes: &[u8]) {
        for (to, from) in self.bytes.iter_mut().zip(bytes) {
            *to = Some(*from);
        }
    }

    /// Nobody uses it but the CPU.
    pub fn idle(&mut self) {
        self.used.fill(false);
    }

    /// Compares what is known of it with what is there.
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
