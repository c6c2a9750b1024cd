/* Paging: DxgkDdiBuildPagingBuffer writes commands that the GPU's thread executes. */
#include "driver.h"
#include "miniport.h"

/* Where the CPU sees pages of a list, from one of them on. */
static PUCHAR MapList(PMDL mdl, ULONG first_page)
{
    PUCHAR address = MmGetSystemAddressForMdlSafe(mdl, NormalPagePriority | MdlMappingNoExecute);

    return address == NULL ? NULL : address + (ULONG_PTR)first_page * PAGE_SIZE;
}

static PAGED NTSTATUS BuildTransfer(const DXGKARG_BUILDPAGINGBUFFER *args, PGPU_COMMAND command)
{
    ULONG64 offset = args->Transfer.TransferOffset;
    UINT first_page = args->Transfer.MdlOffset;
    PUCHAR system;

#ifdef FLAW_TRANSFER_IGNORES_OFFSETS
    offset = 0;
    first_page = 0;
#endif
    command->Bytes = args->Transfer.TransferSize;
#ifdef FLAW_TRANSFER_SIZE
    command->Bytes = FLAW_TRANSFER_SIZE;
#endif
    command->From = args->Transfer.Source.SegmentAddress.QuadPart + offset;
    command->To = args->Transfer.Destination.SegmentAddress.QuadPart + offset;
    command->Operation = GpuCopy;
    if (args->Transfer.Source.SegmentId == 0) {
        system = MapList(args->Transfer.Source.pMdl, first_page);
        command->Operation = GpuReadSystem;
        command->From = (ULONG_PTR)system;
    } else if (args->Transfer.Destination.SegmentId == 0) {
        system = MapList(args->Transfer.Destination.pMdl, first_page);
        command->Operation = GpuWriteSystem;
        command->To = (ULONG_PTR)system;
    } else {
        return STATUS_SUCCESS;
    }
    return system == NULL ? STATUS_NO_MEMORY : STATUS_SUCCESS;
}

static PAGED NTSTATUS BuildMap(const DXGKARG_BUILDPAGINGBUFFER *args, PGPU_COMMAND command)
{
    PUCHAR system = MapList(args->MapApertureSegment.pMdl, args->MapApertureSegment.MdlOffset);

    command->Operation = GpuMap;
    command->To = args->MapApertureSegment.OffsetInPages;
#ifdef FLAW_MAPS_ONE_PAGE_OFF
    command->To++;
#endif
    command->From = (ULONG_PTR)system;
    command->Bytes = (ULONG64)args->MapApertureSegment.NumberOfPages * PAGE_SIZE;
    return system == NULL ? STATUS_NO_MEMORY : STATUS_SUCCESS;
}

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
static PAGED void NotifyResidency(const DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY *notify)
{
    PALLOCATION allocation = notify->hAllocation;
    ULONG64 base = SegmentBase(notify->PhysicalAddress.SegmentId);

#ifdef FLAW_IGNORES_RESIDENCY
    return;
#endif
    allocation->GpuAddress =
        notify->Resident ? base + notify->PhysicalAddress.SegmentOffset : 0;
}
#endif

/* One command for an operation; *written says whether there is one. */
static PAGED NTSTATUS BuildCommand(DXGKARG_BUILDPAGINGBUFFER *args, PGPU_COMMAND command,
                                   PBOOLEAN written)
{
    *written = TRUE;
    switch (args->Operation) {
    case DXGK_OPERATION_TRANSFER:
        *written = args->Transfer.TransferSize != 0;
        return *written ? BuildTransfer(args, command) : STATUS_SUCCESS;
    case DXGK_OPERATION_FILL:
        command->Operation = GpuFill;
        command->Pattern = args->Fill.FillPattern;
        command->To = args->Fill.Destination.SegmentAddress.QuadPart;
        command->Bytes = args->Fill.FillSize;
#ifdef FLAW_FILL_IGNORES_OFFSET
        command->To = SegmentBase(args->Fill.Destination.SegmentId);
#endif
#ifdef FLAW_FILL_PATTERN
        command->Pattern = FLAW_FILL_PATTERN;
#endif
        return STATUS_SUCCESS;
    case DXGK_OPERATION_MAP_APERTURE_SEGMENT:
        return BuildMap(args, command);
    case DXGK_OPERATION_UNMAP_APERTURE_SEGMENT:
        command->Operation = GpuUnmap;
        command->To = args->UnmapApertureSegment.OffsetInPages;
        command->Bytes = (ULONG64)args->UnmapApertureSegment.NumberOfPages * PAGE_SIZE;
        return STATUS_SUCCESS;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    case DXGK_OPERATION_VIRTUAL_FILL:
        command->Operation = GpuFillVirtual;
        command->Pattern = args->FillVirtual.FillPattern;
        command->To = args->FillVirtual.DestinationVirtualAddress;
        command->Bytes = args->FillVirtual.FillSizeInBytes;
        return STATUS_SUCCESS;
    case DXGK_OPERATION_VIRTUAL_TRANSFER:
        command->Operation = GpuCopyVirtual;
        command->From = args->TransferVirtual.SourceVirtualAddress;
        command->To = args->TransferVirtual.DestinationVirtualAddress;
        command->Bytes = args->TransferVirtual.TransferSizeInBytes;
        return STATUS_SUCCESS;
    case DXGK_OPERATION_NOTIFY_RESIDENCY:
        NotifyResidency(&args->NotifyResidency);
        *written = FALSE;
        return STATUS_SUCCESS;
#endif
    default: /* The contents are lost, or nothing is to be done. */
        *written = FALSE;
        return STATUS_SUCCESS;
    }
}

#ifdef GPU_HAS_MMU
/* Operations that can need several commands. */
static PAGED NTSTATUS BuildTables(DXGKARG_BUILDPAGINGBUFFER *args)
{
    PDMA_PRIVATE private_data = args->pDmaBufferPrivateData;
    NTSTATUS status;

    if (args->Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE)
        status = GpuBuildTableUpdate(args);
    else
        status = GpuBuildEntryCopies(args);
    if (args->DmaBufferPrivateDataSize >= sizeof(*private_data))
        private_data->End = args->pDmaBuffer;
    return status;
}
#endif

#ifdef PAGES_BY_CPU
#define BUILD_PAGING_BUFFER BuildPagingBuffer
static PAGED NTSTATUS
#else
#define BUILD_PAGING_BUFFER SgBuildPagingBuffer
PAGED NTSTATUS NTAPI
#endif
BUILD_PAGING_BUFFER(HANDLE context, DXGKARG_BUILDPAGINGBUFFER *args)
{
    PDMA_PRIVATE private_data = args->pDmaBufferPrivateData;
    GPU_COMMAND command = {0};
    BOOLEAN written;
    NTSTATUS status;

    UNREFERENCED_PARAMETER(context);
#ifdef GPU_HAS_MMU
    if (args->Operation == DXGK_OPERATION_UPDATE_PAGE_TABLE ||
        args->Operation == DXGK_OPERATION_COPY_PAGE_TABLE_ENTRIES)
        return BuildTables(args);
#endif
#ifdef FLAW_READS_BEHIND_ARGUMENTS
    (void)((volatile UCHAR *)args)[sizeof(*args)];
#endif
#ifdef FLAW_WRITES_BEHIND_DMA_BUFFER
    if (args->pDmaBuffer != NULL)
        ((volatile UCHAR *)args->pDmaBuffer)[args->DmaSize] = 1;
#endif
#ifdef FLAW_READS_BEFORE_DMA_BUFFER
    if (args->pDmaBuffer != NULL)
        (void)((volatile UCHAR *)args->pDmaBuffer)[-1];
#endif
#ifdef FLAW_PAGING_NEVER_ADVANCES
    /* One command, which does nothing, and the whole operation again. */
    if (args->DmaSize >= sizeof(command)) {
        command.Operation = GpuFill;
        RtlCopyMemory(args->pDmaBuffer, &command, sizeof(command));
        private_data->End = (PUCHAR)args->pDmaBuffer + sizeof(command);
        args->pDmaBuffer = private_data->End;
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    }
#endif
    if (args->DmaSize < sizeof(command))
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    status = BuildCommand(args, &command, &written);
    if (!NT_SUCCESS(status))
        return status;
    if (written) {
        RtlCopyMemory(args->pDmaBuffer, &command, sizeof(command));
        args->pDmaBuffer = (PUCHAR)args->pDmaBuffer + sizeof(command);
#ifdef FLAW_PAGING_BUFFER_PAST_END
        args->pDmaBuffer = (PUCHAR)args->pDmaBuffer + args->DmaSize;
#endif
    }
    if (args->DmaBufferPrivateDataSize >= sizeof(*private_data))
        private_data->End = args->pDmaBuffer;
    return STATUS_SUCCESS;
}

#ifdef PAGES_BY_CPU
/* The CPU executes the commands at once, while the GPU is idle: there are none to submit. */
PAGED NTSTATUS NTAPI SgBuildPagingBuffer(HANDLE context, DXGKARG_BUILDPAGINGBUFFER *args)
{
    PGPU gpu = &((PADAPTER)context)->Gpu;
    PACKET packet = {.Commands = args->pDmaBuffer, .Root = gpu->SystemRoot};
    ULONG64 fault_address;
    NTSTATUS status = BuildPagingBuffer(context, args);

    packet.Count = (ULONG)(((PUCHAR)args->pDmaBuffer - (PUCHAR)packet.Commands) /
                           sizeof(GPU_COMMAND));
    args->pDmaBuffer = packet.Commands;
    if (packet.Count == 0)
        return status;
    KeWaitForSingleObject(&gpu->Idle, Executive, KernelMode, FALSE, NULL);
    GpuExecute(gpu, &packet, &fault_address);
    KeSetEvent(&gpu->Idle, IO_NO_INCREMENT, FALSE);
    return status;
}
#endif
