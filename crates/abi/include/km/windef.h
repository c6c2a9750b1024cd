/*
 * The types of Windows that kernel-mode sources share with user mode: points, handles of windows
 * and device contexts, and the numbers of old.
 */
#ifndef WINDTUNNEL_WINDEF_H
#define WINDTUNNEL_WINDEF_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef ULONG *LPDWORD;
typedef BOOL *LPBOOL, *PBOOL;
typedef BYTE *LPBYTE;
typedef int *LPINT;
typedef long *LPLONG;
typedef void *LPVOID;
typedef const void *LPCVOID;
typedef WCHAR *LPWSTR;
typedef const WCHAR *LPCWSTR;
typedef CHAR *LPSTR;
typedef const CHAR *LPCSTR;
typedef UINT_PTR WPARAM;
typedef LONG_PTR LPARAM, LRESULT;

#define MAKEWORD(low, high) ((WORD)(((BYTE)(low)) | ((WORD)((BYTE)(high))) << 8))
#define MAKELONG(low, high) ((LONG)(((WORD)(low)) | ((DWORD)((WORD)(high))) << 16))
#define LOWORD(number) ((WORD)((DWORD_PTR)(number) & 0xffff))
#define HIWORD(number) ((WORD)((DWORD_PTR)(number) >> 16))
#define LOBYTE(number) ((BYTE)((DWORD_PTR)(number) & 0xff))
#define HIBYTE(number) ((BYTE)((DWORD_PTR)(number) >> 8))

#ifndef FAR
#define FAR
#endif
#ifndef NEAR
#define NEAR
#endif
#ifndef PASCAL
#define PASCAL
#endif

#ifndef NOMINMAX
#ifndef max
#define max(one, other) (((one) > (other)) ? (one) : (other))
#endif
#ifndef min
#define min(one, other) (((one) < (other)) ? (one) : (other))
#endif
#endif

/* Handles: pointers to structures that nothing defines. */
#ifndef DECLARE_HANDLE
#define DECLARE_HANDLE(name) typedef struct name##__ *name
#endif
DECLARE_HANDLE(HWND);
DECLARE_HANDLE(HDC);
DECLARE_HANDLE(HINSTANCE);
DECLARE_HANDLE(HPALETTE);
DECLARE_HANDLE(HBITMAP);
DECLARE_HANDLE(HMONITOR);
typedef HINSTANCE HMODULE;

typedef struct tagPOINT {
    LONG x;
    LONG y;
} POINT, *PPOINT, *LPPOINT;
WINDTUNNEL_ASSERT(sizeof(POINT) == 8);

typedef struct _POINTL {
    LONG x;
    LONG y;
} POINTL, *PPOINTL;
WINDTUNNEL_ASSERT(sizeof(POINTL) == 8);

typedef struct _SIZE {
    LONG cx;
    LONG cy;
} SIZE, *PSIZE, *LPSIZE, SIZEL, *PSIZEL;
WINDTUNNEL_ASSERT(sizeof(SIZE) == 8);

typedef struct _RECTL {
    LONG left;
    LONG top;
    LONG right;
    LONG bottom;
} RECTL, *PRECTL;
WINDTUNNEL_ASSERT(sizeof(RECTL) == 16);
typedef RECT *LPRECT;
typedef const RECT *LPCRECT;

typedef struct tagPALETTEENTRY {
    BYTE peRed;
    BYTE peGreen;
    BYTE peBlue;
    BYTE peFlags;
} PALETTEENTRY, *PPALETTEENTRY, *LPPALETTEENTRY;
WINDTUNNEL_ASSERT(sizeof(PALETTEENTRY) == 4);

#ifdef __cplusplus
}
#endif

#endif
