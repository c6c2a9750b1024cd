/*
 * The miniport driver of the software GPU: what the drivers of this folder's parent share.
 *
 * The private data and the commands of clients have the format of <windtunnel/softgpu.h>.
 */
#ifndef MINIPORT_H
#define MINIPORT_H

#include "flaws.h"
#include "gpu.h"

/*
 * Code that is discarded after DriverEntry, code that can be paged out, code that raises the IRQL
 * and therefore is not inlined into the former, and the entry point.
 */
#define NONPAGED __attribute__((noinline))
#define INIT_CODE __attribute__((section("INIT")))
#ifdef FLAW_NOTHING_PAGED
#define PAGED
#else
#define PAGED __attribute__((section("PAGE")))
#endif
#define EXPORTED __attribute__((visibility("default")))

#define SEGMENT_BIT(segment) (1u << ((segment) - 1))
#define ALL_SEGMENTS ((1u << SEGMENT_COUNT) - 1)
#define MAX_SLOT_ID 63
#define DMA_BUFFER_SIZE 0x1000
#define ALLOCATION_LIST_SIZE 16
#define PATCH_LIST_SIZE 32
#define PAGING_BUFFER_SIZE 0x1000

typedef struct _ADAPTER {
    PDEVICE_OBJECT PhysicalDeviceObject;
    DXGK_START_INFO StartInfo;
    DXGKRNL_INTERFACE DxgkInterface;
    BOOLEAN Removed;
    GPU Gpu;
#ifdef FLAW_PAGED_BLOCK
    PUCHAR PagedBlock;
#endif
} ADAPTER, *PADAPTER;

typedef struct _DEVICE {
    PADAPTER Adapter;
    HANDLE DxgkDevice;
    /* Protects the list of open allocations. */
    KSPIN_LOCK Lock;
    LIST_ENTRY OpenAllocations;
} DEVICE, *PDEVICE;

typedef struct _CONTEXT {
    PDEVICE Device;
    ULONG Node;
    BOOLEAN IsSystem;
    TABLE_ROOT Root;
} CONTEXT, *PCONTEXT;

typedef struct _RESOURCE {
    UINT PrivateDataSize;
} RESOURCE, *PRESOURCE;

typedef struct _ALLOCATION {
    ULONG64 Size;
    /* Where the GPU sees it; zero while it is not resident. */
    ULONG64 GpuAddress;
} ALLOCATION, *PALLOCATION;

/* An allocation that a device has opened. */
typedef struct _OPEN_ALLOCATION {
    LIST_ENTRY Entry;
    PDEVICE Device;
    D3DKMT_HANDLE Handle;
    PALLOCATION Allocation;
} OPEN_ALLOCATION, *POPEN_ALLOCATION;

/* Private data of a DMA buffer: where the CPU sees the end of its commands. */
typedef struct _DMA_PRIVATE {
    PUCHAR End;
} DMA_PRIVATE, *PDMA_PRIVATE;

/* A command of a client. Targets are handles, or indices into an allocation list. */
typedef struct _CLIENT_COMMAND {
    ULONG Code;
    ULONG Target;
    ULONG64 Offset;
    ULONG From;
    ULONG64 FromOffset;
    ULONG64 Length;
    UCHAR Value;
} CLIENT_COMMAND, *PCLIENT_COMMAND;

enum { ClientFill = 1, ClientCopy, ClientHang, ClientRaw, ClientFillAt, ClientCopyAt };

#define DESCRIPTION_CPU_VISIBLE 1
#define DESCRIPTION_CACHED 2
#define DESCRIPTION_PINNED 4
#define DESCRIPTION_RESERVED 0xF8
#define PREFER_END 0x80000000u

/* A client's description of an allocation. */
typedef struct _DESCRIPTION {
    ULONG64 Size;
    ULONG64 Alignment;
    ULONG Segments;
    ULONG EvictionSegments;
    ULONG Priority;
    /* 1 CPU visible, 2 cached, 4 pinned; above them the number of instances. */
    ULONG Flags;
    /* Segments in order of preference, the highest bit for its end; 0 is none. */
    ULONG Preferred[5];
} DESCRIPTION, *PDESCRIPTION;

/* The bytes of a client that are not read yet. */
typedef struct _READER {
    const UCHAR *Bytes;
    SIZE_T Size;
} READER, *PREADER;

/* packet.c */
BOOLEAN ReadUlong(PREADER reader, PULONG value);
BOOLEAN ReadUlong64(PREADER reader, PULONG64 value);
BOOLEAN ReadCommand(PREADER reader, PCLIENT_COMMAND command);
NTSTATUS ReadDescription(PVOID data, UINT size, PDESCRIPTION description);
BOOLEAN ListIndex(ULONG target, PULONG index);

/* allocation.c */
POPEN_ALLOCATION FindOpenAllocation(PDEVICE device, D3DKMT_HANDLE handle);

/* segments.c */
ULONG64 SegmentBase(UINT segment);
NTSTATUS QuerySegment3(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query);
NTSTATUS QuerySegment4(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query);

/* Each driver has its own. */
NTSTATUS DriverQueryCaps(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query);
NTSTATUS DriverQuerySegments(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query);

/* Fills in the functions that all drivers have. */
void FillMiniportTable(PDRIVER_INITIALIZATION_DATA data);

DXGKDDI_INTERRUPT_ROUTINE SgInterruptRoutine;
DXGKDDI_DPC_ROUTINE SgDpcRoutine;
DXGKDDI_SUBMITCOMMANDVIRTUAL SgSubmitCommandVirtual;

/* Zeroed nonpaged memory. */
FORCEINLINE PVOID AllocateMemory(SIZE_T size)
{
    return ExAllocatePool2(POOL_FLAG_NON_PAGED, size, DRIVER_TAG);
}

FORCEINLINE void FreeMemory(PVOID block)
{
    ExFreePoolWithTag(block, DRIVER_TAG);
}

#endif
