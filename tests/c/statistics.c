/* Counters of D3DKMTQueryStatistics: allocations that are created and destroyed, allocations of
   segments, packets of nodes; of the adapter and of this process. Nothing else uses the adapter. */
#include "client.h"

#include <string.h>

enum { ALLOCATIONS = 5, PACKETS = 7, PAGE = 4096 };

static LUID luid;

static D3DKMT_QUERYSTATISTICS_RESULT ask(D3DKMT_QUERYSTATISTICS_TYPE type, UINT index)
{
    D3DKMT_QUERYSTATISTICS query = {.Type = type, .AdapterLuid = luid, .Index = index};
    query.hProcess = (HANDLE)(intptr_t)-1;
    memset(&query.QueryResult, 0xcc, sizeof query.QueryResult);
    CHECK(D3DKMTQueryStatistics(&query) == STATUS_SUCCESS);
    return query.QueryResult;
}

static D3DKMT_QUERYSTATSTICS_ALLOCATIONS allocations(void)
{
    return ask(D3DKMT_QUERYSTATISTICS_ADAPTER, 0).AdapterInformation.Allocations;
}

static UINT segments(void)
{
    return ask(D3DKMT_QUERYSTATISTICS_ADAPTER, 0).AdapterInformation.NbSegments;
}

/* Allocations and bytes of this process in all segments, which are those of the adapter. */
static void check_segments(UINT count)
{
    uint64_t bytes = 0, own_bytes = 0;
    UINT found = 0, own = 0;
    for (UINT i = 0; i < segments(); i++) {
        D3DKMT_QUERYSTATISTICS_SEGMENT_INFORMATION all =
            ask(D3DKMT_QUERYSTATISTICS_SEGMENT, i).SegmentInformation;
        D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION mine =
            ask(D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT, i).ProcessSegmentInformation;
        CHECK(all.Memory.AllocsCommitted == all.Memory.AllocsResident);
        CHECK(all.BytesCommitted == all.BytesResident && mine.BytesCommitted <= all.BytesCommitted);
        found += all.Memory.AllocsCommitted;
        own += mine.VideoMemory.AllocsCommitted;
        bytes += all.BytesCommitted;
        own_bytes += mine.BytesCommitted;
    }
    CHECK(found == count && own == count && own_bytes == (uint64_t)count * PAGE);
    CHECK(bytes >= own_bytes); /* Page tables are in segments, too. */
}

static D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION of_node(void)
{
    D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION all =
        ask(D3DKMT_QUERYSTATISTICS_NODE, 0).NodeInformation.GlobalInformation.PacketStatistics;
    D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION mine =
        ask(D3DKMT_QUERYSTATISTICS_PROCESS_NODE, 0).ProcessNodeInformation.PacketStatistics;
    CHECK(memcmp(&all.QueuePacket, &mine.QueuePacket, sizeof all.QueuePacket) == 0);
    CHECK(memcmp(&all.DmaPacket[D3DKMT_ClientRenderBuffer],
                 &mine.DmaPacket[D3DKMT_ClientRenderBuffer], sizeof all.DmaPacket[0]) == 0);
    return all;
}

static void check_packets(UINT submitted, UINT completed)
{
    D3DKMT_QUERYSTATISTICS_PACKET_INFORMATION packets = of_node();
    CHECK(packets.QueuePacket[D3DKMT_RenderCommandBuffer].PacketSubmited == submitted);
    CHECK(packets.QueuePacket[D3DKMT_RenderCommandBuffer].PacketCompleted == completed);
    CHECK(packets.DmaPacket[D3DKMT_ClientRenderBuffer].PacketSubmited == submitted);
    CHECK(packets.DmaPacket[D3DKMT_ClientRenderBuffer].PacketCompleted == completed);
    CHECK(packets.DmaPacket[D3DKMT_ClientRenderBuffer].PacketFaulted == 0);
}

/* The paging commands that the nodes have completed. */
static UINT paging(void)
{
    UINT count = 0;
    UINT nodes = ask(D3DKMT_QUERYSTATISTICS_ADAPTER, 0).AdapterInformation.NodeCount;
    for (UINT i = 0; i < nodes; i++) {
        D3DKMT_QUERYSTATISTICS_DMA_PACKET_TYPE_INFORMATION buffers =
            ask(D3DKMT_QUERYSTATISTICS_NODE, i)
                .NodeInformation.GlobalInformation.PacketStatistics.DmaPacket[D3DKMT_SystemPagingBuffer];
        CHECK(buffers.PacketCompleted <= buffers.PacketSubmited);
        count += buffers.PacketCompleted;
    }
    return count;
}

static void make_resident(D3DKMT_HANDLE device, const D3DKMT_HANDLE *list)
{
    D3DKMT_CREATEPAGINGQUEUE queue = {.hDevice = device};
    CHECK(D3DKMTCreatePagingQueue(&queue) == STATUS_SUCCESS);
    D3DDDI_MAKERESIDENT resident = {.hPagingQueue = queue.hPagingQueue,
        .NumAllocations = ALLOCATIONS, .AllocationList = list};
    NTSTATUS status = D3DKMTMakeResident(&resident);
    CHECK(status == STATUS_SUCCESS || status == STATUS_PENDING);
    D3DKMT_WAITFORSYNCHRONIZATIONOBJECTFROMCPU wait = {.hDevice = device, .ObjectCount = 1,
        .ObjectHandleArray = &queue.hSyncObject, .FenceValueArray = &resident.PagingFenceValue};
    CHECK(D3DKMTWaitForSynchronizationObjectFromCpu(&wait) == STATUS_SUCCESS);
    D3DDDI_DESTROYPAGINGQUEUE end = {.hPagingQueue = queue.hPagingQueue};
    CHECK(D3DKMTDestroyPagingQueue(&end) == STATUS_SUCCESS);
}

static void submit(D3DKMT_HANDLE context, D3DKMT_HANDLE target)
{
    uint8_t packet[WINDTUNNEL_FILL_SIZE];
    windtunnel_fill(packet, target, 0, PAGE, 0xa5);
    D3DKMT_SUBMITCOMMAND submit = {.BroadcastContextCount = 1, .BroadcastContext = {context},
        .pPrivateDriverData = packet, .PrivateDriverDataSize = sizeof packet};
    CHECK(D3DKMTSubmitCommand(&submit) == STATUS_SUCCESS);
}

/* Waits until the packets of an allocation have completed. */
static void finish(D3DKMT_HANDLE device, D3DKMT_HANDLE target)
{
    D3DKMT_LOCK lock = {.hDevice = device, .hAllocation = target, .Flags = {.LockEntire = 1}};
    CHECK(D3DKMTLock(&lock) == STATUS_SUCCESS);
    D3DKMT_UNLOCK unlock = {.hDevice = device, .NumAllocations = 1, .phAllocations = &target};
    CHECK(D3DKMTUnlock(&unlock) == STATUS_SUCCESS);
}

int main(void)
{
    D3DKMT_ADAPTERINFO adapters[4] = {0};
    D3DKMT_ENUMADAPTERS2 all = {.NumAdapters = 4, .pAdapters = adapters};
    CHECK(D3DKMTEnumAdapters2(&all) == STATUS_SUCCESS && all.NumAdapters == 1);
    luid = adapters[0].AdapterLuid;
    D3DKMT_HANDLE adapter = adapters[0].hAdapter, device = create_device(adapter);
    D3DKMT_QUERYSTATSTICS_ALLOCATIONS before = allocations();
    CHECK(before.Created.Count == 0 && before.Destroyed.Count == 0);
    check_segments(0);
    check_packets(0, 0);

    D3DKMT_HANDLE list[ALLOCATIONS];
    for (int i = 0; i < ALLOCATIONS; i++)
        list[i] = create_allocation(device);
    D3DKMT_QUERYSTATSTICS_ALLOCATIONS created = allocations();
    CHECK(created.Created.Count == ALLOCATIONS && created.Created.Bytes == ALLOCATIONS * PAGE);
    CHECK(created.Destroyed.Count == 0 && created.Destroyed.Bytes == 0);
    UINT paged = paging();
    make_resident(device, list);
    check_segments(ALLOCATIONS);
    CHECK(paging() > paged);

    D3DKMT_CREATECONTEXTVIRTUAL context = {.hDevice = device, .EngineAffinity = 1};
    CHECK(D3DKMTCreateContextVirtual(&context) == STATUS_SUCCESS);
    for (int i = 0; i < PACKETS; i++)
        submit(context.hContext, list[0]);
    finish(device, list[0]);
    check_packets(PACKETS, PACKETS);
    D3DKMT_DESTROYCONTEXT end = {.hContext = context.hContext};
    CHECK(D3DKMTDestroyContext(&end) == STATUS_SUCCESS);
    check_packets(PACKETS, PACKETS); /* A context that has ended is counted. */

    D3DKMT_DESTROYALLOCATION2 destroy = {.hDevice = device, .phAllocationList = list,
        .AllocationCount = ALLOCATIONS, .Flags = {.SynchronousDestroy = 1}};
    CHECK(D3DKMTDestroyAllocation2(&destroy) == STATUS_SUCCESS);
    D3DKMT_QUERYSTATSTICS_ALLOCATIONS destroyed = allocations();
    CHECK(destroyed.Created.Count == ALLOCATIONS && destroyed.Destroyed.Count == ALLOCATIONS);
    CHECK(destroyed.Destroyed.Bytes == ALLOCATIONS * PAGE);
    check_segments(0);
    destroy_device(device);
    close_adapter(adapter);
    puts("statistics: all counted");
    return EXIT_SUCCESS;
}
