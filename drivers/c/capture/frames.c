/* Frames: queued by the client, cloned for the hardware, filled in the DPC of the timer. */
#include "capture.h"

/* Blue, green, red and zero. The first pixel is the number of the picture. */
static ULONG Pixel(ULONG64 number, ULONG x, ULONG y)
{
    if (x == 0 && y == 0)
        return (ULONG)number & 0xFFFFFF;
    return (UCHAR)(x * 16 + number * 4) | (ULONG)(UCHAR)(y * 20) << 8 |
           (ULONG)(UCHAR)((x ^ y) * 15 + number) << 16;
}

static void DrawPicture(ULONG64 number, PUCHAR to, ULONG bytes)
{
    for (ULONG at = 0; at + sizeof(ULONG) <= bytes; at += sizeof(ULONG)) {
        ULONG position = at / sizeof(ULONG);
        ULONG pixel = Pixel(number, position % PICTURE_WIDTH, position / PICTURE_WIDTH);

        RtlCopyMemory(to + at, &pixel, sizeof(pixel));
    }
}

static LONGLONG GetTime(PCAPTURE_PIN capture)
{
    return capture->Clock == NULL ? 0 : capture->Clock->lpVtbl->GetTime(capture->Clock);
}

static void FillFrame(PCAPTURE_PIN capture, KSSTREAM_HEADER *header)
{
    ULONG64 number = capture->Pictures++;
    ULONG bytes = header->FrameExtent < PICTURE_BYTES ? header->FrameExtent : PICTURE_BYTES;

    DrawPicture(number, header->Data, bytes);
    header->DataUsed = bytes;
    header->Duration = PICTURE_INTERVAL;
    header->PresentationTime.Time = GetTime(capture);
    header->PresentationTime.Numerator = 1;
    header->PresentationTime.Denominator = 1;
    header->OptionsFlags =
        KSSTREAM_HEADER_OPTIONSF_TIMEVALID | KSSTREAM_HEADER_OPTIONSF_DURATIONVALID;
    if (number == 0)
        header->OptionsFlags |= KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY;
    if (capture->PictureLimit == number + 1)
        header->OptionsFlags |= KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM;
}

/* At DISPATCH_LEVEL. The oldest clone is the first one. */
void NTAPI CaptureTimerDpc(PKDPC dpc, PVOID context, PVOID argument1, PVOID argument2)
{
    PCAPTURE_PIN capture = context;
    PKSSTREAM_POINTER clone;

    UNREFERENCED_PARAMETER(dpc);
    UNREFERENCED_PARAMETER(argument1);
    UNREFERENCED_PARAMETER(argument2);
    if (!capture->Running)
        return;
#ifdef FLAW_TIMER_REARMS
    KeSetTimer(&capture->Timer, (LARGE_INTEGER){.QuadPart = 0}, &capture->Dpc);
    return;
#endif
    clone = KsPinGetFirstCloneStreamPointer(capture->Pin);
    if (clone == NULL)
        return; /* No buffer is queued: the picture is lost. */
    if (clone->StreamHeader != NULL)
        FillFrame(capture, clone->StreamHeader);
    KsStreamPointerDelete(clone);
}

static void NTAPI CancelClone(PKSSTREAM_POINTER clone)
{
    KsStreamPointerDelete(clone);
}

/* Passes every frame of the queue to the hardware. */
NTSTATUS NTAPI CaptureProcess(PKSPIN pin)
{
    PKSSTREAM_POINTER edge;

    while ((edge = KsPinGetLeadingEdgeStreamPointer(pin, KSSTREAM_POINTER_STATE_LOCKED)) != NULL) {
        PKSSTREAM_POINTER clone;
        NTSTATUS status = KsStreamPointerClone(edge, CancelClone, 0, &clone);

        if (!NT_SUCCESS(status)) {
            KsStreamPointerUnlock(edge, FALSE);
            return status;
        }
        if (!NT_SUCCESS(KsStreamPointerAdvance(edge)))
            break; /* The last frame: the edge is not locked any more. */
        KsStreamPointerUnlock(edge, FALSE);
    }
    return STATUS_SUCCESS;
}

void CaptureDeleteClones(PKSPIN pin)
{
    PKSSTREAM_POINTER clone;

    while ((clone = KsPinGetFirstCloneStreamPointer(pin)) != NULL)
        KsStreamPointerDelete(clone);
}
