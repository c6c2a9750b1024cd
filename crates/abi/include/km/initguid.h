/*
 * Makes DEFINE_GUID define its name, not only declare it. Included before or after the header of
 * DEFINE_GUID, and again.
 */
#include <wdm.h>

#ifndef INITGUID
#define INITGUID
#endif
#undef DEFINE_GUID
#define DEFINE_GUID(name, one, two, three, b0, b1, b2, b3, b4, b5, b6, b7) \
    WINDTUNNEL_EXTERN_C const GUID WINDTUNNEL_SELECTANY name = { \
        one, two, three, {b0, b1, b2, b3, b4, b5, b6, b7}}
