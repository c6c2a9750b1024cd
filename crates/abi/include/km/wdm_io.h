/*
 * Part of wdm.h: devices, resources, PCI, DMA and file objects, each structure with the layout of
 * 64-bit Windows.
 */
#ifndef WINDTUNNEL_WDM_IO_H
#define WINDTUNNEL_WDM_IO_H

typedef enum _INTERFACE_TYPE {
    InterfaceTypeUndefined = -1,
    Internal = 0,
    Isa = 1,
    Eisa = 2,
    MicroChannel = 3,
    TurboChannel = 4,
    PCIBus = 5,
    VMEBus = 6,
    NuBus = 7,
    PCMCIABus = 8,
    CBus = 9,
    MPIBus = 10,
    MPSABus = 11,
    ProcessorInternal = 12,
    InternalPowerBus = 13,
    PNPISABus = 14,
    PNPBus = 15,
    Vmcs = 16,
    ACPIBus = 17,
    MaximumInterfaceType = 18,
} INTERFACE_TYPE, *PINTERFACE_TYPE;

typedef enum _KINTERRUPT_MODE { LevelSensitive = 0, Latched = 1 } KINTERRUPT_MODE;
typedef enum _DMA_WIDTH { Width8Bits, Width16Bits, Width32Bits, Width64Bits } DMA_WIDTH;
typedef enum _DMA_SPEED { Compatible, TypeA, TypeB, TypeC, TypeF } DMA_SPEED;

/* Hardware resources. */
#define CmResourceTypeNull 0
#define CmResourceTypePort 1
#define CmResourceTypeInterrupt 2
#define CmResourceTypeMemory 3
#define CmResourceTypeDma 4
#define CmResourceTypeDeviceSpecific 5
#define CmResourceTypeBusNumber 6
#define CmResourceTypeMemoryLarge 7
#define CM_RESOURCE_INTERRUPT_LEVEL_SENSITIVE 0
#define CM_RESOURCE_INTERRUPT_LATCHED 1
#define CM_RESOURCE_INTERRUPT_MESSAGE 2
#define CM_RESOURCE_MEMORY_READ_WRITE 0
#define CM_RESOURCE_MEMORY_READ_ONLY 1
#define CM_RESOURCE_MEMORY_PREFETCHABLE 4
#define CM_RESOURCE_MEMORY_CACHEABLE 0x20
#define CM_RESOURCE_MEMORY_LARGE_40 0x200
#define CM_RESOURCE_MEMORY_LARGE_48 0x400
#define CM_RESOURCE_MEMORY_LARGE_64 0x800

#pragma pack(push, 4)
typedef struct _CM_PARTIAL_RESOURCE_DESCRIPTOR {
    UCHAR Type;
    UCHAR ShareDisposition;
    USHORT Flags;
    union {
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Generic;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Port;
        struct {
            USHORT Level;
            USHORT Group;
            ULONG Vector;
            KAFFINITY Affinity;
        } Interrupt;
        struct {
            __extension__ union {
                struct {
                    USHORT Group;
                    USHORT MessageCount;
                    ULONG Vector;
                    KAFFINITY Affinity;
                } Raw;
                struct {
                    USHORT Level;
                    USHORT Group;
                    ULONG Vector;
                    KAFFINITY Affinity;
                } Translated;
            };
        } MessageInterrupt;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length;
        } Memory;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length40;
        } Memory40;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length48;
        } Memory48;
        struct {
            PHYSICAL_ADDRESS Start;
            ULONG Length64;
        } Memory64;
        struct {
            ULONG Channel;
            ULONG Port;
            ULONG Reserved1;
        } Dma;
        struct {
            ULONG Data[3];
        } DevicePrivate;
        struct {
            ULONG Start;
            ULONG Length;
            ULONG Reserved;
        } BusNumber;
        struct {
            ULONG DataSize;
            ULONG Reserved1;
            ULONG Reserved2;
        } DeviceSpecificData;
    } u;
} CM_PARTIAL_RESOURCE_DESCRIPTOR, *PCM_PARTIAL_RESOURCE_DESCRIPTOR;
#pragma pack(pop)
WINDTUNNEL_ASSERT(sizeof(CM_PARTIAL_RESOURCE_DESCRIPTOR) == 20);
WINDTUNNEL_ASSERT(offsetof(CM_PARTIAL_RESOURCE_DESCRIPTOR, u) == 4);

typedef struct _CM_PARTIAL_RESOURCE_LIST {
    USHORT Version;
    USHORT Revision;
    ULONG Count;
    CM_PARTIAL_RESOURCE_DESCRIPTOR PartialDescriptors[1];
} CM_PARTIAL_RESOURCE_LIST, *PCM_PARTIAL_RESOURCE_LIST;
WINDTUNNEL_ASSERT(sizeof(CM_PARTIAL_RESOURCE_LIST) == 28);
typedef struct _CM_FULL_RESOURCE_DESCRIPTOR {
    INTERFACE_TYPE InterfaceType;
    ULONG BusNumber;
    CM_PARTIAL_RESOURCE_LIST PartialResourceList;
} CM_FULL_RESOURCE_DESCRIPTOR, *PCM_FULL_RESOURCE_DESCRIPTOR;
WINDTUNNEL_ASSERT(sizeof(CM_FULL_RESOURCE_DESCRIPTOR) == 36);
typedef struct _CM_RESOURCE_LIST {
    ULONG Count;
    CM_FULL_RESOURCE_DESCRIPTOR List[1];
} CM_RESOURCE_LIST, *PCM_RESOURCE_LIST;
WINDTUNNEL_ASSERT(sizeof(CM_RESOURCE_LIST) == 40);
typedef struct _IO_RESOURCE_REQUIREMENTS_LIST *PIO_RESOURCE_REQUIREMENTS_LIST;

typedef struct _DEVICE_CAPABILITIES {
    USHORT Size;
    USHORT Version;
    ULONG DeviceD1 : 1;
    ULONG DeviceD2 : 1;
    ULONG LockSupported : 1;
    ULONG EjectSupported : 1;
    ULONG Removable : 1;
    ULONG DockDevice : 1;
    ULONG UniqueID : 1;
    ULONG SilentInstall : 1;
    ULONG RawDeviceOK : 1;
    ULONG SurpriseRemovalOK : 1;
    ULONG WakeFromD0 : 1;
    ULONG WakeFromD1 : 1;
    ULONG WakeFromD2 : 1;
    ULONG WakeFromD3 : 1;
    ULONG HardwareDisabled : 1;
    ULONG NonDynamic : 1;
    ULONG WarmEjectSupported : 1;
    ULONG NoDisplayInUI : 1;
    ULONG Reserved1 : 1;
    ULONG WakeFromInterrupt : 1;
    ULONG SecureDevice : 1;
    ULONG ChildOfVgaEnabledBridge : 1;
    ULONG DecodeIoOnBoot : 1;
    ULONG Reserved : 9;
    ULONG Address;
    ULONG UINumber;
    DEVICE_POWER_STATE DeviceState[POWER_SYSTEM_MAXIMUM];
    SYSTEM_POWER_STATE SystemWake;
    DEVICE_POWER_STATE DeviceWake;
    ULONG D1Latency;
    ULONG D2Latency;
    ULONG D3Latency;
} DEVICE_CAPABILITIES, *PDEVICE_CAPABILITIES;
WINDTUNNEL_ASSERT(sizeof(DEVICE_CAPABILITIES) == 64);

/* PCI. */
#define PCI_TYPE0_ADDRESSES 6
#define PCI_TYPE1_ADDRESSES 2
#define PCI_WHICHSPACE_CONFIG 0
#define PCI_ENABLE_IO_SPACE 0x0001
#define PCI_ENABLE_MEMORY_SPACE 0x0002
#define PCI_ENABLE_BUS_MASTER 0x0004
#define PCI_MULTIFUNCTION 0x80
#define PCI_CAPABILITY_ID_POWER_MANAGEMENT 0x01
#define PCI_CAPABILITY_ID_MSI 0x05
#define PCI_CAPABILITY_ID_VENDOR_SPECIFIC 0x09
#define PCI_CAPABILITY_ID_PCI_EXPRESS 0x10
#define PCI_CAPABILITY_ID_MSIX 0x11
struct _PCI_HEADER_TYPE_0 {
    ULONG BaseAddresses[PCI_TYPE0_ADDRESSES];
    ULONG CIS;
    USHORT SubVendorID;
    USHORT SubSystemID;
    ULONG ROMBaseAddress;
    UCHAR CapabilitiesPtr;
    UCHAR Reserved1[3];
    ULONG Reserved2;
    UCHAR InterruptLine;
    UCHAR InterruptPin;
    UCHAR MinimumGrant;
    UCHAR MaximumLatency;
};
struct _PCI_HEADER_TYPE_1 {
    ULONG BaseAddresses[PCI_TYPE1_ADDRESSES];
    UCHAR PrimaryBus;
    UCHAR SecondaryBus;
    UCHAR SubordinateBus;
    UCHAR SecondaryLatency;
    UCHAR IOBase;
    UCHAR IOLimit;
    USHORT SecondaryStatus;
    USHORT MemoryBase;
    USHORT MemoryLimit;
    USHORT PrefetchBase;
    USHORT PrefetchLimit;
    ULONG PrefetchBaseUpper32;
    ULONG PrefetchLimitUpper32;
    USHORT IOBaseUpper16;
    USHORT IOLimitUpper16;
    UCHAR CapabilitiesPtr;
    UCHAR Reserved1[3];
    ULONG ROMBaseAddress;
    UCHAR InterruptLine;
    UCHAR InterruptPin;
    USHORT BridgeControl;
};
typedef struct _PCI_COMMON_HEADER {
    USHORT VendorID;
    USHORT DeviceID;
    USHORT Command;
    USHORT Status;
    UCHAR RevisionID;
    UCHAR ProgIf;
    UCHAR SubClass;
    UCHAR BaseClass;
    UCHAR CacheLineSize;
    UCHAR LatencyTimer;
    UCHAR HeaderType;
    UCHAR BIST;
    union {
        struct _PCI_HEADER_TYPE_0 type0;
        struct _PCI_HEADER_TYPE_1 type1;
    } u;
} PCI_COMMON_HEADER, *PPCI_COMMON_HEADER;
WINDTUNNEL_ASSERT(sizeof(PCI_COMMON_HEADER) == 64);
typedef struct _PCI_COMMON_CONFIG {
    USHORT VendorID;
    USHORT DeviceID;
    USHORT Command;
    USHORT Status;
    UCHAR RevisionID;
    UCHAR ProgIf;
    UCHAR SubClass;
    UCHAR BaseClass;
    UCHAR CacheLineSize;
    UCHAR LatencyTimer;
    UCHAR HeaderType;
    UCHAR BIST;
    union {
        struct _PCI_HEADER_TYPE_0 type0;
        struct _PCI_HEADER_TYPE_1 type1;
    } u;
    UCHAR DeviceSpecific[192];
} PCI_COMMON_CONFIG, *PPCI_COMMON_CONFIG;
WINDTUNNEL_ASSERT(sizeof(PCI_COMMON_CONFIG) == 256);
#define PCI_COMMON_HDR_LENGTH ((ULONG)FIELD_OFFSET(PCI_COMMON_CONFIG, DeviceSpecific))
typedef struct _PCI_SLOT_NUMBER {
    union {
        struct {
            ULONG DeviceNumber : 5;
            ULONG FunctionNumber : 3;
            ULONG Reserved : 24;
        } bits;
        ULONG AsULONG;
    } u;
} PCI_SLOT_NUMBER, *PPCI_SLOT_NUMBER;
typedef struct _PCI_CAPABILITIES_HEADER {
    UCHAR CapabilityID;
    UCHAR Next;
} PCI_CAPABILITIES_HEADER, *PPCI_CAPABILITIES_HEADER;

/* DMA. */
typedef struct _SCATTER_GATHER_ELEMENT {
    PHYSICAL_ADDRESS Address;
    ULONG Length;
    ULONG_PTR Reserved;
} SCATTER_GATHER_ELEMENT, *PSCATTER_GATHER_ELEMENT;
WINDTUNNEL_ASSERT(sizeof(SCATTER_GATHER_ELEMENT) == 24);
typedef struct _SCATTER_GATHER_LIST {
    ULONG NumberOfElements;
    ULONG_PTR Reserved;
    SCATTER_GATHER_ELEMENT Elements[];
} SCATTER_GATHER_LIST, *PSCATTER_GATHER_LIST;
WINDTUNNEL_ASSERT(sizeof(SCATTER_GATHER_LIST) == 16);

#define DEVICE_DESCRIPTION_VERSION 0
#define DEVICE_DESCRIPTION_VERSION1 1
#define DEVICE_DESCRIPTION_VERSION2 2
#define DEVICE_DESCRIPTION_VERSION3 3
typedef struct _DEVICE_DESCRIPTION {
    ULONG Version;
    BOOLEAN Master;
    BOOLEAN ScatterGather;
    BOOLEAN DemandMode;
    BOOLEAN AutoInitialize;
    BOOLEAN Dma32BitAddresses;
    BOOLEAN IgnoreCount;
    BOOLEAN Reserved1;
    BOOLEAN Dma64BitAddresses;
    ULONG BusNumber;
    ULONG DmaChannel;
    INTERFACE_TYPE InterfaceType;
    DMA_WIDTH DmaWidth;
    DMA_SPEED DmaSpeed;
    ULONG MaximumLength;
    ULONG DmaPort;
    ULONG DmaAddressWidth;
    ULONG DmaControllerInstance;
    ULONG DmaRequestLine;
    PHYSICAL_ADDRESS DeviceAddress;
} DEVICE_DESCRIPTION, *PDEVICE_DESCRIPTION;
WINDTUNNEL_ASSERT(sizeof(DEVICE_DESCRIPTION) == 64);

typedef struct _DMA_OPERATIONS DMA_OPERATIONS, *PDMA_OPERATIONS;
typedef struct _DMA_ADAPTER {
    USHORT Version;
    USHORT Size;
    PDMA_OPERATIONS DmaOperations;
} DMA_ADAPTER, *PDMA_ADAPTER, ADAPTER_OBJECT, *PADAPTER_OBJECT;
WINDTUNNEL_ASSERT(sizeof(DMA_ADAPTER) == 16);
typedef enum _IO_ALLOCATION_ACTION {
    KeepObject = 1,
    DeallocateObject = 2,
    DeallocateObjectKeepRegisters = 3,
} IO_ALLOCATION_ACTION;
typedef IO_ALLOCATION_ACTION NTAPI DRIVER_CONTROL(PDEVICE_OBJECT device, PIRP irp, PVOID base,
                                                  PVOID context);
typedef DRIVER_CONTROL *PDRIVER_CONTROL;
typedef void NTAPI DRIVER_LIST_CONTROL(PDEVICE_OBJECT device, PIRP irp, PSCATTER_GATHER_LIST list,
                                       PVOID context);
typedef DRIVER_LIST_CONTROL *PDRIVER_LIST_CONTROL;
struct _DMA_OPERATIONS {
    ULONG Size;
    void (NTAPI *PutDmaAdapter)(PDMA_ADAPTER adapter);
    PVOID (NTAPI *AllocateCommonBuffer)(PDMA_ADAPTER adapter, ULONG length,
                                        PPHYSICAL_ADDRESS logical, BOOLEAN cached);
    void (NTAPI *FreeCommonBuffer)(PDMA_ADAPTER adapter, ULONG length, PHYSICAL_ADDRESS logical,
                                   PVOID address, BOOLEAN cached);
    NTSTATUS (NTAPI *AllocateAdapterChannel)(PDMA_ADAPTER adapter, PDEVICE_OBJECT device,
                                             ULONG registers, PDRIVER_CONTROL routine,
                                             PVOID context);
    BOOLEAN (NTAPI *FlushAdapterBuffers)(PDMA_ADAPTER adapter, PMDL mdl, PVOID base, PVOID address,
                                         ULONG length, BOOLEAN to_device);
    void (NTAPI *FreeAdapterChannel)(PDMA_ADAPTER adapter);
    void (NTAPI *FreeMapRegisters)(PDMA_ADAPTER adapter, PVOID base, ULONG registers);
    PHYSICAL_ADDRESS (NTAPI *MapTransfer)(PDMA_ADAPTER adapter, PMDL mdl, PVOID base, PVOID address,
                                          PULONG length, BOOLEAN to_device);
    ULONG (NTAPI *GetDmaAlignment)(PDMA_ADAPTER adapter);
    ULONG (NTAPI *ReadDmaCounter)(PDMA_ADAPTER adapter);
    NTSTATUS (NTAPI *GetScatterGatherList)(PDMA_ADAPTER adapter, PDEVICE_OBJECT device, PMDL mdl,
                                           PVOID address, ULONG length,
                                           PDRIVER_LIST_CONTROL routine, PVOID context,
                                           BOOLEAN to_device);
    void (NTAPI *PutScatterGatherList)(PDMA_ADAPTER adapter, PSCATTER_GATHER_LIST list,
                                       BOOLEAN to_device);
    NTSTATUS (NTAPI *CalculateScatterGatherList)(PDMA_ADAPTER adapter, PMDL mdl, PVOID address,
                                                 ULONG length, PULONG size, PULONG registers);
    NTSTATUS (NTAPI *BuildScatterGatherList)(PDMA_ADAPTER adapter, PDEVICE_OBJECT device, PMDL mdl,
                                             PVOID address, ULONG length,
                                             PDRIVER_LIST_CONTROL routine, PVOID context,
                                             BOOLEAN to_device, PVOID buffer, ULONG size);
    NTSTATUS (NTAPI *BuildMdlFromScatterGatherList)(PDMA_ADAPTER adapter, PSCATTER_GATHER_LIST list,
                                                    PMDL original, PMDL *mdl);
};
NTKERNELAPI PDMA_ADAPTER NTAPI IoGetDmaAdapter(PDEVICE_OBJECT device,
                                               PDEVICE_DESCRIPTION description, PULONG registers);

/* File objects. */
typedef struct _FILE_OBJECT {
    CSHORT Type;
    CSHORT Size;
    PDEVICE_OBJECT DeviceObject;
    PVOID Vpb;
    PVOID FsContext;
    PVOID FsContext2;
    PVOID SectionObjectPointer;
    PVOID PrivateCacheMap;
    NTSTATUS FinalStatus;
    struct _FILE_OBJECT *RelatedFileObject;
    BOOLEAN LockOperation;
    BOOLEAN DeletePending;
    BOOLEAN ReadAccess;
    BOOLEAN WriteAccess;
    BOOLEAN DeleteAccess;
    BOOLEAN SharedRead;
    BOOLEAN SharedWrite;
    BOOLEAN SharedDelete;
    ULONG Flags;
    UNICODE_STRING FileName;
    LARGE_INTEGER CurrentByteOffset;
    ULONG Waiters;
    ULONG Busy;
    PVOID LastLock;
    KEVENT Lock;
    KEVENT Event;
    PVOID CompletionContext;
    KSPIN_LOCK IrpListLock;
    LIST_ENTRY IrpList;
    PVOID FileObjectExtension;
} FILE_OBJECT;
WINDTUNNEL_ASSERT(sizeof(FILE_OBJECT) == 0xD8);
WINDTUNNEL_ASSERT(offsetof(FILE_OBJECT, FileName) == 0x58);

/* Requests and devices. */
#define IRP_MJ_READ 0x03
#define IRP_MJ_WRITE 0x04
#define IRP_MJ_CLEANUP 0x12
#define IRP_MJ_POWER 0x16
#define IRP_MJ_SYSTEM_CONTROL 0x17
#define IRP_MJ_PNP 0x1B
#define IRP_MN_START_DEVICE 0x00
#define IRP_MN_REMOVE_DEVICE 0x02
#define FILE_DEVICE_VIDEO 0x00000023
#define FILE_DEVICE_UNKNOWN 0x00000022
#define FILE_DEVICE_KS 0x0000002f
#define METHOD_BUFFERED 0
#define METHOD_IN_DIRECT 1
#define METHOD_OUT_DIRECT 2
#define METHOD_NEITHER 3
#define FILE_ANY_ACCESS 0
#define FILE_READ_ACCESS 1
#define FILE_WRITE_ACCESS 2
#define CTL_CODE(type, function, method, access) \
    (((type) << 16) | ((access) << 14) | ((function) << 2) | (method))
#define IoMarkIrpPending(irp) (IoGetCurrentIrpStackLocation(irp)->Control |= SL_PENDING_RETURNED)
#define SL_PENDING_RETURNED 0x01
#define SL_INVOKE_ON_CANCEL 0x20
#define SL_INVOKE_ON_SUCCESS 0x40
#define SL_INVOKE_ON_ERROR 0x80
#define IoSkipCurrentIrpStackLocation(irp) \
    ((irp)->CurrentLocation++, (irp)->Tail.Overlay.CurrentStackLocation++)
NTKERNELAPI NTSTATUS NTAPI IoCreateDevice(PDRIVER_OBJECT driver, ULONG size, PUNICODE_STRING name,
                                          DEVICE_TYPE type, ULONG characteristics,
                                          BOOLEAN exclusive, PDEVICE_OBJECT *device);
NTKERNELAPI void NTAPI IoDeleteDevice(PDEVICE_OBJECT device);
NTKERNELAPI PDEVICE_OBJECT NTAPI IoGetRelatedDeviceObject(PFILE_OBJECT file);
NTKERNELAPI PIRP NTAPI IoBuildSynchronousFsdRequest(ULONG major, PDEVICE_OBJECT device,
                                                    PVOID buffer, ULONG length,
                                                    PLARGE_INTEGER offset, PKEVENT event,
                                                    PIO_STATUS_BLOCK io_status);
NTKERNELAPI PIRP NTAPI IoAllocateIrp(CCHAR stack_size, BOOLEAN quota);
NTKERNELAPI void NTAPI IoFreeIrp(PIRP irp);
NTKERNELAPI NTSTATUS NTAPI IoRegisterDeviceInterface(PDEVICE_OBJECT device, const GUID *class_guid,
                                                     PUNICODE_STRING reference,
                                                     PUNICODE_STRING link);
NTKERNELAPI NTSTATUS NTAPI IoSetDeviceInterfaceState(PUNICODE_STRING link, BOOLEAN enable);
NTKERNELAPI void NTAPI IoInvalidateDeviceRelations(PDEVICE_OBJECT device, ULONG type);
NTKERNELAPI BOOLEAN NTAPI IoIsWdmVersionAvailable(UCHAR major, UCHAR minor);
NTKERNELAPI void NTAPI IoBuildPartialMdl(PMDL source, PMDL target, PVOID address, ULONG length);
NTKERNELAPI void NTAPI PoStartNextPowerIrp(PIRP irp);
NTKERNELAPI NTSTATUS NTAPI PoCallDriver(PDEVICE_OBJECT device, PIRP irp);

#endif
