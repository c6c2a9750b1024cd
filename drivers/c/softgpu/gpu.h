/*
 * A GPU in software: memory, an aperture, nodes with queues, and a thread that executes commands.
 *
 * The driver writes commands into DMA buffers. A packet is a submitted part of a DMA buffer. The
 * thread executes packets in the order of their node and reports each with an interrupt.
 */
#ifndef GPU_H
#define GPU_H

#define NODE_COUNT 2
#define PAGING_NODE 1
#define PACKET_COUNT 128

/* The segments, and their addresses in the GPU's address space. */
#define APERTURE_SEGMENT 1
#define VISIBLE_SEGMENT 2
#define LOCAL_SEGMENT 3
#define SEGMENT_COUNT 3
#define VISIBLE_BASE 0x0000000010000000ull
#define VISIBLE_SIZE (4u << 20)
#define LOCAL_BASE 0x0000000020000000ull
#define LOCAL_SIZE (4u << 20)
#define APERTURE_BASE 0x0000000080000000ull
#define APERTURE_SIZE (64u << 20)
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
} GPU_OPERATION;

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
} GPU, *PGPU;

NTSTATUS GpuStart(PGPU gpu, struct _ADAPTER *adapter);
void GpuStop(PGPU gpu);
void GpuLosePower(PGPU gpu);

/* At DISPATCH_LEVEL or below. The commands stay valid until the fence is reported. */
NTSTATUS GpuSubmit(PGPU gpu, ULONG node, ULONG fence, PGPU_COMMAND commands, ULONG count,
                   BOOLEAN owned);
void GpuPreempt(PGPU gpu, ULONG node, ULONG fence);

/* At PASSIVE_LEVEL. */
ULONG GpuResetNode(PGPU gpu, ULONG node);
void GpuReset(PGPU gpu);
BOOLEAN GpuIsResponsive(PGPU gpu, ULONG node);

/* execute.c */
PACKET_RESULT GpuExecute(PGPU gpu, PPACKET packet, PULONG64 fault_address);

/* report.c: reports to the graphics kernel, synchronized with the interrupt. */
void GpuReportCompletion(PGPU gpu, ULONG node, ULONG fence);
void GpuReportFault(PGPU gpu, ULONG node, ULONG fence, ULONG64 address);
void GpuReportPreemption(PGPU gpu, ULONG node, ULONG fence);

#endif
