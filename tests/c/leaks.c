/* A client that leaks its objects. */
#include "client.h"

static __attribute__((noinline)) D3DKMT_HANDLE forget_a_device(D3DKMT_HANDLE adapter)
{
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapter};
    CHECK(D3DKMTCreateDevice(&device) == STATUS_SUCCESS); /* leaked: the device */
    return device.hDevice;
}

static __attribute__((noinline)) void forget_an_allocation(D3DKMT_HANDLE device)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 4096);
    D3DDDI_ALLOCATIONINFO info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo = &info};
    CHECK(D3DKMTCreateAllocation(&create) == STATUS_SUCCESS); /* leaked: the allocation */
}

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_HANDLE device = forget_a_device(adapter);
    forget_an_allocation(device);
    destroy_allocation(device, create_allocation(device));
    D3DKMT_HANDLE made_up = 0x12345678;
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &made_up, .AllocationCount = 1};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_INVALID_PARAMETER); /* with an invalid handle */
    close_adapter(adapter);
    return EXIT_SUCCESS;
}
