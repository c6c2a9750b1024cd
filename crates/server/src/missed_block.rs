//! The sentence for an access outside of a guarded block, or to a freed one.

use crate::crash_place::Places;
use crate::crash_report::irql_name;
use flight::{Event, EventKind, RuleId};
use nt::image::{CrashKind, CrashRecord};
use nt::{BlockKind, MissedBlock};
use verify::StackFrame;

/// An access that missed a guarded block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissedAccess {
    /// To a freed block, this many bytes from its start.
    Freed(u64),
    /// Behind the end: one for the byte next to the block.
    Behind(u64),
    /// Before the start: one for the byte next to the block.
    Before(u64),
}

impl MissedAccess {
    /// What a fault was. `None` if no guarded block is near.
    pub(crate) fn of(record: &CrashRecord) -> Option<Self> {
        let block = record.block;
        if record.kind() != CrashKind::Access || block.start == 0 {
            return None;
        }
        let end = block.start.saturating_add(block.bytes);
        Some(match record.address {
            address if address < block.start => Self::Before(block.start - address),
            address if address >= end => Self::Behind(address - end + 1),
            address if block.freed != 0 => Self::Freed(address - block.start),
            // The block was protected and is live: not a miss.
            _ => return None,
        })
    }

    /// The broken rule. A rule about the size of a buffer is more precise than that about access.
    pub(crate) fn rule(self, record: &CrashRecord) -> RuleId {
        let kind = record.block.kind();
        let writes = record.error & 2 != 0;
        let running = record.running();
        let call = running.as_ref().map_or("", |(_, name)| name);
        match (self, kind, call) {
            (_, BlockKind::EndedLock, _) => RuleId::WT_CRASH_001,
            (Self::Freed(_), BlockKind::Pool, _) => RuleId::WT_POOL_002,
            (_, BlockKind::Pool, _) => RuleId::WT_POOL_004,
            (Self::Behind(_), BlockKind::DmaBuffer | BlockKind::List, "DxgkDdiRender")
                if writes =>
            {
                RuleId::KMD_RENDER_003
            }
            (Self::Behind(_), BlockKind::DmaBuffer, "DxgkDdiBuildPagingBuffer") if writes => {
                RuleId::KMD_PAGING_002
            }
            (_, BlockKind::DmaBuffer, "DxgkDdiPatch") if writes => RuleId::KMD_SUBMIT_002,
            (Self::Behind(_), BlockKind::Output, "DxgkDdiQueryAdapterInfo") if writes => {
                RuleId::KMD_CAPS_008
            }
            (Self::Behind(_), BlockKind::RepeatedEntry, _) => RuleId::KMD_PAGING_021,
            (_, BlockKind::PrivateData, "DxgkDdiCreateAllocation") => RuleId::KMD_ALLOC_012,
            _ => RuleId::WT_BUFFER_001,
        }
    }

    /// What the driver did, with the block.
    pub(crate) fn sentence(
        self,
        record: &CrashRecord,
        places: &Places<'_>,
        stack: &[StackFrame],
        events: &[Event],
        driver: &str,
    ) -> String {
        // Our code uses objects in the driver's memory, such as timers.
        let ours = stack.is_empty() && !record.is_in_import();
        let verb = if record.error & 2 != 0 { "wrote to" } else { "read" };
        let (place, irql) = (places.name(record, stack), irql_name(record.irql));
        let block = &record.block;
        if let Some(lock) = block.ended_lock_text(record.address) {
            return format!("{driver} {verb} {lock} in {place}");
        }
        let whole = describe(block, places, events);
        let count = |number: u64| if number == 1 { "byte" } else { "bytes" };
        match self {
            Self::Freed(offset) => {
                let ended = ended(block, places);
                if ours {
                    return format!(
                        "the system uses offset {offset} of {whole} {ended}: an object in the \
                         block is still in use, such as a timer, a DPC or a work item"
                    );
                }
                format!(
                    "the driver {verb} offset {offset} of {whole} {ended}, at {irql} in {place}"
                )
            }
            Self::Behind(distance) => format!(
                "the driver {verb} the memory {distance} {} behind the end of {whole}, at {irql} \
                 in {place}",
                count(distance)
            ),
            Self::Before(distance) => format!(
                "the driver {verb} the memory {distance} {} before the start of {whole}, at {irql} \
                 in {place}",
                count(distance)
            ),
        }
    }
}

/// A block: what it is, its size, and the call that allocated it or that it was passed to.
fn describe(block: &MissedBlock, places: &Places<'_>, events: &[Event]) -> String {
    let bytes = block.bytes;
    let noun = match block.kind() {
        BlockKind::Pool => {
            // The system allocates the frames of an AVStream pin with this tag.
            let is_frame = block.tag.to_le_bytes() == *b"KsFr";
            let noun = if is_frame { "a frame" } else { "a pool block" };
            return format!("{noun}{}", pool_details(block, places));
        }
        BlockKind::Arguments => "an argument structure",
        BlockKind::PrivateData => "private driver data",
        BlockKind::Output => "an output buffer",
        BlockKind::List => "an array",
        BlockKind::DmaBuffer => "a DMA buffer",
        BlockKind::StreamObject => "an AVStream structure",
        BlockKind::EndedLock => "the memory of a lock",
        BlockKind::RepeatedEntry => "the single page table entry (Repeat is set)",
        BlockKind::NoBlock => "no block",
    };
    let of_call = |event: &&Event| {
        let is_call = matches!(event.kind, EventKind::DdiCall { .. } | EventKind::KsCall { .. });
        is_call && event.call == Some(block.call)
    };
    let passed = events.iter().find(of_call).map(|event| match &event.kind {
        EventKind::DdiCall { name, .. } | EventKind::KsCall { name, .. } => {
            format!(" (passed to {name})")
        }
        _ => String::new(),
    });
    format!("{noun} of {bytes} bytes{}", passed.unwrap_or_default())
}

/// Since when a block may not be used any more.
fn ended(block: &MissedBlock, places: &Places<'_>) -> String {
    match block.kind() {
        BlockKind::Pool => {
            let freed = places.callers(block.freed_by);
            let freed = freed.map_or(String::new(), |callers| format!(" in {callers}"));
            format!("after it was freed{freed}")
        }
        BlockKind::DmaBuffer => "after the hardware was done with it".to_owned(),
        BlockKind::StreamObject => "after the end of its object".to_owned(),
        _ => "after the call had returned".to_owned(),
    }
}

/// The size, the tag and the origin of a pool block.
fn pool_details(block: &MissedBlock, places: &Places<'_>) -> String {
    let letter = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
    let tag: String = block.tag.to_le_bytes().into_iter().map(letter).collect();
    let allocated = places
        .callers(block.allocated_by)
        .map_or(String::new(), |callers| format!(", allocated in {callers}"));
    format!(" of {} bytes (tag {tag}{allocated})", block.bytes)
}

/// The sentence for an access to pageable memory at a raised IRQL.
pub(crate) fn paged_sentence(
    record: &CrashRecord,
    places: &Places<'_>,
    stack: &[StackFrame],
) -> String {
    const POOL: u64 = 1;
    let (place, irql) = (places.name(record, stack), irql_name(record.irql));
    let what = match record.error {
        _ if record.paged == POOL => {
            let verb = if record.error & 2 != 0 { "wrote to" } else { "read" };
            let offset = record.address.saturating_sub(record.block.start);
            format!(
                "{verb} offset {offset} of a paged pool block{}",
                pool_details(&record.block, places)
            )
        }
        error if error & 0x10 != 0 => "executed pageable code".to_owned(),
        error if error & 2 != 0 => "wrote to a pageable section".to_owned(),
        _ => "read a pageable section".to_owned(),
    };
    format!("the driver {what} at {irql} in {place}: bug check 0xD1")
}
