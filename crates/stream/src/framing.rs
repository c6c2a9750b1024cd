//! Framing: what pins require of their frames, in both forms, and what two pins agree on.

use crate::memory::MemoryKind;

/// The number of frames if neither side requires one.
const DEFAULT_FRAMES: u32 = 2;
/// A larger number is a calculation error: no machine has the memory.
const MAX_FRAMES: u32 = 1 << 16;

/// What a pin requires of its frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FramingForm {
    /// The old form (`KSALLOCATOR_FRAMING`).
    Simple(SimpleFraming),
    /// The new form (`KSALLOCATOR_FRAMING_EX`).
    Extended(ExtendedFraming),
}

/// The old form (`KSALLOCATOR_FRAMING`): zero frames or bytes are no requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimpleFraming {
    /// How many frames.
    pub frames: u32,
    /// The size of each.
    pub bytes: u32,
    /// The alignment, as a mask (`FileAlignment`).
    pub alignment: u32,
    /// The kind of memory (`PoolType`).
    pub kind: MemoryKind,
    /// System memory is required (`KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY`).
    pub system_memory: bool,
    /// Zero.
    pub reserved: u32,
}

/// The new form (`KSALLOCATOR_FRAMING_EX`): several kinds of memory, in order of preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedFraming {
    /// The claimed number of items (`CountItems`).
    pub count: u32,
    /// Zero (`PinFlags`).
    pub pin_flags: u32,
    /// Zero (`PinWeight`).
    pub pin_weight: u32,
    /// The items.
    pub items: Vec<FramingItem>,
}

/// One kind of memory (`KS_FRAMING_ITEM`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramingItem {
    /// The kind of memory.
    pub kind: MemoryKind,
    /// The pin can allocate it (`KSALLOCATOR_FLAG_CAN_ALLOCATE`).
    pub can_allocate: bool,
    /// How many frames.
    pub frames: u32,
    /// The alignment, as a mask (`FileAlignment`).
    pub alignment: u32,
    /// The physical addresses that the hardware reaches (`PhysicalRange`); all zero is no limit.
    pub physical: SizeRange,
    /// The size of a frame (`FramingRange`); all zero is no requirement, and [`u32::MAX`] no limit.
    pub framing: SizeRange,
}

/// A range of sizes, both ends included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeRange {
    /// The least.
    pub min: u32,
    /// The most.
    pub max: u32,
}

/// What the other side requires: zeros are no requirement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FramingRequest {
    /// How many frames.
    pub frames: u32,
    /// The minimum size of each.
    pub bytes: u32,
    /// The alignment, as a mask.
    pub alignment: u32,
    /// The kind of memory.
    pub kind: MemoryKind,
    /// It is in user mode, which cannot use memory of a kernel-mode allocator.
    pub user_mode: bool,
    /// It brings its own frames.
    pub client_frames: bool,
    /// Its frames have half of the agreed bytes: framing is a request.
    pub half_size: bool,
}

/// The agreed framing, with which an allocator is initialised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// The maximum number of outstanding frames.
    pub frames: u32,
    /// The size of each.
    pub bytes: u32,
    /// The alignment, as a mask.
    pub alignment: u32,
    /// The kind of memory.
    pub kind: MemoryKind,
    /// The pin's framing requires system memory.
    pub system_memory: bool,
}

impl SizeRange {
    /// Whether the minimum is not above the maximum.
    pub fn is_ordered(self) -> bool {
        self.min <= self.max
    }

    fn overlaps(self, other: SizeRange) -> bool {
        self.min <= other.max && other.min <= self.max
    }
}

/// Whether the mask is one less than a power of two.
pub(crate) fn is_mask(alignment: u32) -> bool {
    alignment & alignment.wrapping_add(1) == 0
}

impl SimpleFraming {
    pub(crate) fn reserved_error(&self) -> Option<String> {
        (self.reserved != 0).then(|| {
            format!("the framing of a pin has {:#x} in Reserved, which must be zero", self.reserved)
        })
    }
}

impl ExtendedFraming {
    /// The items, and their count.
    pub fn new(items: Vec<FramingItem>) -> Self {
        let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
        Self { count, items, ..Self::default() }
    }

    pub(crate) fn count_error(&self) -> Option<String> {
        let there = self.items.len();
        if self.count as usize != there || there == 0 {
            return Some(format!("the framing says it has {} items and has {there}", self.count));
        }
        (self.pin_flags != 0 || self.pin_weight != 0).then(|| {
            format!(
                "the framing has pin flags {:#x} and pin weight {}, which must be zero",
                self.pin_flags, self.pin_weight
            )
        })
    }

    pub(crate) fn item_error(&self) -> Option<String> {
        self.items.iter().enumerate().find_map(|(place, it)| it.error(place))
    }

    /// Two items for the same memory are ambiguous.
    pub(crate) fn overlap_error(&self) -> Option<String> {
        let pairs = self.items.iter().enumerate().flat_map(|(place, it)| {
            self.items.iter().enumerate().skip(place + 1).map(move |other| ((place, it), other))
        });
        let found = pairs.into_iter().find(|((_, one), (_, other))| {
            one.kind == other.kind
                && one.framing.overlaps(other.framing)
                && one.physical.overlaps(other.physical)
        });
        found.map(|((one, it), (other, also))| {
            format!(
                "items {one} and {other} of the framing are both for {} memory and overlap: frames \
                 of {} to {} bytes and of {} to {}",
                it.kind.name(),
                it.framing.min,
                it.framing.max,
                also.framing.min,
                also.framing.max
            )
        })
    }

    pub(crate) fn missing_allocator_error(&self) -> Option<String> {
        let place = self
            .items
            .iter()
            .position(|framing_item| framing_item.can_allocate && framing_item.frames == 0)?;
        Some(format!("item {place} of the framing can allocate, and asks for zero frames"))
    }
}

impl FramingItem {
    /// The maximum size of a frame, if there is a limit.
    pub(crate) fn max_size(&self) -> Option<u32> {
        (self.framing != SizeRange::default() && self.framing.max != u32::MAX)
            .then_some(self.framing.max)
    }

    /// The size of a frame for a format; zero is no requirement.
    ///
    /// WINDOWS: D-19. The old form is made from the item: its upper end is the size. Without an
    /// upper end, our reading is the smallest size that serves both sides.
    fn frame_size(&self, sample_size: u32) -> u32 {
        self.max_size().unwrap_or(self.framing.min.max(sample_size))
    }

    fn error(&self, place: usize) -> Option<String> {
        let spans = [("physical", self.physical), ("framing", self.framing)];
        if let Some((name, span)) = spans.iter().find(|(_, it)| !it.is_ordered()) {
            return Some(format!(
                "the {name} range of item {place} goes from {} to {}",
                span.min, span.max
            ));
        }
        (!is_mask(self.alignment)).then(|| {
            format!(
                "item {place} asks for alignment {:#x}, which is not one less than a power of two",
                self.alignment
            )
        })
    }
}

/// The framing that a pin and the other side agree on; `sample_size` is the format's sample size in
/// bytes. Fails with the reason, as a message.
pub(crate) fn negotiate(
    pin: Option<&FramingForm>,
    other: &FramingRequest,
    sample_size: u32,
) -> Result<Framing, String> {
    if !is_mask(other.alignment) {
        return Err(format!("the other side wants alignment {:#x}", other.alignment));
    }
    match pin {
        None => merge_framing(
            &SimpleFraming { system_memory: true, ..SimpleFraming::default() },
            other,
            sample_size,
        ),
        Some(FramingForm::Simple(it)) => {
            if !it.kind.satisfies(other.kind) {
                return Err(format!(
                    "the pin wants {} memory and the other side {}",
                    it.kind.name(),
                    other.kind.name()
                ));
            }
            merge_framing(it, other, sample_size)
        }
        Some(FramingForm::Extended(it)) => {
            let fits = |item: &&FramingItem| {
                item.kind.satisfies(other.kind)
                    && item.max_size().is_none_or(|number| other.bytes <= number)
            };
            let Some(item) = it.items.iter().find(fits) else {
                let wanted = match other.bytes {
                    0 => String::new(),
                    bytes => format!(" and frames of {bytes} bytes"),
                };
                return Err(format!(
                    "the other side wants {} memory{wanted}, and no item of the pin's framing has it",
                    other.kind.name()
                ));
            };
            let simple = SimpleFraming {
                frames: item.frames,
                bytes: item.frame_size(sample_size),
                alignment: item.alignment,
                kind: item.kind,
                system_memory: item.kind.is_system(),
                reserved: 0,
            };
            merge_framing(&simple, other, sample_size)
        }
    }
}

/// The larger requirement of each: a larger mask includes the smaller ones.
fn merge_framing(
    pin: &SimpleFraming,
    other: &FramingRequest,
    sample_size: u32,
) -> Result<Framing, String> {
    let frames = pin.frames.max(other.frames);
    let bytes = pin.bytes.max(other.bytes);
    if frames > MAX_FRAMES {
        return Err(format!("{frames} frames are wanted, and {MAX_FRAMES} are the most"));
    }
    Ok(Framing {
        frames: if frames == 0 { DEFAULT_FRAMES } else { frames },
        bytes: if bytes == 0 { sample_size } else { bytes },
        alignment: pin.alignment | other.alignment,
        kind: if pin.kind == MemoryKind::Any { other.kind } else { pin.kind },
        system_memory: pin.system_memory,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(least: u32, most: u32) -> FramingItem {
        FramingItem {
            framing: SizeRange { min: least, max: most },
            frames: 3,
            ..FramingItem::default()
        }
    }

    #[test]
    fn the_upper_end_is_the_size_and_the_larger_wish_wins() {
        let framing = FramingForm::Extended(ExtendedFraming::new(vec![FramingItem {
            alignment: 15,
            ..item(64, 256)
        }]));
        let request =
            FramingRequest { frames: 5, bytes: 100, alignment: 3, ..FramingRequest::default() };
        let agreed = negotiate(Some(&framing), &request, 64).unwrap();
        assert_eq!((agreed.frames, agreed.bytes, agreed.alignment), (5, 256, 15));
        let request = FramingRequest { bytes: 300, ..FramingRequest::default() };
        assert!(negotiate(Some(&framing), &request, 64).unwrap_err().contains("300 bytes"));
    }

    #[test]
    fn without_a_limit_frames_are_as_large_as_serves() {
        let framing =
            |least, most| FramingForm::Extended(ExtendedFraming::new(vec![item(least, most)]));
        let bytes = |framing: &FramingForm, wanted| {
            let request = FramingRequest { bytes: wanted, ..FramingRequest::default() };
            negotiate(Some(framing), &request, 64).unwrap().bytes
        };
        let unlimited = framing(32, u32::MAX);
        assert_eq!([0, 16, 100].map(|number| bytes(&unlimited, number)), [64, 64, 100]);
        assert_eq!(bytes(&framing(80, u32::MAX), 0), 80);
        let no_wish = framing(0, 0);
        assert_eq!([0, 16, 100].map(|number| bytes(&no_wish, number)), [64, 64, 100]);
    }

    #[test]
    fn the_number_of_frames_is_limited() {
        let many = FramingItem { frames: u32::MAX, ..item(64, 64) };
        let framing = FramingForm::Extended(ExtendedFraming::new(vec![many]));
        let error = negotiate(Some(&framing), &FramingRequest::default(), 64).unwrap_err();
        assert!(error.contains("4294967295 frames are wanted"));
    }

    #[test]
    fn an_inconsistent_framing_is_explained() {
        let overlapping = ExtendedFraming::new(vec![item(0, 64), item(64, 128)]);
        assert!(overlapping.overlap_error().unwrap().contains("overlap"));
        assert!(ExtendedFraming::new(vec![item(0, 64), item(65, 128)]).overlap_error().is_none());
        assert!(ExtendedFraming::new(vec![item(9, 8)]).item_error().unwrap().contains("9 to 8"));
        let misaligned = FramingItem { alignment: 6, ..item(0, 8) };
        assert!(
            ExtendedFraming::new(vec![misaligned]).item_error().unwrap().contains("power of two")
        );
    }
}
