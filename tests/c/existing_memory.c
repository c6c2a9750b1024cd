/* Allocations whose bytes are the client's own: its pages, and a section. */
#define _GNU_SOURCE
#include "client.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096
#define SIZE (2 * PAGE)

static D3DKMT_HANDLE adapter, device, context;
static D3DKMT_CREATEPAGINGQUEUE queue;

static void begin(void)
{
    adapter = open_adapter();
    device = create_device(adapter);
    D3DKMT_CREATECONTEXTVIRTUAL create = {
        .hDevice = device, .EngineAffinity = 1, .ClientHint = D3DKMT_CLIENTHINT_VULKAN};
    CHECK(D3DKMTCreateContextVirtual(&create) == STATUS_SUCCESS);
    context = create.hContext;
    queue.hDevice = device;
    CHECK(D3DKMTCreatePagingQueue(&queue) == STATUS_SUCCESS);
}

static void end(void)
{
    D3DDDI_DESTROYPAGINGQUEUE end_queue = {.hPagingQueue = queue.hPagingQueue};
    CHECK(D3DKMTDestroyPagingQueue(&end_queue) == STATUS_SUCCESS);
    D3DKMT_DESTROYCONTEXT end_context = {.hContext = context};
    CHECK(D3DKMTDestroyContext(&end_context) == STATUS_SUCCESS);
    destroy_device(device);
    close_adapter(adapter);
}

/* A standard allocation of SIZE bytes, with the flags that its page demands. */
typedef struct {
    D3DKMT_HANDLE resource, allocation;
} Existing;

static NTSTATUS create(D3DKMT_CREATEALLOCATIONFLAGS flags, void *memory, size_t size, Existing *it)
{
    D3DKMT_CREATESTANDARDALLOCATION standard = {
        .Type = D3DKMT_STANDARDALLOCATIONTYPE_EXISTINGHEAP, .ExistingHeapData = {.Size = size}};
    D3DDDI_ALLOCATIONINFO2 info = {.pSystemMem = memory};
    D3DKMT_CREATEALLOCATION call = {.hDevice = device, .NumAllocations = 1,
        .pAllocationInfo2 = &info, .pStandardAllocation = &standard, .Flags = flags};
    call.Flags.StandardAllocation = 1;
    call.Flags.CreateResource = call.Flags.CreateShared = call.Flags.CrossAdapter = 1;
    const NTSTATUS status = D3DKMTCreateAllocation2(&call);
    *it = (Existing){call.hResource, info.hAllocation};
    return status;
}

static const D3DKMT_CREATEALLOCATIONFLAGS MEMORY = {.ExistingSysMem = 1};
static const D3DKMT_CREATEALLOCATIONFLAGS SECTION = {.ExistingSection = 1};

static void destroy(Existing it)
{
    D3DKMT_DESTROYALLOCATION2 call = {
        .hDevice = device, .hResource = it.resource, .Flags = {.SynchronousDestroy = 1}};
    CHECK(D3DKMTDestroyAllocation2(&call) == STATUS_SUCCESS);
}

static void make_resident(D3DKMT_HANDLE allocation)
{
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = queue.hPagingQueue, .NumAllocations = 1,
        .AllocationList = &allocation};
    const NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &queue.hSyncObject, .FenceValueArray = &resident.PagingFenceValue};
    CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
}

static void evict(D3DKMT_HANDLE allocation)
{
    D3DKMT_EVICT call = {.hDevice = device, .NumAllocations = 1, .AllocationList = &allocation};
    CHECK(D3DKMTEvict(&call) == STATUS_SUCCESS);
}

static void submit(const void *packet, UINT size)
{
    D3DKMT_SUBMITCOMMAND call = {.BroadcastContextCount = 1, .BroadcastContext = {context},
        .pPrivateDriverData = (void *)packet, .PrivateDriverDataSize = size};
    CHECK(D3DKMTSubmitCommand(&call) == STATUS_SUCCESS);
}

static void copy(D3DKMT_HANDLE from, D3DKMT_HANDLE to)
{
    uint8_t packet[WINDTUNNEL_COPY_SIZE];
    windtunnel_copy(packet, from, 0, to, 0, SIZE);
    submit(packet, sizeof packet);
}

static void fill(D3DKMT_HANDLE target, uint8_t value)
{
    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, target, 0, SIZE, value);
    submit(packet, sizeof packet);
}

/* Waits for the GPU, and returns where the bytes of an allocation are. */
static uint8_t *lock(D3DKMT_HANDLE allocation)
{
    D3DKMT_LOCK call = {.hDevice = device, .hAllocation = allocation, .Flags = {.LockEntire = 1}};
    CHECK(D3DKMTLock(&call) == STATUS_SUCCESS);
    return (uint8_t *)call.pData;
}

static void unlock(D3DKMT_HANDLE allocation)
{
    D3DKMT_UNLOCK call = {.hDevice = device, .NumAllocations = 1, .phAllocations = &allocation};
    CHECK(D3DKMTUnlock(&call) == STATUS_SUCCESS);
}

static void write_pattern(uint8_t *bytes, unsigned seed)
{
    for (unsigned i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / PAGE + seed);
    }
}

static int has_pattern(const uint8_t *bytes, unsigned seed)
{
    for (unsigned i = 0; i < SIZE; i++) {
        if (bytes[i] != (uint8_t)(i * 7 + i / PAGE + seed)) {
            return 0;
        }
    }
    return 1;
}

static int is_filled(const uint8_t *bytes, size_t size, uint8_t value)
{
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != value) {
            return 0;
        }
    }
    return 1;
}

/* Where a new resource that may be `cross_adapter` is, once it is resident. */
static D3DKMT_ALLOCATIONRESIDENCYSTATUS place_of(UINT cross_adapter)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, SIZE);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION call = {.hDevice = device, .NumAllocations = 1,
        .pAllocationInfo2 = &info,
        .Flags = {.CreateResource = 1, .CreateShared = 1, .CrossAdapter = cross_adapter & 1}};
    CHECK(D3DKMTCreateAllocation2(&call) == STATUS_SUCCESS);
    make_resident(info.hAllocation);
    D3DKMT_ALLOCATIONRESIDENCYSTATUS place = 0;
    D3DKMT_QUERYALLOCATIONRESIDENCY query = {.hDevice = device, .AllocationCount = 1,
        .phAllocationList = &info.hAllocation, .pResidencyStatus = &place};
    CHECK(D3DKMTQueryAllocationResidency(&query) == STATUS_SUCCESS);
    destroy((Existing){call.hResource, info.hAllocation});
    return place;
}

static D3DKMT_HANDLE create_other(void)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, SIZE);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION call = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    CHECK(D3DKMTCreateAllocation2(&call) == STATUS_SUCCESS);
    return info.hAllocation;
}

/* The GPU copies `bytes`, which are those of `it`, to another allocation and back. */
static void work_on(Existing it, uint8_t *bytes)
{
    const D3DKMT_HANDLE other = create_other();
    make_resident(it.allocation);
    make_resident(other);

    write_pattern(bytes, 1);
    copy(it.allocation, other);
    uint8_t *seen = lock(other);
    CHECK(has_pattern(seen, 1));
    write_pattern(seen, 2);
    unlock(other);

    copy(other, it.allocation);
    lock(it.allocation);
    CHECK(has_pattern(bytes, 2));
    unlock(it.allocation);

    /* The client writes between two packets, without a lock, and after an eviction. */
    write_pattern(bytes, 3);
    evict(it.allocation);
    make_resident(it.allocation);
    copy(it.allocation, other);
    CHECK(has_pattern(lock(other), 3));
    unlock(other);

    fill(it.allocation, 0x5a);
    lock(it.allocation);
    CHECK(is_filled(bytes, SIZE, 0x5a));
    unlock(it.allocation);
    destroy_allocation(device, other);
}

static uint8_t *map(size_t size)
{
    uint8_t *mapped =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    return mapped;
}

static void use_memory(void)
{
    /* The pages before and behind are not the allocation's. */
    uint8_t *memory = map(SIZE + 2 * PAGE);
    memset(memory, 0x11, SIZE + 2 * PAGE);
    uint8_t *bytes = memory + PAGE;
    Existing it;
    CHECK(create(MEMORY, bytes, SIZE, &it) == STATUS_SUCCESS);
    CHECK(is_filled(bytes, SIZE, 0x11));
    work_on(it, bytes);

    /* A lock is at the client's own address. */
    CHECK(lock(it.allocation) == bytes);
    D3DKMT_LOCK2 again = {.hDevice = device, .hAllocation = it.allocation};
    CHECK(D3DKMTLock2(&again) == STATUS_SUCCESS);
    CHECK(again.pData == bytes);
    D3DKMT_UNLOCK2 unlock_again = {.hDevice = device, .hAllocation = it.allocation};
    CHECK(D3DKMTUnlock2(&unlock_again) == STATUS_SUCCESS);
    unlock(it.allocation);

    destroy(it);
    CHECK(is_filled(bytes, SIZE, 0x5a));
    CHECK(is_filled(memory, PAGE, 0x11) && is_filled(bytes + SIZE, PAGE, 0x11));
    CHECK(munmap(memory, SIZE + 2 * PAGE) == 0);
}

/* Memory that cannot be written does for an allocation that is only read. */
static void read_memory(void)
{
    uint8_t *bytes = map(SIZE);
    write_pattern(bytes, 4);
    CHECK(mprotect(bytes, SIZE, PROT_READ) == 0);
    const D3DKMT_CREATEALLOCATIONFLAGS flags = {.ExistingSysMem = 1, .ReadOnly = 1};
    Existing it;
    CHECK(create(flags, bytes, SIZE, &it) == STATUS_SUCCESS);
    const D3DKMT_HANDLE other = create_other();
    make_resident(it.allocation);
    make_resident(other);
    copy(it.allocation, other);
    CHECK(has_pattern(lock(other), 4));
    unlock(other);
    destroy_allocation(device, other);
    destroy(it);
    CHECK(munmap(bytes, SIZE) == 0);
}

/* Mistakes of a client: each is a finding, and none is a crash. */
static void break_memory(void)
{
    uint8_t *memory = map(4 * PAGE);
    Existing it;
    CHECK(mprotect(memory + PAGE, PAGE, PROT_READ) == 0);
    CHECK(create(MEMORY, memory, SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(munmap(memory + PAGE, PAGE) == 0);
    CHECK(create(MEMORY, memory, SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(MEMORY, (void *)0x7ffffffff000, SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(MEMORY, (void *)0xffff800000000000, SIZE, &it) == STATUS_INVALID_PARAMETER);

    CHECK(create(MEMORY, memory + SIZE, SIZE, &it) == STATUS_SUCCESS);
    const D3DKMT_HANDLE other = create_other();
    make_resident(it.allocation);
    make_resident(other);
    memset(memory + SIZE, 0x77, SIZE);
    CHECK(munmap(memory + SIZE, PAGE) == 0);
    copy(it.allocation, other);
    fill(it.allocation, 0x5a);
    const uint8_t *seen = lock(other);
    CHECK(is_filled(seen, PAGE, 0) && is_filled(seen + PAGE, PAGE, 0x77));
    unlock(other);
    CHECK(is_filled(memory + SIZE + PAGE, PAGE, 0x5a));
    destroy_allocation(device, other);
    destroy(it);
}

static int create_section(size_t size)
{
    const int section = memfd_create("section", MFD_CLOEXEC);
    CHECK(section > 0 && ftruncate(section, (off_t)size) == 0);
    return section;
}

static void *handle_of(int descriptor)
{
    return (void *)(intptr_t)descriptor;
}

static void use_section(void)
{
    const int section = create_section(SIZE + PAGE);
    uint8_t *bytes =
        mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, section, 0);
    CHECK(bytes != MAP_FAILED);
    memset(bytes, 0x11, SIZE + PAGE);
    Existing it;
    CHECK(create(SECTION, handle_of(section), SIZE, &it) == STATUS_SUCCESS);
    /* The allocation keeps the section. */
    CHECK(close(section) == 0);
    work_on(it, bytes);

    /* A lock is a view of its own, of the same bytes. */
    uint8_t *view = lock(it.allocation);
    CHECK(view != bytes && is_filled(view, SIZE, 0x5a));
    write_pattern(view, 9);
    CHECK(has_pattern(bytes, 9));
    unlock(it.allocation);

    destroy(it);
    CHECK(has_pattern(bytes, 9) && is_filled(bytes + SIZE, PAGE, 0x11));
    CHECK(munmap(bytes, SIZE + PAGE) == 0);
}

static void break_section(void)
{
    Existing it;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    const int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    /* No sections: a pipe, a file, a number that is not open, a pointer, NULL. */
    CHECK(create(SECTION, handle_of(pipes[0]), SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(SECTION, handle_of(file), SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(SECTION, handle_of(9999), SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(SECTION, &it, SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(create(SECTION, NULL, SIZE, &it) == STATUS_INVALID_PARAMETER);

    /* Too short; then made shorter while the GPU uses it. */
    const int section = create_section(PAGE);
    CHECK(create(SECTION, handle_of(section), SIZE, &it) == STATUS_INVALID_PARAMETER);
    CHECK(ftruncate(section, SIZE) == 0);
    CHECK(create(SECTION, handle_of(section), SIZE, &it) == STATUS_SUCCESS);
    make_resident(it.allocation);
    CHECK(ftruncate(section, PAGE) == 0);
    fill(it.allocation, 0x5a);
    lock(it.allocation);
    unlock(it.allocation);
    uint8_t last = 0;
    CHECK(pread(section, &last, 1, PAGE - 1) == 1 && last == 0x5a);
    CHECK(lseek(section, 0, SEEK_END) == PAGE);
    destroy(it);
}

/* Ends while the GPU has much to do with the memory. */
static void be_killed(void)
{
    Existing it;
    CHECK(create(MEMORY, map(SIZE), SIZE, &it) == STATUS_SUCCESS);
    make_resident(it.allocation);
    for (int i = 0; i < 100; i++) {
        fill(it.allocation, (uint8_t)i);
    }
    CHECK(kill(getpid(), SIGKILL) == 0);
    pause();
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    begin();
    if (strcmp(arguments[1], "memory") == 0) {
        use_memory();
        read_memory();
        CHECK(place_of(0) == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINGPUMEMORY);
        CHECK(place_of(1) == D3DKMT_ALLOCATIONRESIDENCYSTATUS_RESIDENTINSHAREDMEMORY);
    } else if (strcmp(arguments[1], "broken") == 0) {
        break_memory();
    } else if (strcmp(arguments[1], "section") == 0) {
        use_section();
    } else if (strcmp(arguments[1], "broken section") == 0) {
        break_section();
    } else if (strcmp(arguments[1], "forbidden") == 0) {
        Existing it;
        CHECK(create(MEMORY, map(SIZE), SIZE, &it) == STATUS_NOT_SUPPORTED);
    } else if (strcmp(arguments[1], "killed") == 0) {
        be_killed();
    } else {
        CHECK(!"a known part");
    }
    end();
    printf("done\n");
    return EXIT_SUCCESS;
}
