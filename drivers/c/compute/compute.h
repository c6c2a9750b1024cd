/*
 * A compute-only WDDM 2.6 driver for a GPU that it simulates itself.
 */
#ifndef COMPUTE_H
#define COMPUTE_H

#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_6
#include <dispmprt.h>

#define COMPUTE_TAG 'pmoC'

/* Code that is discarded after DriverEntry, and code that can be paged out. */
#define INIT_CODE __attribute__((section("INIT")))
#define PAGED __attribute__((section("PAGE")))

typedef struct _ADAPTER {
    PDEVICE_OBJECT PhysicalDeviceObject;
    DXGK_START_INFO StartInfo;
    DXGKRNL_INTERFACE DxgkInterface;
} ADAPTER, *PADAPTER;

typedef struct _DEVICE {
    PADAPTER Adapter;
    HANDLE DxgkDevice;
} DEVICE, *PDEVICE;

typedef struct _ALLOCATION {
    SIZE_T Size;
} ALLOCATION, *PALLOCATION;

/* An allocation that a device opened. */
typedef struct _OPEN_ALLOCATION {
    PDEVICE Device;
    D3DKMT_HANDLE DxgkAllocation;
} OPEN_ALLOCATION, *POPEN_ALLOCATION;

/* adapter.c */
DXGKDDI_ADD_DEVICE ComputeAddDevice;
DXGKDDI_START_DEVICE ComputeStartDevice;
DXGKDDI_STOP_DEVICE ComputeStopDevice;
DXGKDDI_REMOVE_DEVICE ComputeRemoveDevice;
DXGKDDI_QUERYADAPTERINFO ComputeQueryAdapterInfo;

/* allocation.c */
DXGKDDI_CREATEDEVICE ComputeCreateDevice;
DXGKDDI_DESTROYDEVICE ComputeDestroyDevice;
DXGKDDI_CREATEALLOCATION ComputeCreateAllocation;
DXGKDDI_DESTROYALLOCATION ComputeDestroyAllocation;
DXGKDDI_OPENALLOCATIONINFO ComputeOpenAllocation;
DXGKDDI_CLOSEALLOCATION ComputeCloseAllocation;

/* Nonpaged, zeroed memory. */
FORCEINLINE PVOID Allocate(SIZE_T size)
{
    return ExAllocatePool2(POOL_FLAG_NON_PAGED, size, COMPUTE_TAG);
}

FORCEINLINE void Free(PVOID block)
{
    ExFreePoolWithTag(block, COMPUTE_TAG);
}

#endif
