/* Reads the private data of clients, which may be anything. */
#include "driver.h"
#include "miniport.h"

#ifdef NO_PRIVATE_DATA
/* The driver takes allocations without private data, and those of its standard allocations. */
#define DESCRIPTION_MAGIC 0x4E4C5057 /* WPLN */
#define DEFAULT_SIZE 0x8000
#else
#define DESCRIPTION_MAGIC 0x47535457 /* WTSG */
/* Windtunnel finds this text in the file, and knows the format of the private data. */
__attribute__((used)) static const char PrivateDataFormat[] = "windtunnel private data: builtin";
#endif
#define LARGEST_ALLOCATION (1ull << 30)
#define LARGEST_ALIGNMENT (1ull << 21)
#define SHORT_VERSION 1
#define LONG_VERSION 2

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
#ifdef NO_PRIVATE_DATA
    return FALSE;
#endif
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

static PAGED BOOLEAN ReadPlacement(PREADER reader, PDESCRIPTION description)
{
    return ReadUlong64(reader, &description->Size) &&
           ReadUlong64(reader, &description->Alignment) &&
           ReadUlong(reader, &description->Segments) &&
           ReadUlong(reader, &description->EvictionSegments) &&
           ReadUlong(reader, &description->Priority) && ReadUlong(reader, &description->Flags) &&
           Read(reader, description->Preferred, sizeof(description->Preferred));
}

/* Any segment, preferably memory that only the GPU sees. */
static PAGED void SetDefaults(PDESCRIPTION description)
{
    static const ULONG Preferred[] = {LOCAL_SEGMENT, VISIBLE_SEGMENT, APERTURE_SEGMENT};

    description->Segments = ALL_SEGMENTS;
    description->Priority = D3DDDI_ALLOCATIONPRIORITY_NORMAL;
    description->Flags = DESCRIPTION_CPU_VISIBLE;
    RtlCopyMemory(description->Preferred, Preferred, sizeof(Preferred));
}

static PAGED BOOLEAN ReadSize(PREADER reader, PDESCRIPTION description)
{
    SetDefaults(description);
    return ReadUlong64(reader, &description->Size);
}

static PAGED BOOLEAN IsPlausible(const DESCRIPTION *description)
{
    ULONG segments = description->Segments;
    BOOLEAN visible = (description->Flags & DESCRIPTION_CPU_VISIBLE) != 0;
    BOOLEAN seen = (segments & SEGMENT_BIT(APERTURE_SEGMENT)) != 0 ||
                   (segments & SEGMENT_BIT(LOCAL_SEGMENT)) == 0;

    for (ULONG at = 0; at < ARRAYSIZE(description->Preferred); at++) {
        ULONG segment = description->Preferred[at] & ~PREFER_END;

        if (segment != 0 && (segment > SEGMENT_COUNT || !(segments & SEGMENT_BIT(segment))))
            return FALSE;
    }
    if (segments == 0 || (segments & ~ALL_SEGMENTS) != 0 || description->Priority == 0)
        return FALSE;
    if ((description->EvictionSegments & ~SEGMENT_BIT(APERTURE_SEGMENT)) != 0)
        return FALSE;
    if ((description->Flags & DESCRIPTION_RESERVED) != 0 || (visible && !seen))
        return FALSE;
    return visible || !(description->Flags & DESCRIPTION_CACHED);
}

PAGED NTSTATUS ReadDescription(PVOID data, UINT size, PDESCRIPTION description)
{
    READER reader = {data, size};
    ULONG magic;
    ULONG version;

    RtlZeroMemory(description, sizeof(*description));
#ifdef NO_PRIVATE_DATA
    if (size == 0) {
        SetDefaults(description);
        description->Size = DEFAULT_SIZE;
        description->Alignment = PAGE_SIZE;
        return STATUS_SUCCESS;
    }
#endif
    if (!ReadUlong(&reader, &magic) || !ReadUlong(&reader, &version) || magic != DESCRIPTION_MAGIC)
        return STATUS_INVALID_PARAMETER;
    if (version == LONG_VERSION ? !ReadPlacement(&reader, description)
                                : !ReadSize(&reader, description))
        return STATUS_INVALID_PARAMETER;
    if (reader.Size != 0)
        return STATUS_INVALID_PARAMETER;
    if (version != SHORT_VERSION && version != LONG_VERSION)
        return STATUS_GRAPHICS_DRIVER_MISMATCH;
    if (description->Size == 0)
        return STATUS_INVALID_PARAMETER;
    if (description->Size > LARGEST_ALLOCATION)
        return STATUS_NO_MEMORY;
    if (description->Alignment < PAGE_SIZE)
        description->Alignment = PAGE_SIZE;
    if ((description->Alignment & (description->Alignment - 1)) != 0 ||
        description->Alignment > LARGEST_ALIGNMENT || !IsPlausible(description))
        return STATUS_INVALID_PARAMETER;
    description->Size = ROUND_TO_PAGES(description->Size);
    return STATUS_SUCCESS;
}

/* Whether a target is an index into the packet's allocation list. Handles have zero bits there. */
BOOLEAN ListIndex(ULONG target, PULONG index)
{
    *index = target >> 6;
    return (target & 0x3F) == 1;
}
