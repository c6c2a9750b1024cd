/*
 * A small displib: connects a display miniport driver with the graphics kernel.
 *
 * The initializer is not an import. displib loads the graphics kernel, opens its device, asks it
 * for the initializer with an internal device control request, and calls it. DxgkDdiStartDevice is
 * replaced: the interface is copied to a global before the driver sees it.
 */
#include <dispmprt.h>

#define IOCTL_INITIALIZE_WIN8 0x230047
#define IOCTL_INITIALIZE 0x23003F
#define IOCTL_INITIALIZE_DISPLAY_ONLY 0x230043
#define IOCTL_UNINITIALIZE 0x23004B

#define OPEN_ATTEMPTS 10
#define OPEN_INTERVAL (-5 * 10000) /* 5 ms, in units of 100 ns. */

typedef NTSTATUS NTAPI INITIALIZE(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path, PVOID data);
typedef NTSTATUS NTAPI UNINITIALIZE(PDRIVER_OBJECT driver);

static DXGKRNL_INTERFACE DxgkInterface;
static PDXGKDDI_START_DEVICE DriverStartDevice;
static PDEVICE_OBJECT DxgkDevice;
static PFILE_OBJECT DxgkFile;

static const ULONG Versions[] = {
    0x1052, 0x1053, 0x2005, 0x300E, 0x4002, 0x4003, 0x5023, 0x6003,
    0x6010, 0x6011, 0x700A, 0x8001, 0x9006, 0xA00B, 0xB004,
};

static BOOLEAN IsKnownVersion(ULONG version)
{
    for (ULONG at = 0; at < ARRAYSIZE(Versions); at++) {
        if (version == Versions[at])
            return TRUE;
    }
    return version >= 0xC004;
}

static NTSTATUS OpenGraphicsKernel(void)
{
    UNICODE_STRING service =
        RTL_CONSTANT_STRING(L"\\Registry\\Machine\\System\\CurrentControlSet\\Services\\DXGKrnl");
    UNICODE_STRING name = RTL_CONSTANT_STRING(L"\\Device\\DxgKrnl");
    LARGE_INTEGER interval = {.QuadPart = OPEN_INTERVAL};
    NTSTATUS status = ZwLoadDriver(&service);
    ULONG attempts = status == STATUS_IMAGE_ALREADY_LOADED ? OPEN_ATTEMPTS : 1;

    if (!NT_SUCCESS(status) && status != STATUS_IMAGE_ALREADY_LOADED)
        return status;
    do {
        status = IoGetDeviceObjectPointer(&name, GENERIC_READ | GENERIC_WRITE, &DxgkFile,
                                          &DxgkDevice);
        if (NT_SUCCESS(status))
            break;
        KeDelayExecutionThread(KernelMode, FALSE, &interval);
    } while (--attempts > 0);
    return status;
}

/* Asks the graphics kernel for one of its functions. */
static NTSTATUS QueryFunction(ULONG code, PVOID *function)
{
    KEVENT event;
    IO_STATUS_BLOCK io_status = {0};
    NTSTATUS status;
    PIRP irp;

    *function = NULL;
    KeInitializeEvent(&event, NotificationEvent, FALSE);
    irp = IoBuildDeviceIoControlRequest(code, DxgkDevice, NULL, 0, function, sizeof(*function),
                                        TRUE, &event, &io_status);
    if (irp == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = IofCallDriver(DxgkDevice, irp);
    if (status == STATUS_PENDING) {
        KeWaitForSingleObject(&event, Executive, KernelMode, FALSE, NULL);
        status = io_status.Status;
    }
    if (NT_SUCCESS(status) && *function == NULL)
        status = STATUS_UNSUCCESSFUL;
    return status;
}

static NTSTATUS QueryInitializer(PVOID *function)
{
    RTL_OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof(version)};
    NTSTATUS status = STATUS_INVALID_DEVICE_REQUEST;

    RtlGetVersion(&version);
    if (version.dwMajorVersion > 6 || (version.dwMajorVersion == 6 && version.dwMinorVersion >= 2))
        status = QueryFunction(IOCTL_INITIALIZE_WIN8, function);
    if (status == STATUS_INVALID_DEVICE_REQUEST)
        status = QueryFunction(IOCTL_INITIALIZE, function);
    return status;
}

static NTSTATUS QueryDisplayOnlyInitializer(PVOID *function)
{
    return QueryFunction(IOCTL_INITIALIZE_DISPLAY_ONLY, function);
}

static NTSTATUS NTAPI StartDevice(PVOID context, PDXGK_START_INFO start_info,
                                  PDXGKRNL_INTERFACE dxgk_interface, PULONG number_of_sources,
                                  PULONG number_of_children)
{
    RtlCopyMemory(&DxgkInterface, dxgk_interface, dxgk_interface->Size);
    return DriverStartDevice(context, start_info, &DxgkInterface, number_of_sources,
                             number_of_children);
}

/* Both tables of a driver begin alike. */
typedef struct _TABLE_HEAD {
    ULONG Version;
    PDXGKDDI_ADD_DEVICE DxgkDdiAddDevice;
    PDXGKDDI_START_DEVICE DxgkDdiStartDevice;
} TABLE_HEAD, *PTABLE_HEAD;
C_ASSERT(FIELD_OFFSET(TABLE_HEAD, DxgkDdiStartDevice) ==
         FIELD_OFFSET(DRIVER_INITIALIZATION_DATA, DxgkDdiStartDevice));

typedef NTSTATUS QUERY_INITIALIZER(PVOID *function);

static NTSTATUS Register(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path, PTABLE_HEAD table,
                         QUERY_INITIALIZER *query)
{
    PVOID initialize;
    NTSTATUS status;

    if (driver == NULL || registry_path == NULL || table == NULL)
        return STATUS_INVALID_PARAMETER;
    if (!IsKnownVersion(table->Version))
        return STATUS_REVISION_MISMATCH;
    status = OpenGraphicsKernel();
    if (!NT_SUCCESS(status))
        return status;
    status = query(&initialize);
    if (!NT_SUCCESS(status))
        return status;
    DriverStartDevice = table->DxgkDdiStartDevice;
    table->DxgkDdiStartDevice = StartDevice;
    return ((INITIALIZE *)initialize)(driver, registry_path, table);
}

NTSTATUS NTAPI DxgkInitialize(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path,
                              PDRIVER_INITIALIZATION_DATA data)
{
    return Register(driver, registry_path, (PTABLE_HEAD)data, QueryInitializer);
}

NTSTATUS NTAPI DxgkInitializeDisplayOnlyDriver(PDRIVER_OBJECT driver,
                                               PUNICODE_STRING registry_path,
                                               PKMDDOD_INITIALIZATION_DATA data)
{
    return Register(driver, registry_path, (PTABLE_HEAD)data, QueryDisplayOnlyInitializer);
}

NTSTATUS NTAPI DxgkUnInitialize(PDRIVER_OBJECT driver)
{
    PVOID uninitialize;
    NTSTATUS status;

    if (DxgkDevice == NULL)
        return STATUS_INVALID_DEVICE_REQUEST;
    status = QueryFunction(IOCTL_UNINITIALIZE, &uninitialize);
    if (NT_SUCCESS(status))
        status = ((UNINITIALIZE *)uninitialize)(driver);
    ObDereferenceObject(DxgkFile);
    DxgkDevice = NULL;
    return status;
}
