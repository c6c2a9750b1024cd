/* DriverEntry and DxgkDdiUnload. */
#include "driver.h"
#include "miniport.h"

DRIVER_INITIALIZE DriverEntry;
static DXGKDDI_UNLOAD Unload;

static PDRIVER_OBJECT DriverObject;

static void NTAPI Unload(void)
{
    DxgkUnInitialize(DriverObject);
}

EXPORTED INIT_CODE NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    DRIVER_INITIALIZATION_DATA data = {0};

    DriverObject = driver;
    data.Version = DXGKDDI_INTERFACE_VERSION;
    FillMiniportTable(&data);
    data.DxgkDdiUnload = Unload;
    /* No context has an allocation list. */
    data.DxgkDdiRender = NULL;
    data.DxgkDdiPatch = NULL;
    data.DxgkDdiSubmitCommandVirtual = SgSubmitCommandVirtual;
    data.DxgkDdiCreateProcess = GvCreateProcess;
    data.DxgkDdiDestroyProcess = GvDestroyProcess;
    data.DxgkDdiSetRootPageTable = GvSetRootPageTable;
    data.DxgkDdiGetRootPageTableSize = GvGetRootPageTableSize;
    return DxgkInitialize(driver, registry_path, &data);
}
