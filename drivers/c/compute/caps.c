/* The capabilities of this driver. */
#include "driver.h"
#include "miniport.h"

PAGED NTSTATUS DriverQueryCaps(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_DRIVERCAPS *caps = query->pOutputData;

    UNREFERENCED_PARAMETER(adapter);
    if (query->OutputDataSize < sizeof(*caps))
        return STATUS_BUFFER_TOO_SMALL;
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv2_6;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->MaxAllocationListSlotId = MAX_SLOT_ID;
    caps->SchedulingCaps.MultiEngineAware = TRUE;
    caps->SchedulingCaps.PreemptionAware = TRUE;
    caps->SchedulingCaps.CancelCommandAware = TRUE;
    caps->MemoryManagementCaps.PagingNode = PAGING_NODE;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = NODE_COUNT;
    caps->PreemptionCaps.GraphicsPreemptionGranularity =
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->PreemptionCaps.ComputePreemptionGranularity =
        D3DKMDT_COMPUTE_PREEMPTION_DMA_BUFFER_BOUNDARY;
    caps->SupportPerEngineTDR = TRUE;
#ifdef FLAW_CAPS_PREEMPTION
    caps->SchedulingCaps.MultiEngineAware = FALSE;
#endif
#ifdef FLAW_WRITES_BEHIND_CAPS
    ((volatile UCHAR *)query->pOutputData)[query->OutputDataSize] = 1;
#endif
    caps->MiscCaps.ComputeOnly = TRUE;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS DriverQuerySegments(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    if (query->Type != DXGKQAITYPE_QUERYSEGMENT4)
        return STATUS_NOT_SUPPORTED;
    return QuerySegment4(adapter, query);
}
