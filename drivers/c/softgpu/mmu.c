/*
 * Virtual addresses. A table has 512 entries of eight bytes: flags in the lowest eight bits, the
 * segment in the next eight (zero is system memory), above them the number of a page. An entry of
 * level zero is a page, one above it a table.
 */
#include "driver.h"
#include "miniport.h"

#ifdef GPU_HAS_MMU

#define ENTRY_VALID 1ull
#define ENTRY_ZERO 2ull
#define ENTRY_READ_ONLY 4ull

ULONG64 GpuEncodeEntry(const DXGK_PTE *entry)
{
    ULONG64 flags = (entry->Valid ? ENTRY_VALID : 0) | (entry->Zero ? ENTRY_ZERO : 0) |
                    (entry->ReadOnly ? ENTRY_READ_ONLY : 0);

#ifdef FLAW_PAGE_NUMBER_AS_BYTES
    return flags | (ULONG64)entry->Segment << 8 | entry->PageAddress / PAGE_SIZE << 16;
#endif
    return flags | (ULONG64)entry->Segment << 8 | entry->PageAddress << 16;
}

/* Pages of system memory are mapped while they are used: one for each end of a copy. */
static PUCHAR MapSystemPage(PGPU gpu, ULONG window, ULONG64 page)
{
    PHYSICAL_ADDRESS address = {.QuadPart = (LONGLONG)(page * PAGE_SIZE)};

    GpuCloseWindow(gpu, window);
    gpu->Windows[window] = MmMapIoSpace(address, PAGE_SIZE, MmCached);
    return gpu->Windows[window];
}

void GpuCloseWindow(PGPU gpu, ULONG window)
{
    if (gpu->Windows[window] != NULL)
        MmUnmapIoSpace(gpu->Windows[window], PAGE_SIZE);
    gpu->Windows[window] = NULL;
}

static PUCHAR FindPage(PGPU gpu, ULONG segment, ULONG64 page, ULONG window)
{
    ULONG64 room;

    if (segment == 0)
        return MapSystemPage(gpu, window, page);
    return GpuFindMemory(gpu, SegmentBase(segment) + page * PAGE_SIZE, &room);
}

/* Zero if the table cannot be read. */
static ULONG64 ReadEntry(PGPU gpu, ULONG segment, ULONG64 page, ULONG index)
{
    PUCHAR table = FindPage(gpu, segment, page, TABLE_WINDOW);
    ULONG64 entry = 0;

    if (table != NULL)
        RtlCopyMemory(&entry, table + index * sizeof(entry), sizeof(entry));
    return entry;
}

/* Returns where the CPU sees a virtual address, up to the end of its page. NULL is a fault. */
PUCHAR GpuTranslate(PGPU gpu, TABLE_ROOT root, ULONG64 address, BOOLEAN write, ULONG window,
                    PULONG64 bytes)
{
    ULONG segment = root.Segment;
    ULONG64 page = root.Offset / PAGE_SIZE;
    PUCHAR memory;

    for (ULONG level = TABLE_LEVELS; level-- > 0;) {
        ULONG index = (ULONG)(address >> (PAGE_SHIFT + level * TABLE_BITS)) & TABLE_MASK;
        ULONG64 entry = ReadEntry(gpu, segment, page, index);

        if (entry & ENTRY_ZERO) {
            *bytes = PAGE_SIZE - BYTE_OFFSET(address);
            return (write ? gpu->SinkPage : gpu->ZeroPage) + BYTE_OFFSET(address);
        }
        if (!(entry & ENTRY_VALID) || (write && level == 0 && (entry & ENTRY_READ_ONLY)))
            return NULL;
        segment = (ULONG)(entry >> 8) & 0xFF;
        page = entry >> 16;
    }
    memory = FindPage(gpu, segment, page, window);
    *bytes = PAGE_SIZE - BYTE_OFFSET(address);
    return memory == NULL ? NULL : memory + BYTE_OFFSET(address);
}

/* The entry of an update for its n-th place. */
static const DXGK_PTE *EntryAt(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *update, UINT at)
{
#ifdef FLAW_INDEXES_REPEATED_ENTRY
    return &update->pPageTableEntries[at];
#else
    return &update->pPageTableEntries[update->Flags.Repeat ? 0 : at];
#endif
}

/* Tables of the paging process are written by the CPU: there is no buffer. */
static PAGED NTSTATUS UpdateByCpu(const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *update)
{
    PULONG64 table = update->PageTableAddress.CpuVirtual;

    for (UINT at = 0; at < update->NumPageTableEntries; at++)
        table[update->StartIndex + at] = GpuEncodeEntry(EntryAt(update, at));
    return STATUS_SUCCESS;
}

/* One command for each entry; MultipassOffset counts those that are written. */
PAGED NTSTATUS GpuBuildTableUpdate(DXGKARG_BUILDPAGINGBUFFER *args)
{
    const DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE *update = &args->UpdatePageTable;
    const D3DGPU_PHYSICAL_ADDRESS *table = &update->PageTableAddress.GpuPhysical;
    PGPU_COMMAND command = args->pDmaBuffer;
    UINT room = args->DmaSize / sizeof(*command);
    UINT at;

    if (update->UpdateMode == DXGK_PAGETABLEUPDATE_CPU_VIRTUAL)
        return UpdateByCpu(update);
#ifdef FLAW_UPDATES_NOTHING
    return STATUS_SUCCESS;
#endif
    for (at = args->MultipassOffset; at < update->NumPageTableEntries && room > 0; at++, room--) {
        UINT index = update->StartIndex + at;

#ifdef FLAW_IGNORES_START_INDEX
        index = at;
#endif
        RtlZeroMemory(command, sizeof(*command));
        command->Operation = GpuWriteEntry;
        command->To = SegmentBase(table->SegmentId) + table->SegmentOffset + index * sizeof(ULONG64);
        command->From = GpuEncodeEntry(EntryAt(update, at));
        command->Bytes = sizeof(ULONG64);
        command++;
    }
    args->pDmaBuffer = command;
    args->MultipassOffset = at;
    return at == update->NumPageTableEntries ? STATUS_SUCCESS
                                             : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

/* The tables have virtual addresses of the paging process. */
PAGED NTSTATUS GpuBuildEntryCopies(DXGKARG_BUILDPAGINGBUFFER *args)
{
    const DXGK_BUILDPAGINGBUFFER_COPYPAGETABLEENTRIES *copy = &args->CopyPageTableEntries;
    PGPU_COMMAND command = args->pDmaBuffer;
    UINT room = args->DmaSize / sizeof(*command);
    UINT at;

    for (at = args->MultipassOffset; at < copy->NumRanges && room > 0; at++, room--) {
        const DXGK_BUILDPAGINGBUFFER_COPY_RANGE *range = &copy->pRanges[at];

        RtlZeroMemory(command, sizeof(*command));
        command->Operation = GpuCopyVirtual;
        command->From = range->SrcPageTableAddress + range->SrcStartPteIndex * sizeof(ULONG64);
        command->To = range->DstPageTableAddress + range->DstStartPteIndex * sizeof(ULONG64);
        command->Bytes = range->NumPageTableEntries * sizeof(ULONG64);
        command++;
    }
    args->pDmaBuffer = command;
    args->MultipassOffset = at;
    return at == copy->NumRanges ? STATUS_SUCCESS : STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
}

#endif
