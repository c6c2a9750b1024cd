//! Callbacks for a user-mode driver. Each callback finds its device, is logged and judged, and
//! calls the thunk that an application would call.
#![expect(unsafe_code, reason = "a driver calls these, with its own pointers")]

/// A callback of a device (`mut`: the structure has output members; `const`: it is only read) or of
/// an adapter (`adapter`).
macro_rules! callback {
    ($(#[doc = $doc:literal])+ $function:ident $name:literal $thread:ident mut $args:ty:
        |$device:ident, $at:ident, $request:ident| $body:block) => {
        callback! { @ [$(#[doc = $doc])+] $function $name $args, *mut $args, device_callback,
            (NAME, super::ThreadRule::$thread), &super::DeviceState,
            |$device, $at, $request: &mut $args| $body }
    };
    ($(#[doc = $doc:literal])+ $function:ident $name:literal $thread:ident const $args:ty:
        |$device:ident, $at:ident, $request:ident| $body:block) => {
        callback! { @ [$(#[doc = $doc])+] $function $name $args, *const $args, device_callback_const,
            (NAME, super::ThreadRule::$thread), &super::DeviceState,
            |$device, $at, $request: &$args| $body }
    };
    ($(#[doc = $doc:literal])+ $function:ident $name:literal adapter $args:ty:
        |$adapter:ident, $at:ident, $request:ident| $body:block) => {
        callback! { @ [$(#[doc = $doc])+] $function $name $args, *const $args, adapter_callback,
            NAME, &super::AdapterState,
            |$adapter, $at, $request: &$args| $body }
    };
    (@ [$($doc:tt)+] $function:ident $name:literal $args:ty, $pointer:ty, $through:ident,
        $private_data:expr, $of:ty,
        |$device:ident, $at:ident, $request:ident: $given:ty| $body:block) => {
        $($doc)+
        /// # Safety
        ///
        /// For a trusted driver, `args` is null or points to a structure whose pointers are valid.
        pub(super) unsafe extern "win64-unwind" fn $function(
            of: abi::HANDLE,
            args: $pointer,
        ) -> abi::HRESULT {
            const NAME: &str = $name;
            fn body(
                $device: $of,
                $at: &mut flight::Passive,
                $request: $given,
            ) -> Result<(), abi::HRESULT> $body
            // SAFETY: The caller guarantees the same.
            unsafe { super::$through(of, $private_data, args, body) }
        }
    };
}

/// Calls an entry point of the thunk layer for a device or an adapter, as an application would, and
/// converts the status to a result.
macro_rules! through {
    ($entry:ident, $of:ident, $at:expr, $args:expr) => {{
        // SAFETY: The structure outlives the call; its pointers refer to locals that outlive the
        // call, too, or come from the driver, whose creator vouches for them.
        super::check_status(unsafe { thunk::$entry($of.session(), $at, $args) })
    }};
}

mod allocate;
mod context;
mod free;
mod lock;
mod memory;
mod submit;
mod sync;
pub(crate) mod traps;

use crate::adapter::AdapterState;
use crate::call_stack;
use crate::device::DeviceState;
use crate::ledger::Ledger;
use crate::result::{DRIVER_CRASHED, hresult_from_status};
use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_FAIL, E_INVALIDARG, S_OK, succeeded};
use abi::umd::{D3DDDI_ADAPTERCALLBACKS, D3DDDI_DEVICECALLBACKS};
use abi::{HANDLE, HRESULT, NTSTATUS};
use flight::{At, Component, EventKind, Hex, Passive, RuleId, resume_internal_error};
use nt::image::UserModeCallback;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use thunk::claims;

/// The callbacks of an adapter. The table is static: a driver that calls too late gets an error.
pub(crate) static ADAPTER: D3DDDI_ADAPTERCALLBACKS = D3DDDI_ADAPTERCALLBACKS {
    pfnQueryAdapterInfoCb: Some(context::query_adapter_info),
    ..traps::ADAPTER
};

/// The callbacks of a device. The table is static for the same reason.
pub(crate) static DEVICE: D3DDDI_DEVICECALLBACKS = D3DDDI_DEVICECALLBACKS {
    pfnAllocateCb: Some(allocate::allocate),
    pfnDeallocateCb: Some(free::deallocate),
    pfnDeallocate2Cb: Some(free::deallocate2),
    pfnSetPriorityCb: Some(memory::set_priority),
    pfnQueryResidencyCb: Some(memory::query_residency),
    pfnRenderCb: Some(submit::render_or_restore),
    pfnSubmitCommandCb: Some(submit::submit),
    pfnLockCb: Some(lock::lock),
    pfnUnlockCb: Some(lock::unlock),
    pfnLock2Cb: Some(lock::lock2),
    pfnUnlock2Cb: Some(lock::unlock2),
    pfnEscapeCb: Some(context::escape),
    pfnCreateContextCb: Some(context::create_context),
    pfnCreateContextVirtualCb: Some(context::create_context_virtual),
    pfnDestroyContextCb: Some(context::destroy_context),
    pfnCreateSynchronizationObjectCb: Some(sync::create),
    pfnCreateSynchronizationObject2Cb: Some(sync::create2),
    pfnDestroySynchronizationObjectCb: Some(sync::destroy),
    pfnWaitForSynchronizationObjectCb: Some(sync::wait),
    pfnWaitForSynchronizationObject2Cb: Some(sync::wait2),
    pfnSignalSynchronizationObjectCb: Some(sync::signal),
    pfnSignalSynchronizationObject2Cb: Some(sync::signal2),
    pfnWaitForSynchronizationObjectFromCpuCb: Some(sync::wait_from_cpu),
    pfnSignalSynchronizationObjectFromCpuCb: Some(sync::signal_from_cpu),
    pfnWaitForSynchronizationObjectFromGpuCb: Some(sync::wait_from_gpu),
    pfnSignalSynchronizationObjectFromGpuCb: Some(sync::signal_from_gpu),
    pfnSignalSynchronizationObjectFromGpu2Cb: Some(sync::signal_from_gpu2),
    pfnMakeResidentCb: Some(memory::make_resident),
    pfnEvictCb: Some(memory::evict),
    pfnCreatePagingQueueCb: Some(memory::create_queue),
    pfnDestroyPagingQueueCb: Some(memory::destroy_queue),
    pfnOfferAllocationsCb: Some(memory::offer),
    pfnReclaimAllocationsCb: Some(memory::reclaim),
    pfnReclaimAllocations2Cb: Some(memory::reclaim2),
    pfnReserveGpuVirtualAddressCb: Some(memory::reserve_address),
    pfnMapGpuVirtualAddressCb: Some(memory::map_address),
    pfnFreeGpuVirtualAddressCb: Some(memory::free_address),
    pfnUpdateGpuVirtualAddressCb: Some(memory::update_address),
    ..traps::DEVICE
};

/// Which threading rule applies to a callback.
#[derive(Clone, Copy)]
pub(super) enum ThreadRule {
    /// The callback submits work to a context.
    Submits,
    /// The callback allocates or frees memory.
    Allocates,
}

/// Runs a callback of a device: copies the structure, lets `body` work on the copy, and copies the
/// result back whatever `body` returned.
///
/// # Safety
///
/// For a trusted driver, `args` is null or points to an `A`.
unsafe fn device_callback<A: Copy>(
    device: HANDLE,
    (name, thread): (&'static str, ThreadRule),
    args: *mut A,
    body: impl FnOnce(&DeviceState, &mut Passive, &mut A) -> Result<(), HRESULT>,
) -> HRESULT {
    with_device(device, (name, thread), |device, at| {
        // SAFETY: The caller guarantees the same.
        let mut request = unsafe { claims::read_mut(args) }.map_err(hresult_from_status)?;
        let answer = body(device, at, &mut request);
        // SAFETY: The caller guarantees the same.
        let written = unsafe { claims::write(args, request) };
        answer.and(written.map_err(hresult_from_status))
    })
}

/// Like [`device_callback`], for a structure that is only read.
///
/// # Safety
///
/// As for [`device_callback`].
unsafe fn device_callback_const<A: Copy>(
    device: HANDLE,
    (name, thread): (&'static str, ThreadRule),
    args: *const A,
    body: impl FnOnce(&DeviceState, &mut Passive, &A) -> Result<(), HRESULT>,
) -> HRESULT {
    with_device(device, (name, thread), |device, at| {
        // SAFETY: The caller guarantees the same.
        let request = unsafe { claims::read(args) }.map_err(hresult_from_status)?;
        body(device, at, &request)
    })
}

/// Finds the device of a callback and runs `body` on the thread that executes the driver function
/// for it. Throughout `body`, pointers are trusted as the driver's session trusts them.
fn with_device(
    handle: HANDLE,
    (name, thread): (&'static str, ThreadRule),
    body: impl FnOnce(&DeviceState, &mut Passive) -> Result<(), HRESULT>,
) -> HRESULT {
    let _callback = UserModeCallback::begin(name);
    let answer = || {
        let within = call_stack::device_in_call(handle.addr());
        let outside = within.is_none();
        let Some(device) = within.or_else(|| find_device(handle, name)) else {
            return E_INVALIDARG;
        };
        let log = device.log();
        let broken = outside.then(|| {
            format!("{name} was called on a thread that is not in the driver for this device")
        });
        let rule = match thread {
            ThreadRule::Submits => RuleId::UMD_SUBMIT_004,
            ThreadRule::Allocates => RuleId::UMD_SUBMIT_005,
        };
        if !device.judge(rule, name, broken) {
            return E_FAIL;
        }
        // Every callback comes here, so no event is built unless the log is enabled.
        if log.is_enabled() {
            log.emit(device.subject, || EventKind::UmdCallback { name: name.into() });
        }
        log.note_call(Component::Umd, || name.to_owned());
        // A lock is judged before it fails.
        let error =
            if name == lock::LOCK { None } else { device.failure_injection.take_failure(name) };
        let answer = match error {
            Some(error) => {
                if matches!(name, "pfnRenderCb" | "pfnSubmitCommandCb") {
                    submit::discard_commands(&device);
                }
                Err(error)
            }
            None => At::at_current_irql(device.host(), |at| match at {
                At::Passive(at) => device.session().with_trust(|| body(&device, at)),
                _ => Err(E_FAIL),
            }),
        };
        let answer = answer.err().unwrap_or(S_OK);
        if !succeeded(answer) {
            let mut ledger = device.ledger();
            ledger.callback_errors.push(answer);
            ledger.removed |= answer == D3DDDIERR_DEVICEREMOVED;
        }
        if log.is_enabled() {
            let result = Hex(answer.cast_unsigned());
            log.emit(device.subject, || EventKind::UmdCallbackReturn { name: name.into(), result });
        }
        answer
    };
    catch_unwind(AssertUnwindSafe(answer)).map_err(resume_internal_error).unwrap_or(DRIVER_CRASHED)
}

/// The device of a handle. Logs a handle that belongs to no device.
fn find_device(handle: HANDLE, name: &'static str) -> Option<Arc<DeviceState>> {
    let found = call_stack::device(handle.addr());
    if found.is_none() {
        log_unknown_device(handle.addr(), name);
    }
    found
}

/// Logs a callback whose handle belongs to no device.
fn log_unknown_device(handle: usize, name: &'static str) {
    if let Some(gone) = call_stack::destroyed_device(handle) {
        let Some(log) = gone.log.upgrade() else { return };
        let broken = format!("{name} was called for a destroyed device");
        log.judge(RuleId::UMD_DESTROY_013, Component::Umd, gone.subject, name, Some(broken));
        return;
    }
    let inside =
        call_stack::current_frame().and_then(|call_frame| call_stack::device(call_frame.handle));
    if let Some(device) = inside {
        let broken = format!("hDevice of {name} is not the runtime's handle of a device");
        device.judge(RuleId::UMD_RES_001, name, Some(broken));
    }
}

/// Runs a callback of an adapter.
///
/// # Safety
///
/// As for [`device_callback`].
unsafe fn adapter_callback<A: Copy>(
    handle: HANDLE,
    name: &'static str,
    args: *const A,
    body: impl FnOnce(&AdapterState, &mut Passive, &A) -> Result<(), HRESULT>,
) -> HRESULT {
    let _callback = UserModeCallback::begin(name);
    let answer = || {
        let Some(adapter) = call_stack::adapter(handle.addr()) else { return E_INVALIDARG };
        if call_stack::current_frame().is_none() {
            return E_FAIL;
        }
        let log = adapter.run.log();
        log.emit(adapter.subject, || EventKind::UmdCallback { name: name.into() });
        log.note_call(Component::Umd, || name.to_owned());
        let believed = |at: &mut Passive| {
            // SAFETY: The caller guarantees the same.
            let request = unsafe { claims::read(args) }.map_err(hresult_from_status)?;
            body(&adapter, at, &request)
        };
        let answer = At::at_current_irql(adapter.run.host(), |at| match at {
            At::Passive(at) => adapter.session().with_trust(|| believed(at)),
            _ => Err(E_FAIL),
        });
        let answer = answer.err().unwrap_or(S_OK);
        let result = Hex(answer.cast_unsigned());
        log.emit(adapter.subject, || EventKind::UmdCallbackReturn { name: name.into(), result });
        answer
    };
    catch_unwind(AssertUnwindSafe(answer)).map_err(resume_internal_error).unwrap_or(DRIVER_CRASHED)
}

/// Converts a status to success or an error result.
fn check_status(status: NTSTATUS) -> Result<(), HRESULT> {
    match hresult_from_status(status) {
        S_OK => Ok(()),
        error => Err(error),
    }
}

impl DeviceState {
    /// The kernel handle of one of the driver's contexts.
    fn context(&self, handle: HANDLE, name: &'static str) -> Result<u32, HRESULT> {
        let ledger = self.ledger();
        let found = ledger.contexts.get(&handle.addr()).map(|context| context.kernel);
        let none = !ledger.had_context;
        drop(ledger);
        let lost = found.is_none();
        let mixed =
            self.judge_mixed(lost, name, |ledger| ledger.contexts.contains_key(&handle.addr()));
        let broken = (lost && none && !mixed)
            .then(|| format!("{name} was called, and the driver has created no context"));
        self.judge(RuleId::UMD_ADAPTER_004, name, broken);
        let broken = (lost && !none && !mixed)
            .then(|| format!("hContext of {name} is no context of this device"));
        self.judge(RuleId::UMD_SUBMIT_006, name, broken);
        found.ok_or(E_INVALIDARG)
    }

    /// A handle that is not this device's may belong to another device: then two threads have
    /// confused their devices. Returns whether they have.
    fn judge_mixed(&self, lost: bool, name: &'static str, has: impl Fn(&Ledger) -> bool) -> bool {
        let me = flight::current_thread();
        let others = if lost { call_stack::devices() } else { Vec::new() };
        let other = others.iter().find(|state| {
            let apart = state.handle != self.handle && state.last_thread() != Some(me);
            apart && Arc::ptr_eq(&state.adapter.run, &self.adapter.run) && has(&state.ledger())
        });
        let broken = other.map(|state| {
            format!(
                "thread {me} is in the driver for {}, and {name} uses a handle of {}, which thread \
                 {} uses",
                self.subject,
                state.subject,
                state.last_thread().unwrap_or_default()
            )
        });
        !self.judge(RuleId::UMD_THREAD_002, name, broken)
    }

    /// The kernel handle of a resource that a driver identifies by the runtime's handle; zero for
    /// none.
    #[inline]
    fn resource(&self, handle: HANDLE, name: &'static str) -> Result<u32, HRESULT> {
        if handle.is_null() { Ok(0) } else { self.find_resource(handle, name) }
    }

    fn find_resource(&self, handle: HANDLE, name: &'static str) -> Result<u32, HRESULT> {
        let ledger = self.ledger();
        let found =
            ledger.resources.get(&handle.addr()).map(|resource_entry| resource_entry.kernel_handle);
        let owner = ledger.find_by_driver_handle(handle.addr());
        let driver = owner.is_some();
        // The driver may have reused a dead handle for another resource than that of its call.
        let in_call = call_stack::current_frame().and_then(|frame| frame.resource);
        let reused = driver && owner != in_call && ledger.has_unfreed();
        let dead_handles =
            ledger.is_handle_dead(handle.addr()) || reused && ledger.was_handle_dead(handle.addr());
        let destroyed = ledger.was_resource(handle.addr());
        drop(ledger);
        let lost = found.is_none();
        let mixed =
            self.judge_mixed(lost, name, |ledger| ledger.resources.contains_key(&handle.addr()));
        let broken = (lost && dead_handles).then(|| {
            format!("hResource of {name} is the driver's handle of a resource that was destroyed")
        });
        self.judge(RuleId::UMD_DESTROY_003, name, broken);
        let broken = (lost && !dead_handles && !mixed).then(|| {
            let what = match (driver, destroyed) {
                (true, _) => "is the driver's handle instead of the runtime's",
                (_, true) => "belongs to a destroyed resource",
                _ => "is no resource of this device",
            };
            format!("hResource of {name} {what}")
        });
        self.judge(RuleId::UMD_DESTROY_010, name, broken);
        found.ok_or(E_INVALIDARG)
    }
}
