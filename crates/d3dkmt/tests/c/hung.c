/* Work that never ends: whoever waits for it is answered, and so is the end of the process. */
#include "client.h"

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = create_device(adapter);
    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&context) == STATUS_SUCCESS);
    const uint32_t hang[] = {1, 3};
    D3DKMT_SUBMITCOMMAND submit = {
        .BroadcastContextCount = 1,
        .BroadcastContext = {context.hContext},
        .pPrivateDriverData = (void *)hang,
        .PrivateDriverDataSize = sizeof hang,
    };
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
    D3DKMT_HANDLE allocation = create_allocation(device);
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &allocation, .AllocationCount = 1,
        .Flags = {.SynchronousDestroy = 1}};
    printf("waiting for it: 0x%08x\n", (unsigned)D3DKMTDestroyAllocation2(&destroy));
    return EXIT_SUCCESS;
}
