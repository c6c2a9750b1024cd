/* Formatted text, as the kernel exports it. There are no streams. */
#ifndef WINDTUNNEL_STDIO_H
#define WINDTUNNEL_STDIO_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

NTSYSAPI int NTAPI sprintf(char *to, const char *format, ...);
NTSYSAPI int NTAPI sprintf_s(char *to, size_t size, const char *format, ...);
NTSYSAPI int NTAPI _snprintf(char *to, size_t size, const char *format, ...);
NTSYSAPI int NTAPI _vsnprintf(char *to, size_t size, const char *format,
                              WINDTUNNEL_VA_LIST arguments);
NTSYSAPI int NTAPI vsprintf(char *to, const char *format, WINDTUNNEL_VA_LIST arguments);
NTSYSAPI int NTAPI vsprintf_s(char *to, size_t size, const char *format,
                              WINDTUNNEL_VA_LIST arguments);
NTSYSAPI int NTAPI swprintf_s(WCHAR *to, size_t size, const WCHAR *format, ...);

#ifdef __cplusplus
}
#endif

#include <wchar.h>

#endif
