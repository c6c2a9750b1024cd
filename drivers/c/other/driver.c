/*
 * A driver of another kind than display and streaming: it imports the function of its kind that
 * REGISTERS names. DriverEntry never runs: the check refuses the file.
 */
#include <wdm.h>

__declspec(dllimport) NTSTATUS NTAPI REGISTERS(PDRIVER_OBJECT driver);

DRIVER_INITIALIZE DriverEntry;

NTSTATUS NTAPI DriverEntry(PDRIVER_OBJECT driver, PUNICODE_STRING registry_path)
{
    UNREFERENCED_PARAMETER(registry_path);
    return REGISTERS(driver);
}
