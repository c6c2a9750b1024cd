/* Formats of audio. */
#ifndef WINDTUNNEL_MMREG_H
#define WINDTUNNEL_MMREG_H

#include <windef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WAVE_FORMAT_PCM 1
#define WAVE_FORMAT_EXTENSIBLE 0xFFFE

#pragma pack(push, 1)
typedef struct tWAVEFORMATEX {
    WORD wFormatTag;
    WORD nChannels;
    DWORD nSamplesPerSec;
    DWORD nAvgBytesPerSec;
    WORD nBlockAlign;
    WORD wBitsPerSample;
    WORD cbSize;
} WAVEFORMATEX, *PWAVEFORMATEX, *LPWAVEFORMATEX;
WINDTUNNEL_ASSERT(sizeof(WAVEFORMATEX) == 18);
typedef struct {
    WAVEFORMATEX Format;
    union {
        WORD wValidBitsPerSample;
        WORD wSamplesPerBlock;
        WORD wReserved;
    } Samples;
    DWORD dwChannelMask;
    GUID SubFormat;
} WAVEFORMATEXTENSIBLE, *PWAVEFORMATEXTENSIBLE;
WINDTUNNEL_ASSERT(sizeof(WAVEFORMATEXTENSIBLE) == 40);
#pragma pack(pop)

#ifdef __cplusplus
}
#endif

#endif
