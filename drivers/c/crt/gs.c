/*
 * The stack cookie of an image (/GS): the loader replaces the default value, and finds it by the
 * load configuration. The entry point fails fast if the loader did not.
 */
#include <wdm.h>

#define DEFAULT_SECURITY_COOKIE 0x00002B992DDFA232ull
#define FAST_FAIL_STACK_COOKIE_CHECK_FAILURE 2
#define FAST_FAIL_GS_COOKIE_INIT 6

ULONG_PTR __security_cookie = DEFAULT_SECURITY_COOKIE;

/* IMAGE_LOAD_CONFIG_DIRECTORY64, up to the members of the cookie. */
const struct {
    ULONG Size;
    ULONG TimeDateStamp;
    ULONG Versions;
    ULONG GlobalFlags[2];
    ULONG CriticalSectionDefaultTimeout;
    ULONG64 MemoryThresholds[5];
    ULONG64 ProcessAffinityMask;
    ULONG ProcessHeapFlags;
    ULONG ServicePack;
    ULONG64 EditList;
    ULONG_PTR *SecurityCookie;
    ULONG64 SEHandlerTable;
    ULONG64 SEHandlerCount;
} _load_config_used = {.Size = 0x70, .SecurityCookie = &__security_cookie};
C_ASSERT(sizeof(_load_config_used) == 0x70);
C_ASSERT(FIELD_OFFSET(typeof(_load_config_used), SecurityCookie) == 0x58);

DRIVER_INITIALIZE DriverEntry;
DRIVER_INITIALIZE GsDriverEntry;

__attribute__((no_stack_protector)) void __security_check_cookie(ULONG_PTR cookie)
{
    if (cookie != __security_cookie)
        RtlFailFast(FAST_FAIL_STACK_COOKIE_CHECK_FAILURE);
}

/* The entry point of the image. */
__attribute__((no_stack_protector)) NTSTATUS GsDriverEntry(PDRIVER_OBJECT driver,
                                                           PUNICODE_STRING registry_path)
{
    if (__security_cookie == 0 || __security_cookie == DEFAULT_SECURITY_COOKIE)
        RtlFailFast(FAST_FAIL_GS_COOKIE_INIT);
    return DriverEntry(driver, registry_path);
}
