/* DriverEntry and DxgkDdiUnload. */
#include "display.h"

DRIVER_INITIALIZE DriverEntry;
static DXGKDDI_UNLOAD DodUnload;

static PDRIVER_OBJECT DriverObject;

static void NTAPI DodUnload(void)
{
    DxgkUnInitialize(DriverObject);
}

EXPORTED INIT_CODE NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    KMDDOD_INITIALIZATION_DATA data = {0};

    DriverObject = driver;
    data.Version = DXGKDDI_INTERFACE_VERSION;
    data.DxgkDdiAddDevice = DodAddDevice;
    data.DxgkDdiStartDevice = DodStartDevice;
    data.DxgkDdiStopDevice = DodStopDevice;
    data.DxgkDdiStopDeviceAndReleasePostDisplayOwnership =
        DodStopDeviceAndReleasePostDisplayOwnership;
    data.DxgkDdiRemoveDevice = DodRemoveDevice;
    data.DxgkDdiResetDevice = DodResetDevice;
    data.DxgkDdiUnload = DodUnload;
    data.DxgkDdiDispatchIoRequest = DodDispatchIoRequest;
    data.DxgkDdiSetPowerState = DodSetPowerState;
    data.DxgkDdiQueryAdapterInfo = DodQueryAdapterInfo;
    data.DxgkDdiQueryChildRelations = DodQueryChildRelations;
    data.DxgkDdiQueryChildStatus = DodQueryChildStatus;
    data.DxgkDdiQueryDeviceDescriptor = DodQueryDeviceDescriptor;
    data.DxgkDdiIsSupportedVidPn = DodIsSupportedVidPn;
    data.DxgkDdiRecommendFunctionalVidPn = DodRecommendFunctionalVidPn;
    data.DxgkDdiEnumVidPnCofuncModality = DodEnumVidPnCofuncModality;
    data.DxgkDdiSetVidPnSourceVisibility = DodSetVidPnSourceVisibility;
    data.DxgkDdiCommitVidPn = DodCommitVidPn;
    data.DxgkDdiUpdateActiveVidPnPresentPath = DodUpdateActiveVidPnPresentPath;
    data.DxgkDdiRecommendMonitorModes = DodRecommendMonitorModes;
    data.DxgkDdiQueryVidPnHWCapability = DodQueryVidPnHWCapability;
    data.DxgkDdiPresentDisplayOnly = DodPresentDisplayOnly;
    data.DxgkDdiSetPointerPosition = DodSetPointerPosition;
    data.DxgkDdiSetPointerShape = DodSetPointerShape;
    data.DxgkDdiSystemDisplayEnable = DodSystemDisplayEnable;
    data.DxgkDdiSystemDisplayWrite = DodSystemDisplayWrite;
    return DxgkInitializeDisplayOnlyDriver(driver, registry_path, &data);
}
