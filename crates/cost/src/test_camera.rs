//! A capture source that fills every frame immediately, from its own allocator, so that the class
//! driver is measured and not the hardware.

use flight::Passive;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use stream::{
    AllocatorId, DeviceDescriptor, DeviceId, DriverAllocator, DriverDevice, DriverError,
    DriverFrame, DriverResult, Entry, ExtendedFraming, FilterDescriptor, Format, FrameId, Framing,
    FramingForm, FramingItem, HandleSlot, Header, MemoryKind, Minidriver, PinDescriptor, PinState,
    PinView, Services, SizeRange,
};

/// The number of frames in flight.
pub(crate) const FRAMES: u32 = 8;

/// The source.
pub(crate) struct TestCamera {
    bytes: u32,
    services: OnceLock<Arc<Services>>,
    inner: Mutex<CameraState>,
}

/// The state of the source.
struct CameraState {
    picture: Vec<u8>,
    number: u64,
    framing: Option<Framing>,
}

impl TestCamera {
    /// A source with frames of this size.
    pub(crate) fn new(bytes: u32) -> Self {
        let inner = CameraState { picture: vec![0xa5; bytes as usize], number: 0, framing: None };
        Self { bytes, services: OnceLock::new(), inner: Mutex::new(inner) }
    }

    /// The format of its pin.
    pub(crate) fn format() -> Format {
        Format { major: 1, ..Format::default() }
    }

    fn services(&self) -> DriverResult<&Services> {
        self.services.get().map(|services| &**services).ok_or(DriverError::Invalid)
    }
}

/// Writes the next frame, which differs from the previous one in its first bytes.
pub(crate) fn draw(picture: &mut [u8], number: &mut u64) {
    *number += 1;
    if let Some(first) = picture.first_chunk_mut() {
        *first = number.to_le_bytes();
    }
}

fn lock<T>(it: &Mutex<T>) -> MutexGuard<'_, T> {
    it.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Minidriver for TestCamera {
    fn describe(&self) -> DeviceDescriptor {
        let item = FramingItem {
            kind: MemoryKind::NonPaged,
            can_allocate: true,
            frames: FRAMES,
            alignment: 63,
            framing: SizeRange { min: self.bytes, max: self.bytes },
            ..FramingItem::default()
        };
        let pin = PinDescriptor {
            dispatch: vec![Entry::PinProcess, Entry::PinSetDeviceState],
            allocator: Some(Entry::ALLOCATOR.to_vec()),
            formats: vec![Self::format()],
            framing: Some(FramingForm::Extended(ExtendedFraming::new(vec![item]))),
            ..PinDescriptor::default()
        };
        let filter = FilterDescriptor { pins: vec![pin], ..FilterDescriptor::default() };
        let dispatch = vec![Entry::DeviceAdd];
        DeviceDescriptor { dispatch, filters: vec![filter] }
    }

    fn add_device(
        &self,
        _at: &mut Passive,
        services: &Arc<Services>,
        _word: HandleSlot<'_, DeviceId>,
    ) -> DriverResult<Option<DriverDevice>> {
        self.services.set(services.clone()).map_err(|_| DriverError::Invalid)?;
        Ok(None)
    }

    fn process_pin(&self, pin: &PinView) -> DriverResult<()> {
        let services = self.services()?;
        let inner = &mut *lock(&self.inner);
        while let Some(edge) = services.leading_edge(pin.pin, true) {
            draw(&mut inner.picture, &mut inner.number);
            services.write(edge, 0, &inner.picture)?;
            let header = Header { time: inner.number, duration: 1, ..Header::default() };
            services.set_header(edge, header)?;
            services.advance_offsets(edge, self.bytes, false)?;
        }
        Ok(())
    }

    fn set_state(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        _to: PinState,
        _from: PinState,
    ) -> DriverResult<()> {
        Ok(())
    }

    fn initialize_allocator(
        &self,
        _at: &mut Passive,
        _pin: &PinView,
        framing: &Framing,
        slot: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        lock(&self.inner).framing = Some(*framing);
        let context = self.services()?.allocate_memory(16, 7, MemoryKind::NonPaged);
        Ok(slot.fill(context.ok_or(DriverError::NoMemory)?))
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let Framing { bytes, alignment, kind, .. } = lock(&self.inner).framing?;
        Some(slot.fill(self.services().ok()?.allocate_memory(bytes, alignment, kind)?))
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let _ = self.services().and_then(|services| services.free_memory(frame.as_raw())); // It returns nothing.
    }

    fn delete_allocator(&self, _at: &mut Passive, allocator: DriverAllocator) {
        // It returns nothing.
        let _ = self.services().and_then(|services| services.free_memory(allocator.as_raw()));
    }
}
