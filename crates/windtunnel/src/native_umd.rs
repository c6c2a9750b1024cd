//! A user-mode driver in a file.

use crate::child_flight;
use crate::driver_file::FlightOptions;
use runtime::Umd;
use server::fault_here;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// What to read about a file that is no user-mode driver.
const NEXT: &str = "docs/user-mode-drivers.md describes how to build one";

/// A user-mode driver in a file.
#[derive(Clone, Debug)]
pub struct NativeUmd {
    path: String,
    options: FlightOptions,
    /// The loaded driver, in a process that flies it. `None` if each flight has a process.
    loaded: Option<Umd>,
}

impl NativeUmd {
    /// Opens a file and checks that it can be loaded: in this process if it flies here, else in a
    /// child process. The error is a sentence about the file.
    pub fn open(path: &Path, options: FlightOptions) -> Result<Self, String> {
        let at = path.display();
        let mut first = [0; 2];
        let read = File::open(path).and_then(|mut file| file.read_exact(&mut first));
        if read.is_ok() && first == *b"MZ" {
            return Err(format!(
                "{at} is a Windows DLL, which cannot be loaded yet: build its sources as a shared \
                 object of this machine; {NEXT}"
            ));
        }
        let mut driver = Self { path: at.to_string(), options, loaded: None };
        if driver.options.in_process {
            fault_here::report_faults_here();
            fault_here::set_umd(path);
            driver.load()?;
        } else {
            child_flight::load_in_child(&driver)?;
        }
        Ok(driver)
    }

    /// A driver whose file the parent process has opened; it is loaded later.
    pub(crate) fn of_child(path: &Path, options: FlightOptions) -> Self {
        Self { path: path.display().to_string(), options, loaded: None }
    }

    /// Loads the driver into this process. The error is a sentence about the file.
    pub(crate) fn load(&mut self) -> Result<Umd, String> {
        let path = Path::new(&self.path);
        let umd = drivers::load_umd(path).map_err(|error| {
            // The loader's message begins with the absolute path.
            let whole = std::path::absolute(path).unwrap_or_default();
            let why = error.reason.trim_start_matches(&format!("{}: ", whole.display()));
            format!("{} cannot be flown as a user-mode driver: {why}; {NEXT}", self.path)
        })?;
        self.loaded = Some(umd.clone());
        Ok(umd)
    }

    /// The path of the file, as given.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// How it is flown.
    pub(crate) fn options(&self) -> &FlightOptions {
        &self.options
    }

    /// The loaded driver, if flights are made in this process.
    pub(crate) fn loaded(&self) -> Option<Umd> {
        self.loaded.clone()
    }
}
