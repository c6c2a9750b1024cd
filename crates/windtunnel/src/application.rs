//! A small application: it draws through a user-mode driver, and looks at what it drew.

use crate::tunnel::{Stopped, Tunnel};
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::Passive;
use runtime::{Adapter, Device, LockOrder, Rect, Resource, Runtime, Surface, Surfaces, Umd};
use thunk::Client;

/// A process with an adapter and a device, through the Direct3D runtime. Clones are the same.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its adapter.
    pub adapter: Adapter,
    /// Its device.
    pub device: Device,
    kernel: D3DKMT_HANDLE,
}

impl Tunnel<'_> {
    /// A new process with a device, through the user-mode driver.
    pub fn application(&mut self) -> Result<Application, Stopped> {
        let umd = self.umd.clone().ok_or(Stopped("a user-mode driver".to_owned()))?;
        let client = self.client();
        Application::open(&self.runtime, &client, &umd, self.at)
    }
}

impl Application {
    /// A process with a device on the first adapter.
    pub fn open(
        runtime: &Runtime,
        client: &Client,
        umd: &Umd,
        at: &mut Passive,
    ) -> Result<Self, Stopped> {
        let adapters = crate::tunnel::wanted("D3DKMTEnumAdapters2", client.adapters(at))?;
        let kernel = *adapters.first().ok_or(Stopped("an adapter".to_owned()))?;
        let adapter = runtime.open(client, kernel, umd);
        let adapter = adapter.map_err(|it| Stopped(format!("OpenAdapter: {}", it.why)))?;
        let device = wanted("pfnCreateDevice", adapter.create_device(at))?;
        Ok(Self { adapter, device, kernel })
    }

    /// Makes a group of surfaces.
    pub fn make(&self, at: &mut Passive, surfaces: &Surfaces) -> Result<Resource, Stopped> {
        wanted("pfnCreateResource", self.device.create_resource(at, surfaces))
    }

    /// Drops a group of surfaces.
    pub fn drop(&self, at: &mut Passive, resource: Resource) -> Result<(), Stopped> {
        wanted("pfnDestroyResource", self.device.destroy_resource(at, resource))
    }

    /// Fills a surface.
    pub fn fill(
        &self,
        at: &mut Passive,
        (resource, index): (Resource, u32),
        surface: Surface,
        value: u8,
    ) -> Result<(), Stopped> {
        let color = u32::from_ne_bytes([value; 4]);
        let filled = self.device.color_fill(at, (resource, index), Rect::of(surface), color);
        wanted("pfnColorFill", filled)
    }

    /// Copies a surface to another that is as large.
    pub fn copy(
        &self,
        at: &mut Passive,
        from: (Resource, u32),
        to: (Resource, u32),
        surface: Surface,
    ) -> Result<(), Stopped> {
        let whole = Rect::of(surface);
        let copied = self.device.blt(at, (from.0, from.1, whole), (to.0, to.1, whole));
        wanted("pfnBlt", copied)
    }

    /// Has everything submitted.
    pub fn flush(&self, at: &mut Passive) -> Result<(), Stopped> {
        wanted("pfnFlush", self.device.flush(at))
    }

    /// The bytes of a surface, when all that draws it is done.
    pub fn look(&self, at: &mut Passive, surface: (Resource, u32)) -> Result<Vec<u8>, Stopped> {
        let order = LockOrder { read_only: true, ..LockOrder::default() };
        let mapped = wanted("pfnLock", self.device.lock(at, surface, order))?;
        let bytes = mapped.read();
        wanted("pfnUnlock", self.device.unlock(at, surface))?;
        Ok(bytes)
    }

    /// Writes the bytes of a surface.
    pub fn write(
        &self,
        at: &mut Passive,
        surface: (Resource, u32),
        order: LockOrder,
        bytes: &[u8],
    ) -> Result<(), Stopped> {
        let mapped = wanted("pfnLock", self.device.lock(at, surface, order))?;
        mapped.write(bytes);
        wanted("pfnUnlock", self.device.unlock(at, surface))
    }

    /// The surface has this value everywhere, or the story stops.
    pub fn expect(
        &self,
        at: &mut Passive,
        surface: (Resource, u32),
        value: u8,
    ) -> Result<(), Stopped> {
        let bytes = self.look(at, surface)?;
        match bytes.iter().position(|it| *it != value) {
            None => Ok(()),
            Some(place) => Err(Stopped(format!(
                "byte {place} of surface {} to be {value:#04x}; it is {:#04x}",
                surface.1, bytes[place]
            ))),
        }
    }

    /// Another device of the same process, through the same adapter.
    pub fn another(&self, at: &mut Passive) -> Result<Self, Stopped> {
        let device = wanted("pfnCreateDevice", self.adapter.create_device(at))?;
        Ok(Self { device, ..self.clone() })
    }

    /// Another adapter object of the same process, with a device.
    pub fn beside(&self, tunnel: &mut Tunnel<'_>) -> Result<Self, Stopped> {
        let umd = tunnel.umd.clone().ok_or(Stopped("a user-mode driver".to_owned()))?;
        let adapter = tunnel.runtime.open(self.adapter.client(), self.kernel, &umd);
        let adapter = adapter.map_err(|it| Stopped(format!("OpenAdapter: {}", it.why)))?;
        let device = wanted("pfnCreateDevice", adapter.create_device(tunnel.at))?;
        Ok(Self { adapter, device, kernel: self.kernel })
    }

    /// Ends such an object: the process goes on.
    pub fn close_beside(&self, at: &mut Passive) -> Result<(), Stopped> {
        self.end_device(at)?;
        wanted("pfnCloseAdapter", self.adapter.close())
    }

    /// Ends the device.
    pub fn end_device(&self, at: &mut Passive) -> Result<(), Stopped> {
        wanted("pfnDestroyDevice", self.device.destroy(at))
    }

    /// Ends everything in good order: the device, the adapter, the process.
    pub fn close(&self, at: &mut Passive) -> Result<(), Stopped> {
        self.end_device(at)?;
        wanted("pfnCloseAdapter", self.adapter.close())?;
        let client = self.adapter.client();
        crate::tunnel::wanted("D3DKMTCloseAdapter", client.close_adapter(at, self.kernel))?;
        client.end(at);
        Ok(())
    }
}

/// The answer the story needs, or the story stops.
pub(crate) fn wanted<T>(call: &str, answer: Result<T, HRESULT>) -> Result<T, Stopped> {
    answer.map_err(|result| Stopped(format!("{call} to succeed; it answered {}", name(result))))
}

/// A refusal the story needs.
pub(crate) fn refused<T>(
    call: &str,
    answer: &Result<T, HRESULT>,
    result: HRESULT,
) -> Result<(), Stopped> {
    let said = match answer {
        Err(it) if *it == result => return Ok(()),
        Err(it) => name(*it),
        Ok(_) => "S_OK".to_owned(),
    };
    Err(Stopped(format!("{call} to answer {}; it answered {said}", name(result))))
}

/// A result, for people.
fn name(result: HRESULT) -> String {
    abi::hresult::name(result)
        .map_or_else(|| format!("{:#010x}", result.cast_unsigned()), Into::into)
}
