/*
 * The lifecycle of allocations, from C: open an adapter, a device and a context; create; make
 * resident; submit; read the bytes; share; destroy with each combination of flags.
 *
 *   cargo xtask install --prefix /tmp/windtunnel
 *   export PKG_CONFIG_PATH=/tmp/windtunnel/lib/pkgconfig LD_LIBRARY_PATH=/tmp/windtunnel/lib
 *   gcc -Wall -Wextra -g -rdynamic allocations.c $(pkg-config --cflags --libs windtunnel-d3dkmt)
 *   WINDTUNNEL_REPORT=1 ./a.out
 */
#include <windtunnel/d3dkmt.h>
#include <windtunnel/softgpu.h>

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, MEMBERS = 2 };

/* A client's handles of a resource. */
typedef struct {
    D3DKMT_HANDLE resource;
    D3DKMT_HANDLE global;
    D3DKMT_HANDLE members[MEMBERS];
} Resource;

/* Checks that a call succeeded. */
static void must(const char *call, NTSTATUS status)
{
    printf("%-28s 0x%08x\n", call, (unsigned)status);
    if (!NT_SUCCESS(status)) {
        exit(EXIT_FAILURE);
    }
}

static D3DKMT_HANDLE open_adapter(void)
{
    D3DKMT_ADAPTERINFO adapters[8] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 8, .pAdapters = adapters};
    must("D3DKMTEnumAdapters2", D3DKMTEnumAdapters2(&list));
    if (list.NumAdapters == 0) {
        fprintf(stderr, "there is no adapter\n");
        exit(EXIT_FAILURE);
    }
    D3DKMT_OPENADAPTERFROMLUID again = {.AdapterLuid = adapters[0].AdapterLuid};
    must("D3DKMTOpenAdapterFromLuid", D3DKMTOpenAdapterFromLuid(&again));
    for (UINT i = 0; i < list.NumAdapters; i++) {
        D3DKMT_CLOSEADAPTER close = {.hAdapter = adapters[i].hAdapter};
        must("D3DKMTCloseAdapter", D3DKMTCloseAdapter(&close));
    }
    return again.hAdapter;
}

static D3DKMT_HANDLE create_device(D3DKMT_HANDLE adapter)
{
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapter};
    must("D3DKMTCreateDevice", D3DKMTCreateDevice(&device));
    return device.hDevice;
}

static D3DKMT_HANDLE create_context(D3DKMT_HANDLE device)
{
    D3DKMT_CREATECONTEXTVIRTUAL context = {
        .hDevice = device, .EngineAffinity = 1, .ClientHint = D3DKMT_CLIENTHINT_VULKAN};
    must("D3DKMTCreateContextVirtual", D3DKMTCreateContextVirtual(&context));
    return context.hContext;
}

/* A shared resource of two one-page allocations. */
static Resource create_resource(D3DKMT_HANDLE device)
{
    uint8_t privates[MEMBERS][WINDTUNNEL_DESCRIPTION_SIZE];
    D3DDDI_ALLOCATIONINFO2 infos[MEMBERS] = {0};
    for (int i = 0; i < MEMBERS; i++) {
        windtunnel_describe(privates[i], PAGE);
        infos[i].pPrivateDriverData = privates[i];
        infos[i].PrivateDriverDataSize = WINDTUNNEL_DESCRIPTION_SIZE;
    }
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device,
        .NumAllocations = MEMBERS,
        .pAllocationInfo2 = infos,
        .Flags = {.CreateResource = 1, .CreateShared = 1},
    };
    must("D3DKMTCreateAllocation2", D3DKMTCreateAllocation2(&create));
    Resource made = {.resource = create.hResource, .global = create.hGlobalShare};
    for (int i = 0; i < MEMBERS; i++) {
        made.members[i] = infos[i].hAllocation;
    }
    return made;
}

/* An allocation outside a resource. */
static D3DKMT_HANDLE create_allocation(D3DKMT_HANDLE device)
{
    uint8_t private[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(private, PAGE);
    D3DDDI_ALLOCATIONINFO info = {
        .pPrivateDriverData = private, .PrivateDriverDataSize = sizeof private};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo = &info};
    must("D3DKMTCreateAllocation", D3DKMTCreateAllocation(&create));
    return info.hAllocation;
}

/* Makes an allocation resident and waits for the paging fence. */
static void make_resident(D3DKMT_HANDLE device, D3DKMT_HANDLE target)
{
    D3DKMT_CREATEPAGINGQUEUE queue = {.hDevice = device};
    must("D3DKMTCreatePagingQueue", D3DKMTCreatePagingQueue(&queue));
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = queue.hPagingQueue, .NumAllocations = 1, .AllocationList = &target};
    must("D3DKMTMakeResident", D3DKMTMakeResident(&resident));
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
        .hDevice = device,
        .ObjectCount = 1,
        .ObjectHandleArray = &queue.hSyncObject,
        .FenceValueArray = &resident.PagingFenceValue,
    };
    must("D3DKMTWaitFor...FromCpu", D3DKMTWaitForSynchronizationObjectFromCpu(&wait));
    D3DDDI_DESTROYPAGINGQUEUE end = {.hPagingQueue = queue.hPagingQueue};
    must("D3DKMTDestroyPagingQueue", D3DKMTDestroyPagingQueue(&end));
}

/* Submits a packet that fills an allocation; destruction has to wait for it. */
static void fill(D3DKMT_HANDLE device, D3DKMT_HANDLE context, D3DKMT_HANDLE target)
{
    make_resident(device, target);
    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, target, 0, PAGE, 0xa5);
    D3DKMT_SUBMITCOMMAND submit = {
        .BroadcastContextCount = 1,
        .BroadcastContext = {context},
        .pPrivateDriverData = packet,
        .PrivateDriverDataSize = sizeof packet,
    };
    must("D3DKMTSubmitCommand", D3DKMTSubmitCommand(&submit));
}

/* Reads an allocation with the CPU after the queued work has completed. */
static void look(D3DKMT_HANDLE device, D3DKMT_HANDLE target)
{
    D3DKMT_LOCK lock = {.hDevice = device, .hAllocation = target, .Flags = {.LockEntire = 1}};
    must("D3DKMTLock", D3DKMTLock(&lock));
    const uint8_t *bytes = (const uint8_t *)lock.pData;
    printf("%-28s 0x%02x ... 0x%02x\n", "the bytes", bytes[0], bytes[PAGE - 1]);
    if (bytes[0] != 0xa5 || bytes[PAGE - 1] != 0xa5) {
        exit(EXIT_FAILURE);
    }
    D3DKMT_UNLOCK unlock = {.hDevice = device, .NumAllocations = 1, .phAllocations = &target};
    must("D3DKMTUnlock", D3DKMTUnlock(&unlock));
}

/* Opens a shared resource on a device, and fills one of its allocations there. */
static D3DKMT_HANDLE open_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE context,
                                   D3DKMT_HANDLE global)
{
    D3DKMT_QUERYRESOURCEINFO query = {.hDevice = device, .hGlobalShare = global};
    must("D3DKMTQueryResourceInfo", D3DKMTQueryResourceInfo(&query));
    uint8_t privates[MEMBERS * WINDTUNNEL_DESCRIPTION_SIZE];
    D3DDDI_OPENALLOCATIONINFO2 infos[MEMBERS] = {0};
    D3DKMT_OPENRESOURCE open = {
        .hDevice = device,
        .hGlobalShare = global,
        .NumAllocations = query.NumAllocations,
        .pOpenAllocationInfo2 = infos,
        .ResourcePrivateDriverDataSize = query.ResourcePrivateDriverDataSize,
        .pTotalPrivateDriverDataBuffer = privates,
        .TotalPrivateDriverDataBufferSize = sizeof privates,
    };
    must("D3DKMTOpenResource2", D3DKMTOpenResource2(&open));
    fill(device, context, infos[0].hAllocation);
    return open.hResource;
}

static void destroy_resource(D3DKMT_HANDLE device, D3DKMT_HANDLE resource, UINT flags)
{
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .hResource = resource, .Flags = {.Value = flags}};
    must("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
}

static void destroy_allocation(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation)
{
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device,
        .phAllocationList = &allocation,
        .AllocationCount = 1,
        .Flags = {.SynchronousDestroy = 1},
    };
    must("D3DKMTDestroyAllocation2", D3DKMTDestroyAllocation2(&destroy));
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_HANDLE context = create_context(device);

    /* Without flags, AssumeNotInUse, SynchronousDestroy, both. */
    for (UINT flags = 0; flags < 4; flags++) {
        Resource made = create_resource(device);
        if ((flags & 1) == 0) { /* AssumeNotInUse is illegal with queued work. */
            fill(device, context, made.members[0]);
        }
        destroy_resource(device, made.resource, flags);
    }
    /* Opened by another device, the resource outlives the device that created it. */
    D3DKMT_HANDLE other = create_device(adapter);
    D3DKMT_HANDLE other_context = create_context(other);
    Resource shared = create_resource(device);
    D3DKMT_HANDLE opened = open_resource(other, other_context, shared.global);
    destroy_resource(device, shared.resource, 0);
    destroy_resource(other, opened, 0);
    D3DKMT_DESTROYCONTEXT end_other_context = {.hContext = other_context};
    must("D3DKMTDestroyContext", D3DKMTDestroyContext(&end_other_context));
    D3DKMT_DESTROYDEVICE end_other = {.hDevice = other};
    must("D3DKMTDestroyDevice", D3DKMTDestroyDevice(&end_other));

    D3DKMT_HANDLE alone = create_allocation(device);
    fill(device, context, alone);
    look(device, alone);
    destroy_allocation(device, alone);

    D3DKMT_DESTROYCONTEXT end_context = {.hContext = context};
    must("D3DKMTDestroyContext", D3DKMTDestroyContext(&end_context));
    D3DKMT_DESTROYDEVICE end_device = {.hDevice = device};
    must("D3DKMTDestroyDevice", D3DKMTDestroyDevice(&end_device));
    D3DKMT_CLOSEADAPTER close = {.hAdapter = adapter};
    must("D3DKMTCloseAdapter", D3DKMTCloseAdapter(&close));
    printf("every object is destroyed\n");
    return EXIT_SUCCESS;
}
