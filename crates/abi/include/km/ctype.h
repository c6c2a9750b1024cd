/* Characters, as the kernel exports them. */
#ifndef WINDTUNNEL_CTYPE_H
#define WINDTUNNEL_CTYPE_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

NTSYSAPI int NTAPI tolower(int character);
NTSYSAPI int NTAPI toupper(int character);

#ifdef __cplusplus
}
#endif

#endif
