/* Reads the private data of clients, which may be anything. */
#include "driver.h"
#include "miniport.h"

#define DESCRIPTION_MAGIC 0x47535457 /* WTSG */
#define LARGEST_ALLOCATION (1ull << 30)

static BOOLEAN Read(PREADER reader, PVOID to, SIZE_T size)
{
    if (reader->Size < size)
        return FALSE;
    RtlCopyMemory(to, reader->Bytes, size);
    reader->Bytes += size;
    reader->Size -= size;
    return TRUE;
}

BOOLEAN ReadUlong(PREADER reader, PULONG value)
{
    return Read(reader, value, sizeof(*value));
}

BOOLEAN ReadUlong64(PREADER reader, PULONG64 value)
{
    return Read(reader, value, sizeof(*value));
}

/* FALSE if the bytes end too early. An unknown code has no operands. */
BOOLEAN ReadCommand(PREADER reader, PCLIENT_COMMAND command)
{
    RtlZeroMemory(command, sizeof(*command));
    if (!ReadUlong(reader, &command->Code))
        return FALSE;
    switch (command->Code) {
    case ClientFill:
        return ReadUlong(reader, &command->Target) && ReadUlong64(reader, &command->Offset) &&
               ReadUlong64(reader, &command->Length) && Read(reader, &command->Value, 1);
    case ClientCopy:
        return ReadUlong(reader, &command->From) && ReadUlong64(reader, &command->FromOffset) &&
               ReadUlong(reader, &command->Target) && ReadUlong64(reader, &command->Offset) &&
               ReadUlong64(reader, &command->Length);
    case ClientFillAt:
        return ReadUlong64(reader, &command->Offset) && ReadUlong64(reader, &command->Length) &&
               Read(reader, &command->Value, 1);
    case ClientCopyAt:
        return ReadUlong64(reader, &command->FromOffset) &&
               ReadUlong64(reader, &command->Offset) && ReadUlong64(reader, &command->Length);
    default:
        return TRUE;
    }
}

/* The size of the allocation that a client describes, in whole pages. */
PAGED NTSTATUS ReadDescription(PVOID data, UINT size, PULONG64 bytes)
{
    READER reader = {data, size};
    ULONG magic;
    ULONG version;

    if (!ReadUlong(&reader, &magic) || !ReadUlong(&reader, &version) ||
        !ReadUlong64(&reader, bytes) || reader.Size != 0)
        return STATUS_INVALID_PARAMETER;
    if (magic != DESCRIPTION_MAGIC || *bytes == 0)
        return STATUS_INVALID_PARAMETER;
    if (version != 1)
        return STATUS_GRAPHICS_DRIVER_MISMATCH;
    if (*bytes > LARGEST_ALLOCATION)
        return STATUS_NO_MEMORY;
    *bytes = ROUND_TO_PAGES(*bytes);
    return STATUS_SUCCESS;
}

/* Whether a target is an index into the packet's allocation list. Handles have zero bits there. */
BOOLEAN ListIndex(ULONG target, PULONG index)
{
    *index = target >> 6;
    return (target & 0x3F) == 1;
}
