/* A client whose server ends while it waits: every call returns that the device is removed. */
#include "client.h"

#include <stdio.h>

int main(void)
{
    D3DKMT_ADAPTERINFO adapters[4] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 4, .pAdapters = adapters};
    NTSTATUS status = D3DKMTEnumAdapters2(&list);
    if (status == STATUS_SUCCESS) {
        D3DKMT_HANDLE device = create_device(adapters[0].hAdapter);
        D3DKMT_CREATESYNCHRONIZATIONOBJECT2 fence = {.hDevice = device};
        fence.Info.Type = D3DDDI_MONITORED_FENCE;
        CHECK(D3DKMTCreateSynchronizationObject2(&fence) == STATUS_SUCCESS);
        puts("waiting");
        fflush(stdout);
        uint64_t value = 1;
        D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {
            .hDevice = device, .ObjectCount = 1, .ObjectHandleArray = &fence.hSyncObject,
            .FenceValueArray = &value};
        CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_DEVICE_REMOVED);
        D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
        CHECK(D3DKMTDestroyDevice(&destroy) == STATUS_DEVICE_REMOVED);
    }
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_DEVICE_REMOVED);
    puts("removed");
    return 0;
}
