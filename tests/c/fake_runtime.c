/*
 * A fake runtime: it loads a user-mode driver, calls it, and prints the driver's callbacks.
 * Its GPU executes each packet at once, and its memory is the heap.
 *
 *     fake_runtime DRIVER FLAGS STORY
 *
 * FLAGS are the capabilities that the adapter reports: 1 lists, 2 addresses, 4 memory.
 */
#define _POSIX_C_SOURCE 200809L

#include <windtunnel/d3dumddi.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(that)                                                                               \
    do {                                                                                          \
        if (!(that)) {                                                                            \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #that);                    \
            fflush(NULL);                                                                         \
            _Exit(EXIT_FAILURE);                                                                  \
        }                                                                                         \
    } while (0)

#define MOST 256u
#define PLACE 0x100000000ull /* the address of allocation 0, and the distance between allocations */

typedef struct Allocation {
    uint8_t *bytes;
    uint64_t size;
    HANDLE resource;
    UINT locks;
} Allocation;

static Allocation allocations[MOST]; /* by handle; 0 is invalid */
static UINT next_handle = 1;
static UINT adapter_flags;
static pthread_t home; /* the thread that is inside the driver */

/* The failure that the next callback of a kind returns. */
static HRESULT fail_render, fail_allocate, fail_lock, fail_unlock, fail_deallocate;

static int device_name, context_name; /* their addresses are the runtime's handles */
static char resource_names[MOST];

static HRESULT taken(HRESULT *fail)
{
    HRESULT result = *fail;
    *fail = S_OK;
    return result;
}

static void said(const char *what)
{
    const char *where = pthread_equal(pthread_self(), home) ? "" : ", elsewhere";
    printf("%s%s\n", what, where);
}

/* ---- The buffers of a context: new ones with each call ---------------------------------- */

#define COMMANDS 256u
#define LIST 4u
#define PATCHES 6u

static void *buffers[3];

static void turn_buffers(void)
{
    static const size_t sizes[3] = {
        COMMANDS, LIST * sizeof(D3DDDI_ALLOCATIONLIST), PATCHES * sizeof(D3DDDI_PATCHLOCATIONLIST)};
    for (int i = 0; i < 3; i++) {
        void *next = malloc(sizes[i]);
        CHECK(next != NULL);
        memset(next, 0xee, sizes[i]);
        free(buffers[i]); /* A sanitizer detects later uses. */
        buffers[i] = next;
    }
}

/* ---- The GPU ---------------------------------------------------------------------------- */

typedef struct Reader {
    const uint8_t *at, *end;
} Reader;

static uint64_t take(Reader *reader, size_t size)
{
    uint64_t number = 0;
    CHECK((size_t)(reader->end - reader->at) >= size);
    memcpy(&number, reader->at, size);
    reader->at += size;
    return number;
}

static uint8_t *place(Reader *reader, bool addressed, const D3DDDICB_RENDER *render,
                      uint64_t *room)
{
    uint32_t handle;
    uint64_t offset;
    if (addressed) {
        uint64_t address = take(reader, 8);
        handle = (uint32_t)(address / PLACE) - 1;
        offset = address % PLACE;
    } else {
        handle = (uint32_t)take(reader, 4);
        offset = take(reader, 8);
    }
    if (render != NULL) { /* Allocations are named by their index in the list. */
        const D3DDDI_ALLOCATIONLIST *list = (const D3DDDI_ALLOCATIONLIST *)buffers[1];
        CHECK((handle & 63) == 1 && handle >> 6 < render->NumAllocations);
        handle = list[handle >> 6].hAllocation;
    }
    CHECK(handle > 0 && handle < MOST && allocations[handle].bytes != NULL);
    CHECK(offset <= allocations[handle].size);
    *room = allocations[handle].size - offset;
    return allocations[handle].bytes + offset;
}

static void run(const uint8_t *bytes, size_t length, const D3DDDICB_RENDER *render)
{
    Reader reader = {bytes, bytes + length};
    uint64_t count = take(&reader, 4), room, from_room;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t code = take(&reader, 4);
        bool addressed = code >= 5;
        CHECK(addressed == ((adapter_flags & 3) == 2));
        if (code == 1 || code == 5) {
            uint8_t *to = place(&reader, addressed, render, &room);
            uint64_t size = take(&reader, 8);
            CHECK(size <= room);
            memset(to, (int)take(&reader, 1), size);
        } else {
            CHECK(code == 2 || code == 6);
            const uint8_t *from = place(&reader, addressed, render, &from_room);
            uint8_t *to = place(&reader, addressed, render, &room);
            uint64_t size = take(&reader, 8);
            CHECK(size <= room && size <= from_room);
            memmove(to, from, size);
        }
    }
    CHECK(reader.at == reader.end);
}

/* ---- Callbacks -------------------------------------------------------------------------- */

static HRESULT APIENTRY query_adapter(HANDLE adapter, const D3DDDICB_QUERYADAPTERINFO *args)
{
    const uint32_t numbers[3] = {1, adapter_flags, 2};
    CHECK(adapter != NULL && args->PrivateDriverDataSize == 32);
    memset(args->pPrivateDriverData, 0, 32);
    memcpy(args->pPrivateDriverData, "WTUM", 4);
    memcpy((uint8_t *)args->pPrivateDriverData + 4, numbers, sizeof numbers);
    return S_OK;
}

static D3DKMT_HANDLE new_allocation(uint64_t size, HANDLE resource)
{
    CHECK(next_handle < MOST);
    Allocation *it = &allocations[next_handle];
    it->bytes = (uint8_t *)calloc(1, size);
    it->size = size;
    it->resource = resource;
    CHECK(it->bytes != NULL);
    return next_handle++;
}

static HRESULT APIENTRY allocate(HANDLE device, D3DDDICB_ALLOCATE *args)
{
    CHECK(device == &device_name && args->hResource != NULL);
    printf("allocate %u\n", args->NumAllocations);
    if (FAILED(fail_allocate)) {
        return taken(&fail_allocate);
    }
    for (UINT i = 0; i < args->NumAllocations; i++) {
        uint64_t size;
        CHECK(args->pAllocationInfo[i].PrivateDriverDataSize == 16);
        const uint8_t *private = (const uint8_t *)args->pAllocationInfo[i].pPrivateDriverData;
        CHECK(memcmp(private, "WTSG\1\0\0\0", 8) == 0);
        memcpy(&size, private + 8, 8);
        CHECK(size > 0 && size % 4096 == 0);
        args->pAllocationInfo[i].hAllocation = new_allocation(size, args->hResource);
    }
    args->hKMResource = 77;
    return S_OK;
}

static void free_allocation(D3DKMT_HANDLE handle)
{
    CHECK(handle > 0 && handle < MOST);
    free(allocations[handle].bytes);
    allocations[handle] = (Allocation){0};
}

static HRESULT APIENTRY deallocate(HANDLE device, const D3DDDICB_DEALLOCATE *args)
{
    CHECK(device == &device_name);
    const char *both = args->hResource != NULL && args->NumAllocations > 0 ? " and" : "";
    printf("deallocate%s%s", args->hResource != NULL ? " resource" : "", both);
    if (args->NumAllocations > 0) {
        printf(" list of %u", args->NumAllocations);
    }
    if (FAILED(fail_deallocate)) {
        printf(", refused\n");
        return taken(&fail_deallocate);
    }
    UINT locked = 0, left = 0;
    for (UINT i = 0; i < args->NumAllocations; i++) {
        locked += allocations[args->HandleList[i]].locks;
        free_allocation(args->HandleList[i]);
    }
    for (UINT i = 1; i < next_handle; i++) {
        if (args->hResource != NULL && allocations[i].resource == args->hResource) {
            locked += allocations[i].locks;
            free_allocation(i);
            left++;
        }
    }
    bool nothing = args->hResource != NULL && args->NumAllocations == 0 && left == 0;
    printf("%s%s\n", locked > 0 ? ", locked" : "", nothing ? ", which is gone" : "");
    return S_OK;
}

static HRESULT APIENTRY render(HANDLE device, D3DDDICB_RENDER *args)
{
    CHECK(device == &device_name && args->hContext == &context_name);
    CHECK(args->CommandLength <= COMMANDS && args->NumAllocations <= LIST);
    CHECK(args->NumPatchLocations <= PATCHES);
    const D3DDDI_PATCHLOCATIONLIST *patches = (const D3DDDI_PATCHLOCATIONLIST *)buffers[2];
    for (UINT i = 0; i < args->NumPatchLocations; i++) {
        CHECK(patches[i].AllocationIndex < args->NumAllocations);
    }
    said("render");
    HRESULT result = taken(&fail_render);
    if (SUCCEEDED(result)) {
        run((const uint8_t *)buffers[0], args->CommandLength, args);
    }
    turn_buffers();
    args->pNewCommandBuffer = buffers[0];
    args->NewCommandBufferSize = COMMANDS;
    args->pNewAllocationList = (D3DDDI_ALLOCATIONLIST *)buffers[1];
    args->NewAllocationListSize = LIST;
    args->pNewPatchLocationList = (D3DDDI_PATCHLOCATIONLIST *)buffers[2];
    args->NewPatchLocationListSize = PATCHES;
    return result;
}

static HRESULT APIENTRY submit(HANDLE device, const D3DDDICB_SUBMITCOMMAND *args)
{
    CHECK(device == &device_name && args->BroadcastContextCount == 1);
    CHECK(args->BroadcastContext[0] == &context_name);
    said("render");
    HRESULT result = taken(&fail_render);
    if (SUCCEEDED(result)) {
        run((const uint8_t *)args->pPrivateDriverData, args->PrivateDriverDataSize, NULL);
    }
    return result;
}

static HRESULT APIENTRY lock(HANDLE device, D3DDDICB_LOCK *args)
{
    CHECK(device == &device_name && args->hAllocation < MOST && args->Flags.LockEntire);
    printf("lock%s%s\n", args->Flags.Discard ? " discard" : "",
           args->Flags.NoExistingReference ? " for good" : "");
    if (FAILED(fail_lock)) {
        return taken(&fail_lock);
    }
    Allocation *it = &allocations[args->hAllocation];
    CHECK(it->bytes != NULL);
    if (args->Flags.Discard && !args->Flags.NoExistingReference) {
        args->hAllocation = new_allocation(it->size, it->resource);
        it = &allocations[args->hAllocation];
    }
    it->locks++;
    args->pData = it->bytes;
    return S_OK;
}

static HRESULT APIENTRY unlock(HANDLE device, const D3DDDICB_UNLOCK *args)
{
    CHECK(device == &device_name && args->NumAllocations == 1);
    CHECK(allocations[args->phAllocations[0]].locks > 0);
    if (FAILED(fail_unlock)) {
        return taken(&fail_unlock);
    }
    allocations[args->phAllocations[0]].locks--;
    printf("unlock\n");
    return S_OK;
}

static HRESULT APIENTRY create_context(HANDLE device, D3DDDICB_CREATECONTEXT *args)
{
    CHECK(device == &device_name);
    turn_buffers();
    args->hContext = &context_name;
    args->pCommandBuffer = buffers[0];
    args->CommandBufferSize = COMMANDS;
    args->pAllocationList = (D3DDDI_ALLOCATIONLIST *)buffers[1];
    args->AllocationListSize = LIST;
    args->pPatchLocationList = (D3DDDI_PATCHLOCATIONLIST *)buffers[2];
    args->PatchLocationListSize = PATCHES;
    return S_OK;
}

static HRESULT APIENTRY create_virtual(HANDLE device, D3DDDICB_CREATECONTEXTVIRTUAL *args)
{
    CHECK(device == &device_name);
    args->hContext = &context_name;
    return S_OK;
}

static HRESULT APIENTRY destroy_context(HANDLE device, const D3DDDICB_DESTROYCONTEXT *args)
{
    CHECK(device == &device_name && args->hContext == &context_name);
    printf("no context\n");
    return S_OK;
}

static HRESULT APIENTRY create_queue(HANDLE device, D3DDDICB_CREATEPAGINGQUEUE *args)
{
    CHECK(device == &device_name);
    args->hPagingQueue = 201;
    args->hSyncObject = 202;
    return S_OK;
}

static HRESULT APIENTRY destroy_queue(HANDLE device, const D3DDDI_DESTROYPAGINGQUEUE *args)
{
    CHECK(device == &device_name && args->hPagingQueue == 201);
    return S_OK;
}

static uint64_t paging_value;

static HRESULT APIENTRY make_resident(HANDLE device, D3DDDI_MAKERESIDENT *args)
{
    CHECK(device == &device_name && args->hPagingQueue == 201 && args->NumAllocations > 0);
    args->PagingFenceValue = ++paging_value;
    return E_PENDING;
}

static HRESULT APIENTRY map_address(HANDLE device, D3DDDI_MAPGPUVIRTUALADDRESS *args)
{
    CHECK(device == &device_name && args->hPagingQueue == 201);
    CHECK(args->SizeInPages * 4096 == allocations[args->hAllocation].size);
    args->VirtualAddress = (args->hAllocation + 1) * PLACE;
    args->PagingFenceValue = ++paging_value;
    return E_PENDING;
}

static HRESULT APIENTRY wait_paging(HANDLE device,
                                    const D3DDDICB_WAITFORSYNCHRONIZATIONOBJECTFROMCPU *args)
{
    CHECK(device == &device_name && args->ObjectCount == 1 && args->ObjectHandleArray[0] == 202);
    CHECK(args->FenceValueArray[0] == paging_value);
    return S_OK;
}

static HRESULT APIENTRY set_priority(HANDLE device, D3DDDICB_SETPRIORITY *args)
{
    CHECK(device == &device_name && args->hResource != NULL && args->NumAllocations == 0);
    printf("priority %u\n", args->pPriorities[0]);
    return S_OK;
}

static HRESULT APIENTRY query_residency(HANDLE device, const D3DDDICB_QUERYRESIDENCY *args)
{
    CHECK(device == &device_name && args->hResource != NULL);
    args->pResidencyStatus[0] = D3DDDI_RESIDENCYSTATUS_RESIDENTINSHAREDMEMORY;
    return S_OK;
}

static const D3DDDI_DEVICECALLBACKS callbacks = {
    .pfnAllocateCb = allocate,
    .pfnDeallocateCb = deallocate,
    .pfnSetPriorityCb = set_priority,
    .pfnQueryResidencyCb = query_residency,
    .pfnRenderCb = render,
    .pfnLockCb = lock,
    .pfnUnlockCb = unlock,
    .pfnCreateContextCb = create_context,
    .pfnDestroyContextCb = destroy_context,
    .pfnCreateContextVirtualCb = create_virtual,
    .pfnSubmitCommandCb = submit,
    .pfnCreatePagingQueueCb = create_queue,
    .pfnDestroyPagingQueueCb = destroy_queue,
    .pfnMakeResidentCb = make_resident,
    .pfnMapGpuVirtualAddressCb = map_address,
    .pfnWaitForSynchronizationObjectFromCpuCb = wait_paging,
};

/* ---- The application -------------------------------------------------------------------- */

static D3DDDI_ADAPTERFUNCS adapter_table;
static D3DDDI_DEVICEFUNCS table;
static HANDLE adapter, device;

static void open_all(const char *path)
{
    static const D3DDDI_ADAPTERCALLBACKS adapter_callbacks = {
        .pfnQueryAdapterInfoCb = query_adapter};
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(EXIT_FAILURE);
    }
    void *symbol = dlsym(library, "OpenAdapter");
    PFND3DDDI_OPENADAPTER open_adapter;
    CHECK(symbol != NULL);
    memcpy(&open_adapter, &symbol, sizeof symbol);
    D3DDDIARG_OPENADAPTER open = {
        .hAdapter = &adapter,
        .Interface = 9,
        .Version = D3D_UMD_INTERFACE_VERSION_WDDM2_0,
        .pAdapterCallbacks = &adapter_callbacks,
        .pAdapterFuncs = &adapter_table,
    };
    CHECK(open_adapter(&open) == S_OK && open.hAdapter != (HANDLE)&adapter);
    adapter = open.hAdapter;
    D3DDDIARG_CREATEDEVICE create = {
        .hDevice = &device_name,
        .Interface = 9,
        .Version = D3D_UMD_INTERFACE_VERSION_WDDM2_0,
        .pCallbacks = &callbacks,
        .pDeviceFuncs = &table,
    };
    CHECK(adapter_table.pfnCreateDevice(adapter, &create) == S_OK);
    device = create.hDevice;
    CHECK(device != NULL && device != &device_name);
}

static void close_all(void)
{
    printf("DestroyDevice\n");
    CHECK(SUCCEEDED(table.pfnDestroyDevice(device)));
    UINT left = 0;
    for (UINT i = 1; i < next_handle; i++) {
        left += allocations[i].bytes != NULL;
    }
    printf("%u allocations left\nCloseAdapter\n", left);
    CHECK(adapter_table.pfnCloseAdapter(adapter) == S_OK);
}

#define WIDTH 32u
#define HEIGHT 64u

static HRESULT create(HANDLE name, UINT count, uint8_t *system, HANDLE *made)
{
    D3DDDI_SURFACEINFO surfaces[4] = {0};
    for (UINT i = 0; i < count; i++) {
        surfaces[i].Width = WIDTH;
        surfaces[i].Height = HEIGHT;
        surfaces[i].pSysMem = system;
        surfaces[i].SysMemPitch = system != NULL ? WIDTH * 4 : 0;
    }
    D3DDDIARG_CREATERESOURCE args = {
        .Format = D3DDDIFMT_X8R8G8B8,
        .Pool = system != NULL ? D3DDDIPOOL_SYSTEMMEM : D3DDDIPOOL_VIDEOMEMORY,
        .pSurfList = surfaces,
        .SurfCount = count,
        .hResource = name,
    };
    HRESULT result = table.pfnCreateResource(device, &args);
    CHECK((result == S_OK) == (args.hResource != name));
    *made = args.hResource;
    return result;
}

static HRESULT fill(HANDLE resource, UINT index, RECT rect, UINT color)
{
    D3DDDIARG_COLORFILL args = {
        .hResource = resource, .SubResourceIndex = index, .DstRect = rect, .Color = color};
    return table.pfnColorFill(device, &args);
}

static HRESULT blt(HANDLE from, UINT from_index, HANDLE to, UINT to_index, RECT rect)
{
    D3DDDIARG_BLT args = {
        .hSrcResource = from,
        .SrcSubResourceIndex = from_index,
        .SrcRect = rect,
        .hDstResource = to,
        .DstSubResourceIndex = to_index,
        .DstRect = rect,
    };
    return table.pfnBlt(device, &args);
}

static HRESULT see(HANDLE resource, UINT index, D3DDDI_LOCKFLAGS flags, uint8_t **bytes)
{
    D3DDDIARG_LOCK args = {.hResource = resource, .SubResourceIndex = index, .Flags = flags};
    HRESULT result = table.pfnLock(device, &args);
    CHECK(FAILED(result) || args.Pitch == WIDTH * 4);
    *bytes = (uint8_t *)args.pSurfData;
    return result;
}

static HRESULT unsee(HANDLE resource, UINT index)
{
    D3DDDIARG_UNLOCK args = {.hResource = resource, .SubResourceIndex = index};
    return table.pfnUnlock(device, &args);
}

static const RECT WHOLE = {0, 0, WIDTH, HEIGHT};
static const RECT PART = {4, 8, 12, 40}; /* more rows than one batch holds */
static const D3DDDI_LOCKFLAGS PLAIN = {.Value = 0};

/* A resource is created, used, and destroyed while the batch names it. */
static void life(void)
{
    HANDLE resource;
    uint8_t *bytes;
    CHECK(create(&resource_names[1], 2, NULL, &resource) == S_OK);
    CHECK(see(resource, 0, PLAIN, &bytes) == S_OK);
    bytes[0] = 1;
    CHECK(unsee(resource, 0) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x22222222) == S_OK);
    printf("DestroyResource\n");
    HRESULT result = table.pfnDestroyResource(device, resource);
    printf("answers 0x%08x\nFlush\n", (unsigned)result);
    CHECK(table.pfnFlush(device) == S_OK);
}

/* Pictures are right, whether the GPU or the CPU draws. */
static void draws(void)
{
    HANDLE resource, other;
    uint8_t *bytes, system[WIDTH * HEIGHT * 4];
    UINT color = 0x11223344;
    CHECK(create(&resource_names[1], 2, NULL, &resource) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x55555555) == S_OK);
    CHECK(fill(resource, 0, PART, 0x66666666) == S_OK);
    CHECK(blt(resource, 0, resource, 1, WHOLE) == S_OK);
    CHECK(blt(resource, 0, resource, 1, PART) == S_OK);
    CHECK(see(resource, 1, PLAIN, &bytes) == S_OK);
    CHECK(bytes[0] == 0x55 && bytes[8 * WIDTH * 4 + 16] == 0x66 && bytes[8 * WIDTH * 4] == 0x55);
    CHECK(bytes[WIDTH * HEIGHT * 4 - 1] == 0x55);
    CHECK(unsee(resource, 1) == S_OK);
    memset(system, 0x77, sizeof system);
    CHECK(create(&resource_names[2], 1, system, &other) == S_OK);
    CHECK(fill(other, 0, PART, color) == S_OK);
    CHECK(memcmp(system + 8 * WIDTH * 4 + 16, &color, 4) == 0 && system[0] == 0x77);
    CHECK(blt(other, 0, resource, 0, WHOLE) == S_OK);
    CHECK(fill(resource, 0, PART, 0x01020304) == S_OK);
    CHECK(see(resource, 0, PLAIN, &bytes) == S_OK);
    CHECK(bytes[0] == 0x77 && bytes[8 * WIDTH * 4 + 16] == 4);
    CHECK(unsee(resource, 0) == S_OK);
    D3DDDIARG_SETPRIORITY priority = {.hResource = resource, .Priority = 5};
    CHECK(table.pfnSetPriority(device, &priority) == S_OK);
    D3DDDIARG_QUERYRESOURCERESIDENCY query = {.pHandleList = &resource, .NumResources = 1};
    CHECK(table.pfnQueryResourceResidency(device, &query) == S_RESIDENT_IN_SHARED_MEMORY);
    CHECK(fill(resource, 2, WHOLE, 0) == E_INVALIDARG); /* The surface does not exist. */
    CHECK(fill(resource, 0, (RECT){0, 0, WIDTH + 1, 1}, 0) == E_INVALIDARG);
    CHECK(table.pfnDestroyResource(device, other) == S_OK);
    /* DestroyDevice releases the rest. */
}

static void locks(void)
{
    HANDLE resource;
    uint8_t *first, *second;
    D3DDDI_LOCKFLAGS discard = {.Discard = 1};
    CHECK(create(&resource_names[1], 1, NULL, &resource) == S_OK);
    CHECK(unsee(resource, 0) == E_INVALIDARG);
    CHECK(see(resource, 0, PLAIN, &first) == S_OK && see(resource, 0, PLAIN, &second) == S_OK);
    CHECK(first == second);
    CHECK(unsee(resource, 0) == S_OK && unsee(resource, 0) == S_OK);
    CHECK(unsee(resource, 0) == E_INVALIDARG);
    /* Another instance, which the next commands use. */
    CHECK(fill(resource, 0, WHOLE, 0) == S_OK);
    CHECK(see(resource, 0, discard, &second) == S_OK);
    CHECK(unsee(resource, 0) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x88888888) == S_OK && table.pfnFlush(device) == S_OK);
    CHECK(second[0] == 0x88);
    /* No instance is free; the batch is submitted, then this one is reused. */
    CHECK(fill(resource, 0, WHOLE, 0) == S_OK);
    fail_lock = D3DERR_OUTOFVIDEOMEMORY;
    HRESULT result = see(resource, 0, discard, &second);
    CHECK((adapter_flags & 1) != 0 ? result == S_OK : result == D3DERR_OUTOFVIDEOMEMORY);
    /* Commands use the memory of LockAsync after Rename. */
    if ((adapter_flags & 1) != 0) {
        CHECK(unsee(resource, 0) == S_OK);
        D3DDDIARG_LOCKASYNC async = {.hResource = resource, .Flags = {.Discard = 1}};
        CHECK(table.pfnLockAsync(device, &async) == S_OK && async.pSurfData != second);
        D3DDDIARG_UNLOCKASYNC end = {.hResource = resource};
        CHECK(table.pfnUnlockAsync(device, &end) == S_OK);
        CHECK(table.pfnUnlockAsync(device, &end) == E_INVALIDARG);
        CHECK(fill(resource, 0, WHOLE, 0x11111111) == S_OK);
        D3DDDIARG_RENAME rename = {.hResource = resource, .hCookie = async.hCookie};
        CHECK(table.pfnRename(device, &rename) == S_OK);
        CHECK(fill(resource, 0, WHOLE, 0x99999999) == S_OK && table.pfnFlush(device) == S_OK);
        CHECK(second[0] == 0x11 && ((uint8_t *)async.pSurfData)[0] == 0x99);
        /* Two locks end one by one; the driver ends the rest. */
        D3DDDIARG_LOCKASYNC again = {.hResource = resource, .Flags = {.NoOverwrite = 1}};
        CHECK(table.pfnLockAsync(device, &again) == S_OK);
        CHECK(table.pfnLockAsync(device, &again) == S_OK);
        fail_unlock = E_OUTOFMEMORY;
        CHECK(table.pfnUnlockAsync(device, &end) == E_OUTOFMEMORY);
        CHECK(table.pfnUnlockAsync(device, &end) == S_OK);
        CHECK(table.pfnUnlockAsync(device, &end) == S_OK);
        CHECK(table.pfnUnlockAsync(device, &end) == E_INVALIDARG);
        CHECK(table.pfnLockAsync(device, &again) == S_OK);
        CHECK(table.pfnLockAsync(device, &again) == S_OK);
    }
    /* Destroyed while locked: the driver unlocks it first. */
    CHECK((adapter_flags & 1) == 0 || see(resource, 0, PLAIN, &second) == S_OK);
    CHECK(table.pfnFlush(device) == S_OK);
    CHECK(table.pfnDestroyResource(device, resource) == S_OK);
}

/* The failure of a callback is returned unchanged, and the driver continues. */
static void errors(void)
{
    const HRESULT marker = (HRESULT)0x88760123u;
    HANDLE resource;
    uint8_t *bytes;
    fail_allocate = marker;
    CHECK(create(&resource_names[1], 2, NULL, &resource) == marker);
    CHECK(create(&resource_names[1], 2, NULL, &resource) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x33333333) == S_OK);
    fail_render = marker;
    CHECK(table.pfnFlush(device) == marker);
    CHECK(table.pfnFlush(device) == S_OK); /* It is not submitted again. */
    CHECK(fill(resource, 0, WHOLE, 0x44444444) == S_OK);
    fail_render = marker;
    CHECK(table.pfnDestroyResource(device, resource) == marker);
    fail_lock = marker;
    CHECK(see(resource, 0, PLAIN, &bytes) == marker);
    /* A locked surface is mapped again, and unlocked once. */
    CHECK(see(resource, 0, PLAIN, &bytes) == S_OK);
    fail_unlock = marker;
    CHECK(unsee(resource, 0) == marker);
    CHECK(see(resource, 0, PLAIN, &bytes) == S_OK && unsee(resource, 0) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x44444444) == S_OK && table.pfnFlush(device) == S_OK);
    fail_deallocate = marker;
    CHECK(table.pfnDestroyResource(device, resource) == marker);
    CHECK(table.pfnDestroyResource(device, resource) == S_OK); /* It still existed. */
    CHECK(create(&resource_names[2], 1, NULL, &resource) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x44444444) == S_OK);
    fail_render = D3DDDIERR_DEVICEREMOVED;
    CHECK(table.pfnDestroyResource(device, resource) == D3DDDIERR_DEVICEREMOVED);
    CHECK(table.pfnDestroyResource(device, resource) == S_OK);
    /* The same for a deferred release. */
    CHECK(create(&resource_names[3], 1, NULL, &resource) == S_OK);
    CHECK(fill(resource, 0, WHOLE, 0x44444444) == S_OK);
    CHECK(table.pfnDestroyResource(device, resource) == S_OK);
    fail_deallocate = marker;
    CHECK(table.pfnFlush(device) == marker && table.pfnFlush(device) == S_OK);
}

int main(int count, char **arguments)
{
    static const struct {
        const char *name;
        void (*tell)(void);
    } stories[] = {{"life", life}, {"draws", draws}, {"locks", locks}, {"errors", errors}};
    CHECK(count == 4);
    home = pthread_self();
    adapter_flags = (UINT)atoi(arguments[2]);
    open_all(arguments[1]);
    bool told = false;
    for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
        if (strcmp(stories[i].name, arguments[3]) == 0) {
            stories[i].tell();
            told = true;
        }
    }
    CHECK(told);
    close_all();
    for (int i = 0; i < 3; i++) {
        free(buffers[i]);
    }
    for (UINT i = 1; i < next_handle; i++) {
        free(allocations[i].bytes);
    }
    return EXIT_SUCCESS;
}
