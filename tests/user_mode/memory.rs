//! A user-mode driver in safe Rust that accesses mapped memory out of bounds and too late: it gets
//! an error, and nothing else happens.
#![forbid(unsafe_code)]

use abi::hresult::{E_FAIL, E_INVALIDARG};
use abi::ukm::D3DDDICB_LOCKFLAGS;
use abi::umd::D3DDDI_LOCKFLAGS;
use abi::{D3DKMT_HANDLE, HRESULT};
use harness::application_calls::text;
use harness::{run, verified};
use runtime::{LockRequest, ResourceDescription, Runtime};
use softgpu::format::{HARDWARE_INFO_SIZE, describe};
use std::collections::BTreeMap;
use thunk::Client;
use umd::{
    AdapterCallbacks, Callbacks, CreateDeviceArgs, CreateResourceArgs, DeallocateRequest, LockArgs,
    LockResult, Memory, NewAllocation, OpenAdapterArgs, Resource, RuntimeResource, UmdResult,
    UnlockArgs, UserAdapter, UserDevice, UserDriver,
};
use windtunnel::{Application, HostKind};

/// More than the size of any memory.
const MUCH: usize = 1 << 40;

/// Memory of the driver.
static OWN: [u8; 256] = [5; 256];

struct Peeks;

struct Peeking {
    callbacks: Callbacks,
    /// The runtime's handles of resources, by the driver's handles, with an allocation.
    resources: BTreeMap<u64, (RuntimeResource, D3DKMT_HANDLE)>,
    /// The expected mapping, and the actual one.
    shown: Option<Memory>,
    over: Vec<Memory>,
    last: u64,
}

impl UserDriver for Peeks {
    fn open(
        _order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        callbacks.query_adapter_info(&mut [0; HARDWARE_INFO_SIZE])?;
        Ok(Box::new(Self))
    }
}

impl UserAdapter for Peeks {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        let (context, buffers) = callbacks.create_context(0, 0, &mut [])?;
        demand(buffers.write(0, &[1; 16]) && buffers.add_allocation(0, 0, false))?;
        callbacks.destroy_context(context)?;
        demand(!buffers.write(0, &[1; 16]) && !buffers.add_allocation(0, 0, false))?;
        let fence = callbacks.create_fence(7, 0)?;
        demand(fence.value.value() == Some(7))?;
        callbacks.destroy_sync(fence.object)?;
        demand(fence.value.value().is_none())?;
        Ok(Box::new(Peeking {
            callbacks,
            resources: BTreeMap::new(),
            shown: None,
            over: Vec::new(),
            last: 0,
        }))
    }
}

fn demand(kept: bool) -> UmdResult<()> {
    if kept { Ok(()) } else { Err(E_FAIL) }
}

/// Whether all first bytes of a memory can be read and written.
fn open(memory: &Memory) -> bool {
    let mut bytes = [0; 4];
    let read = memory.read(0, &mut bytes);
    assert_eq!(memory.write(0, &bytes), read, "both, or none");
    read
}

impl UserDevice for Peeking {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        self.last += 1;
        let mut allocation = 0;
        if let Some(memory) = args.surfaces.first().and_then(|surface| surface.memory) {
            demand(open(&memory) && !memory.write(memory.len(), &[1]))?;
            self.over.push(memory); // It is there until the resource is destroyed.
        } else {
            let mut one = [NewAllocation { private: describe(4096), ..NewAllocation::default() }];
            let made = self.callbacks.allocate(args.runtime, &[], &mut one)?;
            allocation = *made.allocations.first().ok_or(E_FAIL)?;
        }
        self.resources.insert(self.last, (args.runtime, allocation));
        Ok(self.last)
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        let (runtime, allocation) = self.resources.remove(&resource.number).ok_or(E_INVALIDARG)?;
        if allocation == 0 {
            return Ok(());
        }
        self.callbacks
            .deallocate(&DeallocateRequest { resource: runtime, ..DeallocateRequest::default() })
    }

    fn lock(&mut self, args: &LockArgs) -> UmdResult<LockResult> {
        if args.flags.has(D3DDDI_LOCKFLAGS::ReadOnly) {
            // Mapped, but not by the runtime.
            let address = (&raw const OWN).addr();
            return Ok(LockResult { address, pitch: 32, slice_pitch: 0 });
        }
        let of = self.resources.get(&args.resource.number).ok_or(E_INVALIDARG)?.1;
        let (_, seen) = self.callbacks.lock(of, D3DDDICB_LOCKFLAGS::LockEntire, &[], MUCH)?;
        demand(open(&seen) && seen.write(4092, &[7; 4]))?;
        // The allocation has one page; the driver cannot access more.
        demand(!seen.write(4093, &[7; 4]) && !seen.write(MUCH - 4, &[7; 4]))?;
        self.shown = Some(seen);
        Ok(LockResult { address: seen.address(), pitch: 32, slice_pitch: 0 })
    }

    fn unlock(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        if self.shown.is_none() {
            return Ok(());
        }
        let of = self.resources.get(&args.resource.number).ok_or(E_INVALIDARG)?.1;
        let seen = self.shown.take().ok_or(E_INVALIDARG)?;
        demand(open(&seen))?;
        self.callbacks.unlock(&[of])?;
        demand(!open(&seen))?;
        self.over.push(seen);
        Ok(())
    }

    fn flush(&mut self) -> UmdResult<()> {
        demand(!self.over.iter().any(open))
    }

    fn end(&mut self) -> UmdResult<()> {
        Ok(())
    }
}

fn good<T>(answer: Result<T, HRESULT>) -> T {
    answer.unwrap_or_else(|why| panic!("{}", text(why)))
}

#[test]
fn a_safe_driver_accesses_only_currently_mapped_memory() {
    let umd = drivers::umd_from_rust::<Peeks>();
    let listed = drivers::find("softgpu-allocation-lists").expect("it is there");
    let events = run(HostKind::deterministic(1), listed.make, |testbed, at| {
        let runtime = Runtime::new(&testbed.kernel);
        let app = Application::open(&runtime, &Client::new(&testbed.kernel), &umd, at);
        let app = app.unwrap_or_else(|why| panic!("{why}"));
        let device = &app.device;
        let one = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
        let seen = good(device.lock(at, (one, 0), LockRequest::default()));
        seen.write(&[9; 256]);
        assert_eq!(seen.read(), [9; 256]);
        good(device.unlock(at, (one, 0)));
        assert_eq!(seen.read(), [0; 256], "an application that looks too late sees nothing");
        let request = LockRequest { read_only: true, ..LockRequest::default() };
        let elsewhere = good(device.lock(at, (one, 0), request));
        elsewhere.write(&[9; 256]);
        assert_eq!((elsewhere.read(), OWN), (vec![0; 256], [5; 256]), "no driver shows that");
        good(device.unlock(at, (one, 0)));
        let two = good(
            device.create_resource(at, &ResourceDescription::texture(8, 8).in_system_memory()),
        );
        good(device.destroy_resource(at, two));
        good(device.destroy_resource(at, one));
        assert_eq!(device.flush(at), Ok(()), "nothing is shown any more");
        app.close(at).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(app.device.live_objects(), 0, "in the runtime's books");
    });
    assert!(verified(&events).findings().is_empty());
}
