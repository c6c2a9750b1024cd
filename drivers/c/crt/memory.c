/*
 * The memory functions that a compiler calls, for shared objects: there they have the calling
 * convention of Linux. An image imports them from ntoskrnl.exe.
 */
#include <wdm.h>

void *memcpy(void *to, const void *from, size_t size)
{
    void *destination = to;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
    return destination;
}

void *memset(void *to, int value, size_t size)
{
    void *destination = to;
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(size) : "a"(value) : "memory");
    return destination;
}

void *memmove(void *to, const void *from, size_t size)
{
    UCHAR *bytes = (UCHAR *)to;
    const UCHAR *source = (const UCHAR *)from;
    if (bytes <= source || bytes >= source + size)
        return memcpy(to, from, size);
    while (size > 0) {
        size--;
        bytes[size] = source[size];
        __asm__ volatile("" : : : "memory");
    }
    return to;
}

int memcmp(const void *one, const void *other, size_t size)
{
    const UCHAR *left = (const UCHAR *)one;
    const UCHAR *right = (const UCHAR *)other;
    for (size_t at = 0; at < size; at++) {
        if (left[at] != right[at])
            return left[at] - right[at];
    }
    return 0;
}
