//! Accepts driver tables: those of a flown version, with the entries that every driver has.

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
use abi::miniport::DRIVER_INITIALIZATION_DATA;
use kernel::ddi::REQUIRED;
use std::fmt;

/// The version that is flown.
const SUPPORTED_VERSION: u32 = DXGKDDI_INTERFACE_VERSION_WDDM2_0;

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

/// Why a table was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Its `Version` is not flown: the rest of it cannot be read.
    Version(u32),
    /// It is missing these entries, which every driver has.
    Missing(Vec<&'static str>),
}

/// Checks a table as far as possible before it is used.
pub(crate) fn check(table: &DRIVER_INITIALIZATION_DATA) -> Result<(), TableError> {
    if table.Version != SUPPORTED_VERSION {
        return Err(TableError::Version(table.Version));
    }
    let filled: Vec<&str> = table.filled().collect();
    let missing: Vec<_> = REQUIRED.iter().copied().filter(|text| !filled.contains(text)).collect();
    if missing.is_empty() { Ok(()) } else { Err(TableError::Missing(missing)) }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TableError::Version(version) => {
                write!(f, "the table's Version is {version:#x}, which is ")?;
                match KNOWN_VERSIONS.iter().find(|pair| pair.0 == *version) {
                    Some((_, name)) => write!(f, "{name} and not flown yet")?,
                    None => write!(f, "no version of WDDM")?,
                }
                write!(f, "; flown is {SUPPORTED_VERSION:#x}, known and not flown yet are")?;
                let others = KNOWN_VERSIONS.iter().filter(|pair| pair.0 != SUPPORTED_VERSION);
                for (at, (version, _)) in others.enumerate() {
                    write!(f, "{} {version:#x}", if at == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            TableError::Missing(names) => {
                write!(f, "the table lacks what every driver has: {}", names.join(", "))
            }
        }
    }
}

impl std::error::Error for TableError {}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::ddi::{NAMES, UNCALLED};

    #[test]
    fn every_known_version_has_its_own_number_and_length() {
        assert!(KNOWN_VERSIONS.is_sorted_by(|a, b| a.0 < b.0));
        for (version, _) in DRIVER_INITIALIZATION_DATA::LENGTHS {
            assert!(KNOWN_VERSIONS.iter().any(|pair| pair.0 == *version), "{version:#x}");
        }
        let here = size_of::<DRIVER_INITIALIZATION_DATA>();
        assert_eq!(DRIVER_INITIALIZATION_DATA::length(SUPPORTED_VERSION), Some(here));
    }

    #[test]
    fn what_is_required_is_in_the_table() {
        for name in REQUIRED {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(name), "{name}");
        }
    }

    #[test]
    fn a_version_is_named() {
        let text = TableError::Version(0x300E).to_string();
        assert!(text.starts_with("the table's Version is 0x300e, which is WDDM 1.2 and not flown"));
        assert!(text.ends_with("0xf003, 0x10004"), "{text}");
        assert!(TableError::Version(7).to_string().contains("0x7, which is no version of WDDM; "));
    }

    #[test]
    fn everything_that_is_missing_is_said_at_once() {
        let table = DRIVER_INITIALIZATION_DATA {
            Version: SUPPORTED_VERSION,
            ..DRIVER_INITIALIZATION_DATA::ZERO
        };
        assert_eq!(check(&table), Err(TableError::Missing(REQUIRED.to_vec())));
        let text =
            TableError::Missing(vec!["DxgkDdiStopDevice", "DxgkDdiCreateDevice"]).to_string();
        let names = "DxgkDdiStopDevice, DxgkDdiCreateDevice";
        assert_eq!(text, format!("the table lacks what every driver has: {names}"));
    }

    #[test]
    fn a_slot_is_called_or_waits_for_something() {
        let waiting: Vec<&str> = UNCALLED.iter().flat_map(|pair| pair.1).copied().collect();
        for slot in DRIVER_INITIALIZATION_DATA::SLOTS.iter().filter(|text| text.starts_with("Dxgk"))
        {
            let lines = waiting.iter().filter(|text| *text == slot).count();
            let called = NAMES.contains(slot);
            assert_eq!(lines, usize::from(!called), "{slot}, called: {called}");
        }
        for name in waiting {
            assert!(DRIVER_INITIALIZATION_DATA::SLOTS.contains(&name), "{name} is no slot");
        }
    }
}
