//! The user-mode driver of the built-in GPU: its adapters and devices.
//!
//! A device has one context, and collects commands until they have to be executed. Its functions
//! are in the other files of this folder.
#![forbid(unsafe_code)]

use super::batch::CommandBatch;
use super::flaw::Flaw;
use super::hardware::{Addressing, Hardware};
use super::resource::{Group, PAGE};
use abi::D3DKMT_HANDLE;
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_FAIL, E_INVALIDARG};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use umd::{
    AdapterCallbacks, BltArgs, Callbacks, ColorFillArgs, ContextBuffers, CreateDeviceArgs,
    CreateResourceArgs, DeallocateRequest, Fence, LockArgs, LockAsyncArgs, LockAsyncResult,
    LockResult, OpenAdapterArgs, OpenResourceArgs, PagingQueue, RenameArgs, RenderRequest,
    ResidencyStatus, Resource, RuntimeContext, RuntimeResource, UmdResult, UnlockArgs, UserAdapter,
    UserDevice, UserDriver,
};

/// The driver with the flaw of that number.
pub(super) struct SoftUmd<const FLAW: u8>;

impl<const FLAW: u8> UserDriver for SoftUmd<FLAW> {
    fn open(
        _order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        let flaw = Flaw::of(FLAW);
        let hardware = OnceLock::new();
        if flaw == Flaw::LeaksAdapter {
            LEAKED_ADAPTERS.lock().unwrap_or_else(PoisonError::into_inner).push(callbacks.clone());
        }
        let devices = Arc::default();
        let adapter = SoftAdapter { flaw, callbacks, hardware, devices, kept: LateCall::default() };
        if flaw != Flaw::QueriesCapsLate {
            adapter.hardware()?;
        }
        Ok(Box::new(adapter))
    }
}

/// The driver's data of closed adapters.
static LEAKED_ADAPTERS: Mutex<Vec<AdapterCallbacks>> = Mutex::new(Vec::new());

/// The limit of devices in a driver that creates few.
const MAX_DEVICES: usize = 4;

/// The data of a driver that calls when that is not allowed.
type LateCall = Arc<Mutex<Option<Late>>>;

pub(super) struct Late {
    callbacks: Callbacks,
    context: RuntimeContext,
    buffers: Option<ContextBuffers>,
}

struct SoftAdapter {
    flaw: Flaw,
    callbacks: AdapterCallbacks,
    hardware: OnceLock<Hardware>,
    /// One more than the number of devices.
    devices: Arc<()>,
    kept: LateCall,
}

impl SoftAdapter {
    /// The hardware information; the miniport is queried once.
    fn hardware(&self) -> UmdResult<Hardware> {
        if let Some(known) = self.hardware.get() {
            return Ok(*known);
        }
        let hardware = Hardware::ask(&self.callbacks)?;
        Ok(*self.hardware.get_or_init(|| hardware))
    }
}

impl UserAdapter for SoftAdapter {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(()) // It has none of these capabilities.
    }

    fn create_device(
        &self,
        _order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        if self.flaw == Flaw::LimitsDevices && Arc::strong_count(&self.devices) > MAX_DEVICES {
            return Err(E_FAIL);
        }
        let alive = self.devices.clone();
        let device = SoftDevice::new(self.flaw, self.hardware()?, callbacks, alive)?;
        if self.flaw == Flaw::CallsBackAfterDestroy {
            let late = Late {
                callbacks: device.callbacks.clone(),
                context: device.context,
                buffers: device.buffers.clone(),
            };
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(late);
        }
        Ok(Box::new(device))
    }

    fn close(&self) -> UmdResult<()> {
        let late = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut late) = late {
            // The result is ignored: the device is being destroyed.
            let _ = late.callbacks.deallocate(&DeallocateRequest::default());
            let _ = match &mut late.buffers {
                Some(buffers) => late
                    .callbacks
                    .render(late.context, buffers, &RenderRequest::default())
                    .map(drop),
                None => late.callbacks.submit(&[late.context], &[], &[]),
            };
        }
        Ok(())
    }
}

/// A device.
pub(super) struct SoftDevice {
    pub(super) flaw: Flaw,
    pub(super) hardware: Hardware,
    pub(super) callbacks: Callbacks,
    pub(super) context: RuntimeContext,
    /// Where commands go, if packets have allocation lists.
    pub(super) buffers: Option<ContextBuffers>,
    /// The paging queue, if residency is explicit.
    pub(super) queue: Option<PagingQueue>,
    /// The fence of the GPU's progress, if the runtime does not wait for it.
    pub(super) fence: Option<Fence>,
    /// The last signalled value.
    pub(super) signalled_value: u64,
    pub(super) batch: CommandBatch,
    /// The fence value after the last packet that used an allocation.
    pub(super) used: BTreeMap<D3DKMT_HANDLE, u64>,
    /// Resources that may be on a display.
    pub(super) shown: BTreeSet<D3DKMT_HANDLE>,
    pub(super) groups: BTreeMap<u64, Group>,
    pub(super) next: u64,
    /// Destroyed resources that have not been released.
    pub(super) deferred: VecDeque<Group>,
    /// Destroyed resources that were forgotten.
    pub(super) never_freed: Vec<Group>,
    /// Released resources, for a driver that releases them again.
    pub(super) released: Vec<DeallocateRequest>,
    /// A callback returned that the device is removed.
    pub(super) removed: bool,
    /// Marks the device as live.
    _alive: Arc<()>,
}

impl SoftDevice {
    fn new(
        flaw: Flaw,
        hardware: Hardware,
        callbacks: Callbacks,
        alive: Arc<()>,
    ) -> UmdResult<Self> {
        let mut it = Self {
            flaw,
            hardware,
            callbacks,
            context: RuntimeContext::default(),
            buffers: None,
            queue: None,
            fence: None,
            signalled_value: 0,
            batch: CommandBatch::default(),
            used: BTreeMap::new(),
            shown: BTreeSet::new(),
            groups: BTreeMap::new(),
            next: 1,
            deferred: VecDeque::new(),
            never_freed: Vec::new(),
            released: Vec::new(),
            removed: false,
            _alive: alive,
        };
        let started = it.begin();
        if started.is_err() {
            it.destroy_own_objects().ok(); // The first failure is returned.
        }
        started.map(|()| it)
    }

    fn begin(&mut self) -> UmdResult<()> {
        let listed = self.hardware.addressing == Addressing::Listed;
        if self.flaw != Flaw::NoContext {
            if listed {
                let (context, buffers) = self.callbacks.create_context(0, 0, &mut [])?;
                (self.context, self.buffers) = (context, Some(buffers));
            } else {
                self.context = self.callbacks.create_context_virtual(0, 0, &mut [])?;
            }
        }
        if self.hardware.resident {
            self.queue = Some(self.callbacks.create_paging_queue(0)?);
        }
        if !self.hardware.is_wddm1() {
            self.fence = Some(self.callbacks.create_fence(0, 0)?);
        }
        if self.flaw == Flaw::LeaksLock {
            let own = self.allocate_extra(PAGE)?;
            self.lock_allocation(own.allocation, 0, PAGE)?;
        }
        Ok(())
    }

    /// A resource in the runtime's terms.
    pub(super) fn group(&self, resource: Resource) -> UmdResult<&Group> {
        self.groups.get(&resource.number).ok_or(E_INVALIDARG)
    }

    pub(super) fn group_mut(&mut self, resource: Resource) -> UmdResult<&mut Group> {
        self.groups.get_mut(&resource.number).ok_or(E_INVALIDARG)
    }

    /// The index of a surface in its resource.
    pub(super) fn index(&self, resource: Resource, index: u32) -> UmdResult<usize> {
        let (count, index) = (self.group(resource)?.surfaces.len(), index as usize);
        match self.flaw {
            Flaw::AcceptsInvalidSubresource => Ok(index.min(count.saturating_sub(1))),
            _ if index < count => Ok(index),
            _ => Err(E_INVALIDARG),
        }
    }
}

impl UserDevice for SoftDevice {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        self.create_group(args)
    }

    fn open_resource(&mut self, args: &OpenResourceArgs) -> UmdResult<u64> {
        self.open_group(args)
    }

    fn handle_of(&mut self, number: u64, runtime: RuntimeResource, created: usize) -> usize {
        let handle = match self.flaw {
            Flaw::ReturnsRuntimeHandle => runtime.0,
            Flaw::ReusesResourceHandle => {
                let mut others = self.groups.values().map(|group| group.handle);
                others.find(|index| *index != 0).unwrap_or(created)
            }
            _ => created,
        };
        if let Some(group) = self.groups.get_mut(&number) {
            group.handle = handle;
        }
        handle
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        let answer = self.destroy_resource_entry(resource);
        self.hide_removal(answer)
    }

    fn lock(&mut self, args: &LockArgs) -> UmdResult<LockResult> {
        self.lock_surface(args)
    }

    fn unlock(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        self.unlock_surface(args)
    }

    fn lock_async(&mut self, args: &LockAsyncArgs) -> UmdResult<LockAsyncResult> {
        self.lock_surface_async(args)
    }

    fn unlock_async(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        self.unlock_surface_async(args)
    }

    fn rename(&mut self, args: &RenameArgs) -> UmdResult<()> {
        self.rename_surface(args)
    }

    fn blt(&mut self, args: &BltArgs) -> UmdResult<()> {
        let answer = self.copy(args);
        self.hide_removal(answer)
    }

    fn color_fill(&mut self, args: &ColorFillArgs) -> UmdResult<()> {
        let answer = self.fill(args);
        self.hide_removal(answer)
    }

    fn flush(&mut self) -> UmdResult<()> {
        if self.flaw == Flaw::UnlocksApplicationLock {
            self.unlock_application_locks();
        }
        let answer = self.submit().and_then(|()| self.free_deferred());
        self.hide_removal(answer)
    }

    fn set_priority(&mut self, resource: Resource, priority: u32) -> UmdResult<()> {
        let group = self.group(resource)?;
        if group.members().is_empty() {
            return Ok(()); // The surface is in the runtime's memory.
        }
        self.callbacks.set_priority(&group.whole(), &[priority])
    }

    fn query_residency(&mut self, resources: &[Resource]) -> UmdResult<ResidencyStatus> {
        let mut worst = ResidencyStatus::GpuMemory;
        for it in resources {
            let group = self.group(*it)?;
            if group.members().is_empty() {
                worst = worst.max(ResidencyStatus::SharedMemory);
                continue;
            }
            let answers = self.callbacks.query_residency(&group.whole())?;
            worst = answers.into_iter().fold(worst, ResidencyStatus::max);
        }
        Ok(worst)
    }

    fn end(&mut self) -> UmdResult<()> {
        self.free_all()
    }
}

impl SoftDevice {
    /// Returns the result, except in a driver that does not report a removed device.
    pub(super) fn hide_removal(&self, answer: UmdResult<()>) -> UmdResult<()> {
        match answer {
            Err(D3DDDIERR_DEVICEREMOVED) if self.flaw == Flaw::IgnoresCallbackError => Ok(()),
            answer => answer,
        }
    }
}
