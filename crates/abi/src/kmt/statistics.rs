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
pub struct D3DKMT_QUERYSTATISTICS_COUNTER {
    pub Count: u32,
    pub Bytes: u64,
}
layout! { D3DKMT_QUERYSTATISTICS_COUNTER: 16 { Count: 0, Bytes: 8 } }

// The name is spelled so in the SDK.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATSTICS_ALLOCATIONS {
    pub Created: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Destroyed: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Opened: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub Closed: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedSuccess: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedFail: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub MigratedAbandoned: D3DKMT_QUERYSTATISTICS_COUNTER,
}
layout! { D3DKMT_QUERYSTATSTICS_ALLOCATIONS: 112 {
    Created: 0, Destroyed: 16, Opened: 32, Closed: 48, MigratedSuccess: 64, MigratedFail: 80,
    MigratedAbandoned: 96,
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
    /// The counters of DMA buffers, paging and locks, which are zero here.
    pub Counters: [u64; 62],
    pub Allocations: D3DKMT_QUERYSTATSTICS_ALLOCATIONS,
    /// The counters of terminations, and flags, which are zero here.
    pub Rest: [u64; 16],
}
layout! { D3DKMT_QUERYSTATISTICS_ADAPTER_INFORMATION: 776 {
    NbSegments: 0, NodeCount: 4, VidPnSourceCount: 8, VSyncEnabled: 12, TdrDetectedCount: 16,
    ZeroLengthDmaBuffers: 24, RestartedPeriod: 32, Counters: 40, Allocations: 536, Rest: 648,
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

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY {
    pub AllocsCommitted: u32,
    pub AllocsResidentInP: [D3DKMT_QUERYSTATISTICS_COUNTER; 5],
    pub AllocsResidentInNonPreferred: D3DKMT_QUERYSTATISTICS_COUNTER,
    pub TotalBytesEvictedDueToPreparation: u64,
}
layout! { D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY: 112 {
    AllocsCommitted: 0, AllocsResidentInP: 8, AllocsResidentInNonPreferred: 88,
    TotalBytesEvictedDueToPreparation: 104,
} }

// As since 1.2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
    pub BytesCommitted: u64,
    pub MaximumWorkingSet: u64,
    pub MinimumWorkingSet: u64,
    pub NbReferencedAllocationEvictedInPeriod: u32,
    pub Padding: u32,
    pub VideoMemory: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY,
    /// `_Policy`, and reserved words.
    pub Rest: [u64; 9],
}
layout! { D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION: 216 {
    BytesCommitted: 0, MaximumWorkingSet: 8, MinimumWorkingSet: 16,
    NbReferencedAllocationEvictedInPeriod: 24, Padding: 28, VideoMemory: 32, Rest: 144,
} }

values! { D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE {
    D3DKMT_RenderCommandBuffer = 0,
    D3DKMT_DeferredCommandBuffer = 1,
    D3DKMT_SystemCommandBuffer = 2,
    D3DKMT_MmIoFlipCommandBuffer = 3,
    D3DKMT_WaitCommandBuffer = 4,
    D3DKMT_SignalCommandBuffer = 5,
    D3DKMT_DeviceCommandBuffer = 6,
    D3DKMT_SoftwareCommandBuffer = 7,
    D3DKMT_QueuePacketTypeMax = 8,
} }

values! { D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE {
    D3DKMT_ClientRenderBuffer = 0,
    D3DKMT_ClientPagingBuffer = 1,
    D3DKMT_SystemPagingBuffer = 2,
    D3DKMT_SystemPreemptionBuffer = 3,
    D3DKMT_DmaPacketTypeMax = 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION {
    pub PacketSubmited: u32,
    pub PacketCompleted: u32,
}
layout! { D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION: 8 {
    PacketSubmited: 0, PacketCompleted: 4,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION {
    pub PacketSubmited: u32,
    pub PacketCompleted: u32,
    pub PacketPreempted: u32,
    pub PacketFaulted: u32,
}
layout! { D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION: 16 {
    PacketSubmited: 0, PacketCompleted: 4, PacketPreempted: 8, PacketFaulted: 12,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION {
    pub QueuePacket: [D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION; 8],
    pub DmaPacket: [D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION; 4],
}
layout! { D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION: 128 { QueuePacket: 0, DmaPacket: 64 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION {
    pub PreemptionCounter: [u32; 16],
}
layout! { D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION: 64 { PreemptionCounter: 0 } }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
    pub RunningTime: i64,
    pub ContextSwitch: u32,
    pub PreemptionStatistics: D3DKMT_QUERYSTATISTICS_PREEMPTION_INFORMATION,
    pub PacketStatistics: D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION,
    pub Reserved: [u64; 8],
}
layout! { D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION: 272 {
    RunningTime: 0, ContextSwitch: 8, PreemptionStatistics: 12, PacketStatistics: 76, Reserved: 208,
} }

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
    pub GlobalInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    pub SystemInformation: D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION,
    /// `NodePerfData`, and reserved words.
    pub Rest: [u64; 9],
}
layout! { D3DKMT_QUERYSTATISTICS_NODE_INFORMATION: 616 {
    GlobalInformation: 0, SystemInformation: 272, Rest: 544,
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
    /// `SegmentInformation`: see [`Self::segment`]. A union with `NodeInformation`: see
    /// [`Self::node`]. A union with `ProcessNodeInformation`: see [`Self::process_node`]. A union
    /// with `ProcessSegmentInformation`: see [`Self::process_segment`]. A union with
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
            Allocations: D3DKMT_QUERYSTATSTICS_ALLOCATIONS {
                Created: self.counter(67),
                Destroyed: self.counter(69),
                ..D3DKMT_QUERYSTATSTICS_ALLOCATIONS::ZERO
            },
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
            Memory: D3DKMT_QUERYSTATISTICS_MEMORY {
                TotalBytesEvicted: words[3],
                AllocsCommitted: words[4] as u32,
                AllocsResident: (words[4] >> 32) as u32,
            },
            Aperture: words[5] as u32,
            ..D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION::ZERO
        }
    }

    /// The union's `NodeInformation`.
    pub const fn node(&self) -> D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
        D3DKMT_QUERYSTATISTICS_NODE_INFORMATION {
            GlobalInformation: self.node_at(0),
            SystemInformation: self.node_at(34),
            ..D3DKMT_QUERYSTATISTICS_NODE_INFORMATION::ZERO
        }
    }

    /// The union's `ProcessNodeInformation`.
    pub const fn process_node(&self) -> D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
        self.node_at(0)
    }

    /// The union's `ProcessSegmentInformation`.
    pub const fn process_segment(&self) -> D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION {
            BytesCommitted: self.Words[0],
            VideoMemory: D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY {
                AllocsCommitted: self.Words[4] as u32,
                ..D3DKMT_QUERYSTATISTICS_VIDEO_MEMORY::ZERO
            },
            ..D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION::ZERO
        }
    }

    /// A counter that begins at a word.
    const fn counter(&self, word: usize) -> D3DKMT_QUERYSTATISTICS_COUNTER {
        D3DKMT_QUERYSTATISTICS_COUNTER {
            Count: self.Words[word] as u32,
            Bytes: self.Words[word + 1],
        }
    }

    /// The packets of a node that begin at a word.
    const fn node_at(&self, word: usize) -> D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION {
        let mut node = D3DKMT_QUERYSTATISTICS_PROCESS_NODE_INFORMATION::ZERO;
        let mut packet = 0;
        while packet < node.PacketStatistics.QueuePacket.len() {
            let at = 2 * word + 19 + 2 * packet;
            node.PacketStatistics.QueuePacket[packet] =
                D3DKMT_QUERYSTATISTICS_QUEUE_PACKET_TYPE_INFORMATION {
                    PacketSubmited: self.half(at),
                    PacketCompleted: self.half(at + 1),
                };
            packet += 1;
        }
        packet = 0;
        while packet < node.PacketStatistics.DmaPacket.len() {
            let at = 2 * word + 35 + 4 * packet;
            node.PacketStatistics.DmaPacket[packet] =
                D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION {
                    PacketSubmited: self.half(at),
                    PacketCompleted: self.half(at + 1),
                    PacketPreempted: self.half(at + 2),
                    PacketFaulted: self.half(at + 3),
                };
            packet += 1;
        }
        node
    }

    /// A number of 32 bits.
    const fn half(&self, index: usize) -> u32 {
        (self.Words[index / 2] >> (index % 2 * 32)) as u32
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
