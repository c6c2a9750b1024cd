//! Interface versions: those that are flown, and the length of each structure that grew.
//!
//! A driver is compiled for one version, which it declares in its table. A structure that it writes
//! has the length of that version, whatever later versions have appended. A structure that it only
//! reads may be longer.

use abi::display::{
    DXGKDDI_INTERFACE_VERSION_VISTA, DXGKDDI_INTERFACE_VERSION_VISTA_SP1,
    DXGKDDI_INTERFACE_VERSION_WDDM1_3, DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION,
    DXGKDDI_INTERFACE_VERSION_WDDM2_0, DXGKDDI_INTERFACE_VERSION_WDDM2_1,
    DXGKDDI_INTERFACE_VERSION_WDDM2_1_5, DXGKDDI_INTERFACE_VERSION_WDDM2_1_6,
    DXGKDDI_INTERFACE_VERSION_WDDM2_2, DXGKDDI_INTERFACE_VERSION_WDDM2_3,
    DXGKDDI_INTERFACE_VERSION_WDDM2_4, DXGKDDI_INTERFACE_VERSION_WDDM2_5,
    DXGKDDI_INTERFACE_VERSION_WDDM2_6, DXGKDDI_INTERFACE_VERSION_WDDM2_7,
    DXGKDDI_INTERFACE_VERSION_WDDM2_8, DXGKDDI_INTERFACE_VERSION_WDDM2_9,
    DXGKDDI_INTERFACE_VERSION_WDDM3_0, DXGKDDI_INTERFACE_VERSION_WDDM3_1,
    DXGKDDI_INTERFACE_VERSION_WIN7, DXGKDDI_INTERFACE_VERSION_WIN8,
};
use abi::miniport::{DRIVER_INITIALIZATION_DATA, DXGKRNL_INTERFACE, KMDDOD_INITIALIZATION_DATA};
use kernel::miniport::{Generation, WddmVersion};
use std::fmt;

/// The versions that Windows knows, with their names.
const KNOWN_VERSIONS: &[(u32, &str)] = &[
    (DXGKDDI_INTERFACE_VERSION_VISTA, "WDDM 1.0"),
    (DXGKDDI_INTERFACE_VERSION_VISTA_SP1, "WDDM 1.0 of SP1"),
    (DXGKDDI_INTERFACE_VERSION_WIN7, "WDDM 1.1"),
    (DXGKDDI_INTERFACE_VERSION_WIN8, "WDDM 1.2"),
    (DXGKDDI_INTERFACE_VERSION_WDDM1_3, "WDDM 1.3"),
    (DXGKDDI_INTERFACE_VERSION_WDDM1_3_PATH_INDEPENDENT_ROTATION, "WDDM 1.3 with rotation"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_0, "WDDM 2.0"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_1, "WDDM 2.1"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_1_5, "WDDM 2.1.5"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_1_6, "WDDM 2.1.6"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_2, "WDDM 2.2"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_3, "WDDM 2.3"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_4, "WDDM 2.4"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_5, "WDDM 2.5"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_6, "WDDM 2.6"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_7, "WDDM 2.7"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_8, "WDDM 2.8"),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_9, "WDDM 2.9"),
    (DXGKDDI_INTERFACE_VERSION_WDDM3_0, "WDDM 3.0"),
    (DXGKDDI_INTERFACE_VERSION_WDDM3_1, "WDDM 3.1"),
];

/// A structure that later versions have appended members to: its length in bytes from each of these
/// versions on.
pub(crate) struct Growth(&'static [(u32, u32)]);

impl Growth {
    /// The length in the first version that has the structure.
    pub(crate) fn shortest(&self) -> u32 {
        self.0.first().map_or(0, |step| step.1)
    }
}

/// `DXGK_DRIVERCAPS`.
pub(crate) const DRIVER_CAPS: Growth = Growth(&[
    (DXGKDDI_INTERFACE_VERSION_WIN8, 0x220),
    (DXGKDDI_INTERFACE_VERSION_WDDM1_3, 0x228),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_0, 0x240),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_4, 0x248),
    (DXGKDDI_INTERFACE_VERSION_WDDM2_9, 0x250),
]);

/// `DXGK_SEGMENTDESCRIPTOR4`.
pub(crate) const SEGMENT_DESCRIPTOR_4: Growth =
    Growth(&[(DXGKDDI_INTERFACE_VERSION_WDDM2_0, 64), (DXGKDDI_INTERFACE_VERSION_WDDM2_1, 96)]);

/// `DXGK_CHILD_STATUS`.
pub(crate) const CHILD_STATUS: Growth =
    Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 12), (DXGKDDI_INTERFACE_VERSION_WDDM1_3, 16)]);

/// `DXGKARGCB_CREATECONTEXTALLOCATION`.
pub(crate) const CREATE_CONTEXT_ALLOCATION: Growth =
    Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 80), (DXGKDDI_INTERFACE_VERSION_WDDM2_0, 88)]);

/// The interface version of a driver: WDDM 1.2 to 3.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceVersion(u32);

impl InterfaceVersion {
    /// The version with this number (`DXGKDDI_INTERFACE_VERSION_…`), if drivers of it are flown.
    pub fn new(number: u32) -> Option<Self> {
        DRIVER_INITIALIZATION_DATA::length(number).map(|_| Self(number))
    }

    /// The number, as a driver's table has it.
    pub fn number(self) -> u32 {
        self.0
    }

    /// The length of `DRIVER_INITIALIZATION_DATA` in bytes.
    pub fn table_length(self) -> usize {
        DRIVER_INITIALIZATION_DATA::length(self.0).unwrap_or(0)
    }

    /// The length of `KMDDOD_INITIALIZATION_DATA` in bytes.
    pub fn display_only_table_length(self) -> usize {
        KMDDOD_INITIALIZATION_DATA::length(self.0).unwrap_or(0)
    }

    /// The length of `DXGKRNL_INTERFACE` in bytes (its `Size`).
    pub fn interface_length(self) -> usize {
        DXGKRNL_INTERFACE::length(self.0).unwrap_or(0)
    }

    /// The length of a structure in bytes. A structure that is new in a later version has none.
    pub(crate) fn length_of(self, growth: &Growth) -> u32 {
        growth.0.iter().rev().find(|step| step.0 <= self.0).map_or(0, |step| step.1)
    }

    /// The version of WDDM: as the name has it, without what follows the second number.
    pub(crate) fn wddm(self) -> WddmVersion {
        let name = KNOWN_VERSIONS.iter().find(|pair| pair.0 == self.0);
        let mut numbers = name.map_or("", |pair| pair.1).split([' ', '.']).skip(1);
        let mut number = || numbers.next().and_then(|number| number.parse().ok());
        let (major, minor) = (number(), number());
        WddmVersion { major: major.unwrap_or(0), minor: minor.unwrap_or(0) }
    }

    /// The driver model of the version.
    pub(crate) fn generation(self) -> Generation {
        if self.0 < DXGKDDI_INTERFACE_VERSION_WDDM2_0 { Generation::One } else { Generation::Two }
    }
}

impl fmt::Display for InterfaceVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = KNOWN_VERSIONS.iter().find(|pair| pair.0 == self.0);
        write!(f, "{} ({:#x})", name.map_or("WDDM", |pair| pair.1), self.0)
    }
}

/// A version that is not flown, in words: what it is, and which ones are.
pub(crate) fn describe_unflown(number: u32, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match KNOWN_VERSIONS.iter().find(|pair| pair.0 == number) {
        Some((_, name)) => write!(f, "{name} and not flown yet")?,
        None => write!(f, "no version of WDDM")?,
    }
    let list = |f: &mut fmt::Formatter<'_>, flown: bool| {
        let numbers = KNOWN_VERSIONS.iter().map(|pair| pair.0);
        let numbers = numbers.filter(|number| InterfaceVersion::new(*number).is_some() == flown);
        for (at, number) in numbers.enumerate() {
            write!(f, "{} {number:#x}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    };
    write!(f, "; flown are")?;
    list(f, true)?;
    write!(f, "; known and not flown yet are")?;
    list(f, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::display::{
        DXGK_DRIVERCAPS_WDDM2_9, DXGKARG_BUILDPAGINGBUFFER, DXGKARG_CANCELCOMMAND,
        DXGKARG_CREATECONTEXT, DXGKARG_CREATEDEVICE, DXGKARG_CREATEPROCESS, DXGKARG_ESCAPE,
        DXGKARG_QUERYADAPTERINFO, DXGKARGCB_CREATECONTEXTALLOCATION,
    };
    use abi::miniport::DXGK_CHILD_STATUS;

    #[test]
    fn every_known_version_has_its_own_number_and_every_flown_one_a_name() {
        assert!(KNOWN_VERSIONS.is_sorted_by(|a, b| a.0 < b.0));
        for (number, _) in DRIVER_INITIALIZATION_DATA::LENGTHS {
            assert!(KNOWN_VERSIONS.iter().any(|pair| pair.0 == *number), "{number:#x}");
        }
        assert_eq!(InterfaceVersion::new(0x300E).unwrap().to_string(), "WDDM 1.2 (0x300e)");
        assert_eq!(InterfaceVersion::new(0x300D), None);
    }

    #[test]
    fn a_version_has_the_numbers_of_wddm() {
        for (number, major, minor) in [
            (DXGKDDI_INTERFACE_VERSION_WIN8, 1, 2),
            (DXGKDDI_INTERFACE_VERSION_WDDM1_3, 1, 3),
            (DXGKDDI_INTERFACE_VERSION_WDDM2_6, 2, 6),
            (DXGKDDI_INTERFACE_VERSION_WDDM3_1, 3, 1),
        ] {
            let version = InterfaceVersion::new(number).unwrap();
            assert_eq!(version.wddm(), WddmVersion { major, minor }, "{version}");
        }
    }

    #[test]
    fn the_first_driver_model_ends_before_2_0() {
        let generation = |number| InterfaceVersion::new(number).unwrap().generation();
        assert_eq!(generation(DXGKDDI_INTERFACE_VERSION_WDDM1_3), Generation::One);
        assert_eq!(generation(DXGKDDI_INTERFACE_VERSION_WDDM2_0), Generation::Two);
    }

    /// Structures that a driver only reads: they are as long as the longest version.
    const ARGUMENTS: &[(usize, Growth)] = &[
        (
            size_of::<DXGKARG_QUERYADAPTERINFO>(),
            Growth(&[
                (DXGKDDI_INTERFACE_VERSION_WIN8, 0x28),
                (DXGKDDI_INTERFACE_VERSION_WDDM2_4, 0x30),
            ]),
        ),
        (
            size_of::<DXGKARG_CREATECONTEXT>(),
            Growth(&[
                (DXGKDDI_INTERFACE_VERSION_WIN8, 0x40),
                (DXGKDDI_INTERFACE_VERSION_WDDM2_0, 0x48),
            ]),
        ),
        (size_of::<DXGKARG_BUILDPAGINGBUFFER>(), Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 320)])),
        (size_of::<DXGKARG_CREATEPROCESS>(), Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 56)])),
        (size_of::<DXGKARG_CREATEDEVICE>(), Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 32)])),
        (size_of::<DXGKARG_CANCELCOMMAND>(), Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 112)])),
        (size_of::<DXGKARG_ESCAPE>(), Growth(&[(DXGKDDI_INTERFACE_VERSION_WIN8, 48)])),
    ];

    #[test]
    fn an_argument_is_as_long_as_any_version_reads() {
        for (number, _) in DRIVER_INITIALIZATION_DATA::LENGTHS {
            let version = InterfaceVersion::new(*number).unwrap();
            for (size, growth) in ARGUMENTS {
                assert!(version.length_of(growth) as usize <= *size, "{version}: {size}");
            }
        }
        let longest = |growth: &Growth| growth.0.last().unwrap().1 as usize;
        assert_eq!(longest(&DRIVER_CAPS), size_of::<DXGK_DRIVERCAPS_WDDM2_9>());
        assert_eq!(longest(&CHILD_STATUS), size_of::<DXGK_CHILD_STATUS>());
        let context_allocation = size_of::<DXGKARGCB_CREATECONTEXTALLOCATION>();
        assert_eq!(longest(&CREATE_CONTEXT_ALLOCATION), context_allocation);
    }

    #[test]
    fn tables_and_structures_have_the_length_of_their_version() {
        for (number, table, display_only, interface, caps, query, context) in [
            (0x300E, 0x298, 0x148, 0x100, 0x220, 0x28, 0x40),
            (0x4002, 0x2c8, 0x148, 0x108, 0x228, 0x28, 0x40),
            (0x5023, 0x340, 0x150, 0x138, 0x240, 0x28, 0x48),
            (0x6003, 0x370, 0x150, 0x148, 0x240, 0x28, 0x48),
            (0x700A, 0x408, 0x150, 0x168, 0x240, 0x28, 0x48),
            (0x8001, 0x420, 0x150, 0x170, 0x240, 0x28, 0x48),
            (0x9006, 0x480, 0x150, 0x1c8, 0x248, 0x30, 0x48),
            (0xA00B, 0x4a8, 0x150, 0x1d0, 0x248, 0x30, 0x48),
            (0xB004, 0x4c8, 0x150, 0x1e0, 0x248, 0x30, 0x48),
            (0xC004, 0x4d0, 0x150, 0x1e0, 0x248, 0x30, 0x48),
            (0xD001, 0x4d0, 0x150, 0x1e8, 0x248, 0x30, 0x48),
            (0xE003, 0x4f0, 0x150, 0x238, 0x250, 0x30, 0x48),
            (0xF003, 0x510, 0x150, 0x238, 0x250, 0x30, 0x48),
            (0x1_0004, 0x560, 0x150, 0x240, 0x250, 0x30, 0x48),
        ] {
            let version = InterfaceVersion::new(number).unwrap();
            let lengths = (version.table_length(), version.display_only_table_length());
            assert_eq!(lengths, (table, display_only), "{version}");
            assert_eq!(version.interface_length(), interface, "{version}");
            assert_eq!(version.length_of(&DRIVER_CAPS), caps, "{version}");
            assert_eq!(version.length_of(&ARGUMENTS[0].1), query, "{version}");
            assert_eq!(version.length_of(&ARGUMENTS[1].1), context, "{version}");
        }
    }

    #[test]
    fn a_structure_grows_from_a_version_on() {
        let length = |number, growth| InterfaceVersion::new(number).unwrap().length_of(growth);
        let descriptor = |number| length(number, &SEGMENT_DESCRIPTOR_4);
        assert_eq!([0x4002, 0x5023, 0x6003, 0xB004].map(descriptor), [0, 64, 96, 96]);
        let status = |number| length(number, &CHILD_STATUS);
        assert_eq!([0x300E, 0x4002, 0x1_0004].map(status), [12, 16, 16]);
        let allocation = |number| length(number, &CREATE_CONTEXT_ALLOCATION);
        assert_eq!([0x4002, 0x5023].map(allocation), [80, 88]);
    }
}
