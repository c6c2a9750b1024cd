/* Resources: creation, priority and residency. */
#ifndef UMD_RESOURCE_H
#define UMD_RESOURCE_H

#include "release.h"

static Resource *new_resource(UINT count, HANDLE runtime)
{
    Resource *resource =
        (Resource *)calloc(1, sizeof(Resource) + (size_t)count * sizeof(Surface));
    if (resource != NULL) {
        resource->count = count;
        resource->runtime = runtime;
    }
    return resource;
}

/* Waits until paging work has completed. */
static HRESULT wait_paging(Device *device, uint64_t value)
{
    D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU args = {
        .ObjectCount = 1,
        .ObjectHandleArray = &device->paging.hSyncObject,
        .FenceValueArray = &value,
    };
    return device->call.pfnWaitForSynchronizationObjectFromCpuCb(device->runtime, &args);
}

/* From WDDM 2 on, the driver makes its surfaces resident and maps them. E_PENDING is not an
 * error: the operation completes with the fence. */
static HRESULT bring(Device *device, Surface *surface)
{
    if (device->paging.hPagingQueue == 0) {
        return S_OK;
    }
    D3DDDI_MAKERESIDENT resident = {
        .hPagingQueue = device->paging.hPagingQueue,
        .NumAllocations = 1,
        .AllocationList = &surface->allocation,
    };
    HRESULT result = device->call.pfnMakeResidentCb(device->runtime, &resident);
    if (result == E_PENDING) {
        result = wait_paging(device, resident.PagingFenceValue);
    }
    if (FAILED(result) || device->way != ADDRESSED) {
        return result;
    }
    D3DDDI_MAPGPUVIRTUALADDRESS map = {
        .hPagingQueue = device->paging.hPagingQueue,
        .hAllocation = surface->allocation,
        .SizeInPages = surface->bytes / PAGE,
        .Protection = {.Value = 1}, /* Write */
    };
    result = device->call.pfnMapGpuVirtualAddressCb(device->runtime, &map);
    if (result == E_PENDING) {
        result = wait_paging(device, map.PagingFenceValue);
    }
    surface->address = map.VirtualAddress;
    return result;
}

/* All surfaces with one pfnAllocateCb, which names the runtime's resource. */
static HRESULT allocate(Device *device, Resource *resource, UINT source)
{
    UINT count = resource->count;
    D3DDDI_ALLOCATIONINFO *infos = (D3DDDI_ALLOCATIONINFO *)calloc(count, sizeof *infos);
    uint8_t(*privates)[WINDTUNNEL_DESCRIPTION_SIZE] = malloc(count * sizeof *privates);
    HRESULT result = E_OUTOFMEMORY;
    if (infos != NULL && privates != NULL) {
        for (UINT i = 0; i < count; i++) {
            const Surface *it = &resource->surfaces[i];
            windtunnel_describe(privates[i], it->bytes);
            infos[i].pPrivateDriverData = privates[i];
            infos[i].PrivateDriverDataSize = WINDTUNNEL_DESCRIPTION_SIZE;
            infos[i].VidPnSourceId = resource->primary ? source : 0;
            infos[i].Flags.Primary = resource->primary;
        }
        D3DDDICB_ALLOCATE args = {
            .hResource = resource->runtime,
            .NumAllocations = count,
            .pAllocationInfo = infos,
        };
        result = device->call.pfnAllocateCb(device->runtime, &args);
    }
    resource->in_video = SUCCEEDED(result);
    for (UINT i = 0; i < count && SUCCEEDED(result); i++) {
        resource->surfaces[i].allocation = resource->surfaces[i].newest = infos[i].hAllocation;
    }
    for (UINT i = 0; i < count && SUCCEEDED(result); i++) {
        result = bring(device, &resource->surfaces[i]);
    }
    if (FAILED(result) && resource->in_video) {
        release(device, resource); /* The first error is returned. */
    }
    free(privates);
    free(infos);
    return result;
}

/* Fills in the surface. Returns whether it can be created. */
static bool shape_surface(Surface *it, const D3DDDI_SURFACEINFO *info, bool system)
{
    uint64_t pitch = (uint64_t)info->Width * PIXEL;
    uint64_t slice = pitch * (info->Height > 0 ? info->Height : 1);
    uint64_t bytes = slice * (info->Depth > 0 ? info->Depth : 1);
    if (info->Width == 0 || pitch > UINT32_MAX || slice > UINT32_MAX || bytes / slice > UINT16_MAX
        || (system && info->pSysMem == NULL)) {
        return false;
    }
    it->width = info->Width;
    it->height = info->Height > 0 ? info->Height : 1;
    it->pitch = system ? info->SysMemPitch : (UINT)pitch;
    it->slice = system ? info->SysMemSlicePitch : (UINT)slice;
    it->bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    it->system = system ? (uint8_t *)(uintptr_t)info->pSysMem : NULL;
    return true;
}

/* Buffers have one error, unless it is about memory. */
static HRESULT for_buffer(HRESULT result)
{
    bool told = result == E_OUTOFMEMORY || result == D3DERR_OUTOFVIDEOMEMORY
        || result == D3DDDIERR_DEVICEREMOVED;
    return told ? result : D3DERR_NOTAVAILABLE;
}

/* Creates a resource and replaces the runtime's handle by the driver's. */
static HRESULT APIENTRY create_resource2(HANDLE handle, D3DDDIARG_CREATERESOURCE2 *args)
{
    Device *device = (Device *)handle;
    if (args->SurfCount == 0 || args->pSurfList == NULL) {
        return E_INVALIDARG;
    }
    Resource *resource = new_resource(args->SurfCount, args->hResource);
    if (resource == NULL) {
        return E_OUTOFMEMORY;
    }
    resource->shared = args->Flags.SharedResource;
    resource->primary = args->Flags.Primary;
    resource->displayable = args->Flags.Primary || args->Flags2.IsDisplayable;
    bool system = args->Pool == D3DDDIPOOL_SYSTEMMEM;
    HRESULT result = S_OK;
    for (UINT i = 0; i < args->SurfCount && SUCCEEDED(result); i++) {
        bool good = shape_surface(&resource->surfaces[i], &args->pSurfList[i], system);
        result = good ? S_OK : E_INVALIDARG;
    }
    if (SUCCEEDED(result) && !system) {
        result = allocate(device, resource, args->VidPnSourceId);
    }
    if (FAILED(result)) {
        free(resource);
        bool buffer = args->Flags.VertexBuffer || args->Flags.IndexBuffer;
        return buffer ? for_buffer(result) : result;
    }
    push(&device->alive, resource);
    args->hResource = resource;
    return S_OK;
}

/* The older structure has all members but the last. */
static HRESULT APIENTRY create_resource(HANDLE handle, D3DDDIARG_CREATERESOURCE *args)
{
    D3DDDIARG_CREATERESOURCE2 newer = {.Flags2 = {.Value = 0}};
    memcpy(&newer, args, sizeof *args);
    HRESULT result = create_resource2(handle, &newer);
    args->hResource = newer.hResource;
    return result;
}

/* The allocations of a shared resource exist already; only their handles are new. Only the size
 * of a surface is known: its private data has no more. */
static HRESULT APIENTRY open_resource(HANDLE handle, D3DDDIARG_OPENRESOURCE *args)
{
    Device *device = (Device *)handle;
    UINT count = args->NumAllocations;
    if (count == 0) {
        return E_INVALIDARG;
    }
    Resource *resource = new_resource(count, args->hResource);
    if (resource == NULL) {
        return E_OUTOFMEMORY;
    }
    resource->in_video = resource->shared = true;
    HRESULT result = S_OK;
    for (UINT i = 0; i < count && SUCCEEDED(result); i++) {
        const D3DDDI_OPENALLOCATIONINFO *info = &args->pOpenAllocationInfo[i];
        Surface *it = &resource->surfaces[i];
        it->allocation = it->newest = info->hAllocation;
        if (info->PrivateDriverDataSize != WINDTUNNEL_DESCRIPTION_SIZE) {
            result = E_INVALIDARG;
            break;
        }
        memcpy(&it->bytes, (const uint8_t *)info->pPrivateDriverData + 8, sizeof it->bytes);
        it->loose = true;
        result = bring(device, it);
    }
    if (FAILED(result)) {
        free(resource); /* The runtime closes what this driver did not open. */
        return result;
    }
    push(&device->alive, resource);
    args->hResource = resource;
    return S_OK;
}

static HRESULT APIENTRY set_priority(HANDLE handle, const D3DDDIARG_SETPRIORITY *args)
{
    Device *device = (Device *)handle;
    const Resource *resource = (const Resource *)args->hResource;
    if (resource == NULL || !resource->in_video) {
        return resource == NULL ? E_INVALIDARG : S_OK;
    }
    D3DDDICB_SETPRIORITY call = {.hResource = resource->runtime, .pPriorities = &args->Priority};
    return device->call.pfnSetPriorityCb(device->runtime, &call);
}

/* Returns the status of the farthest allocation. */
static HRESULT APIENTRY query_residency(HANDLE handle,
                                        const D3DDDIARG_QUERYRESOURCERESIDENCY *args)
{
    Device *device = (Device *)handle;
    HRESULT farthest = S_OK;
    for (UINT i = 0; i < args->NumResources; i++) {
        const Resource *resource = (const Resource *)args->pHandleList[i];
        if (resource == NULL) {
            return E_INVALIDARG;
        }
        if (!resource->in_video) {
            continue;
        }
        D3DDDI_RESIDENCYSTATUS status = D3DDDI_RESIDENCYSTATUS_NOTRESIDENT;
        D3DDDICB_QUERYRESIDENCY call = {
            .hResource = resource->runtime, .pResidencyStatus = &status};
        HRESULT result = device->call.pfnQueryResidencyCb(device->runtime, &call);
        if (FAILED(result)) {
            return result;
        }
        if (status == D3DDDI_RESIDENCYSTATUS_NOTRESIDENT) {
            farthest = S_NOT_RESIDENT;
        } else if (status == D3DDDI_RESIDENCYSTATUS_RESIDENTINSHAREDMEMORY
                   && farthest == S_OK) {
            farthest = S_RESIDENT_IN_SHARED_MEMORY;
        }
    }
    return farthest;
}

#endif
