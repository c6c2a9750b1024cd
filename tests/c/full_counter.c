/* A hostile client: while the server sets an event of it, a thread fills the counter of the event, so
   that a write would wait. */
#include "client.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { ROUNDS = 10000 };

static int event;
static atomic_int is_over;

static void *fill(void *unused)
{
    /* As much as an empty counter can take. */
    uint64_t most = UINT64_MAX - 1;
    while (!is_over)
        CHECK(write(event, &most, sizeof most) == sizeof most);
    return unused;
}

static void drain(void)
{
    struct pollfd wanted = {.fd = event, .events = POLLIN};
    uint64_t count;
    if (poll(&wanted, 1, 0) == 1)
        CHECK(read(event, &count, sizeof count) == sizeof count);
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter(), device = create_device(adapter);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device};
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&fence) == STATUS_SUCCESS);
    event = eventfd(0, 0);
    pthread_t filler;
    CHECK(pthread_create(&filler, NULL, fill, NULL) == 0);
    for (uint64_t value = 1; value <= ROUNDS; value++) {
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
            .ObjectHandleArray = &fence.hSyncObject, .FenceValueArray = &value,
            .hAsyncEvent = (HANDLE)(intptr_t)event};
        CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
        drain();
        D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMCPU signal = {.hDevice = device, .ObjectCount = 1,
            .ObjectHandleArray = &fence.hSyncObject, .FenceValueArray = &value};
        CHECK(D3DKMTSignalSynchronizationObjectFromCpu(&signal) == STATUS_SUCCESS);
    }
    is_over = 1;
    drain();
    CHECK(pthread_join(filler, NULL) == 0);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT destroy = {.hSyncObject = fence.hSyncObject};
    CHECK(D3DKMTDestroySynchronizationObject(&destroy) == STATUS_SUCCESS);
    destroy_device(device);
    close_adapter(adapter);
    puts("full counter: the server goes on");
    return 0;
}
