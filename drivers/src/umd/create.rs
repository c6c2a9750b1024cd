//! Creation of resources.
#![forbid(unsafe_code)]

use super::driver::SoftDevice;
use super::flaw::Flaw;
use super::resource::{Group, Instance, PAGE, Shape, Surface, decode_layouts, encode_layouts};
use abi::D3DKMT_HANDLE;
use abi::hresult::{
    D3DDDIERR_DEVICEREMOVED, D3DERR_NOTAVAILABLE, D3DERR_OUTOFVIDEOMEMORY, E_FAIL, E_INVALIDARG,
    E_OUTOFMEMORY,
};
use abi::umd::{
    D3DDDI_RESOURCEFLAGS as Flags, D3DDDI_RESOURCEFLAGS2 as Flags2, D3DDDIPOOL_SYSTEMMEM,
};
use softgpu::format::{describe, read_allocation_info};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use umd::{
    AllocateResponse, CreateResourceArgs, DeallocateRequest, NewAllocation, OpenResourceArgs,
    RuntimeResource, UmdResult,
};

/// The resource being created by any device. Only a bad driver has it here.
static CREATING: AtomicUsize = AtomicUsize::new(0);

impl SoftDevice {
    /// Creates a resource with one allocation per surface.
    pub(super) fn create_group(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        let created = self.try_create_group(args);
        // WINDOWS: for such a buffer one failure is allowed, besides those about memory
        // (documented).
        let buffer = args.flags.has(Flags::VertexBuffer | Flags::IndexBuffer);
        created
            .map_err(|failure| match failure {
                E_OUTOFMEMORY | D3DERR_OUTOFVIDEOMEMORY | D3DDDIERR_DEVICEREMOVED => failure,
                _ if buffer => D3DERR_NOTAVAILABLE,
                _ => failure,
            })
            .map_err(
                |failure| if self.flaw == Flaw::ChangesCallbackError { E_FAIL } else { failure },
            )
    }

    fn try_create_group(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        if self.flaw == Flaw::ReturnsIllegalCreateError && args.surfaces.len() == 4 {
            return Err(D3DERR_NOTAVAILABLE);
        }
        let in_system = args.pool == D3DDDIPOOL_SYSTEMMEM;
        let surface = |surface: &umd::Surface| {
            let mut layout =
                Shape::of(surface.width, surface.height, surface.depth).ok_or(E_OUTOFMEMORY)?;
            if in_system {
                let memory = surface.memory.ok_or(E_INVALIDARG)?;
                layout.pitch = surface.pitch;
                layout.slice_pitch = surface.slice_pitch;
                return Ok(Surface::new(layout, Some(memory)));
            }
            Ok(Surface::new(layout, None))
        };
        let surfaces = args.surfaces.iter().map(surface).collect::<UmdResult<Vec<_>>>()?;
        if surfaces.is_empty() {
            return Err(E_INVALIDARG);
        }
        let shown = args.flags.has(Flags::Primary) || args.flags2 & Flags2::IsDisplayable != 0;
        let mut group = Group {
            runtime: args.runtime,
            handle: 0,
            shared: args.flags.has(Flags::SharedResource),
            opened: false,
            shown,
            surfaces,
        };
        if in_system {
            let wrapped = self.wrap(args);
            if self.flaw == Flaw::FailsUnwrappableSysmem {
                wrapped?;
            }
        } else {
            let answer = self.allocate(&mut group, args);
            self.hide_removal(answer)?;
        }
        Ok(self.keep(group))
    }

    /// Maps the runtime's memory for the GPU if possible. Otherwise the CPU works there.
    fn wrap(&self, args: &CreateResourceArgs) -> UmdResult<()> {
        for it in &args.surfaces {
            let bytes = u64::from(it.pitch) * u64::from(it.height);
            let mut one = [NewAllocation {
                private: describe(bytes),
                system_memory: it.memory,
                ..NewAllocation::default()
            }];
            let created = self.callbacks.allocate(RuntimeResource(0), &[], &mut one)?.allocations;
            // This GPU has no use for the mapping.
            self.callbacks
                .deallocate(&DeallocateRequest { list: created, ..DeallocateRequest::default() })?;
        }
        Ok(())
    }

    /// Creates all allocations of a resource in one call.
    fn allocate(&mut self, group: &mut Group, args: &CreateResourceArgs) -> UmdResult<()> {
        let shapes: Vec<Shape> = group.surfaces.iter().map(|surface| surface.layout).collect();
        let private = encode_layouts(&shapes);
        let primary = args.flags.has(Flags::Primary);
        // An allocation that is no primary has no source, whatever the arguments say.
        let source = if primary { args.source } else { 0 };
        let more = match self.flaw {
            Flaw::ReadsReservedMembers if args.fvf != 0 => PAGE,
            Flaw::VariesSharedAllocations if group.shared && !self.groups.is_empty() => PAGE,
            _ => 0,
        };
        let allocation = |shape: &Shape| {
            let private = describe(shape.bytes + more);
            NewAllocation { private, source, primary, system_memory: None }
        };
        let mut allocations: Vec<NewAllocation> = shapes.iter().map(allocation).collect();
        let each =
            if self.flaw == Flaw::AllocatesSurfacesIndividually { 1 } else { allocations.len() };
        let mut created = Vec::new();
        for some in allocations.chunks_mut(each) {
            let runtime = self.shared_creation_state(group.runtime);
            created.extend(self.allocate_for(runtime, &private, some)?.allocations);
        }
        let list: Vec<(D3DKMT_HANDLE, u64)> =
            created.iter().copied().zip(shapes.iter().map(|shape| shape.bytes)).collect();
        let addresses = match self.make_resident(&list) {
            Ok(addresses) => addresses,
            Err(failure) => {
                // The first failure is returned.
                let _ = self.callbacks.deallocate(&group.whole());
                return Err(failure);
            }
        };
        for ((surface, allocation), address) in
            group.surfaces.iter_mut().zip(&created).zip(addresses)
        {
            surface.instances.push(Instance { allocation: *allocation, address, member: true });
        }
        if group.shown {
            self.shown.extend(created);
        }
        Ok(())
    }

    /// Returns the resource being created, in a driver that has one location for all of its
    /// devices.
    fn shared_creation_state(&self, resource: RuntimeResource) -> RuntimeResource {
        if self.flaw != Flaw::SharesStateBetweenDevices {
            return resource;
        }
        CREATING.store(resource.0, Ordering::Relaxed);
        // Checks that the GPU exists; other devices continue in the meantime.
        if let Ok((context, _)) = self.callbacks.create_context(0, 0, &mut []) {
            let _ = self.callbacks.destroy_context(context);
        }
        RuntimeResource(CREATING.load(Ordering::Relaxed))
    }

    fn allocate_for(
        &self,
        resource: RuntimeResource,
        private: &[u8],
        some: &mut [NewAllocation],
    ) -> UmdResult<AllocateResponse> {
        if self.flaw == Flaw::AllocatesOnOwnThread {
            let elsewhere = thread::scope(|scope| {
                let call = || self.callbacks.allocate(resource, private, some);
                scope.spawn(call).join().unwrap_or_else(|it| resume_unwind(it))
            });
            if elsewhere.is_ok() {
                return elsewhere;
            }
        }
        self.callbacks.allocate(resource, private, some)
    }

    /// Creates another, standalone allocation for a surface, which only improves speed.
    pub(super) fn allocate_extra(&mut self, bytes: u64) -> UmdResult<Instance> {
        let mut one = [NewAllocation { private: describe(bytes), ..NewAllocation::default() }];
        let created = self.callbacks.allocate(RuntimeResource(0), &[], &mut one)?.allocations;
        let allocation = *created.first().ok_or(E_FAIL)?;
        match self.make_resident(&[(allocation, bytes)]) {
            Ok(addresses) => {
                let address = addresses.first().copied().unwrap_or_default();
                Ok(Instance { allocation, address, member: false })
            }
            Err(failure) => {
                let alone =
                    DeallocateRequest { list: vec![allocation], ..DeallocateRequest::default() };
                let _ = self.callbacks.deallocate(&alone); // As above.
                Err(failure)
            }
        }
    }

    /// Records a resource that another device has created.
    pub(super) fn open_group(&mut self, args: &OpenResourceArgs) -> UmdResult<u64> {
        let size = |private: &[u8]| {
            read_allocation_info(private).map_err(|_| E_INVALIDARG).map(|info| info.size)
        };
        let layouts = decode_layouts(&args.private, args.allocations.len());
        let mut surfaces = Vec::new();
        let mut list = Vec::new();
        for (index, it) in args.allocations.iter().enumerate() {
            let bytes = size(&it.private)?;
            let layout = layouts.as_ref().and_then(|shapes| shapes.get(index)).copied();
            // A shape that is larger than its memory is invalid.
            let layout =
                layout.filter(|shape| shape.bytes <= bytes).or_else(|| Shape::loose(bytes));
            surfaces.push(Surface::new(layout.ok_or(E_INVALIDARG)?, None));
            list.push((it.allocation, bytes));
        }
        if self.flaw == Flaw::AllocatesOnOpen {
            let private = describe(surfaces.first().map_or(4096, |surface| surface.layout.bytes));
            let mut one = [NewAllocation { private, ..NewAllocation::default() }];
            let _ = self.callbacks.allocate(args.runtime, &[], &mut one);
        }
        let addresses = self.make_resident_for_gpu(&list)?;
        for ((surface, (allocation, _)), address) in surfaces.iter_mut().zip(list).zip(addresses) {
            surface.instances.push(Instance { allocation, address, member: true });
        }
        let runtime = args.runtime;
        Ok(self.keep(Group {
            runtime,
            handle: 0,
            shared: true,
            opened: true,
            shown: false,
            surfaces,
        }))
    }

    fn keep(&mut self, group: Group) -> u64 {
        let number = self.next;
        self.next += 1;
        self.groups.insert(number, group);
        number
    }
}
