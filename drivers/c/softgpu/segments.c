/* The segments: an aperture, memory that the CPU sees, and memory that only the GPU sees. */
#include "driver.h"
#include "miniport.h"

ULONG64 SegmentBase(UINT segment)
{
    switch (segment) {
    case APERTURE_SEGMENT:
        return APERTURE_BASE;
    case VISIBLE_SEGMENT:
        return VISIBLE_BASE;
    default:
        return LOCAL_BASE;
    }
}

static SIZE_T SegmentSize(UINT segment)
{
    switch (segment) {
    case APERTURE_SEGMENT:
        return APERTURE_SIZE;
    case VISIBLE_SEGMENT:
        return VISIBLE_SIZE;
    default:
        return LOCAL_SIZE;
    }
}

static DXGK_SEGMENTFLAGS SegmentFlags(UINT segment)
{
    DXGK_SEGMENTFLAGS flags = {0};

    flags.Aperture = segment == APERTURE_SEGMENT;
    flags.CacheCoherent = segment == APERTURE_SEGMENT;
    flags.CpuVisible = segment == VISIBLE_SEGMENT;
#if DXGKDDI_INTERFACE_VERSION >= DXGKDDI_INTERFACE_VERSION_WDDM2_0
    flags.ApplicationTarget = segment != APERTURE_SEGMENT;
#endif
    return flags;
}

/* The segment of the paging buffers. */
#ifdef FLAW_PAGING_SEGMENT
#define PAGING_SEGMENT FLAW_PAGING_SEGMENT
#else
#define PAGING_SEGMENT APERTURE_SEGMENT
#endif

#if DXGKDDI_INTERFACE_VERSION < DXGKDDI_INTERFACE_VERSION_WDDM2_0
PAGED NTSTATUS QuerySegment3(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_QUERYSEGMENTOUT3 *out = query->pOutputData;

    if (query->OutputDataSize < sizeof(*out))
        return STATUS_BUFFER_TOO_SMALL;
    if (out->pSegmentDescriptor == NULL) {
        out->NbSegment = SEGMENT_COUNT;
        return STATUS_SUCCESS;
    }
    for (UINT id = 1; id <= SEGMENT_COUNT; id++) {
        DXGK_SEGMENTDESCRIPTOR3 *segment = &out->pSegmentDescriptor[id - 1];

        segment->BaseAddress.QuadPart = SegmentBase(id);
        segment->Size = SegmentSize(id);
        segment->CommitLimit = SegmentSize(id);
        segment->Flags = SegmentFlags(id);
        if (id == VISIBLE_SEGMENT)
            segment->CpuTranslatedAddress = adapter->Gpu.VisibleAddress;
    }
    out->PagingBufferSegmentId = PAGING_SEGMENT;
    out->PagingBufferSize = PAGING_BUFFER_SIZE;
    out->PagingBufferPrivateDataSize = sizeof(DMA_PRIVATE);
    return STATUS_SUCCESS;
}
#else
PAGED NTSTATUS QuerySegment4(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_QUERYSEGMENTOUT4 *out = query->pOutputData;

    if (query->OutputDataSize < sizeof(*out))
        return STATUS_BUFFER_TOO_SMALL;
    if (out->pSegmentDescriptor == NULL) {
        out->NbSegment = SEGMENT_COUNT;
        return STATUS_SUCCESS;
    }
    for (UINT id = 1; id <= SEGMENT_COUNT; id++) {
        PUCHAR place = out->pSegmentDescriptor + (id - 1) * out->SegmentDescriptorStride;
        DXGK_SEGMENTDESCRIPTOR4 *segment = (DXGK_SEGMENTDESCRIPTOR4 *)place;

        segment->BaseAddress.QuadPart = SegmentBase(id);
        segment->Size = SegmentSize(id);
        segment->CommitLimit = SegmentSize(id);
        segment->Flags = SegmentFlags(id);
        if (id == VISIBLE_SEGMENT)
            segment->CpuTranslatedAddress = adapter->Gpu.VisibleAddress;
    }
    out->PagingBufferSegmentId = PAGING_SEGMENT;
    out->PagingBufferSize = PAGING_BUFFER_SIZE;
    out->PagingBufferPrivateDataSize = sizeof(DMA_PRIVATE);
    return STATUS_SUCCESS;
}
#endif
