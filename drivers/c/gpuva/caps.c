/* The capabilities of this driver, and its page tables. */
#include "driver.h"
#include "miniport.h"

PAGED NTSTATUS DriverQueryCaps(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_DRIVERCAPS *caps = query->pOutputData;

    UNREFERENCED_PARAMETER(adapter);
    if (query->OutputDataSize < sizeof(*caps))
        return STATUS_BUFFER_TOO_SMALL;
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv2;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->SchedulingCaps.MultiEngineAware = TRUE;
    caps->SchedulingCaps.PreemptionAware = TRUE;
    caps->SchedulingCaps.CancelCommandAware = TRUE;
    caps->MemoryManagementCaps.VirtualAddressingSupported = TRUE;
    caps->MemoryManagementCaps.GpuMmuSupported = TRUE;
    caps->MemoryManagementCaps.PagingNode = PAGING_NODE;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = NODE_COUNT;
    caps->PreemptionCaps.GraphicsPreemptionGranularity =
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->SupportNonVGA = TRUE;
    caps->SupportPerEngineTDR = TRUE;
    return STATUS_SUCCESS;
}

static PAGED NTSTATUS QueryMmuCaps(const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_GPUMMUCAPS *caps = query->pOutputData;

    if (query->OutputDataSize < sizeof(*caps))
        return STATUS_BUFFER_TOO_SMALL;
    RtlZeroMemory(caps, sizeof(*caps));
    caps->ReadOnlyMemorySupported = TRUE;
    caps->NoExecuteMemorySupported = TRUE;
    caps->ZeroInPteSupported = TRUE;
#ifdef PAGES_BY_CPU
    caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_CPU_VIRTUAL;
#else
    caps->PageTableUpdateMode = DXGK_PAGETABLEUPDATE_GPU_PHYSICAL;
#endif
    caps->VirtualAddressBitCount = PAGE_SHIFT + TABLE_LEVELS * TABLE_BITS;
    caps->PageTableLevelCount = TABLE_LEVELS;
    return STATUS_SUCCESS;
}

static PAGED NTSTATUS QueryTableLevel(const DXGKARG_QUERYADAPTERINFO *query)
{
    const DXGK_QUERYPAGETABLELEVELDESCIN *in = query->pInputData;
    DXGK_PAGE_TABLE_LEVEL_DESC *level = query->pOutputData;

    if (query->OutputDataSize < sizeof(*level))
        return STATUS_BUFFER_TOO_SMALL;
    if (in->LevelIndex >= TABLE_LEVELS)
        return STATUS_INVALID_PARAMETER;
    level->PageTableIndexBitCount = TABLE_BITS;
#if defined(PAGES_BY_CPU)
    level->PageTableSegmentId = VISIBLE_SEGMENT;
#elif defined(TABLES_IN_IMPLICIT_SEGMENT)
    level->PageTableSegmentId = SEGMENT_COUNT + 1;
#else
    level->PageTableSegmentId = LOCAL_SEGMENT;
#endif
    level->PagingProcessPageTableSegmentId = VISIBLE_SEGMENT;
    level->PageTableSizeInBytes = PAGE_SIZE;
    level->PageTableAlignmentInBytes = PAGE_SIZE;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS DriverQuerySegments(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    switch (query->Type) {
    case DXGKQAITYPE_QUERYSEGMENT4:
        return QuerySegment4(adapter, query);
    case DXGKQAITYPE_GPUMMUCAPS:
        return QueryMmuCaps(query);
    case DXGKQAITYPE_PAGETABLELEVELDESC:
        return QueryTableLevel(query);
    default:
        return STATUS_NOT_SUPPORTED;
    }
}
