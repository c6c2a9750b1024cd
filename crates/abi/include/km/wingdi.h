/* The types of GDI that display drivers use. */
#ifndef WINDTUNNEL_WINGDI_H
#define WINDTUNNEL_WINGDI_H

#include <windef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BI_RGB 0
#define BI_BITFIELDS 3

typedef struct tagRGBQUAD {
    BYTE rgbBlue;
    BYTE rgbGreen;
    BYTE rgbRed;
    BYTE rgbReserved;
} RGBQUAD;
typedef struct tagBITMAPINFOHEADER {
    DWORD biSize;
    LONG biWidth;
    LONG biHeight;
    WORD biPlanes;
    WORD biBitCount;
    DWORD biCompression;
    DWORD biSizeImage;
    LONG biXPelsPerMeter;
    LONG biYPelsPerMeter;
    DWORD biClrUsed;
    DWORD biClrImportant;
} BITMAPINFOHEADER, *PBITMAPINFOHEADER, *LPBITMAPINFOHEADER;
WINDTUNNEL_ASSERT(sizeof(BITMAPINFOHEADER) == 40);

#ifdef __cplusplus
}
#endif

#endif
