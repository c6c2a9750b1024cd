//! Tests of device objects and requests.

use super::*;
use crate::entry::tests::{TestString, call, count, fly, fly_with};
use crate::executive::{DeviceControl, RequestHandler};
use crate::io_irp::*;
use crate::io_layout::{irp, stack};
use crate::status::{STATUS_INVALID_DEVICE_REQUEST, STATUS_MORE_PROCESSING_REQUIRED};
use abi::PIRP;
use std::sync::Arc;

fn memory<T>(pointer: *mut T) -> DriverMemory {
    call!(DriverMemory::at::<T>, pointer)
}

fn create(driver_object: &DriverObject, name: Option<&str>, extension: u32) -> (NTSTATUS, PVOID) {
    let mut device = null_mut();
    let mut name = name.map(TestString::new);
    let name = name.as_mut().map_or(null_mut(), TestString::pointer);
    let (of, to) = (driver_object.pointer(), &raw mut device);
    let status = call!(IoCreateDevice, of, extension, name.cast(), 0x23, 0x100, 0, to);
    (status, device)
}

#[test]
fn a_driver_object_has_the_layout_of_windows() {
    let executive = Executive::new("wind");
    let object = DriverObject::new(&executive);
    let fields = memory(object.pointer());
    assert_eq!((fields.read::<i16>(0), fields.read::<i16>(2)), (4, 0x150));
    assert_eq!(CountedString::in_memory(fields.part(0x38)).text(), r"\Driver\wind");
    assert_eq!(fields.follow(0x30).follow(0), fields, "the extension refers to it");
    let path = call!(CountedString::at::<UNICODE_STRING>, object.registry_path());
    assert_eq!(path.text(), executive.service_key());
    assert_eq!((object.unload(), object.add_device()), (0, 0));
    fields.write(0x68, 0x1234_usize);
    fields.follow(0x30).write(8, 0x5678_usize);
    assert_eq!((object.unload(), object.add_device()), (0x1234, 0x5678));
    assert_eq!(object.major_function(0x1B), (refuse_request as *const ()).addr());
    object.set_image(0x7000, 0x300);
    assert_eq!((fields.read::<usize>(0x18), fields.read::<u32>(0x20)), (0x7000, 0x300));
}

#[test]
fn devices_are_listed_named_and_deleted() {
    let executive = Executive::new("planted");
    let object = DriverObject::new(&executive);
    let events = fly_with(&executive, || {
        let (status, first) = create(&object, Some(r"\Device\First"), 40);
        assert_eq!(status, STATUS_SUCCESS);
        let fields = memory(first);
        assert_eq!((fields.read::<i16>(0), fields.read::<u16>(2)), (3, 0x150 + 40));
        assert_eq!(fields.follow(0x40).address(), first.addr() + 0x150, "the extension");
        assert_eq!((fields.read::<u32>(0x30), fields.read::<u32>(0x48)), (0xC0, 0x23));
        assert_eq!(create(&object, Some(r"\device\first"), 0).0, STATUS_OBJECT_NAME_COLLISION);
        let (_, second) = create(&object, None, 0);
        assert_eq!(memory(second).read::<usize>(0x40), 0, "no extension");
        assert_eq!(object.first_device(), second);
        assert_eq!(memory(second).follow(0x10).address(), first.addr());
        call!(IoDeleteDevice, first);
        assert_eq!(memory(second).follow(0x10).address(), 0);
        call!(IoDeleteDevice, second);
        assert!(object.first_device().is_null());
        assert_eq!(create(&object, Some(r"\Device\First"), 0).0, 0, "the name is free");
    });
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (2, 1));
}

#[test]
fn devices_are_attached_to_a_stack() {
    let executive = Executive::new("planted");
    let object = DriverObject::new(&executive);
    fly_with(&executive, || {
        let bottom = executive.physical_device();
        assert_eq!(executive.physical_device(), bottom, "there is one");
        let devices = [0; 2].map(|_| create(&object, None, 0).1);
        assert_eq!(call!(IoAttachDeviceToDeviceStack, devices[0], bottom), bottom);
        assert_eq!(call!(IoAttachDeviceToDeviceStack, devices[1], bottom), devices[0]);
        assert_eq!(memory(devices[1]).read::<u8>(0x4C), 3, "the stack size");
        assert_eq!(call!(IoGetAttachedDeviceReference, bottom), devices[1]);
        call!(IoDetachDevice, devices[0]);
        assert_eq!(call!(IoGetAttachedDevice, bottom), devices[0]);
        call!(IoDetachDevice, bottom);
        assert_eq!(call!(IoGetAttachedDevice, bottom), bottom);
        for device in devices {
            call!(IoDeleteDevice, device);
        }
    });
}

#[test]
fn a_device_is_found_by_its_name_and_by_links() {
    let executive = Executive::new("planted");
    let object = DriverObject::new(&executive);
    fly_with(&executive, || {
        let (_, device) = create(&object, Some(r"\Device\Wind"), 0);
        let open = |name: &str| {
            let (mut file_object, mut found) = (null_mut(), null_mut());
            let mut name = TestString::new(name);
            let (to, with) = (&raw mut file_object, &raw mut found);
            let status = call!(IoGetDeviceObjectPointer, name.pointer().cast(), 0, to, with);
            (status, file_object, found)
        };
        let link = |name: &str| {
            let (mut link, mut to) = (TestString::new(name), TestString::new(r"\Device\Wind"));
            call!(IoCreateSymbolicLink, link.pointer().cast(), to.pointer().cast())
        };
        let (status, file_object, found) = open(r"\Device\WIND");
        assert_eq!((status, found), (0, device));
        assert_eq!(call!(IoGetRelatedDeviceObject, file_object), device);
        assert_eq!(open(r"\DosDevices\Wind").0, STATUS_OBJECT_NAME_NOT_FOUND);
        assert_eq!(link(r"\DosDevices\Wind"), 0);
        assert_eq!(link(r"\??\WIND"), STATUS_OBJECT_NAME_COLLISION, "the same name");
        assert_eq!(open(r"\??\Wind").2, device);
        let mut name = TestString::new(r"\DosDevices\wind");
        assert_eq!(call!(IoDeleteSymbolicLink, name.pointer().cast()), 0);
        let again = call!(IoDeleteSymbolicLink, name.pointer().cast());
        assert_eq!(again, STATUS_OBJECT_NAME_NOT_FOUND);
        call!(IoDeleteDevice, device);
        assert_eq!(open(r"\Device\Wind").0, STATUS_OBJECT_NAME_NOT_FOUND);
    });
    assert_eq!((IoIsWdmVersionAvailable(1, 0x30), IoIsWdmVersionAvailable(7, 0)), (1, 0));
    assert_eq!(call!(IoWMIRegistrationControl, null_mut(), 1), 0);
}

/// Answers one control code as the graphics kernel does: with a pointer in the output buffer.
struct Graphics;

impl RequestHandler for Graphics {
    fn device_control(&self, request: &DeviceControl) -> (NTSTATUS, usize) {
        let (code, internal) = (request.code, request.internal);
        if (code, internal, request.output_length) != (0x23_0047, true, 8) {
            return (STATUS_INVALID_DEVICE_REQUEST, 0);
        }
        memory(request.output).write(0, 0xABCD_usize);
        (STATUS_SUCCESS, 8)
    }
}

#[test]
fn the_conversation_with_the_graphics_kernel() {
    let executive = Executive::new("planted");
    executive.set_handler(r"\Device\DxgKrnl", Arc::new(Graphics));
    let events = fly_with(&executive, || {
        let (mut file_object, mut device) = (null_mut(), null_mut());
        let mut name = TestString::new(r"\Device\DxgKrnl");
        let (to, with) = (&raw mut file_object, &raw mut device);
        assert_eq!(
            call!(IoGetDeviceObjectPointer, name.pointer().cast(), 0xC000_0000, to, with),
            0
        );
        let send = |code: u32| {
            let (mut event, mut result, mut answer) = ([0_u64; 3], [7_u64; 2], 0_usize);
            let event: PVOID = event.as_mut_ptr().cast();
            call!(crate::KeInitializeEvent, event, 0, 0);
            let (none, output): (PVOID, PVOID) = (null_mut(), (&raw mut answer).cast());
            let iosb: PVOID = result.as_mut_ptr().cast();
            let packet = call!(
                IoBuildDeviceIoControlRequest,
                code,
                device,
                none,
                0,
                output,
                8,
                1,
                event,
                iosb
            );
            let status = call!(IofCallDriver, device, packet);
            assert_eq!(call!(crate::KeReadStateEvent, event), 1, "the event is set");
            (status, result, answer)
        };
        assert_eq!(send(0x23_0047), (0, [0, 8], 0xABCD));
        let (status, result, answer) = send(0x23_003F);
        assert_eq!((status, result[1], answer), (STATUS_INVALID_DEVICE_REQUEST, 0, 0));
        assert_eq!(result[0] & 0xFFFF_FFFF, 0xC000_0010);
    });
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.leaked")), (2, 0));
}

/// A dispatch routine: reads the first input byte, returns it doubled, completes the packet.
unsafe extern "win64-unwind" fn double(_device: PVOID, packet: PIRP) -> NTSTATUS {
    let fields = memory(packet);
    let code: u32 = fields.follow(irp::CURRENT_STACK).read(stack::CONTROL_CODE);
    let input = fields.follow(irp::SYSTEM_BUFFER);
    let output =
        if code.is_multiple_of(4) { input } else { fields.follow(irp::MDL_ADDRESS).follow(0x18) };
    output.write(0, input.read::<u8>(0) * 2);
    fields.write(irp::STATUS, STATUS_SUCCESS);
    fields.write(irp::INFORMATION, 1_usize);
    call!(IofCompleteRequest, packet, 0);
    STATUS_SUCCESS
}

#[test]
fn buffers_are_passed_by_their_method() {
    let executive = Executive::new("planted");
    let object = DriverObject::new(&executive);
    memory(object.pointer()).write_pointer(0x70 + 0x0E * 8, double as *const ());
    let events = fly_with(&executive, || {
        let (_, device) = create(&object, None, 0);
        for code in [0x22_2000, 0x22_2002] {
            let (mut input, mut output, mut result) = (21_u8, [9_u8; 2], [7_u64; 2]);
            let (from, to): (PVOID, PVOID) = ((&raw mut input).cast(), output.as_mut_ptr().cast());
            let (event, iosb): (PVOID, PVOID) = (null_mut(), result.as_mut_ptr().cast());
            let packet =
                call!(IoBuildDeviceIoControlRequest, code, device, from, 1, to, 2, 0, event, iosb);
            assert_eq!(call!(IofCallDriver, device, packet), 0);
            assert_eq!((output, result), ([42, 9], [0, 1]), "{code:x}");
        }
        call!(IoDeleteDevice, device);
    });
    assert_eq!((count(&events, "pool.leaked"), count(&events, "pool.bad-free")), (0, 0));
}

#[test]
fn a_device_without_a_routine_refuses() {
    let executive = Executive::new("planted");
    let object = DriverObject::new(&executive);
    fly_with(&executive, || {
        let (_, device) = create(&object, None, 0);
        let (mut result, mut offset) = ([7_u64; 2], 0x1234_i64);
        let (event, iosb): (PVOID, PVOID) = (null_mut(), result.as_mut_ptr().cast());
        let mut data = [0_u8; 4];
        let (buffer, at): (PVOID, _) = (data.as_mut_ptr().cast(), &raw mut offset);
        let packet = call!(IoBuildSynchronousFsdRequest, 3, device, buffer, 4, at, event, iosb);
        let next = memory(packet).follow(irp::CURRENT_STACK).address() - 0x48;
        let next = memory(with_exposed_provenance_mut::<u8>(next));
        assert_eq!((next.read::<u32>(8), next.read::<i64>(0x18)), (4, 0x1234));
        assert_eq!(call!(IofCallDriver, device, packet), STATUS_INVALID_DEVICE_REQUEST);
        assert_eq!(result[0] & 0xFFFF_FFFF, 0xC000_0010);
        call!(IoDeleteDevice, device);
    });
}

/// A completion routine: counts in its context, and keeps the packet.
unsafe extern "win64-unwind" fn keep(device: PVOID, _packet: PIRP, context: PVOID) -> NTSTATUS {
    assert!(device.is_null(), "the driver allocated the packet without a location of its own");
    let count = memory(context);
    count.write(0, count.read::<u32>(0) + 1);
    STATUS_MORE_PROCESSING_REQUIRED
}

#[test]
fn a_completion_routine_keeps_its_packet() {
    let executive = Executive::new("planted");
    let events = fly_with(&executive, || {
        let device = executive.physical_device();
        let packet = call!(IoAllocateIrp, 1, 0);
        let fields = memory(packet);
        assert_eq!((fields.read::<u8>(0x42), fields.read::<u8>(0x43)), (1, 2));
        assert_eq!(fields.read::<u16>(2), 0xD0 + 0x48);
        let mut calls = 0_u32;
        let counter = &raw mut calls;
        let send = |control: u8| {
            let next = fields.follow(irp::CURRENT_STACK).address() - 0x48;
            let next = memory(with_exposed_provenance_mut::<u8>(next));
            next.write(0, [0x1B, 0, 0, control]); // IRP_MN_START_DEVICE
            next.write_pointer(0x38, keep as *const ());
            next.write_pointer(0x40, counter.cast_const());
            let status = call!(IofCallDriver, device, packet);
            call!(IoReuseIrp, packet, 0);
            status
        };
        assert_eq!(send(0xE0), 0);
        assert_eq!(send(0x80), 0, "on error only");
        assert_eq!(calls, 1);
        fields.write(irp::CURRENT_LOCATION, 1_u8);
        let status = call!(IofCallDriver, device, packet);
        assert_eq!(status, STATUS_INVALID_DEVICE_REQUEST, "no location is left");
        call!(IoInitializeIrp, packet, 0xD0 + 0x48, 1);
        assert_eq!(fields.read::<u8>(0x43), 2);
        call!(IoFreeIrp, packet);
    });
    assert_eq!((count(&events, "pool.freed"), count(&events, "pool.bad-free")), (1, 0));
    assert_eq!(count(&fly(|| ()), "pool.freed"), 0);
}
