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

/* Types of the kernel, by the names that parameters of the display interface have. */
typedef HANDLE IN_HANDLE;
typedef const HANDLE IN_CONST_HANDLE;
typedef PVOID IN_PVOID, *OUT_PPVOID, *INOUT_PPVOID;
typedef const PVOID IN_CONST_PVOID;
typedef ULONG IN_ULONG;
typedef PULONG IN_PULONG, OUT_PULONG, INOUT_PULONG;
typedef UCHAR IN_UCHAR;
typedef PUCHAR OUT_PUCHAR;
typedef BOOLEAN IN_BOOLEAN;
typedef PBOOLEAN OUT_PBOOLEAN;
typedef PUINT OUT_PUINT;
typedef const PDEVICE_OBJECT IN_CONST_PDEVICE_OBJECT;
typedef DEVICE_POWER_STATE IN_DEVICE_POWER_STATE;
typedef POWER_ACTION IN_POWER_ACTION;
typedef PVIDEO_REQUEST_PACKET IN_PVIDEO_REQUEST_PACKET, INOUT_PVIDEO_REQUEST_PACKET;
typedef PQUERY_INTERFACE IN_PQUERY_INTERFACE;
typedef PUNICODE_STRING IN_PUNICODE_STRING;

#ifdef __cplusplus
}
#endif

#endif
