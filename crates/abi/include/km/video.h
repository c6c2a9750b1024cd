/*
 * Requests that a display miniport driver gets from the port driver: video requests, the interfaces
 * of other drivers, and ACPI methods.
 */
#ifndef WINDTUNNEL_VIDEO_H
#define WINDTUNNEL_VIDEO_H

#include <acpiioct.h>
#include <windef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct _STATUS_BLOCK {
    __extension__ union {
        LONG Status;
        PVOID Pointer;
    };
    ULONG_PTR Information;
} STATUS_BLOCK, *PSTATUS_BLOCK;
WINDTUNNEL_ASSERT(sizeof(STATUS_BLOCK) == 16);

typedef struct _VIDEO_REQUEST_PACKET {
    ULONG IoControlCode;
    PSTATUS_BLOCK StatusBlock;
    PVOID InputBuffer;
    ULONG InputBufferLength;
    PVOID OutputBuffer;
    ULONG OutputBufferLength;
} VIDEO_REQUEST_PACKET, *PVIDEO_REQUEST_PACKET;
WINDTUNNEL_ASSERT(sizeof(VIDEO_REQUEST_PACKET) == 48);

typedef struct _QUERY_INTERFACE {
    const GUID *InterfaceType;
    USHORT Size;
    USHORT Version;
    PINTERFACE Interface;
    PVOID InterfaceSpecificData;
} QUERY_INTERFACE, *PQUERY_INTERFACE;
WINDTUNNEL_ASSERT(sizeof(QUERY_INTERFACE) == 32);

#ifdef __cplusplus
}
#endif

#endif
