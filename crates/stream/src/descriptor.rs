//! A minidriver's descriptors in plain types, and the checks of their consistency.

use crate::driver_calls::Entry;
use crate::framing::FramingForm;
use flight::RuleId;
use std::fmt;

/// The descriptor of a device (`KSDEVICE_DESCRIPTOR`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceDescriptor {
    /// Which entries it has (`KSDEVICE_DISPATCH`).
    pub dispatch: Vec<Entry>,
    /// Its filters: each gets a filter factory.
    pub filters: Vec<FilterDescriptor>,
}

/// The descriptor of a filter (`KSFILTER_DESCRIPTOR`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterDescriptor {
    /// Which entries it has (`KSFILTER_DISPATCH`).
    pub dispatch: Vec<Entry>,
    /// Its process routine is called at dispatch level
    /// (`KSFILTER_FLAG_DISPATCH_LEVEL_PROCESSING`).
    pub dispatch_level: bool,
    /// The kinds of pins it has.
    pub pins: Vec<PinDescriptor>,
}

/// The direction of data (`KSPIN_DATAFLOW`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    /// Out of the filter: the driver fills frames.
    #[default]
    Out,
    /// Into the filter: the driver reads frames.
    In,
}

/// The descriptor of a pin (`KSPIN_DESCRIPTOR_EX`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinDescriptor {
    /// Which entries it has (`KSPIN_DISPATCH`).
    pub dispatch: Vec<Entry>,
    /// Which entries its allocator has, if it has one (`KSALLOCATOR_DISPATCH`).
    pub allocator: Option<Vec<Entry>>,
    /// The direction of data.
    pub flow: Flow,
    /// Its data ranges, in order. A pin without any (a bridge pin) cannot be opened.
    pub formats: Vec<Format>,
    /// Its framing requirements.
    pub framing: Option<FramingForm>,
    /// Its flags (`KSPIN_FLAG_*`).
    pub flags: Vec<PinFlag>,
    /// The maximum number of instances (`InstancesPossible`): zero for a pin that is only described
    /// and cannot be opened.
    pub instances_possible: u32,
    /// How many instances are needed before a state change (`InstancesNecessary`).
    pub instances_necessary: u32,
}

impl Default for PinDescriptor {
    fn default() -> Self {
        Self {
            dispatch: Vec::new(),
            allocator: None,
            flow: Flow::Out,
            formats: Vec::new(),
            framing: None,
            flags: Vec::new(),
            instances_possible: 1,
            instances_necessary: 0,
        }
    }
}

/// A format, or a range of formats (`KSDATAFORMAT`, `KSDATARANGE`). In a range a zero matches all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Format {
    /// The major format (`MajorFormat`).
    pub major: u128,
    /// The subformat (`SubFormat`).
    pub sub_format: u128,
    /// The format of `specific` (`Specifier`).
    pub specifier: u128,
    /// The size of a sample in bytes (`SampleSize`).
    pub sample_size: u32,
    /// The bytes that follow, which the driver defines.
    pub block: Vec<u8>,
}

impl Format {
    /// Whether a format is in this range.
    pub fn contains(&self, format: &Format) -> bool {
        let same = |range: u128, it: u128| range == 0 || range == it;
        same(self.major, format.major)
            && same(self.sub_format, format.sub_format)
            && same(self.specifier, format.specifier)
    }

    /// The format of a picture with twice the lines. `None` if it is not known where the format
    /// block has them.
    ///
    /// WINDOWS: the sizes of a video format agree: a minidriver may refuse a format whose
    /// `SampleSize` is not its `biSizeImage` (documented).
    pub fn with_twice_the_lines(&self) -> Option<Format> {
        let mut format = Format { sample_size: self.sample_size.checked_mul(2)?, ..self.clone() };
        let header = match self.specifier {
            SPECIFIER_NONE => return Some(format),
            SPECIFIER_VIDEO_INFO => VIDEO_INFO_BITMAP,
            SPECIFIER_VIDEO_INFO_2 => VIDEO_INFO_2_BITMAP,
            _ => return None,
        };
        for field in [BITMAP_HEIGHT, BITMAP_SIZE_IMAGE] {
            let bytes = format.block.get_mut(header + field..)?.first_chunk_mut::<4>()?;
            *bytes = i32::from_le_bytes(*bytes).checked_mul(2)?.to_le_bytes();
        }
        Some(format)
    }
}

/// The format block is the driver's own (`KSDATAFORMAT_SPECIFIER_NONE`).
const SPECIFIER_NONE: u128 = 0x0f64_17d6_c318_11d0_a43f_00a0_c922_3196;
/// The format block is a `KS_VIDEOINFOHEADER` (`KSDATAFORMAT_SPECIFIER_VIDEOINFO`).
const SPECIFIER_VIDEO_INFO: u128 = 0x0558_9f80_c356_11ce_bf01_00aa_0055_595a;
/// The format block is a `KS_VIDEOINFOHEADER2` (`KSDATAFORMAT_SPECIFIER_VIDEOINFO2`).
const SPECIFIER_VIDEO_INFO_2: u128 = 0xf72a_76a0_eb0a_11d0_ace4_0000_c0cc_16ba;
/// Where the two have their `KS_BITMAPINFOHEADER`, and where that has `biHeight` and `biSizeImage`.
const VIDEO_INFO_BITMAP: usize = 48;
const VIDEO_INFO_2_BITMAP: usize = 72;
const BITMAP_HEIGHT: usize = 8;
const BITMAP_SIZE_IMAGE: usize = 20;

macro_rules! flags {
    ($($(#[doc = $doc:literal])+ $name:ident;)*) => {
        /// The flags of a pin (`KSPIN_FLAG_*`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PinFlag {
            $($(#[doc = $doc])+ $name,)*
        }
    };
}

flags! {
    /// Its process routine is called at dispatch level.
    DispatchLevelProcessing;
    /// Its work has higher priority than ordinary work.
    CriticalProcessing;
    /// Its work has the highest priority.
    HypercriticalProcessing;
    /// Its work is done on another thread.
    AsynchronousProcessing;
    /// An arriving frame does not start processing.
    DoNotInitiateProcessing;
    /// Every arriving frame starts processing.
    InitiateProcessingOnEveryArrival;
    /// Processing needs no frames of this pin.
    FramesNotRequiredForProcessing;
    /// Its filter is processed if some of its pins have frames.
    SomeFramesRequiredForProcessing;
    /// Frames leave in order.
    EnforceFifo;
    /// Its frames have mappings for the hardware.
    GenerateMappings;
    /// It has a trailing edge.
    DistinctTrailingEdge;
    /// It is processed only in the run state.
    ProcessInRunStateOnly;
    /// Its filter is processed if any pin runs.
    ProcessIfAnyInRunState;
    /// Its state changes go through every intermediate state.
    UseStandardTransport;
    /// Its state changes may skip intermediate states.
    DoNotUseStandardTransport;
}

/// The Windows name: `KSPIN_FLAG_ENFORCE_FIFO`.
impl fmt::Display for PinFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KSPIN_FLAG")?;
        for letter in format!("{self:?}").chars() {
            let word_starts = if letter.is_ascii_uppercase() { "_" } else { "" };
            write!(f, "{word_starts}{}", letter.to_ascii_uppercase())?;
        }
        Ok(())
    }
}

/// The flags of a pin, as a set of bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PinFlagSet(u32);

impl PinFlagSet {
    pub(crate) fn new(flags: &[PinFlag]) -> Self {
        Self(flags.iter().fold(0, |set, flag| set | 1 << *flag as u32))
    }

    #[inline]
    pub(crate) fn contains(self, flag: PinFlag) -> bool {
        self.0 & 1 << flag as u32 != 0
    }
}

/// Flags that exclude each other.
const EXCLUSIVE_FLAGS: [(PinFlag, PinFlag); 5] = [
    (PinFlag::CriticalProcessing, PinFlag::HypercriticalProcessing),
    (PinFlag::DoNotInitiateProcessing, PinFlag::InitiateProcessingOnEveryArrival),
    (PinFlag::FramesNotRequiredForProcessing, PinFlag::SomeFramesRequiredForProcessing),
    (PinFlag::ProcessInRunStateOnly, PinFlag::ProcessIfAnyInRunState),
    (PinFlag::UseStandardTransport, PinFlag::DoNotUseStandardTransport),
];

/// An inconsistency of a descriptor, as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescriptorError(pub String);

impl std::error::Error for DescriptorError {}

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A rule that was judged, and how it was broken.
pub(crate) type RuleCheck = (RuleId, Option<String>);

impl PinDescriptor {
    /// Whether the pin has a flag.
    #[inline]
    pub fn has_flag(&self, flag: PinFlag) -> bool {
        self.flags.contains(&flag)
    }

    /// Whether state changes go through every intermediate state.
    pub fn changes_state_stepwise(&self) -> bool {
        !self.has_flag(PinFlag::DoNotUseStandardTransport)
    }

    fn judge(&self, filter: &FilterDescriptor, all: &mut Vec<RuleCheck>) {
        let both = EXCLUSIVE_FLAGS
            .iter()
            .find(|(one, other)| self.has_flag(*one) && self.has_flag(*other));
        let broken = both.map(|(one, other)| {
            format!("a pin has both {one} and {other}, which exclude each other")
        });
        all.push((RuleId::KS_PIN_010, broken));
        let processed = self.dispatch.contains(&Entry::PinProcess)
            || filter.dispatch.contains(&Entry::FilterProcess);
        if self.has_flag(PinFlag::DoNotInitiateProcessing) && self.changes_state_stepwise() {
            let broken = (!processed).then(|| {
                "a pin of standard transport does not initiate processing, and neither it nor its \
                 filter has a process routine"
                    .to_owned()
            });
            all.push((RuleId::KS_PIN_011, broken));
        }
        if let Some(allocator) = &self.allocator {
            let missing = Entry::ALLOCATOR.iter().find(|entry| !allocator.contains(entry));
            let broken = missing.map(|entry| {
                format!("the allocator of a pin has no {}: it needs all four", entry.name())
            });
            all.push((RuleId::KS_ALLOC_017, broken));
        }
        self.judge_framing(all);
    }

    /// The rules on framing: judged for the descriptor, and after each edit.
    pub(crate) fn judge_framing(&self, all: &mut Vec<RuleCheck>) {
        match &self.framing {
            None => (),
            Some(FramingForm::Simple(it)) => {
                all.push((RuleId::KS_FRAMING_004, it.reserved_error()));
            }
            Some(FramingForm::Extended(it)) => {
                all.push((RuleId::KS_FRAMING_001, it.count_error()));
                all.push((RuleId::KS_FRAMING_002, it.item_error()));
                let claims = self.allocator.is_none()
                    && it.items.iter().any(|framing_item| framing_item.can_allocate);
                let broken = claims.then(|| {
                    "the framing of a pin says that it can allocate, and it has no allocator"
                        .to_owned()
                });
                all.push((RuleId::KS_FRAMING_003, broken));
            }
        }
    }

    /// Inconsistencies that no rule covers.
    fn descriptor_error(&self) -> Option<String> {
        match &self.framing {
            Some(FramingForm::Simple(it)) if !crate::framing::is_mask(it.alignment) => Some(format!(
                "the framing of a pin asks for alignment {:#x}, which is not one less than a power \
                 of two",
                it.alignment
            )),
            Some(FramingForm::Extended(it)) => it.overlap_error().or_else(|| it.missing_allocator_error()),
            _ => None,
        }
        .or_else(|| {
            (self.instances_necessary > self.instances_possible).then(|| {
                format!("a pin must be there {} times and can {}", self.instances_necessary, self.instances_possible)
            })
        })
    }
}

impl FilterDescriptor {
    /// Whether its pins are processed together.
    pub fn is_filter_centric(&self) -> bool {
        self.dispatch.contains(&Entry::FilterProcess)
    }

    pub(crate) fn judge(&self) -> Vec<RuleCheck> {
        let mut all = Vec::new();
        let pin = self
            .pins
            .iter()
            .position(|pin_descriptor| pin_descriptor.dispatch.contains(&Entry::PinProcess));
        let broken = pin.filter(|_| self.is_filter_centric()).map(|index| {
            format!(
                "a filter has a process routine, and its pin {index} has one, too: only one may"
            )
        });
        all.push((RuleId::KS_PROC_005, broken));
        for pin in &self.pins {
            pin.judge(self, &mut all);
        }
        all
    }

    pub(crate) fn descriptor_error(&self) -> Option<DescriptorError> {
        self.pins.iter().find_map(PinDescriptor::descriptor_error).map(DescriptorError)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_in_a_range_if_every_part_is() {
        let format = |major, sub_format, specifier| Format {
            major,
            sub_format,
            specifier,
            ..Format::default()
        };
        let range = format(1, 2, 3);
        assert!(range.contains(&format(1, 2, 3)));
        for other in [format(9, 2, 3), format(1, 9, 3), format(1, 2, 9)] {
            assert!(!range.contains(&other), "{other:?}");
        }
        assert!(format(1, 0, 0).contains(&format(1, 7, 8)), "a zero matches all");
        assert!(!format(1, 0, 0).contains(&format(2, 7, 8)));
    }

    fn video(specifier: u128, header: usize) -> Format {
        let mut block = vec![0; header + 40];
        block[header + BITMAP_HEIGHT..][..4].copy_from_slice(&(-240_i32).to_le_bytes());
        block[header + BITMAP_SIZE_IMAGE..][..4].copy_from_slice(&76_800_i32.to_le_bytes());
        Format { specifier, sample_size: 76_800, block, ..Format::default() }
    }

    #[test]
    fn twice_the_lines_change_every_size_of_a_video_format() {
        for (specifier, header) in [(SPECIFIER_VIDEO_INFO, 48), (SPECIFIER_VIDEO_INFO_2, 72)] {
            let large = video(specifier, header).with_twice_the_lines().unwrap();
            let number = |at: usize| {
                i32::from_le_bytes(*large.block[header + at..].first_chunk::<4>().unwrap())
            };
            assert_eq!((large.sample_size, number(8), number(20)), (153_600, -480, 153_600));
        }
    }

    #[test]
    fn a_format_without_known_lines_is_not_doubled() {
        let audio = Format { specifier: 1, sample_size: 4, ..Format::default() };
        assert_eq!(audio.with_twice_the_lines(), None);
        let short = Format { block: vec![0; 60], ..video(SPECIFIER_VIDEO_INFO, 48) };
        assert_eq!(short.with_twice_the_lines(), None);
    }
}
