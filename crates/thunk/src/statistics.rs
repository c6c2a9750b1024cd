//! Statistics of adapters and processes, and the clocks of nodes.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::adapter::luid;
use crate::budget::segment_group;
use crate::claims::{read_mut, write};
use crate::process_handle::{PROCESS_QUERY_INFORMATION, named_process};
use crate::refusal::{invalid, invalid_with};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_QUERYCLOCKCALIBRATION, D3DKMT_QUERYSTATISTICS, D3DKMT_QUERYSTATISTICS_ADAPTER,
    D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION, D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION,
    D3DKMT_QUERYSTATISTICS_NODE, D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION,
    D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER, D3DKMT_QUERYSTATISTICS_PROCESS,
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER, D3DKMT_QUERYSTATISTICS_PROCESS_NODE,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE,
    D3DKMT_QUERYSTATISTICS_RESULT, D3DKMT_QUERYSTATISTICS_SEGMENT,
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, D3DKMT_SystemPagingBuffer, DXGK_GPUCLOCKDATA,
    DXGK_GPUCLOCKDATA_FLAGS,
};
use flight::{Passive, RuleId};
use kernel::{AdapterInfo, AllocationCount, AllocationCounts, Handle, NodeCounts};
use std::mem::offset_of;

const CLOCK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTQueryClockCalibration.hAdapter",
    )],
    others: &[],
};

/// The word at which the counters of created allocations begin; those of destroyed ones follow.
const CREATED: usize = offset_of!(D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION, Allocations) / 8;

/// Where the packets of a node are counted.
const NODE_PACKETS: usize =
    offset_of!(D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION, PacketStatistics);

/// The frequency of all clocks: the host counts in units of 100 ns.
const FREQUENCY: u64 = 10_000_000;

/// Returns statistics of an adapter, one of its parts, or a process that uses it.
///
/// WINDOWS: an adapter, segment, node or source that does not exist is an invalid parameter (our
/// reading). An allocation in a segment is committed to it and resident there (our reading). Counted
/// are allocations that were created and destroyed, allocations and evicted bytes of segments, and
/// packets and paging commands of nodes; every other counter is zero.
pub(crate) unsafe fn query_statistics(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_QUERYSTATISTICS,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let named = arguments.AdapterLuid;
    let adapters = session.kernel.adapter_infos();
    let info = adapters.iter().find(|info| luid(info.adapter) == named);
    let info = info.ok_or_else(|| invalid("AdapterLuid is not the LUID of an adapter"))?;
    let words = statistics(session, info, &arguments)?;
    arguments.QueryResult = D3DKMT_QUERYSTATISTICS_RESULT::ZERO;
    for (to, word) in arguments.QueryResult.Words.iter_mut().zip(words) {
        *to = word;
    }
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}

/// The first words of the result.
fn statistics(
    session: &Session,
    info: &AdapterInfo,
    arguments: &D3DKMT_QUERYSTATISTICS,
) -> Result<Vec<u64>, NTSTATUS> {
    let index = arguments.Index;
    let outside = |limit: u32| {
        invalid_with(|| format!("the query asks about number {index}, and the adapter has {limit}"))
    };
    let below = |limit: u32| if index < limit { Ok(()) } else { Err(outside(limit)) };
    let process = || named_process(session, arguments.hProcess, PROCESS_QUERY_INFORMATION);
    let segments = u32::try_from(info.segments.len()).unwrap_or(u32::MAX);
    let segment = || info.segments.get(index as usize).ok_or_else(|| outside(segments));
    let resets = u32::try_from(info.resets).unwrap_or(u32::MAX);
    Ok(match arguments.Type {
        D3DKMT_QUERYSTATISTICS_ADAPTER => {
            let mut words =
                vec![pair(segments, info.nodes), pair(info.sources(), 0), pair(resets, 0)];
            words.resize(CREATED, 0);
            let AllocationCounts { created, destroyed } =
                session.kernel.allocation_counts(info.adapter);
            for AllocationCount { count, bytes } in [created, destroyed] {
                words.extend([u64::from(count), bytes]);
            }
            words
        }
        D3DKMT_QUERYSTATISTICS_PROCESS => {
            process()?;
            vec![pair(info.nodes, info.sources())]
        }
        D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER => {
            process()?;
            vec![pair(segments, info.nodes), pair(info.sources(), 0)]
        }
        D3DKMT_QUERYSTATISTICS_SEGMENT => {
            let segment = segment()?;
            let aperture = u64::from(segment.aperture);
            let there = session.kernel.segment_allocations(info.adapter, index, None).count;
            let (bytes, evicted) = (segment.committed, segment.evicted);
            vec![segment.limit, bytes, bytes, evicted, pair(there, there), aperture]
        }
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT => {
            let of = process()?.id(session);
            segment()?;
            let count =
                of.map(|of| session.kernel.segment_allocations(info.adapter, index, Some(of)));
            let AllocationCount { count, bytes } = count.unwrap_or_default();
            vec![bytes, 0, 0, 0, u64::from(count)]
        }
        D3DKMT_QUERYSTATISTICS_NODE => {
            below(info.nodes)?;
            node_words(&session.kernel.node_counts(info.adapter, index))
        }
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE => {
            let of = process()?.id(session);
            below(info.nodes)?;
            let packets =
                of.map(|of| session.kernel.process_packet_counts(info.adapter, index, of));
            let packets = packets.unwrap_or_default();
            node_words(&NodeCounts { packets, ..NodeCounts::default() })
        }
        D3DKMT_QUERYSTATISTICS_VIDPNSOURCE => below(info.sources()).map(|()| Vec::new())?,
        D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE => {
            process()?;
            below(info.sources()).map(|()| Vec::new())?
        }
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP => {
            let of = process()?.id(session);
            let group = segment_group(index.cast_signed(), 0)?;
            let budget = session.kernel.budget_on(info.adapter, of, group);
            vec![budget.budget, budget.reserved, budget.usage]
        }
        D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER => below(1).map(|()| Vec::new())?,
        _ => return Err(invalid("Type is unknown")),
    })
}

/// The `D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION` of a node.
fn node_words(counts: &NodeCounts) -> Vec<u64> {
    const QUEUE: usize =
        NODE_PACKETS + offset_of!(D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION, QueuePacket);
    const DMA: usize =
        NODE_PACKETS + offset_of!(D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION, DmaPacket);
    const PAGING: usize = DMA
        + D3DKMT_SystemPagingBuffer as usize
            * size_of::<D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION>();
    let NodeCounts { packets, paging_submitted, paging_completed } = counts;
    let mut words = vec![0; size_of::<D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION>() / 8];
    // The counters have 32 bits.
    let mut set = |offset: usize, number: u64| {
        words[offset / 8] |= (number & 0xffff_ffff) << (offset % 8 * 8);
    };
    for (offset, submitted, completed) in [
        (QUEUE, packets.queued, packets.completed),
        (DMA, packets.submitted, packets.completed),
        (PAGING, *paging_submitted, *paging_completed),
    ] {
        set(offset, submitted);
        set(offset + 4, completed);
    }
    words
}

/// Two words of 32 bits, the first one low.
fn pair(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Returns the clocks of a node and of the CPU at one moment.
///
/// WINDOWS: the driver reads both (`DxgkDdiCalibrateGpuClock`, documented). Here both are the host's
/// clock (our decision).
pub(crate) unsafe fn query_clock_calibration(
    session: &Session,
    _at: &mut Passive,
    args: *mut D3DKMT_QUERYCLOCKCALIBRATION,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let mut arguments = unsafe { read_mut(args) }?;
    let info = session.kernel.adapter_info(session.process, Handle(arguments.hAdapter));
    let info = map_error(session, CLOCK_ERROR_RULES, info)?;
    if arguments.NodeOrdinal >= info.nodes || arguments.PhysicalAdapterIndex != 0 {
        return Err(invalid("NodeOrdinal or PhysicalAdapterIndex is not one of the adapter"));
    }
    let now = session.kernel.clock();
    arguments.ClockData = DXGK_GPUCLOCKDATA {
        GpuFrequency: FREQUENCY,
        GpuClockCounter: now,
        CpuClockCounter: now,
        Flags: DXGK_GPUCLOCKDATA_FLAGS { Value: 0 },
    };
    // SAFETY: The caller's contract.
    unsafe { write(args, arguments) }
}
