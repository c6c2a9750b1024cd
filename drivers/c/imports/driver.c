/*
 * Calls imported functions in loops, for the benchmark of import calls.
 *
 * The benchmark calls DriverEntry with the number of a loop and a count in place of the two
 * pointers. With pointers, it registers with no port driver: nothing can be flown.
 */
#include <wdm.h>

#define EXPORTED __attribute__((visibility("default")))

#define BLOCK_SIZE 64
#define BLOCK_TAG 0x74736f43 /* Cost */

enum { QueryTimeIncrement = 1, AllocateAndFree = 2, ReadIrql = 3 };

DRIVER_INITIALIZE DriverEntry;

EXPORTED NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    ULONG_PTR count = (ULONG_PTR)registry_path;

    switch ((ULONG_PTR)driver) {
    case QueryTimeIncrement:
        while (count-- > 0)
            KeQueryTimeIncrement();
        return STATUS_SUCCESS;
    case AllocateAndFree:
        while (count-- > 0) {
            PVOID block = ExAllocatePool2(POOL_FLAG_NON_PAGED, BLOCK_SIZE, BLOCK_TAG);

            if (block == NULL)
                return STATUS_NO_MEMORY;
            ExFreePoolWithTag(block, BLOCK_TAG);
        }
        return STATUS_SUCCESS;
    case ReadIrql:
        while (count-- > 0) {
            if (KeGetCurrentIrql() != PASSIVE_LEVEL)
                return STATUS_INVALID_PARAMETER;
        }
        return STATUS_SUCCESS;
    default:
        return STATUS_SUCCESS;
    }
}
