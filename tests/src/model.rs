//! The model of random steps: sets of handles, independent of the kernel's implementation.

use State::{Ended, Lost, Works};
use std::collections::{BTreeMap, BTreeSet};
use windtunnel::steps::{Action, DestroyTarget, DeviceLocation, OwnerKind, Step, StepOutcome};

/// The objects that should be alive.
#[derive(Default)]
pub struct Model {
    /// A destroyed resource keeps its handle: the planted bug.
    pub forgetful: bool,
    /// An interrupt was lost, so the state of waiting work is unknown.
    pub deaf: bool,
    dead: BTreeSet<u32>,
    devices: BTreeMap<DeviceLocation, State>,
    contexts: BTreeMap<DeviceLocation, State>,
    things: BTreeMap<String, Thing>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[rustfmt::skip]
enum State { Works, Lost, Ended }

/// The objects that a step created.
#[derive(Clone)]
struct Thing {
    place: DeviceLocation,
    /// The resource, by the step that created it, and whether it is shared.
    resource: Option<String>,
    shared: bool,
    /// Whether the resource's handle is still open.
    named: Option<bool>,
    /// The number of open allocation handles, if any.
    live: bool,
    count: usize,
}

impl Model {
    /// The outcome of a step in which this call failed; `outcomes` counts where both are possible.
    pub fn step(
        &mut self,
        step: &Step,
        failed: Option<&str>,
        outcomes: StepOutcome,
    ) -> StepOutcome {
        self.deaf |= matches!(failed, Some("interrupt" | "dpc"));
        let done = match step {
            Step::RunUntilIdle => Some(true),
            Step::Kill(process) => {
                self.dead.insert(*process);
                Some(self.end(|device_location| device_location.process == *process))
            }
            Step::OnDevice(place, act) => self.act(*place, act, failed, outcomes),
        };
        done.map_or(StepOutcome::Skipped, |flag| {
            if flag { StepOutcome::Done } else { StepOutcome::Failed }
        })
    }

    /// The numbers of views, resources, contexts and devices with open handles.
    pub fn alive(&self) -> [usize; 4] {
        let views = self.things.values().filter(|thing| thing.live).map(|thing| thing.count).sum();
        let resources = self.things.values().filter(|thing| thing.named == Some(true)).count();
        let there = |all: &BTreeMap<_, _>| all.values().filter(|state| **state != Ended).count();
        [views, resources, there(&self.contexts), there(&self.devices)]
    }

    fn act(
        &mut self,
        at: DeviceLocation,
        act: &Action,
        failed: Option<&str>,
        outcomes: StepOutcome,
    ) -> Option<bool> {
        let made = !matches!(failed, Some("create_allocations" | "open_allocations"));
        let mine = |thing: &&Thing| thing.place.process == at.process;
        let given = |name: &String| self.things.get(name).filter(mine).cloned();
        let resource = |name: &String| given(name).filter(|thing| thing.named.is_some());
        let there = |thing: &Thing| thing.named == Some(true) && thing.place == at;
        Some(match act {
            Action::Create { home, name, count } => {
                let (new, shared) = (*home != OwnerKind::Standalone, *home == OwnerKind::Shared);
                let (named, live, count) = (new.then_some(true), true, *count);
                let own = new.then(|| name.clone());
                let mut thing = Thing { place: at, resource: own, shared, named, live, count };
                let mut can = made;
                if let OwnerKind::Into(home) = home {
                    let into = resource(home)?;
                    can &= there(&into) && !into.shared;
                    (thing.resource, thing.named) = (into.resource, None);
                }
                can &= self.is(at, failed, Works);
                can && self.things.insert(name.clone(), thing).is_none()
            }
            Action::Open { shared, name } => {
                let of = self.things.get(shared).filter(|thing| thing.shared)?.clone();
                let own = of.resource.as_ref().filter(|text| *text == shared)?;
                let open = |thing: &Thing| {
                    thing.resource.as_ref() == Some(own) && thing.named == Some(true)
                };
                let mut can = made && self.things.values().any(open);
                let thing = Thing { place: at, named: Some(true), live: true, ..of };
                can &= self.is(at, failed, Works);
                can && self.things.insert(name.clone(), thing).is_none()
            }
            Action::Destroy { what: DestroyTarget::Resource(name), .. } => {
                let thing = resource(name)?;
                let done = self.is(at, failed, Lost) && there(&thing);
                // A device that opens a resource twice has two handles of it, each with its own
                // members.
                let member = |it: &&mut Thing| it.resource == thing.resource && !it.shared;
                let members = self.things.values_mut().filter(|_| done).filter(member);
                members.for_each(|thing| thing.live = false);
                if let Some(it) = self.things.get_mut(name).filter(|_| done) {
                    (it.live, it.named) = (false, Some(self.forgetful));
                }
                done
            }
            Action::Destroy { what: DestroyTarget::List(names), .. } => {
                let all: Vec<Thing> = names.iter().map(given).collect::<Option<_>>()?;
                let good = |thing: &Thing| thing.live && thing.place == at && !thing.shared;
                let once = names.iter().collect::<BTreeSet<_>>().len() == names.len();
                let good = all.iter().all(|thing| good(thing) && thing.resource == all[0].resource)
                    && once;
                let done = self.is(at, failed, Lost) && good;
                let listed = self.things.iter_mut().filter(|pair| done && names.contains(pair.0));
                listed.for_each(|(_, it)| it.live = false);
                done
            }
            Action::Fill(name) => {
                let thing = given(name)?;
                // An object that waits for its end has no handle, but the driver may still know it.
                let known = (thing.live && thing.place == at) || outcomes == StepOutcome::Done;
                let mut given = self.is(at, failed, Works);
                if given && failed != Some("create_context") {
                    self.contexts.entry(at).or_insert(Works);
                }
                given &= self.contexts.get(&at) == Some(&Works);
                if given && (failed == Some("submit") || !known) {
                    self.devices.insert(at, Lost);
                }
                given && self.devices[&at] == Works
            }
            Action::DestroyContext => {
                std::mem::replace(self.contexts.get_mut(&at)?, Ended) != Ended
            }
            Action::DestroyDevice => {
                *self.devices.get(&at)? != Ended
                    && self.end(|device_location| device_location == at)
            }
        })
    }

    /// Whether the device works, created first if necessary, or is at least in this state.
    fn is(&mut self, at: DeviceLocation, failed: Option<&str>, least: State) -> bool {
        if !self.dead.contains(&at.process) && failed != Some("create_device") {
            self.devices.entry(at).or_insert(Works);
        }
        self.devices.get(&at).is_some_and(|state| *state == Works || *state == least)
    }

    fn end(&mut self, which: impl Fn(DeviceLocation) -> bool) -> bool {
        let all = self.devices.iter_mut().chain(&mut self.contexts);
        all.filter(|pair| which(*pair.0)).for_each(|pair| *pair.1 = Ended);
        for it in self.things.values_mut().filter(|thing| which(thing.place)) {
            (it.live, it.named) = (false, it.named.map(|_| false));
        }
        true
    }
}
