/* Modes and presents. The only mode is that of the firmware. */
#include "display.h"

#define NOT_SUPPORTED_ENTRY(name, arguments) \
    PAGED NTSTATUS NTAPI name(HANDLE context, arguments *args) \
    { \
        UNREFERENCED_PARAMETER(context); \
        UNREFERENCED_PARAMETER(args); \
        return STATUS_NOT_SUPPORTED; \
    }

NOT_SUPPORTED_ENTRY(DodIsSupportedVidPn, DXGKARG_ISSUPPORTEDVIDPN)
NOT_SUPPORTED_ENTRY(DodEnumVidPnCofuncModality, const DXGKARG_ENUMVIDPNCOFUNCMODALITY)
NOT_SUPPORTED_ENTRY(DodSetVidPnSourceVisibility, const DXGKARG_SETVIDPNSOURCEVISIBILITY)
NOT_SUPPORTED_ENTRY(DodCommitVidPn, const DXGKARG_COMMITVIDPN)
NOT_SUPPORTED_ENTRY(DodUpdateActiveVidPnPresentPath, const DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH)
NOT_SUPPORTED_ENTRY(DodQueryVidPnHWCapability, DXGKARG_QUERYVIDPNHWCAPABILITY)
NOT_SUPPORTED_ENTRY(DodPresentDisplayOnly, const DXGKARG_PRESENT_DISPLAYONLY)
NOT_SUPPORTED_ENTRY(DodSetPointerPosition, const DXGKARG_SETPOINTERPOSITION)
NOT_SUPPORTED_ENTRY(DodSetPointerShape, const DXGKARG_SETPOINTERSHAPE)

PAGED NTSTATUS NTAPI DodRecommendFunctionalVidPn(HANDLE context, const DXGKARG_RECOMMENDFUNCTIONALVIDPN *args)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(args);
    return STATUS_GRAPHICS_NO_RECOMMENDED_FUNCTIONAL_VIDPN;
}

/* The driver adds no mode to those that the monitor describes. */
PAGED NTSTATUS NTAPI DodRecommendMonitorModes(HANDLE context, const DXGKARG_RECOMMENDMONITORMODES *args)
{
    UNREFERENCED_PARAMETER(context);
    UNREFERENCED_PARAMETER(args);
    return STATUS_SUCCESS;
}

/* After a bug check: neither pageable code nor locks. */
NTSTATUS NTAPI DodSystemDisplayEnable(PVOID context, UINT target,
                                      DXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS *flags, UINT *width,
                                      UINT *height, D3DDDIFORMAT *format)
{
    PADAPTER adapter = context;

    UNREFERENCED_PARAMETER(target);
    UNREFERENCED_PARAMETER(flags);
    if (adapter->FrameBuffer == NULL)
        return STATUS_UNSUCCESSFUL;
    *width = adapter->PostDisplay.Width;
    *height = adapter->PostDisplay.Height;
    *(INT *)format = adapter->PostDisplay.ColorFormat;
    return STATUS_SUCCESS;
}

void NTAPI DodSystemDisplayWrite(PVOID context, PVOID source, UINT width, UINT height, UINT stride,
                                 UINT x, UINT y)
{
    enum { BytesPerPixel = 4 };
    PADAPTER adapter = context;
    PUCHAR from = source;

    for (UINT row = 0; row < height; row++) {
        PUCHAR to = (PUCHAR)adapter->FrameBuffer +
                    (SIZE_T)(y + row) * adapter->PostDisplay.Pitch + (SIZE_T)x * BytesPerPixel;

        for (UINT at = 0; at < width * BytesPerPixel; at++)
            to[at] = from[(SIZE_T)row * stride + at];
    }
}
