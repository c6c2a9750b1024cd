//! Framing: what pins ask of their frames, in both forms, and what two pins agree on.

use crate::memory::MemoryKind;

/// How many frames there are if neither side says.
const USUAL_FRAMES: u32 = 2;
/// A larger number is a mistake in a calculation: no machine has the memory.
const MOST_FRAMES: u32 = 1 << 16;

/// What a pin asks of its frames.
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
    /// How many bytes each has.
    pub bytes: u32,
    /// What they are aligned to, as a mask (`FileAlignment`).
    pub alignment: u32,
    /// Which memory (`PoolType`).
    pub kind: MemoryKind,
    /// It must be the system's (`KSALLOCATOR_REQUIREMENTF_SYSTEM_MEMORY`).
    pub system: bool,
    /// Zero.
    pub reserved: u32,
}

/// The new form (`KSALLOCATOR_FRAMING_EX`): several kinds of memory, the best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedFraming {
    /// How many items it says it has (`CountItems`).
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
    /// Which memory.
    pub kind: MemoryKind,
    /// The pin can allocate it (`KSALLOCATOR_FLAG_CAN_ALLOCATE`).
    pub can_allocate: bool,
    /// How many frames.
    pub frames: u32,
    /// What they are aligned to, as a mask (`FileAlignment`).
    pub alignment: u32,
    /// Which addresses the hardware reaches (`PhysicalRange`); all zero is no limit.
    pub physical: Span,
    /// How many bytes a frame has (`FramingRange`); all zero is no wish, and [`u32::MAX`] no limit.
    pub framing: Span,
}

/// From the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// The least.
    pub least: u32,
    /// The most.
    pub most: u32,
}

/// What the other side wants: zeros are no wish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// How many frames.
    pub frames: u32,
    /// How many bytes each has at least.
    pub bytes: u32,
    /// What they are aligned to, as a mask.
    pub alignment: u32,
    /// Which memory.
    pub kind: MemoryKind,
    /// It is in user mode: no memory of a kernel-mode allocator goes there.
    pub user: bool,
    /// It brings frames of its own.
    pub foreign: bool,
    /// Those have half the bytes that were agreed on: framing is a request.
    pub short: bool,
}

/// What was agreed on: what an allocator is initialised with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Framing {
    /// How many frames may be out at once.
    pub frames: u32,
    /// How many bytes each has.
    pub bytes: u32,
    /// What they are aligned to, as a mask.
    pub alignment: u32,
    /// Which memory.
    pub kind: MemoryKind,
    /// The pin's framing asks for the system's memory.
    pub system: bool,
}

impl Span {
    /// Whether the least is not above the most.
    pub fn is_ordered(self) -> bool {
        self.least <= self.most
    }

    fn meets(self, other: Span) -> bool {
        self.least <= other.most && other.least <= self.most
    }
}

/// Whether it is one less than a power of two.
pub(crate) fn is_mask(alignment: u32) -> bool {
    alignment & alignment.wrapping_add(1) == 0
}

impl SimpleFraming {
    pub(crate) fn bad_reserved(&self) -> Option<String> {
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

    pub(crate) fn bad_count(&self) -> Option<String> {
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

    pub(crate) fn bad_item(&self) -> Option<String> {
        self.items.iter().enumerate().find_map(|(place, it)| it.bad(place))
    }

    /// Two items for the same memory would both be right.
    pub(crate) fn overlap(&self) -> Option<String> {
        let pairs = self.items.iter().enumerate().flat_map(|(place, it)| {
            self.items.iter().enumerate().skip(place + 1).map(move |other| ((place, it), other))
        });
        let found = pairs.into_iter().find(|((_, one), (_, other))| {
            one.kind == other.kind
                && one.framing.meets(other.framing)
                && one.physical.meets(other.physical)
        });
        found.map(|((one, it), (other, also))| {
            format!(
                "items {one} and {other} of the framing are both for {} memory and overlap: frames \
                 of {} to {} bytes and of {} to {}",
                it.kind.name(),
                it.framing.least,
                it.framing.most,
                also.framing.least,
                also.framing.most
            )
        })
    }

    pub(crate) fn idle_allocator(&self) -> Option<String> {
        let place = self.items.iter().position(|it| it.can_allocate && it.frames == 0)?;
        Some(format!("item {place} of the framing can allocate, and asks for zero frames"))
    }
}

impl FramingItem {
    /// The most bytes a frame can have, if there is a limit.
    pub(crate) fn limit(&self) -> Option<u32> {
        (self.framing != Span::default() && self.framing.most != u32::MAX)
            .then_some(self.framing.most)
    }

    /// How many bytes a frame has for a format; zero is no wish.
    ///
    /// WINDOWS: D-19. The old form is made from the item: its upper end is the size. Where that is
    /// none it is our reading: as many as serve.
    fn bytes(&self, sample: u32) -> u32 {
        self.limit().unwrap_or(self.framing.least.max(sample))
    }

    fn bad(&self, place: usize) -> Option<String> {
        let spans = [("physical", self.physical), ("framing", self.framing)];
        if let Some((name, span)) = spans.iter().find(|(_, it)| !it.is_ordered()) {
            return Some(format!(
                "the {name} range of item {place} goes from {} to {}",
                span.least, span.most
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

/// What a pin and the other side agree on; `sample` is how many bytes the format has. Else why
/// they do not, in words.
pub(crate) fn negotiate(
    pin: Option<&FramingForm>,
    other: &Wish,
    sample: u32,
) -> Result<Framing, String> {
    if !is_mask(other.alignment) {
        return Err(format!("the other side wants alignment {:#x}", other.alignment));
    }
    match pin {
        None => agreed(&SimpleFraming { system: true, ..SimpleFraming::default() }, other, sample),
        Some(FramingForm::Simple(it)) => {
            if !it.kind.serves(other.kind) {
                return Err(format!(
                    "the pin wants {} memory and the other side {}",
                    it.kind.name(),
                    other.kind.name()
                ));
            }
            agreed(it, other, sample)
        }
        Some(FramingForm::Extended(it)) => {
            let fits = |item: &&FramingItem| {
                item.kind.serves(other.kind) && item.limit().is_none_or(|it| other.bytes <= it)
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
                bytes: item.bytes(sample),
                alignment: item.alignment,
                kind: item.kind,
                system: item.kind.is_system(),
                reserved: 0,
            };
            agreed(&simple, other, sample)
        }
    }
}

/// The larger wish of each: masks have the smaller ones in them.
fn agreed(pin: &SimpleFraming, other: &Wish, sample: u32) -> Result<Framing, String> {
    let frames = pin.frames.max(other.frames);
    let bytes = pin.bytes.max(other.bytes);
    if frames > MOST_FRAMES {
        return Err(format!("{frames} frames are wanted, and {MOST_FRAMES} are the most"));
    }
    Ok(Framing {
        frames: if frames == 0 { USUAL_FRAMES } else { frames },
        bytes: if bytes == 0 { sample } else { bytes },
        alignment: pin.alignment | other.alignment,
        kind: if pin.kind == MemoryKind::Any { other.kind } else { pin.kind },
        system: pin.system,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(least: u32, most: u32) -> FramingItem {
        FramingItem { framing: Span { least, most }, frames: 3, ..FramingItem::default() }
    }

    #[test]
    fn the_upper_end_is_the_size_and_the_larger_wish_wins() {
        let framing = FramingForm::Extended(ExtendedFraming::new(vec![FramingItem {
            alignment: 15,
            ..item(64, 256)
        }]));
        let wish = Wish { frames: 5, bytes: 100, alignment: 3, ..Wish::default() };
        let agreed = negotiate(Some(&framing), &wish, 64).unwrap();
        assert_eq!((agreed.frames, agreed.bytes, agreed.alignment), (5, 256, 15));
        let wish = Wish { bytes: 300, ..Wish::default() };
        assert!(negotiate(Some(&framing), &wish, 64).unwrap_err().contains("300 bytes"));
    }

    #[test]
    fn without_a_limit_frames_are_as_large_as_serves() {
        let framing =
            |least, most| FramingForm::Extended(ExtendedFraming::new(vec![item(least, most)]));
        let bytes = |framing: &FramingForm, wanted| {
            let wish = Wish { bytes: wanted, ..Wish::default() };
            negotiate(Some(framing), &wish, 64).unwrap().bytes
        };
        let unlimited = framing(32, u32::MAX);
        assert_eq!([0, 16, 100].map(|it| bytes(&unlimited, it)), [64, 64, 100]);
        assert_eq!(bytes(&framing(80, u32::MAX), 0), 80);
        let no_wish = framing(0, 0);
        assert_eq!([0, 16, 100].map(|it| bytes(&no_wish, it)), [64, 64, 100]);
    }

    #[test]
    fn nobody_makes_frames_without_end() {
        let many = FramingItem { frames: u32::MAX, ..item(64, 64) };
        let framing = FramingForm::Extended(ExtendedFraming::new(vec![many]));
        let refused = negotiate(Some(&framing), &Wish::default(), 64).unwrap_err();
        assert!(refused.contains("4294967295 frames are wanted"));
    }

    #[test]
    fn what_cannot_be_is_said_in_words() {
        let overlapping = ExtendedFraming::new(vec![item(0, 64), item(64, 128)]);
        assert!(overlapping.overlap().unwrap().contains("overlap"));
        assert!(ExtendedFraming::new(vec![item(0, 64), item(65, 128)]).overlap().is_none());
        assert!(ExtendedFraming::new(vec![item(9, 8)]).bad_item().unwrap().contains("9 to 8"));
        let crooked = FramingItem { alignment: 6, ..item(0, 8) };
        assert!(ExtendedFraming::new(vec![crooked]).bad_item().unwrap().contains("power of two"));
    }
}
