/*
 * What a compiler calls for C++: a pure virtual function, and the delete of a virtual destructor.
 * The linker leaves out what a driver does not use.
 */
#include <wdm.h>

#define PURE_VIRTUAL_CALL 0x000000E2 /* MANUALLY_INITIATED_CRASH */

int _fltused;

#ifdef WINDTUNNEL_SHARED_OBJECT
__attribute__((weak)) void __cxa_pure_virtual(void)
#else
__attribute__((weak)) int _purecall(void)
#endif
{
    KeBugCheckEx(PURE_VIRTUAL_CALL, 0, 0, 0, 0);
}
