/* Locks: map a surface for the CPU. */
#ifndef UMD_LOCK_H
#define UMD_LOCK_H

#include "batch.h"

/* Maps a surface for the CPU after the queued work has completed. */
static HRESULT see(Device *device, Resource *resource, Surface *surface, D3DDDICB_LOCKFLAGS flags)
{
    bool discard = flags.Discard;
    if (!discard && resource->used == device->batch.number) {
        HRESULT result = hand_over(device);
        if (FAILED(result)) {
            return result;
        }
    }
    D3DDDICB_LOCK args = {.hAllocation = surface->allocation, .Flags = flags};
    args.Flags.LockEntire = 1;
    HRESULT result = device->call.pfnLockCb(device->runtime, &args);
    if (discard && FAILED(result) && result != D3DDDIERR_DEVICEREMOVED) {
        /* No other instance is available. Once the batch is submitted, this one can be used. */
        result = hand_over(device);
        if (FAILED(result)) {
            return result;
        }
        args.hAllocation = surface->allocation;
        args.Flags.NoExistingReference = 1;
        result = device->call.pfnLockCb(device->runtime, &args);
    }
    bool same = discard && !args.Flags.NoExistingReference
        && args.hAllocation == surface->allocation && resource->used == device->batch.number;
    if (SUCCEEDED(result) && same) {
        /* Allocations are not renamed here, and the batch uses this one: submit it first. */
        D3DDDICB_UNLOCK unlock = {.NumAllocations = 1, .phAllocations = &args.hAllocation};
        result = device->call.pfnUnlockCb(device->runtime, &unlock);
        flags.Discard = 0;
        return FAILED(result) ? result : see(device, resource, surface, flags);
    }
    if (SUCCEEDED(result)) {
        /* A Discard lock returns another instance, which commands use from now on. */
        surface->allocation = surface->newest = surface->seen_of = args.hAllocation;
        surface->seen = (uint8_t *)args.pData;
    }
    return result;
}

static HRESULT unsee(Device *device, Surface *surface)
{
    D3DDDICB_UNLOCK args = {.NumAllocations = 1, .phAllocations = &surface->seen_of};
    HRESULT result = device->call.pfnUnlockCb(device->runtime, &args);
    if (SUCCEEDED(result)) { /* Otherwise it is still locked. */
        surface->seen = NULL;
    }
    return result;
}

/* The latest lock of LockAsync. */
static HRESULT unsee_async(Device *device, Surface *surface)
{
    D3DDDICB_UNLOCK args = {
        .NumAllocations = 1,
        .phAllocations = &surface->async[surface->asyncs - 1],
    };
    HRESULT result = device->call.pfnUnlockCb(device->runtime, &args);
    surface->asyncs -= SUCCEEDED(result) ? 1 : 0;
    return result;
}

/* The same for the driver's own work; a locked surface stays locked. */
static HRESULT borrow(Device *device, Resource *resource, Surface *surface, uint8_t **bytes)
{
    HRESULT result = S_OK;
    if (surface->system == NULL && surface->seen == NULL) {
        result = see(device, resource, surface, (D3DDDICB_LOCKFLAGS){.Value = 0});
    }
    *bytes = surface->system != NULL ? surface->system : surface->seen;
    return result;
}

static HRESULT give_back(Device *device, Surface *surface)
{
    return surface->system == NULL && surface->locks == 0 ? unsee(device, surface) : S_OK;
}

static HRESULT APIENTRY lock(HANDLE handle, D3DDDIARG_LOCK *args)
{
    Device *device = (Device *)handle;
    Resource *resource = (Resource *)args->hResource;
    Surface *surface = surface_of(resource, args->SubResourceIndex);
    if (surface == NULL || surface->loose) { /* An opened surface cannot be locked. */
        return E_INVALIDARG;
    }
    if (surface->system == NULL && surface->seen == NULL) {
        D3DDDICB_LOCKFLAGS flags = {.Value = 0};
        flags.ReadOnly = args->Flags.ReadOnly;
        flags.WriteOnly = args->Flags.WriteOnly && !args->Flags.ReadOnly;
        flags.DonotWait = args->Flags.DoNotWait;
        /* A shared surface and a surface with an address keep their one instance. */
        flags.Discard = args->Flags.Discard && !resource->shared && device->way == LISTED;
        HRESULT result = see(device, resource, surface, flags);
        if (FAILED(result)) {
            return result;
        }
    }
    surface->locks++;
    uint8_t *bytes = surface->system != NULL ? surface->system : surface->seen;
    if (args->Flags.RangeValid) { /* Then the box is a range: offset and size. */
        bytes += args->Box.Left;
    } else if (args->Flags.AreaValid || args->Flags.BoxValid) {
        bytes += (size_t)args->Box.Top * surface->pitch + (size_t)args->Box.Left * PIXEL;
        bytes += args->Flags.BoxValid ? (size_t)args->Box.Front * surface->slice : 0;
    }
    args->pSurfData = bytes;
    args->Pitch = surface->pitch;
    args->SlicePitch = surface->slice;
    return S_OK;
}

static HRESULT APIENTRY unlock(HANDLE handle, const D3DDDIARG_UNLOCK *args)
{
    Surface *surface = surface_of((Resource *)args->hResource, args->SubResourceIndex);
    if (surface == NULL || surface->locks == 0) {
        return E_INVALIDARG;
    }
    surface->locks--;
    if (surface->locks > 0 || surface->system != NULL || FLAW == FREES_LOCKED) {
        return S_OK;
    }
    return unsee((Device *)handle, surface);
}

/* Runs on another thread than the device's other functions: it must not touch the batch, and
 * commands use another instance only after Rename. */
static HRESULT APIENTRY lock_async(HANDLE handle, D3DDDIARG_LOCKASYNC *args)
{
    Device *device = (Device *)handle;
    Resource *resource = (Resource *)args->hResource;
    Surface *surface = surface_of(resource, args->SubResourceIndex);
    if (surface == NULL || surface->loose) {
        return E_INVALIDARG;
    }
    args->Pitch = surface->pitch;
    args->SlicePitch = surface->slice;
    args->pSurfData = surface->system;
    args->hCookie = NULL;
    if (surface->system != NULL) {
        return S_OK;
    }
    if (surface->asyncs == MOST_ASYNC) {
        return E_OUTOFMEMORY;
    }
    D3DDDICB_LOCK lock = {.hAllocation = surface->newest, .Flags = {.LockEntire = 1}};
    lock.Flags.Discard = args->Flags.Discard && !resource->shared && device->way == LISTED;
    lock.Flags.NoExistingReference = lock.Flags.Discard && args->Flags.NoExistingReferences;
    HRESULT result = device->call.pfnLockCb(device->runtime, &lock);
    if (SUCCEEDED(result)) {
        surface->newest = surface->async[surface->asyncs++] = lock.hAllocation;
        args->pSurfData = lock.pData;
        args->hCookie = (HANDLE)(uintptr_t)lock.hAllocation;
    }
    return result;
}

static HRESULT APIENTRY unlock_async(HANDLE handle, const D3DDDIARG_UNLOCKASYNC *args)
{
    Surface *surface = surface_of((Resource *)args->hResource, args->SubResourceIndex);
    if (surface == NULL || (surface->system == NULL && surface->asyncs == 0)) {
        return E_INVALIDARG;
    }
    return surface->system != NULL ? S_OK : unsee_async((Device *)handle, surface);
}

static HRESULT APIENTRY rename_surface(HANDLE handle, const D3DDDIARG_RENAME *args)
{
    (void)handle;
    Surface *surface = surface_of((Resource *)args->hResource, args->SubResourceIndex);
    if (surface == NULL) {
        return E_INVALIDARG;
    }
    if (args->hCookie != NULL) {
        surface->allocation = (D3DKMT_HANDLE)(uintptr_t)args->hCookie;
    }
    return S_OK;
}

#endif
