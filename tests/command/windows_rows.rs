//! The table of what Windows was seen to do: for every observation, the test that shows it.
//!
//! An observation is known by its number, as the rules name it (`windows-behaviour #N`); what it says
//! is in the test, and here in a few words. A test fails if a number is missing, stands twice, or
//! names a test that does not exist or whose source does not mention the number.
#![expect(clippy::unwrap_used, reason = "a source that cannot be read is a failed test")]

use harness::pages::root;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The numbers of the observations.
const NUMBERS: &[u32] = &[
    1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 24, 25, 27, 28, 30,
    31, 33, 34, 36, 37, 39, 40, 42, 43, 45, 46, 49, 51, 53, 55, 57, 59, 61, 63, 65, 67, 69, 71, 72,
    73, 75, 76, 78, 79, 81, 82, 84, 85, 87, 88, 90, 91, 93, 94, 96, 97, 99, 100, 102, 103, 105,
    106, 108, 109, 111, 112, 114, 115, 117, 118, 120, 121, 123, 124, 126, 127, 129, 130, 132, 133,
    135, 136, 138, 139, 141, 142, 144, 145, 147, 148, 150, 151, 153, 154, 156, 157, 159, 160, 162,
    163, 165, 166, 168, 169, 171, 172, 174, 175, 177, 178, 180, 181, 183, 184, 186, 187, 189, 190,
    192, 193, 195, 196, 198, 199, 201, 202, 204, 205, 207, 208, 210, 211, 213, 214, 215, 217, 219,
    221, 223, 225, 227, 229, 231, 232, 234, 301, 302, 303, 304, 305, 306, 307,
];

/// The observations that a test shows.
struct Shown {
    /// The function of the test.
    test: &'static str,
    /// The source that has the calls, and the numbers in its comments: of the test, or of the client
    /// in C that the test runs.
    source: &'static str,
    /// What is shown.
    rows: &'static [(u32, &'static str)],
}

const SHOWN: &[Shown] = &[
    Shown {
        test: "handles_adapters_and_allocations_answer_as_windows_does",
        source: "tests/c/observed.c",
        rows: &[
            (1, "one of the two top bits of a handle is set, and of an NT handle none"),
            (2, "a local handle ends in six zeroes"),
            (3, "a global handle ends in 2"),
            (4, "objects of all types share one table: the next handle is 0x40 higher"),
            (5, "a closed handle is not the next one"),
            (6, "a call that fails uses up no handle"),
            (7, "a resource is numbered before its allocation"),
            (8, "so is one that is opened"),
            (9, "listed adapters have handles in a row"),
            (11, "a display by name: NULL"),
            (12, "a display by name: an empty name"),
            (13, "the first display opens"),
            (14, "each open of a display is a new handle, with the LUID"),
            (15, "a display that is not attached does not open"),
            (
                16,
                "a device context: NULL, where Windows crashes, is an invalid parameter and a finding",
            ),
            (17, "a device context of zero"),
            (21, "the number of adapters without an array is a fixed maximum"),
            (22, "with an array it is the real one, with LUIDs and open handles"),
            (24, "closing no adapter"),
            (25, "closing an adapter"),
            (27, "the interface class of display adapters does not open"),
            (28, "the interface class of arrivals opens, with the LUID"),
            (30, "an adapter query whose buffer is a byte too short"),
            (31, "the driver was not updated"),
            (307, "the driver is one of WDDM 3.1 or newer"),
            (33, "video memory of both groups: budget, usage, no reservation"),
            (34, "video memory of the current process by its pseudo handle"),
            (36, "video memory of a process that does not exist"),
            (37, "video memory of an adapter that does not exist"),
            (39, "a segment group that does not exist"),
            (42, "escapes of two types with a bad context"),
            (43, "creating a device without an adapter"),
            (45, "destroying no device"),
            (46, "destroying a device"),
            (
                129,
                "creating allocations: NULL, where Windows crashes, is an invalid parameter and a finding",
            ),
            (130, "creating allocations: zeroes"),
            (132, "destroying nothing succeeds"),
            (133, "destroying one allocation without a list"),
            (135, "the second create leaves the sizes zero"),
            (136, "the first destroy takes what the second create made"),
            (138, "a standard allocation with private data of its own"),
            (139, "private data of the runtime without a resource"),
            (141, "creating allocations without a device"),
            (142, "a resource that does not exist is an invalid handle"),
            (144, "a standard allocation without a type"),
            (145, "an existing heap without memory"),
            (147, "an existing heap of half a page"),
            (148, "an existing heap without its flag"),
            (150, "sharing without a resource"),
            (151, "a resource that does not exist, together with CreateResource"),
            (153, "a resource lives without its allocations"),
            (154, "a resource is destroyed once"),
            (156, "with its allocations"),
            (157, "a resource of nothing is not created"),
            (159, "a local handle does not open a resource"),
            (160, "a shared resource has a global handle"),
            (162, "the driver supplies private data of a standard allocation"),
            (163, "a resource opens with a larger buffer, and the global handle stays"),
            (165, "private data is returned in the buffer for all only"),
            (166, "an opened resource is destroyed on its own"),
            (168, "a size of the runtime's data that is one too large"),
            (169, "a size of the resource's data that is one too large"),
            (171, "a resource for NT handles has no global handle"),
            (172, "the handles of a resource are destroyed in any order"),
        ],
    },
    Shown {
        test: "owners_of_displays_answer_as_windows_does",
        source: "tests/c/observed_displays.c",
        rows: &[
            (49, "an owner without a device"),
            (51, "the source has no owner"),
            (53, "an exclusive owner occludes"),
            (55, "an emulated owner does not"),
            (57, "exclusive does not become shared"),
            (59, "exclusive twice"),
            (61, "emulated does not become exclusive"),
            (63, "another device while one is exclusive"),
            (65, "another device while one is emulated"),
            (67, "a device releases what is not its own"),
            (69, "occlusion without a window"),
            (71, "an exclusive owner occludes every window of the one monitor"),
            (301, "the desktop shares every source: no device does"),
            (302, "an exclusive owner for GDI"),
            (303, "emulated does not become shared"),
            (304, "exclusive does not become emulated"),
            (305, "a call without sources releases all"),
        ],
    },
    Shown {
        test: "synchronization_objects_answer_as_windows_does",
        source: "tests/c/observed_sync.c",
        rows: &[
            (72, "the first create: NULL"),
            (73, "the first create: device and type are needed"),
            (75, "the first create: a semaphore"),
            (76, "the first create: no fence"),
            (78, "the second create: NULL, and device and type are needed"),
            (79, "the second create: every type without flags"),
            (81, "a CPU notification with its event"),
            (82, "a shared object has a local and a global handle"),
            (84, "an object for NT handles has no global handle"),
            (85, "a global handle is not destroyed"),
            (87, "what is no global handle does not open"),
            (88, "a global handle opens"),
            (90, "and ends with the last local one"),
            (93, "the CPU signals monitored fences only"),
            (94, "a wait for a value that was reached"),
            (96, "a wait for a value that is signalled later"),
            (97, "a value does not go back"),
            (99, "except on request, and forward again"),
        ],
    },
    Shown {
        test: "keyed_mutexes_answer_as_windows_does",
        source: "tests/c/observed_mutex.c",
        rows: &[
            (100, "creating a keyed mutex: NULL"),
            (102, "opening a keyed mutex without a shared handle"),
            (103, "the global handle of a keyed mutex opens"),
            (105, "and is not destroyed"),
            (106, "a keyed mutex is destroyed once"),
            (108, "the second create: NULL and zeroes"),
            (109, "the creator's handle may end first"),
            (111, "a buffer for data that does not exist"),
            (112, "no buffer for data that exists"),
            (114, "a buffer of the right size is not written"),
            (115, "a keyed mutex for NT handles has no global handle"),
            (117, "an acquire by a bad handle changes no field"),
            (118, "an acquire with a wrong key ends in time"),
            (120, "a release by a bad handle changes no field"),
            (121, "a release sets the next key and fence value"),
            (123, "the old key does not acquire"),
            (124, "the next key does, and gets the fence value"),
            (126, "a second handle blocks"),
            (127, "the end of the owner abandons the mutex"),
        ],
    },
    Shown {
        test: "nt_handles_are_descriptors_and_answer_as_windows_does",
        source: "tests/c/nt_handles.c",
        rows: &[
            (174, "an object that is not shared"),
            (175, "an object that is shared by a global handle"),
            (177, "an NT handle keeps its object"),
            (178, "an NT handle of zero does not open"),
            (180, "a destroyed handle, with a name in use"),
            (181, "the second open checks its device first"),
            (183, "an opened object is shared again, with a second name"),
            (184, "opening by name without attributes"),
            (186, "a name in other case, without access"),
            (187, "a name with write access"),
            (189, "a name ends with the last NT handle"),
            (190, "and can be used again"),
            (192, "an allocation and a resource that are not shared"),
            (193, "a resource that is shared by a global handle"),
            (195, "type and name of an NT handle"),
            (196, "opening by name: attributes, names and access"),
            (198, "the sizes of a resource by NT handle"),
            (199, "a query writes no data"),
            (201, "a resource opens by NT handle"),
            (202, "without a list of allocations"),
            (204, "without a buffer of the runtime's data"),
            (205, "with a wrong size of the runtime's data"),
            (207, "with too small a buffer for the driver's data"),
            (306, "without a buffer for the driver's data"),
            (208, "objects that make no bundle"),
            (210, "a bundle keeps its three objects"),
            (211, "the sizes of the resource of a bundle"),
            (213, "what a bundle opens ends on its own"),
            (214, "a bundle is no keyed mutex"),
        ],
    },
    Shown {
        test: "two_processes_answer_as_windows_does",
        source: "tests/c/observed_processes.c",
        rows: &[
            (10, "the number of a global handle is valid in every process"),
            (91, "a process that ends releases what it opened"),
        ],
    },
];

const NO_GDI: &str = "there are no windows and device contexts";
const NO_SETUP: &str = "there is no SetupDi, which lists devices and their properties";
const NO_RUNTIME: &str =
    "there is no Direct3D or Vulkan runtime, whose objects and data it is about";

/// The observations that no test can show, and why.
const OUT_OF_REACH: &[(u32, &str)] = &[
    (18, NO_GDI),
    (19, NO_GDI),
    (40, NO_SETUP),
    (215, NO_RUNTIME),
    (217, NO_RUNTIME),
    (219, NO_RUNTIME),
    (221, NO_RUNTIME),
    (223, NO_RUNTIME),
    (225, NO_RUNTIME),
    (227, NO_RUNTIME),
    (229, NO_RUNTIME),
    (231, NO_RUNTIME),
    (232, NO_RUNTIME),
    (234, NO_RUNTIME),
];

/// The text of all sources of tests in Rust.
fn sources(folder: &Path) -> String {
    let mut text = String::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text.push_str(&sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            text.push_str(&fs::read_to_string(path).unwrap());
        }
    }
    text
}

/// The numbers that the comments and messages of a source name as observations: of a client in C, the
/// numbers in comments; in Rust, those of a line that says "row".
fn mentioned(source: &str) -> Vec<u32> {
    let text = fs::read_to_string(root().join(source)).unwrap();
    let in_c = source.starts_with("tests/c/");
    let lines = text.lines().filter_map(|line| match line.split_once("/*") {
        Some((_, comment)) if in_c => Some(comment),
        _ => line.to_lowercase().contains("row").then_some(line),
    });
    let words = lines.flat_map(|line| line.split(|letter: char| !letter.is_ascii_alphanumeric()));
    words.filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn every_observation_of_windows_has_its_test() {
    let mut listed = BTreeMap::new();
    let mut add = |row: u32, text: &'static str| {
        assert_eq!(listed.insert(row, text), None, "row {row} stands twice");
        assert!(!text.is_empty(), "row {row}");
    };
    let tests = sources(&root().join("tests"));
    let exists = |test: &str| {
        let function = format!("fn {test}()");
        assert!(tests.contains(&function), "no test {test}");
    };
    for shown in SHOWN {
        exists(shown.test);
        let numbers = mentioned(shown.source);
        for (row, text) in shown.rows {
            add(*row, text);
            assert!(numbers.contains(row), "row {row} is not mentioned in {}", shown.source);
        }
    }
    for (row, why) in OUT_OF_REACH {
        add(*row, why);
    }
    assert_eq!(listed.into_keys().collect::<Vec<u32>>(), NUMBERS);
}
