/*
 * Faults that bad drivers have at one place of the code. FLAW_FAULT says what happens, FLAW_IN_...
 * where. Neither is defined in a correct driver.
 */
#ifndef FLAWS_H
#define FLAWS_H

#ifndef FLAW_FAULT
#define FLAW_FAULT 0
#endif

#define FLAW_POINT(place) FLAW_POINT_##place

#if FLAW_FAULT == 2
static volatile int FlawDepth;

/* Each call takes some of the stack; it is no tail call. */
__attribute__((noinline, unused)) static int FlawRecursion(int depth)
{
    volatile char frame[512];

    frame[0] = (char)depth;
    FlawDepth = depth;
    if (FlawDepth < 0)
        return 0;
    return FlawRecursion(depth + 1) + frame[0];
}

#endif

#if FLAW_FAULT == 7
/* A frame of FLAW_FRAME bytes, all of which are used. */
__attribute__((noinline, unused)) static int FlawLargeFrame(int value)
{
    volatile char frame[FLAW_FRAME];

    for (unsigned at = 0; at < FLAW_FRAME; at += 64)
        frame[at] = (char)value;
    return frame[value];
}
#endif

#if FLAW_FAULT == 6
#ifndef FLAW_POOL_SIZE
#define FLAW_POOL_SIZE 64
#endif

__attribute__((noinline, unused)) static void FlawTouchPool(volatile char *block)
{
#ifdef FLAW_POOL_FREED
    ExFreePoolWithTag((PVOID)block, 'walF');
#endif
#ifdef FLAW_POOL_READ
    (void)block[FLAW_POOL_OFFSET];
#else
    block[FLAW_POOL_OFFSET] = 1;
#endif
}

/* Two blocks: one of them touches an inaccessible page with its end, the other with its start. */
__attribute__((noinline, unused)) static void FlawUsePool(void)
{
    char *first = ExAllocatePool2(POOL_FLAG_NON_PAGED, FLAW_POOL_SIZE, 'walF');
    char *second = ExAllocatePool2(POOL_FLAG_NON_PAGED, FLAW_POOL_SIZE, 'walF');

    FlawTouchPool(first);
    FlawTouchPool(second);
#ifndef FLAW_POOL_FREED
    ExFreePoolWithTag(first, 'walF');
    ExFreePoolWithTag(second, 'walF');
#endif
}
#endif

/* The fault happens in the function of the place, at its line. */
#if FLAW_FAULT == 1
#define FLAW_HAPPENS *(volatile int *)NULL = 1
#elif FLAW_FAULT == 2
#define FLAW_HAPPENS FlawRecursion(1)
#elif FLAW_FAULT == 3
#define FLAW_HAPPENS RtlFailFast(FAST_FAIL_INVALID_ARG)
#elif FLAW_FAULT == 7
#define FLAW_HAPPENS FlawLargeFrame(1)
#elif FLAW_FAULT == 6
#define FLAW_HAPPENS FlawUsePool()
#elif FLAW_FAULT == 4
#define FLAW_HAPPENS \
    for (;;) \
        YieldProcessor()
#else
#define FLAW_HAPPENS KeBugCheckEx(0xE2, 1, 2, 3, 4)
#endif

#ifdef FLAW_IN_DRIVER_ENTRY
#define FLAW_POINT_DRIVER_ENTRY FLAW_HAPPENS
#else
#define FLAW_POINT_DRIVER_ENTRY ((void)0)
#endif
#ifdef FLAW_IN_DDI
#define FLAW_POINT_DDI FLAW_HAPPENS
#else
#define FLAW_POINT_DDI ((void)0)
#endif
#ifdef FLAW_IN_ISR
#define FLAW_POINT_ISR FLAW_HAPPENS
#else
#define FLAW_POINT_ISR ((void)0)
#endif
#ifdef FLAW_IN_DPC
#define FLAW_POINT_DPC FLAW_HAPPENS
#else
#define FLAW_POINT_DPC ((void)0)
#endif
#ifdef FLAW_IN_THREAD
#define FLAW_POINT_THREAD FLAW_HAPPENS
#else
#define FLAW_POINT_THREAD ((void)0)
#endif

#endif
