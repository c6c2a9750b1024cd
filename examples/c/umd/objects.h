/* The driver's objects: adapters, devices, resources and their surfaces. */
#ifndef UMD_OBJECTS_H
#define UMD_OBJECTS_H

#include "flaws.h"

#include <windtunnel/d3dumddi.h>
#include <windtunnel/softgpu.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define PAGE 4096u
#define PIXEL 4u /* bytes */

/* The miniport's private data about the adapter: flags and more. */
#define HAS_LISTS 1u
#define HAS_ADDRESSES 2u
#define HAS_MEMORY 4u

typedef struct Blob {
    char magic[4];
    uint32_t version;
    uint32_t flags;
    uint32_t nodes;
    uint32_t reserved[4];
} Blob;
WINDTUNNEL_ASSERT(sizeof(Blob) == 32);

/* How work is submitted to the GPU. */
typedef enum Way {
    LISTED,    /* pfnRenderCb: commands name allocations, which are listed beside them */
    ADDRESSED, /* pfnSubmitCommandCb: commands name virtual addresses */
    NAMED      /* pfnSubmitCommandCb: commands name allocations */
} Way;

/* ---- Objects ---------------------------------------------------------------------------- */

typedef struct Adapter {
    HANDLE runtime;
    Blob blob;
    /* Of the last device, for the flaw that calls them too late. */
    HANDLE late_device;
    PFND3DDDI_DEALLOCATECB late;
} Adapter;

/* The most LockAsync locks of a surface at once. */
#define MOST_ASYNC 8u

/* A surface: an allocation, or memory of the runtime that the CPU draws to. */
typedef struct Surface {
    UINT width, height, pitch, slice;
    uint64_t bytes;
    bool loose; /* opened, not created here: only the size is known */
    D3DKMT_HANDLE allocation; /* the instance that commands use; 0 with system memory */
    D3DKMT_HANDLE newest;     /* the instance that was locked last: see LockAsync */
    D3DGPU_VIRTUAL_ADDRESS address;
    uint8_t *system; /* the runtime's memory, if it is that */
    uint8_t *seen;   /* the CPU address of the allocation while it is locked */
    D3DKMT_HANDLE seen_of;
    D3DKMT_HANDLE async[MOST_ASYNC]; /* the instances locked by LockAsync, the latest last */
    UINT asyncs;
    UINT locks;
} Surface;

typedef struct Resource {
    struct Resource *next;
    HANDLE runtime; /* the runtime's handle, for callbacks */
    bool in_video;  /* there are allocations */
    bool shared, primary;
    bool displayable; /* a display may show it */
    uint64_t used; /* the number of the batch that used it last; 0 is none */
    UINT count;
    Surface surfaces[];
} Resource;

/* Where the next command is written. With lists the memory belongs to the context and changes
 * with each pfnRenderCb; otherwise it belongs to the driver. */
typedef struct Batch {
    uint64_t number; /* the first one is 1 */
    uint8_t *commands;
    UINT size, length;
    D3DDDI_ALLOCATIONLIST *list;
    UINT list_size, list_length;
    D3DDDI_PATCHLOCATIONLIST *patches;
    UINT patches_size, patches_length;
    UINT count; /* of commands */
    /* The primaries that they write. */
    D3DKMT_HANDLE primaries[D3DDDI_MAX_WRITTEN_PRIMARIES];
    UINT primaries_length;
} Batch;

typedef struct Device {
    HANDLE runtime;
    Adapter *adapter;
    D3DDDI_DEVICECALLBACKS call;
    Way way;
    HANDLE context;
    D3DDDICB_CREATEPAGINGQUEUE paging;
    Batch batch;
    uint64_t flushed;   /* the number of the last batch before the last Flush */
    Resource *alive;
    Resource *deferred; /* destroyed and not yet released */
} Device;

/* Of two results the one to return: the first error, unless the device is removed. */
static HRESULT both(HRESULT first, HRESULT second)
{
    return SUCCEEDED(first) || second == D3DDDIERR_DEVICEREMOVED ? second : first;
}

static void push(Resource **list, Resource *resource)
{
    resource->next = *list;
    *list = resource;
}

static void take_out(Resource **list, const Resource *resource)
{
    while (*list != NULL && *list != resource) {
        list = &(*list)->next;
    }
    if (*list != NULL) {
        *list = (*list)->next;
    }
}

static Surface *surface_of(Resource *resource, UINT index)
{
    return resource != NULL && index < resource->count ? &resource->surfaces[index] : NULL;
}

#endif
