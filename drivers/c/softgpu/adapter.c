/* The adapter: Plug and Play, power, queries and escapes. */
#include "driver.h"
#include "endless_flaws.h"
#include "environment_flaws.h"
#include "miniport.h"

#define HARDWARE_INFO_LISTS 1
#define HARDWARE_INFO_ADDRESSES 2
#define HARDWARE_INFO_MEMORY 4
#define HARDWARE_INFO_RESIDENT 8

PAGED NTSTATUS NTAPI SgAddDevice(PDEVICE_OBJECT physical_device, PVOID *context)
{
    PADAPTER adapter = AllocateMemory(sizeof(*adapter));

    if (adapter == NULL)
        return STATUS_NO_MEMORY;
    adapter->PhysicalDeviceObject = physical_device;
#ifdef FLAW_LEAK_IN_ADD_DEVICE
    GetThings(adapter);
#endif
    *context = adapter;
    return STATUS_SUCCESS;
}

#ifdef FLAW_RELEASES_UNOWNED_MUTEX
static KMUTEX UnownedMutex;
#endif

#ifdef FLAW_NEEDS_DEVICE
/* The last thing that the driver asks the device for. */
static PAGED NTSTATUS FindDevice(PADAPTER adapter)
{
    PDXGKRNL_INTERFACE dxgk = &adapter->DxgkInterface;
    ULONG id = 0;

#if FLAW_NEEDS_DEVICE == 1
    PHYSICAL_ADDRESS registers = {.QuadPart = 0xF0000000};
    PVOID mapped = MmMapIoSpace(registers, 0x1000, MmNonCached);

    if (mapped != NULL)
        MmUnmapIoSpace(mapped, 0x1000);
#elif FLAW_NEEDS_DEVICE == 2
    DXGK_DEVICE_INFO info = {0};

    dxgk->DxgkCbGetDeviceInformation(dxgk->DeviceHandle, &info);
#elif FLAW_NEEDS_DEVICE == 3
    UCHAR value;

    __asm__ volatile("inb %w1, %b0" : "=a"(value) : "Nd"((USHORT)0x3C5));
    if (value != 0xFF)
        return STATUS_SUCCESS;
#elif FLAW_NEEDS_DEVICE == 4
    ULONG read = 0;

    dxgk->DxgkCbReadDeviceSpace(dxgk->DeviceHandle, DXGK_WHICHSPACE_CONFIG, &id, 8, sizeof(id),
                                &read);
#endif
    UNREFERENCED_PARAMETER(dxgk);
    return id == 0 ? STATUS_DEVICE_NOT_READY : STATUS_SUCCESS;
}
#endif

PAGED NTSTATUS NTAPI SgStartDevice(PVOID context, PDXGK_START_INFO start_info,
                                   PDXGKRNL_INTERFACE dxgk_interface, UINT *sources,
                                   UINT *children)
{
    PADAPTER adapter = context;

    FLAW_POINT(DDI);
    adapter->StartInfo = *start_info;
    adapter->DxgkInterface = *dxgk_interface;
    adapter->Removed = FALSE;
#ifdef FLAW_RELEASES_UNOWNED_MUTEX
    KeInitializeMutex(&UnownedMutex, 0);
    KeReleaseMutex(&UnownedMutex, FALSE);
#endif
#ifdef FLAW_ENDLESS
    BeginLoop(adapter);
#endif
#if defined(FLAW_WAITS) && FLAW_WAITS == 2
    static ULONG starts;

    if (++starts == 2)
        WaitForEver();
#endif
#ifdef FLAW_LOCKS
    UseLocks();
#endif
#ifdef FLAW_IRQL
    CallAtStart();
#endif
#ifdef FLAW_CALLS_IMPORT_IN_FRAME
    CallInLargeFrame(CallInLargeFrame(1));
#endif
#if defined(FLAW_LEAK) && !defined(FLAW_LEAK_IN_ADD_DEVICE)
    GetThings(adapter);
#endif
#ifdef FLAW_ASSERTION
    FailAssertion();
#endif
#ifdef FLAW_PAGED_BLOCK
    adapter->PagedBlock = ExAllocatePool2(POOL_FLAG_PAGED, 64, DRIVER_TAG);
    if (adapter->PagedBlock == NULL)
        return STATUS_NO_MEMORY;
    adapter->PagedBlock[0] = 1;
#endif
#ifdef FLAW_LEAK_MDL
    IoAllocateMdl(adapter, sizeof(*adapter), FALSE, FALSE, NULL);
#endif
    *sources = 0;
    *children = 0;
#ifdef FLAW_NEEDS_DEVICE
    return FindDevice(adapter);
#endif
    return GpuStart(&adapter->Gpu, adapter);
}

PAGED NTSTATUS NTAPI SgStopDevice(PVOID context)
{
    PADAPTER adapter = context;

    GpuStop(&adapter->Gpu);
#if defined(FLAW_LEAK) && !defined(FLAW_LEAK_IN_ADD_DEVICE)
    GiveThingsBack();
#endif
#ifdef FLAW_PAGED_BLOCK
    FreeMemory(adapter->PagedBlock);
#endif
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgRemoveDevice(PVOID context)
{
#ifdef FLAW_LEAK_IN_ADD_DEVICE
    GiveThingsBack();
#endif
#ifndef FLAW_LEAK_ADAPTER
    FreeMemory(context);
#endif
#ifdef FLAW_DOUBLE_FREE
    FreeMemory(context);
#endif
#ifdef FLAW_LEAK_ADAPTER
    UNREFERENCED_PARAMETER(context);
#endif
    return STATUS_SUCCESS;
}

/* Before a bug check or a hibernation: no memory is freed here. */
void NTAPI SgResetDevice(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
}

PAGED NTSTATUS NTAPI SgNotifySurpriseRemoval(PVOID context, DXGK_SURPRISE_REMOVAL_TYPE type)
{
    PADAPTER adapter = context;

    UNREFERENCED_PARAMETER(type);
    adapter->Removed = TRUE;
    return STATUS_SUCCESS;
}

/* The GPU's memory is lost without power. */
PAGED NTSTATUS NTAPI SgSetPowerState(PVOID context, UINT device, DEVICE_POWER_STATE state,
                                     POWER_ACTION action)
{
    PADAPTER adapter = context;

    UNREFERENCED_PARAMETER(action);
    if (device == DISPLAY_ADAPTER_HW_ID && state != PowerDeviceD0)
        GpuLosePower(&adapter->Gpu);
    return STATUS_SUCCESS;
}

static PAGED NTSTATUS QueryHardwareInfo(const DXGKARG_QUERYADAPTERINFO *query)
{
    ULONG info[8] = {0x4D555457 /* WTUM */, 1, 0, NODE_COUNT};

    if (query->OutputDataSize < sizeof(info))
        return STATUS_INVALID_PARAMETER;
    info[2] = HARDWARE_INFO_MEMORY;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    info[2] |= HARDWARE_INFO_RESIDENT;
#endif
#ifdef GPU_HAS_MMU
    info[2] |= HARDWARE_INFO_ADDRESSES;
#else
    info[2] |= HARDWARE_INFO_LISTS;
#endif
    RtlCopyMemory(query->pOutputData, info, sizeof(info));
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgQueryAdapterInfo(HANDLE context, const DXGKARG_QUERYADAPTERINFO *query)
{
    switch (query->Type) {
    case DXGKQAITYPE_UMDRIVERPRIVATE:
        return QueryHardwareInfo(query);
    case DXGKQAITYPE_DRIVERCAPS:
        return DriverQueryCaps(context, query);
    default:
        return DriverQuerySegments(context, query);
    }
}

static ULONG64 ReverseBits(ULONG64 value)
{
    ULONG64 reversed = 0;

    for (ULONG bit = 0; bit < 64; bit++)
        reversed |= (value >> bit & 1) << (63 - bit);
    return reversed;
}

/* "WTSG", a code, and a number, which the answer replaces. */
PAGED NTSTATUS NTAPI SgEscape(HANDLE context, const DXGKARG_ESCAPE *args)
{
    enum { MirrorNumber = 1, CountPackets = 2, AnswerOffset = 8 };
    PADAPTER adapter = context;
    READER reader = {args->pPrivateDriverData, args->PrivateDriverDataSize};
    ULONG magic;
    ULONG code;
    ULONG64 number;

    if (!ReadUlong(&reader, &magic) || !ReadUlong(&reader, &code) ||
        !ReadUlong64(&reader, &number) || reader.Size != 0 || magic != 0x47535457 /* WTSG */)
        return STATUS_INVALID_PARAMETER;
    if (code == MirrorNumber)
        number = ReverseBits(number);
    else if (code == CountPackets && args->Flags.HardwareAccess)
        number = adapter->Gpu.PacketsDone;
    else
        return STATUS_INVALID_PARAMETER;
    RtlCopyMemory((PUCHAR)args->pPrivateDriverData + AnswerOffset, &number, sizeof(number));
    return STATUS_SUCCESS;
}
