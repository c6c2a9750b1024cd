/* A driver that registers with no port driver: it loads, but nothing can be flown. */
#include <wdm.h>

#define EXPORTED __attribute__((visibility("default")))

DRIVER_INITIALIZE DriverEntry;

EXPORTED NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    UNREFERENCED_PARAMETER(driver);
    UNREFERENCED_PARAMETER(registry_path);
    return STATUS_SUCCESS;
}
