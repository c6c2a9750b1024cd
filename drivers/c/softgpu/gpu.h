/*
 * A GPU in software: memory, an aperture, nodes with queues, and a thread that executes commands.
 *
 * The driver writes commands into DMA buffers. A packet is a submitted part of a DMA buffer. The
 * thread executes packets in the order of their node and reports each with an interrupt.
 */
#ifndef GPU_H
#define GPU_H

#ifdef ONE_NODE
#define NODE_COUNT 1
#else
#define NODE_COUNT 2
#endif
#define PAGING_NODE (NODE_COUNT - 1)
#define PACKET_COUNT 1024

/* The segments, and their addresses in the GPU's address space. */
#define APERTURE_SEGMENT 1
#define VISIBLE_SEGMENT 2
#define LOCAL_SEGMENT 3
#define SEGMENT_COUNT 3
#define VISIBLE_BASE 0x0000000010000000ull
#define LOCAL_BASE 0x0000000020000000ull
#define APERTURE_BASE 0x0000000080000000ull
/* A driver can have less memory. */
#ifndef APERTURE_SIZE
#define VISIBLE_SIZE (4u << 20)
#define LOCAL_SIZE (4u << 20)
#define APERTURE_SIZE (64u << 20)
#endif
#define APERTURE_PAGES (APERTURE_SIZE / PAGE_SIZE)

typedef enum _GPU_OPERATION {
    GpuFill = 1,
    GpuCopy,
    /* From or to an address of the CPU, not of the GPU. */
    GpuReadSystem,
    GpuWriteSystem,
    /* Aperture: To is the first page, From the CPU's address, Bytes the size. */
    GpuMap,
    GpuUnmap,
    GpuHang,
    /* At virtual addresses of the packet's page tables. */
    GpuFillVirtual,
    GpuCopyVirtual,
    /* Writes From, eight bytes, to an address. */
    GpuWriteEntry,
} GPU_OPERATION;

/* Page tables: see mmu.c. */
#define TABLE_LEVELS 3
#define TABLE_BITS 9
#define TABLE_MASK ((1u << TABLE_BITS) - 1)

typedef struct _TABLE_ROOT {
    ULONG Segment;
    ULONG64 Offset;
} TABLE_ROOT, *PTABLE_ROOT;

/* A command in a DMA buffer. */
typedef struct _GPU_COMMAND {
    ULONG Operation;
    ULONG Pattern;
    ULONG64 To;
    ULONG64 From;
    ULONG64 Bytes;
} GPU_COMMAND, *PGPU_COMMAND;

typedef enum _PACKET_RESULT { PacketDone, PacketHung, PacketFaulted } PACKET_RESULT;

typedef struct _PACKET {
    LIST_ENTRY Entry;
    ULONG Node;
    ULONG Fence;
    /* In a DMA buffer, or in pool if Owned. */
    PGPU_COMMAND Commands;
    ULONG Count;
    BOOLEAN Owned;
    /* The address space of virtual addresses. */
    TABLE_ROOT Root;
} PACKET, *PPACKET;

typedef struct _NODE {
    LIST_ENTRY Queue;
    /* Never ends, until a reset. */
    PPACKET Hung;
    ULONG LastCompleted;
    ULONG LastSubmitted;
    BOOLEAN Preempting;
    ULONG PreemptionFence;
} NODE, *PNODE;

struct _ADAPTER;

typedef struct _GPU {
    struct _ADAPTER *Adapter;
    /* Memory that the CPU sees, too: it is contiguous. */
    PUCHAR Visible;
    PHYSICAL_ADDRESS VisibleAddress;
    PUCHAR Local;
    /* The CPU's address of each page of the aperture; NULL if nothing is mapped. */
    PUCHAR *Aperture;

    /* Protects the nodes and the free packets. */
    KSPIN_LOCK Lock;
    NODE Nodes[NODE_COUNT];
    LIST_ENTRY FreePackets;
    PACKET Packets[PACKET_COUNT];

    /* Signaled while no packet is executed. */
    KEVENT Idle;
    KEVENT Work;
    PVOID Thread;
    BOOLEAN Stop;
    ULONG64 PacketsDone;

    TABLE_ROOT SystemRoot;
    /* Behind entries that are zero: reads find zeros, writes are lost. */
    UCHAR ZeroPage[PAGE_SIZE];
    UCHAR SinkPage[PAGE_SIZE];
    /* Pages of system memory that the thread has mapped. */
    PVOID Windows[3];
} GPU, *PGPU;

NTSTATUS GpuStart(PGPU gpu, struct _ADAPTER *adapter);
void GpuStop(PGPU gpu);
void GpuLosePower(PGPU gpu);

/*
 * At DISPATCH_LEVEL or below. With a root, the commands are in pool and freed by the GPU; without
 * one they are in a DMA buffer, which stays valid until the fence is reported.
 */
NTSTATUS GpuSubmit(PGPU gpu, ULONG node, ULONG fence, PGPU_COMMAND commands, ULONG count,
                   const TABLE_ROOT *root);
void GpuPreempt(PGPU gpu, ULONG node, ULONG fence);

/* At PASSIVE_LEVEL. */
ULONG GpuResetNode(PGPU gpu, ULONG node);
void GpuReset(PGPU gpu);
BOOLEAN GpuIsResponsive(PGPU gpu, ULONG node);

/* execute.c */
PACKET_RESULT GpuExecute(PGPU gpu, PPACKET packet, PULONG64 fault_address);
PUCHAR GpuFindMemory(PGPU gpu, ULONG64 address, PULONG64 bytes);

/* mmu.c */
enum { FROM_WINDOW, TO_WINDOW, TABLE_WINDOW };
ULONG64 GpuEncodeEntry(const DXGK_PTE *entry);
PUCHAR GpuTranslate(PGPU gpu, TABLE_ROOT root, ULONG64 address, BOOLEAN write, ULONG window,
                    PULONG64 bytes);
void GpuCloseWindow(PGPU gpu, ULONG window);
NTSTATUS GpuBuildTableUpdate(DXGKARG_BUILDPAGINGBUFFER *args);
NTSTATUS GpuBuildEntryCopies(DXGKARG_BUILDPAGINGBUFFER *args);

/* report.c: reports to the graphics kernel, synchronized with the interrupt. */
void GpuReportCompletion(PGPU gpu, ULONG node, ULONG fence);
void GpuReportFault(PGPU gpu, ULONG node, ULONG fence, ULONG64 address);
void GpuReportPreemption(PGPU gpu, ULONG node, ULONG fence);

#endif
