//! A hostile application: every call on a user-mode driver's device returns.
#![forbid(unsafe_code)]

use abi::hresult::{D3DERR_OUTOFVIDEOMEMORY, E_INVALIDARG, E_NOTIMPL, E_OUTOFMEMORY, S_OK};
use flight::{Component, Passive};
use harness::application_calls::{CALLS, WHOLE, text};
use harness::{KernelTestbed, run, verified};
use runtime::{Device, LockRequest, Rect, ResourceDescription, Runtime, Surface};
use thunk::Client;
use windtunnel::{Application, HostKind};

/// The good driver of a GPU, and an application on it.
fn with_good(driver: &str, body: impl Fn(&KernelTestbed, &mut Passive, &Application)) {
    let listed = drivers::find(driver).unwrap_or_else(|| panic!("there is no {driver}"));
    let umd = listed.umd.unwrap_or_else(|| panic!("{driver} has no user-mode driver"))();
    let events = run(HostKind::deterministic(1), listed.make, |testbed, at| {
        let runtime = Runtime::new(&testbed.kernel);
        let app = Application::open(&runtime, &Client::new(&testbed.kernel), &umd, at);
        let app = app.unwrap_or_else(|why| panic!("{why}"));
        body(testbed, at, &app);
    });
    for finding in verified(&events).findings() {
        assert_eq!(finding.component, Component::Client, "{}", finding.message);
    }
}

const DRIVERS: [&str; 3] = ["softgpu-allocation-lists", "softgpu-gpummu", "softgpu-memory"];

#[test]
fn a_destroyed_object_of_an_application_is_rejected() {
    for driver in DRIVERS {
        with_good(driver, |_, at, app| {
            let (texture, one) = (ResourceDescription::texture(8, 8), &app.device);
            let other = app.another_device(at).unwrap_or_else(|why| panic!("{why}")).device;
            let lost = app.another_device(at).unwrap_or_else(|why| panic!("{why}")).device;
            let make = |at: &mut Passive, it: &Device| {
                it.create_resource(at, &texture).unwrap_or_else(|why| panic!("{}", text(why)))
            };
            let (mine, dropped) = (make(at, one), make(at, one));
            let (client_frames, of_lost) = (make(at, &other), make(at, &lost));
            assert_eq!(one.destroy_resource(at, dropped), Ok(()));
            assert_eq!(lost.destroy(at), Ok(()));
            assert_eq!(lost.destroy(at), Err(E_INVALIDARG), "a device goes once");
            let mapped = one.lock(at, (mine, 0), LockRequest::default());
            let mapped = mapped.unwrap_or_else(|why| panic!("{}", text(why)));
            assert_eq!(one.unlock(at, (mine, 0)), Ok(()));
            for (what, device, resource) in [
                ("dropped", one, dropped),
                ("another device's", one, client_frames),
                ("a destroyed device's", one, of_lost),
                ("of a device that is destroyed", &lost, of_lost),
                ("another's of a device that is destroyed", &lost, mine),
            ] {
                for (slot, called) in CALLS {
                    // These name no resource.
                    let free =
                        ["pfnCreateResource", "pfnCreateResource2", "pfnFlush", "pfnDestroyDevice"];
                    if free.contains(slot) && std::ptr::eq(device, one) {
                        continue;
                    }
                    assert_eq!(
                        called(device, at, resource),
                        Err(E_INVALIDARG),
                        "{driver}: {slot} of one that is {what}"
                    );
                }
                assert_eq!(device.share(resource), Err(E_INVALIDARG), "{what}");
                assert_eq!(device.rename(at, (resource, 0), &mapped), Err(E_INVALIDARG), "{what}");
                let both = |from, to| ((from, 0, WHOLE), (to, 0, WHOLE));
                let (from, to) = both(mine, resource);
                assert_eq!(device.blt(at, from, to), Err(E_INVALIDARG), "{what}");
                let (from, to) = both(resource, mine);
                assert_eq!(device.blt(at, from, to), Err(E_INVALIDARG), "{what}");
                assert_eq!(device.residency(at, &[mine, resource]), Err(E_INVALIDARG), "{what}");
            }
            assert_eq!(
                lost.open_resource(at, 0x1234),
                Err(E_INVALIDARG),
                "of a device that is gone"
            );
            assert_eq!(one.open_resource(at, 0), Err(E_INVALIDARG), "of nothing");
            assert_eq!(
                one.open_resource(at, u32::MAX),
                Err(E_INVALIDARG),
                "of a handle that is none"
            );
            assert_eq!(one.share(mine), Err(E_INVALIDARG), "it is not shared");
            assert_eq!(app.adapter.close(), Err(E_INVALIDARG), "it has devices");
            assert_eq!(other.destroy(at), Ok(()));
            assert_eq!(
                (one.live_objects() > 0, other.live_objects(), lost.live_objects()),
                (true, 0, 0)
            );
            assert!(app.close(at).is_ok());
            assert_eq!(app.adapter.close(), Err(E_INVALIDARG), "it is closed");
            assert_eq!(app.adapter.create_device(at).err(), Some(E_INVALIDARG), "it is closed");
            assert_eq!(app.adapter.create_shared_device(at).err(), Some(E_INVALIDARG));
            assert_eq!(one.live_objects(), 0);
        });
    }
}

#[test]
fn an_impossible_request_of_an_application_fails() {
    for driver in DRIVERS {
        with_good(driver, |_, at, app| {
            let one = &app.device;
            let surface = |width, height| Surface { width, height };
            let huge = [
                surface(u32::MAX, u32::MAX),
                surface(u32::MAX, 1),
                surface(1, u32::MAX),
                surface(0x8000_0000, 0x8000_0000),
                surface(0x4000_0000, 1),
                surface(0x1_0000, 0x1_0000),
            ];
            for it in huge {
                let wanted = ResourceDescription::texture(it.width, it.height);
                for wanted in [wanted.clone(), wanted.clone().shared(), wanted.in_system_memory()] {
                    let made = one.create_resource(at, &wanted);
                    let refused = [E_OUTOFMEMORY, E_INVALIDARG, D3DERR_OUTOFVIDEOMEMORY];
                    let answer = made.err().unwrap_or(S_OK);
                    assert!(
                        refused.contains(&answer),
                        "{driver}: {it:?} is answered {}",
                        text(answer)
                    );
                }
            }
            // No surface, and surfaces without pixels.
            let empty = ResourceDescription::group(0, 8, 8);
            for wanted in [empty.clone(), empty.clone().shared(), empty.in_system_memory()] {
                assert_eq!(
                    one.create_resource(at, &wanted),
                    Err(E_INVALIDARG),
                    "{driver}: an empty group"
                );
            }
            for (width, height) in [(0, 0), (0, 8), (8, 0)] {
                for wanted in [
                    ResourceDescription::texture(width, height),
                    ResourceDescription::texture(width, height).in_system_memory(),
                ] {
                    if let Ok(made) = one.create_resource(at, &wanted) {
                        let mapped = one.lock(at, (made, 0), LockRequest::default());
                        if let Ok(mapped) = mapped {
                            assert_eq!(mapped.read(), [0_u8; 0]);
                            mapped.write(&[1, 2, 3]);
                            assert_eq!(one.unlock(at, (made, 0)), Ok(()));
                        }
                        assert_eq!(one.destroy_resource(at, made), Ok(()));
                    }
                }
            }
            let pair = one.create_resource(at, &ResourceDescription::group(2, 8, 8));
            let pair = pair.unwrap_or_else(|why| panic!("{}", text(why)));
            let areas = [
                Rect { left: 0, top: 0, right: 9, bottom: 8 },
                Rect { left: 0, top: 0, right: 8, bottom: 9 },
                Rect { left: 8, top: 0, right: 0, bottom: 8 },
                Rect { left: 0, top: 8, right: 8, bottom: 0 },
                Rect { left: u32::MAX, top: 0, right: u32::MAX, bottom: 8 },
                Rect { left: 0, top: 0, right: u32::MAX, bottom: u32::MAX },
                Rect {
                    left: 0x8000_0000,
                    top: 0x8000_0000,
                    right: 0x8000_0001,
                    bottom: 0x8000_0001,
                },
            ];
            for area in areas {
                assert_eq!(one.color_fill(at, (pair, 0), area, 1), Err(E_INVALIDARG), "{area:?}");
                for (from, to) in [(area, WHOLE), (WHOLE, area), (area, area)] {
                    let copied = one.blt(at, (pair, 0, from), (pair, 1, to));
                    // Another size is a stretch, which this driver does not support.
                    assert!(
                        [Err(E_INVALIDARG), Err(E_NOTIMPL)].contains(&copied),
                        "{from:?} to {to:?}: {copied:x?}"
                    );
                }
            }
            for beyond in [2, 3, 0x7fff_ffff, u32::MAX] {
                let place = (pair, beyond);
                let answers = [
                    one.color_fill(at, place, WHOLE, 1),
                    one.blt(at, (pair, beyond, WHOLE), (pair, 0, WHOLE)),
                    one.blt(at, (pair, 0, WHOLE), (pair, beyond, WHOLE)),
                    one.lock(at, place, LockRequest::default()).map(drop),
                    one.lock_async(at, place, true).map(drop),
                    one.unlock(at, place),
                    one.unlock_async(at, place),
                ];
                assert_eq!(answers, [Err(E_INVALIDARG); 7], "{driver}: surface {beyond} of 2");
            }
            assert_eq!(one.unlock(at, (pair, 0)), Err(E_INVALIDARG), "it is not locked");
            assert_eq!(one.unlock_async(at, (pair, 0)), Err(E_INVALIDARG), "it is not locked");
            assert_eq!(one.residency(at, &[]), Ok(S_OK), "of nothing");
            assert_eq!(one.flush(at), Ok(()));
            assert!(app.close(at).is_ok());
        });
    }
}

#[test]
fn an_object_destroyed_by_two_threads_ends_once() {
    let listed =
        drivers::find("softgpu-allocation-lists").unwrap_or_else(|| panic!("it is in the list"));
    let umd = listed.umd.unwrap_or_else(|| panic!("it has a user-mode driver"))();
    for on in (0..20).map(HostKind::deterministic).chain([HostKind::Threaded; 20]) {
        run(on, listed.make, |testbed, at| {
            let client = Client::new(&testbed.kernel);
            let kernel = client.adapters(at).unwrap_or_default()[0];
            let adapter = Runtime::new(&testbed.kernel).open(&client, kernel, &umd);
            let adapter = adapter.unwrap_or_else(|why| panic!("{}", why.reason));
            let device = adapter.create_shared_device(at);
            let device = device.unwrap_or_else(|why| panic!("{}", text(why)));
            let made = device.create_resource(at, &ResourceDescription::texture(8, 8));
            let made = made.unwrap_or_else(|why| panic!("{}", text(why)));
            let (sender, receiver) = std::sync::mpsc::channel();
            let spawn = |number: u32| {
                let (device, sender) = (device.clone(), sender.clone());
                testbed.host.spawn(&format!("client {number}"), move |at| {
                    let _ = device.color_fill(at, (made, 0), WHOLE, number);
                    let dropped = device.destroy_resource(at, made);
                    let _ = device.flush(at);
                    let _ = sender.send((dropped, device.destroy(at)));
                })
            };
            for end in [spawn(1), spawn(2)] {
                testbed.host.park(at, &end, None);
            }
            let mut answers: Vec<_> = receiver.try_iter().map(|pair| pair.1).collect();
            answers.sort();
            assert_eq!(answers, [Ok(()), Err(E_INVALIDARG)], "{on:?}");
            assert_eq!(device.live_objects(), 0);
            assert_eq!(adapter.close(), Ok(()));
            close(at, &client, kernel);
        });
    }
}

fn close(at: &mut Passive, client: &Client, kernel: u32) {
    assert_eq!(client.close_adapter(at, kernel), Ok(()));
    client.end(at);
}
