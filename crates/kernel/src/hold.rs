//! Holds: a driver's own data that it has acquired by a client's handle and not let go of.
//!
//! # Invariants
//!
//! 1. While a driver holds the data of an allocation or a resource, the view by which it was
//!    acquired does not end, and so neither do they: the retirement waits as a job, and is
//!    looked at again when a hold ends.
//! 2. A hold ends once: by the driver, or with the device by whose view it was acquired.

use crate::device::Device;
use crate::handle::Handle;
use crate::handle::ObjectId;
use crate::kernel::Kernel;
use crate::miniport::Token;
use crate::resource::ResourceView;
use crate::retire::Retirement;
use crate::start::Adapter;
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Call, Hex, InCall, Passive, RuleId, Subject, What, Who};

/// Data that a driver has acquired.
pub(crate) struct Hold {
    adapter: Id<Adapter>,
    /// What it is the data of: an allocation, a resource, or a view.
    of: Subject,
    /// The allocation or resource whose end it holds back.
    pub(crate) keeps: Subject,
    /// The device by whose view it was acquired.
    pub(crate) device: Id<Device>,
    /// The kind of handle that the driver said, whatever it means.
    kind: u32,
    /// The call it was acquired in.
    call: u32,
}

const ACQUIRE: &str = "DxgkCbAcquireHandleData.Flags.DeviceSpecific";
const RELEASE: &str = "DxgkCbReleaseHandleData";

impl Kernel {
    /// The driver's word behind a client's handle, in the process the running call is for, and
    /// the number it is let go with.
    pub(crate) fn acquire(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        handle: Handle,
        of_device: bool,
        kind: u32,
    ) -> Option<(usize, u32)> {
        let mut world = self.world.hold();
        let Call { number: call, process, .. } = InCall::current()?;
        let process = world.processes.find_serial(process?)?;
        let object = world.processes[process].names.find_for_driver(handle)?;
        let object = world.as_view(object);
        let stray = of_device && matches!(object, ObjectId::ResourceView(_));
        let broken = stray.then(|| {
            let (handle, subject) = (Hex(handle.0), object.subject());
            format!("DeviceSpecific is set for {handle}, which names {subject} and no allocation")
        });
        self.log.judge(RuleId::CB_HANDLE_002, Who::Driver, adapter.subject(), ACQUIRE, broken);
        if stray {
            return None;
        }
        let (of, keeps, device, word) = world.data_of(object, of_device)?;
        world.last_hold += 1;
        let number = world.last_hold;
        world.holds.insert(number, Hold { adapter, of, keeps, device, kind, call });
        world.calls.insert(call);
        InCall::mark(); // Its end is looked at.
        self.log.emit(of, What::HandleAcquired { word: self.log.word(word), hold: number });
        Some((word, number))
    }

    /// Lets go of what was acquired under that number.
    pub(crate) fn release(
        &self,
        _at: &mut Passive,
        adapter: Id<Adapter>,
        number: usize,
        kind: u32,
    ) {
        let mut world = self.world.hold();
        let known = u32::try_from(number).ok().and_then(|it| Some((it, world.holds.get(&it)?)));
        let known = known.filter(|(_, it)| it.adapter == adapter);
        let broken = match known {
            None => Some(format!("{number:#x} is let go of, but nothing is held by that number")),
            Some((_, it)) if it.kind != kind => Some(format!(
                "the data of {} is let go of as of type {kind}, but was acquired as of type {}",
                it.of, it.kind
            )),
            Some(_) => None,
        };
        self.log.judge(RuleId::CB_HANDLE_005, Who::Driver, adapter.subject(), RELEASE, broken);
        if let Some((number, _)) = known {
            self.end_hold(&mut world, number);
        }
    }

    fn end_hold(&self, world: &mut World, number: u32) {
        let Some(hold) = world.holds.remove(&number) else { return };
        self.log.emit(hold.of, What::HandleReleased { hold: number });
        if !world.jobs.is_empty() {
            self.ring(&self.bell);
        }
    }

    /// Ends what a driver has forgotten to let go of, in calls that have returned, before
    /// something goes that cannot wait for it.
    ///
    /// WINDOWS: our decision; what waited for the driver would never go.
    pub(crate) fn end_holds(&self, of: impl Fn(&Hold) -> bool) {
        let mut world = self.world.hold();
        let forgotten = |it: &Hold| of(it) && !world.calls.contains(&it.call);
        let numbers: Vec<u32> =
            world.holds.iter().filter(|(_, it)| forgotten(it)).map(|(number, _)| *number).collect();
        for number in numbers {
            let Some(it) = world.holds.get(&number) else { continue };
            let broken = format!("the data of {} was acquired and never let go of", it.of);
            self.log.judge(
                RuleId::CB_HANDLE_005,
                Who::Driver,
                it.adapter.subject(),
                RELEASE,
                Some(broken),
            );
            self.end_hold(&mut world, number);
        }
    }

    /// Makes a retirement wait as a job where a driver holds something that it would end, and
    /// judges whether anybody is left to let go. Looked at and queued under one hold, so that
    /// whoever lets go finds the job.
    pub(crate) fn hold_back(
        &self,
        world: &mut World,
        adapter: Id<Adapter>,
        retirement: Id<Retirement>,
    ) -> bool {
        let holds = world.holds_of(retirement);
        let mut forgotten = holds.iter().filter(|it| !world.calls.contains(&it.call));
        let broken = forgotten.next().map(|it| {
            format!(
                "{} is to be destroyed, but its driver acquired its data in a call that has \
                 returned, and holds it: the end waits for its release",
                it.keeps
            )
        });
        let place = "DxgkCbAcquireHandleData";
        self.log.judge(RuleId::CB_HANDLE_007, Who::Driver, adapter.subject(), place, broken);
        let held = !holds.is_empty();
        if held {
            world.jobs.push_back(retirement);
        }
        held
    }
}

impl World {
    /// What the data behind a handle is of, whose end it holds back, the device, and the word.
    fn data_of(
        &self,
        named: ObjectId,
        of_device: bool,
    ) -> Option<(Subject, Subject, Id<Device>, usize)> {
        match named {
            ObjectId::View(number) => {
                let view = &self.views[number];
                let keeps = view.allocation.subject();
                let own = self.allocations[view.allocation].word.as_ref().map(Token::word);
                let theirs = view.word.as_ref().map(Token::word);
                let (of, word) = if of_device { (number.subject(), theirs) } else { (keeps, own) };
                Some((of, keeps, view.device, word?))
            }
            ObjectId::ResourceView(number) => {
                let view = &self.resource_views[number];
                let keeps = view.resource.subject();
                let word = self.resources[view.resource].said;
                Some((keeps, keeps, view.device, word))
            }
            _ => None,
        }
    }

    /// What a driver holds that a retirement would end. What it acquired by another device's
    /// view holds back that device's view, and so the allocation or resource, but not this one.
    pub(crate) fn holds_of(&self, retirement: Id<Retirement>) -> Vec<&Hold> {
        let Some(it) = self.retirements.get(retirement).filter(|_| !self.holds.is_empty()) else {
            return Vec::new();
        };
        let allocation = |it: &Id<View>| Some((self.views.get(*it)?.allocation).subject());
        let resource =
            |it: Id<ResourceView>| Some((self.resource_views.get(it)?.resource).subject());
        let views = it.views.iter().filter_map(allocation);
        let ends: Vec<Subject> = views.chain(it.resource_view.and_then(resource)).collect();
        let device = it.device;
        let held = |it: &&Hold| it.device == device && ends.contains(&it.keeps);
        self.holds.values().filter(held).collect()
    }
}
