/* Handles, adapters, devices, allocations and resources, as observed on Windows. The number in a
 * comment is the row of the observation. A process of its own: nothing else takes handles. */
#include "client.h"

#include <stdalign.h>
#include <string.h>

#define BAD STATUS_INVALID_PARAMETER
#define GARBAGE 0x1eadbeedu
#define STEP 0x40u

static D3DKMT_HANDLE adapter, device;
static alignas(4096) uint8_t page[4096];

static int is_local(D3DKMT_HANDLE handle)
{
    return handle != 0 && (handle & 0x3f) == 0 && (handle & 0xc0000000) != 0; /* 1, 2 */
}

static int is_global(D3DKMT_HANDLE handle)
{
    return (handle & 0x3f) == 2 && (handle & 0xc0000000) != 0; /* 1, 3 */
}

/* A standard allocation of a page of this program. */
typedef struct {
    D3DKMT_CREATESTANDARDALLOCATION standard;
    D3DDDI_ALLOCATIONINFO info;
    D3DDDI_ALLOCATIONINFO2 info2;
    D3DKMT_CREATEALLOCATION call;
} Request;

static void prepare(Request *it)
{
    memset(it, 0, sizeof *it);
    it->standard.Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP;
    it->standard.ExistingHeapData.Size = sizeof page;
    it->info.pSystemMem = it->info2.pSystemMem = page;
    it->call.hDevice = device;
    it->call.pStandardAllocation = &it->standard;
    it->call.NumAllocations = 1;
    it->call.Flags.StandardAllocation = 1;
    it->call.Flags.ExistingSysMem = 1;
}

static NTSTATUS create(Request *it)
{
    it->call.pAllocationInfo = &it->info;
    return D3DKMTCreateAllocation(&it->call);
}

static NTSTATUS create2(Request *it)
{
    it->call.pAllocationInfo2 = &it->info2;
    return D3DKMTCreateAllocation2(&it->call);
}

static NTSTATUS destroy(D3DKMT_HANDLE resource, const D3DKMT_HANDLE *list, UINT count)
{
    D3DKMT_DESTROYALLOCATION destroy = {.hDevice = device, .hResource = resource,
        .phAllocationList = list, .AllocationCount = count};
    return D3DKMTDestroyAllocation(&destroy);
}

static D3DKMT_HANDLE create_sync(void)
{
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 create = {.hDevice = device};
    create.Info.Type = D3DDDI_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&create) == STATUS_SUCCESS);
    return create.hSyncObject;
}

static NTSTATUS destroy_sync(D3DKMT_HANDLE object)
{
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = object};
    return D3DKMTDestroySynchronizationObject(&destroy);
}

static NTSTATUS open_device(const char *class, D3DKMT_OPENADAPTERFROMDEVICENAME *open)
{
    char path[128];
    WCHAR wide[128] = {0};
    int length = snprintf(path, sizeof path, "\\\\?\\ROOT#DISPLAY#0000#{%s}", class);
    for (int i = 0; i < length; i++) {
        wide[i] = (WCHAR)path[i];
    }
    *open = (D3DKMT_OPENADAPTERFROMDEVICENAME){.pDeviceName = wide};
    return D3DKMTOpenAdapterFromDeviceName(open);
}

static void adapters(void)
{
    D3DKMT_ENUMADAPTERS2 count = {.NumAdapters = 0};
    CHECK(D3DKMTEnumAdapters2(&count) == STATUS_SUCCESS && count.NumAdapters == 34); /* 21 */
    D3DKMT_ADAPTERINFO all[34] = {0}, more[34] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 34, .pAdapters = all};
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_SUCCESS); /* 22 */
    CHECK(list.NumAdapters > 0 && list.NumAdapters < 34);
    for (UINT i = 0; i < list.NumAdapters; i++) {
        CHECK(all[i].AdapterLuid.LowPart != 0 || all[i].AdapterLuid.HighPart != 0);
        CHECK(is_local(all[i].hAdapter) && all[i].hAdapter == all[0].hAdapter + i * STEP); /* 9 */
    }
    list.pAdapters = more;
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_SUCCESS);
    CHECK(more[0].hAdapter == all[list.NumAdapters - 1].hAdapter + STEP); /* 4, 9 */
    D3DKMT_CLOSEADAPTER close = {.hAdapter = 0};
    CHECK(D3DKMTCloseAdapter(NULL) == BAD && D3DKMTCloseAdapter(&close) == BAD); /* 24 */
    for (UINT i = 0; i < list.NumAdapters; i++) {
        close.hAdapter = more[i].hAdapter;
        CHECK(D3DKMTCloseAdapter(&close) == STATUS_SUCCESS); /* 25 */
        CHECK(D3DKMTCloseAdapter(&close) == BAD);
    }
    adapter = all[0].hAdapter;
    for (UINT i = 1; i < list.NumAdapters; i++) {
        close.hAdapter = all[i].hAdapter;
        CHECK(D3DKMTCloseAdapter(&close) == STATUS_SUCCESS);
    }

    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME display = {.hAdapter = 0};
    CHECK(D3DKMTOpenAdapterFromGdiDisplayName(NULL) == STATUS_UNSUCCESSFUL); /* 11 */
    CHECK(D3DKMTOpenAdapterFromGdiDisplayName(&display) == STATUS_UNSUCCESSFUL); /* 12 */
    const char *name = "\\\\.\\DISPLAY1";
    for (size_t i = 0; name[i] != 0; i++) {
        display.DeviceName[i] = (WCHAR)name[i];
    }
    D3DKMT_OPENADAPTERFROMGDIDISPLAYNAME again = display;
    CHECK(D3DKMTOpenAdapterFromGdiDisplayName(&display) == STATUS_SUCCESS); /* 13 */
    CHECK(D3DKMTOpenAdapterFromGdiDisplayName(&again) == STATUS_SUCCESS); /* 14 */
    CHECK(is_local(display.hAdapter) && again.hAdapter == display.hAdapter + STEP);
    CHECK(display.AdapterLuid.LowPart == all[0].AdapterLuid.LowPart);
    close_adapter(display.hAdapter);
    close_adapter(again.hAdapter);
    again.DeviceName[strlen(name) - 1] = '2';
    CHECK(D3DKMTOpenAdapterFromGdiDisplayName(&again) == STATUS_UNSUCCESSFUL); /* 15 */
    /* One after the other: the path of an arrival, twice, and one of the other class. */
    D3DKMT_OPENADAPTERFROMDEVICENAME arrival[2];
    for (int i = 0; i < 2; i++) {
        CHECK(open_device("1CA05180-A699-450A-9A0C-DE4FBE3DDD89", &arrival[i]) == STATUS_SUCCESS); /* 28 */
        CHECK(arrival[i].AdapterLuid.LowPart == all[0].AdapterLuid.LowPart);
        CHECK(arrival[i].hAdapter == arrival[0].hAdapter + (UINT)i * STEP);
    }
    close_adapter(arrival[0].hAdapter);
    close_adapter(arrival[1].hAdapter);
    CHECK(open_device("5B45201D-F2F2-4F3B-85BB-30FF1F953599", &arrival[0]) == BAD); /* 27 */
    D3DKMT_OPENADAPTERFROMHDC hdc = {.hDc = NULL};
    CHECK(D3DKMTOpenAdapterFromHdc(NULL) == BAD); /* 16: Windows crashes */
    CHECK(D3DKMTOpenAdapterFromHdc(&hdc) == BAD); /* 17 */
}

static NTSTATUS query_memory(HANDLE process, D3DKMT_HANDLE on, int group)
{
    D3DKMT_QUERYVIDEOMEMORYINFO query = {.hProcess = process, .hAdapter = on};
    query.MemorySegmentGroup = (D3DKMT_MEMORY_SEGMENT_GROUP)group;
    NTSTATUS status = D3DKMTQueryVideoMemoryInfo(&query);
    if (status == STATUS_SUCCESS) {
        CHECK(query.Budget >= query.AvailableForReservation); /* 33 */
        CHECK(query.CurrentUsage <= query.Budget && query.CurrentReservation == 0);
    }
    return status;
}

/* Names and numbers of the headers of Windows. */
_Static_assert(STATUS_GRAPHICS_PRESENT_UNOCCLUDED == (NTSTATUS)0xC01E000Cu, "a status");
_Static_assert(KMT_DRIVERVERSION_WDDM_3_1 == 3100, "a version");

static void names(void)
{
    CHECK(((D3DKMT_ENUMADAPTERS_FILTER){.IncludeComputeOnly = 1}).Value == 1);
    CHECK(((D3DKMT_ENUMADAPTERS_FILTER){.IncludeDisplayOnly = 1}).Value == 2);
    CHECK(D3DKMTCloseDxCoreDevice(NULL) == STATUS_NOT_SUPPORTED);
}

static void adapter_queries(void)
{
    BOOL answer = 7;
    D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapter,
        .Type = KMTQAITYPE_CHECKDRIVERUPDATESTATUS, .pPrivateDriverData = &answer,
        .PrivateDriverDataSize = sizeof answer - 1};
    CHECK(D3DKMTQueryAdapterInfo(&query) == BAD && answer == 7); /* 30 */
    query.PrivateDriverDataSize = sizeof answer;
    CHECK(D3DKMTQueryAdapterInfo(&query) == STATUS_SUCCESS && answer == 0); /* 31 */
    D3DKMT_DRIVERVERSION version = 0;
    query = (D3DKMT_QUERYADAPTERINFO){.hAdapter = adapter, .Type = KMTQAITYPE_DRIVERVERSION,
        .pPrivateDriverData = &version, .PrivateDriverDataSize = sizeof version};
    CHECK(D3DKMTQueryAdapterInfo(&query) == STATUS_SUCCESS); /* 307 */
    CHECK(version >= KMT_DRIVERVERSION_WDDM_3_1); /* 307 */
    HANDLE self = (HANDLE)(intptr_t)-1;
    for (int group = 0; group < 2; group++) {
        CHECK(query_memory(NULL, adapter, group) == STATUS_SUCCESS); /* 33 */
        CHECK(query_memory(self, adapter, group) == STATUS_SUCCESS); /* 34 */
    }
    CHECK(query_memory((HANDLE)(intptr_t)GARBAGE, adapter, 0) == STATUS_INVALID_HANDLE); /* 36 */
    CHECK(query_memory(NULL, GARBAGE, 0) == BAD); /* 37 */
    CHECK(query_memory(NULL, adapter, 2) == BAD); /* 39 */
    uint8_t data[16] = {0};
    for (int type = 0; type < 2; type++) {
        D3DKMT_ESCAPE escape = {.hAdapter = adapter, .Type = (D3DKMT_ESCAPETYPE)type,
            .pPrivateDriverData = data, .PrivateDriverDataSize = sizeof data, .hContext = GARBAGE};
        CHECK(D3DKMTEscape(&escape) == BAD); /* 42 */
    }
}

static void devices(void)
{
    D3DKMT_CREATEDEVICE create = {.hAdapter = 0};
    CHECK(D3DKMTCreateDevice(NULL) == BAD && D3DKMTCreateDevice(&create) == BAD); /* 43 */
    D3DKMT_DESTROYDEVICE none = {.hDevice = 0};
    CHECK(D3DKMTDestroyDevice(NULL) == BAD && D3DKMTDestroyDevice(&none) == BAD); /* 45 */
    D3DKMT_DESTROYDEVICE one = {.hDevice = create_device(adapter)};
    CHECK(D3DKMTDestroyDevice(&one) == STATUS_SUCCESS); /* 46 */
    CHECK(D3DKMTDestroyDevice(&one) == BAD);
}

static void handles(void)
{
    /* One table for all types of objects: each handle is the next one. */
    D3DKMT_HANDLE first = create_sync(), second = create_device(adapter);
    CHECK(is_local(first) && second == first + STEP); /* 2, 4 */
    D3DKMT_CREATEKEYEDMUTEX mutex = {.InitialValue = 0};
    CHECK(D3DKMTCreateKeyedMutex(&mutex) == STATUS_SUCCESS && is_global(mutex.hSharedHandle)); /* 3 */
    CHECK(mutex.hKeyedMutex == second + STEP); /* 4 */
    D3DKMT_HANDLE other = open_adapter();
    CHECK(other == mutex.hKeyedMutex + STEP); /* 4 */
    Request it;
    prepare(&it);
    it.call.Flags.CreateResource = 1;
    CHECK(create(&it) == STATUS_SUCCESS && it.call.hResource == other + STEP); /* 4 */
    CHECK(it.info.hAllocation == it.call.hResource + STEP); /* 7 */
    D3DKMT_HANDLE last = create_sync();
    CHECK(last == it.info.hAllocation + STEP);

    /* A handle that was closed is not the next one. */
    CHECK(destroy_sync(first) == STATUS_SUCCESS);
    D3DKMT_HANDLE next = create_sync();
    CHECK(next == last + STEP); /* 5 */

    /* Calls that fail use up no number. */
    D3DKMT_CREATEDEVICE no_device = {.hAdapter = GARBAGE};
    D3DKMT_OPENKEYEDMUTEX no_mutex = {.hSharedHandle = GARBAGE};
    Request no_memory;
    prepare(&no_memory);
    no_memory.info.pSystemMem = NULL;
    for (int i = 0; i < 3; i++) {
        CHECK(D3DKMTCreateDevice(&no_device) == BAD && D3DKMTOpenKeyedMutex(&no_mutex) == BAD);
        CHECK(create(&no_memory) == BAD);
    }
    D3DKMT_HANDLE after = create_sync();
    CHECK(after == next + STEP); /* 6 */

    CHECK(destroy(it.call.hResource, NULL, 0) == STATUS_SUCCESS);
    destroy_device(second);
    close_adapter(other);
    D3DKMT_DESTROYKEYEDMUTEX end = {.hKeyedMutex = mutex.hKeyedMutex};
    CHECK(D3DKMTDestroyKeyedMutex(&end) == STATUS_SUCCESS);
    CHECK(destroy_sync(last) == STATUS_SUCCESS && destroy_sync(next) == STATUS_SUCCESS);
    CHECK(destroy_sync(after) == STATUS_SUCCESS);
}

static void allocations(void)
{
    CHECK(D3DKMTCreateAllocation(NULL) == BAD); /* 129: Windows crashes */
    D3DKMT_CREATEALLOCATION zeroed = {.hDevice = 0};
    CHECK(D3DKMTCreateAllocation(&zeroed) == BAD); /* 130 */
    CHECK(destroy(0, NULL, 0) == STATUS_SUCCESS); /* 132 */
    CHECK(destroy(0, NULL, 1) == BAD); /* 133 */

    Request it;
    prepare(&it);
    CHECK(create2(&it) == STATUS_SUCCESS && is_local(it.info2.hAllocation)); /* 135 */
    CHECK(it.call.PrivateRuntimeDataSize == 0 && it.call.PrivateDriverDataSize == 0);
    CHECK(it.info2.PrivateDriverDataSize == 0 && it.call.hGlobalShare == 0);
    CHECK(destroy(0, &it.info2.hAllocation, 1) == STATUS_SUCCESS); /* 136 */
    CHECK(destroy(0, &it.info2.hAllocation, 1) == BAD);

    char private[] = "12345";
    prepare(&it);
    it.info.pPrivateDriverData = private;
    it.info.PrivateDriverDataSize = sizeof private;
    CHECK(create(&it) == STATUS_SUCCESS && strcmp(private, "12345") == 0); /* 138 */
    CHECK(destroy(0, &it.info.hAllocation, 1) == STATUS_SUCCESS);
    prepare(&it);
    it.call.pPrivateRuntimeData = "abc";
    it.call.PrivateRuntimeDataSize = 4;
    CHECK(create(&it) == STATUS_SUCCESS); /* 139 */
    CHECK(destroy(0, &it.info.hAllocation, 1) == STATUS_SUCCESS);

    prepare(&it);
    it.call.hDevice = 0;
    CHECK(create(&it) == BAD); /* 141 */
    prepare(&it);
    it.call.hResource = GARBAGE;
    CHECK(create(&it) == STATUS_INVALID_HANDLE); /* 142 */
    it.call.Flags.CreateResource = 1;
    CHECK(create(&it) == STATUS_INVALID_HANDLE); /* 151 */
    prepare(&it);
    it.standard.Type = (D3DKMT_STANDARDALLOCATIONTYPE)0;
    CHECK(create(&it) == BAD); /* 144 */
    prepare(&it);
    it.info.pSystemMem = NULL;
    CHECK(create(&it) == BAD); /* 145 */
    prepare(&it);
    it.standard.ExistingHeapData.Size = 0x1100;
    CHECK(create(&it) == BAD); /* 147 */
    prepare(&it);
    it.call.Flags.ExistingSysMem = 0;
    CHECK(create(&it) == BAD); /* 148 */
    prepare(&it);
    it.call.Flags.CreateShared = 1;
    CHECK(create(&it) == BAD); /* 150 */
    prepare(&it);
    it.call.Flags.CreateResource = 1;
    it.call.NumAllocations = 0;
    CHECK(create(&it) == BAD); /* 157 */
}

static void resources(void)
{
    Request it;
    prepare(&it);
    it.call.Flags.CreateResource = 1;
    CHECK(create(&it) == STATUS_SUCCESS);
    CHECK(destroy(0, &it.info.hAllocation, 1) == STATUS_SUCCESS); /* 153 */
    CHECK(destroy(it.call.hResource, NULL, 0) == STATUS_SUCCESS); /* 154 */
    CHECK(destroy(it.call.hResource, NULL, 0) == BAD);
    prepare(&it);
    it.call.Flags.CreateResource = 1;
    CHECK(create2(&it) == STATUS_SUCCESS);
    CHECK(destroy(it.call.hResource, NULL, 0) == STATUS_SUCCESS); /* 156 */
    CHECK(destroy(0, &it.info2.hAllocation, 1) == BAD);
    prepare(&it);
    it.call.Flags.CreateResource = it.call.Flags.CreateShared = 1;
    it.call.Flags.NtSecuritySharing = 1;
    CHECK(create(&it) == STATUS_SUCCESS && it.call.hGlobalShare == 0); /* 171 */
    CHECK(destroy(it.call.hResource, NULL, 0) == STATUS_SUCCESS);
}

static uint8_t total[0x1000], untouched[64];
static char runtime[64];

static NTSTATUS open_resource(D3DKMT_OPENRESOURCE *open, D3DDDI_OPENALLOCATIONINFO *info)
{
    *info = (D3DDDI_OPENALLOCATIONINFO){.pPrivateDriverData = untouched};
    memset(total, 0xcc, sizeof total);
    memset(untouched, 0xcc, sizeof untouched);
    memset(runtime, 0xcc, sizeof runtime);
    open->pOpenAllocationInfo = info;
    open->TotalPrivateDriverDataBufferSize = sizeof total;
    NTSTATUS status = D3DKMTOpenResource(open);
    for (size_t i = 0; i < sizeof untouched; i++) {
        CHECK(untouched[i] == 0xcc); /* 165 */
    }
    return status;
}

static void shared_resources(void)
{
    Request it;
    prepare(&it);
    it.call.Flags.CreateResource = it.call.Flags.CreateShared = 1;
    it.call.pPrivateRuntimeData = "runtime";
    it.call.PrivateRuntimeDataSize = 7;
    CHECK(create(&it) == STATUS_SUCCESS && is_global(it.call.hGlobalShare)); /* 160 */
    D3DKMT_QUERYRESOURCEINFO query = {.hDevice = device, .hGlobalShare = it.call.hGlobalShare};
    CHECK(D3DKMTQueryResourceInfo(&query) == STATUS_SUCCESS && query.NumAllocations == 1);
    CHECK(query.TotalPrivateDriverDataSize > 0 && query.TotalPrivateDriverDataSize < 0x1000); /* 162 */

    D3DDDI_OPENALLOCATIONINFO info;
    D3DKMT_OPENRESOURCE open = {.hDevice = device, .hGlobalShare = it.call.hGlobalShare,
        .NumAllocations = 1, .pPrivateRuntimeData = runtime, .PrivateRuntimeDataSize = 7,
        .pResourcePrivateDriverData = untouched, .pTotalPrivateDriverDataBuffer = total};
    D3DKMT_OPENRESOURCE bad = open;
    bad.hGlobalShare = it.call.hResource;
    CHECK(open_resource(&bad, &info) == BAD); /* 159 */
    bad = open;
    bad.PrivateRuntimeDataSize++;
    CHECK(open_resource(&bad, &info) == BAD); /* 168 */
    bad = open;
    bad.ResourcePrivateDriverDataSize++;
    CHECK(open_resource(&bad, &info) == BAD); /* 169 */

    CHECK(open_resource(&open, &info) == STATUS_SUCCESS); /* 163 */
    CHECK(is_local(open.hResource) && info.hAllocation == open.hResource + STEP); /* 8 */
    CHECK(open.hGlobalShare == it.call.hGlobalShare && memcmp(runtime, "runtime", 7) == 0);
    CHECK(runtime[7] == (char)0xcc && info.PrivateDriverDataSize > 0); /* 165 */
    CHECK(open.TotalPrivateDriverDataBufferSize == query.TotalPrivateDriverDataSize);
    D3DKMT_OPENRESOURCE again = open;
    CHECK(open_resource(&again, &info) == STATUS_SUCCESS);
    CHECK(destroy(open.hResource, NULL, 0) == STATUS_SUCCESS); /* 166 */
    CHECK(D3DKMTQueryResourceInfo(&query) == STATUS_SUCCESS);
    CHECK(destroy(again.hResource, NULL, 0) == STATUS_SUCCESS); /* 172 */
    CHECK(destroy(it.call.hResource, NULL, 0) == STATUS_SUCCESS);
    CHECK(open_resource(&again, &info) == BAD);
}

int main(void)
{
    names();
    adapters();
    adapter_queries();
    devices();
    device = create_device(adapter);
    handles();
    allocations();
    resources();
    shared_resources();
    destroy_device(device);
    close_adapter(adapter);
    puts("observed: all as on Windows");
    return EXIT_SUCCESS;
}
