//! `D3DKMTQueryAdapterInfo`: one row for each type that is answered.
//!
//! Texts come in characters of two bytes, as on Windows, or of four, as in clients of WSL. The size
//! of the buffer tells which, where a type has a fixed size.
#![expect(unsafe_code, reason = "the entry point takes the caller's pointers")]
#![expect(clippy::unnecessary_wraps, reason = "the answers of all rows have one type")]
// The lint is off in tests.
#![cfg_attr(
    not(test),
    expect(clippy::wildcard_imports, reason = "the names of all types and their structures")
)]

use crate::adapter_registry;
use crate::claims::{read, read_list_mut, write_bytes};
use crate::entry::{ArgumentRule, judge_arguments};
use crate::refusal::{OfMember, invalid, invalid_with};
use crate::session::Session;
use crate::status::{ErrorRules, HandleArgument, map_error};
use abi::NTSTATUS;
use abi::kmt::*;
use abi::status::{STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED};
use flight::{Passive, RuleId};
use kernel::miniport::DriverKind;
use kernel::{AdapterInfo, Handle};

const OTHER_TYPE: &str = "D3DKMTQueryAdapterInfo of a type that has no row";

const ERROR_RULES: ErrorRules = ErrorRules {
    handles: &[(HandleArgument::Adapter, RuleId::DEV_LIFE_001, "D3DKMTQueryAdapterInfo.hAdapter")],
    others: &[],
};

/// The sizes of a buffer: zero for one at NULL, and that of its type.
struct BufferSize {
    given: usize,
    needed: usize,
}

const SIZE_RULES: &[ArgumentRule<BufferSize>] = &[ArgumentRule {
    id: RuleId::ADAPTER_INFO_001,
    argument: "D3DKMTQueryAdapterInfo.PrivateDriverDataSize",
    refuses: Some(STATUS_INVALID_PARAMETER),
    broken: |size| {
        let BufferSize { given, needed } = size;
        (given < needed)
            .then(|| format!("the buffer has {given} bytes, and its type needs {needed}"))
    },
}];

/// What an adapter of this library is called.
pub(crate) const DESCRIPTION: &str = "Windtunnel Display Adapter";

/// The file of its user-mode driver. WINDOWS: the driver's package names it; this name is ours, and
/// no such file is installed.
pub(crate) const USER_MODE_DRIVER: &str = "windtunnel_umd.dll";

/// The service of its kernel-mode driver.
const SERVICE: &str = "windtunnel";

/// Both drivers' version, 1.0.0.0.
const DRIVER_VERSION: u64 = 1 << 48;

/// Vendor and device of `D3DKMT_DEVICE_IDS`. No vendor has this number.
const DEVICE_IDS: [u32; 2] = [0x5754, 1];

/// `PCIBus` of `INTERFACE_TYPE`.
const PCI_BUS: u32 = 5;

/// A type, the sizes of its structure, and its answer.
struct InfoType {
    number: KMTQUERYADAPTERINFOTYPE,
    size: usize,
    /// Its number of characters, which are two bytes of the size each.
    characters: usize,
    answer: fn(&Query<'_>, &mut Answer) -> Result<(), NTSTATUS>,
}

impl InfoType {
    const fn of<T>(
        number: KMTQUERYADAPTERINFOTYPE,
        answer: fn(&Query<'_>, &mut Answer) -> Result<(), NTSTATUS>,
    ) -> Self {
        Self { number, size: size_of::<T>(), characters: 0, answer }
    }

    const fn text<T>(
        number: KMTQUERYADAPTERINFOTYPE,
        characters: usize,
        answer: fn(&Query<'_>, &mut Answer) -> Result<(), NTSTATUS>,
    ) -> Self {
        Self { number, size: size_of::<T>(), characters, answer }
    }

    /// The size with characters of four bytes.
    fn wide_size(&self) -> usize {
        self.size + 2 * self.characters
    }
}

/// What is asked.
struct Query<'a> {
    info: &'a AdapterInfo,
    /// The structure as the caller filled it in.
    request: &'a [u8],
}

impl Query<'_> {
    /// The 32-bit integer of the request at an offset.
    fn word(&self, offset: usize) -> u32 {
        let bytes = self.request.get(offset..offset + 4).and_then(|bytes| bytes.try_into().ok());
        bytes.map_or(0, u32::from_le_bytes)
    }

    /// The first word, which must be below a limit: the index of what is asked about.
    fn index(&self, limit: u32) -> Result<u32, NTSTATUS> {
        let index = self.word(0);
        let outside =
            || format!("the structure asks about number {index}, and the adapter has {limit}");
        if index < limit { Ok(index) } else { Err(invalid_with(outside)) }
    }
}

/// The answer, member by member.
struct Answer {
    bytes: Vec<u8>,
    /// The size of a character.
    character: usize,
}

impl Answer {
    fn word(&mut self, value: u32) -> &mut Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    fn long(&mut self, value: u64) -> &mut Self {
        self.bytes.extend(value.to_le_bytes());
        self
    }

    fn byte(&mut self, value: bool) -> &mut Self {
        self.bytes.push(u8::from(value));
        self
    }

    /// A text in an array of this many characters.
    fn text(&mut self, text: &str, characters: usize) -> &mut Self {
        let end = self.bytes.len() + characters * self.character;
        for unit in text.encode_utf16().take(characters.saturating_sub(1)) {
            self.bytes.extend(&u32::from(unit).to_le_bytes()[..self.character]);
        }
        self.bytes.resize(end, 0);
        self
    }
}

/// The flag, or no flag.
fn flag_if(set: bool, flag: u32) -> u32 {
    if set { flag } else { 0 }
}

/// Returns information about an adapter: its driver's private data, or what a row says.
///
/// WINDOWS: a buffer that is NULL or too small for its type is an invalid parameter (observed). If
/// the driver fails the call, the caller's data is unchanged (our decision).
pub(crate) unsafe fn query_adapter_info(
    session: &Session,
    at: &mut Passive,
    args: *const D3DKMT_QUERYADAPTERINFO,
) -> Result<(), NTSTATUS> {
    // SAFETY: The caller's contract.
    let arguments = unsafe { read(args) }?;
    let (process, adapter) = (session.process, Handle(arguments.hAdapter));
    let (argument, size) = (arguments.pPrivateDriverData, arguments.PrivateDriverDataSize as usize);
    if arguments.Type == KMTQAITYPE_UMDRIVERPRIVATE {
        // SAFETY: The caller's contract.
        let mut data = unsafe { read_list_mut(argument.cast::<u8>(), size) }
            .of_member("pPrivateDriverData")?;
        let result = session.kernel.query_umd_private(at, process, adapter, &mut data);
        map_error(session, ERROR_RULES, result)?;
        // SAFETY: The caller's contract: there are as many bytes as were read.
        return unsafe { write_bytes(argument, &data) };
    }
    let info = session.kernel.adapter_info(process, adapter);
    let info = map_error(session, ERROR_RULES, info)?;
    if arguments.Type == KMTQAITYPE_QUERYREGISTRY {
        // SAFETY: The caller's contract.
        return unsafe { adapter_registry::query(argument, size) };
    }
    let Some(row) = TYPES.iter().find(|row| row.number == arguments.Type) else {
        session.missing_entry(OTHER_TYPE);
        return Err(STATUS_NOT_SUPPORTED);
    };
    let given = if argument.is_null() { 0 } else { size };
    judge_arguments(session, SIZE_RULES, &BufferSize { given, needed: row.size })?;
    let wide = row.characters != 0 && size == row.wide_size();
    let taken = if wide { size } else { row.size };
    // SAFETY: The caller's contract.
    let request =
        unsafe { read_list_mut(argument.cast::<u8>(), taken) }.of_member("pPrivateDriverData")?;
    let bytes = answer(row, &info, &request, if wide { 4 } else { 2 })?;
    // SAFETY: The caller's contract: there are as many bytes as were read.
    unsafe { write_bytes(argument, &bytes) }.of_member("pPrivateDriverData")
}

/// The structure that a row answers with.
fn answer(
    row: &InfoType,
    info: &AdapterInfo,
    request: &[u8],
    character: usize,
) -> Result<Vec<u8>, NTSTATUS> {
    let mut answer = Answer { bytes: Vec::with_capacity(request.len()), character };
    (row.answer)(&Query { info, request }, &mut answer)?;
    // Padding at the end, and members that are zero.
    answer.bytes.resize(request.len(), 0);
    Ok(answer.bytes)
}

/// The id of an adapter, as the last part of its GUIDs.
fn adapter_number(info: &AdapterInfo) -> u64 {
    info.adapter.luid()
}

/// A GUID of an adapter: of this library, and its LUID.
fn guid_text(info: &AdapterInfo) -> String {
    format!("{{57494E44-5455-4E4E-454C-{:012X}}}", adapter_number(info) & 0xffff_ffff_ffff)
}

const UMD_VERSIONS: u32 = NUM_KMTUMDVERSIONS.cast_unsigned();

/// The types. What a row does not write is zero: a feature that is not supported.
const TYPES: &[InfoType] = &[
    InfoType::text::<D3DKMT_UMDFILENAMEINFO>(KMTQAITYPE_UMDRIVERNAME, MAX_PATH, |query, answer| {
        let version = query.index(UMD_VERSIONS)?;
        answer.word(version).text(USER_MODE_DRIVER, MAX_PATH);
        Ok(())
    }),
    InfoType::of::<D3DKMT_SEGMENTSIZEINFO>(KMTQAITYPE_GETSEGMENTSIZE, |query, answer| {
        answer.long(query.info.bytes(false)).long(0).long(query.info.bytes(true));
        Ok(())
    }),
    InfoType::of::<D3DKMT_SEGMENTGROUPSIZEINFO>(KMTQAITYPE_GETSEGMENTGROUPSIZE, |query, answer| {
        query.index(1)?;
        let (local, shared) = (query.info.bytes(false), query.info.bytes(true));
        answer.long(0).long(local).long(0).long(shared).long(local).long(shared);
        Ok(())
    }),
    InfoType::of::<abi::GUID>(KMTQAITYPE_ADAPTERGUID, adapter_guid),
    InfoType::of::<abi::GUID>(KMTQAITYPE_ADAPTERGUID_RENDER, adapter_guid),
    InfoType::of::<D3DKMT_ADAPTERADDRESS>(KMTQAITYPE_ADAPTERADDRESS, adapter_address),
    InfoType::of::<D3DKMT_ADAPTERADDRESS>(KMTQAITYPE_ADAPTERADDRESS_RENDER, adapter_address),
    InfoType::text::<D3DKMT_ADAPTERREGISTRYINFO>(
        KMTQAITYPE_ADAPTERREGISTRYINFO,
        4 * MAX_PATH,
        registry_info,
    ),
    InfoType::text::<D3DKMT_ADAPTERREGISTRYINFO>(
        KMTQAITYPE_ADAPTERREGISTRYINFO_RENDER,
        4 * MAX_PATH,
        registry_info,
    ),
    // WINDOWS: FALSE, in exactly a BOOL (observed).
    InfoType::of::<abi::BOOL>(KMTQAITYPE_CHECKDRIVERUPDATESTATUS, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_CHECKDRIVERUPDATESTATUS_RENDER, not_supported),
    InfoType::of::<D3DKMT_VIRTUALADDRESSINFO>(KMTQAITYPE_VIRTUALADDRESSINFO, |query, answer| {
        let supported = D3DKMT_VIRTUALADDRESSFLAGS::VirtualAddressSupported;
        let flags = flag_if(query.info.translation.is_some(), supported);
        answer.word(flags);
        Ok(())
    }),
    InfoType::of::<D3DKMT_DRIVERVERSION>(KMTQAITYPE_DRIVERVERSION, driver_version),
    InfoType::of::<D3DKMT_DRIVERVERSION>(KMTQAITYPE_DRIVERVERSION_RENDER, driver_version),
    InfoType::of::<D3DKMT_ADAPTERTYPE>(KMTQAITYPE_ADAPTERTYPE, adapter_type),
    InfoType::of::<D3DKMT_ADAPTERTYPE>(KMTQAITYPE_ADAPTERTYPE_RENDER, adapter_type),
    InfoType::of::<D3DKMT_OUTPUTDUPLCONTEXTSCOUNT>(
        KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT,
        |query, answer| {
            let source = query.index(query.info.sources())?;
            answer.word(source);
            Ok(())
        },
    ),
    InfoType::of::<D3DKMT_WDDM_1_2_CAPS>(KMTQAITYPE_WDDM_1_2_CAPS, wddm_1_2_caps),
    InfoType::of::<D3DKMT_WDDM_1_2_CAPS>(KMTQAITYPE_WDDM_1_2_CAPS_RENDER, wddm_1_2_caps),
    InfoType::of::<D3DKMT_UMD_DRIVER_VERSION>(KMTQAITYPE_UMD_DRIVER_VERSION, file_version),
    InfoType::of::<D3DKMT_KMD_DRIVER_VERSION>(KMTQAITYPE_KMD_DRIVER_VERSION, file_version),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_DIRECTFLIP_SUPPORT, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_MULTIPLANEOVERLAY_SUPPORT, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_MULTIPLANEOVERLAY_HUD_SUPPORT, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_XBOX, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_INDEPENDENTFLIP_SUPPORT, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_HYBRID_DLIST_DLL_SUPPORT, not_supported),
    InfoType::of::<abi::BOOL>(KMTQAITYPE_CROSSADAPTERRESOURCE_SUPPORT, not_supported),
    InfoType::of::<D3DKMT_PARAVIRTUALIZATION>(KMTQAITYPE_PARAVIRTUALIZATION_RENDER, not_supported),
    InfoType::of::<D3DKMT_WDDM_1_3_CAPS>(KMTQAITYPE_WDDM_1_3_CAPS, not_supported),
    InfoType::of::<D3DKMT_WDDM_1_3_CAPS>(KMTQAITYPE_WDDM_1_3_CAPS_RENDER, not_supported),
    InfoType::of::<D3DKMT_WDDM_2_0_CAPS>(KMTQAITYPE_WDDM_2_0_CAPS, |query, answer| {
        let atomics = !query.info.scheduling.fences_32_bit;
        let flags = flag_if(atomics, D3DKMT_WDDM_2_0_CAPS::Support64BitAtomics);
        let translates = query.info.translation.is_some();
        let flags = flags | flag_if(translates, D3DKMT_WDDM_2_0_CAPS::GpuMmuSupported);
        answer.word(flags);
        Ok(())
    }),
    // The caller's structure begins with the node, in the low half, and the physical adapter.
    InfoType::text::<D3DKMT_NODEMETADATA>(
        KMTQAITYPE_NODEMETADATA,
        DXGK_MAX_METADATA_NAME_LENGTH,
        |query, answer| {
            let node = query.index(query.info.nodes)?;
            let name = format!("Node {node}");
            answer.word(node).word(DXGK_ENGINE_TYPE_3D.cast_unsigned());
            answer.text(&name, DXGK_MAX_METADATA_NAME_LENGTH).word(0);
            answer.byte(query.info.translation.is_some()).byte(false);
            Ok(())
        },
    ),
    InfoType::of::<D3DKMT_PHYSICAL_ADAPTER_COUNT>(KMTQAITYPE_PHYSICALADAPTERCOUNT, |_, answer| {
        answer.word(1);
        Ok(())
    }),
    InfoType::of::<D3DKMT_QUERY_DEVICE_IDS>(
        KMTQAITYPE_PHYSICALADAPTERDEVICEIDS,
        |query, answer| {
            query.index(1)?;
            let [vendor, device] = DEVICE_IDS;
            answer.word(0).word(vendor).word(device).word(vendor).word(device).word(0);
            answer.word(PCI_BUS);
            Ok(())
        },
    ),
    InfoType::of::<D3DKMT_DRIVERCAPS_EXT>(KMTQAITYPE_DRIVERCAPS_EXT, not_supported),
    InfoType::of::<D3DKMT_QUERY_GPUMMU_CAPS>(KMTQAITYPE_QUERY_GPUMMU_CAPS, |query, answer| {
        query.index(1)?;
        let translation = query.info.translation;
        let read_only = translation.is_some_and(|translation| translation.read_only);
        let no_execute = translation.is_some_and(|translation| translation.no_execute);
        let flags = flag_if(read_only, D3DKMT_GPUMMU_CAPS_FLAGS::ReadOnlyMemorySupported)
            | flag_if(no_execute, D3DKMT_GPUMMU_CAPS_FLAGS::NoExecuteMemorySupported);
        let bits = translation.map_or(0, |translation| translation.address_bits);
        answer.word(0).word(flags).word(bits);
        Ok(())
    }),
    InfoType::text::<D3DKMT_QUERY_ADAPTER_UNIQUE_GUID>(
        KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID,
        40,
        |query, answer| {
            answer.text(&guid_text(query.info), 40);
            Ok(())
        },
    ),
    InfoType::of::<D3DKMT_NODE_PERFDATA>(KMTQAITYPE_NODEPERFDATA, |query, answer| {
        let node = query.index(query.info.nodes)?;
        answer.word(node);
        if query.word(4) == 0 {
            Ok(())
        } else {
            Err(invalid("PhysicalAdapterIndex is not 0, and there is one physical adapter"))
        }
    }),
    InfoType::of::<D3DKMT_ADAPTER_PERFDATA>(KMTQAITYPE_ADAPTERPERFDATA, first_physical_adapter),
    InfoType::of::<D3DKMT_ADAPTER_PERFDATACAPS>(
        KMTQAITYPE_ADAPTERPERFDATA_CAPS,
        first_physical_adapter,
    ),
    InfoType::text::<D3DKMT_GPUVERSION>(
        KMTQUITYPE_GPUVERSION,
        2 * DXGK_MAX_GPUVERSION_NAME_LENGTH,
        |query, answer| {
            query.index(1)?;
            answer.word(0).text("1.0", DXGK_MAX_GPUVERSION_NAME_LENGTH);
            answer.text("Windtunnel", DXGK_MAX_GPUVERSION_NAME_LENGTH);
            Ok(())
        },
    ),
    InfoType::text::<D3DKMT_DRIVER_DESCRIPTION>(KMTQAITYPE_DRIVER_DESCRIPTION, 4096, description),
    InfoType::text::<D3DKMT_DRIVER_DESCRIPTION>(
        KMTQAITYPE_DRIVER_DESCRIPTION_RENDER,
        4096,
        description,
    ),
    InfoType::text::<[abi::WCHAR; MAX_PATH]>(KMTQAITYPE_SERVICENAME, MAX_PATH, |_, answer| {
        answer.text(SERVICE, MAX_PATH);
        Ok(())
    }),
    InfoType::of::<D3DKMT_WDDM_2_7_CAPS>(KMTQAITYPE_WDDM_2_7_CAPS, not_supported),
    InfoType::of::<D3DKMT_WDDM_2_9_CAPS>(KMTQAITYPE_WDDM_2_9_CAPS, not_supported),
    InfoType::of::<D3DKMT_WDDM_3_0_CAPS>(KMTQAITYPE_WDDM_3_0_CAPS, not_supported),
];

fn adapter_guid(query: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    answer.word(0x5749_4E44).word(0x4E4E_5455);
    let tail = adapter_number(query.info) & 0xffff_ffff_ffff;
    answer.long((0x454C << 48 | tail).swap_bytes());
    Ok(())
}

/// WINDOWS: an adapter on a PCI bus has its address; ours are devices of bus 0, by number.
fn adapter_address(query: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    let number = u32::try_from(adapter_number(query.info) >> 12).unwrap_or(u32::MAX);
    answer.word(0).word(number).word(0);
    Ok(())
}

fn registry_info(_: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    for text in [DESCRIPTION, "", "Internal", "Windtunnel"] {
        answer.text(text, MAX_PATH);
    }
    Ok(())
}

fn description(_: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    answer.text(DESCRIPTION, 4096);
    Ok(())
}

fn file_version(_: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    answer.long(DRIVER_VERSION);
    Ok(())
}

/// A feature that no adapter here has, or a structure whose members are all zero.
fn not_supported(_: &Query<'_>, _: &mut Answer) -> Result<(), NTSTATUS> {
    Ok(())
}

/// Measurements of the only physical adapter, which has none.
fn first_physical_adapter(query: &Query<'_>, _: &mut Answer) -> Result<(), NTSTATUS> {
    query.index(1).map(drop)
}

/// WINDOWS: the version that the driver declares, as a number like 2600 for WDDM 2.6 (documented). A
/// built-in driver has the newest version of its model (our decision): 3100 or more is observed.
fn driver_version(query: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    let version = query.info.version;
    answer.word(version.major * 1000 + version.minor * 100);
    Ok(())
}

fn adapter_type(query: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    let kind = query.info.kind;
    let flags = flag_if(kind != DriverKind::DisplayOnly, D3DKMT_ADAPTERTYPE::RenderSupported)
        | flag_if(kind != DriverKind::ComputeOnly, D3DKMT_ADAPTERTYPE::DisplaySupported)
        | flag_if(kind == DriverKind::ComputeOnly, D3DKMT_ADAPTERTYPE::ComputeOnly);
    answer.word(flags);
    Ok(())
}

fn wddm_1_2_caps(query: &Query<'_>, answer: &mut Answer) -> Result<(), NTSTATUS> {
    let scheduling = &query.info.scheduling;
    let granularity = if scheduling.preempts {
        D3DKMDT_GRAPHICS_PREEMPTION_DMA_BUFFER_BOUNDARY
    } else {
        D3DKMDT_GRAPHICS_PREEMPTION_NONE
    };
    let reset = D3DKMT_WDDM_1_2_CAPS_FLAGS::SupportPerEngineTDR;
    let flags = flag_if(scheduling.engine_reset, reset);
    answer.word(granularity.cast_unsigned()).word(granularity.cast_unsigned()).word(flags);
    Ok(())
}
