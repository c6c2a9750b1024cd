/* Numbers, as the kernel exports them. There is no heap. */
#ifndef WINDTUNNEL_STDLIB_H
#define WINDTUNNEL_STDLIB_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

NTSYSAPI int NTAPI atoi(const char *text);
#define _countof(array) RTL_NUMBER_OF(array)
#define abs(number) __builtin_abs(number)
#ifndef __cplusplus
#ifndef max
#define max(one, other) (((one) > (other)) ? (one) : (other))
#endif
#ifndef min
#define min(one, other) (((one) < (other)) ? (one) : (other))
#endif
#endif

#ifdef __cplusplus
}
#endif

#endif
