//! A client's objects that one thread uses while another ends one of them.

use crate::{DriverSetup, KernelTestbed};
use abi::NTSTATUS;
use abi::kmt::{
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_CREATEKEYEDMUTEX2_FLAGS as KeyedFlags,
    GENERIC_ALL,
};
use abi::ukm::{
    D3DDDI_MAPGPUVIRTUALADDRESS as Map, D3DDDI_RESERVEGPUVIRTUALADDRESS as Reserve,
    D3DDDI_SYNCHRONIZATIONOBJECT_FLAGS as SyncFlags, D3DDDICB_LOCKFLAGS as LockFlags,
    D3DDDIGPUVIRTUALADDRESS_PROTECTION_TYPE as Protection,
};
use flight::{Log, Passive};
use kernel::Handle;
use softgpu::format::{Command, describe, describe_in, encode, list_handle, only_in};
use softgpu::{APERTURE, LOCAL, MemoryPlan, MmuPlan, SoftGpu};
use std::ptr::without_provenance_mut;
use std::sync::Arc;
use thunk::{
    AllocationSelection, Client, CreateAllocation, DestroyAllocation, PagingQueue, PagingStatus,
    RenderCommand, RenderContext, SyncObject,
};

/// The size of a page.
const PAGE: u64 = 4096;

/// The result of a call.
pub type CallResult = Result<(), NTSTATUS>;

/// The built-in driver, with memory. A call is made on the first one of these that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// Its packets have commands only.
    Packets,
    /// A WDDM 1.x driver: its packets list the allocations.
    Lists,
    /// It has GPU virtual addresses.
    Addresses,
}

/// What the other thread ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The allocation, by `D3DKMTDestroyAllocation2`.
    Allocation,
    /// The same, with `SynchronousDestroy` and `AssumeNotInUse`.
    AllocationNow,
    /// The resource that the device has created.
    Resource,
    /// The shared resource of the other device.
    SharedResource,
    /// The device.
    Device,
    /// The context.
    Context,
    /// The paging queue.
    PagingQueue,
    /// The fence.
    Fence,
    /// The synchronization objects of the first version.
    OldSyncObjects,
    /// The keyed mutex.
    KeyedMutex,
    /// The NT handle, which alone keeps its objects alive.
    NtHandle,
    /// The adapter handle.
    AdapterHandle,
    /// The process.
    Process,
    /// The adapter itself, which is removed.
    Adapter,
}

/// The objects of a client, created before the race.
#[derive(Clone)]
pub struct RacingObjects {
    /// The client.
    pub client: Client,
    /// Its adapter handle.
    pub adapter: u32,
    /// The device of all objects that have no other.
    pub device: u32,
    /// Another device of the client, which has the shared resources.
    pub other_device: u32,
    /// A context.
    pub context: u32,
    /// The buffers of the context, which contain a packet, if its packets have lists.
    pub buffers: Option<RenderContext>,
    /// An allocation in memory that the CPU does not see, with work in the hardware.
    pub allocation: u32,
    /// The same, offered.
    pub offered: u32,
    /// The same, locked.
    pub locked: u32,
    /// A resource.
    pub resource: u32,
    /// The member of the resource.
    pub member: u32,
    /// The global handle of a shared resource.
    pub global: u32,
    /// The shared resource that can be shared by NT handles.
    pub nt_resource: u32,
    /// The NT handle of that resource and of a keyed mutex, as a number.
    pub nt_handle: usize,
    /// The shared resource of the other device.
    pub shared: u32,
    /// The paging queue. WDDM 1.x has none.
    pub queue: Option<PagingQueue>,
    /// A monitored fence with the value 1.
    pub fence: u32,
    /// The NT handle of the fence, as a number.
    pub fence_nt_handle: usize,
    /// A shared semaphore and a fence of the first version.
    pub old_sync: [u32; 2],
    /// The global handle of the semaphore.
    pub global_sync: u32,
    /// A keyed mutex that is released with key 0.
    pub keyed_mutex: u32,
    /// Its global handle.
    pub global_mutex: u32,
    /// Reserved and mapped addresses.
    pub addresses: [u64; 2],
}

impl DriverKind {
    /// The driver, with little memory.
    pub fn set_up(self, log: &Arc<Log>) -> DriverSetup {
        let ram = nt::Ram::new(1 << 28).unwrap_or_else(|why| panic!("{why}"));
        let mmu = (self == Self::Addresses).then_some(MmuPlan::TWO_LEVELS);
        let bytes = 1 << 20;
        let plan = MemoryPlan {
            visible: bytes,
            local: bytes,
            aperture: bytes,
            mmu,
            ..MemoryPlan::default()
        };
        let (miniport, machine) = match self {
            Self::Lists => SoftGpu::with_lists(ram, plan),
            Self::Packets | Self::Addresses => SoftGpu::with_memory(ram, plan),
        };
        DriverSetup { miniport, hardware: machine, pool: nt::Pool::new(log.clone()) }
    }
}

/// The description of an allocation that can be locked, in memory that the CPU does not see or in
/// an aperture.
pub fn description() -> Vec<u8> {
    describe_in(PAGE, PAGE, &only_in(&[LOCAL, APERTURE]))
}

impl RacingObjects {
    /// Creates the objects.
    ///
    /// # Errors
    /// The status of a call that failed.
    pub fn create(
        testbed: &KernelTestbed,
        at: &mut Passive,
        kind: DriverKind,
    ) -> Result<Self, NTSTATUS> {
        let client = Client::new(&testbed.kernel);
        let adapter = client.adapters(at)?[0];
        let device = client.create_device(at, adapter)?;
        let other_device = client.create_device(at, adapter)?;
        let (context, buffers) = if kind == DriverKind::Lists {
            let buffers = client.create_context_with_lists(at, device, 0)?;
            (buffers.context, Some(buffers))
        } else {
            (client.create_context(at, device, 0)?, None)
        };
        let create = |at: &mut Passive| -> Result<u32, NTSTATUS> {
            let create = CreateAllocation::new(device, vec![description()]);
            Ok(client.create(at, &create)?.allocations[0])
        };
        let (allocation, offered, locked) = (create(at)?, create(at)?, create(at)?);
        let create = CreateAllocation::new(device, vec![description()]).with_resource();
        let created = client.create(at, &create)?;
        let (resource, member) = (created.resource, created.allocations[0]);
        let shared = |at: &mut Passive, flags: u32| {
            let create = CreateAllocation::new(other_device, vec![describe(PAGE)]).with_resource();
            client.create(at, &CreateAllocation { flags: create.flags | flags, ..create })
        };
        let created = shared(at, Flags::CreateShared)?;
        let (shared_resource, global) = (created.resource, created.global);
        let nt_resource = shared(at, Flags::CreateShared | Flags::NtSecuritySharing)?.resource;
        let nt_sync = SyncFlags::Shared | SyncFlags::NtSecuritySharing;
        let fence = client.create_sync(at, device, SyncObject::Monitored(1), nt_sync)?.object;
        let fence_nt_handle = client.share_objects(at, &[fence], "Fence", GENERIC_ALL)?.addr();
        let semaphore = SyncObject::Semaphore(1, 9);
        let semaphore = client.create_sync(at, device, semaphore, SyncFlags::Shared)?;
        let old_fence = client.create_sync(at, device, SyncObject::Fence(1), 0)?.object;
        let mutex = client.create_keyed_mutex(at, 0)?;
        let nt_mutex = client.create_keyed_mutex2(at, 0, &[], KeyedFlags::NtSecuritySharing)?;
        let nt_fence = client.create_sync(at, other_device, SyncObject::Monitored(1), nt_sync)?;
        let bundle = [nt_resource, nt_mutex.handle, nt_fence.object];
        let nt_handle = client.share_objects(at, &bundle, "Bundle", GENERIC_ALL)?.addr();
        client.destroy_keyed_mutex(at, nt_mutex.handle)?;
        client.destroy_sync(at, nt_fence.object)?;
        let mut objects = Self {
            client: client.clone(),
            adapter,
            device,
            other_device,
            context,
            buffers,
            allocation,
            offered,
            locked,
            resource,
            member,
            global,
            nt_resource,
            nt_handle,
            shared: shared_resource,
            queue: None,
            fence,
            fence_nt_handle,
            old_sync: [semaphore.object, old_fence],
            global_sync: semaphore.global,
            keyed_mutex: mutex.handle,
            global_mutex: mutex.global,
            addresses: [0; 2],
        };
        objects.make_resident(at, kind)?;
        objects.start_work(at)?;
        Ok(objects)
    }

    fn make_resident(&mut self, at: &mut Passive, kind: DriverKind) -> CallResult {
        let offered =
            AllocationSelection { device: self.device, resources: &[], list: &[self.offered] };
        if kind == DriverKind::Lists {
            self.client.lock(at, self.device, self.locked, LockFlags::LockEntire, &[])?;
            return self.client.offer(at, offered, 1);
        }
        self.client.lock2(at, self.device, self.locked, 0)?;
        let queue = self.client.create_paging_queue(at, self.device, 0)?;
        self.queue = Some(queue);
        let list = [self.allocation, self.offered, self.locked, self.member];
        let status = self.client.make_resident(at, queue.queue, &list, 0)?;
        self.wait(at, status)?;
        if kind == DriverKind::Addresses {
            let (window, status) = self.client.reserve_address(at, &self.reserve_request())?;
            self.wait(at, status)?;
            let (address, status) = self.client.map_address(at, &self.map_request())?;
            self.wait(at, status)?;
            self.addresses = [window, address];
        }
        self.client.offer(at, offered, 1)
    }

    fn wait(&self, at: &mut Passive, status: PagingStatus) -> CallResult {
        match (status, self.queue) {
            (PagingStatus::Pending(value), Some(queue)) => {
                self.client.wait(at, self.device, queue.fence, value)
            }
            _ => Ok(()),
        }
    }

    /// Submits a packet that fills the allocation.
    fn start_work(&self, at: &mut Passive) -> CallResult {
        let Some(mut buffers) = self.buffers else { return self.submit(at) };
        let written = self.packet();
        self.client.write_packet(&buffers, &written);
        self.client.render_written(at, &mut buffers, &written)?;
        // The next packet is in the buffers that the call returned.
        self.client.write_packet(&buffers, &written);
        Ok(())
    }

    /// `D3DKMTSubmitCommand` of a packet that fills the allocation.
    pub fn submit(&self, at: &mut Passive) -> CallResult {
        let fill = match self.addresses[1] {
            0 => {
                Command::Fill { target: Handle(self.allocation), offset: 0, length: PAGE, value: 7 }
            }
            address => Command::FillAt { address, length: PAGE, value: 7 },
        };
        self.client.submit(at, self.context, &encode(&[fill]))
    }

    /// A packet that lists the allocation and fills it.
    pub fn packet(&self) -> RenderCommand {
        let target = list_handle(0);
        let fill = Command::Fill { target, offset: 0, length: PAGE, value: 7 };
        RenderCommand {
            commands: encode(&[fill]),
            list: vec![(self.allocation, true)],
            ..RenderCommand::default()
        }
    }

    /// The paging queue's handle, or zero.
    pub fn queue(&self) -> u32 {
        self.queue.map_or(0, |queue| queue.queue)
    }

    /// A request that maps the allocation.
    pub fn map_request(&self) -> Map {
        Map {
            hPagingQueue: self.queue(),
            hAllocation: self.allocation,
            SizeInPages: 1,
            Protection: Protection { Value: Protection::Write },
            ..Map::ZERO
        }
    }

    /// A request that reserves addresses.
    pub fn reserve_request(&self) -> Reserve {
        Reserve { hPagingQueue: self.queue(), Size: 1 << 16, ..Reserve::ZERO }
    }

    /// The destruction of the allocation.
    pub fn destroy_request(&self) -> DestroyAllocation {
        DestroyAllocation {
            device: self.device,
            list: vec![self.allocation],
            ..DestroyAllocation::default()
        }
    }

    /// Ends an object.
    pub fn end(&self, testbed: &KernelTestbed, at: &mut Passive, ending: Ending) -> CallResult {
        let client = &self.client;
        match ending {
            Ending::Allocation => client.destroy(at, &self.destroy_request()),
            Ending::AllocationNow => {
                let request = self.destroy_request();
                let now =
                    DestroyAllocation { assume_not_in_use: true, synchronous: true, ..request };
                client.destroy(at, &now)
            }
            Ending::Resource => client.destroy_resource(at, self.device, self.resource),
            Ending::SharedResource => client
                .destroy_resource(at, self.other_device, self.shared)
                .and_then(|()| client.destroy_resource(at, self.other_device, self.nt_resource)),
            Ending::Device => client.destroy_device(at, self.device),
            Ending::Context => client.destroy_context(at, self.context),
            Ending::PagingQueue => client.destroy_paging_queue(at, self.queue()),
            Ending::Fence => client.destroy_sync(at, self.fence),
            Ending::OldSyncObjects => client
                .destroy_sync(at, self.old_sync[0])
                .and_then(|()| client.destroy_sync(at, self.old_sync[1])),
            Ending::KeyedMutex => client.destroy_keyed_mutex(at, self.keyed_mutex),
            Ending::NtHandle => {
                client.destroy_resource(at, self.other_device, self.nt_resource)?;
                client.session().close_nt_handle(at, without_provenance_mut(self.nt_handle))
            }
            Ending::AdapterHandle => client.close_adapter(at, self.adapter),
            Ending::Process => {
                client.kill(at);
                Ok(())
            }
            Ending::Adapter => {
                testbed.kernel.remove_adapter(at, testbed.adapter);
                // A call that waits for another client waits on.
                client.kill(at);
                Ok(())
            }
        }
    }
}
