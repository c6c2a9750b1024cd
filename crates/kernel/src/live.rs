//! Live objects and what keeps each alive. The adapter owns allocations and resources, a device
//! views and contexts, a process devices.

use crate::base::id_list::Id;
use crate::kernel::Kernel;
use crate::objects::resource::Resource;
use crate::objects::view::{View, ViewStage};
use crate::state::KernelState;
use flight::{Kind, LiveObject, LiveObjects, Subject};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

impl Kernel {
    /// The live objects and what keeps each alive, including running adapters and processes that
    /// own nothing.
    pub fn live_objects(&self) -> LiveObjects {
        let state = self.state.lock();
        let mut all = Vec::new();
        state.list_adapters(&mut all);
        state.memory.list_instances(&mut all);
        state.list_processes(&mut all);
        state.list_keyed_mutexes(&mut all);
        state.list_nt_objects(&mut all);
        LiveObjects { objects: sort_by_owner(all) }
    }
}

/// Sorts owners before the objects they own. Objects without a live owner come last.
fn sort_by_owner(all: Vec<LiveObject>) -> Vec<LiveObject> {
    let there: BTreeSet<Subject> = all.iter().map(|live_object| live_object.subject).collect();
    let mut owned: BTreeMap<Option<Subject>, VecDeque<LiveObject>> = BTreeMap::new();
    for it in all {
        let owner = it.owner.filter(|subject| there.contains(subject));
        owned.entry(owner).or_default().push_back(it);
    }
    let (mut live, mut path) = (Vec::new(), vec![None]);
    while let Some(owner) = path.last().copied() {
        match owned.get_mut(&owner).and_then(VecDeque::pop_front) {
            Some(it) => {
                path.push(Some(it.subject));
                live.push(it);
            }
            None => {
                path.pop();
            }
        }
    }
    live
}

impl KernelState {
    fn list_adapters(&self, all: &mut Vec<LiveObject>) {
        for (number, it) in self.adapters.iter() {
            let why = vec![format!("{:?}", it.state).to_lowercase()];
            all.push(LiveObject { subject: number.subject(), owner: None, reasons: why });
        }
        for (number, it) in self.resources.iter() {
            let owner = Some(it.adapter.subject());
            let why = self.resource_references(it);
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
        self.memory.list_context_allocations(all);
        for (number, it) in self.allocations.iter() {
            let owner = Some(it.adapter.subject());
            let views = it.views.iter().filter_map(|view| self.views.get(*view));
            let mut why: Vec<String> = views.flat_map(|view| self.view_references(view)).collect();
            why.push(format!("{} bytes, {} of them private data", it.size, it.private.len()));
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
    }

    fn list_processes(&self, all: &mut Vec<LiveObject>) {
        for (number, it) in self.processes.iter() {
            let why = vec![format!("has {} handles", it.handles.live())];
            all.push(LiveObject { subject: number.subject(), owner: None, reasons: why });
        }
        for (number, it) in self.devices.iter() {
            let process = it.process.map_or(Kind::Process.subject(0), Id::subject);
            let owner = Some(process);
            let mut why = vec![format!("handle {:#x} on {}", it.handle.0, it.adapter)];
            why.extend(it.lost.map(|device_loss| format!("lost: {}", device_loss.name())));
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
        for (number, it) in self.contexts.iter() {
            let owner = Some(it.device.subject());
            let why =
                vec![format!("handle {:#x}, {} packets in flight", it.handle.0, it.in_flight)];
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
        self.memory.list_paging_queues(all);
        self.list_events(all);
        self.list_sync_objects(all);
        for (number, it) in self.resource_views.iter() {
            let owner = Some(it.device.subject());
            let why = vec![format!("of {}, with {} views", it.resource, it.views.len())];
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
        for (number, it) in self.views.iter() {
            let owner = Some(it.device.subject());
            let mut why = vec![format!("of {}", it.allocation)];
            why.extend(self.view_references(it).into_iter().skip(1));
            all.push(LiveObject { subject: number.subject(), owner, reasons: why });
        }
        self.list_retirements(all);
    }

    fn resource_references(&self, it: &Resource) -> Vec<String> {
        let mut why = Vec::new();
        for view in it.views.iter().filter_map(|view| self.resource_views.get(*view)) {
            let device = view.device.subject();
            why.push(if view.published {
                format!("handle {:#x} on {device}", view.handle.0)
            } else {
                format!("being created or destroyed on {device}")
            });
        }
        why.extend(it.global.map(|handle| format!("shared as {:#x}", handle.0)));
        if it.nt_holds > 0 {
            why.push(format!("kept by {} NT objects", it.nt_holds));
        }
        if !it.members.is_empty() {
            why.push(format!("has {} members", it.members.len()));
        }
        why.push(format!(
            "{} bytes of private data, {} of the runtime's",
            it.private.len(),
            it.runtime.len()
        ));
        why
    }

    /// The references of a view to its allocation.
    fn view_references(&self, view: &View) -> Vec<String> {
        let device = view.device.subject();
        let mut why = vec![format!("opened by {device}")];
        match view.stage {
            ViewStage::Unpublished => why.push("being created".into()),
            ViewStage::Live => why.push(format!("handle {:#x}", view.handle.0)),
            ViewStage::Retiring => {
                let waits = view
                    .retirement
                    .map(|retirement| self.describe_retirement_waits(retirement))
                    .unwrap_or_default();
                why.push(format!("used{waits}"));
            }
            ViewStage::Idle => why.push("being closed".into()),
        }
        why
    }
}
