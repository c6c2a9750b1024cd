/* Text of wide characters, as the kernel exports them. */
#ifndef WINDTUNNEL_WCHAR_H
#define WINDTUNNEL_WCHAR_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

NTSYSAPI size_t NTAPI wcslen(const WCHAR *text);
NTSYSAPI size_t NTAPI wcsnlen(const WCHAR *text, size_t size);
NTSYSAPI int NTAPI wcscmp(const WCHAR *one, const WCHAR *other);
NTSYSAPI int NTAPI wcsncmp(const WCHAR *one, const WCHAR *other, size_t size);
NTSYSAPI int NTAPI _wcsicmp(const WCHAR *one, const WCHAR *other);
NTSYSAPI int NTAPI _wcsnicmp(const WCHAR *one, const WCHAR *other, size_t size);
NTSYSAPI WCHAR *NTAPI wcscpy(WCHAR *to, const WCHAR *from);
NTSYSAPI WCHAR *NTAPI wcsncpy(WCHAR *to, const WCHAR *from, size_t size);
NTSYSAPI WCHAR *NTAPI wcscat(WCHAR *to, const WCHAR *from);
NTSYSAPI WCHAR *NTAPI wcschr(const WCHAR *text, WCHAR character);
NTSYSAPI WCHAR *NTAPI wcsrchr(const WCHAR *text, WCHAR character);
NTSYSAPI WCHAR *NTAPI wcsstr(const WCHAR *text, const WCHAR *part);
NTSYSAPI int NTAPI wcscpy_s(WCHAR *to, size_t size, const WCHAR *from);
NTSYSAPI int NTAPI wcscat_s(WCHAR *to, size_t size, const WCHAR *from);
NTSYSAPI int NTAPI wcsncpy_s(WCHAR *to, size_t size, const WCHAR *from, size_t count);
NTSYSAPI int NTAPI _vsnwprintf(WCHAR *to, size_t size, const WCHAR *format,
                               WINDTUNNEL_VA_LIST arguments);
NTSYSAPI int NTAPI _snwprintf(WCHAR *to, size_t size, const WCHAR *format, ...);

#ifdef __cplusplus
}
#endif

#endif
