//! Allocators, and the frames they allocate.

use super::*;

#[test]
fn an_allocator_that_leaks_or_misreports_is_reported() {
    let left = broken_by(true, |_, entry, _| {
        if entry == Entry::DeleteAllocator { Err(DriverError::Busy) } else { Ok(()) }
    });
    assert_eq!(left, [RuleId::KS_ALLOC_014]);
    let lock_failed = broken_by(true, |it, entry, _| {
        if entry == Entry::InitializeAllocator {
            it.services().allocate_memory(8, 0, MemoryKind::Paged);
            return Err(DriverError::NoMemory);
        }
        Ok(())
    });
    assert_eq!(lock_failed, [RuleId::KS_ALLOC_004]);
    let late = {
        let slot = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        broken_by(true, move |it, entry, _| {
            match entry {
                Entry::InitializeAllocator => {
                    let blocks_allocated =
                        it.services().allocate_memory(8, 0, MemoryKind::Paged).unwrap();
                    slot.store(blocks_allocated, std::sync::atomic::Ordering::Relaxed);
                }
                Entry::PinClose => {
                    let slot = slot.load(std::sync::atomic::Ordering::Relaxed);
                    it.services().free_memory(slot).unwrap();
                }
                _ => (),
            }
            Ok(())
        })
    };
    assert_eq!(late, [RuleId::KS_ALLOC_014, RuleId::KS_ALLOC_015]);
}

#[test]
fn memory_is_not_written_after_its_frame_was_freed() {
    let slot = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let written = broken_by(true, move |it, entry, pin| {
        match entry {
            Entry::PinProcess => {
                if let Some(edge) = it.services().leading_edge(pin, true) {
                    let data = it.services().pointer_memory(edge).unwrap();
                    it.services().write_memory(data, 0, &[1]).unwrap();
                    slot.store(data, std::sync::atomic::Ordering::Relaxed);
                }
            }
            Entry::DeleteAllocator => {
                let slot = slot.load(std::sync::atomic::Ordering::Relaxed);
                assert!(it.services().write_memory(slot, 0, &[2]).is_err());
            }
            _ => (),
        }
        Ok(())
    });
    assert_eq!(written, [RuleId::KS_ALLOC_011]);
}

#[test]
fn the_default_allocator_is_for_system_memory() {
    let mut source = Source::new(false);
    if let Some(FramingForm::Simple(it)) = &mut source.descriptor.filters[0].pins[0].framing {
        it.system_memory = false;
    }
    assert_eq!(broken_in(source, |_, _, _| ()), [RuleId::KS_ALLOC_025]);
}

/// A driver whose allocator behaves differently.
struct AllocatorFlawDriver(Source, AllocatorFlaw, std::sync::Mutex<usize>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum AllocatorFlaw {
    NoContext,
    SharedContext,
    Short,
    Misaligned,
    Paged,
    Twice,
}

impl Minidriver for AllocatorFlawDriver {
    fn delegate(&self) -> Option<&dyn Minidriver> {
        Some(&self.0)
    }

    fn initialize_allocator(
        &self,
        at: &mut Passive,
        pin: &PinView,
        framing: &Framing,
        slot: HandleSlot<'_, AllocatorId>,
    ) -> DriverResult<DriverAllocator> {
        match self.1 {
            AllocatorFlaw::NoContext => Ok(slot.fill(0)),
            AllocatorFlaw::SharedContext => Ok(slot.fill(0x77)),
            _ => self.0.initialize_allocator(at, pin, framing, slot),
        }
    }

    fn allocate(
        &self,
        _allocator: &DriverAllocator,
        slot: HandleSlot<'_, FrameId>,
    ) -> Option<DriverFrame> {
        let services = self.0.services();
        let make = |bytes, kind| services.allocate_memory(bytes, 15, kind);
        match self.1 {
            AllocatorFlaw::NoContext | AllocatorFlaw::SharedContext => {
                Some(slot.fill(make(BYTES, MemoryKind::NonPaged)?))
            }
            AllocatorFlaw::Short => Some(slot.fill(make(BYTES - 1, MemoryKind::NonPaged)?)),
            AllocatorFlaw::Paged => Some(slot.fill(make(BYTES, MemoryKind::Paged)?)),
            AllocatorFlaw::Misaligned => {
                Some(slot.fill(make(BYTES + 1, MemoryKind::NonPaged)? + 1))
            }
            AllocatorFlaw::Twice => {
                // The same frame forever.
                let mut kept = self.2.lock().unwrap();
                let frame = match *kept {
                    0 => make(BYTES, MemoryKind::NonPaged)?,
                    frame => frame,
                };
                *kept = frame;
                Some(slot.fill(frame))
            }
        }
    }

    fn free_frame(&self, _allocator: &DriverAllocator, frame: DriverFrame) {
        let slot = frame.as_raw() & !1;
        let _ = self.0.services().free_memory(slot);
    }
}

fn rules_broken_by(flaw: AllocatorFlaw) -> Vec<RuleId> {
    let (events, _) = fly(0, |run, at| {
        let mut source = Source::new(true);
        source.descriptor.filters[0].pins[0].instances_possible = 2;
        let minidriver = AllocatorFlawDriver(source, flaw, std::sync::Mutex::new(0));
        let setup = DriverSetup { minidriver: Arc::new(minidriver), memory: run.memory.clone() };
        let device = run.stream.add_device(at, setup).unwrap();
        let graph = run.open(at, device).unwrap();
        let other = run.stream.create_pin(at, graph.filter, 0, &format()).unwrap();
        if flaw == AllocatorFlaw::SharedContext {
            run.stream.connect(at, other, &FramingRequest::default()).unwrap();
        }
        let _ = run.stream.set_state(at, graph.pin, PinState::Acquire);
        run.stream.remove_device(at, device).unwrap();
        run.assert_empty();
    });
    broken(&events)
}

#[test]
fn frames_and_contexts_that_differ_from_the_request_are_reported() {
    assert_eq!(rules_broken_by(AllocatorFlaw::NoContext), [RuleId::KS_ALLOC_003]);
    assert_eq!(rules_broken_by(AllocatorFlaw::SharedContext), [RuleId::KS_ALLOC_003]);
    assert_eq!(rules_broken_by(AllocatorFlaw::Short), [RuleId::KS_ALLOC_006]);
    assert_eq!(rules_broken_by(AllocatorFlaw::Misaligned), [RuleId::KS_ALLOC_006]);
    assert_eq!(rules_broken_by(AllocatorFlaw::Paged), [RuleId::KS_ALLOC_006]);
    assert_eq!(rules_broken_by(AllocatorFlaw::Twice), [RuleId::KS_ALLOC_008]);
}

#[test]
fn frames_of_the_other_side_may_be_smaller() {
    let wish = FramingRequest { user_mode: true, half_size: true, ..FramingRequest::default() };
    let fly_it = |copes: bool| {
        let source = Source::with(false, move |it, entry, pin| {
            if entry == Entry::PinProcess && !copes {
                let edge = it.services().leading_edge(pin, true).unwrap();
                assert!(it.services().write(edge, 0, &pattern(0)).is_err());
            }
            Ok(())
        });
        let (events, _) = fly(0, |run, at| {
            let device = run.add(at, source).unwrap();
            let graph = Graph::open(&run.stream, at, device, &format(), &wish).unwrap();
            assert_eq!(graph.run(at, 1).unwrap()[0].bytes.len(), BYTES as usize / 2);
            run.stream.remove_device(at, device).unwrap();
            run.assert_empty();
        });
        broken(&events)
    };
    assert_eq!(fly_it(true), []);
    assert_eq!(fly_it(false), [RuleId::KS_FRAMING_007]);
}
