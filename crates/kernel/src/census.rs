//! The census: who is alive, and why.

use crate::kernel::Kernel;
use crate::resource::Resource;
use crate::view::{Stage, View};
use crate::world::World;
use flight::{Kind, Subject};
use std::fmt;

/// Everything that is alive, each under its owner.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// The things, owners before what they own.
    pub live: Vec<Live>,
}

/// One thing that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live {
    /// The thing.
    pub subject: Subject,
    /// Whose it is: the adapter owns allocations and resources, a device views and contexts, a
    /// process devices.
    pub owner: Option<Subject>,
    /// Its reasons to live.
    pub why: Vec<String>,
}

impl Kernel {
    /// Who is alive now, and why. Running adapters and processes without anything in them are
    /// part of it.
    pub fn census(&self) -> Census {
        let world = self.world.hold();
        let mut live = Vec::new();
        for (number, it) in world.adapters.iter() {
            let why = vec![format!("{:?}", it.state).to_lowercase()];
            live.push(Live { subject: Kind::Adapter.nr(number), owner: None, why });
            world.census_of_adapter(number, &mut live);
        }
        for (number, it) in world.processes.iter() {
            let why = vec![format!("has {} names", it.names.live())];
            live.push(Live { subject: Kind::Process.nr(number), owner: None, why });
            world.census_of_process(number, &mut live);
        }
        Census { live }
    }
}

impl World {
    fn census_of_adapter(&self, adapter: u32, live: &mut Vec<Live>) {
        let owner = Some(Kind::Adapter.nr(adapter));
        for (number, it) in self.resources.iter().filter(|(_, it)| it.adapter == adapter) {
            let why = self.why_resource(it);
            live.push(Live { subject: Kind::Resource.nr(number), owner, why });
        }
        for (number, it) in self.allocations.iter().filter(|(_, it)| it.adapter == adapter) {
            let views = it.views.iter().filter_map(|view| self.views.get(*view));
            let mut why: Vec<String> = views.flat_map(|it| self.why_view(it)).collect();
            why.push(format!("{} bytes, {} of them private data", it.shape.size, it.private.len()));
            live.push(Live { subject: Kind::Allocation.nr(number), owner, why });
        }
    }

    fn why_resource(&self, it: &Resource) -> Vec<String> {
        let mut why = Vec::new();
        for view in it.views.iter().filter_map(|view| self.resource_views.get(*view)) {
            let device = Kind::Device.nr(view.device);
            why.push(if view.named {
                format!("named {:#x} on {device}", view.handle.0)
            } else {
                format!("its end on {device} is under way")
            });
        }
        why.extend(it.global.map(|it| format!("shared as {:#x}", it.0)));
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

    /// The reasons a view gives its allocation.
    fn why_view(&self, view: &View) -> Vec<String> {
        let device = Kind::Device.nr(view.device);
        let mut why = vec![format!("opened by {device}")];
        match view.stage {
            Stage::Building => why.push("being built".into()),
            Stage::Live => why.push(format!("named {:#x}", view.handle.0)),
            Stage::Unnamed => {
                let behind = view.retirement.map(|it| self.behind(it)).unwrap_or_default();
                why.push(format!("used{behind}"));
            }
            Stage::Idle => why.push("being closed".into()),
        }
        why
    }

    fn census_of_process(&self, process: u32, live: &mut Vec<Live>) {
        let owner = Some(Kind::Process.nr(process));
        for (number, it) in self.devices.iter().filter(|(_, it)| it.process == process) {
            let subject = Kind::Device.nr(number);
            let mut why = vec![format!("named {:#x} on adapter {}", it.handle.0, it.adapter)];
            if it.lost {
                why.push("lost".into());
            }
            live.push(Live { subject, owner, why });
            for (context, it) in self.contexts.iter().filter(|(_, it)| it.device == number) {
                let why = vec![format!("named {:#x}, {} packets flying", it.handle.0, it.flying)];
                live.push(Live { subject: Kind::Context.nr(context), owner: Some(subject), why });
            }
            for (view, it) in self.views.iter().filter(|(_, it)| it.device == number) {
                let mut why = vec![format!("of allocation {}", it.allocation)];
                why.extend(self.why_view(it).into_iter().skip(1));
                live.push(Live { subject: Kind::View.nr(view), owner: Some(subject), why });
            }
        }
    }
}

impl Census {
    /// How many things are alive.
    pub fn count(&self) -> usize {
        self.live.len()
    }

    fn depth(&self, subject: Option<Subject>) -> usize {
        let owner = subject.and_then(|it| self.live.iter().find(|other| other.subject == it));
        owner.map_or(0, |it| 1 + self.depth(it.owner))
    }
}

impl fmt::Display for Census {
    /// A tree, a line for each.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for it in &self.live {
            let indent = self.depth(it.owner) * 2;
            writeln!(f, "{:indent$}{}: {}", "", it.subject, it.why.join(", "))?;
        }
        Ok(())
    }
}
