//! `D3DKMTQueryAdapterInfo` through the C library: sizes, characters and answers.
#![expect(unsafe_code, reason = "calls the exported functions")]
#![expect(non_snake_case, reason = "Windows's names")]

use crate::surface::{adapter, close_adapter};
use abi::D3DKMT_HANDLE;
use abi::NTSTATUS;
use abi::kmt::*;
use abi::status::{
    STATUS_INVALID_PARAMETER as INVALID, STATUS_NOT_SUPPORTED, STATUS_SUCCESS as SUCCESS,
};
use std::ptr;

/// Asks with a buffer, and returns the status.
fn ask(adapter: D3DKMT_HANDLE, Type: KMTQUERYADAPTERINFOTYPE, buffer: &mut [u8]) -> NTSTATUS {
    let PrivateDriverDataSize = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
    let pPrivateDriverData = buffer.as_mut_ptr().cast();
    let args = D3DKMT_QUERYADAPTERINFO {
        hAdapter: adapter,
        Type,
        pPrivateDriverData,
        PrivateDriverDataSize,
    };
    // SAFETY: `args` is a local, and its buffer has the stated size.
    unsafe { d3dkmt::D3DKMTQueryAdapterInfo(&raw const args) }
}

/// Every type that is answered, its size, and its size with characters of four bytes.
const SIZES: &[(KMTQUERYADAPTERINFOTYPE, usize, usize)] = &[
    (KMTQAITYPE_UMDRIVERNAME, 524, 1044),
    (KMTQAITYPE_GETSEGMENTSIZE, 24, 24),
    (KMTQAITYPE_ADAPTERGUID, 16, 16),
    (KMTQAITYPE_ADAPTERADDRESS, 12, 12),
    (KMTQAITYPE_ADAPTERREGISTRYINFO, 2080, 4160),
    (KMTQAITYPE_CHECKDRIVERUPDATESTATUS, 4, 4),
    (KMTQAITYPE_VIRTUALADDRESSINFO, 4, 4),
    (KMTQAITYPE_DRIVERVERSION, 4, 4),
    (KMTQAITYPE_ADAPTERTYPE, 4, 4),
    (KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT, 8, 8),
    (KMTQAITYPE_WDDM_1_2_CAPS, 12, 12),
    (KMTQAITYPE_UMD_DRIVER_VERSION, 8, 8),
    (KMTQAITYPE_DIRECTFLIP_SUPPORT, 4, 4),
    (KMTQAITYPE_WDDM_1_3_CAPS, 4, 4),
    (KMTQAITYPE_WDDM_2_0_CAPS, 4, 4),
    (KMTQAITYPE_NODEMETADATA, 78, 142),
    (KMTQAITYPE_PHYSICALADAPTERCOUNT, 4, 4),
    (KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, 28, 28),
    (KMTQAITYPE_QUERY_GPUMMU_CAPS, 12, 12),
    (KMTQAITYPE_GETSEGMENTGROUPSIZE, 56, 56),
    (KMTQAITYPE_KMD_DRIVER_VERSION, 8, 8),
    (KMTQAITYPE_QUERY_ADAPTER_UNIQUE_GUID, 80, 160),
    (KMTQAITYPE_NODEPERFDATA, 56, 56),
    (KMTQAITYPE_ADAPTERPERFDATA, 64, 64),
    (KMTQAITYPE_ADAPTERPERFDATA_CAPS, 40, 40),
    (KMTQUITYPE_GPUVERSION, 132, 260),
    (KMTQAITYPE_DRIVER_DESCRIPTION, 8192, 16384),
    (KMTQAITYPE_SERVICENAME, 520, 1040),
    (KMTQAITYPE_WDDM_2_7_CAPS, 4, 4),
    (KMTQAITYPE_WDDM_3_0_CAPS, 4, 4),
];

#[test]
fn a_buffer_has_at_least_the_size_of_its_type() {
    let adapter = adapter();
    for (of, size, wide) in SIZES {
        for bytes in [*size, *wide, size + 64] {
            assert_eq!(ask(adapter, *of, &mut vec![0; bytes]), SUCCESS, "{of} {bytes}");
        }
        for bytes in [0, 1, size - 1] {
            let mut buffer = vec![0x55; bytes];
            assert_eq!(ask(adapter, *of, &mut buffer), INVALID, "{of} {bytes}");
            assert!(buffer.iter().all(|byte| *byte == 0x55), "{of} {bytes}");
        }
        let args = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: *of,
            pPrivateDriverData: ptr::null_mut(),
            PrivateDriverDataSize: u32::try_from(*size).unwrap_or(0),
        };
        // SAFETY: `args` is a local; a buffer that is NULL is refused.
        assert_eq!(unsafe { d3dkmt::D3DKMTQueryAdapterInfo(&raw const args) }, INVALID, "{of}");
        assert_eq!(ask(0x1ead_beed, *of, &mut vec![0; *size]), INVALID, "{of}");
    }
    for unknown in [KMTQAITYPE_MODELIST, 14, 1000, -1] {
        assert_eq!(ask(adapter, unknown, &mut [0; 4096]), STATUS_NOT_SUPPORTED, "{unknown}");
    }
    close_adapter(adapter);
}

/// The text at an offset, in characters of a size.
fn text(buffer: &[u8], offset: usize, character: usize) -> String {
    let units = buffer[offset..].chunks_exact(character).map(|unit| u16::from(unit[0]));
    let units: Vec<u16> = units.take_while(|unit| *unit != 0).collect();
    String::from_utf16_lossy(&units)
}

#[test]
fn texts_have_the_characters_that_the_size_of_their_buffer_tells() {
    let adapter = adapter();
    for (of, size, wide) in SIZES.iter().filter(|row| row.1 != row.2) {
        let offset = match *of {
            KMTQAITYPE_UMDRIVERNAME | KMTQUITYPE_GPUVERSION => 4,
            KMTQAITYPE_NODEMETADATA => 8,
            _ => 0,
        };
        let (mut narrow, mut broad) = (vec![0; *size], vec![0; *wide]);
        assert_eq!(ask(adapter, *of, &mut narrow), SUCCESS);
        assert_eq!(ask(adapter, *of, &mut broad), SUCCESS);
        let (first, second) = (text(&narrow, offset, 2), text(&broad, offset, 4));
        assert!(first.len() > 2, "{of}: {first}");
        assert_eq!(first, second, "{of}");
    }
    close_adapter(adapter);
}

fn words(adapter: D3DKMT_HANDLE, of: KMTQUERYADAPTERINFOTYPE, request: &[u32]) -> Vec<u32> {
    let mut buffer: Vec<u8> = request.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(ask(adapter, of, &mut buffer), SUCCESS, "{of}");
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
    buffer.chunks_exact(4).map(word).collect()
}

#[test]
fn the_built_in_adapter_renders_and_displays() {
    let adapter = adapter();
    assert_eq!(words(adapter, KMTQAITYPE_CHECKDRIVERUPDATESTATUS, &[7]), [0]);
    let version = KMT_DRIVERVERSION_WDDM_3_1.cast_unsigned();
    assert_eq!(words(adapter, KMTQAITYPE_DRIVERVERSION, &[0]), [version]);
    let both = D3DKMT_ADAPTERTYPE::RenderSupported | D3DKMT_ADAPTERTYPE::DisplaySupported;
    assert_eq!(words(adapter, KMTQAITYPE_ADAPTERTYPE, &[0]), [both]);
    assert_eq!(words(adapter, KMTQAITYPE_PHYSICALADAPTERCOUNT, &[0]), [1]);
    // Its addresses are physical: three types say so.
    assert_eq!(words(adapter, KMTQAITYPE_VIRTUALADDRESSINFO, &[1]), [0]);
    let caps = words(adapter, KMTQAITYPE_WDDM_2_0_CAPS, &[0]);
    assert_eq!(caps, [D3DKMT_WDDM_2_0_CAPS::Support64BitAtomics]);
    assert_eq!(words(adapter, KMTQAITYPE_QUERY_GPUMMU_CAPS, &[0; 3])[2], 0);
    let sizes = words(adapter, KMTQAITYPE_GETSEGMENTSIZE, &[0; 6]);
    let groups = words(adapter, KMTQAITYPE_GETSEGMENTGROUPSIZE, &[0; 14]);
    assert_eq!((&sizes[..2], &sizes[4..]), (&groups[8..10], &groups[10..12]));
    assert_ne!(sizes[..2], [0, 0]);
    // What has an index refuses the one behind the last.
    for (of, size) in [
        (KMTQAITYPE_UMDRIVERNAME, 524),
        (KMTQAITYPE_NODEMETADATA, 78),
        (KMTQAITYPE_PHYSICALADAPTERDEVICEIDS, 28),
        (KMTQAITYPE_QUERY_GPUMMU_CAPS, 12),
        (KMTQAITYPE_OUTPUTDUPLCONTEXTSCOUNT, 8),
    ] {
        let mut buffer = vec![0; size];
        buffer[..4].copy_from_slice(&99_u32.to_le_bytes());
        assert_eq!(ask(adapter, of, &mut buffer), INVALID, "{of}");
    }
    close_adapter(adapter);
}

/// Asks for a value of the adapter's key: the status of the value, its type, its size, and its text.
fn registry(name: &str, room: usize, character: usize) -> (NTSTATUS, [u32; 3], String) {
    let fields = 8 + MAX_PATH * character;
    let mut buffer = vec![0; fields + 16 + room];
    buffer[..4].copy_from_slice(&D3DDDI_QUERYREGISTRY_ADAPTERKEY.to_le_bytes());
    for (to, byte) in buffer[8..].chunks_exact_mut(character).zip(name.bytes()) {
        to[0] = byte;
    }
    let adapter = adapter();
    let status = ask(adapter, KMTQAITYPE_QUERYREGISTRY, &mut buffer);
    close_adapter(adapter);
    let word = |at: usize| buffer[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let found = [word(fields + 12), word(fields), word(fields + 8)];
    (status, found, text(&buffer, fields + 16, character))
}

#[test]
fn a_value_of_the_registry_says_whether_it_exists_and_fits() {
    let name = "Windtunnel Display Adapter";
    for (character, size) in [(2, 54), (4, 108)] {
        let found = registry("DriverDesc", 200, character);
        assert_eq!(found, (SUCCESS, [0, 1, size], name.to_owned()), "{character}");
        let short = registry("DriverDesc", 40, character);
        assert_eq!(short, (SUCCESS, [1, 1, size], String::new()), "{character}");
        assert_eq!(registry("Other", 200, character).1, [2, 0, 0], "{character}");
    }
    assert_eq!(registry("DriverDesc", 7, 2).0, INVALID);
}
