/* Media formats of AVStream. Their structures are in ks.h. */
#ifndef WINDTUNNEL_KSMEDIA_H
#define WINDTUNNEL_KSMEDIA_H

#include <ks.h>
#include <mmreg.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KS_BI_RLE8 1
#define KS_BI_RLE4 2
#define KS_BI_JPEG 4

#define KS_WIDTHBYTES(bits) ((DWORD)(((bits) + 31) & (~31)) / 8)
#define KS_DIBWIDTHBYTES(header) \
    (DWORD)KS_WIDTHBYTES((DWORD)(header).biWidth * (DWORD)(header).biBitCount)
#define KS_WINDTUNNEL_HEIGHT(header) \
    (DWORD)((header).biHeight < 0 ? -(header).biHeight : (header).biHeight)
#define KS_DIBSIZE(header) (KS_DIBWIDTHBYTES(header) * KS_WINDTUNNEL_HEIGHT(header))
#define KS_SIZE_VIDEOHEADER(header) \
    ((header)->bmiHeader.biSize + FIELD_OFFSET(KS_VIDEOINFOHEADER, bmiHeader))

typedef enum {
    KS_AnalogVideo_None = 0x00000000,
    KS_AnalogVideo_NTSC_M = 0x00000001,
    KS_AnalogVideo_NTSC_M_J = 0x00000002,
    KS_AnalogVideo_NTSC_433 = 0x00000004,
    KS_AnalogVideo_PAL_B = 0x00000010,
    KS_AnalogVideo_PAL_D = 0x00000020,
    KS_AnalogVideo_PAL_G = 0x00000040,
    KS_AnalogVideo_PAL_H = 0x00000080,
    KS_AnalogVideo_PAL_I = 0x00000100,
    KS_AnalogVideo_PAL_M = 0x00000200,
    KS_AnalogVideo_PAL_N = 0x00000400,
} KS_AnalogVideoStandard;

#define WINDTUNNEL_GUID(one, two, three, b0, b1, b2, b3, b4, b5, b6, b7) \
    {one, two, three, {b0, b1, b2, b3, b4, b5, b6, b7}}
#define WINDTUNNEL_GUID_OF(numbers) WINDTUNNEL_GUID(numbers)
#define WINDTUNNEL_KS_GUID(name) \
    static const GUID name __attribute__((unused)) = WINDTUNNEL_GUID_OF(STATIC_##name)

#define STATIC_PINNAME_CAPTURE STATIC_PINNAME_VIDEO_CAPTURE
#define STATIC_PINNAME_PREVIEW STATIC_PINNAME_VIDEO_PREVIEW
#define STATIC_PINNAME_VIDEO_STILL \
    0xfb6c428a, 0x0353, 0x11d1, 0x90, 0x5f, 0x00, 0x00, 0xc0, 0xcc, 0x16, 0xba
#define STATIC_KSCATEGORY_AUDIO \
    0x6994ad04, 0x93ef, 0x11d0, 0xa3, 0xcc, 0x00, 0xa0, 0xc9, 0x22, 0x31, 0x96
WINDTUNNEL_KS_GUID(KSCATEGORY_AUDIO);
#define STATIC_KSCATEGORY_SENSOR_CAMERA \
    0x24e552d7, 0x6523, 0x47f7, 0xa6, 0x47, 0xd3, 0x46, 0x5b, 0xf1, 0xf5, 0xca
WINDTUNNEL_KS_GUID(KSCATEGORY_SENSOR_CAMERA);
#define STATIC_KSDATAFORMAT_SUBTYPE_PCM \
    0x00000001, 0x0000, 0x0010, 0x80, 0x00, 0x00, 0xaa, 0x00, 0x38, 0x9b, 0x71
WINDTUNNEL_KS_GUID(KSDATAFORMAT_SUBTYPE_PCM);
#define STATIC_KSDATAFORMAT_SPECIFIER_WAVEFORMATEX \
    0x05589f81, 0xc356, 0x11ce, 0xbf, 0x01, 0x00, 0xaa, 0x00, 0x55, 0x59, 0x5a
WINDTUNNEL_KS_GUID(KSDATAFORMAT_SPECIFIER_WAVEFORMATEX);
#define STATIC_KSDATAFORMAT_SPECIFIER_DSOUND \
    0x518590a2, 0xa184, 0x11d0, 0x85, 0x22, 0x00, 0xc0, 0x4f, 0xd9, 0xba, 0xf3
WINDTUNNEL_KS_GUID(KSDATAFORMAT_SPECIFIER_DSOUND);

typedef struct {
    KSDATAFORMAT DataFormat;
    WAVEFORMATEX WaveFormatEx;
} KSDATAFORMAT_WAVEFORMATEX, *PKSDATAFORMAT_WAVEFORMATEX;
typedef struct {
    KSDATARANGE DataRange;
    ULONG MaximumChannels;
    ULONG MinimumBitsPerSample;
    ULONG MaximumBitsPerSample;
    ULONG MinimumSampleFrequency;
    ULONG MaximumSampleFrequency;
} KSDATARANGE_AUDIO, *PKSDATARANGE_AUDIO;
WINDTUNNEL_ASSERT(sizeof(KSDATARANGE_AUDIO) == 88);

#ifdef __cplusplus
}
#endif

#endif
