/* The segments: an aperture, and memory that only the GPU sees. */
#include "driver.h"
#include "miniport.h"

#if DXGKDDI_INTERFACE_VERSION < DXGKDDI_INTERFACE_VERSION_WDDM2_0
PAGED NTSTATUS QuerySegment3(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_QUERYSEGMENTOUT3 *out = query->pOutputData;
    DXGK_SEGMENTDESCRIPTOR3 *segments;

    UNREFERENCED_PARAMETER(adapter);
    if (query->OutputDataSize < sizeof(*out))
        return STATUS_BUFFER_TOO_SMALL;
    segments = out->pSegmentDescriptor;
    if (segments == NULL) {
        out->NbSegment = LOCAL_SEGMENT;
        return STATUS_SUCCESS;
    }
    segments[0].BaseAddress.QuadPart = APERTURE_BASE;
    segments[0].Size = APERTURE_SIZE;
    segments[0].CommitLimit = APERTURE_SIZE;
    segments[0].Flags.Aperture = TRUE;
    segments[0].Flags.CacheCoherent = TRUE;
    segments[1].BaseAddress.QuadPart = LOCAL_BASE;
    segments[1].Size = LOCAL_SIZE;
    segments[1].CommitLimit = LOCAL_SIZE;
    out->PagingBufferSegmentId = APERTURE_SEGMENT;
    out->PagingBufferSize = PAGING_BUFFER_SIZE;
    out->PagingBufferPrivateDataSize = sizeof(DMA_PRIVATE);
    return STATUS_SUCCESS;
}
#else
PAGED NTSTATUS QuerySegment4(PADAPTER adapter, const DXGKARG_QUERYADAPTERINFO *query)
{
    DXGK_QUERYSEGMENTOUT4 *out = query->pOutputData;
    DXGK_SEGMENTDESCRIPTOR4 *aperture;
    DXGK_SEGMENTDESCRIPTOR4 *local;

    UNREFERENCED_PARAMETER(adapter);
    if (query->OutputDataSize < sizeof(*out))
        return STATUS_BUFFER_TOO_SMALL;
    if (out->pSegmentDescriptor == NULL) {
        out->NbSegment = LOCAL_SEGMENT;
        return STATUS_SUCCESS;
    }
    aperture = (DXGK_SEGMENTDESCRIPTOR4 *)out->pSegmentDescriptor;
    local = (DXGK_SEGMENTDESCRIPTOR4 *)(out->pSegmentDescriptor + out->SegmentDescriptorStride);
    aperture->BaseAddress.QuadPart = APERTURE_BASE;
    aperture->Size = APERTURE_SIZE;
    aperture->CommitLimit = APERTURE_SIZE;
    aperture->Flags.Aperture = TRUE;
    aperture->Flags.CacheCoherent = TRUE;
    local->BaseAddress.QuadPart = LOCAL_BASE;
    local->Size = LOCAL_SIZE;
    local->CommitLimit = LOCAL_SIZE;
    local->Flags.ApplicationTarget = TRUE;
    out->PagingBufferSegmentId = APERTURE_SEGMENT;
    out->PagingBufferSize = PAGING_BUFFER_SIZE;
    out->PagingBufferPrivateDataSize = sizeof(DMA_PRIVATE);
    return STATUS_SUCCESS;
}
#endif
