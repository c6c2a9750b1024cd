/*
 * Functions for text with a size (RtlStringCb..., RtlStringCch..., RtlUnicodeString...), as inline
 * code: they end every text with a zero and say when it did not fit.
 */
#ifndef WINDTUNNEL_NTSTRSAFE_H
#define WINDTUNNEL_NTSTRSAFE_H

#include <stdio.h>
#include <string.h>

#define NTSTRSAFE_MAX_CCH 2147483647
#define NTSTRSAFE_MAX_LENGTH (NTSTRSAFE_MAX_CCH - 1)
#define NTSTRSAFE_UNICODE_STRING_MAX_CCH (0xffff / sizeof(WCHAR))
typedef char *NTSTRSAFE_PSTR;
typedef const char *NTSTRSAFE_PCSTR;
typedef WCHAR *NTSTRSAFE_PWSTR;
typedef const WCHAR *NTSTRSAFE_PCWSTR;
#ifndef STATUS_BUFFER_OVERFLOW
#define STATUS_BUFFER_OVERFLOW ((NTSTATUS)0x80000005u)
#endif

#define WINDTUNNEL_INLINE static inline __attribute__((unused))

#ifdef __cplusplus
extern "C" {
#endif

/* Copies at most `count` characters to a place of `size` characters. */
WINDTUNNEL_INLINE NTSTATUS WindtunnelCopyA(char *to, size_t size, const char *from, size_t count)
{
    size_t at = 0;
    if (size == 0 || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    for (; at < count && from[at] != 0; at++) {
        if (at + 1 == size) {
            to[at] = 0;
            return STATUS_BUFFER_OVERFLOW;
        }
        to[at] = from[at];
    }
    to[at] = 0;
    return STATUS_SUCCESS;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchLengthA(const char *text, size_t size, size_t *length)
{
    size_t at = 0;
    if (text == NULL || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    while (at < size && text[at] != 0)
        at++;
    if (length != NULL)
        *length = at == size ? 0 : at;
    return at == size ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbLengthA(const char *text, size_t size, size_t *length)
{
    NTSTATUS status = RtlStringCchLengthA(text, size / sizeof(char), length);
    if (length != NULL)
        *length *= sizeof(char);
    return status;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCopyNA(char *to, size_t size, const char *from,
                                              size_t count)
{
    return WindtunnelCopyA(to, size, from, count);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCopyA(char *to, size_t size, const char *from)
{
    return WindtunnelCopyA(to, size, from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCopyA(char *to, size_t size, const char *from)
{
    return WindtunnelCopyA(to, size / sizeof(char), from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCopyNA(char *to, size_t size, const char *from, size_t bytes)
{
    return WindtunnelCopyA(to, size / sizeof(char), from, bytes / sizeof(char));
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCatNA(char *to, size_t size, const char *from, size_t count)
{
    size_t length;
    NTSTATUS status = RtlStringCchLengthA(to, size, &length);
    if (!NT_SUCCESS(status))
        return status;
    return WindtunnelCopyA(to + length, size - length, from, count);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCatA(char *to, size_t size, const char *from)
{
    return RtlStringCchCatNA(to, size, from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCatA(char *to, size_t size, const char *from)
{
    return RtlStringCchCatNA(to, size / sizeof(char), from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCatNA(char *to, size_t size, const char *from, size_t bytes)
{
    return RtlStringCchCatNA(to, size / sizeof(char), from, bytes / sizeof(char));
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchVPrintfA(char *to, size_t size, const char *format,
                                                WINDTUNNEL_VA_LIST arguments)
{
    int length;
    if (size == 0 || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    length = _vsnprintf(to, size - 1, format, arguments);
    if (length >= 0 && (size_t)length < size) {
        to[length] = 0;
        return STATUS_SUCCESS;
    }
    to[size - 1] = 0;
    return STATUS_BUFFER_OVERFLOW;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbVPrintfA(char *to, size_t size, const char *format,
                                               WINDTUNNEL_VA_LIST arguments)
{
    return RtlStringCchVPrintfA(to, size / sizeof(char), format, arguments);
}
WINDTUNNEL_INLINE NTSTATUS NTAPI RtlStringCchPrintfA(char *to, size_t size, const char *format, ...)
{
    WINDTUNNEL_VA_LIST arguments;
    NTSTATUS status;
    WINDTUNNEL_VA_START(arguments, format);
    status = RtlStringCchVPrintfA(to, size, format, arguments);
    WINDTUNNEL_VA_END(arguments);
    return status;
}
WINDTUNNEL_INLINE NTSTATUS NTAPI RtlStringCbPrintfA(char *to, size_t size, const char *format, ...)
{
    WINDTUNNEL_VA_LIST arguments;
    NTSTATUS status;
    WINDTUNNEL_VA_START(arguments, format);
    status = RtlStringCchVPrintfA(to, size / sizeof(char), format, arguments);
    WINDTUNNEL_VA_END(arguments);
    return status;
}

/* Copies at most `count` characters to a place of `size` characters. */
WINDTUNNEL_INLINE NTSTATUS WindtunnelCopyW(WCHAR *to, size_t size, const WCHAR *from, size_t count)
{
    size_t at = 0;
    if (size == 0 || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    for (; at < count && from[at] != 0; at++) {
        if (at + 1 == size) {
            to[at] = 0;
            return STATUS_BUFFER_OVERFLOW;
        }
        to[at] = from[at];
    }
    to[at] = 0;
    return STATUS_SUCCESS;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchLengthW(const WCHAR *text, size_t size, size_t *length)
{
    size_t at = 0;
    if (text == NULL || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    while (at < size && text[at] != 0)
        at++;
    if (length != NULL)
        *length = at == size ? 0 : at;
    return at == size ? STATUS_INVALID_PARAMETER : STATUS_SUCCESS;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbLengthW(const WCHAR *text, size_t size, size_t *length)
{
    NTSTATUS status = RtlStringCchLengthW(text, size / sizeof(WCHAR), length);
    if (length != NULL)
        *length *= sizeof(WCHAR);
    return status;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCopyNW(WCHAR *to, size_t size, const WCHAR *from,
                                              size_t count)
{
    return WindtunnelCopyW(to, size, from, count);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCopyW(WCHAR *to, size_t size, const WCHAR *from)
{
    return WindtunnelCopyW(to, size, from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCopyW(WCHAR *to, size_t size, const WCHAR *from)
{
    return WindtunnelCopyW(to, size / sizeof(WCHAR), from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCopyNW(WCHAR *to, size_t size, const WCHAR *from, size_t bytes)
{
    return WindtunnelCopyW(to, size / sizeof(WCHAR), from, bytes / sizeof(WCHAR));
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCatNW(WCHAR *to, size_t size, const WCHAR *from, size_t count)
{
    size_t length;
    NTSTATUS status = RtlStringCchLengthW(to, size, &length);
    if (!NT_SUCCESS(status))
        return status;
    return WindtunnelCopyW(to + length, size - length, from, count);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchCatW(WCHAR *to, size_t size, const WCHAR *from)
{
    return RtlStringCchCatNW(to, size, from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCatW(WCHAR *to, size_t size, const WCHAR *from)
{
    return RtlStringCchCatNW(to, size / sizeof(WCHAR), from, NTSTRSAFE_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbCatNW(WCHAR *to, size_t size, const WCHAR *from, size_t bytes)
{
    return RtlStringCchCatNW(to, size / sizeof(WCHAR), from, bytes / sizeof(WCHAR));
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCchVPrintfW(WCHAR *to, size_t size, const WCHAR *format,
                                                WINDTUNNEL_VA_LIST arguments)
{
    int length;
    if (size == 0 || size > NTSTRSAFE_MAX_CCH)
        return STATUS_INVALID_PARAMETER;
    length = _vsnwprintf(to, size - 1, format, arguments);
    if (length >= 0 && (size_t)length < size) {
        to[length] = 0;
        return STATUS_SUCCESS;
    }
    to[size - 1] = 0;
    return STATUS_BUFFER_OVERFLOW;
}
WINDTUNNEL_INLINE NTSTATUS RtlStringCbVPrintfW(WCHAR *to, size_t size, const WCHAR *format,
                                               WINDTUNNEL_VA_LIST arguments)
{
    return RtlStringCchVPrintfW(to, size / sizeof(WCHAR), format, arguments);
}
WINDTUNNEL_INLINE NTSTATUS NTAPI RtlStringCchPrintfW(WCHAR *to, size_t size, const WCHAR *format, ...)
{
    WINDTUNNEL_VA_LIST arguments;
    NTSTATUS status;
    WINDTUNNEL_VA_START(arguments, format);
    status = RtlStringCchVPrintfW(to, size, format, arguments);
    WINDTUNNEL_VA_END(arguments);
    return status;
}
WINDTUNNEL_INLINE NTSTATUS NTAPI RtlStringCbPrintfW(WCHAR *to, size_t size, const WCHAR *format, ...)
{
    WINDTUNNEL_VA_LIST arguments;
    NTSTATUS status;
    WINDTUNNEL_VA_START(arguments, format);
    status = RtlStringCchVPrintfW(to, size / sizeof(WCHAR), format, arguments);
    WINDTUNNEL_VA_END(arguments);
    return status;
}

WINDTUNNEL_INLINE NTSTATUS RtlUnicodeStringInit(PUNICODE_STRING string, const WCHAR *text)
{
    size_t length = 0;
    if (text != NULL) {
        NTSTATUS status = RtlStringCchLengthW(text, NTSTRSAFE_UNICODE_STRING_MAX_CCH, &length);
        if (!NT_SUCCESS(status))
            return status;
    }
    string->Buffer = (PWSTR)text;
    string->Length = (USHORT)(length * sizeof(WCHAR));
    string->MaximumLength = (USHORT)(text == NULL ? 0 : (length + 1) * sizeof(WCHAR));
    return STATUS_SUCCESS;
}
/* Copies characters behind those of a counted string, which needs no zero. */
WINDTUNNEL_INLINE NTSTATUS WindtunnelAppend(PUNICODE_STRING to, const WCHAR *from, size_t count)
{
    size_t at, length = to->Length / sizeof(WCHAR), size = to->MaximumLength / sizeof(WCHAR);
    for (at = 0; at < count && from[at] != 0; at++) {
        if (length + at == size)
            break;
        to->Buffer[length + at] = from[at];
    }
    to->Length = (USHORT)((length + at) * sizeof(WCHAR));
    return at < count && from[at] != 0 ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}
WINDTUNNEL_INLINE NTSTATUS RtlUnicodeStringCopy(PUNICODE_STRING to, PCUNICODE_STRING from)
{
    to->Length = 0;
    return WindtunnelAppend(to, (const WCHAR *)from->Buffer, from->Length / sizeof(WCHAR));
}
WINDTUNNEL_INLINE NTSTATUS RtlUnicodeStringCopyString(PUNICODE_STRING to, const WCHAR *from)
{
    to->Length = 0;
    return WindtunnelAppend(to, from, NTSTRSAFE_UNICODE_STRING_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS RtlUnicodeStringCat(PUNICODE_STRING to, PCUNICODE_STRING from)
{
    return WindtunnelAppend(to, (const WCHAR *)from->Buffer, from->Length / sizeof(WCHAR));
}
WINDTUNNEL_INLINE NTSTATUS RtlUnicodeStringCatString(PUNICODE_STRING to, const WCHAR *from)
{
    return WindtunnelAppend(to, from, NTSTRSAFE_UNICODE_STRING_MAX_CCH);
}
WINDTUNNEL_INLINE NTSTATUS NTAPI RtlUnicodeStringPrintf(PUNICODE_STRING to, const WCHAR *format, ...)
{
    size_t size = to->MaximumLength / sizeof(WCHAR);
    WINDTUNNEL_VA_LIST arguments;
    int length;
    WINDTUNNEL_VA_START(arguments, format);
    length = _vsnwprintf(to->Buffer, size, format, arguments);
    WINDTUNNEL_VA_END(arguments);
    to->Length = length < 0 ? (USHORT)(size * sizeof(WCHAR)) : (USHORT)(length * sizeof(WCHAR));
    return length < 0 ? STATUS_BUFFER_OVERFLOW : STATUS_SUCCESS;
}

#ifdef __cplusplus
}
#endif

#endif
