//! Tests of the reader of images, with an image made here.

use super::parse::{Image, ImageError, PdbReference};

/// Where the PE header is in the file, the optional header, and the section table.
const HEADER: usize = 0x80;
const OPTIONAL: usize = HEADER + 24;
const DIRECTORIES: usize = OPTIONAL + 112;
const SECTIONS: usize = OPTIONAL + 240;
const SECTION: usize = 40;

/// The fields of the optional header that tests change.
const ENTRY_POINT: usize = OPTIONAL + 16;
const SIZE_OF_IMAGE: usize = OPTIONAL + 56;
const SIZE_OF_HEADERS: usize = OPTIONAL + 60;
const SUBSYSTEM: usize = OPTIONAL + 68;

/// Data directories.
const IMPORTS: usize = DIRECTORIES + 8;
const FUNCTION_TABLE: usize = DIRECTORIES + 3 * 8;
const RELOCATIONS: usize = DIRECTORIES + 5 * 8;
const DEBUG: usize = DIRECTORIES + 6 * 8;
const TLS: usize = DIRECTORIES + 9 * 8;
const LOAD_CONFIG: usize = DIRECTORIES + 10 * 8;
const DELAY_IMPORTS: usize = DIRECTORIES + 13 * 8;

const BASE: u64 = 0x1_4000_0000;

/// The offset of an RVA of section .data or .reloc in the file.
const fn data(rva: usize) -> usize {
    if rva < 0x3000 { rva - 0x2000 + 0x400 } else { rva - 0x3000 + 0x800 }
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file[at..at + bytes.len()].copy_from_slice(bytes);
}

fn put_u32s(file: &mut [u8], at: usize, values: &[u32]) {
    for (index, value) in values.iter().enumerate() {
        put(file, at + index * 4, &value.to_le_bytes());
    }
}

/// A small driver: code, one import, one relocation, a stack cookie, and a symbol file.
pub(super) fn small_image() -> Vec<u8> {
    let mut file = vec![0; 0xa00];
    put(&mut file, 0, b"MZ");
    put_u32s(&mut file, 0x3c, &[0x80]);
    put(&mut file, HEADER, b"PE\0\0\x64\x86\x03\x00");
    put_u32s(&mut file, HEADER + 8, &[1_700_000_000, 0, 0, 0x22_00f0]);
    put(&mut file, OPTIONAL, &[0x0b, 0x02]);
    put_u32s(&mut file, ENTRY_POINT, &[0x1010]);
    put(&mut file, OPTIONAL + 24, &BASE.to_le_bytes());
    put_u32s(&mut file, OPTIONAL + 32, &[0x1000, 0x200]);
    put_u32s(&mut file, SIZE_OF_IMAGE, &[0x4000, 0x200]);
    put(&mut file, SUBSYSTEM, &[1, 0]);
    put_u32s(&mut file, OPTIONAL + 108, &[16]);
    put_u32s(&mut file, IMPORTS, &[0x2000, 40]);
    put_u32s(&mut file, FUNCTION_TABLE, &[0x23c0, 12]);
    put_u32s(&mut file, RELOCATIONS, &[0x3000, 12]);
    put_u32s(&mut file, DEBUG, &[0x2300, 28]);
    put_u32s(&mut file, LOAD_CONFIG, &[0x2100, 0x70]);
    let sections = [
        (b".text\0\0\0", [0x200, 0x1000, 0x200, 0x200], 0x6000_0020),
        (b".data\0\0\0", [0x400, 0x2000, 0x400, 0x400], 0xc000_0040),
        (b".reloc\0\0", [0x200, 0x3000, 0x200, 0x800], 0x4200_0040),
    ];
    for (index, (name, sizes, flags)) in sections.into_iter().enumerate() {
        let at = SECTIONS + index * SECTION;
        put(&mut file, at, name);
        put_u32s(&mut file, at + 8, &sizes);
        put_u32s(&mut file, at + 36, &[flags]);
    }
    put_u32s(&mut file, data(0x2000), &[0x2040, 0, 0, 0x2080, 0x2060]);
    put_u32s(&mut file, data(0x2040), &[0x20a0]);
    put_u32s(&mut file, data(0x2060), &[0x20a0]);
    put(&mut file, data(0x2080), b"ntoskrnl.exe\0");
    put(&mut file, data(0x20a2), b"ExFreePoolWithTag\0");
    put_u32s(&mut file, data(0x2100), &[0x70]);
    put(&mut file, data(0x2158), &(BASE + 0x2200).to_le_bytes());
    put_u32s(&mut file, data(0x2300), &[0, 0, 0, 2, 34, 0x2340]);
    put(&mut file, data(0x2340), b"RSDS");
    put(&mut file, data(0x2344), &[7; 16]);
    put_u32s(&mut file, data(0x2354), &[3]);
    put(&mut file, data(0x2358), b"small.pdb\0");
    put_u32s(&mut file, data(0x23c0), &[0x1010, 0x1020, 0x2000]);
    put_u32s(&mut file, data(0x3000), &[0x2000, 12]);
    put(&mut file, data(0x3008), &[0x58, 0xa1, 0, 0]);
    file
}

#[test]
fn an_image_is_read() {
    let image = Image::parse(&small_image()).unwrap();
    assert_eq!((image.preferred_base, image.entry), (BASE, 0x1010));
    let sections: Vec<_> =
        image.sections.iter().map(|section| (&*section.name, section.rva)).collect();
    assert_eq!(sections, [(".text", 0x1000), (".data", 0x2000), (".reloc", 0x3000)]);
    let flags = |index: usize| {
        let section = &image.sections[index];
        (section.executable, section.writable, section.discardable)
    };
    assert_eq!(
        [flags(0), flags(1), flags(2)],
        [(true, false, false), (false, true, false), (false, false, true)]
    );
    let [import] = &image.imports[..] else { panic!("{:?}", image.imports) };
    assert_eq!((&*import.module, &*import.name), ("ntoskrnl.exe", "ExFreePoolWithTag"));
    assert_eq!(import.slot, 0x2060);
    assert_eq!((image.relocations, image.cookie), (vec![0x2158], Some(0x2200)));
    assert_eq!((image.function_table, image.link_time), ((0x23c0, 12), Some(1_700_000_000)));
    let pdb = PdbReference { path: "small.pdb".into(), guid: [7; 16], age: 3 };
    assert_eq!(image.pdb, Some(pdb));
}

/// The error of the small image with other bytes at a place.
#[track_caller]
fn assert_refused(at: usize, bytes: &[u8], expected: &str) {
    let mut file = small_image();
    put(&mut file, at, bytes);
    let ImageError(text) = Image::parse(&file).unwrap_err();
    assert!(text.contains(expected), "expected {expected:?}, found {text:?}");
}

#[test]
fn headers_that_cannot_be_loaded_are_refused_by_name() {
    assert_refused(0, b"ZM", "does not begin with MZ");
    assert_refused(0x3c, &[0xff; 4], "is truncated: it has no PE header");
    assert_refused(HEADER, b"NE", "has MZ, but no PE header");
    assert_refused(HEADER + 4, &[0x4c, 0x01], "is a 32-bit image (x86)");
    assert_refused(HEADER + 4, &[0x64, 0xaa], "is an image for ARM64");
    assert_refused(HEADER + 4, &[0x00, 0x02], "is for machine 0x0200, expected x64");
    assert_refused(OPTIONAL, &[0x0b, 0x01], "is not PE32+");
    assert_refused(SUBSYSTEM, &[2, 0], "is a user-mode program or DLL");
    assert_refused(SUBSYSTEM, &[3, 0], "is a user-mode program or DLL");
    assert_refused(SUBSYSTEM, &[10, 0], "has subsystem 10, expected 1 (native)");
    assert_refused(SIZE_OF_IMAGE, &[0; 4], "has a SizeOfImage of 0 bytes");
    assert_refused(SIZE_OF_IMAGE, &[0, 0, 0, 0x20], "has a SizeOfImage of 536870912 bytes");
    assert_refused(SIZE_OF_HEADERS, &[0, 0x20], "its headers do not fit into the file");
    assert_refused(ENTRY_POINT, &[0, 0x20], "has its entry point at 0x2000, which is in no code");
    assert_refused(TLS, &[0, 0x20], "has thread-local storage");
    assert_refused(DELAY_IMPORTS, &[0, 0x20], "has delay-loaded imports");
}

#[test]
fn sections_outside_the_image_or_the_file_are_refused() {
    let data = SECTIONS + SECTION;
    assert_refused(data + 12, &[0, 0x10], "has overlapping sections .text and .data");
    assert_refused(data + 12, &[0, 0x40], "has a section .data at 0x4000");
    assert_refused(data + 12, &[0, 0x21], "has a section .data at 0x2100");
    assert_refused(data + 12, &[0, 0], "has a section .data at 0x0");
    assert_refused(data + 8, &[0xff; 4], "has a section .data at 0x2000 with 0xffffffff bytes");
    assert_refused(data + 20, &[0xff; 4], "is truncated: section .data does not fit");
}

#[test]
fn tables_that_point_outside_the_image_are_refused() {
    const OUTSIDE: &[u8] = &[0, 0, 0, 0x10];
    assert_refused(IMPORTS, OUTSIDE, "the import directory at 0x10000000 has 4 bytes");
    assert_refused(data(0x200c), OUTSIDE, "the name of an imported module at 0x10000000");
    assert_refused(data(0x2000), OUTSIDE, "the list of imports from ntoskrnl.exe at 0x10000000");
    assert_refused(data(0x2010), OUTSIDE, "the list of imports from ntoskrnl.exe at 0x10000000");
    assert_refused(data(0x2040), OUTSIDE, "the name of an import at 0x10000002");
    assert_refused(data(0x2044), &[1], "whose name is outside the image");
    assert_refused(data(0x2047), &[0x80], "imports ordinal 8352 of ntoskrnl.exe");
    assert_refused(RELOCATIONS, OUTSIDE, "the relocations at 0x10000000");
    assert_refused(data(0x3000), OUTSIDE, "a relocated pointer at 0x10000158");
    assert_refused(data(0x3000), &[0xff; 4], "has an address beyond 0xffffffff");
    assert_refused(data(0x3004), &[4], "has a block of relocations at 0x3000 of 4 bytes");
    assert_refused(data(0x3004), &[14], "has a block of relocations at 0x3000 of 14 bytes");
    assert_refused(data(0x3009), &[0x31], "has a relocation of type 3 at 0x2158");
    assert_refused(LOAD_CONFIG, OUTSIDE, "the load configuration at 0x10000000");
    assert_refused(data(0x2158), &[0; 4], "whose stack cookie is outside the image");
    assert_refused(data(0x215b), &[0x50], "the stack cookie at 0x10002200");
    assert_refused(DEBUG, OUTSIDE, "the debug directory at 0x1000000c");
    assert_refused(data(0x2314), OUTSIDE, "the debug directory at 0x10000000");
    assert_refused(FUNCTION_TABLE, OUTSIDE, "the function table (.pdata) at 0x10000000");
}

#[test]
fn an_error_is_one_line_whatever_the_names_are() {
    let renamed = b".d\na\0\0\0\0\xff\xff\xff\xff";
    assert_refused(SECTIONS + SECTION, renamed, "has a section .d\\na at 0x2000");
    assert_refused(data(0x2084), b"\n", "an imported module at 0x2080 has control characters");
    assert_refused(data(0x20a4), b"\x7f", "the name of an import at 0x20a2 has control characters");
}

#[test]
fn a_truncated_image_is_refused_at_every_length() {
    let file = small_image();
    for length in 0..file.len() {
        let ImageError(text) = Image::parse(&file[..length]).unwrap_err();
        let expected = if length < 2 { "is not a Windows image" } else { "is truncated" };
        assert!(text.starts_with(expected), "{length} bytes: {text}");
    }
}

/// Changed images are read or refused, without a panic.
#[test]
fn changed_images_do_not_panic() {
    const RUNS: usize = 5000;
    const VALUES: [u32; 8] = [0, 1, 0x7f, 0xfff, 0x1000, 0x7fff_ffff, 0xffff_fff0, 0xffff_ffff];
    let file = small_image();
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut refused = 0;
    for _ in 0..RUNS {
        let mut changed = file.clone();
        for _ in 0..=random(3) {
            // Headers and tables; the rest is zero.
            let at = if random(2) == 0 { HEADER + random(0x180) } else { 0x400 + random(0x40c) };
            if random(2) == 0 {
                put_u32s(&mut changed, at & !3, &[VALUES[random(VALUES.len())]]);
            } else {
                changed[at] = random(256).to_le_bytes()[0];
            }
        }
        refused += usize::from(Image::parse(&changed).is_err());
    }
    assert!((RUNS / 10..RUNS).contains(&refused), "{refused} of {RUNS} are refused");
}
