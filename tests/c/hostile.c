/* Unmapped, partly mapped and read-only pointers: each call returns a failure, and a call whose
 * outputs cannot be written leaves nothing behind. */
#define _DEFAULT_SOURCE
#include "client.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { PAGE = 4096 };

/* The expected failure. */
#define BAD STATUS_INVALID_PARAMETER

/* Each entry point, with any argument type. */
typedef NTSTATUS (*Entry)(void *);

#define WRAP(name)                                                                                \
    static NTSTATUS call_##name(void *args) { return name(args); }

WRAP(D3DKMTEnumAdapters2)
WRAP(D3DKMTOpenAdapterFromLuid)
WRAP(D3DKMTCloseAdapter)
WRAP(D3DKMTCreateDevice)
WRAP(D3DKMTDestroyDevice)
WRAP(D3DKMTCreateContextVirtual)
WRAP(D3DKMTDestroyContext)
WRAP(D3DKMTSubmitCommand)
WRAP(D3DKMTCreateAllocation)
WRAP(D3DKMTCreateAllocation2)
WRAP(D3DKMTDestroyAllocation)
WRAP(D3DKMTDestroyAllocation2)
WRAP(D3DKMTQueryResourceInfo)
WRAP(D3DKMTOpenResource)
WRAP(D3DKMTOpenResource2)
WRAP(D3DKMTGetDeviceState)
WRAP(D3DKMTCreateKeyedMutex)
WRAP(D3DKMTCreateKeyedMutex2)
WRAP(D3DKMTOpenKeyedMutex)
WRAP(D3DKMTOpenKeyedMutex2)
WRAP(D3DKMTDestroyKeyedMutex)
WRAP(D3DKMTAcquireKeyedMutex)
WRAP(D3DKMTAcquireKeyedMutex2)
WRAP(D3DKMTReleaseKeyedMutex)
WRAP(D3DKMTReleaseKeyedMutex2)

static const Entry ENTRIES[] = {
    call_D3DKMTEnumAdapters2,        call_D3DKMTOpenAdapterFromLuid, call_D3DKMTCloseAdapter,
    call_D3DKMTCreateDevice,         call_D3DKMTDestroyDevice,       call_D3DKMTCreateContextVirtual,
    call_D3DKMTDestroyContext,       call_D3DKMTSubmitCommand,       call_D3DKMTCreateAllocation,
    call_D3DKMTCreateAllocation2,    call_D3DKMTDestroyAllocation,   call_D3DKMTDestroyAllocation2,
    call_D3DKMTQueryResourceInfo,    call_D3DKMTOpenResource,        call_D3DKMTOpenResource2,
    call_D3DKMTGetDeviceState,
    call_D3DKMTCreateKeyedMutex,     call_D3DKMTCreateKeyedMutex2,    call_D3DKMTOpenKeyedMutex,
    call_D3DKMTOpenKeyedMutex2,      call_D3DKMTDestroyKeyedMutex,    call_D3DKMTAcquireKeyedMutex,
    call_D3DKMTAcquireKeyedMutex2,   call_D3DKMTReleaseKeyedMutex,    call_D3DKMTReleaseKeyedMutex2,
};

/* Two pages: the first can be used, the second cannot. */
static uint8_t *page;
/* A page that can be read only. */
static uint8_t *constant;

static void *read_only(const void *what, size_t bytes)
{
    CHECK(mprotect(constant, PAGE, PROT_READ | PROT_WRITE) == 0);
    memcpy(constant, what, bytes);
    CHECK(mprotect(constant, PAGE, PROT_READ) == 0);
    return constant;
}

static void arguments(void)
{
    void *const nothing[] = {
        NULL, (void *)1, (void *)0xfff, page + PAGE, page + PAGE + 7, (void *)0x7fffffffffff,
        (void *)0x8000000000000000, (void *)-1, (void *)-4096,
    };
    for (size_t entry = 0; entry < sizeof ENTRIES / sizeof *ENTRIES; entry++) {
        for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++) {
            CHECK(ENTRIES[entry](nothing[i]) == BAD);
        }
        /* Only the first bytes are mapped: a structure has at least four bytes. */
        for (size_t there = 1; there < 4; there++) {
            CHECK(ENTRIES[entry](page + PAGE - there) == BAD);
        }
    }
}

static void answers(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device)
{
    D3DKMT_CREATEDEVICE make_device = {.hAdapter = adapter};
    CHECK(D3DKMTCreateDevice(read_only(&make_device, sizeof make_device)) == BAD);

    D3DKMT_CREATECONTEXTVIRTUAL make_context = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(read_only(&make_context, sizeof make_context)) == BAD);

    D3DKMT_ADAPTERINFO info = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 1, .pAdapters = &info};
    CHECK(D3DKMTEnumAdapters2(read_only(&list, sizeof list)) == BAD);
    list.pAdapters = read_only(&info, sizeof info);
    CHECK(D3DKMTEnumAdapters2(&list) == BAD);
    list.pAdapters = (D3DKMT_ADAPTERINFO *)(page + PAGE - 8);
    CHECK(D3DKMTEnumAdapters2(&list) == BAD);

    list.pAdapters = &info;
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_SUCCESS);
    close_adapter(info.hAdapter);
    D3DKMT_OPENADAPTERFROMLUID open = {.AdapterLuid = info.AdapterLuid};
    CHECK(D3DKMTOpenAdapterFromLuid(read_only(&open, sizeof open)) == BAD);
}

static void creation(D3DKMT_HANDLE device)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, PAGE);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    const D3DKMT_CREATEALLOCATION good = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info,
        .Flags = {.CreateResource = 1}};

    D3DKMT_CREATEALLOCATION bad = good;
    CHECK(D3DKMTCreateAllocation2(read_only(&bad, sizeof bad)) == BAD);
    bad.pAllocationInfo2 = read_only(&info, sizeof info);
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
    bad.Flags.Value = 0;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
    bad.pAllocationInfo2 = (D3DDDI_ALLOCATIONINFO2 *)(page + PAGE - 8);
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);

    bad = good;
    bad.NumAllocations = UINT32_MAX;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
    bad.NumAllocations = 1024;
    bad.pAllocationInfo2 = (D3DDDI_ALLOCATIONINFO2 *)page;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);

    bad = good;
    bad.pPrivateRuntimeData = page;
    bad.PrivateRuntimeDataSize = UINT32_MAX;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
    bad.PrivateRuntimeDataSize = PAGE + 1;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);

    bad = good;
    info.pPrivateDriverData = read_only(description, sizeof description);
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
    info.pPrivateDriverData = page + PAGE;
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);

    bad = good;
    bad.Flags.StandardAllocation = 1;
    bad.Flags.ExistingSysMem = 1;
    bad.pStandardAllocation = (D3DKMT_CREATESTANDARDALLOCATION *)(page + PAGE - 4);
    CHECK(D3DKMTCreateAllocation2(&bad) == BAD);
}

static void sharing(D3DKMT_HANDLE device)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, PAGE);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info,
        .pPrivateRuntimeData = "runtime", .PrivateRuntimeDataSize = 8,
        .Flags = {.CreateResource = 1, .CreateShared = 1}};
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    D3DKMT_QUERYRESOURCEINFO query = {.hDevice = device, .hGlobalShare = create.hGlobalShare};
    CHECK(D3DKMTQueryResourceInfo(read_only(&query, sizeof query)) == BAD);
    CHECK(D3DKMTQueryResourceInfo(&query) == STATUS_SUCCESS);

    uint8_t runtime[8], total[64];
    D3DDDI_OPENALLOCATIONINFO2 element = {0};
    const D3DKMT_OPENRESOURCE good = {
        .hDevice = device, .hGlobalShare = create.hGlobalShare, .NumAllocations = 1,
        .pOpenAllocationInfo2 = &element, .pPrivateRuntimeData = runtime,
        .PrivateRuntimeDataSize = sizeof runtime, .pTotalPrivateDriverDataBuffer = total,
        .TotalPrivateDriverDataBufferSize = sizeof total};
    D3DKMT_OPENRESOURCE bad = good;
    CHECK(D3DKMTOpenResource2(read_only(&bad, sizeof bad)) == BAD);
    bad.pOpenAllocationInfo2 = read_only(&element, sizeof element);
    CHECK(D3DKMTOpenResource2(&bad) == BAD);
    bad = good;
    bad.pPrivateRuntimeData = read_only(runtime, sizeof runtime);
    CHECK(D3DKMTOpenResource2(&bad) == BAD);
    bad = good;
    bad.pTotalPrivateDriverDataBuffer = page + PAGE - 8;
    CHECK(D3DKMTOpenResource2(&bad) == BAD);
    D3DKMT_OPENRESOURCE open = good;
    CHECK(D3DKMTOpenResource2(&open) == STATUS_SUCCESS);

    const D3DKMT_HANDLE resources[] = {open.hResource, create.hResource};
    for (int i = 0; i < 2; i++) {
        D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .hResource = resources[i]};
        CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_SUCCESS);
    }

    D3DKMT_GETDEVICESTATE state = {.hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    CHECK(D3DKMTGetDeviceState(read_only(&state, sizeof state)) == BAD);
    CHECK(D3DKMTGetDeviceState(&state) == STATUS_SUCCESS);
    CHECK(state.ExecutionState == D3DKMT_DEVICEEXECUTION_ACTIVE);
}

static void destruction(D3DKMT_HANDLE device)
{
    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device};
    destroy.phAllocationList = (D3DKMT_HANDLE *)(page + PAGE);
    destroy.AllocationCount = 1;
    CHECK(D3DKMTDestroyAllocation2(&destroy) == BAD);
    destroy.phAllocationList = (D3DKMT_HANDLE *)page;
    const UINT counts[] = {PAGE / 4 + 1, 1 << 24, (1 << 24) + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        destroy.AllocationCount = counts[i];
        CHECK(D3DKMTDestroyAllocation2(&destroy) == BAD);
    }
}

static void submission(D3DKMT_HANDLE device)
{
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&context) == STATUS_SUCCESS);
    D3DKMT_SUBMITCOMMAND submit = {
        .BroadcastContextCount = 1, .BroadcastContext = {context.hContext}};
    submit.pPrivateDriverData = page + PAGE - 1;
    submit.PrivateDriverDataSize = 2;
    CHECK(D3DKMTSubmitCommand(&submit) == BAD);
    submit.PrivateDriverDataSize = UINT32_MAX;
    CHECK(D3DKMTSubmitCommand(&submit) == BAD);
    D3DKMT_DESTROYCONTEXT destroy = {.hContext = context.hContext};
    CHECK(D3DKMTDestroyContext(&destroy) == STATUS_SUCCESS);
}

/* The output is checked for write access before the driver is called. */
static void escapes(D3DKMT_HANDLE adapter)
{
    /* A number whose bits the driver returns inverted. */
    uint8_t mirror[16] = {'W', 'T', 'S', 'G', 1, 0, 0, 0, 1};
    D3DKMT_ESCAPE escape = {
        .hAdapter = adapter, .Type = D3DKMT_ESCAPE_DRIVERPRIVATE,
        .PrivateDriverDataSize = sizeof mirror};
    CHECK(D3DKMTEscape(NULL) == BAD);
    CHECK(D3DKMTEscape((D3DKMT_ESCAPE *)(page + PAGE)) == BAD);
    void *const nowhere[] = {
        NULL, page + PAGE, page + PAGE - 8, read_only(mirror, sizeof mirror), (void *)0xdead0000};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        escape.pPrivateDriverData = nowhere[i];
        CHECK(D3DKMTEscape(&escape) == BAD);
    }
    escape.pPrivateDriverData = mirror;
    escape.PrivateDriverDataSize = UINT32_MAX;
    CHECK(D3DKMTEscape(&escape) == BAD);
    CHECK(mirror[8] == 1 && mirror[15] == 0);
    escape.PrivateDriverDataSize = sizeof mirror;
    CHECK(D3DKMTEscape(read_only(&escape, sizeof escape)) == STATUS_SUCCESS);
    CHECK(mirror[8] == 0 && mirror[15] == 0x80);
    escape.Flags.HardwareAccess = 1;
    CHECK(D3DKMTEscape(&escape) == STATUS_SUCCESS);
    CHECK(mirror[8] == 1 && mirror[15] == 0);
}

/* Unaligned structures and structures at the end of a page are valid. */
static void crooked(D3DKMT_HANDLE adapter)
{
    D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
    for (size_t shift = 0; shift < 8; shift++) {
        uint8_t *place = page + PAGE - sizeof create - shift;
        memcpy(place, &create, sizeof create);
        CHECK(D3DKMTCreateDevice((D3DKMT_CREATEDEVICE *)(void *)place) == STATUS_SUCCESS);
        D3DKMT_CREATEDEVICE made;
        memcpy(&made, place, sizeof made);
        destroy_device(made.hDevice);
    }
}

static long most_kilobytes(void)
{
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    return usage.ru_maxrss;
}

/* Lists and data that a call would have to copy before it refuses them: 16 million handles, 16 GiB of
 * private data behind one pointer, and a resource that is named so often that its members are too
 * many. */
static void long_lists(D3DKMT_HANDLE device)
{
    enum { HANDLES = 1 << 24, MEMBERS = 512, NAMED = 1 << 16, MOST_GROWTH = 100 << 10 };
    const D3DKMT_HANDLE *handles = mmap(
        NULL, HANDLES * sizeof *handles, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(handles != MAP_FAILED);
    D3DKMT_CREATEPAGINGQUEUE queue = {.hDevice = device};
    CHECK(D3DKMTCreatePagingQueue(&queue) == STATUS_SUCCESS);
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, PAGE);
    static D3DDDI_ALLOCATIONINFO2 infos[1024];
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        infos[i].pPrivateDriverData = description;
        infos[i].PrivateDriverDataSize = sizeof description;
    }
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = MEMBERS, .pAllocationInfo2 = infos,
        .Flags = {.CreateResource = 1}};
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    static D3DKMT_HANDLE named[NAMED];
    for (size_t i = 0; i < NAMED; i++) {
        named[i] = create.hResource;
    }

    long before = most_kilobytes();
    D3DKMT_OFFERALLOCATIONS offer = {
        .hDevice = device, .HandleList = handles, .NumAllocations = HANDLES, .Priority = 1};
    CHECK(D3DKMTOfferAllocations(&offer) == BAD);
    D3DKMT_RECLAIMALLOCATIONS reclaim = {
        .hDevice = device, .HandleList = handles, .NumAllocations = HANDLES};
    CHECK(D3DKMTReclaimAllocations(&reclaim) == BAD);
    D3DKMT_RECLAIMALLOCATIONS2 again = {
        .hPagingQueue = queue.hPagingQueue, .HandleList = handles, .NumAllocations = HANDLES};
    CHECK(D3DKMTReclaimAllocations2(&again) == BAD);
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = queue.hPagingQueue, .NumAllocations = HANDLES, .AllocationList = handles};
    CHECK(D3DKMTMakeResident(&resident) == BAD);
    D3DKMT_EVICT evict = {.hDevice = device, .NumAllocations = HANDLES, .AllocationList = handles};
    CHECK(D3DKMTEvict(&evict) == BAD);
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = handles, .AllocationCount = HANDLES};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == BAD);
    offer.HandleList = NULL;
    offer.pResources = named;
    offer.NumAllocations = NAMED;
    CHECK(D3DKMTOfferAllocations(&offer) == BAD);

    void *data = mmap(
        NULL, HANDLES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(data != MAP_FAILED);
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        infos[i].pPrivateDriverData = data;
        infos[i].PrivateDriverDataSize = HANDLES;
    }
    D3DKMT_CREATEALLOCATION large = {
        .hDevice = device, .NumAllocations = 1024, .pAllocationInfo2 = infos};
    CHECK(D3DKMTCreateAllocation2(&large) == BAD);
    CHECK(most_kilobytes() - before < MOST_GROWTH);

    D3DKMT_DESTROYALLOCATION2 end = {.hDevice = device, .hResource = create.hResource};
    CHECK(D3DKMTDestroyAllocation2(&end) == STATUS_SUCCESS);
    D3DDDI_DESTROYPAGINGQUEUE end_queue = {.hPagingQueue = queue.hPagingQueue};
    CHECK(D3DKMTDestroyPagingQueue(&end_queue) == STATUS_SUCCESS);
}

int main(void)
{
    page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    constant = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && constant != MAP_FAILED);
    /* Not unmapped: another mapping could reuse the address. */
    CHECK(mprotect(page + PAGE, PAGE, PROT_NONE) == 0);

    arguments();
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    answers(adapter, device);
    creation(device);
    sharing(device);
    destruction(device);
    long_lists(device);
    submission(device);
    escapes(adapter);
    crooked(adapter);
    destroy_allocation(device, create_allocation(device));
    destroy_device(device);
    close_adapter(adapter);
    printf("hostile: all answered\n");
    return EXIT_SUCCESS;
}
