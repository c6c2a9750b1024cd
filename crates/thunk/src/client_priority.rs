//! A client in safe Rust: offers, priorities, budgets and trim notifications.
#![expect(unsafe_code, reason = "passes its own structures to the entry points")]

use crate::adapter::luid;
use crate::client::{Client, check_status, list_pointer};
use crate::client_memory::count;
use crate::table;
use abi::kmt::{
    D3DKMT_ALLOCATIONRESIDENCYSTATUS, D3DKMT_CHANGEVIDEOMEMORYRESERVATION,
    D3DKMT_GETALLOCATIONPRIORITY, D3DKMT_OFFERALLOCATIONS, D3DKMT_QUERYADAPTERINFO,
    D3DKMT_QUERYALLOCATIONRESIDENCY, D3DKMT_QUERYVIDEOMEMORYINFO, D3DKMT_RECLAIMALLOCATIONS,
    D3DKMT_RECLAIMALLOCATIONS2, D3DKMT_REGISTERTRIMNOTIFICATION, D3DKMT_SEGMENTSIZEINFO,
    D3DKMT_SETALLOCATIONPRIORITY, D3DKMT_TRIMNOTIFICATION, D3DKMT_UNREGISTERTRIMNOTIFICATION,
    KMTQAITYPE_GETSEGMENTSIZE, KMTQAITYPE_UMDRIVERPRIVATE,
};
use abi::status::STATUS_PENDING;
use abi::{BOOL, D3DKMT_HANDLE, LUID, NTSTATUS};
use flight::Passive;
use std::ptr;

/// The target of a call: resources or allocations. No call allows both or neither.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllocationSelection<'a> {
    /// The device.
    pub device: D3DKMT_HANDLE,
    /// The resources; some calls use the first only.
    pub resources: &'a [D3DKMT_HANDLE],
    /// Allocations.
    pub list: &'a [D3DKMT_HANDLE],
}

impl<'a> AllocationSelection<'a> {
    /// Allocations of a device.
    pub fn of(device: D3DKMT_HANDLE, list: &'a [D3DKMT_HANDLE]) -> Self {
        Self { device, list, ..Self::default() }
    }

    /// The number of handles. Two lists have the same length.
    fn count(&self) -> u32 {
        count(if self.list.is_empty() { self.resources } else { self.list })
    }

    fn resource(&self) -> D3DKMT_HANDLE {
        self.resources.first().copied().unwrap_or_default()
    }

    /// The number of results of a call that takes one resource.
    fn output_count(&self) -> usize {
        if self.resources.is_empty() { self.list.len() } else { 1 }
    }
}

impl Client {
    /// `D3DKMTOfferAllocations`.
    pub fn offer(
        &self,
        at: &mut Passive,
        names: AllocationSelection<'_>,
        priority: i32,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_OFFERALLOCATIONS {
            hDevice: names.device,
            pResources: list_pointer(names.resources).cast_mut(),
            HandleList: list_pointer(names.list),
            NumAllocations: names.count(),
            Priority: priority,
            ..D3DKMT_OFFERALLOCATIONS::ZERO
        };
        // SAFETY: `args` and the lists outlive the call and are only read.
        check_status(unsafe { table::D3DKMTOfferAllocations(&self.session, at, &raw const args) })
    }

    /// `D3DKMTReclaimAllocations`. Returns for each whether its content was discarded.
    pub fn reclaim(
        &self,
        at: &mut Passive,
        names: AllocationSelection<'_>,
    ) -> Result<Vec<bool>, NTSTATUS> {
        let mut discarded = vec![BOOL::from(false); names.count() as usize];
        let args = D3DKMT_RECLAIMALLOCATIONS {
            hDevice: names.device,
            pResources: list_pointer(names.resources).cast_mut(),
            HandleList: list_pointer(names.list),
            pDiscarded: discarded.as_mut_ptr(),
            NumAllocations: names.count(),
        };
        // SAFETY: `args` and the lists outlive the call; there is one result per handle.
        check_status(unsafe {
            table::D3DKMTReclaimAllocations(&self.session, at, &raw const args)
        })?;
        Ok(discarded.into_iter().map(|lost| lost != 0).collect())
    }

    /// `D3DKMTReclaimAllocations2`, of allocations. Returns the result of each, and the fence value
    /// at which they are resident; zero means now.
    pub fn reclaim2(
        &self,
        at: &mut Passive,
        queue: D3DKMT_HANDLE,
        list: &[D3DKMT_HANDLE],
    ) -> Result<(Vec<i32>, u64), NTSTATUS> {
        let mut results = vec![0; list.len()];
        let mut args = D3DKMT_RECLAIMALLOCATIONS2 {
            hPagingQueue: queue,
            NumAllocations: count(list),
            HandleList: list_pointer(list),
            pDiscarded: results.as_mut_ptr(),
            ..D3DKMT_RECLAIMALLOCATIONS2::ZERO
        };
        // SAFETY: `args` and the lists outlive the call; there is one result per handle.
        match unsafe { table::D3DKMTReclaimAllocations2(&self.session, at, &raw mut args) } {
            STATUS_PENDING => (),
            other => check_status(other)?,
        }
        Ok((results, args.PagingFenceValue))
    }

    /// `D3DKMTSetAllocationPriority`.
    pub fn set_priorities(
        &self,
        at: &mut Passive,
        names: AllocationSelection<'_>,
        priorities: &[u32],
    ) -> Result<(), NTSTATUS> {
        assert!(priorities.len() >= names.output_count(), "a priority for each");
        let args = D3DKMT_SETALLOCATIONPRIORITY {
            hDevice: names.device,
            hResource: names.resource(),
            phAllocationList: list_pointer(names.list),
            AllocationCount: count(names.list),
            pPriorities: list_pointer(priorities),
        };
        // SAFETY: `args` and the lists outlive the call; there is one priority per handle.
        check_status(unsafe {
            table::D3DKMTSetAllocationPriority(&self.session, at, &raw const args)
        })
    }

    /// `D3DKMTGetAllocationPriority`.
    pub fn priorities(
        &self,
        at: &mut Passive,
        names: AllocationSelection<'_>,
    ) -> Result<Vec<u32>, NTSTATUS> {
        let mut priorities = vec![0; names.output_count()];
        let args = D3DKMT_GETALLOCATIONPRIORITY {
            hDevice: names.device,
            hResource: names.resource(),
            phAllocationList: list_pointer(names.list),
            AllocationCount: count(names.list),
            pPriorities: priorities.as_mut_ptr(),
        };
        let args = &raw const args;
        // SAFETY: `args` and the lists outlive the call; there is one priority per result.
        check_status(unsafe { table::D3DKMTGetAllocationPriority(&self.session, at, args) })?;
        Ok(priorities)
    }

    /// `D3DKMTQueryAllocationResidency`.
    pub fn residency(
        &self,
        at: &mut Passive,
        names: AllocationSelection<'_>,
    ) -> Result<Vec<D3DKMT_ALLOCATIONRESIDENCYSTATUS>, NTSTATUS> {
        let mut all = vec![0; names.output_count()];
        let args = D3DKMT_QUERYALLOCATIONRESIDENCY {
            hDevice: names.device,
            hResource: names.resource(),
            phAllocationList: list_pointer(names.list),
            AllocationCount: count(names.list),
            pResidencyStatus: all.as_mut_ptr(),
        };
        let args = &raw const args;
        // SAFETY: `args` and the lists outlive the call; there is one element per result.
        check_status(unsafe { table::D3DKMTQueryAllocationResidency(&self.session, at, args) })?;
        Ok(all)
    }

    /// `D3DKMTQueryAdapterInfo`: the sizes of an adapter's memory.
    pub fn segment_sizes(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
    ) -> Result<D3DKMT_SEGMENTSIZEINFO, NTSTATUS> {
        let mut sizes = D3DKMT_SEGMENTSIZEINFO::ZERO;
        let args = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: KMTQAITYPE_GETSEGMENTSIZE,
            pPrivateDriverData: (&raw mut sizes).cast(),
            PrivateDriverDataSize: 24,
        };
        // SAFETY: `args` and `sizes` outlive the call; `args` has the size of `sizes`.
        check_status(unsafe { table::D3DKMTQueryAdapterInfo(&self.session, at, &raw const args) })?;
        Ok(sizes)
    }

    /// `D3DKMTQueryAdapterInfo` with `UMDRIVERPRIVATE`. Returns the data as the driver left it.
    pub fn query_private(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
        data: &mut [u8],
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_QUERYADAPTERINFO {
            hAdapter: adapter,
            Type: KMTQAITYPE_UMDRIVERPRIVATE,
            pPrivateDriverData: data.as_mut_ptr().cast(),
            PrivateDriverDataSize: u32::try_from(data.len()).unwrap_or(u32::MAX),
        };
        // SAFETY: `args` and `data` outlive the call; the size in `args` is that of `data`, or
        // `u32::MAX`, which the entry point rejects.
        check_status(unsafe { table::D3DKMTQueryAdapterInfo(&self.session, at, &raw const args) })
    }

    /// `D3DKMTQueryVideoMemoryInfo` of a group of an adapter, for a process handle.
    pub fn memory_info(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
        group: i32,
        process: usize,
    ) -> Result<D3DKMT_QUERYVIDEOMEMORYINFO, NTSTATUS> {
        let mut args = D3DKMT_QUERYVIDEOMEMORYINFO {
            hProcess: ptr::without_provenance_mut(process),
            hAdapter: adapter,
            MemorySegmentGroup: group,
            ..D3DKMT_QUERYVIDEOMEMORYINFO::ZERO
        };
        let session = &self.session;
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTQueryVideoMemoryInfo(session, at, &raw mut args) })?;
        Ok(args)
    }

    /// `D3DKMTChangeVideoMemoryReservation`.
    pub fn reserve_memory(
        &self,
        at: &mut Passive,
        adapter: D3DKMT_HANDLE,
        group: i32,
        bytes: u64,
    ) -> Result<(), NTSTATUS> {
        let args = D3DKMT_CHANGEVIDEOMEMORYRESERVATION {
            hAdapter: adapter,
            MemorySegmentGroup: group,
            Reservation: bytes,
            ..D3DKMT_CHANGEVIDEOMEMORYRESERVATION::ZERO
        };
        let args = &raw const args;
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTChangeVideoMemoryReservation(&self.session, at, args) })
    }

    /// `D3DKMTRegisterTrimNotification`, on the first adapter. Returns the registration.
    ///
    /// The closure gets the number of bytes. It lives until this process ends, because a callback
    /// may be running when it is unregistered.
    pub fn register_trim(
        &self,
        at: &mut Passive,
        device: D3DKMT_HANDLE,
        handler: impl Fn(u64) + Send + Sync + 'static,
    ) -> Result<usize, NTSTATUS> {
        let handler: &'static TrimHandler = Box::leak(Box::new(TrimHandler(Box::new(handler))));
        let adapter = self.session.kernel.adapters().first().copied();
        let mut args = D3DKMT_REGISTERTRIMNOTIFICATION {
            AdapterLuid: adapter.map_or(LUID::ZERO, luid),
            hDevice: device,
            Callback: Some(notify_trim),
            Context: ptr::from_ref(handler).cast_mut().cast(),
            ..D3DKMT_REGISTERTRIMNOTIFICATION::ZERO
        };
        let session = &self.session;
        // SAFETY: `args` outlives the call, and the callback accepts the registered context.
        check_status(unsafe { table::D3DKMTRegisterTrimNotification(session, at, &raw mut args) })?;
        Ok(args.Handle.addr())
    }

    /// `D3DKMTUnregisterTrimNotification`.
    pub fn unregister_trim(&self, at: &mut Passive, registration: usize) -> Result<(), NTSTATUS> {
        let mut args = D3DKMT_UNREGISTERTRIMNOTIFICATION {
            Handle: ptr::without_provenance_mut(registration),
            Callback: Some(notify_trim),
        };
        let session = &self.session;
        // SAFETY: `args` outlives the call.
        check_status(unsafe { table::D3DKMTUnregisterTrimNotification(session, at, &raw mut args) })
    }
}

/// The closure that a trim callback calls.
struct TrimHandler(Box<dyn Fn(u64) + Send + Sync>);

/// The callback.
///
/// # Safety
///
/// `args` points to a notification whose context is a [`TrimHandler`].
unsafe extern "C-unwind" fn notify_trim(args: *mut D3DKMT_TRIMNOTIFICATION) {
    // SAFETY: The caller's contract.
    let args = unsafe { args.read() };
    // SAFETY: The caller's contract.
    let TrimHandler(handler) = unsafe { &*args.Context.cast_const().cast() };
    handler(args.NumBytesToTrim);
}
