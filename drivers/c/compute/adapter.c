/* The adapter: from AddDevice to RemoveDevice, and its capabilities. */
#include "compute.h"

PAGED NTSTATUS NTAPI ComputeAddDevice(PDEVICE_OBJECT physical_device, PVOID *context)
{
    PADAPTER adapter = Allocate(sizeof(*adapter));

    if (adapter == NULL)
        return STATUS_NO_MEMORY;
    adapter->PhysicalDeviceObject = physical_device;
    *context = adapter;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeStartDevice(PVOID context, PDXGK_START_INFO start_info,
                                        PDXGKRNL_INTERFACE dxgk_interface, UINT *sources,
                                        UINT *children)
{
    PADAPTER adapter = context;

    adapter->StartInfo = *start_info;
    adapter->DxgkInterface = *dxgk_interface;
    *sources = 0;
    *children = 0;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeStopDevice(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeRemoveDevice(PVOID context)
{
    Free(context);
    return STATUS_SUCCESS;
}

static NTSTATUS QueryCaps(const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_DRIVERCAPS *caps = query->pOutputData;

    if (query->OutputDataSize < sizeof(*caps))
        return STATUS_BUFFER_TOO_SMALL;
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv2_6;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->SchedulingCaps.MultiEngineAware = TRUE;
    caps->GpuEngineTopology.NbAsymetricProcessingNodes = 1;
    caps->MiscCaps.ComputeOnly = TRUE;
    return STATUS_SUCCESS;
}

static NTSTATUS QuerySegments(const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_QUERYSEGMENTOUT4 *segments = query->pOutputData;

    if (query->OutputDataSize < sizeof(*segments))
        return STATUS_BUFFER_TOO_SMALL;
    segments->NbSegment = 0;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeQueryAdapterInfo(HANDLE context, const DXGKARG_QUERYADAPTERINFO *query)
{
    UNREFERENCED_PARAMETER(context);
    switch (query->Type) {
    case DXGKQAITYPE_DRIVERCAPS:
        return QueryCaps(query);
    case DXGKQAITYPE_QUERYSEGMENT4:
        return QuerySegments(query);
    default:
        return STATUS_NOT_SUPPORTED;
    }
}
