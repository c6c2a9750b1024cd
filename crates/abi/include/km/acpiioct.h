/* The buffers of ACPI methods. */
#ifndef WINDTUNNEL_ACPIIOCT_H
#define WINDTUNNEL_ACPIIOCT_H

#include <wdm.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ACPI_EVAL_INPUT_BUFFER_SIGNATURE 'BieA'
#define ACPI_EVAL_INPUT_BUFFER_SIMPLE_INTEGER_SIGNATURE 'IieA'
#define ACPI_EVAL_INPUT_BUFFER_SIMPLE_STRING_SIGNATURE 'SieA'
#define ACPI_EVAL_INPUT_BUFFER_COMPLEX_SIGNATURE 'CieA'
#define ACPI_EVAL_OUTPUT_BUFFER_SIGNATURE 'BoeA'

/* Names of methods: _BCL, _HID and the like, as a number. */
#define ACPI_METHOD_HARDWARE_ID 'DIH_'

#define ACPI_METHOD_ARGUMENT_INTEGER 0
#define ACPI_METHOD_ARGUMENT_STRING 1
#define ACPI_METHOD_ARGUMENT_BUFFER 2
#define ACPI_METHOD_ARGUMENT_PACKAGE 3

typedef struct _ACPI_METHOD_ARGUMENT_V1 {
    USHORT Type;
    USHORT DataLength;
    __extension__ union {
        ULONG Argument;
        UCHAR Data[1];
    };
} ACPI_METHOD_ARGUMENT, *PACPI_METHOD_ARGUMENT;
WINDTUNNEL_ASSERT(sizeof(ACPI_METHOD_ARGUMENT) == 8);

typedef struct _ACPI_EVAL_INPUT_BUFFER_V1 {
    ULONG Signature;
    __extension__ union {
        UCHAR MethodName[4];
        ULONG MethodNameAsUlong;
    };
} ACPI_EVAL_INPUT_BUFFER, *PACPI_EVAL_INPUT_BUFFER;
WINDTUNNEL_ASSERT(sizeof(ACPI_EVAL_INPUT_BUFFER) == 8);

typedef struct _ACPI_EVAL_INPUT_BUFFER_COMPLEX_V1 {
    ULONG Signature;
    __extension__ union {
        UCHAR MethodName[4];
        ULONG MethodNameAsUlong;
    };
    ULONG Size;
    ULONG ArgumentCount;
    ACPI_METHOD_ARGUMENT Argument[1];
} ACPI_EVAL_INPUT_BUFFER_COMPLEX, *PACPI_EVAL_INPUT_BUFFER_COMPLEX;
WINDTUNNEL_ASSERT(sizeof(ACPI_EVAL_INPUT_BUFFER_COMPLEX) == 24);

typedef struct _ACPI_EVAL_OUTPUT_BUFFER_V1 {
    ULONG Signature;
    ULONG Length;
    ULONG Count;
    ACPI_METHOD_ARGUMENT Argument[1];
} ACPI_EVAL_OUTPUT_BUFFER, *PACPI_EVAL_OUTPUT_BUFFER;
WINDTUNNEL_ASSERT(sizeof(ACPI_EVAL_OUTPUT_BUFFER) == 20);

#define ACPI_METHOD_ARGUMENT_LENGTH(length) \
    (FIELD_OFFSET(ACPI_METHOD_ARGUMENT, Data) + max(sizeof(ULONG), length))
#define ACPI_METHOD_ARGUMENT_LENGTH_FROM_ARGUMENT(argument) \
    (ACPI_METHOD_ARGUMENT_LENGTH((argument)->DataLength))
#define ACPI_METHOD_NEXT_ARGUMENT(argument) \
    ((PACPI_METHOD_ARGUMENT)((PUCHAR)(argument) + \
                             ACPI_METHOD_ARGUMENT_LENGTH_FROM_ARGUMENT(argument)))
#define ACPI_METHOD_SET_ARGUMENT_INTEGER(argument, integer) \
    { (argument)->Type = ACPI_METHOD_ARGUMENT_INTEGER; \
      (argument)->DataLength = sizeof(ULONG); \
      (argument)->Argument = (integer); }
#define ACPI_METHOD_SET_ARGUMENT_STRING(argument, text, length) \
    { (argument)->Type = ACPI_METHOD_ARGUMENT_STRING; \
      (argument)->DataLength = (USHORT)(length); \
      RtlCopyMemory(&(argument)->Data[0], (PUCHAR)(text), (argument)->DataLength); }
#define ACPI_METHOD_SET_ARGUMENT_BUFFER(argument, bytes, length) \
    { (argument)->Type = ACPI_METHOD_ARGUMENT_BUFFER; \
      (argument)->DataLength = (USHORT)(length); \
      RtlCopyMemory(&(argument)->Data[0], (PUCHAR)(bytes), (argument)->DataLength); }

#ifdef __cplusplus
}
#endif

#endif
