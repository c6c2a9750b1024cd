//! The user-mode driver of the built-in GPU: its adapters and devices.
//!
//! A device has one context, and collects commands until somebody needs them done. What it does
//! is in the files beside: `make`, `draw`, `lock`, `work`, `end`.
#![forbid(unsafe_code)]

use super::batch::Batch;
use super::flaw::Flaw;
use super::group::{Group, PAGE};
use super::hardware::{Hardware, Way};
use abi::D3DKMT_HANDLE;
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_FAIL, E_INVALIDARG};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use umd::{
    AdapterCallbacks, Answer, AsyncLock, AsyncLocked, Blt, Buffers, Callbacks, ColorFill, Fence,
    Lock, Locked, NewDevice, NewResource, OpenAdapter, OpenedResource, PagingQueue, Release,
    Rename, Render, Residency, Resource, RuntimeContext, RuntimeResource, Unlock, UserAdapter,
    UserDevice, UserDriver,
};

/// The driver, with the flaw of that number.
pub(super) struct Soft<const FLAW: u8>;

impl<const FLAW: u8> UserDriver for Soft<FLAW> {
    fn open(_order: &OpenAdapter, callbacks: AdapterCallbacks) -> Answer<Box<dyn UserAdapter>> {
        let flaw = Flaw::of(FLAW);
        let hardware = OnceLock::new();
        if flaw == Flaw::KeepsAdapter {
            KEPT.lock().unwrap_or_else(PoisonError::into_inner).push(callbacks.clone());
        }
        let devices = Arc::default();
        let adapter = SoftAdapter { flaw, callbacks, hardware, devices, kept: Kept::default() };
        if flaw != Flaw::AsksLate {
            adapter.hardware()?;
        }
        Ok(Box::new(adapter))
    }
}

/// What a driver has of adapters that are closed.
static KEPT: Mutex<Vec<AdapterCallbacks>> = Mutex::new(Vec::new());

/// How many devices a driver makes that does not make many.
const MOST_DEVICES: usize = 4;

/// What a driver keeps that calls when it may not.
type Kept = Arc<Mutex<Option<Late>>>;

pub(super) struct Late {
    callbacks: Callbacks,
    context: RuntimeContext,
    buffers: Option<Buffers>,
}

struct SoftAdapter {
    flaw: Flaw,
    callbacks: AdapterCallbacks,
    hardware: OnceLock<Hardware>,
    /// As often as there are devices, and once more.
    devices: Arc<()>,
    kept: Kept,
}

impl SoftAdapter {
    /// What the hardware is: the miniport is asked once.
    fn hardware(&self) -> Answer<Hardware> {
        if let Some(known) = self.hardware.get() {
            return Ok(*known);
        }
        let hardware = Hardware::ask(&self.callbacks)?;
        Ok(*self.hardware.get_or_init(|| hardware))
    }
}

impl UserAdapter for SoftAdapter {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> Answer<()> {
        Ok(()) // It can nothing that is asked for here.
    }

    fn create_device(
        &self,
        _order: &NewDevice,
        callbacks: Callbacks,
    ) -> Answer<Box<dyn UserDevice>> {
        if self.flaw == Flaw::LimitsDevices && Arc::strong_count(&self.devices) > MOST_DEVICES {
            return Err(E_FAIL);
        }
        let alive = self.devices.clone();
        let device = SoftDevice::new(self.flaw, self.hardware()?, callbacks, alive)?;
        if self.flaw == Flaw::CallsAfterDevice {
            let late = Late {
                callbacks: device.callbacks.clone(),
                context: device.context,
                buffers: device.buffers.clone(),
            };
            *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(late);
        }
        Ok(Box::new(device))
    }

    fn close(&self) -> Answer<()> {
        let late = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut late) = late {
            // Whatever is answered: nobody here listens any more.
            let _ = late.callbacks.deallocate(&Release::default());
            let _ = match &mut late.buffers {
                Some(buffers) => {
                    late.callbacks.render(late.context, buffers, &Render::default()).map(drop)
                }
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
    /// Where commands go, if packets have lists.
    pub(super) buffers: Option<Buffers>,
    /// What residency is asked of, if it is.
    pub(super) queue: Option<PagingQueue>,
    /// What says how far the GPU is, if the runtime does not wait for it.
    pub(super) fence: Option<Fence>,
    /// How often it was signalled.
    pub(super) sent: u64,
    pub(super) batch: Batch,
    /// The value of the fence behind the last packet that used an allocation.
    pub(super) used: BTreeMap<D3DKMT_HANDLE, u64>,
    /// What may be on a display.
    pub(super) shown: BTreeSet<D3DKMT_HANDLE>,
    pub(super) groups: BTreeMap<u64, Group>,
    pub(super) next: u64,
    /// Destroyed, and not released.
    pub(super) deferred: VecDeque<Group>,
    /// The same, and forgotten.
    pub(super) forgotten: Vec<Group>,
    /// Released, for a driver that does it again.
    pub(super) released: Vec<Release>,
    /// A callback has said that the device is removed.
    pub(super) removed: bool,
    /// Says that it is there.
    _alive: Arc<()>,
}

impl SoftDevice {
    fn new(flaw: Flaw, hardware: Hardware, callbacks: Callbacks, alive: Arc<()>) -> Answer<Self> {
        let mut it = Self {
            flaw,
            hardware,
            callbacks,
            context: RuntimeContext::default(),
            buffers: None,
            queue: None,
            fence: None,
            sent: 0,
            batch: Batch::default(),
            used: BTreeMap::new(),
            shown: BTreeSet::new(),
            groups: BTreeMap::new(),
            next: 1,
            deferred: VecDeque::new(),
            forgotten: Vec::new(),
            released: Vec::new(),
            removed: false,
            _alive: alive,
        };
        let begun = it.begin();
        if begun.is_err() {
            it.end_own().ok(); // The first failure is the one to hand back.
        }
        begun.map(|()| it)
    }

    fn begin(&mut self) -> Answer<()> {
        let listed = self.hardware.way == Way::Listed;
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
        if !self.hardware.is_first() {
            self.fence = Some(self.callbacks.create_fence(0, 0)?);
        }
        if self.flaw == Flaw::ForgetsToUnlock {
            let own = self.allocate_extra(PAGE)?;
            self.lock_one(own.allocation, 0, PAGE)?;
        }
        Ok(())
    }

    /// A resource that the runtime talks about.
    pub(super) fn group(&self, resource: Resource) -> Answer<&Group> {
        self.groups.get(&resource.number).ok_or(E_INVALIDARG)
    }

    pub(super) fn group_mut(&mut self, resource: Resource) -> Answer<&mut Group> {
        self.groups.get_mut(&resource.number).ok_or(E_INVALIDARG)
    }

    /// Where a surface is in its resource.
    pub(super) fn index(&self, resource: Resource, index: u32) -> Answer<usize> {
        let (count, index) = (self.group(resource)?.surfaces.len(), index as usize);
        match self.flaw {
            Flaw::TakesAnyIndex => Ok(index.min(count.saturating_sub(1))),
            _ if index < count => Ok(index),
            _ => Err(E_INVALIDARG),
        }
    }
}

impl UserDevice for SoftDevice {
    fn create_resource(&mut self, order: &NewResource) -> Answer<u64> {
        self.make_group(order)
    }

    fn open_resource(&mut self, order: &OpenedResource) -> Answer<u64> {
        self.adopt_group(order)
    }

    fn handle_of(&mut self, number: u64, runtime: RuntimeResource, made: usize) -> usize {
        let handle = match self.flaw {
            Flaw::KeepsItsHandle => runtime.0,
            Flaw::HandlesTwice => {
                let mut others = self.groups.values().map(|it| it.handle);
                others.find(|it| *it != 0).unwrap_or(made)
            }
            _ => made,
        };
        if let Some(group) = self.groups.get_mut(&number) {
            group.handle = handle;
        }
        handle
    }

    fn destroy_resource(&mut self, resource: Resource) -> Answer<()> {
        let answer = self.drop_group(resource);
        self.swallowed(answer)
    }

    fn lock(&mut self, order: &Lock) -> Answer<Locked> {
        self.lock_surface(order)
    }

    fn unlock(&mut self, order: &Unlock) -> Answer<()> {
        self.unlock_surface(order)
    }

    fn lock_async(&mut self, order: &AsyncLock) -> Answer<AsyncLocked> {
        self.lock_beside(order)
    }

    fn unlock_async(&mut self, order: &Unlock) -> Answer<()> {
        self.unlock_beside(order)
    }

    fn rename(&mut self, order: &Rename) -> Answer<()> {
        self.rename_surface(order)
    }

    fn blt(&mut self, order: &Blt) -> Answer<()> {
        let answer = self.copy(order);
        self.swallowed(answer)
    }

    fn color_fill(&mut self, order: &ColorFill) -> Answer<()> {
        let answer = self.fill(order);
        self.swallowed(answer)
    }

    fn flush(&mut self) -> Answer<()> {
        if self.flaw == Flaw::UnlocksBehind {
            self.unlock_behind();
        }
        let answer = self.submit().and_then(|()| self.work_off());
        self.swallowed(answer)
    }

    fn set_priority(&mut self, resource: Resource, priority: u32) -> Answer<()> {
        let group = self.group(resource)?;
        if group.members().is_empty() {
            return Ok(()); // It is in the runtime's memory.
        }
        self.callbacks.set_priority(&group.whole(), &[priority])
    }

    fn query_residency(&mut self, resources: &[Resource]) -> Answer<Residency> {
        let mut worst = Residency::Gpu;
        for it in resources {
            let group = self.group(*it)?;
            if group.members().is_empty() {
                worst = worst.max(Residency::Shared);
                continue;
            }
            let answers = self.callbacks.query_residency(&group.whole())?;
            worst = answers.into_iter().fold(worst, Residency::max);
        }
        Ok(worst)
    }

    fn end(&mut self) -> Answer<()> {
        self.end_all()
    }
}

impl SoftDevice {
    /// An answer, but from a driver that says nothing of a removed device.
    pub(super) fn swallowed(&self, answer: Answer<()>) -> Answer<()> {
        match answer {
            Err(D3DDDIERR_DEVICEREMOVED) if self.flaw == Flaw::SwallowsErrors => Ok(()),
            answer => answer,
        }
    }
}
