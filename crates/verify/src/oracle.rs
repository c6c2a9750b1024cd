//! The byte oracle: compares the bytes of allocations with a model after each paging operation.
//!
//! The content of an allocation is read when a transfer out begins, and must arrive unchanged; from
//! then on nothing may change it until it is back. Resident content may change when a client's
//! packet runs: it is known from its arrival until the next packet is submitted to the hardware.
//!
//! Without a model of the hardware, the oracle looks at memory that the CPU sees, at the pages behind
//! apertures, and at what a transfer brings back to system memory: the bytes that arrived in memory
//! that the CPU does not see must leave it unchanged, and no page of the destination may be left out.

use crate::oracle_look::{GpuBytes, read_arrived, read_at_gpu, read_gpu, read_system};
use crate::oracle_packets::{DecodeCommands, judge_packet};
use crate::oracle_tables::Tables;
use flight::{
    Component, FinishedPacket, Kind, Log, MemoryObserver, PageTableWrite, PagingMove,
    PagingMovement, RuleId, Run, Subject, TlbFlush,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ARGUMENT: &str = "DxgkDdiBuildPagingBuffer";

/// Content that equals the pattern before a transfer in so many bytes is taken for bytes that were
/// not written.
const OVERWRITTEN_UNIT: usize = 64;

/// The model of allocations' bytes.
pub struct Oracle {
    log: Arc<Log>,
    /// The format of clients' commands, if it is known.
    decode: Option<DecodeCommands>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    allocations: BTreeMap<Subject, KnownContent>,
    /// Transfers that have begun and not ended.
    pending: BTreeMap<Subject, u32>,
    /// The GPU address ranges that those write.
    arriving: Vec<(Subject, u64, u64)>,
    /// Transfers out of memory that is not seen, with the pattern that they have to overwrite.
    overwritten: BTreeMap<Subject, u32>,
    /// Counts the packets of clients.
    packets: u64,
    compared: u64,
    tables: Tables,
}

/// What is known of an allocation.
struct KnownContent {
    bytes: Vec<u8>,
    location: ContentLocation,
}

/// Where its bytes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ContentLocation {
    /// In transfer: nothing can be compared.
    InTransfer,
    System(Vec<Run>),
    /// At a GPU address, if no packet was submitted to the hardware since. `pages` are those that
    /// an aperture maps there, if the oracle can look only at them.
    Gpu {
        address: u64,
        packets: u64,
        pages: Vec<Run>,
    },
}

/// A byte that differs from the model.
struct ByteMismatch {
    offset: u64,
    expected: u8,
    found: u8,
}

impl State {
    /// Forgets content that is about to leave memory that is not seen, if it can have changed since
    /// it arrived there: a packet ran, or the hardware saved a context.
    fn forget_unseen(&mut self, it: &PagingMove<'_>, before: bool) {
        let from = match it.movement {
            PagingMovement::PageOut => Some(it.address),
            PagingMovement::Relocate => it.from,
            _ => None,
        };
        let may_be_unseen = !before && !it.hardware.models_hardware();
        let Some(from) = from.filter(|_| may_be_unseen) else { return };
        if !matches!(read_gpu(it, from, it.bytes), GpuBytes::Unseen) {
            return;
        }
        let stays = it.of.kind != Kind::ContextAllocation
            && self.allocations.get(&it.of).is_some_and(|known| match known.location {
                ContentLocation::Gpu { address, packets, .. } => {
                    (address, packets) == (from, self.packets)
                }
                _ => false,
            });
        if !stays {
            self.allocations.remove(&it.of);
        }
    }
}

impl Oracle {
    /// An oracle that logs its findings there.
    pub fn new(log: Arc<Log>) -> Arc<Self> {
        Self::with_commands(log, None)
    }

    /// The same, for clients with commands in this format.
    pub fn with_commands(log: Arc<Log>, decode: Option<DecodeCommands>) -> Arc<Self> {
        Arc::new(Self { log, decode, state: Mutex::default() })
    }

    /// How many bytes it has compared.
    pub fn compared(&self) -> u64 {
        self.state().compared
    }

    /// How many page table entries it has compared, and how many addresses translated.
    pub fn entries_compared(&self) -> u64 {
        self.state().tables.compared
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn judge(&self, rule: RuleId, of: Subject, broken: Option<String>) {
        self.log.judge(rule, Component::Driver, of, ARGUMENT, broken);
    }

    /// Compares the destination of an operation with the content. Returns whether the bytes are there
    /// in order. Without a model of the hardware, wrong bytes are the content from then on: each
    /// mistake is reported once.
    fn check_arrived(
        &self,
        state: &mut State,
        it: &PagingMove<'_>,
        content: &mut Vec<u8>,
        rule: RuleId,
    ) -> bool {
        let expected = content.as_slice();
        let gpu = !matches!(it.movement, PagingMovement::PageOut);
        let found = match read_arrived(it) {
            GpuBytes::Seen(found) => found,
            GpuBytes::Unseen => return true,
            GpuBytes::Unreached => {
                self.judge(rule, it.of, Some(not_reached(it)));
                return true;
            }
        };
        state.compared += it.bytes;
        let wrong = first_mismatch(expected, &found);
        let rule = self.judge_order(it, rule, expected, &found, wrong.is_some());
        let Some(rule) = rule else { return false };
        let broken = wrong.map(|wrong| {
            let ByteMismatch { offset, expected, found } = wrong;
            let location = if gpu {
                format!("the GPU's address {:#x}", it.address + offset)
            } else {
                format!("page {} of the system's memory", offset / 4096)
            };
            let earlier = match read_at_gpu(it) {
                GpuBytes::Unseen if !gpu => {
                    "; the operation that brought the bytes to where the CPU does not see them may \
                     be the wrong one"
                }
                _ => "",
            };
            format!(
                "{} ({}) left byte {offset:#x} of {}, at {location}, as {found:#04x} where \
                 {expected:#04x} must be{earlier}",
                name(it.movement),
                it.paging,
                it.of
            )
        });
        self.judge(rule, it.of, broken);
        if !it.hardware.models_hardware() {
            *content = found;
        }
        true
    }

    /// Judges a transfer that can fail in a known way: through pages that are not contiguous, or to
    /// where the CPU expects linear bytes. Returns the rule for other errors.
    fn judge_order(
        &self,
        it: &PagingMove<'_>,
        rule: RuleId,
        expected: &[u8],
        found: &[u8],
        wrong: bool,
    ) -> Option<RuleId> {
        let line = match it.movement {
            PagingMovement::PageIn => Some(found),
            PagingMovement::PageOut => Some(expected),
            _ => None,
        };
        if let Some(part) = it.part.filter(|value| *value > 0) {
            // All bytes before it are right, so the transfer went elsewhere.
            let lost = first_mismatch(expected, found)
                .filter(|byte_mismatch| byte_mismatch.offset >= part);
            let broken = lost.map(|ByteMismatch { offset, expected, found }| {
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
            let straight = wrong && read_contiguous(it).is_some_and(|bytes| bytes == line);
            let message = "took the pages to lie one behind the other, which they do not";
            let broken = straight.then(|| format!("{} of {} {message}", name(it.movement), it.of));
            self.judge(RuleId::KMD_PAGING_029, it.of, broken);
            if straight {
                return None;
            }
        }
        if matches!(it.movement, PagingMovement::PageOut) {
            let shuffled = wrong && byte_counts(expected) == byte_counts(found);
            if !it.linear {
                // WINDOWS: the layout in system memory of content that the CPU does not see is up
                // to the driver, as long as it comes back unchanged.
                return (!shuffled).then_some(rule);
            }
            let message = "brought its bytes to the system's memory in another order, where the CPU \
                        expects them in a line";
            let broken = shuffled.then(|| format!("{} of {} {message}", name(it.movement), it.of));
            self.judge(RuleId::KMD_PAGING_017, it.of, broken);
            return (!shuffled).then_some(rule);
        }
        Some(rule)
    }

    /// Judges a client's promise that the GPU has not written to discarded memory.
    fn judge_unwritten(&self, it: &PagingMove<'_>) {
        let Some(kept) = read_system(it.ram, it.runs, it.bytes) else { return };
        let GpuBytes::Seen(now) = read_at_gpu(it) else { return };
        let broken = first_mismatch(&kept, &now).map(|ByteMismatch { offset, expected, found }| {
            format!(
                "{} is evicted with NotWrittenTo, but the GPU has written to it: byte \
                 {offset:#x} was {expected:#04x} when it came, and is {found:#04x}",
                it.of
            )
        });
        self.log.judge(
            RuleId::RESID_EVICT_004,
            Component::Client,
            it.of,
            "D3DKMTEvict.Flags",
            broken,
        );
    }

    /// Judges that a transfer out of memory that is not seen wrote all of its destination, which had
    /// this pattern before. Returns the content that it has to have: what is known of it, or else what
    /// is there. `None` if only its driver knows the layout, or if the transfer is wrong.
    fn check_overwritten(
        &self,
        state: &mut State,
        it: &PagingMove<'_>,
        pattern: u32,
        known: Option<KnownContent>,
    ) -> Option<KnownContent> {
        let found = read_system(it.ram, it.runs, it.bytes)?;
        state.compared += it.bytes;
        let unit = pattern.to_ne_bytes().repeat(OVERWRITTEN_UNIT / 4);
        let left_out = found.chunks(OVERWRITTEN_UNIT).position(|bytes| bytes == unit);
        let broken = left_out.map(|unit| {
            format!(
                "{} ({}) wrote nothing to bytes {:#x} to {:#x} of {} in the system's memory",
                name(it.movement),
                it.paging,
                unit * OVERWRITTEN_UNIT,
                (unit + 1) * OVERWRITTEN_UNIT - 1,
                it.of
            )
        });
        let is_whole = broken.is_none();
        self.judge(RuleId::WT_BYTES_001, it.of, broken);
        let arrived = || KnownContent { bytes: found, location: ContentLocation::InTransfer };
        known.or_else(|| it.linear.then(arrived)).filter(|_| is_whole)
    }

    /// Compares all other content that is known and cannot have changed.
    fn compare_other_allocations(&self, state: &mut State, it: &PagingMove<'_>) {
        let packets = state.packets;
        let mut damaged = Vec::new();
        for (of, known) in state.allocations.iter().filter(|(of, _)| **of != it.of) {
            let found = match &known.location {
                ContentLocation::InTransfer => continue,
                ContentLocation::System(runs) => {
                    read_system(it.ram, runs, known.bytes.len() as u64)
                }
                ContentLocation::Gpu { packets: then, .. } if *then != packets => continue,
                ContentLocation::Gpu { pages, .. } if !pages.is_empty() => {
                    read_system(it.ram, pages, known.bytes.len() as u64)
                }
                ContentLocation::Gpu { address, .. } => {
                    match read_gpu(it, *address, known.bytes.len() as u64) {
                        GpuBytes::Seen(bytes) => Some(bytes),
                        GpuBytes::Unreached => None,
                        GpuBytes::Unseen => continue,
                    }
                }
            };
            state.compared += known.bytes.len() as u64;
            if let Some(wrong) = found.and_then(|found| first_mismatch(&known.bytes, &found)) {
                damaged.push((*of, known.location.clone(), wrong));
            }
        }
        for (of, location, wrong) in damaged {
            let location = match location {
                ContentLocation::Gpu { address, .. } => {
                    format!("the GPU's address {:#x}", address + wrong.offset)
                }
                _ => "the system's memory".to_owned(),
            };
            let message = format!(
                "{} of {} ({}) changed byte {:#x} of {of}, at {location}, from {:#04x} to {:#04x}: \
                 the operation must not write there",
                name(it.movement),
                it.of,
                it.paging,
                wrong.offset,
                wrong.expected,
                wrong.found
            );
            self.judge(RuleId::WT_BYTES_001, it.of, Some(message));
            state.allocations.remove(&of);
        }
    }
}

impl MemoryObserver for Oracle {
    fn paging_started(&self, it: &PagingMove<'_>) {
        let state = &mut *self.state();
        let flying = state.pending.entry(it.of).or_insert(0);
        *flying += 1;
        let before = *flying > 1;
        if is_arrival(it.movement) {
            state.arriving.push((it.of, it.address, it.bytes));
        }
        state.forget_unseen(it, before);
        if let Some(pattern) = it.pattern {
            state.overwritten.insert(it.of, pattern);
        }
        let known = state.allocations.contains_key(&it.of);
        let bytes = match it.movement {
            // Known content stays known: its last transfer may not have ended.
            PagingMovement::PageIn if known => None,
            PagingMovement::PageOut | PagingMovement::Map if known && before => None,
            // Only the driver of hardware without a model knows the layout.
            PagingMovement::PageIn if !it.linear && !it.hardware.models_hardware() => None,
            PagingMovement::PageIn | PagingMovement::Map => read_system(it.ram, it.runs, it.bytes),
            PagingMovement::PageOut => read_at_gpu(it).seen(),
            PagingMovement::Relocate if before => None,
            PagingMovement::Relocate => {
                it.from.and_then(|from| read_gpu(it, from, it.bytes).seen())
            }
            PagingMovement::Fill => usize::try_from(it.bytes).ok().map(|index| vec![0; index]),
            PagingMovement::Unmap | PagingMovement::Thrown => {
                if it.not_written {
                    self.judge_unwritten(it);
                }
                state.allocations.remove(&it.of);
                None
            }
        };
        if let Some(bytes) = bytes {
            state
                .allocations
                .insert(it.of, KnownContent { bytes, location: ContentLocation::InTransfer });
        } else if let Some(known) = state.allocations.get_mut(&it.of) {
            known.location = ContentLocation::InTransfer;
        }
    }

    fn paging_finished(&self, it: &PagingMove<'_>) {
        let state = &mut *self.state();
        let mine = |that: &(Subject, u64, u64)| *that == (it.of, it.address, it.bytes);
        if let Some(location) =
            state.arriving.iter().position(mine).filter(|_| is_arrival(it.movement))
        {
            state.arriving.remove(location);
        }
        let flying = state.pending.get_mut(&it.of);
        let left = flying.map_or(0, |number| {
            *number = number.saturating_sub(1);
            *number
        });
        if left > 0 {
            return; // It is in transfer again: the arrived bytes may have been replaced.
        }
        state.pending.remove(&it.of);
        let pattern = state.overwritten.remove(&it.of);
        match it.movement {
            // What an aperture maps is not seen without a model of the hardware.
            PagingMovement::Unmap if !it.hardware.models_hardware() => (),
            PagingMovement::Unmap => {
                let dummy = first_bytes_unmapped(it, it.dummy, &state.arriving);
                self.judge(RuleId::KMD_PAGING_013, it.of, dummy);
            }
            PagingMovement::Thrown => (),
            PagingMovement::Map if it.is_clients && !it.hardware.models_hardware() => (),
            PagingMovement::Map if it.is_clients => {
                let broken = read_at_gpu(it).seen().is_none().then(|| not_reached(it));
                self.judge(RuleId::KMD_PAGING_012, it.of, broken);
            }
            PagingMovement::PageIn
            | PagingMovement::PageOut
            | PagingMovement::Fill
            | PagingMovement::Map
            | PagingMovement::Relocate => {
                let mut known = state.allocations.remove(&it.of);
                if let Some(pattern) = pattern {
                    known = self.check_overwritten(state, it, pattern, known);
                }
                let Some(mut known) = known else {
                    if pattern.is_some() {
                        self.compare_other_allocations(state, it);
                    }
                    return;
                };
                let rule = match it.movement {
                    PagingMovement::Map if it.hardware.models_hardware() => RuleId::KMD_PAGING_012,
                    _ => RuleId::WT_BYTES_001,
                };
                let straight = self.check_arrived(state, it, &mut known.bytes, rule);
                let location = match it.movement {
                    // Only its driver knows the layout.
                    PagingMovement::PageOut if !straight => ContentLocation::InTransfer,
                    PagingMovement::PageOut => ContentLocation::System(it.runs.to_vec()),
                    _ => {
                        let mapped = matches!(it.movement, PagingMovement::Map);
                        let unseen = mapped && !it.hardware.models_hardware();
                        let pages = if unseen { it.runs.to_vec() } else { Vec::new() };
                        let (address, packets) = (it.address, state.packets);
                        ContentLocation::Gpu { address, packets, pages }
                    }
                };
                state.allocations.insert(it.of, KnownContent { bytes: known.bytes, location });
            }
        }
        self.compare_other_allocations(state, it);
    }

    fn table_write_started(&self, it: &PageTableWrite<'_>) {
        self.state().tables.write_started(it);
    }

    fn table_write_finished(&self, it: &PageTableWrite<'_>) {
        self.state().tables.write_finished(it, &self.log);
    }

    fn table_forgotten(&self, table: (u32, u64), _of: Subject) {
        self.state().tables.forget(table);
    }

    fn tlb_flushed(&self, it: &TlbFlush<'_>) {
        self.state().tables.tlb_flushed(it, &self.log);
    }

    fn packet_finished(&self, it: &FinishedPacket<'_>) {
        let commands = self.decode.and_then(|decode| decode(it.commands));
        if let Some(commands) = commands {
            judge_packet(&self.log, it, &commands);
        }
    }

    fn packet_ran(&self) {
        self.state().packets += 1;
    }

    fn forget(&self, of: Subject) {
        let state = &mut *self.state();
        state.allocations.remove(&of);
        state.pending.remove(&of);
        state.arriving.retain(|entry| entry.0 != of);
        state.overwritten.remove(&of);
    }
}

fn name(movement: PagingMovement) -> &'static str {
    match movement {
        PagingMovement::PageIn => "the transfer in",
        PagingMovement::PageOut => "the transfer out",
        PagingMovement::Fill => "the fill",
        PagingMovement::Map => "the mapping",
        PagingMovement::Unmap => "the unmapping",
        PagingMovement::Thrown => "the discard",
        PagingMovement::Relocate => "the move",
    }
}

fn not_reached(it: &PagingMove<'_>) -> String {
    format!(
        "after {} of {}, the GPU does not reach all of {:#x} bytes at {:#x}",
        name(it.movement),
        it.of,
        it.bytes,
        it.address
    )
}

/// The bytes behind the first page of system memory, as if the pages were contiguous.
fn read_contiguous(it: &PagingMove<'_>) -> Option<Vec<u8>> {
    let start = it.runs.first()?.start;
    let mut bytes = vec![0; usize::try_from(it.bytes).ok()?];
    // Memory that is not committed reads as nothing.
    for (location, page) in (0..).zip(bytes.chunks_mut(4096)) {
        it.ram.read(start + location * 4096, page);
    }
    Some(bytes)
}

/// How often each byte value occurs.
fn byte_counts(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    for byte in bytes {
        counts[usize::from(*byte)] += 1;
    }
    counts
}

fn first_mismatch(expected: &[u8], found: &[u8]) -> Option<ByteMismatch> {
    if expected == found {
        return None;
    }
    let location = expected.iter().zip(found).position(|(a, b)| a != b)?;
    let offset = u64::try_from(location).ok()?;
    Some(ByteMismatch { offset, expected: expected[location], found: found[location] })
}

/// Whether an operation writes to GPU addresses.
fn is_arrival(movement: PagingMovement) -> bool {
    match movement {
        PagingMovement::PageIn
        | PagingMovement::Fill
        | PagingMovement::Map
        | PagingMovement::Relocate => true,
        PagingMovement::PageOut | PagingMovement::Unmap | PagingMovement::Thrown => false,
    }
}

/// Whether an unmapped range maps the dummy page, and the GPU still reaches it. If the next mapping
/// has started already, either may be seen.
fn first_bytes_unmapped(
    it: &PagingMove<'_>,
    dummy: u64,
    arriving: &[(Subject, u64, u64)],
) -> Option<String> {
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
        if !it.hardware.peek(address, &mut found) {
            let message = "the GPU does not reach its dummy page";
            return Some(format!("after the unmapping of {}, {message} at {address:#x}", it.of));
        }
        if known && found != page {
            let message = "something else than the dummy page is shown";
            return Some(format!("after the unmapping of {}, {message} at {address:#x}", it.of));
        }
    }
    None
}
