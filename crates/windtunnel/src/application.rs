//! A small application that draws through a user-mode driver and checks what it drew.

use crate::testbed::{ScenarioStopped, Testbed};
use abi::hresult::D3DDDIERR_DEVICEREMOVED;
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::Passive;
use runtime::{
    Adapter, Device, LockRequest, Rect, Resource, ResourceDescription, Runtime, Surface, Umd,
};
use thunk::Client;

/// A process with an adapter and a device, through the Direct3D runtime. Clones share both.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its adapter.
    pub adapter: Adapter,
    /// Its device.
    pub device: Device,
    kernel: D3DKMT_HANDLE,
}

impl Testbed<'_> {
    /// Creates a process with a device, through the user-mode driver.
    pub fn application(&mut self) -> Result<Application, ScenarioStopped> {
        let umd = self.umd.clone().ok_or(ScenarioStopped::missing("a user-mode driver"))?;
        let client = self.client();
        Application::open(&self.runtime, &client, &umd, self.at)
    }
}

impl Application {
    /// Opens the first adapter and creates a device.
    pub fn open(
        runtime: &Runtime,
        client: &Client,
        umd: &Umd,
        at: &mut Passive,
    ) -> Result<Self, ScenarioStopped> {
        let adapters = crate::testbed::expect_ok("D3DKMTEnumAdapters2", client.adapters(at))?;
        let kernel = *adapters.first().ok_or(ScenarioStopped::missing("an adapter"))?;
        let adapter = runtime.open(client, kernel, umd);
        let adapter = adapter
            .map_err(|error| ScenarioStopped::missing(format!("OpenAdapter: {}", error.reason)))?;
        let device = expect_ok("pfnCreateDevice", adapter.create_device(at))?;
        Ok(Self { adapter, device, kernel })
    }

    /// Creates a resource with these surfaces.
    pub fn create_resource(
        &self,
        at: &mut Passive,
        surfaces: &ResourceDescription,
    ) -> Result<Resource, ScenarioStopped> {
        expect_ok("pfnCreateResource", self.device.create_resource(at, surfaces))
    }

    /// Destroys a resource.
    pub fn destroy_resource(
        &self,
        at: &mut Passive,
        resource: Resource,
    ) -> Result<(), ScenarioStopped> {
        expect_ok("pfnDestroyResource", self.device.destroy_resource(at, resource))
    }

    /// Fills a surface.
    pub fn fill(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
        surface: Surface,
        value: u8,
    ) -> Result<(), ScenarioStopped> {
        let color = u32::from_ne_bytes([value; 4]);
        let filled = self.device.color_fill(at, (resource, index), Rect::whole(surface), color);
        expect_ok("pfnColorFill", filled)
    }

    /// Copies a surface to another of the same size.
    pub fn copy(
        &self,
        at: &mut Passive,
        from: (Resource, u32),
        to: (Resource, u32),
        surface: Surface,
    ) -> Result<(), ScenarioStopped> {
        let whole = Rect::whole(surface);
        let copied = self.device.blt(at, (from.0, from.1, whole), (to.0, to.1, whole));
        expect_ok("pfnBlt", copied)
    }

    /// Flushes: the driver submits all queued commands.
    pub fn flush(&self, at: &mut Passive) -> Result<(), ScenarioStopped> {
        expect_ok("pfnFlush", self.device.flush(at))
    }

    /// Reads a surface, after all commands that draw it have completed.
    pub fn read_surface(
        &self,
        at: &mut Passive,
        surface: (Resource, u32),
    ) -> Result<Vec<u8>, ScenarioStopped> {
        let request = LockRequest { read_only: true, ..LockRequest::default() };
        let mapped = expect_ok("pfnLock", self.device.lock(at, surface, request))?;
        let bytes = mapped.read();
        expect_ok("pfnUnlock", self.device.unlock(at, surface))?;
        Ok(bytes)
    }

    /// Writes the bytes of a surface.
    pub fn write_surface(
        &self,
        at: &mut Passive,
        surface: (Resource, u32),
        request: LockRequest,
        bytes: &[u8],
    ) -> Result<(), ScenarioStopped> {
        let mapped = expect_ok("pfnLock", self.device.lock(at, surface, request))?;
        mapped.write(bytes);
        expect_ok("pfnUnlock", self.device.unlock(at, surface))
    }

    /// Checks that every byte of the surface has this value; stops the scenario otherwise.
    pub fn expect_value(
        &self,
        at: &mut Passive,
        surface: (Resource, u32),
        value: u8,
    ) -> Result<(), ScenarioStopped> {
        let bytes = self.read_surface(at, surface)?;
        let wrong = bytes.iter().position(|byte| *byte != value);
        self.device.judge_content(wrong.map(|index| {
            format!(
                "every call returned S_OK, and byte {index} of surface {} is {:#04x} where \
                 {value:#04x} was drawn",
                surface.1, bytes[index]
            )
        }));
        match wrong {
            None => Ok(()),
            Some(place) => Err(ScenarioStopped::failed(format!(
                "byte {place} of surface {} to be {value:#04x}; it is {:#04x}",
                surface.1, bytes[place]
            ))),
        }
    }

    /// Creates another device of the same process, through the same adapter.
    pub fn another_device(&self, at: &mut Passive) -> Result<Self, ScenarioStopped> {
        let device = expect_ok("pfnCreateDevice", self.adapter.create_device(at))?;
        Ok(Self { device, ..self.clone() })
    }

    /// Opens another adapter object of the same process, with a device.
    pub fn another_adapter(&self, testbed: &mut Testbed<'_>) -> Result<Self, ScenarioStopped> {
        let umd = testbed.umd.clone().ok_or(ScenarioStopped::missing("a user-mode driver"))?;
        let adapter = testbed.runtime.open(self.adapter.client(), self.kernel, &umd);
        let adapter = adapter
            .map_err(|error| ScenarioStopped::missing(format!("OpenAdapter: {}", error.reason)))?;
        let device = expect_ok("pfnCreateDevice", adapter.create_device(testbed.at))?;
        Ok(Self { adapter, device, kernel: self.kernel })
    }

    /// Destroys the device and the adapter object; the process continues.
    pub fn close_adapter(&self, at: &mut Passive) -> Result<(), ScenarioStopped> {
        self.destroy_device(at)?;
        expect_ok("pfnCloseAdapter", self.adapter.close())
    }

    /// Destroys the device.
    pub fn destroy_device(&self, at: &mut Passive) -> Result<(), ScenarioStopped> {
        expect_ok("pfnDestroyDevice", self.device.destroy(at))
    }

    /// Destroys the device, closes the adapter, ends the process.
    pub fn close(&self, at: &mut Passive) -> Result<(), ScenarioStopped> {
        self.destroy_device(at)?;
        expect_ok("pfnCloseAdapter", self.adapter.close())?;
        let client = self.adapter.client();
        crate::testbed::expect_ok("D3DKMTCloseAdapter", client.close_adapter(at, self.kernel))?;
        client.end(at);
        Ok(())
    }
}

/// Returns the value of a successful call; stops the scenario otherwise.
pub(crate) fn expect_ok<T>(call: &str, answer: Result<T, HRESULT>) -> Result<T, ScenarioStopped> {
    answer.map_err(|result| {
        let need = format!("{call} to succeed; it returned {}", hresult_name(result));
        // Other errors are the answer of the user-mode driver.
        if result == D3DDDIERR_DEVICEREMOVED {
            ScenarioStopped::failed(need)
        } else {
            ScenarioStopped::missing(need)
        }
    })
}

/// Checks that a call failed with `result`; stops the scenario otherwise.
pub(crate) fn expect_error<T>(
    call: &str,
    answer: &Result<T, HRESULT>,
    result: HRESULT,
) -> Result<(), ScenarioStopped> {
    let text = match answer {
        Err(it) if *it == result => return Ok(()),
        Err(it) => hresult_name(*it),
        Ok(_) => "S_OK".to_owned(),
    };
    Err(ScenarioStopped::missing(format!(
        "{call} to return {}; it returned {text}",
        hresult_name(result)
    )))
}

/// The name of a result, or its number.
fn hresult_name(result: HRESULT) -> String {
    abi::hresult::name(result)
        .map_or_else(|| format!("{:#010x}", result.cast_unsigned()), Into::into)
}
