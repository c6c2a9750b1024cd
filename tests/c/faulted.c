/* A client whose packet faults: its allocation is not resident. It waits for the fence that the GPU was to
   signal behind the packet. A second thread stays outside, and could signal the fence. */
#include "client.h"

#include <pthread.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void *stay(void *unused)
{
    pause();
    return unused;
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter(), device = create_device(adapter);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stay, NULL) == 0);
    alarm(60); /* A wait that does not end. */
    D3DKMT_CREATECONTEXTVIRTUAL create = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&create) == STATUS_SUCCESS);
    D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device};
    fence.Info.Type = D3DDDI_MONITORED_FENCE;
    CHECK(D3DKMTCreateSynchronizationObject2(&fence) == STATUS_SUCCESS);
    D3DKMT_HANDLE allocation = create_allocation(device);

    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, allocation, 0, PAGE, 0xa5);
    D3DKMT_SUBMITCOMMAND submit = {.BroadcastContextCount = 1,
        .BroadcastContext = {create.hContext}, .pPrivateDriverData = packet,
        .PrivateDriverDataSize = sizeof packet};
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
    uint64_t value = 1;
    D3DKMT_SIGNALSYNCHRONIZATIONOBJECTFROMGPU signal = {.hContext = create.hContext,
        .ObjectCount = 1, .ObjectHandleArray = &fence.hSyncObject,
        .MonitoredFenceValueArray = &value};
    NTSTATUS signalled = D3DKMTSignalSynchronizationObjectFromGpu(&signal);
    /* The packet may have faulted by now. */
    CHECK(signalled == STATUS_SUCCESS || signalled == STATUS_DEVICE_REMOVED);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &fence.hSyncObject, .FenceValueArray = &value};
    NTSTATUS waited = D3DKMTWaitForSynchronizationObjectFromCpu(&wait);
    CHECK(waited == STATUS_SUCCESS || waited == STATUS_DEVICE_REMOVED);
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_DEVICE_REMOVED);
    puts("the wait returned");

    destroy_allocation(device, allocation);
    D3DKMT_DESTROYSYNCHRONIZATIONOBJECT end_fence = {.hSyncObject = fence.hSyncObject};
    CHECK(D3DKMTDestroySynchronizationObject(&end_fence) == STATUS_SUCCESS);
    D3DKMT_DESTROYCONTEXT end = {.hContext = create.hContext};
    CHECK(D3DKMTDestroyContext(&end) == STATUS_SUCCESS);
    destroy_device(device);
    close_adapter(adapter);
    return EXIT_SUCCESS;
}
