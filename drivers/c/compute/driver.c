/* DriverEntry and Unload. */
#include "compute.h"

DRIVER_INITIALIZE DriverEntry;
static DXGKDDI_UNLOAD ComputeUnload;

static PDRIVER_OBJECT DriverObject;

static void NTAPI ComputeUnload(void)
{
    DxgkUnInitialize(DriverObject);
}

INIT_CODE __attribute__((visibility("default"))) NTSTATUS NTAPI
DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    DRIVER_INITIALIZATION_DATA data = {0};

    DriverObject = driver;
    data.Version = DXGKDDI_INTERFACE_VERSION;
    data.DxgkDdiAddDevice = ComputeAddDevice;
    data.DxgkDdiStartDevice = ComputeStartDevice;
    data.DxgkDdiStopDevice = ComputeStopDevice;
    data.DxgkDdiRemoveDevice = ComputeRemoveDevice;
    data.DxgkDdiUnload = ComputeUnload;
    data.DxgkDdiQueryAdapterInfo = ComputeQueryAdapterInfo;
    data.DxgkDdiCreateDevice = ComputeCreateDevice;
    data.DxgkDdiDestroyDevice = ComputeDestroyDevice;
    data.DxgkDdiCreateAllocation = ComputeCreateAllocation;
    data.DxgkDdiDestroyAllocation = ComputeDestroyAllocation;
    data.DxgkDdiOpenAllocation = ComputeOpenAllocation;
    data.DxgkDdiCloseAllocation = ComputeCloseAllocation;
    return DxgkInitialize(driver, registry_path, &data);
}
