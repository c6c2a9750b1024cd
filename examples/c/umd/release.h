/* Destruction of resources. */
#ifndef UMD_RELEASE_H
#define UMD_RELEASE_H

#include "lock.h"

static HRESULT deallocate(Device *device, HANDLE resource, UINT count, const D3DKMT_HANDLE *list)
{
    D3DDDICB_DEALLOCATE args = {
        .hResource = resource, .NumAllocations = count, .HandleList = list};
    return device->call.pfnDeallocateCb(device->runtime, &args);
}

/* The flawed versions. Returns whether the release is complete. */
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

/* Unlocks and deallocates all allocations together with their resource. */
static HRESULT release(Device *device, Resource *resource)
{
    HRESULT result = S_OK;
    if (!resource->in_video) {
        return result;
    }
    for (UINT i = 0; i < resource->count && FLAW != FREES_LOCKED; i++) {
        Surface *it = &resource->surfaces[i];
        result = both(result, it->seen != NULL ? unsee(device, it) : S_OK);
        HRESULT ended = S_OK;
        while (it->asyncs > 0 && SUCCEEDED(ended)) {
            ended = unsee_async(device, it);
        }
        result = both(result, ended);
    }
    HRESULT released;
    if (!release_badly(device, resource, &released)) {
        released = deallocate(device, resource->runtime, 0, NULL);
    }
    resource->in_video = FAILED(released);
    return both(result, released);
}

/* A resource whose release fails is kept for the next attempt. */
static HRESULT release_list(Device *device, Resource **list, bool last)
{
    HRESULT result = S_OK;
    Resource *kept = NULL;
    while (*list != NULL) {
        Resource *resource = *list;
        *list = resource->next;
        result = both(result, release(device, resource));
        if (resource->in_video && !last) {
            push(&kept, resource);
        } else {
            free(resource);
        }
    }
    *list = kept;
    return result;
}

/* After an error the resource still exists and can be destroyed again. */
static HRESULT APIENTRY destroy_resource(HANDLE handle, HANDLE which)
{
    Device *device = (Device *)handle;
    Resource *resource = (Resource *)which;
    HRESULT result = S_OK;
    if (FLAW == FAILS_ODDLY) {
        return E_NOTIMPL;
    }
    if (resource->used == device->batch.number && FLAW != RELEASES_BEFORE_FLUSH) {
        result = hand_over(device);
        if (FAILED(result)) {
            return result;
        }
    }
    /* The GPU may still use it: defer the release. A primary is not deferred. */
    bool later = resource->used > device->flushed && resource->in_video && !resource->primary;
    bool hasty = FLAW == RELEASES_BEFORE_FLUSH || FLAW == FREES_AND_FAILS;
    if (FLAW == DEFERS_FOREVER || (later && !hasty)) {
        take_out(&device->alive, resource);
        push(&device->deferred, resource);
        return S_OK;
    }
    result = release(device, resource);
    if (resource->in_video) {
        return result;
    }
    take_out(&device->alive, resource);
    free(resource);
    return FLAW == FREES_AND_FAILS ? E_OUTOFMEMORY : S_OK;
}

static HRESULT APIENTRY flush(HANDLE handle)
{
    Device *device = (Device *)handle;
    HRESULT result = hand_over(device);
    device->flushed = device->batch.number - 1;
    if (FLAW == DEFERS_FOREVER) {
        return result;
    }
    return both(result, release_list(device, &device->deferred, false));
}

static HRESULT APIENTRY flush1(HANDLE handle, UINT flags)
{
    (void)flags;
    return flush(handle);
}

#endif
