/* A client that uses what is absent, and old versions of entry points with invalid handles. */
#include "client.h"

int main(void)
{
    D3DKMT_HANDLE adapter = open_adapter();
    D3DKMT_CREATEDEVICE create = {.hAdapter = adapter};
    create.Flags.Value = 1;
    CHECK(D3DKMTCreateDevice(&create) == STATUS_SUCCESS);
    D3DKMT_HANDLE device = create.hDevice;

    D3DKMT_ESCAPE escape = {.hAdapter = adapter, .Type = 77};
    for (int i = 0; i < 2; i++) {
        CHECK(D3DKMTEscape(&escape) != STATUS_SUCCESS);
    }
    UINT answer = 0;
    D3DKMT_QUERYADAPTERINFO query = {.hAdapter = adapter, .Type = 1000,
        .pPrivateDriverData = &answer, .PrivateDriverDataSize = sizeof answer};
    CHECK(D3DKMTQueryAdapterInfo(&query) != STATUS_SUCCESS);
    for (int i = 0; i < 2; i++) {
        CHECK(D3DKMTPresent(&answer) == STATUS_NOT_SUPPORTED);
    }

    D3DKMT_HANDLE made_up = 0x12345678;
    D3DKMT_DESTROYALLOCATION destroy = {
        .hDevice = device, .phAllocationList = &made_up, .AllocationCount = 1};
    CHECK(D3DKMTDestroyAllocation(&destroy) == STATUS_INVALID_PARAMETER); /* the old destroy */
    D3DKMT_OPENRESOURCE open = {.hDevice = device, .hGlobalShare = made_up};
    CHECK(D3DKMTOpenResource2(&open) != STATUS_SUCCESS); /* the new open */

    destroy_device(device);
    close_adapter(adapter);
    return EXIT_SUCCESS;
}
