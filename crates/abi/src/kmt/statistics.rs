//! Statistics of adapters and processes, and the clocks of nodes.
#![expect(non_camel_case_types, non_snake_case, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::{D3DKMT_HANDLE, HANDLE, LUID};

values! { D3DKMT_QUERYSTATISTICS_TYPE {
    D3DKMT_QUERYSTATISTICS_ADAPTER = 0,
    D3DKMT_QUERYSTATISTICS_PROCESS = 1,
    D3DKMT_QUERYSTATISTICS_PROCESS_ADAPTER = 2,
    D3DKMT_QUERYSTATISTICS_SEGMENT = 3,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT = 4,
    D3DKMT_QUERYSTATISTICS_NODE = 5,
    D3DKMT_QUERYSTATISTICS_PROCESS_NODE = 6,
    D3DKMT_QUERYSTATISTICS_VIDPNSOURCE = 7,
    D3DKMT_QUERYSTATISTICS_PROCESS_VIDPNSOURCE = 8,
    D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP = 9,
    D3DKMT_QUERYSTATISTICS_PHYSICAL_ADAPTER = 10,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
    pub NbSegments: u32,
    pub NodeCount: u32,
    pub VidPnSourceCount: u32,
    pub VSyncEnabled: u32,
    pub TdrDetectedCount: u32,
    pub ZeroLengthDmaBuffers: i64,
    pub RestartedPeriod: u64,
    /// The counters of work, paging and allocations, which are zero here.
    pub Counters: [u64; 92],
}
layout! { D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION: 776 {
    NbSegments: 0, NodeCount: 4, VidPnSourceCount: 8, VSyncEnabled: 12, TdrDetectedCount: 16,
    ZeroLengthDmaBuffers: 24, RestartedPeriod: 32, Counters: 40,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_MEMORY {
    pub TotalBytesEvicted: u64,
    pub AllocsCommitted: u32,
    pub AllocsResident: u32,
}
layout! { D3DKMT_QUERYSTATISTICS_MEMORY: 16 {
    TotalBytesEvicted: 0, AllocsCommitted: 8, AllocsResident: 12,
} }

// As since 1.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
    pub CommitLimit: u64,
    pub BytesCommitted: u64,
    pub BytesResident: u64,
    pub Memory: D3DKMT_QUERYSTATISTICS_MEMORY,
    pub Aperture: u32,
    pub TotalBytesEvictedByPriority: [u64; 5],
    pub SystemMemoryEndAddress: u64,
    /// `PowerFlags` and `SegmentProperties`.
    pub Flags: [u64; 2],
    pub Reserved: [u64; 5],
}
layout! { D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION: 152 {
    CommitLimit: 0, BytesCommitted: 8, BytesResident: 16, Memory: 24, Aperture: 40,
    TotalBytesEvictedByPriority: 48, SystemMemoryEndAddress: 88, Flags: 96, Reserved: 112,
} }

// Since 2.1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION {
    pub Budget: u64,
    pub Requested: u64,
    pub Usage: u64,
    pub Demoted: [u64; 5],
}
layout! { D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION: 64 {
    Budget: 0, Requested: 8, Usage: 16, Demoted: 24,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_RESULT {
    /// A union with `AdapterInformation`: see [`Self::adapter`]. A union with
    /// `SegmentInformation`: see [`Self::segment`]. A union with
    /// `ProcessSegmentGroupInformation`: see [`Self::segment_group`]. The other members have no
    /// names here.
    pub Words: [u64; 97],
}
layout! { D3DKMT_QUERYSTATISTICS_RESULT: 776 { Words: 0 } }

#[expect(clippy::cast_possible_truncation, reason = "the halves of a word are meant")]
impl D3DKMT_QUERYSTATISTICS_RESULT {
    /// The union's `AdapterInformation`.
    pub const fn adapter(&self) -> D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
        let words = &self.Words;
        D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION {
            NbSegments: words[0] as u32,
            NodeCount: (words[0] >> 32) as u32,
            VidPnSourceCount: words[1] as u32,
            VSyncEnabled: (words[1] >> 32) as u32,
            TdrDetectedCount: words[2] as u32,
            ..D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION::ZERO
        }
    }

    /// The union's `SegmentInformation`.
    pub const fn segment(&self) -> D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
        let words = &self.Words;
        D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION {
            CommitLimit: words[0],
            BytesCommitted: words[1],
            BytesResident: words[2],
            Aperture: words[5] as u32,
            ..D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION::ZERO
        }
    }

    /// The union's `ProcessSegmentGroupInformation`.
    pub const fn segment_group(&self) -> D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION {
        let words = &self.Words;
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION {
            Budget: words[0],
            Requested: words[1],
            Usage: words[2],
            ..D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_GROUP_INFORMATION::ZERO
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT {
    pub SegmentId: u32,
}
layout! { D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT: 4 { SegmentId: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_QUERY_NODE {
    pub NodeId: u32,
}
layout! { D3DKMT_QUERYSTATISTICS_QUERY_NODE: 4 { NodeId: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS {
    pub Type: D3DKMT_QUERYSTATISTICS_TYPE,
    pub AdapterLuid: LUID,
    pub hProcess: HANDLE,
    pub QueryResult: D3DKMT_QUERYSTATISTICS_RESULT,
    /// The segment, the segment group, the node, the display source or the physical adapter: a
    /// union of structures with one number each. A union with `QuerySegment`: see
    /// [`Self::segment`]. A union with `QueryNode`: see [`Self::node`].
    pub Index: u32,
}
layout! { D3DKMT_QUERYSTATISTICS: 808 {
    Type: 0, AdapterLuid: 4, hProcess: 16, QueryResult: 24, Index: 800,
} }

impl D3DKMT_QUERYSTATISTICS {
    /// The union's `QuerySegment`.
    pub const fn segment(&self) -> D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT {
        D3DKMT_QUERYSTATISTICS_QUERY_SEGMENT { SegmentId: self.Index }
    }

    /// The union's `QueryNode`.
    pub const fn node(&self) -> D3DKMT_QUERYSTATISTICS_QUERY_NODE {
        D3DKMT_QUERYSTATISTICS_QUERY_NODE { NodeId: self.Index }
    }
}

flags! { DXGK_GPUCLOCKDATA_FLAGS { ContextManagementProcessor: 0 } }

#[repr(C, packed(1))]
#[derive(Clone, Copy, Debug)]
pub struct DXGK_GPUCLOCKDATA {
    pub GpuFrequency: u64,
    pub GpuClockCounter: u64,
    pub CpuClockCounter: u64,
    pub Flags: DXGK_GPUCLOCKDATA_FLAGS,
}
layout! { DXGK_GPUCLOCKDATA: 28 {
    GpuFrequency: 0, GpuClockCounter: 8, CpuClockCounter: 16, Flags: 24,
} }

#[repr(C, packed(1))]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYCLOCKCALIBRATION {
    pub hAdapter: D3DKMT_HANDLE,
    pub NodeOrdinal: u32,
    pub PhysicalAdapterIndex: u32,
    pub ClockData: DXGK_GPUCLOCKDATA,
}
layout! { D3DKMT_QUERYCLOCKCALIBRATION: 40 {
    hAdapter: 0, NodeOrdinal: 4, PhysicalAdapterIndex: 8, ClockData: 12,
} }
