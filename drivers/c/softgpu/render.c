/*
 * Packets with allocation lists: DxgkDdiRender translates the commands of a client, DxgkDdiPatch
 * writes addresses into them, DxgkDdiSubmitCommand queues them.
 */
#include "driver.h"
#include "miniport.h"

/* What a call of DxgkDdiRender has to work with. */
typedef struct _RENDERING {
    DXGKARG_RENDER *Args;
    PDEVICE Device;
    PUCHAR Buffer;
    UINT Room;
    UINT PatchesLeft;
} RENDERING, *PRENDERING;

/* The list entry of a target, if the bytes are inside the allocation. */
static PAGED NTSTATUS FindTarget(PRENDERING rendering, ULONG target, ULONG64 offset,
                                 ULONG64 length, PULONG index)
{
    DXGKARG_RENDER *args = rendering->Args;
    POPEN_ALLOCATION open = NULL;

    if (ListIndex(target, index)) {
        if (*index >= args->AllocationListSize)
            return STATUS_INVALID_PARAMETER;
        open = args->pAllocationList[*index].hDeviceSpecificAllocation;
    } else {
        open = FindOpenAllocation(rendering->Device, target);
        if (open == NULL)
            return STATUS_INVALID_HANDLE;
        for (*index = 0; *index < args->AllocationListSize; ++*index) {
            if (args->pAllocationList[*index].hDeviceSpecificAllocation == open)
                break;
        }
    }
    if (open == NULL || *index == args->AllocationListSize)
        return STATUS_INVALID_PARAMETER;
    if (offset > open->Allocation->Size || length > open->Allocation->Size - offset ||
        offset > 0xFFFFFFFFu)
        return STATUS_INVALID_PARAMETER;
    return STATUS_SUCCESS;
}

/* The address in a command, as far as it is known, and the patch location for it. */
static PAGED NTSTATUS WriteAddress(PRENDERING rendering, PGPU_COMMAND command, PULONG64 address,
                                   ULONG target, ULONG64 offset)
{
    DXGKARG_RENDER *args = rendering->Args;
    D3DDDI_PATCHLOCATIONLIST *patch = args->pPatchLocationListOut;
    UINT start = args->DmaSize - rendering->Room;
    ULONG index;
    NTSTATUS status = FindTarget(rendering, target, offset, command->Bytes, &index);

    if (!NT_SUCCESS(status))
        return status;
    *address = 0;
    if (args->pAllocationList[index].SegmentId != 0)
        *address = args->pAllocationList[index].PhysicalAddress.QuadPart + offset;
    if (rendering->PatchesLeft == 0)
        return STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    RtlZeroMemory(patch, sizeof(*patch));
    patch->AllocationIndex = index;
    patch->AllocationOffset = (UINT)offset;
    patch->PatchOffset = start + (UINT)((PUCHAR)address - (PUCHAR)command);
    patch->SplitOffset = start;
    args->pPatchLocationListOut++;
    rendering->PatchesLeft--;
    return STATUS_SUCCESS;
}

static PAGED NTSTATUS Translate(PRENDERING rendering, const CLIENT_COMMAND *client,
                                PGPU_COMMAND command)
{
    NTSTATUS status;

    RtlZeroMemory(command, sizeof(*command));
    command->Bytes = client->Length;
    switch (client->Code) {
    case ClientFill:
        command->Operation = GpuFill;
        command->Pattern = client->Value * 0x01010101u;
        return WriteAddress(rendering, command, &command->To, client->Target, client->Offset);
    case ClientCopy:
        command->Operation = GpuCopy;
        status = WriteAddress(rendering, command, &command->From, client->From,
                              client->FromOffset);
        if (!NT_SUCCESS(status))
            return status;
        return WriteAddress(rendering, command, &command->To, client->Target, client->Offset);
    case ClientHang:
        command->Operation = GpuHang;
        return STATUS_SUCCESS;
    case ClientRaw:
        return STATUS_PRIVILEGED_INSTRUCTION;
    default:
        return STATUS_ILLEGAL_INSTRUCTION;
    }
}

/* All commands are checked before the first one is written. */
static PAGED NTSTATUS CheckCommands(READER reader, PULONG count)
{
    CLIENT_COMMAND command;

    *count = 0;
    if (reader.Size != 0 && !ReadUlong(&reader, count))
        return STATUS_INVALID_PARAMETER;
    for (ULONG at = 0; at < *count; at++) {
        if (!ReadCommand(&reader, &command))
            return STATUS_INVALID_PARAMETER;
        if (command.Code == ClientRaw)
            return STATUS_PRIVILEGED_INSTRUCTION;
        if (command.Code == 0 || command.Code > ClientHang)
            return STATUS_ILLEGAL_INSTRUCTION;
    }
    return reader.Size == 0 ? STATUS_SUCCESS : STATUS_INVALID_PARAMETER;
}

/* Writes one command, or nothing if there is no room. */
static PAGED NTSTATUS WriteCommand(PRENDERING rendering, const CLIENT_COMMAND *client)
{
    D3DDDI_PATCHLOCATIONLIST *patches = rendering->Args->pPatchLocationListOut;
    UINT patches_left = rendering->PatchesLeft;
    GPU_COMMAND command;
    NTSTATUS status = Translate(rendering, client, &command);

    if (NT_SUCCESS(status) && rendering->Room < sizeof(command))
        status = STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER;
    if (!NT_SUCCESS(status)) {
        rendering->Args->pPatchLocationListOut = patches;
        rendering->PatchesLeft = patches_left;
        return status;
    }
    RtlCopyMemory(rendering->Buffer, &command, sizeof(command));
    rendering->Buffer += sizeof(command);
    rendering->Room -= sizeof(command);
    return STATUS_SUCCESS;
}

/* The buffer is a client's: it can be invalid. Shared objects have no structured exceptions. */
static PAGED BOOLEAN CopyFromUser(PVOID to, const void *from, SIZE_T size)
{
#ifdef _WIN32
    __try {
        RtlCopyMemory(to, from, size);
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        return FALSE;
    }
#else
    RtlCopyMemory(to, from, size);
#endif
    return TRUE;
}

/* Copies what a client wrote, because it can change meanwhile. */
static PAGED NTSTATUS CopyCommands(const DXGKARG_RENDER *args, PUCHAR *commands)
{
    PUCHAR copy = AllocateMemory(args->CommandLength + 1);

    if (copy == NULL)
        return STATUS_NO_MEMORY;
    if (!CopyFromUser(copy, args->pCommand, args->CommandLength)) {
        FreeMemory(copy);
        return STATUS_INVALID_USER_BUFFER;
    }
    *commands = copy;
    return STATUS_SUCCESS;
}

static PAGED NTSTATUS RenderCommands(PRENDERING rendering, READER reader)
{
    DXGKARG_RENDER *args = rendering->Args;
    CLIENT_COMMAND command;
    ULONG count;
    NTSTATUS status = CheckCommands(reader, &count);

    if (!NT_SUCCESS(status))
        return status;
    ReadUlong(&reader, &count);
    for (ULONG at = 0; at < count; at++) {
        ReadCommand(&reader, &command);
        if (at < args->MultipassOffset)
            continue;
        status = WriteCommand(rendering, &command);
        if (!NT_SUCCESS(status))
            return status;
        args->MultipassOffset++;
    }
    return STATUS_SUCCESS;
}

PAGED NTSTATUS NTAPI SgRender(HANDLE handle, DXGKARG_RENDER *args)
{
    PCONTEXT context = handle;
    PDMA_PRIVATE private_data = args->pDmaBufferPrivateData;
    RENDERING rendering = {args, context->Device, args->pDmaBuffer, args->DmaSize,
                           args->PatchLocationListOutSize};
    READER reader = {NULL, args->CommandLength};
    PUCHAR commands;
    NTSTATUS status = CopyCommands(args, &commands);

    if (!NT_SUCCESS(status))
        return status;
    reader.Bytes = commands;
    status = RenderCommands(&rendering, reader);
    FreeMemory(commands);
    if (args->DmaBufferPrivateDataSize < sizeof(*private_data))
        return STATUS_INVALID_PARAMETER;
    private_data->End = rendering.Buffer;
    args->pDmaBuffer = rendering.Buffer;
    return status;
}

PAGED NTSTATUS NTAPI SgPatch(HANDLE context, const DXGKARG_PATCH *args)
{
    PUCHAR buffer = args->pDmaBuffer;

    UNREFERENCED_PARAMETER(context);
    if (args->Flags.Paging)
        return STATUS_SUCCESS; /* Paging commands have their addresses. */
#ifdef FLAW_PATCHES_NOTHING
    return STATUS_SUCCESS;
#endif
    for (UINT at = 0; at < args->PatchLocationListSize; at++) {
        const D3DDDI_PATCHLOCATIONLIST *patch = &args->pPatchLocationList[at];
        ULONG64 address;

        if (patch->PatchOffset < args->DmaBufferSubmissionStartOffset ||
            patch->PatchOffset >= args->DmaBufferSubmissionEndOffset)
            continue;
        address = args->pAllocationList[patch->AllocationIndex].PhysicalAddress.QuadPart;
#ifdef FLAW_PATCHES_FIRST_ADDRESS
        {
            POPEN_ALLOCATION open =
                args->pAllocationList[patch->AllocationIndex].hDeviceSpecificAllocation;

            if (open->Allocation->GpuAddress == 0)
                open->Allocation->GpuAddress = address;
            address = open->Allocation->GpuAddress;
        }
#endif
        address += patch->AllocationOffset;
        RtlCopyMemory(buffer + patch->PatchOffset, &address, sizeof(address));
    }
    return STATUS_SUCCESS;
}

/* Paging buffers have no context. */
NTSTATUS NTAPI SgSubmitCommand(HANDLE handle, const DXGKARG_SUBMITCOMMAND *args)
{
    PADAPTER adapter = handle;
    PDMA_PRIVATE private_data = args->pDmaBufferPrivateData;
    UINT size = args->DmaBufferSubmissionEndOffset - args->DmaBufferSubmissionStartOffset;
    PGPU_COMMAND commands = NULL;

#ifdef FLAW_REFUSES_PAGING
    if (args->Flags.Paging)
        return STATUS_INVALID_PARAMETER;
#endif
    if (args->Flags.NullRendering)
        size = 0;
    if (size != 0)
        commands = (PGPU_COMMAND)(private_data->End - size);
    return GpuSubmit(&adapter->Gpu, args->NodeOrdinal, args->SubmissionFenceId, commands,
                     size / sizeof(GPU_COMMAND), NULL);
}
