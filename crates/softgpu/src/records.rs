//! What the driver remembers: one record for each word it gave.
//!
//! # Invariants
//!
//! 1. A device's names are of its open views. A name that comes round while the view that had
//!    it is still open belongs to the newer one, and the end of the older one leaves it alone.
//! 2. Only an allocation keeps its memory; views and packets look for it and find it gone.

use crate::format::Command;
use crate::memory::Memory;
use kernel::handle::Handle;
use kernel::miniport::{Answer, Refusal};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};

/// Everything that lives, by its word.
#[derive(Debug, Default)]
pub(crate) struct Records {
    devices: BTreeMap<usize, Device>,
    contexts: BTreeMap<usize, Context>,
    resources: BTreeSet<usize>,
    allocations: BTreeMap<usize, Arc<Memory>>,
    views: BTreeMap<usize, View>,
}

#[derive(Debug, Default)]
struct Device {
    /// The view behind each of the client's handles.
    names: BTreeMap<u32, usize>,
}

#[derive(Debug)]
struct Context {
    device: usize,
}

/// A device's view of an allocation.
#[derive(Debug)]
pub(crate) struct View {
    /// The device's word.
    pub(crate) device: usize,
    /// The client's name for it.
    pub(crate) handle: Handle,
    /// What it shows.
    pub(crate) memory: Weak<Memory>,
}

/// What a call ended: the words whose blocks can go, and whether it named one we do not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// In the order of their ends.
    pub(crate) words: Vec<usize>,
    /// A word was not ours, or not of this kind.
    pub(crate) unknown: bool,
}

impl Ended {
    /// Notes the end of `word`, if it was known.
    fn note(&mut self, word: usize, known: bool) {
        if known {
            self.words.push(word);
        } else {
            self.unknown = true;
        }
    }
}

impl Records {
    pub(crate) fn add_device(&mut self, word: usize) {
        self.devices.insert(word, Device::default());
    }

    pub(crate) fn knows_device(&self, word: usize) -> bool {
        self.devices.contains_key(&word)
    }

    pub(crate) fn end_device(&mut self, word: usize, ended: &mut Ended) {
        ended.note(word, self.devices.remove(&word).is_some());
    }

    pub(crate) fn add_context(&mut self, word: usize, device: usize) {
        self.contexts.insert(word, Context { device });
    }

    pub(crate) fn end_context(&mut self, word: usize, ended: &mut Ended) {
        ended.note(word, self.contexts.remove(&word).is_some());
    }

    pub(crate) fn add_resource(&mut self, word: usize) {
        self.resources.insert(word);
    }

    pub(crate) fn knows_resource(&self, word: usize) -> bool {
        self.resources.contains(&word)
    }

    pub(crate) fn end_resource(&mut self, word: usize, ended: &mut Ended) {
        ended.note(word, self.resources.remove(&word));
    }

    pub(crate) fn add_allocation(&mut self, word: usize, size: u64) {
        self.allocations.insert(word, Arc::new(Memory::new(size)));
    }

    pub(crate) fn memory(&self, allocation: usize) -> Option<Weak<Memory>> {
        self.allocations.get(&allocation).map(Arc::downgrade)
    }

    pub(crate) fn end_allocation(&mut self, word: usize, ended: &mut Ended) {
        ended.note(word, self.allocations.remove(&word).is_some());
    }

    pub(crate) fn add_view(&mut self, word: usize, view: View) {
        if let Some(device) = self.devices.get_mut(&view.device) {
            device.names.insert(view.handle.0, word);
        }
        self.views.insert(word, view);
    }

    /// Ends a view of this device.
    pub(crate) fn end_view(&mut self, word: usize, device: usize, ended: &mut Ended) {
        let of_device = self.views.get(&word).is_some_and(|it| it.device == device);
        let view = if of_device { self.views.remove(&word) } else { None };
        if let (Some(view), Some(device)) = (&view, self.devices.get_mut(&device))
            && device.names.get(&view.handle.0) == Some(&word)
        {
            device.names.remove(&view.handle.0);
        }
        ended.note(word, view.is_some());
    }

    /// The commands of a packet, with the memory that this context's device means by the names.
    pub(crate) fn resolve(
        &self,
        context: usize,
        commands: Vec<Command>,
    ) -> Answer<VecDeque<Command<Weak<Memory>>>> {
        let context = self.contexts.get(&context).ok_or(Refusal::Invalid)?;
        let device = self.devices.get(&context.device).ok_or(Refusal::Invalid)?;
        let find = |handle| self.named(device, handle).cloned().ok_or(Refusal::Invalid);
        commands.into_iter().map(|it| it.resolve(find)).collect()
    }

    /// The memory that every device with this name means by it, if that is the same.
    pub(crate) fn named_anywhere(&self, handle: Handle) -> Option<Arc<Memory>> {
        let mut found = self.devices.values().filter_map(|it| self.named(it, handle));
        let first = found.next()?;
        if found.all(|it| it.ptr_eq(first)) { first.upgrade() } else { None }
    }

    fn named(&self, device: &Device, handle: Handle) -> Option<&Weak<Memory>> {
        self.views.get(device.names.get(&handle.0)?).map(|it| &it.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Handle = Handle(0x4000_0040);
    const FILL: Command = Command::Fill { target: NAME, offset: 0, length: 1, value: 1 };

    /// Two devices (10, 20), each with a context (11, 21), and two allocations (30, 40).
    fn records() -> Records {
        let mut records = Records::default();
        for device in [10, 20] {
            records.add_device(device);
            records.add_context(device + 1, device);
        }
        records.add_allocation(30, 8);
        records.add_allocation(40, 16);
        records
    }

    fn open(records: &mut Records, word: usize, device: usize, allocation: usize) {
        let memory = records.memory(allocation).unwrap();
        records.add_view(word, View { device, handle: NAME, memory });
    }

    /// How many bytes the memory has that a context means by the name.
    fn meant(records: &Records, context: usize) -> Answer<u64> {
        let commands = records.resolve(context, vec![FILL])?;
        let Some(Command::Fill { target, .. }) = commands.front() else { panic!("{commands:?}") };
        Ok(target.upgrade().unwrap().size())
    }

    #[test]
    fn each_device_has_its_own_names() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        assert_eq!((meant(&records, 11), meant(&records, 21)), (Ok(8), Err(Refusal::Invalid)));
        assert_eq!(records.named_anywhere(NAME).map(|it| it.size()), Some(8));
        open(&mut records, 60, 20, 40);
        assert_eq!((meant(&records, 11), meant(&records, 21)), (Ok(8), Ok(16)));
        assert!(records.named_anywhere(NAME).is_none(), "they mean different memory");
        assert_eq!(meant(&records, 10), Err(Refusal::Invalid), "a device is no context");
    }

    #[test]
    fn a_name_that_came_round_outlives_the_view_that_had_it() {
        let mut records = records();
        let mut ended = Ended::default();
        open(&mut records, 50, 10, 30);
        open(&mut records, 60, 10, 40);
        records.end_view(50, 10, &mut ended);
        assert_eq!(meant(&records, 11), Ok(16));
        records.end_view(60, 10, &mut ended);
        assert_eq!(meant(&records, 11), Err(Refusal::Invalid));
        assert_eq!(ended, Ended { words: vec![50, 60], unknown: false });
    }

    #[test]
    fn what_is_unknown_ends_nothing() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        let mut ended = Ended::default();
        records.end_view(50, 20, &mut ended);
        records.end_view(30, 10, &mut ended);
        records.end_device(11, &mut ended);
        records.end_context(10, &mut ended);
        records.end_resource(30, &mut ended);
        records.end_allocation(50, &mut ended);
        assert_eq!(ended, Ended { words: Vec::new(), unknown: true });
        assert_eq!(meant(&records, 11), Ok(8));
    }

    #[test]
    fn memory_goes_with_its_allocation_and_with_nothing_else() {
        let mut records = records();
        open(&mut records, 50, 10, 30);
        let memory = records.memory(30).unwrap();
        records.end_device(10, &mut Ended::default());
        assert!(memory.upgrade().is_some());
        records.end_allocation(30, &mut Ended::default());
        assert!(memory.upgrade().is_none(), "the view is open and does not keep it");
    }
}
