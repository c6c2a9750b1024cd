/*
 * Packets without allocation lists: the private data has the commands, and the driver knows where
 * each allocation is.
 */
#include "driver.h"
#include "miniport.h"

#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0

/* An address outside of an allocation is invalid; that of one that is not resident faults. */
static BOOLEAN FindAddress(PDEVICE device, ULONG handle, ULONG64 offset, ULONG64 length,
                           PULONG64 address)
{
    POPEN_ALLOCATION open = FindOpenAllocation(device, handle);

    if (open == NULL || offset > open->Allocation->Size ||
        length > open->Allocation->Size - offset)
        return FALSE;
    *address = open->Allocation->GpuAddress;
    if (*address != 0)
        *address += offset;
    return TRUE;
}

static BOOLEAN Resolve(PDEVICE device, const CLIENT_COMMAND *client, PGPU_COMMAND command)
{
    command->Bytes = client->Length;
    switch (client->Code) {
    case ClientFill:
        command->Operation = GpuFill;
        command->Pattern = client->Value * 0x01010101u;
        return FindAddress(device, client->Target, client->Offset, client->Length, &command->To);
    case ClientCopy:
        command->Operation = GpuCopy;
        return FindAddress(device, client->From, client->FromOffset, client->Length,
                           &command->From) &&
               FindAddress(device, client->Target, client->Offset, client->Length, &command->To);
    case ClientHang:
        command->Operation = GpuHang;
        return TRUE;
#ifdef GPU_HAS_MMU
    case ClientFillAt:
        command->Operation = GpuFillVirtual;
        command->Pattern = client->Value * 0x01010101u;
        command->To = client->Offset;
        return TRUE;
    case ClientCopyAt:
        command->Operation = GpuCopyVirtual;
        command->From = client->FromOffset;
        command->To = client->Offset;
        return TRUE;
#endif
    default:
        return FALSE;
    }
}

static BOOLEAN ResolveAll(PDEVICE device, READER reader, PGPU_COMMAND commands, ULONG count)
{
    CLIENT_COMMAND client;

    for (ULONG at = 0; at < count; at++) {
        if (!ReadCommand(&reader, &client) || !Resolve(device, &client, &commands[at]))
            return FALSE;
    }
    return reader.Size == 0;
}

NTSTATUS NTAPI SgSubmitCommandVirtual(HANDLE handle, const DXGKARG_SUBMITCOMMANDVIRTUAL *args)
{
    PADAPTER adapter = handle;
    PCONTEXT context = args->hContext;
    READER reader = {args->pDmaBufferPrivateData, args->DmaBufferPrivateDataSize};
    PGPU_COMMAND commands;
    ULONG count = 0;
    NTSTATUS status;

    if (reader.Size != 0 && !ReadUlong(&reader, &count))
        return STATUS_INVALID_PARAMETER;
    if (count > reader.Size / sizeof(ULONG))
        return STATUS_INVALID_PARAMETER;
    commands = AllocateMemory((count + 1) * sizeof(*commands));
    if (commands == NULL)
        return STATUS_INVALID_PARAMETER;
    status = STATUS_INVALID_PARAMETER;
    if (ResolveAll(context->Device, reader, commands, count))
        status = GpuSubmit(&adapter->Gpu, args->NodeOrdinal, args->SubmissionFenceId, commands,
                           count, &context->Root);
#ifdef FLAW_LEAKS_REFUSED_PACKET
    return status;
#endif
    if (!NT_SUCCESS(status))
        FreeMemory(commands);
#ifdef FLAW_REFUSES_WITH_NO_MEMORY
    if (!NT_SUCCESS(status))
        return STATUS_NO_MEMORY;
#endif
    return status;
}

#endif
