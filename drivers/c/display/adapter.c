/* The adapter: Plug and Play, power, capabilities and the one child. */
#include "display.h"

PAGED NTSTATUS NTAPI DodAddDevice(PDEVICE_OBJECT physical_device, PVOID *context)
{
    PADAPTER adapter = ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*adapter), DISPLAY_TAG);

    if (adapter == NULL)
        return STATUS_NO_MEMORY;
    adapter->PhysicalDeviceObject = physical_device;
    adapter->Power = PowerDeviceD0;
    *context = adapter;
    return STATUS_SUCCESS;
}

/* The frame buffer of the firmware, if this adapter has the display. */
static PAGED NTSTATUS MapFrameBuffer(PADAPTER adapter)
{
    DXGK_DISPLAY_INFORMATION *display = &adapter->PostDisplay;

    if (display->Width == 0 || display->PhysicAddress.QuadPart == 0)
        return STATUS_SUCCESS;
    adapter->FrameBufferSize = (SIZE_T)display->Pitch * display->Height;
    adapter->FrameBuffer =
        MmMapIoSpace(display->PhysicAddress, adapter->FrameBufferSize, MmWriteCombined);
    return adapter->FrameBuffer == NULL ? STATUS_NO_MEMORY : STATUS_SUCCESS;
}

static PAGED void UnmapFrameBuffer(PADAPTER adapter)
{
    if (adapter->FrameBuffer != NULL)
        MmUnmapIoSpace(adapter->FrameBuffer, adapter->FrameBufferSize);
    adapter->FrameBuffer = NULL;
}

PAGED NTSTATUS NTAPI DodStartDevice(PVOID context, PDXGK_START_INFO start_info,
                                    PDXGKRNL_INTERFACE dxgk_interface, PULONG sources,
                                    PULONG children)
{
    PADAPTER adapter = context;
    NTSTATUS status;

    UNREFERENCED_PARAMETER(start_info);
    adapter->DxgkInterface = *dxgk_interface;
    RtlZeroMemory(&adapter->PostDisplay, sizeof(adapter->PostDisplay));
    status = dxgk_interface->DxgkCbAcquirePostDisplayOwnership(dxgk_interface->DeviceHandle,
                                                               &adapter->PostDisplay);
    if (!NT_SUCCESS(status))
        return status;
    status = MapFrameBuffer(adapter);
    if (!NT_SUCCESS(status))
        return status;
    *sources = SOURCE_COUNT;
    *children = CHILD_COUNT;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI DodStopDevice(PVOID context)
{
    UnmapFrameBuffer(context);
    return STATUS_SUCCESS;
}

/* The next driver gets the display as the firmware left it. */
PAGED NTSTATUS NTAPI DodStopDeviceAndReleasePostDisplayOwnership(PVOID context, UINT target,
                                                                 DXGK_DISPLAY_INFORMATION *display)
{
    PADAPTER adapter = context;

    if (adapter->PostDisplay.Width == 0 || target != 0)
        return STATUS_NOT_SUPPORTED;
    *display = adapter->PostDisplay;
    UnmapFrameBuffer(adapter);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI DodRemoveDevice(PVOID context)
{
    ExFreePoolWithTag(context, DISPLAY_TAG);
    return STATUS_SUCCESS;
}

/* The firmware's mode is never changed, so nothing is to be reset. */
void NTAPI DodResetDevice(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
}

PAGED NTSTATUS NTAPI DodSetPowerState(PVOID context, ULONG device, DEVICE_POWER_STATE state,
                                      POWER_ACTION action)
{
    PADAPTER adapter = context;

    UNREFERENCED_PARAMETER(action);
    if (device == DISPLAY_ADAPTER_HW_ID)
        adapter->Power = state;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI DodQueryAdapterInfo(HANDLE context, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_DRIVERCAPS *caps = query->pOutputData;

    UNREFERENCED_PARAMETER(context);
    if (query->Type != DXGKQAITYPE_DRIVERCAPS)
        return STATUS_NOT_SUPPORTED;
    if (query->OutputDataSize < sizeof(*caps))
        return STATUS_BUFFER_TOO_SMALL;
    RtlZeroMemory(caps, sizeof(*caps));
    caps->WDDMVersion = DXGKDDI_WDDMv2;
    caps->HighestAcceptableAddress.QuadPart = -1;
    caps->SupportNonVGA = TRUE;
    caps->SupportSmoothRotation = TRUE;
    return STATUS_SUCCESS;
}

/* One output that is always connected. */
PAGED NTSTATUS NTAPI DodQueryChildRelations(PVOID context, DXGK_CHILD_DESCRIPTOR *children,
                                            ULONG size)
{
    UNREFERENCED_PARAMETER(context);
    if (size < 2 * sizeof(*children)) /* The last descriptor stays zero. */
        return STATUS_BUFFER_TOO_SMALL;
    children[0].ChildDeviceType = TypeVideoOutput;
    children[0].ChildCapabilities.HpdAwareness = HpdAwarenessAlwaysConnected;
    children[0].ChildUid = 0;
    children[0].AcpiUid = 0;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI DodQueryChildStatus(PVOID context, DXGK_CHILD_STATUS *status,
                                         BOOLEAN non_destructive_only)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(non_destructive_only);
    if (status->ChildUid != 0)
        return STATUS_INVALID_PARAMETER;
    if (status->Type != StatusConnection)
        return STATUS_NOT_SUPPORTED;
#ifndef FLAW_OMITS_CHILD_STATUS
    status->HotPlug.Connected = TRUE;
#endif
    return STATUS_SUCCESS;
}

/* The firmware has no EDID for this driver. */
PAGED NTSTATUS NTAPI DodQueryDeviceDescriptor(PVOID context, ULONG child,
                                              PDXGK_DEVICE_DESCRIPTOR descriptor)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(child);
    UNREFERENCED_PARAMETER(descriptor);
    return STATUS_MONITOR_NO_DESCRIPTOR;
}

PAGED NTSTATUS NTAPI DodDispatchIoRequest(PVOID context, ULONG source,
                                          PVIDEO_REQUEST_PACKET packet)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(source);
    UNREFERENCED_PARAMETER(packet);
    return STATUS_NOT_SUPPORTED;
}
