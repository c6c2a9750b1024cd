//! Inconsistent descriptors of a driver.

use super::*;

#[test]
fn a_format_that_grows_needs_a_framing_that_grows() {
    let large = Format { sample_size: BYTES * 2, ..format() };
    for (edits, rules) in [(false, vec![RuleId::KS_FRAMING_005]), (true, vec![])] {
        let source = Source::with(false, move |it, entry, pin| {
            if entry == Entry::PinSetDataFormat && edits {
                let simple = SimpleFraming {
                    frames: 2,
                    bytes: BYTES * 2,
                    system_memory: true,
                    ..Default::default()
                };
                let framing = Some(FramingForm::Simple(simple));
                it.services().edit_framing(pin, framing).unwrap();
            }
            Ok(())
        });
        let large = large.clone();
        let broken = broken_in(source, |run, at, graph| {
            run.stream.set_format(at, graph.pin, &large).unwrap();
        });
        assert_eq!(broken, rules);
    }
    let misaligned = broken_by(
        false,
        once(Entry::PinCreate, |it, pin| {
            let item = FramingItem { alignment: 6, ..FramingItem::default() };
            let framing = FramingForm::Extended(ExtendedFraming::new(vec![item]));
            assert!(it.services().edit_framing(pin, Some(framing)).is_err());
        }),
    );
    assert_eq!(misaligned, [RuleId::KS_FRAMING_002], "an edit is judged as the first one");
    let unheld = broken_by(
        false,
        once(Entry::PinProcess, |it, pin| {
            assert!(it.services().edit_framing(pin, None).is_err());
        }),
    );
    assert_eq!(unheld, [RuleId::KS_BAG_005]);
}

/// Why a source with a changed descriptor is refused, and which rules that breaks.
fn refused(own: bool, change: impl FnOnce(&mut PinDescriptor)) -> (String, Vec<RuleId>) {
    let mut why = String::new();
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(own);
        change(&mut source.descriptor.filters[0].pins[0]);
        why = run.add(at, source).unwrap_err().to_string();
        run.assert_empty();
    });
    (why, broken(&events))
}

fn with_item(change: impl FnOnce(&mut FramingItem)) -> (String, Vec<RuleId>) {
    refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        change(&mut framing.items[0]);
    })
}

#[test]
fn what_cannot_be_is_refused_with_a_reason() {
    let check = |(why, rules): (String, Vec<RuleId>), said: &str, rule: &[RuleId]| {
        assert!(why.contains(said), "{why}");
        assert_eq!(rules, rule, "{why}");
    };
    check(with_item(|framing_item| framing_item.frames = 0), "zero frames", &[]);
    check(
        with_item(|framing_item| framing_item.alignment = 5),
        "power of two",
        &[RuleId::KS_FRAMING_002],
    );
    check(
        with_item(|framing_item| framing_item.framing.min = 99),
        "from 99 to 64",
        &[RuleId::KS_FRAMING_002],
    );
    let overlap = refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        framing.items.push(framing.items[0]);
        framing.count = 2;
    });
    check(overlap, "overlap", &[]);
    let count = refused(true, |pin| {
        let Some(FramingForm::Extended(framing)) = &mut pin.framing else { return };
        framing.count = 2;
    });
    check(count, "has 1", &[RuleId::KS_FRAMING_001]);
    let missing = refused(true, |pin| pin.allocator = Some(Entry::ALLOCATOR[..3].to_vec()));
    check(missing, "AVStrMiniDeleteAllocator", &[RuleId::KS_ALLOC_017]);
    let none = refused(true, |pin| pin.allocator = None);
    check(none, "has no allocator", &[RuleId::KS_FRAMING_003]);
    let reserved = refused(false, |pin| {
        let Some(FramingForm::Simple(framing)) = &mut pin.framing else { return };
        framing.reserved = 1;
    });
    check(reserved, "Reserved", &[RuleId::KS_FRAMING_004]);
    let both = refused(false, |pin| {
        pin.flags = vec![PinFlag::CriticalProcessing, PinFlag::HypercriticalProcessing];
    });
    check(both, "exclude each other", &[RuleId::KS_PIN_010]);
    let unprocessed = refused(false, |pin| {
        pin.flags = vec![PinFlag::DoNotInitiateProcessing];
        pin.dispatch.retain(|entry| *entry != Entry::PinProcess);
    });
    check(unprocessed, "process routine", &[RuleId::KS_PIN_011]);
}

#[test]
fn only_one_process_routine_is_there() {
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(true);
        source.descriptor.filters[0].dispatch.push(Entry::FilterProcess);
        assert!(matches!(run.add(at, source), Err(StreamError::Descriptor(_))));
    });
    assert_eq!(broken(&events), [RuleId::KS_PROC_005]);
}
