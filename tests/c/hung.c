/* Work that never ends: the GPU is reset, waiting threads continue, and the device is lost. */
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
    /* The GPU may be reset as soon as no thread is in a call: nothing can be created after that. */
    D3DKMT_HANDLE allocation = create_allocation(device);
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &allocation, .AllocationCount = 1,
        .Flags = {.SynchronousDestroy = 1}};
    printf("waiting for it: 0x%08x\n", (unsigned)D3DKMTDestroyAllocation2(&destroy));
    D3DKMT_GETDEVICESTATE state = {
        .hDevice = device, .StateType = D3DKMT_DEVICESTATE_EXECUTION};
    CHECK(D3DKMTGetDeviceState(&state) == STATUS_SUCCESS);
    printf("hung: %d\n", state.ExecutionState == D3DKMT_DEVICEEXECUTION_HUNG);
    printf("more work: 0x%08x\n", (unsigned)D3DKMTSubmitCommand(&submit));
    return EXIT_SUCCESS;
}
