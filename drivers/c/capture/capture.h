/*
 * An AVStream capture source of a test pattern. A timer completes one frame in each interval: its
 * DPC fills the oldest frame of the queue.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include <ks.h>

#define CAPTURE_TAG 'tpaC'

/* Code that is discarded after DriverEntry, and the entry point. */
#define INIT_CODE __attribute__((section("INIT")))
#define EXPORTED __attribute__((visibility("default")))

/* Pictures of four bytes per pixel. */
#define PICTURE_WIDTH 16
#define PICTURE_HEIGHT 12
#define PICTURE_BYTES (PICTURE_WIDTH * PICTURE_HEIGHT * 4)
/* The duration of a picture, in units of 100 ns and in milliseconds. */
#define PICTURE_INTERVAL 100000
#define PICTURE_MILLISECONDS (PICTURE_INTERVAL / 10000)

typedef struct _CAPTURE_DEVICE {
    PKSDEVICE Device;
} CAPTURE_DEVICE, *PCAPTURE_DEVICE;

/* The context of a pin. */
typedef struct _CAPTURE_PIN {
    PKSPIN Pin;
    KTIMER Timer;
    KDPC Dpc;
    BOOLEAN Running;
    ULONG64 Pictures;
    /* How many pictures the client asks for; zero is no end. */
    ULONG64 PictureLimit;
    IKsReferenceClock *Clock;
} CAPTURE_PIN, *PCAPTURE_PIN;

extern const KSPIN_DISPATCH CapturePinDispatch;

/* frames.c */
NTSTATUS NTAPI CaptureProcess(PKSPIN pin);
void CaptureDeleteClones(PKSPIN pin);
KDEFERRED_ROUTINE CaptureTimerDpc;

#endif
