//! What the executive has for the driver of a flight: the registry, the identity of the device, a
//! folder of files, and the devices whose requests are answered by Rust code.
//!
//! It is attached to the execution context while driver code runs, as the pool is.

use crate::processor;
use crate::registry::{Registry, RegistryValue};
use flight::{Attachment, ExecutionContext};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The keys of the registry that a driver reads.
const SERVICES: &str = r"\Registry\Machine\System\CurrentControlSet\Services";
const CLASSES: &str = r"\Registry\Machine\System\CurrentControlSet\Control\Class";
const DEVICES: &str = r"\Registry\Machine\System\CurrentControlSet\Enum";

/// The identity of the device: what `IoGetDeviceProperty` returns.
#[derive(Clone, Debug)]
pub struct DeviceIdentity {
    /// Hardware ids, the most specific first.
    pub hardware_ids: Vec<String>,
    /// Compatible ids.
    pub compatible_ids: Vec<String>,
    /// The description that the device manager shows.
    pub description: String,
    /// The manufacturer.
    pub manufacturer: String,
    /// The name of the setup class.
    pub class_name: String,
    /// The GUID of the setup class, as text with braces.
    pub class_guid: String,
    /// Where the device is on its bus.
    pub location: String,
    /// The name of the physical device object.
    pub device_name: String,
    /// The number of the bus.
    pub bus_number: u32,
    /// The address on the bus: device and function number, 16 bits each.
    pub address: u32,
    /// The instance of the device below its hardware id in the registry.
    pub instance: String,
}

impl Default for DeviceIdentity {
    /// A display adapter on the PCI bus. WINDOWS: the vendor id is our own choice.
    fn default() -> Self {
        let ids = [r"PCI\VEN_5754&DEV_0001&SUBSYS_00015754&REV_01", r"PCI\VEN_5754&DEV_0001"];
        let compatible = [r"PCI\VEN_5754&CC_030000", r"PCI\CC_030000", r"PCI\CC_0300"];
        Self {
            hardware_ids: ids.map(str::to_owned).into(),
            compatible_ids: compatible.map(str::to_owned).into(),
            description: "Windtunnel display adapter".to_owned(),
            manufacturer: "Windtunnel".to_owned(),
            class_name: "Display".to_owned(),
            class_guid: "{4d36e968-e325-11ce-bfc1-08002be10318}".to_owned(),
            location: "PCI bus 0, device 2, function 0".to_owned(),
            device_name: r"\Device\NTPNP_PCI0002".to_owned(),
            bus_number: 0,
            address: 2 << 16,
            instance: "3&11583659&0&10".to_owned(),
        }
    }
}

/// Answers the requests to a device.
pub trait RequestHandler: Send + Sync {
    /// Answers an I/O control request. `internal` if it is an internal one
    /// (`IRP_MJ_INTERNAL_DEVICE_CONTROL`). The buffers are those of the request's transfer method.
    /// Returns the status and the number of bytes for `IoStatus.Information`.
    fn device_control(&self, request: &DeviceControl) -> (abi::NTSTATUS, usize);
}

/// An I/O control request.
#[derive(Clone, Copy, Debug)]
pub struct DeviceControl {
    /// The control code.
    pub code: u32,
    /// Whether the request is an internal one.
    pub internal: bool,
    /// The input buffer.
    pub input: *mut c_void,
    /// Its length in bytes.
    pub input_length: usize,
    /// The output buffer.
    pub output: *mut c_void,
    /// Its length in bytes.
    pub output_length: usize,
}

/// What the executive has for a driver.
pub struct Executive {
    service: String,
    identity: DeviceIdentity,
    registry: Mutex<Registry>,
    files: Mutex<Option<PathBuf>>,
    pub(crate) memory: Mutex<crate::mm::MemoryState>,
    handlers: Mutex<BTreeMap<String, Arc<dyn RequestHandler>>>,
    pub(crate) objects: Mutex<crate::io::IoObjects>,
    pub(crate) device_request: Mutex<Option<crate::DeviceRequest>>,
    /// Whether one of the requests may have let the device begin something.
    pub(crate) uses_device: AtomicBool,
    pub(crate) owned: crate::owned::Owned,
}

impl Attachment for Executive {
    fn for_new_thread(self: Arc<Self>) -> Option<Arc<dyn Attachment>> {
        Some(self)
    }
}

impl Executive {
    /// Creates the executive of a driver with this service name and the default identity.
    pub fn new(service: &str) -> Arc<Self> {
        Self::with_identity(service, DeviceIdentity::default())
    }

    /// Creates the executive of a driver with this service name, for a device.
    pub fn with_identity(service: &str, identity: DeviceIdentity) -> Arc<Self> {
        let mut registry = Registry::default();
        registry.create_all(r"\Registry\Machine\Software");
        registry.create_all(r"\Registry\User");
        let executive = Self {
            service: service.to_owned(),
            identity,
            registry: Mutex::new(registry),
            files: Mutex::default(),
            memory: Mutex::default(),
            handlers: Mutex::default(),
            objects: Mutex::default(),
            device_request: Mutex::default(),
            uses_device: AtomicBool::new(false),
            owned: <_>::default(),
        };
        executive.fill_registry();
        Arc::new(executive)
    }

    fn fill_registry(&self) {
        let identity = &self.identity;
        let service = self.service_key();
        self.registry().create_all(&(service.clone() + r"\Parameters"));
        let image = format!(r"\SystemRoot\System32\drivers\{}.sys", self.service);
        for (name, value) in [
            ("Type", RegistryValue::number(1)),
            ("Start", RegistryValue::number(3)),
            ("ErrorControl", RegistryValue::number(1)),
            (
                "ImagePath",
                RegistryValue { kind: RegistryValue::EXPAND_SZ, ..RegistryValue::text(&image) },
            ),
        ] {
            self.set_registry_value(&service, name, value);
        }
        let driver = self.driver_key();
        for (name, value) in [
            ("DriverDesc", &identity.description),
            ("ProviderName", &identity.manufacturer),
            ("MatchingDeviceId", &identity.hardware_ids.first().cloned().unwrap_or_default()),
        ] {
            self.set_registry_value(&driver, name, RegistryValue::text(value));
        }
        let device = self.device_key();
        self.registry().create_all(&(device.clone() + r"\Device Parameters"));
        for (name, value) in [
            ("DeviceDesc", RegistryValue::text(&identity.description)),
            ("HardwareID", RegistryValue::texts(&identity.hardware_ids)),
            ("CompatibleIDs", RegistryValue::texts(&identity.compatible_ids)),
            ("ClassGUID", RegistryValue::text(&identity.class_guid)),
            ("Mfg", RegistryValue::text(&identity.manufacturer)),
            ("Service", RegistryValue::text(&self.service)),
        ] {
            self.set_registry_value(&device, name, value);
        }
    }

    /// Runs code of the driver: its imports act on this executive.
    pub fn run_driver<R>(self: &Arc<Self>, body: impl FnOnce() -> R) -> R {
        let _attached = ExecutionContext::attach(self.clone());
        crate::image::driver_is_called();
        processor::run_with_control_state(body)
    }

    /// The executive of the driver that is running on this thread. If none is running, the call of
    /// `import` is reported.
    pub(crate) fn current(import: &'static str) -> Option<Arc<Self>> {
        let executive = ExecutionContext::attached();
        if executive.is_none() {
            ExecutionContext::report_missing(import);
        }
        executive
    }

    /// The identity of the device.
    pub fn identity(&self) -> &DeviceIdentity {
        &self.identity
    }

    /// The name of the driver's service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// The path of the service's key: the `RegistryPath` of `DriverEntry`.
    pub fn service_key(&self) -> String {
        format!(r"{SERVICES}\{}", self.service)
    }

    /// The path of the driver key (`PLUGPLAY_REGKEY_DRIVER`), also called software key.
    pub fn driver_key(&self) -> String {
        format!(r"{CLASSES}\{}\0000", self.identity.class_guid)
    }

    /// The path of the device's key. `Device Parameters` (`PLUGPLAY_REGKEY_DEVICE`), also called
    /// hardware key, is below it.
    pub fn device_key(&self) -> String {
        let id = self.identity.hardware_ids.first().map_or(r"ROOT\UNKNOWN", String::as_str);
        format!(r"{DEVICES}\{id}\{}", self.identity.instance)
    }

    /// Sets a value of the registry. Creates its key.
    pub fn set_registry_value(&self, key: &str, name: &str, value: RegistryValue) {
        let mut registry = self.registry();
        registry.create_all(key);
        registry.set(key, name, value);
    }

    /// A value of the registry.
    pub fn registry_value(&self, key: &str, name: &str) -> Option<RegistryValue> {
        let registry = self.registry();
        let key = registry.key(key)?;
        Some(key.values[key.position(name)?].1.clone())
    }

    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the folder below which the driver's files are. Without one there are no files.
    pub fn set_files(&self, folder: Option<PathBuf>) {
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = folder;
    }

    pub(crate) fn files(&self) -> Option<PathBuf> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the code that answers the requests to the device with this name
    /// (`\Device\DxgKrnl`).
    pub fn set_handler(&self, device: &str, handler: Arc<dyn RequestHandler>) {
        let mut handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.insert(device.to_uppercase(), handler);
    }

    /// The code that answers the requests to a device.
    pub(crate) fn handler(&self, device: &str) -> Option<Arc<dyn RequestHandler>> {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.get(&device.to_uppercase()).cloned()
    }
}

impl fmt::Debug for Executive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executive").field("service", &self.service).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_has_a_service_key_and_an_identity() {
        let executive = Executive::new("wind");
        assert_eq!(executive.service_key(), format!(r"{SERVICES}\wind"));
        let registry = executive.registry();
        let below: Vec<_> = registry.subkeys(&executive.service_key()).into_iter().collect();
        assert_eq!(below[0].name, "Parameters");
        assert!(registry.key(&(executive.device_key() + r"\device parameters")).is_some());
        drop(registry);
        let description = executive.registry_value(&executive.driver_key(), "driverdesc");
        assert_eq!(description, Some(RegistryValue::text("Windtunnel display adapter")));
        assert_eq!(executive.registry_value(&executive.driver_key(), "None"), None);
    }
}
