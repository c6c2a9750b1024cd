//! GUIDs.
#![expect(non_upper_case_globals, reason = "Windows's names")]
#![expect(missing_docs, reason = "documented by Microsoft")]

use crate::GUID;

/// A GUID as it is written: the first three groups are numbers, the rest bytes.
#[expect(clippy::cast_possible_truncation, reason = "splits the number into groups")]
const fn guid(text: u128) -> GUID {
    GUID {
        Data1: (text >> 96) as u32,
        Data2: (text >> 80) as u16,
        Data3: (text >> 64) as u16,
        Data4: (text as u64).to_be_bytes(),
    }
}

/// All zero: any memory.
pub const KSMEMORY_TYPE_DONT_CARE: GUID = GUID::ZERO;
/// All zero: any bus.
pub const KS_TYPE_DONT_CARE: GUID = GUID::ZERO;
/// All zero: any format.
pub const KSDATAFORMAT_TYPE_WILDCARD: GUID = GUID::ZERO;
pub const KSDATAFORMAT_SUBTYPE_WILDCARD: GUID = GUID::ZERO;
pub const KSDATAFORMAT_SPECIFIER_WILDCARD: GUID = GUID::ZERO;

pub const KSMEMORY_TYPE_SYSTEM: GUID = guid(0x091bb638_603f_11d1_b067_00a0c9062802);
pub const KSMEMORY_TYPE_USER: GUID = guid(0x8cb0fc28_7893_11d1_b069_00a0c9062802);
pub const KSMEMORY_TYPE_KERNEL_PAGED: GUID = guid(0xd833f8f8_7894_11d1_b069_00a0c9062802);
pub const KSMEMORY_TYPE_KERNEL_NONPAGED: GUID = guid(0x4a6d5fc4_7895_11d1_b069_00a0c9062802);
pub const KSMEMORY_TYPE_DEVICE_UNKNOWN: GUID = guid(0x091bb639_603f_11d1_b067_00a0c9062802);

pub const KSINTERFACESETID_Standard: GUID = guid(0x1a8766a0_62ce_11cf_a5d6_28db04c10000);
pub const KSINTERFACESETID_FileIo: GUID = guid(0x8c6f932c_e771_11d0_b8ff_00a0c9223196);
pub const KSMEDIUMSETID_Standard: GUID = guid(0x4747b320_62ce_11cf_a5d6_28db04c10000);

pub const KSDATAFORMAT_TYPE_VIDEO: GUID = guid(0x73646976_0000_0010_8000_00aa00389b71);
pub const KSDATAFORMAT_TYPE_AUDIO: GUID = guid(0x73647561_0000_0010_8000_00aa00389b71);
pub const KSDATAFORMAT_TYPE_STREAM: GUID = guid(0xe436eb83_524f_11ce_9f53_0020af0ba770);
pub const KSDATAFORMAT_SUBTYPE_NONE: GUID = guid(0xe436eb8e_524f_11ce_9f53_0020af0ba770);
pub const KSDATAFORMAT_SPECIFIER_NONE: GUID = guid(0x0f6417d6_c318_11d0_a43f_00a0c9223196);
pub const KSDATAFORMAT_SPECIFIER_VIDEOINFO: GUID = guid(0x05589f80_c356_11ce_bf01_00aa0055595a);
pub const KSDATAFORMAT_SPECIFIER_VIDEOINFO2: GUID = guid(0xf72a76a0_eb0a_11d0_ace4_0000c0cc16ba);
pub const KSDATAFORMAT_SUBTYPE_IMAGE_RGB32: GUID = guid(0x00000016_0000_0010_8000_00aa00389b71);

pub const KSPROPSETID_Connection: GUID = guid(0x1d58c920_ac9b_11cf_a5d6_28db04c10000);
pub const KSPROPSETID_Stream: GUID = guid(0x65aaba60_98ae_11cf_a10d_0020afd156e4);
pub const KSPROPSETID_StreamAllocator: GUID = guid(0xcf6e4342_ec87_11cf_a130_0020afd156e4);
pub const KSPROPSETID_StreamInterface: GUID = guid(0x1fdd8ee1_9cd3_11d0_82aa_0000f822fe8a);
pub const KSPROPSETID_Pin: GUID = guid(0x8c134960_51ad_11cf_878a_94f801c10000);
pub const KSPROPSETID_Topology: GUID = guid(0x720d4ac0_7533_11d0_a5d6_28db04c10000);
pub const KSPROPSETID_General: GUID = guid(0x1464eda5_6a8f_11d1_9aa7_00a0c9223196);
pub const KSPROPSETID_Clock: GUID = guid(0xdf12a4c0_ac17_11cf_a5d6_28db04c10000);
pub const KSPROPSETID_Quality: GUID = guid(0xd16ad380_ac1a_11cf_a5d6_28db04c10000);
pub const KSPROPSETID_VramCapture: GUID = guid(0xe73face3_2880_4902_b799_88d0cd634e0f);
pub const KSMETHODSETID_StreamAllocator: GUID = guid(0xcf6e4341_ec87_11cf_a130_0020afd156e4);
pub const KSMETHODSETID_StreamIo: GUID = guid(0x65d003ca_1523_11d2_b27a_00a0c9223196);
pub const KSEVENTSETID_StreamAllocator: GUID = guid(0x75d95571_073c_11d0_a161_0020afd156e4);
pub const KSEVENTSETID_Connection: GUID = guid(0x7f4bcbe0_9ea5_11cf_a5d6_28db04c10000);
pub const KSEVENTSETID_Clock: GUID = guid(0x364d8e20_62c7_11cf_a5d6_28db04c10000);

pub const KSNAME_Filter: GUID = guid(0x9b365890_165f_11d0_a195_0020afd156e4);
pub const KSNAME_Pin: GUID = guid(0x146f1a80_4791_11d0_a5d6_28db04c10000);
pub const KSNAME_Clock: GUID = guid(0x53172480_4791_11d0_a5d6_28db04c10000);
pub const KSNAME_Allocator: GUID = guid(0x642f5d00_4791_11d0_a5d6_28db04c10000);
pub const KSNAME_TopologyNode: GUID = guid(0x0621061a_ee75_11d0_b915_00a0c9223196);

pub const KSCATEGORY_CAPTURE: GUID = guid(0x65e8773d_8f56_11d0_a3b9_00a0c9223196);
pub const KSCATEGORY_RENDER: GUID = guid(0x65e8773e_8f56_11d0_a3b9_00a0c9223196);
pub const KSCATEGORY_VIDEO: GUID = guid(0x6994ad05_93ef_11d0_a3cc_00a0c9223196);
pub const KSCATEGORY_VIDEO_CAMERA: GUID = guid(0xe5323777_f976_4f5b_9b55_b94699c46e44);
pub const KSCATEGORY_DATATRANSFORM: GUID = guid(0x2eb07ea0_7e70_11d0_a5d6_28db04c10000);
pub const PINNAME_VIDEO_CAPTURE: GUID = guid(0xfb6c4281_0353_11d1_905f_0000c0cc16ba);
pub const PINNAME_VIDEO_PREVIEW: GUID = guid(0xfb6c4282_0353_11d1_905f_0000c0cc16ba);
pub const PINNAME_VIDEO_STILL: GUID = guid(0xfb6c428a_0353_11d1_905f_0000c0cc16ba);

pub const KSTIME_FORMAT_FRAME: GUID = guid(0x7b785570_8c82_11cf_bc0c_00aa00ac74f6);
pub const KSTIME_FORMAT_BYTE: GUID = guid(0x7b785571_8c82_11cf_bc0c_00aa00ac74f6);
pub const KSTIME_FORMAT_SAMPLE: GUID = guid(0x7b785572_8c82_11cf_bc0c_00aa00ac74f6);
pub const KSTIME_FORMAT_FIELD: GUID = guid(0x7b785573_8c82_11cf_bc0c_00aa00ac74f6);
pub const KSTIME_FORMAT_MEDIA_TIME: GUID = guid(0x7b785574_8c82_11cf_bc0c_00aa00ac74f6);

/// Four bytes a pixel: blue, green, red, nothing. As `WMMEDIASUBTYPE_RGB32` in `windows-sys`.
pub const MEDIASUBTYPE_RGB32: GUID = guid(0xe436eb7e_524f_11ce_9f53_0020af0ba770);
