/* What the GPU does: its memory, and the commands of a packet. */
#include "driver.h"
#include "miniport.h"

/*
 * Returns where the CPU sees an address of the GPU, and for how many bytes from there on.
 * NULL is a fault.
 */
PUCHAR GpuFindMemory(PGPU gpu, ULONG64 address, PULONG64 bytes)
{
    if (address >= VISIBLE_BASE && address < VISIBLE_BASE + VISIBLE_SIZE) {
        *bytes = VISIBLE_BASE + VISIBLE_SIZE - address;
        return gpu->Visible + (address - VISIBLE_BASE);
    }
    if (address >= LOCAL_BASE && address < LOCAL_BASE + LOCAL_SIZE) {
        *bytes = LOCAL_BASE + LOCAL_SIZE - address;
        return gpu->Local + (address - LOCAL_BASE);
    }
    if (address >= APERTURE_BASE && address < APERTURE_BASE + APERTURE_SIZE) {
        PUCHAR page = gpu->Aperture[(address - APERTURE_BASE) / PAGE_SIZE];

        *bytes = PAGE_SIZE - BYTE_OFFSET(address);
        return page == NULL ? NULL : page + BYTE_OFFSET(address);
    }
#ifdef FLAW_ACCEPTS_ANY_ADDRESS
    *bytes = PAGE_SIZE - BYTE_OFFSET(address);
    return gpu->SinkPage + BYTE_OFFSET(address);
#endif
    return NULL;
}

static ULONG64 Smallest(ULONG64 one, ULONG64 other)
{
    return one < other ? one : other;
}

/* As above, for one end of a command. */
static PUCHAR FindEnd(PGPU gpu, PPACKET packet, const GPU_COMMAND *command, ULONG64 offset,
                      BOOLEAN write, PULONG64 bytes)
{
    ULONG64 address = (write ? command->To : command->From) + offset;

    switch (command->Operation) {
#ifdef GPU_HAS_MMU
    case GpuFillVirtual:
    case GpuCopyVirtual:
        return GpuTranslate(gpu, packet->Root, address, write, write ? TO_WINDOW : FROM_WINDOW,
                            bytes);
#endif
    case GpuReadSystem:
        if (!write)
            return (PUCHAR)(ULONG_PTR)address;
        return GpuFindMemory(gpu, address, bytes);
    case GpuWriteSystem:
        if (write)
            return (PUCHAR)(ULONG_PTR)address;
        return GpuFindMemory(gpu, address, bytes);
    default:
        UNREFERENCED_PARAMETER(packet);
        return GpuFindMemory(gpu, address, bytes);
    }
}

static BOOLEAN Fill(PGPU gpu, PPACKET packet, const GPU_COMMAND *command, PULONG64 fault_address)
{
    PUCHAR pattern = (PUCHAR)&command->Pattern;
    ULONG64 done = 0;

    while (done < command->Bytes) {
        ULONG64 room;
        PUCHAR to = FindEnd(gpu, packet, command, done, TRUE, &room);

        if (to == NULL) {
            *fault_address = command->To + done;
            return FALSE;
        }
        room = Smallest(room, command->Bytes - done);
        for (ULONG64 at = 0; at < room; at++)
            to[at] = pattern[(done + at) % sizeof(command->Pattern)];
        done += room;
    }
    return TRUE;
}

/* Copies one piece that is contiguous for the CPU at both ends. */
static BOOLEAN CopyPiece(PGPU gpu, PPACKET packet, const GPU_COMMAND *command, ULONG64 offset,
                         PULONG64 bytes, PULONG64 fault_address)
{
    ULONG64 source_room = *bytes;
    ULONG64 target_room = *bytes;
    PUCHAR from = FindEnd(gpu, packet, command, offset, FALSE, &source_room);
    PUCHAR to = FindEnd(gpu, packet, command, offset, TRUE, &target_room);

    if (from == NULL || to == NULL) {
        *fault_address = (from == NULL ? command->From : command->To) + offset;
        return FALSE;
    }
    *bytes = Smallest(*bytes, Smallest(source_room, target_room));
    RtlMoveMemory(to, from, (SIZE_T)*bytes);
    return TRUE;
}

static BOOLEAN Copy(PGPU gpu, PPACKET packet, const GPU_COMMAND *command, PULONG64 fault_address)
{
    ULONG64 done = 0;

    while (done < command->Bytes) {
        ULONG64 bytes = command->Bytes - done;

        if (!CopyPiece(gpu, packet, command, done, &bytes, fault_address))
            return FALSE;
        done += bytes;
    }
    return TRUE;
}

#ifdef GPU_HAS_MMU
static BOOLEAN WriteEntry(PGPU gpu, const GPU_COMMAND *command, PULONG64 fault_address)
{
    ULONG64 room;
    PUCHAR to = GpuFindMemory(gpu, command->To, &room);

    if (to == NULL) {
        *fault_address = command->To;
        return FALSE;
    }
    RtlCopyMemory(to, &command->From, sizeof(command->From));
    return TRUE;
}
#endif

static void MapPages(PGPU gpu, const GPU_COMMAND *command)
{
    ULONG64 count = command->Bytes / PAGE_SIZE;

    for (ULONG64 at = 0; at < count && command->To + at < APERTURE_PAGES; at++) {
        PUCHAR page = NULL;

        if (command->Operation == GpuMap)
            page = (PUCHAR)(ULONG_PTR)command->From + at * PAGE_SIZE;
        gpu->Aperture[command->To + at] = page;
    }
}

static PACKET_RESULT ExecuteCommands(PGPU gpu, PPACKET packet, PULONG64 fault_address)
{
    for (ULONG at = 0; at < packet->Count; at++) {
        const GPU_COMMAND *command = &packet->Commands[at];
        BOOLEAN done = TRUE;

        switch (command->Operation) {
        case GpuFill:
        case GpuFillVirtual:
            done = Fill(gpu, packet, command, fault_address);
            break;
        case GpuCopy:
        case GpuReadSystem:
        case GpuWriteSystem:
        case GpuCopyVirtual:
            done = Copy(gpu, packet, command, fault_address);
            break;
#ifdef GPU_HAS_MMU
        case GpuWriteEntry:
            done = WriteEntry(gpu, command, fault_address);
            break;
#endif
        case GpuMap:
        case GpuUnmap:
            MapPages(gpu, command);
            break;
        default:
            return PacketHung;
        }
        if (!done)
            return PacketFaulted;
    }
    gpu->PacketsDone++;
    return PacketDone;
}

PACKET_RESULT GpuExecute(PGPU gpu, PPACKET packet, PULONG64 fault_address)
{
    PACKET_RESULT result = ExecuteCommands(gpu, packet, fault_address);

#ifdef GPU_HAS_MMU
    for (ULONG window = 0; window < ARRAYSIZE(gpu->Windows); window++)
        GpuCloseWindow(gpu, window);
#endif
    return result;
}
