/*
 * A display-only driver (KMDDOD) of WDDM 2.0: it shows the frame buffer that the firmware set up.
 * It has no vsync interrupt: neither DxgkDdiControlInterrupt nor DxgkDdiGetScanLine.
 */
#ifndef DISPLAY_H
#define DISPLAY_H

#define DXGKDDI_INTERFACE_VERSION DXGKDDI_INTERFACE_VERSION_WDDM2_0
#include <dispmprt.h>

#define DISPLAY_TAG 'psiD'
#define SOURCE_COUNT 1
#define CHILD_COUNT 1

/* Code that is discarded after DriverEntry, code that can be paged out, and the entry point. */
#define INIT_CODE __attribute__((section("INIT")))
#define PAGED __attribute__((section("PAGE")))
#define EXPORTED __attribute__((visibility("default")))

typedef struct _ADAPTER {
    PDEVICE_OBJECT PhysicalDeviceObject;
    DXGKRNL_INTERFACE DxgkInterface;
    /* The mode that the firmware has set. Zero if another driver owns the display. */
    DXGK_DISPLAY_INFORMATION PostDisplay;
    PVOID FrameBuffer;
    SIZE_T FrameBufferSize;
    DEVICE_POWER_STATE Power;
} ADAPTER, *PADAPTER;

/* adapter.c */
DXGKDDI_ADD_DEVICE DodAddDevice;
DXGKDDI_START_DEVICE DodStartDevice;
DXGKDDI_STOP_DEVICE DodStopDevice;
DXGKDDI_STOP_DEVICE_AND_RELEASE_POST_DISPLAY_OWNERSHIP DodStopDeviceAndReleasePostDisplayOwnership;
DXGKDDI_REMOVE_DEVICE DodRemoveDevice;
DXGKDDI_RESET_DEVICE DodResetDevice;
DXGKDDI_SET_POWER_STATE DodSetPowerState;
DXGKDDI_QUERYADAPTERINFO DodQueryAdapterInfo;
DXGKDDI_QUERY_CHILD_RELATIONS DodQueryChildRelations;
DXGKDDI_QUERY_CHILD_STATUS DodQueryChildStatus;
NTSTATUS NTAPI DodQueryDeviceDescriptor(PVOID context, ULONG child,
                                        PDXGK_DEVICE_DESCRIPTOR descriptor);
NTSTATUS NTAPI DodDispatchIoRequest(PVOID context, ULONG source,
                                    PVIDEO_REQUEST_PACKET packet);

/* modes.c: what needs a mode set. */
NTSTATUS NTAPI DodIsSupportedVidPn(HANDLE context, DXGKARG_ISSUPPORTEDVIDPN *args);
NTSTATUS NTAPI DodRecommendFunctionalVidPn(HANDLE context, const DXGKARG_RECOMMENDFUNCTIONALVIDPN *args);
NTSTATUS NTAPI DodEnumVidPnCofuncModality(HANDLE context, const DXGKARG_ENUMVIDPNCOFUNCMODALITY *args);
NTSTATUS NTAPI DodSetVidPnSourceVisibility(HANDLE context, const DXGKARG_SETVIDPNSOURCEVISIBILITY *args);
NTSTATUS NTAPI DodCommitVidPn(HANDLE context, const DXGKARG_COMMITVIDPN *args);
NTSTATUS NTAPI DodUpdateActiveVidPnPresentPath(HANDLE context, const DXGKARG_UPDATEACTIVEVIDPNPRESENTPATH *args);
NTSTATUS NTAPI DodRecommendMonitorModes(HANDLE context, const DXGKARG_RECOMMENDMONITORMODES *args);
NTSTATUS NTAPI DodQueryVidPnHWCapability(HANDLE context, DXGKARG_QUERYVIDPNHWCAPABILITY *args);
NTSTATUS NTAPI DodPresentDisplayOnly(HANDLE context, const DXGKARG_PRESENT_DISPLAYONLY *args);
NTSTATUS NTAPI DodSetPointerPosition(HANDLE context, const DXGKARG_SETPOINTERPOSITION *args);
NTSTATUS NTAPI DodSetPointerShape(HANDLE context, const DXGKARG_SETPOINTERSHAPE *args);
NTSTATUS NTAPI DodSystemDisplayEnable(PVOID context, UINT target,
                                      DXGKARG_SYSTEM_DISPLAY_ENABLE_FLAGS *flags, UINT *width,
                                      UINT *height, D3DDDIFORMAT *format);
void NTAPI DodSystemDisplayWrite(PVOID context, PVOID source, UINT width, UINT height, UINT stride,
                                 UINT x, UINT y);

#endif
