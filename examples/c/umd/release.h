/* The end of resources. */
#ifndef UMD_RELEASE_H
#define UMD_RELEASE_H

#include "lock.h"

static HRESULT deallocate(Device *device, HANDLE resource, UINT count, const D3DKMT_HANDLE *list)
{
    D3DDDICB_DEALLOCATE args = {
        .hResource = resource, .NumAllocations = count, .HandleList = list};
    return device->call.pfnDeallocateCb(device->runtime, &args);
}

/* How not to do it. Answers whether there is nothing left to do. */
static bool release_badly(Device *device, Resource *resource, HRESULT *result)
{
    UINT count = resource->count;
    D3DKMT_HANDLE *list = (D3DKMT_HANDLE *)calloc(count, sizeof *list);
    if (list == NULL) {
        return false;
    }
    for (UINT i = 0; i < count; i++) {
        list[i] = resource->surfaces[i].allocation;
    }
    bool done = true;
    if (FLAW == FREES_THE_LIST_ONLY) {
        *result = deallocate(device, NULL, count, list);
    } else if (FLAW == FREES_ONE_OF_GROUP) {
        *result = deallocate(device, NULL, 1, list);
    } else if (FLAW == FREES_ONE_BY_ONE) {
        for (UINT i = 0; i < count; i++) {
            *result = deallocate(device, NULL, 1, &list[i]);
        }
    } else if (FLAW == RESOURCE_AND_LIST) {
        *result = deallocate(device, resource->runtime, count, list);
    } else if (FLAW == FREES_TWICE) {
        *result = deallocate(device, resource->runtime, 0, NULL);
        deallocate(device, resource->runtime, 0, NULL);
    } else {
        done = false;
    }
    free(list);
    return done;
}

/* Gives the allocations back: unlocked, all of them, and the resource with them. */
static HRESULT release(Device *device, Resource *resource)
{
    HRESULT result = S_OK;
    if (!resource->in_video) {
        return result;
    }
    for (UINT i = 0; i < resource->count && FLAW != FREES_LOCKED; i++) {
        Surface *it = &resource->surfaces[i];
        if (it->seen != NULL) {
            unsee(device, it);
        }
        if (it->async != 0) {
            D3DDDICB_UNLOCK unlock = {.NumAllocations = 1, .phAllocations = &it->async};
            device->call.pfnUnlockCb(device->runtime, &unlock);
            it->async = 0;
        }
    }
    resource->in_video = false;
    if (release_badly(device, resource, &result)) {
        return result;
    }
    return deallocate(device, resource->runtime, 0, NULL);
}

static HRESULT release_list(Device *device, Resource **list)
{
    HRESULT result = S_OK;
    while (*list != NULL) {
        Resource *resource = *list;
        *list = resource->next;
        HRESULT released = release(device, resource);
        result = FAILED(result) ? result : released;
        free(resource);
    }
    return result;
}

static HRESULT APIENTRY destroy_resource(HANDLE handle, HANDLE which)
{
    Device *device = (Device *)handle;
    Resource *resource = (Resource *)which;
    if (FLAW == FAILS_ODDLY) {
        return E_NOTIMPL;
    }
    HRESULT result = S_OK;
    if (resource->used == device->batch.number && FLAW != RELEASES_BEFORE_FLUSH) {
        result = hand_over(device);
        if (FAILED(result) && result != D3DDDIERR_DEVICEREMOVED) {
            return result; /* It is still there, and its end can be asked for again. */
        }
    }
    take_out(&device->alive, resource);
    /* The GPU may be at it still: nobody has to wait for that now. A primary is not kept. */
    bool later = resource->used > device->flushed && resource->in_video && !resource->primary;
    bool hasty = FLAW == RELEASES_BEFORE_FLUSH || FLAW == FREES_AND_FAILS;
    if (FLAW == DEFERS_FOREVER || (later && !hasty)) {
        push(&device->deferred, resource);
        return result;
    }
    HRESULT released = release(device, resource);
    free(resource);
    if (FLAW == FREES_AND_FAILS) {
        return E_OUTOFMEMORY;
    }
    return FAILED(result) ? result : released;
}

static HRESULT APIENTRY flush(HANDLE handle)
{
    Device *device = (Device *)handle;
    HRESULT result = hand_over(device);
    device->flushed = device->batch.number - 1;
    if (FLAW == DEFERS_FOREVER) {
        return result;
    }
    HRESULT released = release_list(device, &device->deferred);
    return FAILED(result) ? result : released;
}

static HRESULT APIENTRY flush1(HANDLE handle, UINT flags)
{
    (void)flags;
    return flush(handle);
}

#endif
