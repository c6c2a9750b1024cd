/* Text and bytes, as the kernel exports them. */
#ifndef WINDTUNNEL_STRING_H
#define WINDTUNNEL_STRING_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

NTSYSAPI void *NTAPI memchr(const void *bytes, int byte, size_t size);
NTSYSAPI size_t NTAPI strlen(const char *text);
NTSYSAPI size_t NTAPI strnlen(const char *text, size_t size);
NTSYSAPI int NTAPI strcmp(const char *one, const char *other);
NTSYSAPI int NTAPI strncmp(const char *one, const char *other, size_t size);
NTSYSAPI int NTAPI _stricmp(const char *one, const char *other);
NTSYSAPI int NTAPI _strnicmp(const char *one, const char *other, size_t size);
NTSYSAPI char *NTAPI strcpy(char *to, const char *from);
NTSYSAPI char *NTAPI strncpy(char *to, const char *from, size_t size);
NTSYSAPI char *NTAPI strcat(char *to, const char *from);
NTSYSAPI char *NTAPI strchr(const char *text, int character);
NTSYSAPI char *NTAPI strrchr(const char *text, int character);
NTSYSAPI char *NTAPI strstr(const char *text, const char *part);
NTSYSAPI int NTAPI strcpy_s(char *to, size_t size, const char *from);
NTSYSAPI int NTAPI strcat_s(char *to, size_t size, const char *from);
NTSYSAPI int NTAPI strncpy_s(char *to, size_t size, const char *from, size_t count);

#ifdef __cplusplus
}
#endif

#include <wchar.h>

#endif
