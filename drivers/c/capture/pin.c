/* The pin: its context, format and state. */
#include "capture.h"

static const GUID Rgb32 = {
    0xE436EB7E, 0x524F, 0x11CE, {0x9F, 0x53, 0x00, 0x20, 0xAF, 0x0B, 0xA7, 0x70}};

/* The number of pictures follows the format. */
static ULONG64 ReadPictureLimit(const KSDATAFORMAT *format)
{
    ULONG limit = 0;

    if (format->FormatSize >= sizeof(*format) + sizeof(limit))
        RtlCopyMemory(&limit, format + 1, sizeof(limit));
    return limit;
}

/* The context is in the pin's object bag: it is freed when the pin is closed. */
static NTSTATUS NTAPI CreatePin(PKSPIN pin, PIRP irp)
{
    PCAPTURE_PIN capture = ExAllocatePool2(POOL_FLAG_NON_PAGED, sizeof(*capture), CAPTURE_TAG);
    NTSTATUS status;

    UNREFERENCED_PARAMETER(irp);
    if (capture == NULL)
        return STATUS_INSUFFICIENT_RESOURCES;
    status = KsAddItemToObjectBag(pin->Bag, capture, NULL);
    if (!NT_SUCCESS(status)) {
        ExFreePoolWithTag(capture, CAPTURE_TAG);
        return status;
    }
    capture->Pin = pin;
    capture->PictureLimit = ReadPictureLimit(pin->ConnectionFormat);
    KeInitializeTimerEx(&capture->Timer, NotificationTimer);
    KeInitializeDpc(&capture->Dpc, CaptureTimerDpc, capture);
    pin->Context = capture;
    return STATUS_SUCCESS;
}

static void StartTimer(PCAPTURE_PIN capture)
{
    LARGE_INTEGER due = {.QuadPart = -PICTURE_INTERVAL};

    capture->Running = TRUE;
    KeSetTimerEx(&capture->Timer, due, PICTURE_MILLISECONDS, &capture->Dpc);
}

/* No DPC runs after this. */
static void StopTimer(PCAPTURE_PIN capture)
{
    if (!capture->Running)
        return;
    capture->Running = FALSE;
#ifndef FLAW_TIMER_LEFT_QUEUED
    KeCancelTimer(&capture->Timer);
    KeRemoveQueueDpc(&capture->Dpc);
    KeFlushQueuedDpcs();
#endif
}

static void ReleaseClock(PCAPTURE_PIN capture)
{
    if (capture->Clock != NULL)
        capture->Clock->lpVtbl->Release(capture->Clock);
    capture->Clock = NULL;
}

static NTSTATUS NTAPI ClosePin(PKSPIN pin, PIRP irp)
{
    UNREFERENCED_PARAMETER(irp);
    StopTimer(pin->Context);
    return STATUS_SUCCESS;
}

static void NTAPI ResetPin(PKSPIN pin)
{
    CaptureDeleteClones(pin);
}

/* Larger frames for this pin alone: in copies of its descriptor and its framing. */
static NTSTATUS GrowFrames(PKSPIN pin, ULONG bytes)
{
    KSPIN_DESCRIPTOR_EX *descriptor;
    KSALLOCATOR_FRAMING_EX *framing;
    NTSTATUS status = KsEdit(pin, &pin->Descriptor, CAPTURE_TAG);

    if (!NT_SUCCESS(status))
        return status;
    descriptor = (KSPIN_DESCRIPTOR_EX *)pin->Descriptor;
    status = KsEdit(pin, &descriptor->AllocatorFraming, CAPTURE_TAG);
    if (!NT_SUCCESS(status))
        return status;
    framing = (KSALLOCATOR_FRAMING_EX *)descriptor->AllocatorFraming;
    framing->FramingItem[0].FramingRange.Range.MaxFrameSize = bytes;
    return STATUS_SUCCESS;
}

static NTSTATUS NTAPI SetFormat(PKSPIN pin, KSDATAFORMAT *old_format, KSMULTIPLE_ITEM *attributes,
                                const KSDATARANGE *range, const KSATTRIBUTE_LIST *attribute_range)
{
    const KSDATAFORMAT *format = pin->ConnectionFormat;

    UNREFERENCED_PARAMETER(old_format);
    UNREFERENCED_PARAMETER(attributes);
    UNREFERENCED_PARAMETER(range);
    UNREFERENCED_PARAMETER(attribute_range);
    if (!RtlEqualMemory(&format->SubFormat, &Rgb32, sizeof(Rgb32)))
        return STATUS_NO_MATCH;
    if (format->SampleSize <= PICTURE_BYTES)
        return STATUS_SUCCESS;
    return GrowFrames(pin, format->SampleSize);
}

/* The pin has a clock while it is not stopped, and a timer while it runs. */
static NTSTATUS NTAPI SetState(PKSPIN pin, KSSTATE to, KSSTATE from)
{
    PCAPTURE_PIN capture = pin->Context;

    if (to == KSSTATE_ACQUIRE && from == KSSTATE_STOP) {
        if (!NT_SUCCESS(KsPinGetReferenceClockInterface(pin, &capture->Clock)))
            capture->Clock = NULL;
    }
    if (to == KSSTATE_RUN)
        StartTimer(capture);
    else
        StopTimer(capture);
    if (to == KSSTATE_STOP) {
        CaptureDeleteClones(pin);
        ReleaseClock(capture);
    }
    return STATUS_SUCCESS;
}

const KSPIN_DISPATCH CapturePinDispatch = {
    .Create = CreatePin,
    .Close = ClosePin,
    .Process = CaptureProcess,
    .Reset = ResetPin,
    .SetDataFormat = SetFormat,
    .SetDeviceState = SetState,
};
