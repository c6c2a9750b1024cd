//! The byte oracle: what the bytes of allocations must be, compared after each paging operation.
//!
//! What an allocation holds is read when it begins to leave, and must be what arrives; from then
//! on nothing may change it until it has come back. What is resident may change when a client's
//! packet runs: it is known from when it came until the next packet goes to the hardware.

use crate::oracle_tables::Tables;
use flight::{Flushed, Log, Movement, Moving, RuleId, Run, Subject, Tabled, Who, Witness};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PLACE: &str = "DxgkDdiBuildPagingBuffer";

/// Knows what bytes must be.
pub struct Oracle {
    log: Arc<Log>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: BTreeMap<Subject, Known>,
    /// Moves that have begun and not ended.
    flying: BTreeMap<Subject, u32>,
    /// Where the GPU's addresses get something from those, and how many bytes.
    arriving: Vec<(Subject, u64, u64)>,
    /// Counts the packets of clients.
    packets: u64,
    compared: u64,
    tables: Tables,
}

/// What is known of an allocation.
struct Known {
    bytes: Vec<u8>,
    place: Place,
}

/// Where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// On their way: nothing can be compared.
    Moving,
    System(Vec<Run>),
    /// At a GPU's address, if no packet has gone to the hardware since.
    Gpu {
        address: u64,
        packets: u64,
    },
}

/// A byte that is not what it must be.
struct Wrong {
    offset: u64,
    expected: u8,
    found: u8,
}

impl Oracle {
    /// An oracle that says to that log what it finds.
    pub fn new(log: Arc<Log>) -> Arc<Self> {
        Arc::new(Self { log, state: Mutex::default() })
    }

    /// How many bytes it has compared.
    pub fn compared(&self) -> u64 {
        self.state().compared
    }

    /// How many entries of page tables, and how many addresses through them.
    pub fn entries_compared(&self) -> u64 {
        self.state().tables.compared
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, rule: RuleId, of: Subject, broken: Option<String>) {
        self.log.judge(rule, Who::Driver, of, PLACE, broken);
    }

    /// Compares where an operation should have brought its bytes. Answers whether they lie there
    /// in their order.
    fn arrived(&self, state: &mut State, it: &Moving<'_>, expected: &[u8], rule: RuleId) -> bool {
        let gpu = !matches!(it.movement, Movement::Leaves);
        let found = if gpu { at_gpu(it) } else { in_system(it.ram, it.runs, it.bytes) };
        let Some(found) = found else {
            let said = format!(
                "after {} of {}, the GPU does not reach all of {:#x} bytes at {:#x}",
                name(it.movement),
                it.of,
                it.bytes,
                it.address
            );
            self.judge(rule, it.of, Some(said));
            return true;
        };
        state.compared += it.bytes;
        let wrong = first_wrong(expected, &found);
        let rule = self.judge_order(it, rule, expected, &found, wrong.is_some());
        let Some(rule) = rule else { return false };
        let broken = wrong.map(|wrong| {
            let Wrong { offset, expected, found } = wrong;
            let place = if gpu {
                format!("the GPU's address {:#x}", it.address + offset)
            } else {
                format!("page {} of the system's memory", offset / 4096)
            };
            format!(
                "{} ({}) left byte {offset:#x} of {}, at {place}, as {found:#04x} where \
                 {expected:#04x} must be",
                name(it.movement),
                it.paging,
                it.of
            )
        });
        self.judge(rule, it.of, broken);
        true
    }

    /// Judges how a transfer that may go wrong in a known way did: through pages that do not lie
    /// one behind the other, or to where the CPU expects a line. Answers whose rule the rest is.
    fn judge_order(
        &self,
        it: &Moving<'_>,
        rule: RuleId,
        expected: &[u8],
        found: &[u8],
        wrong: bool,
    ) -> Option<RuleId> {
        let line = match it.movement {
            Movement::Comes => Some(found),
            Movement::Leaves => Some(expected),
            _ => None,
        };
        if let Some(part) = it.part.filter(|it| *it > 0) {
            // All before it is right: so it went elsewhere.
            let lost = first_wrong(expected, found).filter(|it| it.offset >= part);
            let broken = lost.map(|Wrong { offset, expected, found }| {
                format!(
                    "the virtual transfer of the part of {} from {part:#x} on left byte \
                     {offset:#x} as {found:#04x} where {expected:#04x} must be: the offset is \
                     counted in the addresses already",
                    it.of
                )
            });
            let elsewhere = broken.is_some();
            self.judge(RuleId::KMD_PAGING_027, it.of, broken);
            if elsewhere {
                return None;
            }
        }
        if let Some(line) = line.filter(|_| it.runs.len() > 1) {
            let straight = wrong && in_a_line(it).is_some_and(|it| it == line);
            let said = "took the pages to lie one behind the other, which they do not";
            let broken = straight.then(|| format!("{} of {} {said}", name(it.movement), it.of));
            self.judge(RuleId::KMD_PAGING_029, it.of, broken);
            if straight {
                return None;
            }
        }
        if matches!(it.movement, Movement::Leaves) {
            let shuffled = wrong && counts(expected) == counts(found);
            if !it.linear {
                // WINDOWS: how what the CPU does not see lies in the system's memory is its
                // driver's affair, as long as it comes back as it was.
                return (!shuffled).then_some(rule);
            }
            let said = "brought its bytes to the system's memory in another order, where the CPU \
                        expects them in a line";
            let broken = shuffled.then(|| format!("{} of {} {said}", name(it.movement), it.of));
            self.judge(RuleId::KMD_PAGING_017, it.of, broken);
            return (!shuffled).then_some(rule);
        }
        Some(rule)
    }

    /// Judges a client's word that the GPU has not written to what is thrown away.
    fn judge_unwritten(&self, it: &Moving<'_>) {
        let Some(kept) = in_system(it.ram, it.runs, it.bytes) else { return };
        let Some(now) = at_gpu(it) else { return };
        let broken = first_wrong(&kept, &now).map(|Wrong { offset, expected, found }| {
            format!(
                "{} is evicted with NotWrittenTo, but the GPU has written to it: byte \
                 {offset:#x} was {expected:#04x} when it came, and is {found:#04x}",
                it.of
            )
        });
        self.log.judge(RuleId::RESID_EVICT_004, Who::Client, it.of, "D3DKMTEvict.Flags", broken);
    }

    /// Compares everything else that is known and cannot have changed.
    fn compare_others(&self, state: &mut State, it: &Moving<'_>) {
        let packets = state.packets;
        let mut damaged = Vec::new();
        for (of, known) in state.known.iter().filter(|(of, _)| **of != it.of) {
            let found = match &known.place {
                Place::Moving => continue,
                Place::System(runs) => in_system(it.ram, runs, known.bytes.len() as u64),
                Place::Gpu { packets: then, .. } if *then != packets => continue,
                Place::Gpu { address, .. } => {
                    let mut bytes = vec![0; known.bytes.len()];
                    it.machine.peek(*address, &mut bytes).then_some(bytes)
                }
            };
            state.compared += known.bytes.len() as u64;
            if let Some(wrong) = found.and_then(|found| first_wrong(&known.bytes, &found)) {
                damaged.push((*of, known.place.clone(), wrong));
            }
        }
        for (of, place, wrong) in damaged {
            let place = match place {
                Place::Gpu { address, .. } => {
                    format!("the GPU's address {:#x}", address + wrong.offset)
                }
                _ => "the system's memory".to_owned(),
            };
            let said = format!(
                "{} of {} ({}) changed byte {:#x} of {of}, at {place}, from {:#04x} to {:#04x}: \
                 it has no business there",
                name(it.movement),
                it.of,
                it.paging,
                wrong.offset,
                wrong.expected,
                wrong.found
            );
            self.judge(RuleId::WT_BYTES_001, it.of, Some(said));
            state.known.remove(&of);
        }
    }
}

impl Witness for Oracle {
    fn begins(&self, it: &Moving<'_>) {
        let state = &mut *self.state();
        let flying = state.flying.entry(it.of).or_insert(0);
        *flying += 1;
        let before = *flying > 1;
        if arrives(it.movement) {
            state.arriving.push((it.of, it.address, it.bytes));
        }
        let known = state.known.contains_key(&it.of);
        let bytes = match it.movement {
            // What is known already stays so: its last move may not have ended.
            Movement::Comes if known => None,
            Movement::Leaves | Movement::Mapped if known && before => None,
            Movement::Comes | Movement::Mapped => in_system(it.ram, it.runs, it.bytes),
            Movement::Leaves => at_gpu(it),
            Movement::Shifted if before => None,
            Movement::Shifted => it.from.and_then(|from| at(it, from)),
            Movement::Filled => usize::try_from(it.bytes).ok().map(|it| vec![0; it]),
            Movement::Unmapped | Movement::Thrown => {
                if it.unwritten {
                    self.judge_unwritten(it);
                }
                state.known.remove(&it.of);
                None
            }
        };
        if let Some(bytes) = bytes {
            state.known.insert(it.of, Known { bytes, place: Place::Moving });
        } else if let Some(known) = state.known.get_mut(&it.of) {
            known.place = Place::Moving;
        }
    }

    fn ends(&self, it: &Moving<'_>) {
        let state = &mut *self.state();
        let mine = |that: &(Subject, u64, u64)| *that == (it.of, it.address, it.bytes);
        if let Some(place) = state.arriving.iter().position(mine).filter(|_| arrives(it.movement)) {
            state.arriving.remove(place);
        }
        let flying = state.flying.get_mut(&it.of);
        let left = flying.map_or(0, |it| {
            *it = it.saturating_sub(1);
            *it
        });
        if left > 0 {
            return; // It is on its way again: what arrived may not be there any more.
        }
        state.flying.remove(&it.of);
        match it.movement {
            Movement::Unmapped => {
                let dummy = first_of_each(it, it.dummy, &state.arriving);
                self.judge(RuleId::KMD_PAGING_013, it.of, dummy);
            }
            Movement::Thrown => (),
            Movement::Comes
            | Movement::Leaves
            | Movement::Filled
            | Movement::Mapped
            | Movement::Shifted => {
                let Some(known) = state.known.remove(&it.of) else { return };
                let rule = match it.movement {
                    Movement::Mapped => RuleId::KMD_PAGING_012,
                    _ => RuleId::WT_BYTES_001,
                };
                let straight = self.arrived(state, it, &known.bytes, rule);
                let place = match it.movement {
                    // Only its driver knows what lies where.
                    Movement::Leaves if !straight => Place::Moving,
                    Movement::Leaves => Place::System(it.runs.to_vec()),
                    _ => Place::Gpu { address: it.address, packets: state.packets },
                };
                state.known.insert(it.of, Known { bytes: known.bytes, place });
            }
        }
        self.compare_others(state, it);
    }

    fn table_begins(&self, it: &Tabled<'_>) {
        self.state().tables.begins(it);
    }

    fn table_ends(&self, it: &Tabled<'_>) {
        self.state().tables.ends(it, &self.log);
    }

    fn table_forgotten(&self, table: (u32, u64), _of: Subject) {
        self.state().tables.forget(table);
    }

    fn flushed(&self, it: &Flushed<'_>) {
        self.state().tables.flushed(it, &self.log);
    }

    fn works(&self) {
        self.state().packets += 1;
    }

    fn forget(&self, of: Subject) {
        let state = &mut *self.state();
        state.known.remove(&of);
        state.flying.remove(&of);
        state.arriving.retain(|it| it.0 != of);
    }
}

fn name(movement: Movement) -> &'static str {
    match movement {
        Movement::Comes => "the transfer in",
        Movement::Leaves => "the transfer out",
        Movement::Filled => "the fill",
        Movement::Mapped => "the mapping",
        Movement::Unmapped => "the unmapping",
        Movement::Thrown => "the discard",
        Movement::Shifted => "the move",
    }
}

/// What the GPU has at the operation's address.
fn at_gpu(it: &Moving<'_>) -> Option<Vec<u8>> {
    at(it, it.address)
}

/// What it has at another one.
fn at(it: &Moving<'_>, address: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(it.bytes).ok()?];
    it.machine.peek(address, &mut bytes).then_some(bytes)
}

/// What these pieces of the system's memory hold.
fn in_system(ram: &dyn flight::Ram, runs: &[Run], length: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    let mut rest = bytes.as_mut_slice();
    for run in runs {
        let size = usize::try_from(run.bytes).ok()?.min(rest.len());
        let (piece, more) = rest.split_at_mut(size);
        if !ram.read(run.start, piece) {
            return None;
        }
        rest = more;
    }
    rest.is_empty().then_some(bytes)
}

/// What the system's memory has behind the first page, as if all pages did.
fn in_a_line(it: &Moving<'_>) -> Option<Vec<u8>> {
    let start = it.runs.first()?.start;
    let mut bytes = vec![0; usize::try_from(it.bytes).ok()?];
    // What is not taken is not there, and reads as nothing.
    for (place, page) in (0..).zip(bytes.chunks_mut(4096)) {
        it.ram.read(start + place * 4096, page);
    }
    Some(bytes)
}

/// How often each byte is there.
fn counts(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    counts
}

fn first_wrong(expected: &[u8], found: &[u8]) -> Option<Wrong> {
    if expected == found {
        return None;
    }
    let place = expected.iter().zip(found).position(|(a, b)| a != b)?;
    let offset = u64::try_from(place).ok()?;
    Some(Wrong { offset, expected: expected[place], found: found[place] })
}

/// Whether the GPU's addresses have something afterwards.
fn arrives(movement: Movement) -> bool {
    match movement {
        Movement::Comes | Movement::Filled | Movement::Mapped | Movement::Shifted => true,
        Movement::Leaves | Movement::Unmapped | Movement::Thrown => false,
    }
}

/// Whether an unmapped range shows the dummy page, and the GPU still reaches it. Where the next one
/// is on its way already, either may be seen.
fn first_of_each(it: &Moving<'_>, dummy: u64, arriving: &[(Subject, u64, u64)]) -> Option<String> {
    let mut page = vec![0; 4096];
    let known = it.ram.read(dummy, &mut page);
    let mut found = vec![0; 4096];
    for offset in (0..it.bytes).step_by(4096) {
        let address = it.address + offset;
        let next = |(_, start, bytes): &(Subject, u64, u64)| {
            (*start..start.saturating_add(*bytes)).contains(&address)
        };
        if arriving.iter().any(next) {
            continue;
        }
        if !it.machine.peek(address, &mut found) {
            let said = "the GPU does not reach its dummy page";
            return Some(format!("after the unmapping of {}, {said} at {address:#x}", it.of));
        }
        if known && found != page {
            let said = "something else than the dummy page is shown";
            return Some(format!("after the unmapping of {}, {said} at {address:#x}", it.of));
        }
    }
    None
}
