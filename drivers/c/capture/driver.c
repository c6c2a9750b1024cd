/* DriverEntry, the device, and the descriptors of its filter. */
#include "capture.h"

DRIVER_INITIALIZE DriverEntry;

static NTSTATUS NTAPI AddDevice(PKSDEVICE device)
{
    PCAPTURE_DEVICE context = ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*context), CAPTURE_TAG);

    if (context == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    context->Device = device;
    device->Context = context;
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI StartDevice(PKSDEVICE device, PIRP irp, PCM_RESOURCE_LIST translated,
                                  PCM_RESOURCE_LIST raw)
{
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(irp);
    UNREFERENCED_PARAMETER(translated);
    UNREFERENCED_PARAMETER(raw);
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI QueryDevice(PKSDEVICE device, PIRP irp)
{
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(irp);
    return STATUS_SUCCESS;
}

static void NTAPI StopDevice(PKSDEVICE device, PIRP irp)
{
    UNREFERENCED_PARAMETER(device);
    UNREFERENCED_PARAMETER(irp);
}

static void NTAPI RemoveDevice(PKSDEVICE device, PIRP irp)
{
    UNREFERENCED_PARAMETER(irp);
    ExFreePoolWithTag(device->Context, CAPTURE_TAG);
    device->Context = NULL;
}

static const KSDEVICE_DISPATCH DeviceDispatch = {
    .Add = AddDevice,
    .Start = StartDevice,
    .QueryStop = QueryDevice,
    .Stop = StopDevice,
    .QueryRemove = QueryDevice,
    .Remove = RemoveDevice,
    .SurpriseRemoval = StopDevice,
};

static const KSDATARANGE VideoRange = {
    .FormatSize = sizeof(KSDATARANGE),
    .MajorFormat = {0x73646976, 0x0000, 0x0010, {0x80, 0x00, 0x00, 0xAA, 0x00, 0x38, 0x9B, 0x71}},
};

static const KSDATARANGE *const VideoRanges[] = {&VideoRange};

/* Three frames in nonpaged system memory. */
static const KSALLOCATOR_FRAMING_EX Framing = {
    .CountItems = 1,
    .OutputCompression = {.RatioNumerator = 1, .RatioDenominator = 1},
    .FramingItem = {{
        .MemoryType = {0x4A6D5FC4, 0x7895, 0x11D1, {0xB0, 0x69, 0x00, 0xA0, 0xC9, 0x06, 0x28, 0x02}},
        .Flags = KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY,
        .Frames = 3,
        .FileAlignment = 15,
        .FramingRange = {.Range = {PICTURE_BYTES, PICTURE_BYTES, 0}},
    }},
};

static const KSPIN_DESCRIPTOR_EX Pins[] = {{
    .Dispatch = &CapturePinDispatch,
    .PinDescriptor = {
        .DataRangesCount = ARRAYSIZE(VideoRanges),
        .DataRanges = (const PKSDATARANGE *)VideoRanges,
        .DataFlow = KSPIN_DATAFLOW_OUT,
        .Communication = KSPIN_COMMUNICATION_SOURCE,
    },
    .InstancesPossible = 2,
    .AllocatorFraming = &Framing,
}};

static NTSTATUS NTAPI CreateFilter(PKSFILTER filter, PIRP irp)
{
    UNREFERENCED_PARAMETER(irp);
    return filter->Context == NULL ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS;
}

static NTSTATUS NTAPI CloseFilter(PKSFILTER filter, PIRP irp)
{
    UNREFERENCED_PARAMETER(filter);
    UNREFERENCED_PARAMETER(irp);
    return STATUS_SUCCESS;
}

static const KSFILTER_DISPATCH FilterDispatch = {
    .Create = CreateFilter,
    .Close = CloseFilter,
};

static const KSFILTER_DESCRIPTOR Filter = {
    .Dispatch = &FilterDispatch,
    .Version = KSFILTER_DESCRIPTOR_VERSION,
    .PinDescriptorsCount = ARRAYSIZE(Pins),
    .PinDescriptorSize = sizeof(Pins[0]),
    .PinDescriptors = Pins,
};

static const KSFILTER_DESCRIPTOR *const Filters[] = {&Filter};

static const KSDEVICE_DESCRIPTOR Device = {
    .Dispatch = &DeviceDispatch,
    .FilterDescriptorsCount = ARRAYSIZE(Filters),
    .FilterDescriptors = Filters,
    .Version = KSDEVICE_DESCRIPTOR_VERSION,
};

#ifdef FLAW_READS_FILE
/* Opens a file, and compares its first bytes with these. */
static NTSTATUS CompareFile(UNICODE_STRING name, PCSTR expected, ULONG length)
{
    OBJECT_ATTRIBUTES attributes;
    IO_STATUS_BLOCK io_status;
    HANDLE file;
    CHAR bytes[16] = {0};
    NTSTATUS status;

    InitializeObjectAttributes(&attributes, &name, OBJ_CASE_INSENSITIVE | OBJ_KERNEL_HANDLE, NULL,
                               NULL);
    status = ZwCreateFile(&file, GENERIC_READ | SYNCHRONIZE, &attributes, &io_status, NULL, 0,
                          FILE_SHARE_READ, FILE_OPEN,
                          FILE_SYNCHRONOUS_IO_NONALERT | FILE_NON_DIRECTORY_FILE, NULL, 0);
    if (!NT_SUCCESS(status))
        return status;
    status = ZwReadFile(file, NULL, NULL, NULL, &io_status, bytes, length, NULL, NULL);
    ZwClose(file);
    if (NT_SUCCESS(status) &&
        (io_status.Information != length || !RtlEqualMemory(bytes, expected, length)))
        status = STATUS_UNSUCCESSFUL;
    return status;
}

/* One file is below the folder of the driver, the other one is not. */
static NTSTATUS ReadFiles(void)
{
    UNICODE_STRING below = RTL_CONSTANT_STRING(L"\\SystemRoot\\Settings\\Capture.txt");
    UNICODE_STRING outside = RTL_CONSTANT_STRING(L"\\??\\C:\\..\\outside.txt");
    NTSTATUS status = CompareFile(below, "640x480", 7);

    if (!NT_SUCCESS(status))
        return status;
    status = CompareFile(outside, "", 0);
    return status == STATUS_OBJECT_NAME_NOT_FOUND ? STATUS_SUCCESS : STATUS_UNSUCCESSFUL;
}
#endif

#ifdef FLAW_THREAD_LEFT_RUNNING
static KEVENT Never;

static void NTAPI WaitForEver(PVOID context)
{
    UNREFERENCED_PARAMETER(context);
    KeWaitForSingleObject(&Never, Executive, KernelMode, FALSE, NULL);
    PsTerminateSystemThread(STATUS_SUCCESS);
}

static NTSTATUS StartThread(void)
{
    HANDLE thread;
    NTSTATUS status;

    KeInitializeEvent(&Never, NotificationEvent, FALSE);
    status = PsCreateSystemThread(&thread, THREAD_ALL_ACCESS, NULL, NULL, NULL, WaitForEver, NULL);
    if (NT_SUCCESS(status))
        ZwClose(thread);
    return status;
}
#endif

EXPORTED INIT_CODE NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
#ifdef FLAW_READS_FILE
    NTSTATUS status = ReadFiles();

    if (!NT_SUCCESS(status))
        return status;
#endif
#ifdef FLAW_THREAD_LEFT_RUNNING
    if (!NT_SUCCESS(StartThread()))
        return STATUS_UNSUCCESSFUL;
#endif
    return KsInitializeDriver(driver, registry_path, &Device);
}
