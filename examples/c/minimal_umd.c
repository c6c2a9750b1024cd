/*
 * The smallest user-mode display driver (UMD) that is judged: it creates and destroys surfaces and
 * draws nothing.
 *
 *     cargo xtask install --prefix DIR
 *     gcc -std=c11 -shared -fPIC -I DIR/include examples/c/minimal_umd.c -o minimal.so
 *     windtunnel check --umd minimal.so softgpu-allocation-lists --scenario umd-create-and-destroy
 */
#include <stdlib.h>
#include <string.h>
#include <windtunnel/d3dumddi.h>
#include <windtunnel/softgpu.h>

#define PAGE 4096u
#define HARDWARE_INFO_SIZE 32u /* What the built-in GPU reports about itself. */

typedef struct {
    HANDLE runtime;
    PFND3DDDI_ALLOCATECB allocate;
    PFND3DDDI_DEALLOCATECB deallocate;
} Device;

typedef struct {
    HANDLE runtime;
} Resource;

/* All surfaces with one pfnAllocateCb, which names the runtime's resource. */
static HRESULT allocate(Device *device, const D3DDDIARG_CREATERESOURCE *args)
{
    UINT count = args->SurfCount;
    D3DDDI_ALLOCATIONINFO *infos = calloc(count, sizeof *infos);
    uint8_t(*privates)[WINDTUNNEL_DESCRIPTION_SIZE] = calloc(count, sizeof *privates);
    HRESULT result = E_OUTOFMEMORY;
    if (infos != NULL && privates != NULL) {
        for (UINT i = 0; i < count; i++) {
            const D3DDDI_SURFACEINFO *surface = &args->pSurfList[i];
            uint64_t bytes = (uint64_t)surface->Width * (surface->Height > 0 ? surface->Height : 1) * 4;
            windtunnel_describe(privates[i], (bytes + PAGE - 1) / PAGE * PAGE);
            infos[i].pPrivateDriverData = privates[i];
            infos[i].PrivateDriverDataSize = WINDTUNNEL_DESCRIPTION_SIZE;
        }
        D3DDDICB_ALLOCATE request = {
            .hResource = args->hResource, .NumAllocations = count, .pAllocationInfo = infos};
        result = device->allocate(device->runtime, &request);
    }
    free(privates);
    free(infos);
    return result;
}

static HRESULT APIENTRY create_resource(HANDLE handle, D3DDDIARG_CREATERESOURCE *args)
{
    Resource *resource = calloc(1, sizeof *resource);
    if (resource == NULL) {
        return E_OUTOFMEMORY;
    }
    HRESULT result = allocate((Device *)handle, args);
    if (FAILED(result)) {
        free(resource);
        return result; /* The error of a callback, unchanged. */
    }
    resource->runtime = args->hResource; /* Kept for callbacks, and replaced by the driver's. */
    args->hResource = resource;
    return S_OK;
}

static HRESULT APIENTRY destroy_resource(HANDLE handle, HANDLE resource)
{
    Device *device = (Device *)handle;
    D3DDDICB_DEALLOCATE request = {.hResource = ((Resource *)resource)->runtime};
    HRESULT result = device->deallocate(device->runtime, &request);
    free(resource);
    return result;
}

static HRESULT APIENTRY flush(HANDLE handle)
{
    (void)handle;
    return S_OK; /* There are no commands. */
}

static HRESULT APIENTRY destroy_device(HANDLE handle)
{
    free(handle);
    return S_OK;
}

static HRESULT APIENTRY create_device(HANDLE handle, D3DDDIARG_CREATEDEVICE *args)
{
    (void)handle;
    Device *device = calloc(1, sizeof *device);
    if (device == NULL) {
        return E_OUTOFMEMORY;
    }
    device->runtime = args->hDevice;
    device->allocate = args->pCallbacks->pfnAllocateCb;
    device->deallocate = args->pCallbacks->pfnDeallocateCb;
    args->pDeviceFuncs->pfnCreateResource = create_resource;
    args->pDeviceFuncs->pfnDestroyResource = destroy_resource;
    args->pDeviceFuncs->pfnFlush = flush;
    args->pDeviceFuncs->pfnDestroyDevice = destroy_device;
    args->hDevice = device;
    return S_OK;
}

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
    free(handle);
    return S_OK;
}

HRESULT APIENTRY OpenAdapter(D3DDDIARG_OPENADAPTER *args)
{
    uint8_t *adapter = calloc(1, HARDWARE_INFO_SIZE);
    if (adapter == NULL) {
        return E_OUTOFMEMORY;
    }
    /* Required before the first device is created. */
    D3DDDICB_QUERYADAPTERINFO query = {
        .pPrivateDriverData = adapter, .PrivateDriverDataSize = HARDWARE_INFO_SIZE};
    HRESULT result = args->pAdapterCallbacks->pfnQueryAdapterInfoCb(args->hAdapter, &query);
    if (FAILED(result)) {
        free(adapter);
        return result;
    }
    args->pAdapterFuncs->pfnGetCaps = get_caps;
    args->pAdapterFuncs->pfnCreateDevice = create_device;
    args->pAdapterFuncs->pfnCloseAdapter = close_adapter;
    args->DriverVersion = D3D_UMD_INTERFACE_VERSION_WDDM1_3;
    args->hAdapter = adapter;
    return S_OK;
}
