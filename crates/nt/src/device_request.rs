//! What a driver asked its device for last: a range of memory, a port, the configuration space.
//!
//! A driver that does not start because no device answers has the last request in its report.
//! Loads and stores in mapped memory are not seen: the last request is then the mapping.

use crate::executive::Executive;
use flight::ExecutionContext;
use std::fmt;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// A request of a driver to its device. [`fmt::Display`] says what the driver did, as the end of a
/// sentence that begins with "after it".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceRequest {
    /// It read its list of resources, which has this many entries.
    Resources {
        /// The function that returned the list.
        by: &'static str,
        /// The number of its entries.
        count: u32,
    },
    /// It read or wrote a space of the device.
    Space {
        /// Whether it wrote.
        writes: bool,
        /// The space; `None` for the PCI configuration space.
        space: Option<u32>,
        /// The first byte.
        offset: u32,
        /// The number of bytes that it asked for.
        bytes: u32,
    },
    /// It mapped a range of physical addresses.
    Mapping {
        /// The function that maps it.
        by: &'static str,
        /// The physical address.
        start: u64,
        /// The number of bytes.
        bytes: u64,
        /// Whether something is there.
        mapped: bool,
    },
    /// It read or wrote a port.
    Port {
        /// Whether it wrote.
        writes: bool,
        /// The port.
        port: u16,
    },
    /// It called a callback that is not implemented.
    Callback(&'static str),
}

impl DeviceRequest {
    /// Records the request for the driver that runs on this thread. It allocates no memory: a
    /// handler of a signal calls it, too.
    pub fn record(self) {
        if let Some(executive) = ExecutionContext::attached::<Executive>() {
            let mut last = executive.device_request.lock().unwrap_or_else(PoisonError::into_inner);
            *last = Some(self);
            if self.is_access() {
                executive.uses_device.store(true, Ordering::Relaxed);
            }
        }
    }

    /// Whether the device could do something because of it, as to raise an interrupt later.
    fn is_access(self) -> bool {
        match self {
            Self::Resources { .. } => false,
            Self::Space { writes, space, .. } => writes || space.is_some(),
            Self::Mapping { .. } | Self::Port { .. } | Self::Callback(_) => true,
        }
    }
}

impl Executive {
    /// Whether the driver may have let its device begin something.
    pub(crate) fn uses_device(&self) -> bool {
        self.uses_device.load(Ordering::Relaxed)
    }

    /// What the driver asked its device for last.
    pub fn last_device_request(&self) -> Option<DeviceRequest> {
        *self.device_request.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for DeviceRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            DeviceRequest::Resources { by, count: 0 } => {
                write!(f, "asked for its resources ({by}), of which there are none")
            }
            DeviceRequest::Resources { by, count } => {
                write!(f, "asked for its resources ({by}), of which there are {count}")
            }
            DeviceRequest::Space { writes, space, offset, bytes } => {
                let verb = if writes { "wrote" } else { "read" };
                write!(f, "{verb} {bytes} bytes at offset {offset:#x} of ")?;
                match space {
                    None => f.write_str("the PCI configuration space"),
                    Some(space) => write!(f, "the device's space {space:#x}"),
                }
            }
            DeviceRequest::Mapping { by, start, bytes, mapped: true } => write!(
                f,
                "mapped {bytes:#x} bytes at {start:#x} ({by}); which register it read there is \
                 not known"
            ),
            DeviceRequest::Mapping { by, start, bytes, mapped: false } => write!(
                f,
                "tried to map {bytes:#x} bytes at {start:#x} ({by}), where no device answers"
            ),
            DeviceRequest::Port { writes, port } => {
                write!(f, "{} port {port:#x}", if writes { "wrote" } else { "read" })
            }
            DeviceRequest::Callback(name) => {
                write!(f, "called {name}, which is not implemented")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_request_of_the_running_driver_is_kept() {
        let executive = Executive::new("asks");
        let first = DeviceRequest::Port { writes: false, port: 0x3c4 };
        first.record();
        assert_eq!(executive.last_device_request(), None, "no driver runs");
        let by = "DxgkCbGetDeviceInformation";
        executive.run_driver(|| {
            first.record();
            DeviceRequest::Resources { by, count: 0 }.record();
        });
        let last = executive.last_device_request().unwrap().to_string();
        assert_eq!(last, format!("asked for its resources ({by}), of which there are none"));
        assert_eq!(first.to_string(), "read port 0x3c4");
    }

    #[test]
    fn a_mapping_does_not_claim_to_know_the_register() {
        let mapping = |mapped| {
            let by = "MmMapIoSpace";
            DeviceRequest::Mapping { by, start: 0xf000_0000, bytes: 0x1000, mapped }.to_string()
        };
        let range = "map 0x1000 bytes at 0xf0000000 (MmMapIoSpace)";
        assert!(mapping(false).starts_with(&format!("tried to {range}")), "{}", mapping(false));
        assert!(mapping(true).ends_with("is not known"), "{}", mapping(true));
        let space = DeviceRequest::Space { writes: false, space: None, offset: 4, bytes: 2 };
        let expected = "read 2 bytes at offset 0x4 of the PCI configuration space";
        assert_eq!(space.to_string(), expected);
    }
}
