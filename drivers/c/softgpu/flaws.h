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
#if !defined(FLAW_POOL_FREED) && !defined(FLAW_POOL_KEPT)
    ExFreePoolWithTag(first, 'walF');
    ExFreePoolWithTag(second, 'walF');
#endif
}
#endif

#if FLAW_FAULT == 19
static volatile LONG FlawBlocks;

/* A driver's own functions for pool: the interesting place is their caller. */
__attribute__((noinline, unused)) static char *FlawAllocate(SIZE_T size)
{
    char *block = ExAllocatePool2(POOL_FLAG_NON_PAGED, size, 'walF');

    FlawBlocks++;
    return block;
}

__attribute__((noinline, unused)) static void FlawFree(char *block)
{
    ExFreePoolWithTag(block, 'walF');
    FlawBlocks--;
}

__attribute__((noinline, unused)) static char *FlawTakeBlock(void)
{
    char *block = FlawAllocate(64);

    block[0] = 1;
    return block;
}

__attribute__((noinline, unused)) static void FlawGiveBlock(char *block)
{
    block[0] = 0;
    FlawFree(block);
    FlawBlocks += 0;
}

__attribute__((noinline, unused)) static void FlawGiveBlockAgain(char *block)
{
    FlawFree(block);
    FlawBlocks += 0;
}

__attribute__((noinline, unused)) static void FlawMisuseBlock(void)
{
    volatile char *block = FlawTakeBlock();

    UNREFERENCED_PARAMETER(block);
#ifdef FLAW_POOL_OFFSET
    block[FLAW_POOL_OFFSET] = 1;
#endif
#ifndef FLAW_POOL_LEAK
    FlawGiveBlock((char *)block);
#endif
#ifdef FLAW_POOL_FREED
    block[1] = 1;
#endif
#ifdef FLAW_POOL_TWICE
    FlawGiveBlockAgain((char *)block);
#endif
    FlawBlocks += 0;
}
#endif

#if FLAW_FAULT == 40
/* The start of a block is aligned to 16 bytes on Windows, whatever its size is. */
__attribute__((noinline, unused)) static void FlawUseAlignedBlocks(void)
{
    int index;

    for (index = 0; index < 2; index++) {
        char *block = ExAllocatePool2(POOL_FLAG_NON_PAGED, 24, 'walF');

        __asm__ volatile("movaps (%0), %%xmm0" : : "r"(block) : "xmm0", "memory");
        ExFreePoolWithTag(block, 'walF');
    }
}
#endif

#if FLAW_FAULT == 24
/*
 * Reads 29 KiB behind the first of some small blocks: more than a page from each of them on the side
 * where it can be. What the pointer was made from is not in a register of the access.
 */
__attribute__((noinline, unused)) static void FlawReadWild(void)
{
    char *blocks[12];
    char *volatile wild;
    int index;

    for (index = 0; index < 12; index++)
        blocks[index] = ExAllocatePool2(POOL_FLAG_NON_PAGED, 4, 'walF');
    wild = blocks[0] + 29672;
    (void)*(volatile char *)wild;
    for (index = 0; index < 12; index++)
        ExFreePoolWithTag(blocks[index], 'walF');
}
#endif

#if FLAW_FAULT == 27
static const ULONG FlawConstants[4] = {1, 2, 3, 4};

__attribute__((noinline, unused)) static void FlawWriteConstant(void)
{
    volatile ULONG *volatile constant = (volatile ULONG *)FlawConstants;

    *constant = 5;
}
#endif

#if FLAW_FAULT == 8
__attribute__((noinline, unused)) static void FlawWriteCode(void)
{
    volatile UCHAR *volatile code = (volatile UCHAR *)(ULONG_PTR)&FlawWriteCode;

    *code = 0xCC;
}
#endif

#if FLAW_FAULT == 9
static volatile ULONG FlawCount;

/* Its section is discarded when DriverEntry has returned. */
__attribute__((section("INIT"), noinline, unused)) static void FlawInitialize(void)
{
    FlawCount++;
}
#endif

/* An address that no processor has: the pattern of freed memory. */
#define FLAW_WILD_ADDRESS 0x5a5a5a5a5a5a5a5aULL

#if FLAW_FAULT == 11
static void (*volatile FlawWildFunction)(void) __attribute__((unused)) =
    (void (*)(void))FLAW_WILD_ADDRESS;
#elif FLAW_FAULT == 21
static volatile int FlawZero __attribute__((unused));
#elif FLAW_FAULT == 28
/* A return instruction, in memory that is no code. */
static volatile UCHAR FlawData[16] __attribute__((unused)) = {0xc3};
#elif FLAW_FAULT >= 30
/* Functions of the C library, which a shared object reaches and an image does not. */
void exit(int);
void abort(void);
int getpid(void);
int kill(int, int);
int pause(void);
int close(int);
int pthread_sigmask(int, const void *, void *);
void pthread_exit(void *);
ULONG_PTR pthread_self(void);
int pthread_cancel(ULONG_PTR);
int pthread_setcanceltype(int, int *);

__attribute__((noinline, unused)) static void FlawBlockSignals(void)
{
    ULONGLONG all[16];
    int index;

    for (index = 0; index < 16; index++)
        all[index] = ~0ULL;
    pthread_sigmask(0, all, NULL);
}

__attribute__((noinline, unused)) static void FlawCloseDescriptors(void)
{
    int descriptor;

    for (descriptor = 0; descriptor < 1024; descriptor++)
        close(descriptor);
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
#elif FLAW_FAULT == 19
#define FLAW_HAPPENS FlawMisuseBlock()
#elif FLAW_FAULT == 24
#define FLAW_HAPPENS FlawReadWild()
#elif FLAW_FAULT == 40
#define FLAW_HAPPENS FlawUseAlignedBlocks()
#elif FLAW_FAULT == 27
#define FLAW_HAPPENS FlawWriteConstant()
#elif FLAW_FAULT == 8
#define FLAW_HAPPENS FlawWriteCode()
#elif FLAW_FAULT == 9
#define FLAW_HAPPENS FlawInitialize()
#elif FLAW_FAULT == 10
/* A model-specific register: the base of the local APIC. */
#define FLAW_HAPPENS __asm__ volatile("wrmsr" : : "c"(0x1b), "a"(0), "d"(0))
#elif FLAW_FAULT == 11
#define FLAW_HAPPENS FlawWildFunction()
#elif FLAW_FAULT == 12
#define FLAW_HAPPENS __asm__ volatile("int $0x2d")
#elif FLAW_FAULT == 13
/* As with a stack that was overwritten. */
#define FLAW_HAPPENS __asm__ volatile("pushq %0\n\tret" : : "r"(FLAW_WILD_ADDRESS) : "memory")
#elif FLAW_FAULT == 14
/* The control bits of MXCSR: rounds towards zero. */
#define FLAW_HAPPENS \
    ULONG control = 0x7f80; \
    __asm__ volatile("ldmxcsr %0" : : "m"(control))
#elif FLAW_FAULT == 15
/* The x87 control word: 53 bits of precision. */
#define FLAW_HAPPENS \
    USHORT control = 0x27f; \
    __asm__ volatile("fldcw %0" : : "m"(control))
#elif FLAW_FAULT == 16
#define FLAW_HAPPENS __asm__ volatile("fld1")
#elif FLAW_FAULT == 17
#define FLAW_HAPPENS __asm__ volatile("std")
#elif FLAW_FAULT == 18
/* A load of 16 bytes from an address that is no multiple of 16. */
#define FLAW_HAPPENS \
    UCHAR bytes[48] = {0}; \
    ULONG_PTR misaligned = (((ULONG_PTR)bytes + 15) & ~(ULONG_PTR)15) + 8; \
    __asm__ volatile("movaps (%0), %%xmm0" : : "r"(misaligned) : "xmm0", "memory")
#elif FLAW_FAULT == 20
/* getpid of Linux. */
#define FLAW_HAPPENS __asm__ volatile("syscall" : : "a"(39) : "rcx", "r11", "memory")
#elif FLAW_FAULT == 21
#define FLAW_HAPPENS FlawZero = 1000 / FlawZero
#elif FLAW_FAULT == 22
#define FLAW_HAPPENS __asm__ volatile("ud2")
#elif FLAW_FAULT == 23
#define FLAW_HAPPENS __asm__ volatile("int3")
#elif FLAW_FAULT == 25
#define FLAW_HAPPENS (void)*(volatile int *)0xfffff80000001000ULL
#elif FLAW_FAULT == 26
/* The pattern of freed memory is no address. */
#define FLAW_HAPPENS *(volatile int *)FLAW_WILD_ADDRESS = 1
#elif FLAW_FAULT == 28
#define FLAW_HAPPENS ((void (*)(void))FlawData)()
#elif FLAW_FAULT == 29
#define FLAW_HAPPENS KeSetEvent((PRKEVENT)0x5a5a0000ULL, 0, FALSE)
#elif FLAW_FAULT == 30
#define FLAW_HAPPENS exit(0)
#elif FLAW_FAULT == 31
#define FLAW_HAPPENS abort()
#elif FLAW_FAULT == 32
#define FLAW_HAPPENS kill(getpid(), 9)
#elif FLAW_FAULT == 33
#define FLAW_HAPPENS kill(getpid(), 19)
#elif FLAW_FAULT == 34
#define FLAW_HAPPENS \
    FlawBlockSignals(); \
    for (;;) \
        YieldProcessor()
#elif FLAW_FAULT == 35
#define FLAW_HAPPENS pause()
#elif FLAW_FAULT == 36
#define FLAW_HAPPENS \
    FlawCloseDescriptors(); \
    *(volatile int *)NULL = 1
#elif FLAW_FAULT == 37
#define FLAW_HAPPENS pthread_exit(NULL)
#elif FLAW_FAULT == 38
/* A cancelled thread ends in the next function of the C library that waits. */
#define FLAW_HAPPENS \
    pthread_cancel(pthread_self()); \
    pause()
#elif FLAW_FAULT == 39
/* It ends at once: the type is asynchronous. */
#define FLAW_HAPPENS \
    pthread_setcanceltype(1, NULL); \
    pthread_cancel(pthread_self())
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
#ifdef FLAW_IN_RETURN
#define FLAW_POINT_RETURN FLAW_HAPPENS
#else
#define FLAW_POINT_RETURN ((void)0)
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
