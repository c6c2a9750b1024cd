/* Allocations: created for the adapter, opened for a device. */
#include "driver.h"
#include "miniport.h"

static PAGED void FillPreference(const DESCRIPTION *description, DXGK_SEGMENTPREFERENCE *preference)
{
    for (ULONG at = 0; at < ARRAYSIZE(description->Preferred); at++) {
        ULONG segment = description->Preferred[at] & ~PREFER_END;
        ULONG direction = (description->Preferred[at] & PREFER_END) != 0;

        /* Five bits for the segment, one for the direction. */
        preference->Value |= (segment | direction << 5) << (6 * at);
    }
}

#ifdef FLAW_KEEPS_PRIVATE_DATA
static const UCHAR *volatile KeptData;
#endif

static PAGED NTSTATUS CreateOne(DXGK_ALLOCATIONINFO *info)
{
    DESCRIPTION description;
    PALLOCATION allocation;
    NTSTATUS status =
        ReadDescription(info->pPrivateDriverData, info->PrivateDriverDataSize, &description);

    if (!NT_SUCCESS(status))
        return status;
    allocation = AllocateMemory(sizeof(*allocation));
    if (allocation == NULL)
        return STATUS_NO_MEMORY;
#ifdef FLAW_KEEPS_PRIVATE_DATA
    KeptData = info->pPrivateDriverData;
#endif
#ifdef FLAW_WRITES_BEFORE_PRIVATE_DATA
    ((volatile UCHAR *)info->pPrivateDriverData)[-1] = 1;
#endif
#ifdef FLAW_WRITES_BEHIND_PRIVATE_DATA
    ((volatile UCHAR *)info->pPrivateDriverData)[info->PrivateDriverDataSize] = 1;
#endif
    allocation->Size = description.Size;
    info->Alignment = (UINT)description.Alignment;
    info->Size = (SIZE_T)description.Size;
    info->PitchAlignedSize = 0;
    FillPreference(&description, &info->PreferredSegment);
    info->SupportedReadSegmentSet = description.Segments;
    info->SupportedWriteSegmentSet = description.Segments;
    info->EvictionSegmentSet = description.EvictionSegments;
    info->AllocationPriority = description.Priority;
    info->Flags.CpuVisible = (description.Flags & DESCRIPTION_CPU_VISIBLE) != 0;
    info->Flags.Overlay = (description.Flags & DESCRIPTION_PINNED) != 0;
    info->Flags.Cached = (description.Flags & DESCRIPTION_CACHED) != 0;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    info->FlagsWddm2.AccessedPhysically = TRUE;
    info->FlagsWddm2.ExplicitResidencyNotification = TRUE;
#else
    info->MaximumRenamingListLength = description.Flags >> 8;
#endif
    info->hAllocation = allocation;
    return STATUS_SUCCESS;
}

static PAGED void DestroyOne(PALLOCATION allocation)
{
#ifdef FLAW_LEAK_ALLOCATION
    UNREFERENCED_PARAMETER(allocation);
#else
    FreeMemory(allocation);
#endif
}

PAGED NTSTATUS NTAPI SgCreateAllocation(HANDLE context, DXGKARG_CREATEALLOCATION *args)
{
    PRESOURCE resource = NULL;
    NTSTATUS status = STATUS_SUCCESS;

    UNREFERENCED_PARAMETER(context);
#ifdef NO_PRIVATE_DATA
    /* One at a time, unless they are parts of a resource. */
    if (args->NumAllocations > 1 && !args->Flags.Resource)
        return STATUS_INVALID_PARAMETER;
#endif
    if (args->Flags.Resource && args->hResource == NULL) {
        resource = AllocateMemory(sizeof(*resource));
        if (resource == NULL)
            return STATUS_NO_MEMORY;
        resource->PrivateDataSize = args->PrivateDriverDataSize;
    }
    for (UINT at = 0; at < args->NumAllocations; at++) {
#ifdef FLAW_CREATES_FIRST_ONLY
        if (at > 0)
            break;
#endif
        status = CreateOne(&args->pAllocationInfo[at]);
        if (NT_SUCCESS(status))
            continue;
        while (at > 0)
            DestroyOne(args->pAllocationInfo[--at].hAllocation);
        if (resource != NULL)
            FreeMemory(resource);
        return status;
    }
#ifdef FLAW_HANDLE_TWICE
    for (UINT at = 1; at < args->NumAllocations; at++) {
        DestroyOne(args->pAllocationInfo[at].hAllocation);
        args->pAllocationInfo[at].hAllocation = args->pAllocationInfo[0].hAllocation;
    }
#endif
    if (resource != NULL)
        args->hResource = resource;
    return status;
}

PAGED NTSTATUS NTAPI SgDestroyAllocation(HANDLE context, const DXGKARG_DESTROYALLOCATION *args)
{
    UNREFERENCED_PARAMETER(context);
#ifdef FLAW_KEEPS_PRIVATE_DATA
    if (*(const volatile UCHAR *)KeptData == 0)
        return STATUS_INVALID_PARAMETER;
#endif
    for (UINT at = 0; at < args->NumAllocations; at++)
        DestroyOne(args->pAllocationList[at]);
    if (args->Flags.DestroyResource)
        FreeMemory(args->hResource);
    return STATUS_SUCCESS;
}

/* A row of bytes. */
PAGED NTSTATUS NTAPI SgDescribeAllocation(HANDLE context, DXGKARG_DESCRIBEALLOCATION *args)
{
    PALLOCATION allocation = args->hAllocation;

    UNREFERENCED_PARAMETER(context);
    args->Width = (UINT)allocation->Size;
    args->Height = 1;
    args->Format = D3DDDIFMT_A8;
    RtlZeroMemory(&args->MultisampleMethod, sizeof(args->MultisampleMethod));
    RtlZeroMemory(&args->RefreshRate, sizeof(args->RefreshRate));
    args->PrivateDriverFormatAttribute = 0;
    return STATUS_SUCCESS;
}

static const UCHAR StandardResource[8] = "WTSGres";

#ifdef NO_PRIVATE_DATA
#define STANDARD_MAGIC "WPLN"
#else
#define STANDARD_MAGIC "WTSG"
#endif

PAGED NTSTATUS NTAPI SgGetStandardAllocationDriverData(
    HANDLE context, DXGKARG_GETSTANDARDALLOCATIONDRIVERDATA *args)
{
    struct {
        UCHAR Magic[4];
        ULONG Version;
        ULONG64 Size;
    } description = {STANDARD_MAGIC, 1, 0};
    const D3DKMDT_GDISURFACEDATA *surface = args->pCreateGdiSurfaceData;

    UNREFERENCED_PARAMETER(context);
    if (args->StandardAllocationType != D3DKMDT_STANDARDALLOCATION_GDISURFACE ||
        surface->Format != D3DDDIFMT_A8)
        return STATUS_NOT_SUPPORTED;
    if (args->pAllocationPrivateDriverData == NULL && args->pResourcePrivateDriverData == NULL) {
        args->AllocationPrivateDriverDataSize = sizeof(description);
        args->ResourcePrivateDriverDataSize = sizeof(StandardResource);
        return STATUS_SUCCESS;
    }
    if (args->AllocationPrivateDriverDataSize < sizeof(description) ||
        args->ResourcePrivateDriverDataSize < sizeof(StandardResource))
        return STATUS_BUFFER_TOO_SMALL;
    description.Size = (ULONG64)surface->Width * surface->Height;
    RtlCopyMemory(args->pAllocationPrivateDriverData, &description, sizeof(description));
    RtlCopyMemory(args->pResourcePrivateDriverData, StandardResource, sizeof(StandardResource));
    return STATUS_SUCCESS;
}

/* The driver's allocation behind a handle of a process. */
static PAGED PALLOCATION GetAllocation(PADAPTER adapter, D3DKMT_HANDLE handle)
{
    PDXGKRNL_INTERFACE dxgk = &adapter->DxgkInterface;
    DXGKARGCB_GETHANDLEDATA get = {0};
    PALLOCATION allocation;

    get.hObject = handle;
    get.Type = DXGK_HANDLE_ALLOCATION;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    DXGKARGCB_RELEASEHANDLEDATA release = {0};

    allocation = dxgk->DxgkCbAcquireHandleData(&get, &release.ReleaseHandle);
    release.Type = DXGK_HANDLE_ALLOCATION;
#ifndef FLAW_HANDLE_DATA_NOT_RELEASED
    if (allocation != NULL)
        dxgk->DxgkCbReleaseHandleData(release);
#endif
#else
    allocation = dxgk->DxgkCbGetHandleData(&get);
#endif
    return allocation;
}

static NONPAGED void InsertOpen(PDEVICE device, POPEN_ALLOCATION open)
{
    KIRQL irql;

    KeAcquireSpinLock(&device->Lock, &irql);
    InsertTailList(&device->OpenAllocations, &open->Entry);
#ifndef FLAW_OPEN_KEEPS_LOCK
    KeReleaseSpinLock(&device->Lock, irql);
#endif
}

static NONPAGED void CloseOne(POPEN_ALLOCATION open)
{
    KIRQL irql;

    KeAcquireSpinLock(&open->Device->Lock, &irql);
    RemoveEntryList(&open->Entry);
    KeReleaseSpinLock(&open->Device->Lock, irql);
    FreeMemory(open);
}

static PAGED NTSTATUS OpenOne(PDEVICE device, DXGK_OPENALLOCATIONINFO *info)
{
    PALLOCATION allocation = GetAllocation(device->Adapter, info->hAllocation);
    POPEN_ALLOCATION open;

    if (allocation == NULL)
        return STATUS_INVALID_HANDLE;
    open = AllocateMemory(sizeof(*open));
    if (open == NULL)
        return STATUS_NO_MEMORY;
    open->Device = device;
    open->Handle = info->hAllocation;
    open->Allocation = allocation;
    InsertOpen(device, open);
    info->hDeviceSpecificAllocation = open;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgOpenAllocation(HANDLE device, const DXGKARG_OPENALLOCATION *args)
{
    for (UINT at = 0; at < args->NumAllocations; at++) {
#ifdef FLAW_OPENS_FIRST_ONLY
        if (at > 0)
            break;
#endif
        NTSTATUS status = OpenOne(device, &args->pOpenAllocation[at]);

        if (NT_SUCCESS(status))
            continue;
        while (at > 0)
            CloseOne(args->pOpenAllocation[--at].hDeviceSpecificAllocation);
        return status;
    }
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgCloseAllocation(HANDLE device, const DXGKARG_CLOSEALLOCATION *args)
{
    UNREFERENCED_PARAMETER(device);
#ifdef FLAW_READS_BEHIND_LIST
    (void)((volatile const HANDLE *)args->pOpenHandleList)[args->NumAllocations];
#endif
    for (UINT at = 0; at < args->NumAllocations; at++)
        CloseOne(args->pOpenHandleList[at]);
    return STATUS_SUCCESS;
}

NONPAGED POPEN_ALLOCATION FindOpenAllocation(PDEVICE device, D3DKMT_HANDLE handle)
{
    POPEN_ALLOCATION found = NULL;
    KIRQL irql;

    KeAcquireSpinLock(&device->Lock, &irql);
    for (PLIST_ENTRY at = device->OpenAllocations.Flink; at != &device->OpenAllocations;
         at = at->Flink) {
        POPEN_ALLOCATION open = CONTAINING_RECORD(at, OPEN_ALLOCATION, Entry);

        if (open->Handle == handle) {
            found = open;
            break;
        }
    }
    KeReleaseSpinLock(&device->Lock, irql);
    return found;
}
