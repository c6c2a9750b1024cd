//! Shared resources: observed results of Windows, and objects that several devices keep alive.
#![expect(unsafe_code, reason = "calls the entry points as an application would")]
#![expect(clippy::unwrap_used, reason = "a call that fails is a failed test")]

use abi::kmt::{
    D3DKMT_CREATEALLOCATIONFLAGS as Flags, D3DKMT_DEVICEEXECUTION_ACTIVE,
    D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT, D3DKMT_DEVICEEXECUTION_HUNG, D3DKMT_OPENRESOURCE,
    D3DKMT_QUERYRESOURCEINFO,
};
use abi::status::{
    STATUS_DEVICE_REMOVED, STATUS_INVALID_PARAMETER as INVALID, STATUS_NO_MEMORY,
    STATUS_SUCCESS as SUCCESS,
};
use abi::ukm::{D3DDDI_OPENALLOCATIONINFO, D3DDDI_OPENALLOCATIONINFO2};
use abi::{D3DKMT_HANDLE, NTSTATUS};
use flight::{EventKind, Kind, Passive};
use harness::{KernelTestbed, VariantDriver, run, softgpu, verified};
use kernel::miniport::Generation;
use kernel::{Handle, KernelError, NtAccess, NtObjectKind, ShareObjectsRequest};
use server::NtDescriptors;
use softgpu::format::{Command, describe};
use std::sync::LazyLock;
use std::sync::mpsc::channel;
use std::time::Duration;
use thunk::{
    Client, ClientMemory, CreateAllocation, CreatedAllocation, DestroyAllocation, NtHandles as _,
};
use windtunnel::{HostKind, TestClient};

const RUNTIME: &[u8] = b"1234";

fn test_client(testbed: &KernelTestbed, at: &mut Passive) -> TestClient {
    TestClient::open(Client::new(&testbed.kernel), at).unwrap()
}

/// A shared standard allocation with four bytes of runtime data.
fn standard(test_client: &TestClient, at: &mut Passive, flags: u32) -> CreatedAllocation {
    static MEMORY: LazyLock<ClientMemory> = LazyLock::new(|| ClientMemory::new(1));
    let (address, bytes) = (MEMORY.address(), MEMORY.bytes());
    let create = CreateAllocation::new_standard(test_client.device, address, bytes).with_resource();
    let flags = create.flags | Flags::CreateShared | flags;
    test_client
        .create_with(at, &CreateAllocation { flags, runtime: RUNTIME.to_vec(), ..create })
        .unwrap()
}

fn query(
    test_client: &TestClient,
    at: &mut Passive,
    args: &mut D3DKMT_QUERYRESOURCEINFO,
) -> NTSTATUS {
    // SAFETY: `args` is valid, and its buffer is NULL or lives as long as `args`.
    unsafe { thunk::D3DKMTQueryResourceInfo(test_client.client.session(), at, args) }
}

/// An open call with room for everything, changed by `change` before the call.
fn open(
    test_client: &TestClient,
    at: &mut Passive,
    global: D3DKMT_HANDLE,
    change: impl FnOnce(&mut D3DKMT_OPENRESOURCE),
) -> (NTSTATUS, D3DKMT_OPENRESOURCE, D3DDDI_OPENALLOCATIONINFO, Vec<u8>) {
    let mut untouched = [0xcc_u8; 64];
    let (mut runtime, mut total) = (vec![0_u8; 64], vec![0xcc_u8; 0x1000]);
    let mut info = D3DDDI_OPENALLOCATIONINFO::ZERO;
    info.pPrivateDriverData = untouched.as_ptr().cast();
    let mut args = D3DKMT_OPENRESOURCE::ZERO;
    (args.hDevice, args.hGlobalShare, args.NumAllocations) = (test_client.device, global, 1);
    args.pOpenAllocationInfo = &raw mut info;
    args.pPrivateRuntimeData = runtime.as_mut_ptr().cast();
    args.PrivateRuntimeDataSize = 4;
    args.pResourcePrivateDriverData = untouched.as_mut_ptr().cast();
    args.ResourcePrivateDriverDataSize = 0;
    args.pTotalPrivateDriverDataBuffer = total.as_mut_ptr().cast();
    args.TotalPrivateDriverDataBufferSize = 0x1000;
    change(&mut args);
    // SAFETY: All arguments are locals and at least as long as `args` states.
    let status =
        unsafe { thunk::D3DKMTOpenResource(test_client.client.session(), at, &raw mut args) };
    assert_eq!(untouched, [0xcc; 64], "the caller's other buffers are not written");
    if status == SUCCESS {
        assert_eq!(&runtime[..4], RUNTIME, "the runtime's data is handed out as it was given");
        let written = args.TotalPrivateDriverDataBufferSize as usize;
        assert!(total[written..].iter().all(|byte| *byte == 0xcc), "and nothing behind it");
        total.truncate(written);
    }
    (status, args, info, total)
}

#[test]
fn a_global_handle_is_returned_and_queried() {
    let events = run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let made = standard(&test_client, at, 0);
        assert_eq!(made.global & 0x3f, 2, "row 160: a global handle ends in two");
        let nt = standard(&test_client, at, Flags::NtSecuritySharing);
        assert_eq!(nt.global, 0, "row 171: none when it is shared for NT handles");
        let mut buffer = [0xcc_u8; 0x100];
        for size in [0, 0x100] {
            let mut args = D3DKMT_QUERYRESOURCEINFO::ZERO;
            (args.hDevice, args.hGlobalShare) = (test_client.device, made.global);
            (args.pPrivateRuntimeData, args.PrivateRuntimeDataSize) =
                (buffer.as_mut_ptr().cast(), size);
            assert_eq!(query(&test_client, at, &mut args), SUCCESS);
            assert_eq!((args.PrivateRuntimeDataSize, args.NumAllocations), (4, 1));
            let total = args.TotalPrivateDriverDataSize;
            assert!(total > 0 && total < 0x1000, "row 162: the driver supplied {total}");
            assert_eq!(buffer, [0xcc; 0x100], "the query copies nothing");
        }
        for wrong in [0, 0x1ead_beed, made.resource, nt.resource] {
            let mut args = D3DKMT_QUERYRESOURCEINFO::ZERO;
            (args.hDevice, args.hGlobalShare) = (test_client.device, wrong);
            assert_eq!(
                query(&test_client, at, &mut args),
                INVALID,
                "{wrong:#x} is no global handle"
            );
        }
        test_client.destroy_resource(at, made.resource).unwrap();
        test_client.destroy_resource(at, nt.resource).unwrap();
        test_client.close(at, &[]).unwrap();
    });
    let expected = ["ALLOC-CREATE-011", "ALLOC-SHARE-010"];
    assert!(
        verified(&events).findings().iter().all(|finding| expected.contains(&finding.rule.name()))
    );
}

#[test]
fn an_opener_passes_exact_sizes_and_gets_its_own_handles() {
    run(1, softgpu, |testbed, at| {
        let (maker, opener) = (test_client(testbed, at), test_client(testbed, at));
        let made = standard(&maker, at, 0);
        let (status, args, info, total) = open(&opener, at, made.global, |_| ());
        assert_eq!(status, SUCCESS, "row 163: a larger total buffer is fine");
        assert_eq!(args.hGlobalShare, made.global, "row 163: the field stays");
        assert_eq!(info.hAllocation, args.hResource + 0x40, "row 8: the resource is named first");
        assert_eq!(info.PrivateDriverDataSize as usize, total.len(), "row 165");
        assert_eq!(total, describe(0x1000), "the driver's data, in the total buffer only");
        let refused = |at: &mut Passive, change: fn(&mut D3DKMT_OPENRESOURCE)| {
            open(&opener, at, made.global, change).0
        };
        assert_eq!(refused(at, |raw| raw.hGlobalShare = raw.hDevice), INVALID, "row 159");
        assert_eq!(refused(at, |raw| raw.PrivateRuntimeDataSize += 1), INVALID, "row 168");
        assert_eq!(refused(at, |raw| raw.ResourcePrivateDriverDataSize += 1), INVALID, "row 169");
        assert_eq!(refused(at, |raw| raw.NumAllocations = 0), INVALID);
        assert_eq!(
            refused(at, |raw| raw.pOpenAllocationInfo = std::ptr::null_mut()),
            INVALID,
            "row 202, on the NT form"
        );
        assert_eq!(
            refused(at, |raw| raw.TotalPrivateDriverDataBufferSize = 15),
            STATUS_NO_MEMORY,
            "row 207, on the NT form"
        );
        let (status, again, ..) = open(&opener, at, made.global, |_| ());
        assert_eq!(status, SUCCESS, "a device may open it twice");
        assert_eq!(again.hResource, args.hResource + 0x80, "refused opens use up no number");
        // Rows 166, 172: each is destroyed separately, the opened copies first.
        for resource in [args.hResource, again.hResource] {
            opener.destroy_resource(at, resource).unwrap();
        }
        maker.destroy_resource(at, made.resource).unwrap();
        assert_eq!(open(&opener, at, made.global, |_| ()).0, INVALID, "the global name is gone");
        maker.close(at, &[]).unwrap();
        opener.close(at, &[]).unwrap();
    });
}

#[test]
fn the_second_version_opens_the_same_way() {
    run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let made = standard(&test_client, at, 0);
        let (mut runtime, mut total) = ([0_u8; 4], [0_u8; 16]);
        let mut info = D3DDDI_OPENALLOCATIONINFO2::ZERO;
        let mut args = D3DKMT_OPENRESOURCE::ZERO;
        (args.hDevice, args.hGlobalShare, args.NumAllocations) =
            (test_client.device, made.global, 1);
        args.pOpenAllocationInfo = (&raw mut info).cast();
        args.pPrivateRuntimeData = runtime.as_mut_ptr().cast();
        args.PrivateRuntimeDataSize = 4;
        args.ResourcePrivateDriverDataSize = 0;
        args.pTotalPrivateDriverDataBuffer = total.as_mut_ptr().cast();
        args.TotalPrivateDriverDataBufferSize = 16;
        // SAFETY: All arguments are locals and as long as `args` states.
        let status =
            unsafe { thunk::D3DKMTOpenResource2(test_client.client.session(), at, &raw mut args) };
        assert_eq!((status, &runtime[..]), (SUCCESS, RUNTIME));
        test_client.destroy_resource(at, args.hResource).unwrap();
        test_client.destroy_resource(at, made.resource).unwrap();
        test_client.close(at, &[]).unwrap();
    });
}

#[test]
fn a_resource_outlives_its_creator_and_is_destroyed_once() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let events = run(1, softgpu, |testbed, at| {
            let benches =
                [test_client(testbed, at), test_client(testbed, at), test_client(testbed, at)];
            let create =
                CreateAllocation::new(benches[0].device, vec![describe(4096); 2]).with_resource();
            let flags = create.flags | Flags::CreateShared;
            let made = benches[0].create_with(at, &CreateAllocation { flags, ..create }).unwrap();
            let mut names = vec![made.resource];
            for it in &benches[1..] {
                let opened = it.client.open_resource(at, it.device, made.global).unwrap();
                names.push(opened.resource);
            }
            for it in order {
                benches[it].destroy_resource(at, names[it]).unwrap();
                benches[it].close(at, &[]).unwrap();
            }
        });
        assert!(verified(&events).findings().is_empty(), "{order:?}");
        let calls = events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::DdiDestroys { .. }))
            .count();
        assert_eq!(calls, 2, "each allocation once, {order:?}");
        let gone =
            events.iter().position(|event| event.kind == EventKind::ResourceDestroyed {}).unwrap();
        let last = Kind::ResourceView.subject(u32::try_from(order[2] + 1).unwrap());
        let closed = events.iter().position(|event| {
            event.subject == last && event.kind == EventKind::ResourceViewClosed {}
        });
        assert!(closed.unwrap() < gone, "it goes with the last view, {order:?}");
    }
}

#[test]
fn an_open_that_fails_leaves_the_others_alone() {
    let variant = VariantDriver::of(Generation::Two);
    let events = run(
        1,
        |log| variant.set_up(log),
        |testbed, at| {
            let (maker, opener) = (test_client(testbed, at), test_client(testbed, at));
            let create =
                CreateAllocation::new(maker.device, vec![describe(4096); 2]).with_resource();
            let flags = create.flags | Flags::CreateShared;
            let made = maker.create_with(at, &CreateAllocation { flags, ..create }).unwrap();
            variant.set_fail_open(true);
            let refused = opener.client.open_resource(at, opener.device, made.global);
            assert_eq!(refused.err(), Some(STATUS_NO_MEMORY));
            variant.set_fail_open(false);
            opener.client.open_resource(at, opener.device, made.global).unwrap();
            maker.close(at, &[]).unwrap();
            opener.close(at, &[]).unwrap();
        },
    );
    assert!(verified(&events).findings().is_empty());
}

#[test]
fn a_lost_device_reports_the_reason_and_stays_lost() {
    run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let state =
            |at: &mut Passive| test_client.client.device_state(at, test_client.device).unwrap();
        assert_eq!(state(at), D3DKMT_DEVICEEXECUTION_ACTIVE);
        let context = test_client.create_context(at).unwrap();
        let submitted = test_client.client.submit(at, context, b"nonsense");
        assert_eq!(submitted, Err(STATUS_DEVICE_REMOVED));
        assert_eq!(state(at), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
        assert_eq!(test_client.client.submit(at, context, b""), Err(STATUS_DEVICE_REMOVED));
        assert_eq!(state(at), D3DKMT_DEVICEEXECUTION_ERROR_DMAFAULT);
        test_client.close(at, &[context]).unwrap();
    });
    run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let (context, other) =
            (test_client.create_context(at).unwrap(), test_client.create_context(at).unwrap());
        test_client.submit(at, context, &[Command::Hang]).unwrap();
        let made = test_client.create(at, 1).unwrap();
        let destroy = DestroyAllocation {
            device: test_client.device,
            list: made.allocations,
            synchronous: true,
            ..DestroyAllocation::default()
        };
        assert_eq!(test_client.client.destroy(at, &destroy), Ok(()));
        let state = test_client.client.device_state(at, test_client.device);
        assert_eq!(state, Ok(D3DKMT_DEVICEEXECUTION_HUNG), "its engine was reset");
        test_client.client.destroy_context(at, context).unwrap();
        test_client.close(at, &[other]).unwrap();
    });
}

#[test]
fn there_is_no_ceiling_for_devices_and_contexts() {
    run(1, softgpu, |testbed, at| {
        let test_client = test_client(testbed, at);
        let devices: Vec<_> = (0..3000).map(|_| test_client.create_device(at).unwrap()).collect();
        for _ in 0..3000 {
            test_client.create_context(at).unwrap();
        }
        for device in devices {
            test_client.client.destroy_device(at, device).unwrap();
        }
        test_client.close(at, &[]).unwrap();
    });
}

/// An allocation that an NT handle keeps alive outlives a synchronous destroy. One whose last NT handle
/// was closed before is destroyed when the call returns, although the end of the NT object is a job.
#[test]
fn a_synchronous_destroy_waits_for_a_closed_nt_handle_and_not_for_an_open_one() {
    for open in [false, true] {
        let events = run(1, softgpu, |testbed, at| {
            let (test_client, kernel) = (test_client(testbed, at), &testbed.kernel);
            let created = standard(&test_client, at, Flags::NtSecuritySharing);
            let process = test_client.client.session().process();
            let objects = &[Handle(created.resource)];
            let request =
                ShareObjectsRequest { objects, name: None, access: NtAccess::ALL, owned: false };
            let handle = kernel.share_objects(process, &request).unwrap();
            if !open {
                assert!(kernel.release_nt_handle(handle));
            }
            let (device, resource) = (test_client.device, created.resource);
            let destroy = DestroyAllocation { device, resource, ..DestroyAllocation::default() };
            let destroy = DestroyAllocation { synchronous: true, ..destroy };
            assert_eq!(test_client.client.destroy(at, &destroy), Ok(()));
            if open {
                assert!(kernel.release_nt_handle(handle));
            }
            kernel.end_released_resources(at);
            test_client.close(at, &[]).unwrap();
        });
        // The standard allocation of these tests is a note.
        let noted = "ALLOC-CREATE-011";
        let verifier = verified(&events);
        let mut findings = verifier.findings().iter().map(|finding| finding.rule.name());
        assert_eq!(findings.find(|rule| *rule != noted), None, "{open}");
        let place = |wanted: fn(&EventKind) -> bool| {
            events.iter().position(|event| wanted(&event.kind)).unwrap()
        };
        let destroyed = place(|kind| matches!(kind, EventKind::AllocationDestroyed {}));
        let returned = place(|kind| matches!(kind, EventKind::RetireReturned { .. }));
        assert_eq!(destroyed > returned, open);
    }
}

/// Two threads look for closed NT handles at one time. The one that finds none returns after the
/// other has closed the handle in the kernel: a name is not found after the last close.
#[test]
fn a_name_is_gone_when_a_look_for_closed_nt_handles_returns() {
    run(HostKind::Threaded, softgpu, |testbed, at| {
        let (test_client, kernel) = (test_client(testbed, at), &testbed.kernel);
        let created = standard(&test_client, at, Flags::NtSecuritySharing);
        let process = test_client.client.session().process();
        let request = ShareObjectsRequest {
            objects: &[Handle(created.resource)],
            name: Some("shared"),
            access: NtAccess::ALL,
            owned: false,
        };
        let handle = kernel.share_objects(process, &request).unwrap();
        let descriptors = NtDescriptors::default();
        drop(descriptors.create(handle).unwrap()); // The only descriptor: the handle is closed.
        let (begins, begun) = channel();
        let (ends, ended) = channel::<()>();
        std::thread::scope(|scope| {
            let descriptors = &descriptors;
            scope.spawn(move || {
                descriptors.close_closed(&mut |handle| {
                    begins.send(()).unwrap();
                    // The other thread has time to return, if it does not wait.
                    let _ = ended.recv_timeout(Duration::from_millis(300));
                    kernel.release_nt_handle(handle);
                });
            });
            begun.recv().unwrap();
            descriptors.close_closed(&mut |_| panic!("the handle is closed once"));
            let open = |kind| kernel.open_nt_name(process, kind, "shared", NtAccess::ALL, false);
            let found = open(NtObjectKind::Resource).map(|_| ());
            let _ = ends.send(()); // The other thread may be past its wait.
            assert!(matches!(found, Err(KernelError::NameNotFound)), "{found:?}");
        });
        kernel.end_released_resources(at);
        test_client.destroy_resource(at, created.resource).unwrap();
        test_client.close(at, &[]).unwrap();
    });
}
