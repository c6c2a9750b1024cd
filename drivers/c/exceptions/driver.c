/*
 * Structured exceptions: DriverEntry goes through steps and returns STATUS_SUCCESS, or 0xE0000000
 * with the number of the first wrong step. It registers with no port driver.
 *
 * clang 14 protects calls only: each access that faults is in a function of its own.
 */
#include <wdm.h>

#define EXPORTED __attribute__((visibility("default")))
#define APART __attribute__((noinline))

DRIVER_INITIALIZE DriverEntry;

#ifdef _WIN32

#define STATUS_OURS ((NTSTATUS)0xE0001234u)
#define STATUS_MISALIGNED ((NTSTATUS)0x80000002u)
#define DEPTH 40

/* What happened, in order: a digit per event. */
static volatile ULONG Order;

static APART void Happens(ULONG event)
{
    Order = Order * 10 + event;
}

static APART ULONG Read(const volatile ULONG *from)
{
    return *from;
}

static APART void Write(volatile ULONG *to)
{
    *to = 1;
}

static APART void Raise(NTSTATUS status)
{
    if (status != STATUS_SUCCESS)
        ExRaiseStatus(status);
}

static APART LONG Filter(ULONG event, LONG result)
{
    Happens(event);
    return result;
}

/* A load and a store at NULL: the handler gets the status of an access violation. */
static APART BOOLEAN AccessIsHandled(BOOLEAN write)
{
    __try {
        if (write)
            Write(NULL);
        else
            Read(NULL);
    } __except (GetExceptionCode() == STATUS_ACCESS_VIOLATION ? EXCEPTION_EXECUTE_HANDLER
                                                              : EXCEPTION_CONTINUE_SEARCH) {
        return TRUE;
    }
    return FALSE;
}

static APART NTSTATUS StatusOfRaise(NTSTATUS status)
{
    __try {
        Raise(status);
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        return GetExceptionCode();
    }
    return STATUS_SUCCESS;
}

static APART NTSTATUS StatusOfProbe(ULONG_PTR address, ULONG alignment)
{
    __try {
        ProbeForRead((const void *)address, 4, alignment);
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        return GetExceptionCode();
    }
    return STATUS_SUCCESS;
}

/* The list is locked, or not touched. */
static APART NTSTATUS StatusOfLock(ULONG_PTR address, KPROCESSOR_MODE mode)
{
    PMDL mdl = IoAllocateMdl((PVOID)address, 16, FALSE, FALSE, NULL);
    NTSTATUS status = STATUS_SUCCESS;

    if (mdl == NULL)
        return STATUS_NO_MEMORY;
    __try {
        MmProbeAndLockPages(mdl, mode, IoReadAccess);
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        status = GetExceptionCode();
    }
    if (status == STATUS_SUCCESS)
        MmUnlockPages(mdl);
    IoFreeMdl(mdl);
    return status;
}

static APART NTSTATUS StatusOfCopy(const void *from)
{
    ULONG to[16];

    __try {
        RtlCopyMemory(to, from, sizeof(to));
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        return GetExceptionCode();
    }
    return STATUS_SUCCESS;
}

/* The body, and the block after it with or without an exception. */
static APART void RaiseWithFinally(NTSTATUS status)
{
    __try {
        Happens(1);
        Raise(status);
        Happens(2);
    } __finally {
        Happens(_abnormal_termination() ? 4 : 3);
    }
    Happens(5);
}

/* All filters run before the first block of unwinding. */
static APART void FilterThenFinally(void)
{
    __try {
        RaiseWithFinally(STATUS_OURS);
    } __except (Filter(6, EXCEPTION_EXECUTE_HANDLER)) {
        Happens(7);
    }
}

/* The inner handler does not want it. */
static APART void Nested(void)
{
    __try {
        __try {
            Raise(STATUS_OURS);
        } __except (Filter(1, EXCEPTION_CONTINUE_SEARCH)) {
            Happens(2);
        }
    } __except (Filter(3, EXCEPTION_EXECUTE_HANDLER)) {
        Happens(4);
    }
}

/* A handler that raises. */
static APART void RaiseInHandler(void)
{
    __try {
        __try {
            Raise(STATUS_OURS);
        } __except (EXCEPTION_EXECUTE_HANDLER) {
            Happens(1);
            Raise(STATUS_UNSUCCESSFUL);
            Happens(2);
        }
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        Happens(GetExceptionCode() == STATUS_UNSUCCESSFUL ? 3 : 4);
    }
}

static volatile ULONG Unwound;

/* Many frames, each with a block of its own. */
static APART void Deep(ULONG depth)
{
    __try {
        if (depth == 0)
            Read(NULL);
        else
            Deep(depth - 1);
    } __finally {
        Unwound++;
    }
}

/* Values that live in registers across a handled exception. */
static APART ULONG Registers(ULONG count)
{
    ULONG handled = 0;
    ULONG sum = 0;

    for (ULONG index = 1; index <= count; index++) {
        if (StatusOfRaise(STATUS_OURS) == STATUS_OURS)
            handled += index;
        sum += index;
    }
    return handled == sum ? sum : 0;
}

static ULONG FirstWrongStep(PDRIVER_OBJECT driver)
{
    if (!AccessIsHandled(FALSE))
        return 1;
    if (!AccessIsHandled(TRUE))
        return 2;
    if (StatusOfRaise(STATUS_OURS) != STATUS_OURS || StatusOfRaise(STATUS_SUCCESS) != 0)
        return 3;
    if (StatusOfProbe((ULONG_PTR)0xFFFF800000000000ull, 1) != STATUS_ACCESS_VIOLATION)
        return 4;
    if (StatusOfProbe(0x10001, 4) != STATUS_MISALIGNED)
        return 5;
    if (StatusOfCopy(NULL) != STATUS_ACCESS_VIOLATION || StatusOfCopy(driver) != STATUS_SUCCESS)
        return 6;
    Order = 0;
    RaiseWithFinally(STATUS_SUCCESS);
    if (Order != 1235)
        return 7;
    Order = 0;
    FilterThenFinally();
    if (Order != 1647)
        return 8;
    Order = 0;
    Nested();
    if (Order != 134)
        return 9;
    Order = 0;
    RaiseInHandler();
    if (Order != 13)
        return 10;
    Unwound = 0;
    __try {
        Deep(DEPTH);
        return 11;
    } __except (EXCEPTION_EXECUTE_HANDLER) {
        if (Unwound != DEPTH + 1)
            return 12;
    }
    if (Registers(100) != 5050)
        return 13;
    if (StatusOfLock(0x1000, KernelMode) != STATUS_ACCESS_VIOLATION)
        return 14;
    if (StatusOfLock((ULONG_PTR)driver, UserMode) != STATUS_ACCESS_VIOLATION)
        return 15;
    if (StatusOfLock((ULONG_PTR)driver, KernelMode) != STATUS_SUCCESS)
        return 16;
    return 0;
}

EXPORTED NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    ULONG step = FirstWrongStep(driver);

    UNREFERENCED_PARAMETER(registry_path);
    return step == 0 ? STATUS_SUCCESS : (NTSTATUS)(0xE0000000u | step);
}

#else

/* clang has no structured exceptions for shared objects. */
EXPORTED NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    UNREFERENCED_PARAMETER(driver);
    UNREFERENCED_PARAMETER(registry_path);
    return STATUS_NOT_SUPPORTED;
}

#endif
