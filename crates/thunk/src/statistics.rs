//! Statistics of adapters and processes, and the clocks of nodes.
#![expect(unsafe_code, reason = "the entry points take the caller's pointers")]

use crate::adapter::luid;
use crate::budget::segment_group;
use crate::claims::{read_mut, write};
use crate::process_handle::{PROCESS_QUERY_INFORMATION, named_process};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_QUERYCLOCKCALIBRATION, D3DKMT_QUERYSTATISTICS, D3DKMT_QUERYSTATISTICS_ADAPTER,
    D3DKMT_QUERYSTATISTICS_NODE, D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER,
    D3DKMT_QUERYSTATISTICS_PROCESS, D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE, D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP, D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE,
    D3DKMT_QUERYSTATISTICS_RESULT, D3DKMT_QUERYSTATISTICS_SEGMENT,
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE, DXGK_GPUCLOCKDATA, DXGK_GPUCLOCKDATA_FLAGS,
};
use abi::status::STATUS_INVALID_PARAMETER;
use flight::{Passive, RuleId};
use kernel::{AdapterInfo, Handle};

const CLOCK_ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(
        HandleArgument::Adapter,
        RuleId::DEV_LIFE_001,
        "D3DKMTQueryClockCalibration.hAdapter",
    )],
    others: &[],
};

/// The frequency of all clocks: the host counts in units of 100 ns.
const FREQUENCY: u64 = 10_000_000;

/// Returns statistics of an adapter, one of its parts, or a process that uses it.
///
/// WINDOWS: an adapter, segment, node or source that does not exist is an invalid parameter (our
/// reading). Counters of work, paging and presents are not kept: they are zero.
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
    let info = info.ok_or(STATUS_INVALID_PARAMETER)?;
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
    let below = |limit: u32| if index < limit { Ok(()) } else { Err(STATUS_INVALID_PARAMETER) };
    let segment = info.segments.get(index as usize).ok_or(STATUS_INVALID_PARAMETER);
    let process = || named_process(session, arguments.hProcess, PROCESS_QUERY_INFORMATION);
    let segments = u32::try_from(info.segments.len()).unwrap_or(u32::MAX);
    let resets = u32::try_from(info.resets).unwrap_or(u32::MAX);
    Ok(match arguments.Type {
        D3DKMT_QUERYSTATISTICS_ADAPTER => {
            vec![pair(segments, info.nodes), pair(info.sources(), 0), pair(resets, 0)]
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
            let segment = segment?;
            let aperture = u64::from(segment.aperture);
            vec![segment.limit, segment.committed, segment.committed, 0, 0, aperture]
        }
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT => {
            process()?;
            segment.map(|_| Vec::new())?
        }
        D3DKMT_QUERYSTATISTICS_NODE => below(info.nodes).map(|()| Vec::new())?,
        D3DKMT_QUERYSTATISTICS_PROCESS_NODE => {
            process()?;
            below(info.nodes).map(|()| Vec::new())?
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
        _ => return Err(STATUS_INVALID_PARAMETER),
    })
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
        return Err(STATUS_INVALID_PARAMETER);
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
