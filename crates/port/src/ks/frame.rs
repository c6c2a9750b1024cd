//! Frames and stream pointers, as their driver sees them: `KSSTREAM_POINTER`, `KSSTREAM_HEADER`.
//!
//! All pointers to a frame share its header. The class driver is notified of the driver's writes to
//! the header before it does anything with a pointer to the frame.

use crate::ks::door::{Door, DoorState};
use crate::ks::driver_memory::DriverMemory;
use crate::ks::mapping::{DmaAdapter, Mappings, Position};
use crate::ks::object::{self, Object};
use crate::ks::pin::ShownPin;
use abi::MDL;
use abi::ks::{
    KSSTREAM_HEADER, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY,
    KSSTREAM_HEADER_OPTIONSF_DURATIONVALID, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM,
    KSSTREAM_HEADER_OPTIONSF_TIMEVALID, KSSTREAM_POINTER, KSSTREAM_POINTER_OFFSET, KSTIME,
    PFNKSSTREAMPOINTER,
};
use flight::RuleId;
use std::mem::offset_of;
use std::ptr;
use stream::{FrameId, Header, PinId, PointerId, PointerView};

/// The maximum size of a header that is plausible.
const MAX_HEADER: u32 = 1 << 16;

/// A stream pointer.
pub(crate) struct ShownPointer {
    /// Its `KSSTREAM_POINTER`, followed by the driver's context.
    pub(crate) memory: DriverMemory,
    pub(crate) pin: PinId,
    /// The frame at the last fill.
    frame: Option<FrameId>,
    /// The driver's routines for a cancelled frame and for a timeout.
    pub(crate) cancel: Option<PFNKSSTREAMPOINTER>,
    pub(crate) timeout: Option<PFNKSSTREAMPOINTER>,
}

/// A frame.
pub(crate) struct ShownFrame {
    pin: PinId,
    header: DriverMemory,
    /// The header as the class driver knows it.
    last_header: Header,
    mdl: DriverMemory,
    /// The mappings for the hardware, if the pin has them.
    mappings: Option<Mappings>,
}

impl DoorState {
    /// Removes the pointers and frames of a removed pin.
    pub(crate) fn remove_frames(&mut self, pin: PinId) {
        let frames = self.frames.iter().filter(|(_, it)| it.pin == pin).map(|(it, _)| *it);
        for frame in frames.collect::<Vec<_>>() {
            self.remove_frame(frame);
        }
        let mine = self.pointers.iter().filter(|(_, it)| it.pin == pin).map(|(it, _)| *it);
        for pointer in mine.collect::<Vec<_>>() {
            self.remove_pointer(pointer);
        }
        let clocks = self.clocks.iter().filter(|(_, it)| it.pin == pin).map(|(it, _)| *it);
        for clock in clocks.collect::<Vec<_>>() {
            object::remove(clock);
            self.clocks.remove(&clock);
        }
    }

    /// Removes a frame and its request. The memory that the driver saw is quarantined.
    pub(crate) fn remove_frame(&mut self, frame: FrameId) {
        let request = self.requests.remove(&frame.into());
        if let Some(it) = &request {
            object::remove(it.address());
        }
        let shown = self
            .frames
            .remove(&frame)
            .map(|it| [Some(it.header), Some(it.mdl), it.mappings.map(Mappings::into_table)]);
        for place in shown.into_iter().flatten().flatten().chain(request) {
            Door::quarantine(self, place, frame.subject(), RuleId::KS_PTR_001);
        }
    }

    /// Removes a pointer.
    pub(crate) fn remove_pointer(&mut self, pointer: PointerId) {
        if let Some(it) = self.pointers.remove(&pointer) {
            Door::quarantine(self, it.memory, pointer.subject(), RuleId::KS_PTR_004);
        }
    }
}

impl Door {
    /// Fills a stream pointer with its current state. `context` is the size of the driver's context
    /// behind a new one.
    pub(crate) fn show_pointer(
        &self,
        pointer: PointerId,
        context: u32,
        cancel: Option<PFNKSSTREAMPOINTER>,
    ) -> *mut KSSTREAM_POINTER {
        let Ok(view) = self.services().pointer_view(pointer) else { return ptr::null_mut() };
        if self.pin(view.pin).is_none() {
            return ptr::null_mut();
        }
        let mut inner = self.inner();
        let inner = &mut *inner;
        inner.pointers.entry(pointer).or_insert_with(|| {
            let size = size_of::<KSSTREAM_POINTER>();
            let place = DriverMemory::new(size + context as usize);
            object::insert(place.address(), self.weak(), Object::Pointer(pointer));
            if context > 0 {
                place.write(offset_of!(KSSTREAM_POINTER, Context), place.address() + size);
            }
            ShownPointer { memory: place, pin: view.pin, frame: None, cancel, timeout: None }
        });
        fill_pointer(inner, pointer, &view)
    }

    /// Updates a pointer after an operation on it.
    pub(crate) fn refresh_pointer(&self, pointer: PointerId) {
        if self.inner().pointers.contains_key(&pointer) {
            self.show_pointer(pointer, 0, None);
        }
    }

    /// Notifies the class driver of what the driver has written to the header of a pointer.
    pub(crate) fn read_header(&self, pointer: PointerId) {
        let written = {
            let inner = self.inner();
            let frame = inner.pointers.get(&pointer).and_then(|shown_pointer| shown_pointer.frame);
            let frame = frame.and_then(|frame| Some((frame, inner.frames.get(&frame)?)));
            frame.and_then(|(number, it)| {
                let now = parse_header(&it.header.read(0)?);
                (now != it.last_header).then_some((number, now))
            })
        };
        let Some((number, now)) = written else { return };
        // All pointers to a frame share its header: any locked one may have written it. If none is
        // locked, the service judges it.
        let taken = self.services().set_header(self.locked_pointer(pointer, number), now).is_ok();
        let mut inner = self.inner();
        if let Some(it) = inner.frames.get_mut(&number) {
            if taken {
                it.last_header = now;
            } else {
                let known = it.last_header;
                write_header(&it.header, &known);
            }
        }
    }

    /// A locked pointer to a frame: this one if it is locked, otherwise another.
    fn locked_pointer(&self, pointer: PointerId, frame: FrameId) -> PointerId {
        let others: Vec<PointerId> = {
            let inner = self.inner();
            let there = inner.pointers.iter().filter(|(_, it)| it.frame == Some(frame));
            there
                .map(|(other, _)| *other)
                .filter(|stream_pointer| *stream_pointer != pointer)
                .collect()
        };
        let locked = |stream_pointer: &PointerId| {
            self.services()
                .pointer_view(*stream_pointer)
                .is_ok_and(|pointer_view| pointer_view.locked && pointer_view.frame == Some(frame))
        };
        if locked(&pointer) {
            return pointer;
        }
        others.into_iter().find(locked).unwrap_or(pointer)
    }

    /// Converts a used count to bytes, for a pin whose pointers count in mappings.
    pub(crate) fn used_bytes(&self, view: &PointerView, used: u32) -> u32 {
        let inner = self.inner();
        let maps = inner.pins.get(&view.pin).is_some_and(ShownPin::uses_mappings);
        let frame = view.frame.filter(|_| maps).and_then(|frame| inner.frames.get(&frame));
        let mappings = frame.and_then(|shown_frame| shown_frame.mappings.as_ref());
        mappings.map_or(used, |mappings| mappings.bytes(view, used))
    }

    /// The memory descriptor list of the frame of a pointer.
    pub(crate) fn mdl(&self, pointer: PointerId) -> *mut MDL {
        let inner = self.inner();
        let frame = inner.pointers.get(&pointer).and_then(|shown_pointer| shown_pointer.frame);
        let it = frame.and_then(|frame| inner.frames.get(&frame));
        it.map_or(ptr::null_mut(), |shown_frame| shown_frame.mdl.pointer())
    }
}

fn fill_pointer(
    inner: &mut DoorState,
    pointer: PointerId,
    view: &PointerView,
) -> *mut KSSTREAM_POINTER {
    let pin = inner.pins.get(&view.pin);
    let (out, size) =
        pin.map_or((true, 0), |shown_pin| (shown_pin.is_output(), shown_pin.header_size()));
    let maps = pin.is_some_and(ShownPin::uses_mappings);
    let pin = pin.map_or(ptr::null_mut(), |shown_pin| shown_pin.memory.pointer());
    let shown = view.frame.filter(|_| view.locked);
    let adapter = inner.adapter;
    let mut position = None;
    let header = shown.map(|frame| {
        let it = inner.frames.entry(frame).or_insert_with(|| ShownFrame::new(view, size));
        it.refresh(view);
        position = maps.then(|| it.map(view, adapter).position(view.offset));
        it.header.pointer()
    });
    let Some(it) = inner.pointers.get_mut(&pointer) else { return ptr::null_mut() };
    it.frame = view.frame;
    let start = it.memory.address();
    let [in_at, out_at] =
        [offset_of!(KSSTREAM_POINTER, OffsetIn), offset_of!(KSSTREAM_POINTER, OffsetOut)];
    let offset = match position {
        Some(Position { next, count, remaining }) => KSSTREAM_POINTER_OFFSET {
            Data: ptr::with_exposed_provenance_mut(next),
            Count: count,
            Remaining: remaining,
        },
        // A pointer with mappings has none while it is not locked.
        None if maps => KSSTREAM_POINTER_OFFSET::ZERO,
        None => KSSTREAM_POINTER_OFFSET {
            Data: match view.data {
                0 => ptr::null_mut(),
                data => ptr::with_exposed_provenance_mut(data + view.offset as usize),
            },
            Count: view.offset.saturating_add(view.remaining),
            Remaining: view.remaining,
        },
    };
    let none = KSSTREAM_POINTER_OFFSET::ZERO;
    let context: usize = it.memory.read(offset_of!(KSSTREAM_POINTER, Context)).unwrap_or(0);
    let whole = KSSTREAM_POINTER {
        Context: ptr::with_exposed_provenance_mut(context),
        Pin: pin,
        StreamHeader: header.unwrap_or(ptr::null_mut()),
        Offset: ptr::with_exposed_provenance_mut(start + if out { out_at } else { in_at }),
        OffsetIn: if out { none } else { offset },
        OffsetOut: if out { offset } else { none },
    };
    it.memory.write(0, whole);
    it.memory.pointer()
}

impl ShownFrame {
    fn new(view: &PointerView, size: u32) -> Self {
        let least = u32::try_from(size_of::<KSSTREAM_HEADER>()).unwrap_or(0);
        let size = size.clamp(least, MAX_HEADER);
        let header = DriverMemory::new(size as usize);
        header.write(0, KSSTREAM_HEADER { Size: size, ..KSSTREAM_HEADER::ZERO });
        write_header(&header, &Header::default());
        let (known, mdl) = (Header::default(), DriverMemory::from_value(MDL::ZERO));
        Self { pin: view.pin, header, last_header: known, mdl, mappings: None }
    }

    /// The mappings of the frame, created again if the frame has moved.
    fn map(&mut self, view: &PointerView, adapter: DmaAdapter) -> &Mappings {
        let bytes = view.offset.saturating_add(view.remaining);
        let there = self.mappings.take().filter(|mappings| mappings.is_for(view.data, bytes));
        let mappings = there.unwrap_or_else(|| Mappings::new(view.data, bytes, adapter));
        self.mappings.insert(mappings)
    }

    fn refresh(&mut self, view: &PointerView) {
        if self.last_header != view.header {
            self.last_header = view.header;
            write_header(&self.header, &view.header);
        }
        let Some(it) = self.header.read::<KSSTREAM_HEADER>(0) else { return };
        let data = ptr::with_exposed_provenance_mut(view.data);
        // Only changes: the driver may be writing to the rest, through another pointer.
        if it.FrameExtent != view.bytes || it.Data != data {
            self.header.write(0, KSSTREAM_HEADER { FrameExtent: view.bytes, Data: data, ..it });
        }
        let mdl = MDL {
            MappedSystemVa: data,
            StartVa: ptr::with_exposed_provenance_mut(view.data & !4095),
            ByteCount: view.bytes,
            ByteOffset: u32::try_from(view.data & 4095).unwrap_or(0),
            ..MDL::ZERO
        };
        self.mdl.write(0, mdl);
    }
}

/// Converts a header to the class driver's type.
///
/// WINDOWS: `PresentationTime` is `Time` * `Numerator` / `Denominator`, and it and `Duration` count
/// with their flags (documented).
pub(crate) fn parse_header(it: &KSSTREAM_HEADER) -> Header {
    let has = |flag: u32| it.OptionsFlags & flag != 0;
    let KSTIME { Time, Numerator, Denominator } = it.PresentationTime;
    let scaled = i128::from(Time) * i128::from(Numerator) / i128::from(Denominator.max(1));
    let time = u64::try_from(scaled.max(0)).unwrap_or(u64::MAX);
    let duration = u64::try_from(it.Duration.max(0)).unwrap_or(0);
    Header {
        time: if has(KSSTREAM_HEADER_OPTIONSF_TIMEVALID) { time } else { 0 },
        duration: if has(KSSTREAM_HEADER_OPTIONSF_DURATIONVALID) { duration } else { 0 },
        data_used: it.DataUsed,
        end_of_stream: has(KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM),
        discontinuity: has(KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY),
    }
}

fn write_header(place: &DriverMemory, header: &Header) {
    let Some(it) = place.read::<KSSTREAM_HEADER>(0) else { return };
    let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let flag = |is: bool, flag: u32| if is { flag } else { 0 };
    let flags = flag(header.time > 0, KSSTREAM_HEADER_OPTIONSF_TIMEVALID)
        | flag(header.duration > 0, KSSTREAM_HEADER_OPTIONSF_DURATIONVALID)
        | flag(header.end_of_stream, KSSTREAM_HEADER_OPTIONSF_ENDOFSTREAM)
        | flag(header.discontinuity, KSSTREAM_HEADER_OPTIONSF_DATADISCONTINUITY);
    let it = KSSTREAM_HEADER {
        PresentationTime: KSTIME { Time: signed(header.time), Numerator: 1, Denominator: 1 },
        Duration: signed(header.duration),
        DataUsed: header.data_used,
        OptionsFlags: flags,
        ..it
    };
    place.write(0, it);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        let all = [
            Header::default(),
            Header { time: 5, duration: 7, data_used: 9, end_of_stream: true, discontinuity: true },
        ];
        for header in all {
            let place = DriverMemory::from_value(KSSTREAM_HEADER::ZERO);
            write_header(&place, &header);
            assert_eq!(parse_header(&place.read(0).unwrap()), header);
        }
    }

    #[test]
    fn times_are_fractions_and_count_with_their_flag() {
        let time = KSTIME { Time: 10, Numerator: 3, Denominator: 2 };
        let mut it = KSSTREAM_HEADER { PresentationTime: time, ..KSSTREAM_HEADER::ZERO };
        assert_eq!(parse_header(&it).time, 0);
        it.OptionsFlags = KSSTREAM_HEADER_OPTIONSF_TIMEVALID;
        assert_eq!(parse_header(&it).time, 15);
        it.PresentationTime = KSTIME { Time: i64::MIN, Numerator: u32::MAX, Denominator: 0 };
        assert_eq!(parse_header(&it).time, 0);
    }
}
