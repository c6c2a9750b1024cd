/* Shared code of the test clients. */
#ifndef CLIENT_H
#define CLIENT_H

#include "check.h"

#include <windtunnel/d3dkmt.h>
#include <windtunnel/softgpu.h>

static inline D3DKMT_HANDLE open_adapter(void)
{
    D3DKMT_ADAPTERINFO adapters[8] = {0};
    D3DKMT_ENUMADAPTERS2 list = {.NumAdapters = 8, .pAdapters = adapters};
    CHECK(D3DKMTEnumAdapters2(&list) == STATUS_SUCCESS);
    CHECK(list.NumAdapters == 1);
    return adapters[0].hAdapter;
}

static inline D3DKMT_HANDLE create_device(D3DKMT_HANDLE adapter)
{
    D3DKMT_CREATEDEVICE device = {.hAdapter = adapter};
    CHECK(D3DKMTCreateDevice(&device) == STATUS_SUCCESS);
    return device.hDevice;
}

static inline D3DKMT_HANDLE create_allocation(D3DKMT_HANDLE device)
{
    uint8_t description[WINDTUNNEL_DESCRIPTION_SIZE];
    windtunnel_describe(description, 4096);
    D3DDDI_ALLOCATIONINFO2 info = {
        .pPrivateDriverData = description, .PrivateDriverDataSize = sizeof description};
    D3DKMT_CREATEALLOCATION create = {
        .hDevice = device, .NumAllocations = 1, .pAllocationInfo2 = &info};
    CHECK(D3DKMTCreateAllocation2(&create) == STATUS_SUCCESS);
    return info.hAllocation;
}

static inline void destroy_allocation(D3DKMT_HANDLE device, D3DKMT_HANDLE allocation)
{
    D3DKMT_DESTROYALLOCATION2 destroy = {
        .hDevice = device, .phAllocationList = &allocation, .AllocationCount = 1};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_SUCCESS);
}

static inline void destroy_device(D3DKMT_HANDLE device)
{
    D3DKMT_DESTROYDEVICE destroy = {.hDevice = device};
    CHECK(D3DKMTDestroyDevice(&destroy) == STATUS_SUCCESS);
}

static inline void close_adapter(D3DKMT_HANDLE adapter)
{
    D3DKMT_CLOSEADAPTER close = {.hAdapter = adapter};
    CHECK(D3DKMTCloseAdapter(&close) == STATUS_SUCCESS);
}

#endif
