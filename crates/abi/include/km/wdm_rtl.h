/*
 * Part of wdm.h: more functions of the run-time library and the registry (Rtl, Zw).
 */
#ifndef WINDTUNNEL_WDM_RTL_H
#define WINDTUNNEL_WDM_RTL_H

typedef const STRING *PCSTRING;
typedef STRING *PSTRING;
typedef struct _TIME_FIELDS {
    CSHORT Year;
    CSHORT Month;
    CSHORT Day;
    CSHORT Hour;
    CSHORT Minute;
    CSHORT Second;
    CSHORT Milliseconds;
    CSHORT Weekday;
} TIME_FIELDS, *PTIME_FIELDS;
typedef struct _RTL_BITMAP {
    ULONG SizeOfBitMap;
    PULONG Buffer;
} RTL_BITMAP, *PRTL_BITMAP;
WINDTUNNEL_ASSERT(sizeof(RTL_BITMAP) == 16);

#define RtlFillBytes RtlFillMemory
#define RtlZeroBytes RtlZeroMemory
#define RtlCopyBytes RtlCopyMemory
#define RtlSecureZeroMemory(to, size) memset((to), 0, (size))
#define RtlCopyVolatileMemory(to, from, size) memcpy((void *)(to), (const void *)(from), (size))
#define RtlOffsetToPointer(base, offset) ((PCHAR)(((PCHAR)(base)) + ((ULONG_PTR)(offset))))
#define RtlPointerToOffset(base, pointer) ((ULONG)(((PCHAR)(pointer)) - ((PCHAR)(base))))
#define RtlInitEmptyUnicodeString(string, buffer, size) \
    ((string)->Buffer = (buffer), (string)->MaximumLength = (USHORT)(size), (string)->Length = 0)
#define DECLARE_CONST_UNICODE_STRING(name, text) \
    const WCHAR name##_buffer[] = text; \
    const UNICODE_STRING name = {sizeof(text) - sizeof(WCHAR), sizeof(text), (PWCH)name##_buffer}
#define DECLARE_UNICODE_STRING_SIZE(name, size) \
    WCHAR name##_buffer[size]; \
    UNICODE_STRING name = {0, (size) * sizeof(WCHAR), name##_buffer}

NTSYSAPI NTSTATUS NTAPI RtlUnicodeStringToAnsiString(PANSI_STRING to, PCUNICODE_STRING from,
                                                     BOOLEAN allocate);
NTSYSAPI void NTAPI RtlFreeAnsiString(PANSI_STRING string);
NTSYSAPI void NTAPI RtlInitString(PSTRING string, PCSZ text);
NTSYSAPI void NTAPI RtlCopyUnicodeString(PUNICODE_STRING to, PCUNICODE_STRING from);
NTSYSAPI NTSTATUS NTAPI RtlAppendUnicodeStringToString(PUNICODE_STRING to, PCUNICODE_STRING from);
NTSYSAPI NTSTATUS NTAPI RtlAppendUnicodeToString(PUNICODE_STRING to, PCWSTR from);
NTSYSAPI LONG NTAPI RtlCompareUnicodeString(PCUNICODE_STRING one, PCUNICODE_STRING other,
                                            BOOLEAN ignore_case);
NTSYSAPI BOOLEAN NTAPI RtlPrefixUnicodeString(PCUNICODE_STRING start, PCUNICODE_STRING text,
                                              BOOLEAN ignore_case);
NTSYSAPI NTSTATUS NTAPI RtlUnicodeStringToInteger(PCUNICODE_STRING text, ULONG base, PULONG value);
NTSYSAPI NTSTATUS NTAPI RtlIntegerToUnicodeString(ULONG value, ULONG base, PUNICODE_STRING text);
NTSYSAPI NTSTATUS NTAPI RtlInt64ToUnicodeString(ULONGLONG value, ULONG base, PUNICODE_STRING text);
NTSYSAPI NTSTATUS NTAPI RtlStringFromGUID(const GUID *guid, PUNICODE_STRING text);
NTSYSAPI NTSTATUS NTAPI RtlGUIDFromString(PCUNICODE_STRING text, GUID *guid);
NTSYSAPI WCHAR NTAPI RtlUpcaseUnicodeChar(WCHAR character);
NTSYSAPI WCHAR NTAPI RtlDowncaseUnicodeChar(WCHAR character);
NTSYSAPI void NTAPI RtlTimeToTimeFields(PLARGE_INTEGER time, PTIME_FIELDS fields);
NTSYSAPI BOOLEAN NTAPI RtlTimeFieldsToTime(PTIME_FIELDS fields, PLARGE_INTEGER time);
NTSYSAPI void NTAPI RtlInitializeBitMap(PRTL_BITMAP bitmap, PULONG buffer, ULONG size);
NTSYSAPI void NTAPI RtlClearAllBits(PRTL_BITMAP bitmap);
NTSYSAPI void NTAPI RtlSetAllBits(PRTL_BITMAP bitmap);
NTSYSAPI void NTAPI RtlSetBit(PRTL_BITMAP bitmap, ULONG bit);
NTSYSAPI void NTAPI RtlClearBit(PRTL_BITMAP bitmap, ULONG bit);
NTSYSAPI BOOLEAN NTAPI RtlTestBit(PRTL_BITMAP bitmap, ULONG bit);
NTSYSAPI void NTAPI RtlSetBits(PRTL_BITMAP bitmap, ULONG start, ULONG count);
NTSYSAPI void NTAPI RtlClearBits(PRTL_BITMAP bitmap, ULONG start, ULONG count);
NTSYSAPI ULONG NTAPI RtlFindClearBits(PRTL_BITMAP bitmap, ULONG count, ULONG hint);
NTSYSAPI ULONG NTAPI RtlFindClearBitsAndSet(PRTL_BITMAP bitmap, ULONG count, ULONG hint);
NTSYSAPI ULONG NTAPI RtlFindSetBits(PRTL_BITMAP bitmap, ULONG count, ULONG hint);
NTSYSAPI ULONG NTAPI RtlNumberOfSetBits(PRTL_BITMAP bitmap);
NTSYSAPI ULONG NTAPI RtlNumberOfClearBits(PRTL_BITMAP bitmap);

/* The registry. */
#define REG_NONE 0
#define REG_SZ 1
#define REG_EXPAND_SZ 2
#define REG_BINARY 3
#define REG_MULTI_SZ 7
#define REG_QWORD 11
#define REG_OPTION_NON_VOLATILE 0
#define REG_OPTION_VOLATILE 1
#define KEY_QUERY_VALUE 0x0001u
#define KEY_SET_VALUE 0x0002u
#define KEY_CREATE_SUB_KEY 0x0004u
#define KEY_ENUMERATE_SUB_KEYS 0x0008u
#define KEY_WRITE 0x20006u
#define KEY_ALL_ACCESS 0xF003Fu
#define STANDARD_RIGHTS_READ 0x00020000u
#define STANDARD_RIGHTS_ALL 0x001F0000u
#define RTL_REGISTRY_ABSOLUTE 0
#define RTL_REGISTRY_SERVICES 1
#define RTL_REGISTRY_CONTROL 2
#define RTL_REGISTRY_HANDLE 0x40000000
#define RTL_REGISTRY_OPTIONAL 0x80000000
#define RTL_QUERY_REGISTRY_SUBKEY 0x00000001
#define RTL_QUERY_REGISTRY_REQUIRED 0x00000004
#define RTL_QUERY_REGISTRY_DIRECT 0x00000020
#define RTL_QUERY_REGISTRY_TYPECHECK 0x00000100
#define RTL_QUERY_REGISTRY_TYPECHECK_SHIFT 24
typedef struct _KEY_VALUE_FULL_INFORMATION {
    ULONG TitleIndex;
    ULONG Type;
    ULONG DataOffset;
    ULONG DataLength;
    ULONG NameLength;
    WCHAR Name[1];
} KEY_VALUE_FULL_INFORMATION, *PKEY_VALUE_FULL_INFORMATION;
typedef NTSTATUS NTAPI RTL_QUERY_REGISTRY_ROUTINE(PWSTR name, ULONG type, PVOID data, ULONG length,
                                                  PVOID context, PVOID entry_context);
typedef RTL_QUERY_REGISTRY_ROUTINE *PRTL_QUERY_REGISTRY_ROUTINE;
typedef struct _RTL_QUERY_REGISTRY_TABLE {
    PRTL_QUERY_REGISTRY_ROUTINE QueryRoutine;
    ULONG Flags;
    PWSTR Name;
    PVOID EntryContext;
    ULONG DefaultType;
    PVOID DefaultData;
    ULONG DefaultLength;
} RTL_QUERY_REGISTRY_TABLE, *PRTL_QUERY_REGISTRY_TABLE;
WINDTUNNEL_ASSERT(sizeof(RTL_QUERY_REGISTRY_TABLE) == 56);
NTSYSAPI NTSTATUS NTAPI RtlQueryRegistryValues(ULONG relative, PCWSTR path,
                                               PRTL_QUERY_REGISTRY_TABLE table, PVOID context,
                                               PVOID environment);
NTSYSAPI NTSTATUS NTAPI RtlWriteRegistryValue(ULONG relative, PCWSTR path, PCWSTR name, ULONG type,
                                              PVOID data, ULONG length);
NTSYSAPI NTSTATUS NTAPI RtlCheckRegistryKey(ULONG relative, PWSTR path);
NTSYSAPI NTSTATUS NTAPI RtlCreateRegistryKey(ULONG relative, PWSTR path);
NTSYSAPI NTSTATUS NTAPI RtlDeleteRegistryValue(ULONG relative, PCWSTR path, PCWSTR name);
NTSYSAPI NTSTATUS NTAPI ZwSetValueKey(HANDLE key, PUNICODE_STRING name, ULONG title, ULONG type,
                                      PVOID data, ULONG length);
NTSYSAPI NTSTATUS NTAPI ZwCreateKey(PHANDLE key, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes,
                                    ULONG title, PUNICODE_STRING class_name, ULONG options,
                                    PULONG disposition);
NTSYSAPI NTSTATUS NTAPI ZwDeleteKey(HANDLE key);
NTSYSAPI NTSTATUS NTAPI ZwDeleteValueKey(HANDLE key, PUNICODE_STRING name);
NTSYSAPI NTSTATUS NTAPI ZwFlushKey(HANDLE key);
NTSYSAPI NTSTATUS NTAPI ZwWriteFile(HANDLE file, HANDLE event, PVOID apc_routine, PVOID apc_context,
                                    PIO_STATUS_BLOCK io_status, PVOID buffer, ULONG length,
                                    PLARGE_INTEGER offset, PULONG key);
NTSYSAPI NTSTATUS NTAPI ZwOpenFile(PHANDLE file, ACCESS_MASK access, POBJECT_ATTRIBUTES attributes,
                                   PIO_STATUS_BLOCK io_status, ULONG share, ULONG options);
#define FILE_ATTRIBUTE_NORMAL 0x80
#define FILE_SHARE_WRITE 0x2
#define FILE_SUPERSEDE 0
#define FILE_CREATE 2
#define FILE_OPEN_IF 3
#define FILE_OVERWRITE 4
#define FILE_OVERWRITE_IF 5

#endif
