/*
 * Faults that bad drivers have at one place of the code. FLAW_FAULT says what happens, FLAW_IN_...
 * where. Neither is defined in a correct driver.
 */
#ifndef FLAWS_H
#define FLAWS_H

#define FLAW_POINT(place) FLAW_POINT_##place

#ifdef FLAW_FAULT
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

/* 1 NULL write, 2 stack overflow, 3 fast failure, 4 endless loop, 5 bug check. */
__attribute__((noinline, unused)) static void FlawFault(void)
{
#if FLAW_FAULT == 1
    *(volatile int *)NULL = 1;
#elif FLAW_FAULT == 2
    FlawRecursion(1);
#elif FLAW_FAULT == 3
    RtlFailFast(FAST_FAIL_INVALID_ARG);
#elif FLAW_FAULT == 4
    for (;;)
        __asm__ volatile("pause" : : : "memory");
#else
    KeBugCheckEx(0xE2, 1, 2, 3, 4);
#endif
}
#endif

#ifdef FLAW_IN_DRIVER_ENTRY
#define FLAW_POINT_DRIVER_ENTRY FlawFault()
#else
#define FLAW_POINT_DRIVER_ENTRY ((void)0)
#endif
#ifdef FLAW_IN_DDI
#define FLAW_POINT_DDI FlawFault()
#else
#define FLAW_POINT_DDI ((void)0)
#endif
#ifdef FLAW_IN_ISR
#define FLAW_POINT_ISR FlawFault()
#else
#define FLAW_POINT_ISR ((void)0)
#endif
#ifdef FLAW_IN_DPC
#define FLAW_POINT_DPC FlawFault()
#else
#define FLAW_POINT_DPC ((void)0)
#endif
#ifdef FLAW_IN_THREAD
#define FLAW_POINT_THREAD FlawFault()
#else
#define FLAW_POINT_THREAD ((void)0)
#endif

#endif
