/* A client of a server that others use, too: it writes its allocations, lets them be evicted and paged
 * in, and finds the bytes that it wrote. It goes on until its standard input ends. */
#define _GNU_SOURCE
#include "client.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { ALLOCATIONS = 8, BYTES = 16384 };

static D3DKMT_HANDLE adapter, device, queue, fence, allocations[ALLOCATIONS];

/* Other clients may have all of the video memory. */
static int is_full(NTSTATUS status)
{
    return status == STATUS_NO_MEMORY || status == STATUS_GRAPHICS_CANT_EVICT_PINNED_ALLOCATION;
}

static void wait_for(uint64_t value)
{
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence, .FenceValueArray = &value};
    CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
}

/* Whether the allocation was mapped. */
static int with_bytes(int which, uint8_t value, int writes)
{
    D3DKMT_LOCK2 lock = {.hDevice = device, .hAllocation = allocations[which]};
    NTSTATUS status = D3DKMTLock2(&lock);
    if (is_full(status)) {
        return 0;
    }
    CHECK(status == STATUS_SUCCESS);
    uint8_t *bytes = lock.pData;
    for (int i = 0; i < BYTES; i++) {
        if (writes) {
            bytes[i] = (uint8_t)(value + i);
        } else {
            CHECK(bytes[i] == (uint8_t)(value + i));
        }
    }
    D3DKMT_UNLOCK2 unlock = {.hDevice = device, .hAllocation = allocations[which]};
    CHECK(D3DKMTUnlock2(&unlock) == STATUS_SUCCESS);
    return 1;
}

static void move(void)
{
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = queue, .NumAllocations = ALLOCATIONS, .AllocationList = allocations};
    NTSTATUS status = D3DKMTMakeResident(&resident);
    if (is_full(status)) {
        return;
    }
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    if (status == STATUS_PENDING) {
        wait_for(resident.PagingFenceValue);
    }
    D3DKMT_EVICT evict = {
        .hDevice = device, .NumAllocations = ALLOCATIONS, .AllocationList = allocations};
    CHECK(D3DKMTEvict(&evict) == STATUS_SUCCESS);
}

static int has_input_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) != 0;
}

int main(void)
{
    adapter = open_adapter();
    unsigned rounds = 0;
    do {
        device = create_device(adapter);
        D3DKMT_CREATEPAGINGQUEUE create = {.hDevice = device};
        CHECK(D3DKMTCreatePagingQueue(&create) == STATUS_SUCCESS);
        queue = create.hPagingQueue;
        fence = create.hSyncObject;
        int is_written[ALLOCATIONS];
        for (int i = 0; i < ALLOCATIONS; i++) {
            uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
            windtunnel_describe(description, BYTES);
            D3DDDI_ALLOCATIONINFO2 info = {
                .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
            D3DKMT_CREATEALLOCATION one = {
                .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
            CHECK(D3DKMTCreateAllocation2(&one) == STATUS_SUCCESS);
            allocations[i] = info.hAllocation;
            is_written[i] = with_bytes(i, (uint8_t)(rounds * 31 + (unsigned)i), 1);
        }
        move();
        for (int i = 0; i < ALLOCATIONS; i++) {
            if (is_written[i]) {
                (void)with_bytes(i, (uint8_t)(rounds * 31 + (unsigned)i), 0);
            }
            destroy_allocation(device, allocations[i]);
        }
        destroy_device(device);
        rounds++;
    } while (!has_input_ended());
    close_adapter(adapter);
    printf("%u rounds\nhonest: every byte was there\n", rounds);
    return EXIT_SUCCESS;
}
