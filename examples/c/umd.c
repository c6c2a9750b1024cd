/*
 * A whole user-mode display driver (UMD) of the Direct3D 9 kind, for the built-in GPU.
 *
 *     cargo xtask install --prefix DIR
 *     gcc -std=c11 -shared -fPIC -pthread -I DIR/include examples/c/umd.c -o umd.so
 *
 * A runtime loads it and calls OpenAdapter; every other function is in the tables that are
 * filled in there and in create_device. Functions of both sides are called as on Windows
 * (APIENTRY). An error of a callback is always returned unchanged.
 *
 * The life of a surface:
 *   - CreateResource creates all surfaces of a resource with one pfnAllocateCb, one allocation
 *     each;
 *   - Blt and ColorFill write commands into a batch, which lists the allocations it uses;
 *   - Flush submits the batch (pfnRenderCb or pfnSubmitCommandCb);
 *   - DestroyResource submits the batch first if the batch uses the resource. A resource that
 *     the GPU may still use is released with the next Flush, any other at once: with one
 *     pfnDeallocateCb that names the resource.
 *
 * Work is submitted in one of three ways; the adapter's private data selects it (see Way).
 *
 * With -DFLAW=..., one of umd/flaws.h, it is a bad driver, for tests of the verifier.
 */
#include "umd/draw.h"
#include "umd/resource.h"

/* ---- Devices ---------------------------------------------------------------------------- */

#define OWN_BUFFER 1024u

/* Creates a context: submission needs one. */
static HRESULT create_context(Device *device)
{
    Batch *batch = &device->batch;
    HRESULT result;
    if (device->way == LISTED) {
        D3DDDICB_CREATECONTEXT args = {.EngineAffinity = 1};
        result = device->call.pfnCreateContextCb(device->runtime, &args);
        device->context = args.hContext;
        batch->commands = (uint8_t *)args.pCommandBuffer;
        batch->size = args.CommandBufferSize;
        batch->list = args.pAllocationList;
        batch->list_size = args.AllocationListSize;
        batch->patches = args.pPatchLocationList;
        batch->patches_size = args.PatchLocationListSize;
    } else {
        batch->commands = (uint8_t *)malloc(OWN_BUFFER);
        batch->size = OWN_BUFFER;
        if (batch->commands == NULL) {
            return E_OUTOFMEMORY;
        }
        D3DDDICB_CREATECONTEXTVIRTUAL args = {.EngineAffinity = 1};
        result = device->call.pfnCreateContextVirtualCb(device->runtime, &args);
        device->context = args.hContext;
        if (SUCCEEDED(result)
            && (device->adapter->blob.flags & (HAS_ADDRESSES | HAS_MEMORY)) != 0) {
            result = device->call.pfnCreatePagingQueueCb(device->runtime, &device->paging);
        }
    }
    return result;
}

/* Undoes the completed part of the creation. */
static HRESULT end_device(Device *device)
{
    HRESULT result = S_OK;
    if (device->paging.hPagingQueue != 0) {
        D3DDDI_DESTROYPAGINGQUEUE args = {.hPagingQueue = device->paging.hPagingQueue};
        result = device->call.pfnDestroyPagingQueueCb(device->runtime, &args);
    }
    if (device->context != NULL) {
        D3DDDICB_DESTROYCONTEXT args = {.hContext = device->context};
        result = both(result, device->call.pfnDestroyContextCb(device->runtime, &args));
    }
    if (device->way != LISTED) {
        free(device->batch.commands);
    }
    free(device);
    return result;
}

static HRESULT APIENTRY destroy_device(HANDLE handle)
{
    Device *device = (Device *)handle;
    if (FLAW == CALLS_AFTER_DEVICE) {
        device->adapter->late_device = device->runtime;
        device->adapter->late = device->call.pfnDeallocateCb;
    }
    HRESULT result = hand_over(device);
    if (FLAW != DEFERS_FOREVER) {
        result = both(result, release_list(device, &device->deferred, true));
        result = both(result, release_list(device, &device->alive, true));
    }
    return both(result, end_device(device));
}

static HRESULT APIENTRY create_device(HANDLE handle, D3DDDIARG_CREATEDEVICE *args)
{
    Adapter *adapter = (Adapter *)handle;
    bool wddm2 = args->Version >= D3D_UMD_INTERFACE_VERSION_WDDM2_0;
    Device *device = (Device *)calloc(1, sizeof *device);
    if (device == NULL) {
        return E_OUTOFMEMORY;
    }
    device->runtime = args->hDevice;
    device->adapter = adapter;
    /* The table of an older runtime is shorter. */
    size_t known = wddm2 ? offsetof(D3DDDI_DEVICECALLBACKS, pfnReclaimAllocations3Cb)
                         : offsetof(D3DDDI_DEVICECALLBACKS, pfnMakeResidentCb);
    memcpy(&device->call, args->pCallbacks, known);
    if ((adapter->blob.flags & HAS_LISTS) != 0) {
        device->way = LISTED;
    } else {
        device->way = (adapter->blob.flags & HAS_ADDRESSES) != 0 ? ADDRESSED : NAMED;
    }
    HRESULT result = device->way == LISTED || wddm2 ? create_context(device) : E_NOTIMPL;
    if (FAILED(result)) {
        end_device(device);
        return result;
    }
    begin_batch(&device->batch);
    D3DDDI_DEVICEFUNCS *table = args->pDeviceFuncs;
    table->pfnLock = lock;
    table->pfnUnlock = unlock;
    if (device->way == LISTED) { /* Otherwise allocations are not renamed. */
        table->pfnLockAsync = lock_async;
        table->pfnUnlockAsync = unlock_async;
        table->pfnRename = rename_surface;
    }
    table->pfnCreateResource = create_resource;
    table->pfnOpenResource = open_resource;
    table->pfnDestroyResource = destroy_resource;
    table->pfnColorFill = color_fill;
    table->pfnBlt = blt;
    table->pfnFlush = flush;
    table->pfnSetPriority = set_priority;
    table->pfnQueryResourceResidency = query_residency;
    table->pfnDestroyDevice = destroy_device;
    if (args->Version >= D3D_UMD_INTERFACE_VERSION_WDDM1_3) {
        table->pfnCreateResource2 = create_resource2;
        table->pfnFlush1 = flush1;
    }
    args->hDevice = device;
    return S_OK;
}

/* ---- Adapters --------------------------------------------------------------------------- */

/* The driver has no capabilities to report. */
static HRESULT APIENTRY get_caps(HANDLE handle, const D3DDDIARG_GETCAPS *args)
{
    (void)handle;
    if (args->pData != NULL) {
        memset(args->pData, 0, args->DataSize);
    }
    return S_OK;
}

static HRESULT APIENTRY close_adapter(HANDLE handle)
{
    Adapter *adapter = (Adapter *)handle;
    if (FLAW == CALLS_AFTER_DEVICE && adapter->late != NULL) {
        D3DDDICB_DEALLOCATE args = {.NumAllocations = 0};
        adapter->late(adapter->late_device, &args);
    }
    free(adapter);
    return S_OK;
}

HRESULT APIENTRY OpenAdapter(D3DDDIARG_OPENADAPTER *args)
{
    if (args->Interface != 9) {
        return E_INVALIDARG;
    }
    Adapter *adapter = (Adapter *)calloc(1, sizeof *adapter);
    if (adapter == NULL) {
        return E_OUTOFMEMORY;
    }
    adapter->runtime = args->hAdapter;
    D3DDDICB_QUERYADAPTERINFO query = {
        .pPrivateDriverData = &adapter->blob, .PrivateDriverDataSize = sizeof adapter->blob};
    HRESULT result = args->pAdapterCallbacks->pfnQueryAdapterInfoCb(args->hAdapter, &query);
    const Blob *blob = &adapter->blob;
    if (SUCCEEDED(result) && (memcmp(blob->magic, "WTUM", 4) != 0 || blob->version != 1)) {
        result = E_FAIL; /* The adapter of another driver. */
    }
    if (FAILED(result)) {
        free(adapter);
        return result;
    }
    args->pAdapterFuncs->pfnGetCaps = get_caps;
    args->pAdapterFuncs->pfnCreateDevice = create_device;
    args->pAdapterFuncs->pfnCloseAdapter = close_adapter;
    args->DriverVersion = D3D_UMD_INTERFACE_VERSION_WDDM2_0;
    args->hAdapter = adapter;
    return S_OK;
}
