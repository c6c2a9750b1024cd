/* Devices and contexts. */
#include "driver.h"
#include "endless_flaws.h"
#include "miniport.h"

PAGED NTSTATUS NTAPI SgCreateDevice(HANDLE context, DXGKARG_CREATEDEVICE *args)
{
    PDEVICE device = AllocateMemory(sizeof(*device));

    if (device == NULL)
        return STATUS_NO_MEMORY;
#if defined(FLAW_WAITS) && FLAW_WAITS == 1
    WaitForEver();
#endif
#ifdef FLAW_DEREFERENCES_DEVICE_HANDLE
    (void)((volatile ULONG *)args->hDevice)[4];
#endif
#ifdef FLAW_DEVICE_HANDLE_AS_ADAPTER
    DXGK_DEVICE_INFO info = {0};

    ((PADAPTER)context)->DxgkInterface.DxgkCbGetDeviceInformation(args->hDevice, &info);
#endif
    device->Adapter = context;
    device->DxgkDevice = args->hDevice;
    KeInitializeSpinLock(&device->Lock);
    InitializeListHead(&device->OpenAllocations);
    args->hDevice = device;
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgDestroyDevice(HANDLE handle)
{
#ifdef FLAW_LEAK_DEVICE
    UNREFERENCED_PARAMETER(handle);
#else
    FreeMemory(handle);
#endif
    FLAW_POINT(RETURN);
    return STATUS_SUCCESS;
}

static PAGED void FillContextInfo(DXGKARG_CREATECONTEXT *args)
{
    DXGK_CONTEXTINFO *info = &args->ContextInfo;

    info->DmaBufferSize = DMA_BUFFER_SIZE;
    info->DmaBufferPrivateDataSize = sizeof(DMA_PRIVATE);
    info->AllocationListSize = ALLOCATION_LIST_SIZE;
    info->PatchLocationListSize = PATCH_LIST_SIZE;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    if (args->Flags.VirtualAddressing) {
        info->DmaBufferSegmentSet = 1 << (APERTURE_SEGMENT - 1);
        info->DmaBufferPrivateDataSize = DMA_BUFFER_SIZE;
        info->AllocationListSize = 0;
        info->PatchLocationListSize = 0;
        info->Caps.NoPatchingRequired = TRUE;
    }
#endif
}

#ifdef FLAW_KEEPS_ARGUMENTS
static DXGKARG_CREATECONTEXT *volatile KeptArguments;
#endif

PAGED NTSTATUS NTAPI SgCreateContext(HANDLE handle, DXGKARG_CREATECONTEXT *args)
{
    PCONTEXT context;

    if (args->NodeOrdinal >= NODE_COUNT || (args->EngineAffinity & ~1u) != 0)
        return STATUS_INVALID_PARAMETER;
    context = AllocateMemory(sizeof(*context));
    if (context == NULL)
        return STATUS_NO_MEMORY;
#ifdef FLAW_IRQL_NOT_RESTORED
    KIRQL irql;

    KeRaiseIrql(DISPATCH_LEVEL, &irql);
#endif
#ifdef FLAW_KEEPS_FAST_MUTEX
    static FAST_MUTEX KeptMutex;

    ExInitializeFastMutex(&KeptMutex);
    ExAcquireFastMutex(&KeptMutex);
#endif
#ifdef FLAW_OWN_DEVICE_AS_ADAPTER
    DXGK_DEVICE_INFO info = {0};

    ((PDEVICE)handle)->Adapter->DxgkInterface.DxgkCbGetDeviceInformation(handle, &info);
#endif
#ifdef FLAW_WRITES_BEHIND_ARGUMENTS
    ((volatile UCHAR *)args)[sizeof(*args)] = 1;
#endif
#ifdef FLAW_KEEPS_ARGUMENTS
    KeptArguments = args;
#endif
    context->Device = handle;
    context->Node = args->NodeOrdinal;
    context->IsSystem = args->Flags.SystemContext;
    args->hContext = context;
    FillContextInfo(args);
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgDestroyContext(HANDLE handle)
{
#ifdef FLAW_KEEPS_ARGUMENTS
    if (*(volatile UINT *)&KeptArguments->NodeOrdinal >= NODE_COUNT)
        return STATUS_INVALID_PARAMETER;
#endif
#ifdef FLAW_WRONG_TAG
    ExFreePoolWithTag(handle, 'gnrw');
#else
    FreeMemory(handle);
#endif
    return STATUS_SUCCESS;
}
