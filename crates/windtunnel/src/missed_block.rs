//! The sentence for an access outside of a guarded block, or to a freed one.

use crate::crash_place::Places;
use crate::crash_report::irql_name;
use flight::RuleId;
use nt::image::{CrashKind, CrashRecord};
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

    /// The broken rule.
    pub(crate) fn rule(self) -> RuleId {
        match self {
            Self::Freed(_) => RuleId::WT_POOL_002,
            Self::Behind(_) | Self::Before(_) => RuleId::WT_POOL_004,
        }
    }

    /// What the driver did, with the block.
    pub(crate) fn sentence(
        self,
        record: &CrashRecord,
        places: &Places<'_>,
        stack: &[StackFrame],
    ) -> String {
        // Our code uses objects in the driver's memory, such as timers.
        let ours = stack.is_empty() && !record.is_in_import();
        let verb = if record.error & 2 != 0 { "wrote to" } else { "read" };
        let (place, irql) = (places.name(record, stack), irql_name(record.irql));
        let block = record.block;
        let whole = format!("a pool block{}", of_block(record, places));
        let count = |number: u64| if number == 1 { "byte" } else { "bytes" };
        match self {
            Self::Freed(offset) => {
                let freed = places
                    .caller(block.freed_by)
                    .map_or(String::new(), |place| format!(" in {place}"));
                if ours {
                    return format!(
                        "the system uses offset {offset} of {whole} after it was freed{freed}: an \
                         object in the block is still in use, such as a timer, a DPC or a work \
                         item"
                    );
                }
                format!(
                    "the driver {verb} offset {offset} of {whole} after it was freed{freed}, at \
                     {irql} in {place}"
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

/// The size, the tag and the origin of the block of a record.
fn of_block(record: &CrashRecord, places: &Places<'_>) -> String {
    let block = record.block;
    let letter = |byte: u8| if byte.is_ascii_graphic() { char::from(byte) } else { '.' };
    let tag: String = block.tag.to_le_bytes().into_iter().map(letter).collect();
    let allocated = places
        .caller(block.allocated_by)
        .map_or(String::new(), |place| format!(", allocated in {place}"));
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
            format!("{verb} offset {offset} of a paged pool block{}", of_block(record, places))
        }
        error if error & 0x10 != 0 => "executed pageable code".to_owned(),
        error if error & 2 != 0 => "wrote to a pageable section".to_owned(),
        _ => "read a pageable section".to_owned(),
    };
    format!("the driver {what} at {irql} in {place}: bug check 0xD1")
}
