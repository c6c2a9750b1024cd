/* A client whose calls are refused: a note in its report for each cause and place. */
#define _GNU_SOURCE
#include "client.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BAD STATUS_INVALID_PARAMETER

static __attribute__((noinline)) NTSTATUS destroy(D3DKMT_HANDLE device)
{
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
    return D3DKMTDestroyDevice(&destroy); /* refused: made-up devices */
}

/* Calls that fail by design, that break a rule or that use something absent: no refused calls. */
static void other_failures(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device)
{
    D3DKMT_ADAPTERINFO none;
    D3DKMT_ENUMADAPTERS3 list = {.NumAdapters = 0, .pAdapters = &none};
    CHECK(D3DKMTEnumAdapters3(&list) == STATUS_BUFFER_TOO_SMALL);
    D3DKMT_HANDLE made_up = 0x12345678;
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &made_up, .AllocationCount = 1};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == BAD); /* a finding */
    D3DKMT_ESCAPE escape = {.hAdapter = adapter, .Type = 77};
    CHECK(D3DKMTEscape(&escape) == STATUS_NOT_SUPPORTED); /* absent */
}

/* Opens a shared resource and locks its allocation. */
static NTSTATUS open_and_lock(D3DKMT_HANDLE device, D3DKMT_HANDLE global, D3DKMT_LOCK2 *lock)
{
    static uint8_t total[0x1000];
    D3DDDI_OPENALLOCATIONINFO2 info = {0};
    D3DKMT_OPENRESOURCE open = {.hDevice = device, .hGlobalShare = global, .NumAllocations = 1,
        .pOpenAllocationInfo2 = &info, .pTotalPrivateDriverDataBuffer = total,
        .TotalPrivateDriverDataBufferSize = sizeof total};
    CHECK(D3DKMTOpenResource2(&open) == STATUS_SUCCESS);
    *lock = (D3DKMT_LOCK2){.hDevice = device, .hAllocation = info.hAllocation};
    return D3DKMTLock2(lock); /* refused: another process */
}

/* Another device of this process is the creator, too; another process is not. */
static void shared_locks(D3DKMT_HANDLE adapter, D3DKMT_HANDLE device, int served)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    create.Flags.CreateResource = create.Flags.CreateShared = 1;
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    D3DKMT_LOCK2 own = {.hDevice = device, .hAllocation = info.hAllocation};
    CHECK(D3DKMTLock2(&own) == STATUS_SUCCESS);
    memcpy(own.pData, "written", 8);

    D3DKMT_HANDLE other = create_device(adapter);
    D3DKMT_LOCK2 lock;
    CHECK(open_and_lock(other, create.hGlobalShare, &lock) == STATUS_SUCCESS);
    CHECK(memcmp(lock.pData, "written", 8) == 0);
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = info.hAllocation};
    CHECK(D3DKMTUnlock2(&unlock) == STATUS_SUCCESS);
    CHECK(memcmp(lock.pData, "written", 8) == 0);
    D3DKMT_UNLOCK2 last = {.hDevice = other, .hAllocation = lock.hAllocation};
    CHECK(D3DKMTUnlock2(&last) == STATUS_SUCCESS);
    destroy_device(other);

    pid_t child = served ? fork() : -1;
    if (child == 0) {
        CHECK(open_and_lock(create_device(open_adapter()), create.hGlobalShare, &lock) == BAD);
        _exit(EXIT_SUCCESS);
    }
    int status = 0;
    CHECK(child < 0 || (waitpid(child, &status, 0) == child && status == 0));
    D3DKMT_DESTROYALLOCATION2 end = {.hDevice = device, .hResource = create.hResource};
    CHECK(D3DKMTDestroyAllocation2(&end) == STATUS_SUCCESS);
}

int main(int count, char **arguments)
{
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    for (D3DKMT_HANDLE made_up = 0x1234; made_up < 0x1237; made_up++) {
        CHECK(destroy(made_up) == BAD);
    }
    CHECK(D3DKMTDestroyContext(NULL) == BAD); /* refused: no structure */
    D3DKMT_CREATEALLOCATION create = {.hDevice = device, .NumAllocations = 1};
    CHECK(D3DKMTCreateAllocation2(&create) == BAD); /* refused: no list */
    create.pAllocationInfo2 = (D3DDDI_ALLOCATIONINFO2 *)(intptr_t)0x10;
    CHECK(D3DKMTCreateAllocation2(&create) == BAD); /* refused: an unmapped list */
    other_failures(adapter, device);
    shared_locks(adapter, device, count > 1 && strcmp(arguments[1], "served") == 0);
    destroy_device(device);
    close_adapter(adapter);
    puts("refused: all refused");
    return EXIT_SUCCESS;
}
