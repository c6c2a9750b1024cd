//! User-mode drivers with legal but unusual behaviour: they have no findings, and errors of an
//! application are not blamed on them.
#![forbid(unsafe_code)]

use abi::hresult::{D3DDDIERR_DEVICEREMOVED, E_FAIL, E_INVALIDARG, E_OUTOFMEMORY, E_PENDING, S_OK};
use abi::ukm::D3DDDICB_LOCKFLAGS;
use abi::umd::D3DDDI_RESOURCEFLAGS;
use abi::{D3DKMT_HANDLE, HRESULT};
use flight::{Component, Event, Passive, RuleId};
use harness::application_calls::{WHOLE, text};
use harness::{KernelTestbed, run, verified};
use runtime::{Device, LockRequest, ResourceDescription, Runtime, Umd};
use softgpu::format::{HARDWARE_INFO_SIZE, describe};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use thunk::Client;
use umd::{
    AdapterCallbacks, Callbacks, ColorFillArgs, ContextBuffers, CreateDeviceArgs,
    CreateResourceArgs, DeallocateRequest, LockArgs, LockResult, NewAllocation, OpenAdapterArgs,
    OpenResourceArgs, PagingQueue, RenderRequest, Resource, RuntimeContext, RuntimeResource,
    UmdResult, UnlockArgs, UserAdapter, UserDevice, UserDriver,
};
use windtunnel::{Application, HostKind};

/// What is unusual about a driver.
const NOTHING: u8 = 0;
/// Frees memory when it is flushed.
const FREES_IN_FLUSH: u8 = 1;
/// Frees a resource that it could not open.
const FREES_AFTER_FAILED_OPEN: u8 = 2;
/// Waits in a flush for something that never happens.
const WAITS_IN_FLUSH: u8 = 3;
/// Has no memory of its own for a resource with the runtime's memory.
const HAS_NO_MEMORY: u8 = 4;
/// Draws with the CPU into memory that stays mapped.
const DRAWS_WITH_CPU: u8 = 5;
/// Collects drawing commands, and makes memory resident when it submits.
const MAKES_RESIDENT_IN_SUBMIT: u8 = 6;
/// Submits when it is flushed, and uses the returned buffers, whatever the result is.
const SUBMITS_IN_FLUSH: u8 = 7;
/// As above, with an invalid context.
const PASSES_INVALID_CONTEXT: u8 = 8;
/// Frees memory when it is flushed, and allocates other memory for the same resources.
const REALLOCATES_IN_FLUSH: u8 = 9;
/// Has one allocation more than surfaces, at the front, and reads it when it is flushed.
const HAS_EXTRA_ALLOCATION: u8 = 10;
/// Numbers its resources in its private data.
const NUMBERS_PRIVATE_DATA: u8 = 11;
/// A second lock returns nothing.
const FAILS_SECOND_LOCK: u8 = 12;

/// A driver that locks at each request and collects nothing.
struct Plain<const BEHAVIOUR: u8>;

struct Made<const BEHAVIOUR: u8> {
    callbacks: Callbacks,
    /// The runtime's handles of resources, by the driver's handles, with allocations and their
    /// locks.
    resources: BTreeMap<u64, (RuntimeResource, Vec<(D3DKMT_HANDLE, u32)>)>,
    last: u64,
    bare: bool,
    /// The context it submits to, if any.
    work: Option<(RuntimeContext, PagingQueue)>,
    buffers: Option<(RuntimeContext, ContextBuffers)>,
}

impl<const BEHAVIOUR: u8> UserDriver for Plain<BEHAVIOUR> {
    fn open(
        _order: &OpenAdapterArgs,
        callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        callbacks.query_adapter_info(&mut [0; HARDWARE_INFO_SIZE])?;
        Ok(Box::new(Self))
    }
}

impl<const BEHAVIOUR: u8> UserAdapter for Plain<BEHAVIOUR> {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(())
    }

    fn create_device(
        &self,
        _order: &CreateDeviceArgs,
        callbacks: Callbacks,
    ) -> UmdResult<Box<dyn UserDevice>> {
        let resources = BTreeMap::new();
        let mut work = None;
        if BEHAVIOUR == MAKES_RESIDENT_IN_SUBMIT {
            let context = callbacks.create_context_virtual(0, 0, &mut [])?;
            work = Some((context, callbacks.create_paging_queue(0)?));
        }
        let mut buffers = None;
        if matches!(BEHAVIOUR, SUBMITS_IN_FLUSH | PASSES_INVALID_CONTEXT) {
            buffers = Some(callbacks.create_context(0, 0, &mut [])?);
        }
        Ok(Box::new(Made::<BEHAVIOUR> {
            callbacks,
            resources,
            last: 0,
            bare: false,
            work,
            buffers,
        }))
    }
}

impl<const BEHAVIOUR: u8> Made<BEHAVIOUR> {
    fn release(&self, runtime: RuntimeResource) -> UmdResult<()> {
        self.callbacks
            .deallocate(&DeallocateRequest { resource: runtime, ..DeallocateRequest::default() })
    }

    fn one(&mut self, of: Resource, index: u32) -> UmdResult<&mut (D3DKMT_HANDLE, u32)> {
        let all = &mut self.resources.get_mut(&of.number).ok_or(E_INVALIDARG)?.1;
        all.get_mut(index as usize).ok_or(E_INVALIDARG)
    }
}

impl<const BEHAVIOUR: u8> UserDevice for Made<BEHAVIOUR> {
    fn create_resource(&mut self, args: &CreateResourceArgs) -> UmdResult<u64> {
        let one = || NewAllocation { private: describe(4096), ..NewAllocation::default() };
        let mut all: Vec<NewAllocation> = args.surfaces.iter().map(|_| one()).collect();
        if BEHAVIOUR == HAS_EXTRA_ALLOCATION {
            all.push(one());
        }
        let number = (self.last + 1).to_ne_bytes();
        let private: &[u8] = if BEHAVIOUR == NUMBERS_PRIVATE_DATA { &number } else { &[] };
        let mut made = self.callbacks.allocate(args.runtime, private, &mut all)?;
        if BEHAVIOUR == HAS_EXTRA_ALLOCATION {
            made.allocations.rotate_left(1);
        }
        if BEHAVIOUR == HAS_NO_MEMORY {
            let of = DeallocateRequest { resource: args.runtime, ..DeallocateRequest::default() };
            let _ = self.callbacks.set_priority(&of, &[0x7800_0000]);
            self.release(args.runtime)?;
            return Err(E_OUTOFMEMORY);
        }
        if BEHAVIOUR == DRAWS_WITH_CPU {
            for it in &made.allocations {
                self.callbacks.lock(*it, D3DDDICB_LOCKFLAGS::LockEntire, &[], 4096)?;
            }
        }
        self.last += 1;
        let made = made
            .allocations
            .into_iter()
            .map(|number| (number, u32::from(BEHAVIOUR == DRAWS_WITH_CPU)))
            .collect();
        self.resources.insert(self.last, (args.runtime, made));
        Ok(self.last)
    }

    fn open_resource(&mut self, args: &OpenResourceArgs) -> UmdResult<u64> {
        if BEHAVIOUR == FREES_AFTER_FAILED_OPEN {
            self.release(args.runtime)?;
            return Err(E_OUTOFMEMORY);
        }
        self.last += 1;
        self.resources.insert(self.last, (args.runtime, Vec::new()));
        Ok(self.last)
    }

    fn destroy_resource(&mut self, resource: Resource) -> UmdResult<()> {
        let (runtime, list) = self.resources.remove(&resource.number).ok_or(E_INVALIDARG)?;
        if self.bare {
            return Ok(());
        }
        let of = DeallocateRequest { resource: runtime, ..DeallocateRequest::default() };
        let result = self.callbacks.set_priority(&of, &[0x7800_0000]);
        for (allocation, locks) in list {
            for _ in 0..locks {
                self.callbacks.unlock(&[allocation])?;
            }
        }
        self.release(runtime)?;
        result.or_else(|it| if it == D3DDDIERR_DEVICEREMOVED { Err(it) } else { Ok(()) })
    }

    fn lock(&mut self, args: &LockArgs) -> UmdResult<LockResult> {
        let callbacks = self.callbacks.clone();
        let (allocation, locks) = self.one(args.resource, args.index)?;
        if BEHAVIOUR == FAILS_SECOND_LOCK && *locks > 0 {
            return Ok(LockResult::default());
        }
        let (_, seen) = callbacks.lock(*allocation, D3DDDICB_LOCKFLAGS::LockEntire, &[], 4096)?;
        *locks += 1;
        Ok(LockResult { address: seen.address(), pitch: 32, slice_pitch: 0 })
    }

    fn unlock(&mut self, args: &UnlockArgs) -> UmdResult<()> {
        let callbacks = self.callbacks.clone();
        let (allocation, locks) = self.one(args.resource, args.index)?;
        let left = locks.checked_sub(1).ok_or(E_INVALIDARG)?;
        callbacks.unlock(&[*allocation])?;
        *locks = left;
        Ok(())
    }

    fn color_fill(&mut self, args: &ColorFillArgs) -> UmdResult<()> {
        self.one(args.resource, args.index).map(drop)
    }

    fn flush(&mut self) -> UmdResult<()> {
        if BEHAVIOUR == WAITS_IN_FLUSH {
            let fence = self.callbacks.create_fence(0, 0)?;
            let gpu_wait = self.callbacks.wait_from_cpu(&[(fence.object, 1)], 0);
            self.callbacks.destroy_sync(fence.object)?;
            return gpu_wait;
        }
        if let Some((context, queue)) = self.work {
            let all = self.resources.values().flat_map(|entry| entry.1.iter().map(|pair| pair.0));
            let all: Vec<D3DKMT_HANDLE> = all.collect();
            let paged = self.callbacks.make_resident(queue.queue, &all, 0)?;
            self.callbacks.wait_from_gpu(context, &[(queue.fence, paged.value)])?;
            return self.callbacks.submit(&[context], &[], &[]);
        }
        if let Some((context, buffers)) = &mut self.buffers {
            let context =
                if BEHAVIOUR == PASSES_INVALID_CONTEXT { RuntimeContext(1) } else { *context };
            let answer = self.callbacks.render(context, buffers, &RenderRequest::default());
            let room = buffers.write(0, &[0; 16]) && buffers.add_allocation(0, 0, false);
            assert!(room && buffers.add_patch_location(0, 0, 0, 0), "buffers to go on with");
            return answer.map(drop);
        }
        if BEHAVIOUR == HAS_EXTRA_ALLOCATION {
            for (_, list) in self.resources.values() {
                let (head, _) = list.last().ok_or(E_FAIL)?;
                self.callbacks.lock(*head, D3DDDICB_LOCKFLAGS::LockEntire, &[], 4096)?;
                self.callbacks.unlock(&[*head])?;
            }
        }
        if BEHAVIOUR == REALLOCATES_IN_FLUSH {
            for (runtime, list) in self.resources.values_mut() {
                let of = DeallocateRequest { resource: *runtime, ..DeallocateRequest::default() };
                self.callbacks.deallocate(&of)?;
                let mut all =
                    [NewAllocation { private: describe(4096), ..NewAllocation::default() }];
                let made = self.callbacks.allocate(*runtime, &[], &mut all)?;
                *list = made.allocations.into_iter().map(|number| (number, 0)).collect();
            }
        }
        if BEHAVIOUR == FREES_IN_FLUSH {
            self.resources.values().try_for_each(|pair| self.release(pair.0))?;
            self.bare = true;
        }
        Ok(())
    }

    fn end(&mut self) -> UmdResult<()> {
        if let Some((context, _)) = &self.buffers {
            return self.callbacks.destroy_context(*context);
        }
        let Some((context, queue)) = self.work else { return Ok(()) };
        self.callbacks.destroy_paging_queue(queue.queue)?;
        self.callbacks.destroy_context(context)
    }
}

/// Runs a test with an application over a driver and hardware. Returns its events.
fn run_application(
    hardware: &str,
    on: HostKind,
    umd: &Umd,
    body: impl FnOnce(&KernelTestbed, &mut Passive, &Application, &Runtime),
) -> Vec<Event> {
    let listed = drivers::find(hardware).unwrap_or_else(|| panic!("there is no {hardware}"));
    run(on, listed.make, |testbed, at| {
        let runtime = Runtime::new(&testbed.kernel);
        let app = Application::open(&runtime, &Client::new(&testbed.kernel), umd, at);
        let app = app.unwrap_or_else(|why| panic!("{why}"));
        body(testbed, at, &app, &runtime);
        app.close(at).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(app.device.live_objects(), 0, "in the runtime's books");
    })
}

/// The blamed components and their rules.
fn accused(events: &[Event]) -> Vec<(Component, RuleId, String)> {
    let all = verified(events);
    all.findings()
        .iter()
        .map(|finding| (finding.component, finding.rule, finding.message.clone()))
        .collect()
}

fn good<T>(answer: Result<T, HRESULT>) -> T {
    answer.unwrap_or_else(|why| panic!("{}", text(why)))
}

const NONE: [(Component, RuleId, String); 0] = [];

#[test]
fn any_call_may_report_a_removed_device() {
    const REMOVED: Result<(), HRESULT> = Err(D3DDDIERR_DEVICEREMOVED);
    let umd = drivers::umd_from_rust::<Plain<NOTHING>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let device = &app.device;
            let one = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
            good(device.lock(at, (one, 0), LockRequest::default()));
            // A second lock, an unlock, and a destroy that releases nevertheless.
            device.fail_next("pfnLockCb", D3DDDIERR_DEVICEREMOVED);
            assert_eq!(device.lock(at, (one, 0), LockRequest::default()).map(drop), REMOVED);
            device.fail_next("pfnUnlockCb", D3DDDIERR_DEVICEREMOVED);
            assert_eq!(device.unlock(at, (one, 0)), REMOVED);
            let two = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
            device.fail_next("pfnSetPriorityCb", D3DDDIERR_DEVICEREMOVED);
            assert_eq!(device.destroy_resource(at, two), REMOVED);
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_callback_failure_may_be_returned_for_a_buffer() {
    let umd = drivers::umd_from_rust::<Plain<NOTHING>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let mut wanted = ResourceDescription::texture(8, 8);
            wanted.flags = D3DDDI_RESOURCEFLAGS::VertexBuffer;
            app.device.fail_next("pfnAllocateCb", E_FAIL);
            assert_eq!(app.device.create_resource(at, &wanted), Err(E_FAIL));
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_pending_result_is_not_a_failure() {
    let umd = drivers::umd_from_rust::<Plain<HAS_NO_MEMORY>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            app.device.fail_next("pfnSetPriorityCb", E_PENDING);
            let made = app.device.create_resource(at, &ResourceDescription::texture(8, 8));
            assert_eq!(made, Err(E_OUTOFMEMORY), "for a reason of its own");
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn cpu_drawing_needs_no_submission() {
    let umd = drivers::umd_from_rust::<Plain<DRAWS_WITH_CPU>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let one = good(app.device.create_resource(at, &ResourceDescription::texture(8, 8)));
            good(app.device.color_fill(at, (one, 0), WHOLE, 7));
            assert_eq!(app.device.destroy_resource(at, one), Ok(()));
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn drawing_may_wait_for_residency_at_submission() {
    let umd = drivers::umd_from_rust::<Plain<MAKES_RESIDENT_IN_SUBMIT>>();
    let events =
        run_application("softgpu-gpummu", HostKind::deterministic(1), &umd, |_, at, app, _| {
            let one = good(app.device.create_resource(at, &ResourceDescription::texture(8, 8)));
            good(app.device.color_fill(at, (one, 0), WHOLE, 7));
            assert_eq!(app.device.flush(at), Ok(()));
            assert_eq!(app.device.destroy_resource(at, one), Ok(()));
        });
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_failed_submission_always_returns_buffers() {
    let umd = drivers::umd_from_rust::<Plain<SUBMITS_IN_FLUSH>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            app.device.fail_next("pfnRenderCb", E_OUTOFMEMORY);
            assert_eq!(app.device.flush(at), Err(E_OUTOFMEMORY));
            assert!(app.device.cancel_failure());
            let _ = app.device.flush(at); // A packet with nothing in it may be refused.
        },
    );
    let rules: Vec<RuleId> = accused(&events).into_iter().map(|entry| entry.1).collect();
    assert!(!rules.contains(&RuleId::WT_CRASH_001), "{rules:?}");

    let umd = drivers::umd_from_rust::<Plain<PASSES_INVALID_CONTEXT>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            assert_eq!(app.device.flush(at), Err(E_INVALIDARG));
        },
    );
    let rules: Vec<RuleId> = accused(&events).into_iter().map(|entry| entry.1).collect();
    assert_eq!(rules, [RuleId::UMD_SUBMIT_006]);
}

#[test]
fn a_reallocated_resource_is_released_again() {
    let umd = drivers::umd_from_rust::<Plain<REALLOCATES_IN_FLUSH>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let one = good(app.device.create_resource(at, &ResourceDescription::texture(8, 8)));
            assert_eq!((app.device.flush(at), app.device.flush(at)), (Ok(()), Ok(())));
            good(app.device.lock(at, (one, 0), LockRequest::default()));
            good(app.device.unlock(at, (one, 0)));
            assert_eq!(app.device.destroy_resource(at, one), Ok(()));
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_driver_may_unlock_its_additional_allocations() {
    let umd = drivers::umd_from_rust::<Plain<HAS_EXTRA_ALLOCATION>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let one = good(app.device.create_resource(at, &ResourceDescription::group(2, 8, 8)));
            good(app.device.lock(at, (one, 0), LockRequest::default()));
            assert_eq!(app.device.flush(at), Ok(()));
            good(app.device.unlock(at, (one, 0)));
            assert_eq!(app.device.destroy_resource(at, one), Ok(()));
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn private_data_may_number_resources() {
    let umd = drivers::umd_from_rust::<Plain<NUMBERS_PRIVATE_DATA>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let mut wanted = ResourceDescription::texture(8, 8).shared();
            for noise in [0, 0, 7] {
                wanted.reserved_values = noise;
                let one = good(app.device.create_resource(at, &wanted));
                assert_eq!(app.device.destroy_resource(at, one), Ok(()));
            }
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_second_lock_without_a_pointer_has_failed() {
    let umd = drivers::umd_from_rust::<Plain<FAILS_SECOND_LOCK>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let one = good(app.device.create_resource(at, &ResourceDescription::texture(8, 8)));
            good(app.device.lock(at, (one, 0), LockRequest::default()));
            let second = app.device.lock(at, (one, 0), LockRequest::default());
            assert_eq!(second.map(drop), Err(E_INVALIDARG));
            good(app.device.unlock(at, (one, 0)));
            assert_eq!(app.device.destroy_resource(at, one), Ok(()));
        },
    );
    let rules: Vec<RuleId> = accused(&events).into_iter().map(|entry| entry.1).collect();
    assert_eq!(rules, [RuleId::UMD_LOCK_001]);
}

#[test]
fn an_application_may_destroy_a_resource_whose_memory_its_driver_freed() {
    let umd = drivers::umd_from_rust::<Plain<FREES_IN_FLUSH>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |_, at, app, _| {
            let device = &app.device;
            let (one, _left) = (
                good(device.create_resource(at, &ResourceDescription::texture(8, 8))),
                good(device.create_resource(at, &ResourceDescription::texture(8, 8))),
            );
            assert_eq!(device.flush(at), Ok(()));
            assert_eq!(device.destroy_resource(at, one), Ok(()));
        },
    );
    assert_eq!(accused(&events), NONE);
}

#[test]
fn a_resource_freed_after_a_failed_open_is_not_freed_again() {
    let umd = drivers::umd_from_rust::<Plain<FREES_AFTER_FAILED_OPEN>>();
    let events = run_application(
        "softgpu-allocation-lists",
        HostKind::deterministic(1),
        &umd,
        |testbed, at, app, runtime| {
            let other = Application::open(runtime, &Client::new(&testbed.kernel), &umd, at);
            let other = other.unwrap_or_else(|why| panic!("{why}"));
            let made =
                good(app.device.create_resource(at, &ResourceDescription::texture(8, 8).shared()));
            let global = good(app.device.share(made));
            assert_eq!(other.device.open_resource(at, global), Err(E_OUTOFMEMORY));
            other.close(at).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!(app.device.destroy_resource(at, made), Ok(()));
        },
    );
    assert_eq!(accused(&events), NONE);
}

/// Runs two bodies on a device that both may use.
fn two(
    testbed: &KernelTestbed,
    at: &mut Passive,
    device: &Device,
    bodies: [fn(&Device, &mut Passive, runtime::Resource); 2],
    made: runtime::Resource,
) {
    let spawn = |body: fn(&Device, &mut Passive, runtime::Resource)| {
        let device = device.clone();
        testbed.host.spawn("client", move |at| body(&device, at, made))
    };
    for end in bodies.map(spawn) {
        testbed.host.park(at, &end, None);
    }
}

#[test]
fn work_of_another_thread_is_not_attributed_to_a_call() {
    for driver in ["softgpu-allocation-lists", "softgpu-gpummu", "softgpu-memory"] {
        let listed = drivers::find(driver).unwrap_or_else(|| panic!("there is no {driver}"));
        let umd = listed.umd.unwrap_or_else(|| panic!("it has a user-mode driver"))();
        for on in (0..30).map(HostKind::deterministic).chain([HostKind::Threaded; 10]) {
            let events = run_application(driver, on, &umd, |testbed, at, app, _| {
                let device = good(app.adapter.create_shared_device(at));
                let made = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
                let draws = |device: &Device, at: &mut Passive, made| {
                    for color in 0..6 {
                        good(device.color_fill(at, (made, 0), WHOLE, color));
                        good(device.flush(at));
                    }
                };
                let makes = |device: &Device, at: &mut Passive, _| {
                    for _ in 0..6 {
                        let one =
                            good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
                        good(device.lock_async(at, (one, 0), false));
                        good(device.unlock_async(at, (one, 0)));
                        good(device.destroy_resource(at, one));
                    }
                };
                two(testbed, at, &device, [draws, makes], made);
                good(device.destroy(at));
                assert_eq!(device.live_objects(), 0);
            });
            assert_eq!(accused(&events), NONE, "{driver}, {on:?}");
        }
    }
}

#[test]
fn destroying_a_resource_in_use_is_not_the_drivers_fault() {
    let umd = drivers::umd_from_rust::<Plain<NOTHING>>();
    for on in (0..60).map(HostKind::deterministic).chain([HostKind::Threaded; 60]) {
        let events =
            run_application("softgpu-allocation-lists", on, &umd, |testbed, at, app, _| {
                let device = good(app.adapter.create_shared_device(at));
                let made = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
                let locks = |device: &Device, at: &mut Passive, made| {
                    let mut buffer = ResourceDescription::texture(8, 8);
                    buffer.flags = D3DDDI_RESOURCEFLAGS::VertexBuffer;
                    for _ in 0..2 {
                        let _ = device.lock(at, (made, 0), LockRequest::default());
                        let _ = device.create_resource(at, &buffer);
                    }
                    for _ in 0..2 {
                        let _ = device.unlock(at, (made, 0));
                    }
                };
                let drops = |device: &Device, at: &mut Passive, made| {
                    let _ = device.destroy_resource(at, made);
                    let _ = device.destroy(at);
                };
                two(testbed, at, &device, [locks, drops], made);
                assert_eq!(device.live_objects(), 0);
            });
        let findings = accused(&events);
        assert!(findings.iter().all(|entry| entry.0 == Component::Client), "{on:?}: {findings:?}");
    }
}

#[test]
fn a_wait_for_a_driver_that_never_returns_ends() {
    let umd = drivers::umd_from_rust::<Plain<WAITS_IN_FLUSH>>();
    for seed in 0..8 {
        let events = run_application(
            "softgpu-gpummu",
            HostKind::deterministic(seed),
            &umd,
            |testbed, at, app, _| {
                let device = good(app.adapter.create_shared_device(at));
                let made = good(device.create_resource(at, &ResourceDescription::texture(8, 8)));
                let waits = |device: &Device, at: &mut Passive, _| {
                    assert_ne!(device.flush(at).err().unwrap_or(S_OK), S_OK);
                };
                two(testbed, at, &device, [waits, waits], made);
                good(device.destroy(at));
            },
        );
        let findings = accused(&events);
        assert!(
            findings.iter().any(|entry| entry.1 == RuleId::WT_STUCK_001),
            "seed {seed}: {findings:?}"
        );
    }
}

/// How often adapters of [`Slow`] were closed.
static CLOSED: AtomicUsize = AtomicUsize::new(0);

/// A driver that is slow to close.
struct Slow;

impl UserDriver for Slow {
    fn open(
        _order: &OpenAdapterArgs,
        _callbacks: AdapterCallbacks,
    ) -> UmdResult<Box<dyn UserAdapter>> {
        Ok(Box::new(Self))
    }
}

impl UserAdapter for Slow {
    fn caps(&self, _kind: i32, _answer: &mut [u8]) -> UmdResult<()> {
        Ok(())
    }

    fn create_device(&self, _: &CreateDeviceArgs, _: Callbacks) -> UmdResult<Box<dyn UserDevice>> {
        Err(E_OUTOFMEMORY)
    }

    fn close(&self) -> UmdResult<()> {
        CLOSED.fetch_add(1, SeqCst);
        std::thread::sleep(std::time::Duration::from_millis(50));
        Ok(())
    }
}

#[test]
fn an_adapter_that_two_threads_close_is_closed_once() {
    let umd = drivers::umd_from_rust::<Slow>();
    let listed =
        drivers::find("softgpu-allocation-lists").unwrap_or_else(|| panic!("it is in the list"));
    run(HostKind::Threaded, listed.make, |testbed, at| {
        let client = Client::new(&testbed.kernel);
        let kernel = client.adapters(at).unwrap_or_default()[0];
        let adapter = Runtime::new(&testbed.kernel).open(&client, kernel, &umd);
        let adapter = adapter.unwrap_or_else(|why| panic!("{}", why.reason));
        let spawn = |_: u32| {
            let adapter = adapter.clone();
            testbed.host.spawn("client", move |_| {
                let _ = adapter.close(); // All but one are refused.
            })
        };
        for end in [1, 2, 3].map(spawn) {
            testbed.host.park(at, &end, None);
        }
        assert_eq!(CLOSED.load(SeqCst), 1);
        assert_eq!(adapter.create_device(at).err(), Some(E_INVALIDARG), "it is closed");
        assert_eq!(client.close_adapter(at, kernel), Ok(()));
        client.end(at);
    });
}
