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

    FLAW_POINT(DRIVER_ENTRY);
#ifdef FLAW_LEAK_AT_UNLOAD
    if (AllocateMemory(64) == NULL)
        return STATUS_NO_MEMORY;
#endif
    DriverObject = driver;
    data.Version = DXGKDDI_INTERFACE_VERSION;
    FillMiniportTable(&data);
    data.DxgkDdiUnload = Unload;
#ifndef NO_SUBMIT_COMMAND_VIRTUAL
    data.DxgkDdiSubmitCommandVirtual = SgSubmitCommandVirtual;
#endif
    return DxgkInitialize(driver, registry_path, &data);
}
