/* Devices, and allocations in them. */
#include "compute.h"

PAGED NTSTATUS NTAPI ComputeCreateDevice(HANDLE context, DXGKARG_CREATEDEVICE *args)
{
    PDEVICE device = Allocate(sizeof(*device));

    if (device == NULL)
        return STATUS_NO_MEMORY;
    device->Adapter = context;
    device->DxgkDevice = args->hDevice;
    args->hDevice = device;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeDestroyDevice(HANDLE device)
{
    Free(device);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeCreateAllocation(HANDLE context, DXGKARG_CREATEALLOCATION *args)
{
    DXGK_ALLOCATIONINFO *info = args->pAllocationInfo;
    PALLOCATION allocation;

    UNREFERENCED_PARAMETER(context);
    if (args->NumAllocations != 1)
        return STATUS_INVALID_PARAMETER;
    allocation = Allocate(sizeof(*allocation));
    if (allocation == NULL)
        return STATUS_NO_MEMORY;
    allocation->Size = PAGE_SIZE;
    info->Size = allocation->Size;
    info->hAllocation = allocation;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeDestroyAllocation(HANDLE context,
                                              const DXGKARG_DESTROYALLOCATION *args)
{
    UNREFERENCED_PARAMETER(context);
    for (UINT at = 0; at < args->NumAllocations; at++)
        Free(args->pAllocationList[at]);
    return STATUS_SUCCESS;
}

static void CloseAllocations(PVOID *open, UINT count)
{
    for (UINT at = 0; at < count; at++)
        Free(open[at]);
}

PAGED NTSTATUS NTAPI ComputeOpenAllocation(HANDLE device, const DXGKARG_OPENALLOCATION *args)
{
    for (UINT at = 0; at < args->NumAllocations; at++) {
        DXGK_OPENALLOCATIONINFO *info = &args->pOpenAllocation[at];
        POPEN_ALLOCATION open = Allocate(sizeof(*open));

        if (open == NULL) {
            while (at > 0)
                Free(args->pOpenAllocation[--at].hDeviceSpecificAllocation);
            return STATUS_NO_MEMORY;
        }
        open->Device = device;
        open->DxgkAllocation = info->hAllocation;
        info->hDeviceSpecificAllocation = open;
    }
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI ComputeCloseAllocation(HANDLE device, const DXGKARG_CLOSEALLOCATION *args)
{
    UNREFERENCED_PARAMETER(device);
    CloseAllocations((PVOID *)args->pOpenHandleList, args->NumAllocations);
    return STATUS_SUCCESS;
}
