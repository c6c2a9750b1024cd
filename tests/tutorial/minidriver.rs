//! A capture source in safe Rust: one pin, its own allocator, frames filled synchronously.

use std::sync::{Arc, Mutex};
use windtunnel::stream_prelude::*;

/// Bytes per picture.
pub(crate) const BYTES: u32 = 32;

/// The pin's data format. In your driver these are the GUIDs of a `KSDATAFORMAT`.
pub(crate) fn gray() -> Format {
    Format { major: 1, sub_format: 2, sample_size: BYTES, ..Format::default() }
}

#[derive(Default)]
pub(crate) struct Camera {
    services: Mutex<Option<Arc<Services>>>,
    /// The agreed framing of the allocator's frames.
    framing: Mutex<Framing>,
    pictures: Mutex<u8>,
}

impl Camera {
    fn services(&self) -> DriverResult<Arc<Services>> {
        self.services.lock().unwrap().clone().ok_or(DriverError::NotReady)
    }
}

impl Minidriver for Camera {
    fn describe(&self) -> DeviceDescriptor {
        let item = FramingItem {
            kind: MemoryKind::NonPaged,
            can_allocate: true,
            frames: 3,
            alignment: 15, // A mask: sixteen bytes.
            framing: SizeRange { min: BYTES, max: BYTES },
            ..FramingItem::default()
        };
        let pin = PinDescriptor {
            dispatch: vec![Entry::PinProcess, Entry::PinSetDeviceState],
            allocator: Some(Entry::ALLOCATOR.to_vec()),
            formats: vec![gray()],
            framing: Some(FramingForm::Extended(ExtendedFraming::new(vec![item]))),
            ..PinDescriptor::default()
        };
        let filter = FilterDescriptor { pins: vec![pin], ..FilterDescriptor::default() };
        DeviceDescriptor { dispatch: vec![Entry::DeviceAdd], filters: vec![filter] }
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        services: &Arc<Services>,
        _slot: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        *self.services.lock().unwrap() = Some(services.clone());
        Ok(None) // The driver needs no context.
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _to: PinState,
        _from: PinState,
    ) -> DriverResult<()> {
        Ok(()) // The driver holds nothing between states.
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let services = self.services()?;
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            let mut number = self.pictures.lock().unwrap();
            let used = services.pointer_view(edge)?.bytes.min(BYTES); // A client's frames may be smaller.
            services.write(edge, 0, &[*number; BYTES as usize][..used as usize])?;
            let (time, duration) = (services.now(), 333_333);
            let header = Header { time, duration, data_used: used, ..Header::default() };
            services.set_header(edge, header)?;
            *number = number.wrapping_add(1);
            services.advance_offsets(edge, used, false)?; // The frame is full: advance.
        }
        Ok(())
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        framing: &Framing,
        slot: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        *self.framing.lock().unwrap() = *framing;
        let context = self.services()?.allocate_memory(64, 15, MemoryKind::NonPaged);
        Ok(slot.fill(context.ok_or(DriverError::NoMemory)?))
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let framing = *self.framing.lock().unwrap();
        let frame = self.services().ok()?.allocate_memory(
            framing.bytes,
            framing.alignment,
            framing.kind,
        )?;
        Some(slot.fill(frame))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let _ = self.services().and_then(|services| services.free_memory(frame.as_raw()));
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        // All frames have been freed; only the context is left.
        let _ = self.services().and_then(|services| services.free_memory(allocator.as_raw()));
    }
}
