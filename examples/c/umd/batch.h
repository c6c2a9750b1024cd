/* Batches: commands that wait for submission, and the allocations they use. */
#ifndef UMD_BATCH_H
#define UMD_BATCH_H

#include "objects.h"

#define COUNT_SIZE 4u /* a packet begins with the number of its commands */
#define LARGEST_COMMAND 36u

static void begin_batch(Batch *batch)
{
    batch->number++;
    batch->length = COUNT_SIZE;
    batch->list_length = batch->patches_length = batch->count = 0;
    batch->primaries_length = 0;
}

/* Submits the buffers of a context and takes the new ones: after each pfnRenderCb, failed or
 * not, the old buffers must not be used. */
static HRESULT render(Device *device)
{
    Batch *batch = &device->batch;
    D3DDDICB_RENDER args = {
        .CommandLength = batch->length,
        .NumAllocations = batch->list_length,
        .NumPatchLocations = batch->patches_length,
        .hContext = device->context,
    };
    HRESULT result = device->call.pfnRenderCb(device->runtime, &args);
    batch->commands = (uint8_t *)args.pNewCommandBuffer;
    batch->size = args.NewCommandBufferSize;
    batch->list = args.pNewAllocationList;
    batch->list_size = args.NewAllocationListSize;
    batch->patches = args.pNewPatchLocationList;
    batch->patches_size = args.NewPatchLocationListSize;
    return result;
}

/* Submits without lists: the packet is private data. */
static HRESULT submit(Device *device)
{
    D3DDDICB_SUBMITCOMMAND args = {
        .BroadcastContextCount = 1,
        .BroadcastContext = {device->context},
        .pPrivateDriverData = device->batch.commands,
        .PrivateDriverDataSize = device->batch.length,
        .NumPrimaries = device->batch.primaries_length,
    };
    memcpy(args.WrittenPrimaries, device->batch.primaries,
           device->batch.primaries_length * sizeof device->batch.primaries[0]);
    return device->call.pfnSubmitCommandCb(device->runtime, &args);
}

static HRESULT send_batch(Device *device)
{
    return device->way == LISTED ? render(device) : submit(device);
}

typedef struct Errand {
    Device *device;
    HRESULT result;
} Errand;

static void *send_elsewhere(void *argument)
{
    Errand *errand = (Errand *)argument;
    errand->result = send_batch(errand->device);
    return NULL;
}

/* Submits the batch, if it is not empty, and begins another one. */
static HRESULT hand_over(Device *device)
{
    Batch *batch = &device->batch;
    if (batch->count == 0) {
        return S_OK;
    }
    memcpy(batch->commands, &batch->count, COUNT_SIZE);
    Errand errand = {.device = device, .result = E_FAIL};
    if (FLAW == WRONG_THREAD) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, send_elsewhere, &errand) == 0) {
            pthread_join(thread, NULL);
        }
    }
    if (FLAW != WRONG_THREAD || FAILED(errand.result)) {
        errand.result = send_batch(device);
    }
    begin_batch(batch); /* A failed batch is dropped: it would fail again. */
    return errand.result;
}

static bool has_room(const Device *device, UINT uses)
{
    const Batch *batch = &device->batch;
    return batch->length + LARGEST_COMMAND <= batch->size
        && batch->primaries_length < D3DDDI_MAX_WRITTEN_PRIMARIES
        && (device->way != LISTED
            || (batch->list_length + uses <= batch->list_size
                && batch->patches_length + uses <= batch->patches_size));
}

/* Makes room for a command that uses this many allocations. */
static HRESULT make_room(Device *device, UINT uses)
{
    HRESULT result = has_room(device, uses) ? S_OK : hand_over(device);
    return SUCCEEDED(result) && !has_room(device, uses) ? E_FAIL : result;
}

static void write_word(Batch *batch, uint32_t word)
{
    memcpy(batch->commands + batch->length, &word, sizeof word);
    batch->length += sizeof word;
}

static void write_long(Batch *batch, uint64_t number)
{
    memcpy(batch->commands + batch->length, &number, sizeof number);
    batch->length += sizeof number;
}

/* An allocation in a command is its index in the list. Only the list selects the instance of a
 * renamed allocation. */
static uint32_t listed(UINT index)
{
    return index << 6 | 1;
}

/* Records that commands write a primary: each submission lists its written primaries. */
static void note_primary(Batch *batch, D3DKMT_HANDLE allocation)
{
    UINT index = 0;
    while (index < batch->primaries_length && batch->primaries[index] != allocation) {
        index++;
    }
    if (index == batch->primaries_length) {
        batch->primaries[batch->primaries_length++] = allocation;
    }
}

/* Writes the target of a command: an offset in a listed allocation, or an address. */
static void write_place(Device *device, Resource *resource, const Surface *surface,
                        uint64_t offset, bool writes)
{
    Batch *batch = &device->batch;
    resource->used = batch->number;
    if (writes && resource->displayable) {
        note_primary(batch, surface->allocation);
    }
    if (device->way == ADDRESSED) {
        write_long(batch, surface->address + offset);
        return;
    }
    uint32_t name = surface->allocation;
    if (device->way == LISTED) {
        UINT index = 0;
        while (index < batch->list_length
               && batch->list[index].hAllocation != surface->allocation) {
            index++;
        }
        if (index == batch->list_length) {
            batch->list[batch->list_length++] =
                (D3DDDI_ALLOCATIONLIST){.hAllocation = surface->allocation};
        }
        batch->list[index].Value |= writes ? 1u : 0u; /* WriteOperation */
        batch->patches[batch->patches_length++] = (D3DDDI_PATCHLOCATIONLIST){
            .AllocationIndex = index,
            .AllocationOffset = (UINT)offset,
            .PatchOffset = batch->length,
        };
        name = listed(index);
    }
    write_word(batch, name);
    write_long(batch, offset);
}

#define FILL 1u
#define COPY 2u
#define FILL_AT 5u
#define COPY_AT 6u

static HRESULT fill(Device *device, Resource *resource, const Surface *surface, uint64_t offset,
                    uint64_t length, uint8_t value)
{
    HRESULT result = make_room(device, 1);
    if (FAILED(result)) {
        return result;
    }
    Batch *batch = &device->batch;
    write_word(batch, device->way == ADDRESSED ? FILL_AT : FILL);
    write_place(device, resource, surface, offset, true);
    write_long(batch, length);
    batch->commands[batch->length++] = value;
    batch->count++;
    return S_OK;
}

static HRESULT copy(Device *device, Resource *from, const Surface *from_surface,
                    uint64_t from_offset, Resource *to, const Surface *to_surface,
                    uint64_t to_offset, uint64_t length)
{
    HRESULT result = make_room(device, 2);
    if (FAILED(result)) {
        return result;
    }
    Batch *batch = &device->batch;
    write_word(batch, device->way == ADDRESSED ? COPY_AT : COPY);
    write_place(device, from, from_surface, from_offset, false);
    write_place(device, to, to_surface, to_offset, true);
    write_long(batch, length);
    batch->count++;
    return S_OK;
}

#endif
