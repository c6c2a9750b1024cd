//! Which function of a driver this thread is in, and what the handles mean that a driver has.
//!
//! A driver calls back with a handle and no more; so what handles mean is kept for the whole
//! process. Those of devices that are gone are remembered for a while: who calls back with one is
//! named.

use crate::adapter::Opened;
use crate::device::Inner;
use flight::{Log, Subject};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// How many handles are remembered that mean nothing any more.
const REMEMBERED: usize = 1024;

/// A step that keeps a handle from looking like an index.
const STEP: usize = 16;

static LAST: AtomicUsize = AtomicUsize::new(STEP);

static KNOWN: Mutex<Known> = Mutex::new(Known {
    adapters: BTreeMap::new(),
    devices: BTreeMap::new(),
    gone: VecDeque::new(),
});

struct Known {
    adapters: BTreeMap<usize, Weak<Opened>>,
    devices: BTreeMap<usize, Weak<Inner>>,
    gone: VecDeque<Gone>,
}

/// A device that is gone, as far as it is remembered.
#[derive(Clone)]
pub(crate) struct Gone {
    handle: usize,
    pub(crate) log: Weak<Log>,
    pub(crate) subject: Subject,
}

/// A function of a driver that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The device it is called for, or the adapter.
    pub(crate) of: usize,
    /// Its name.
    pub(crate) name: &'static str,
    /// The resource it is about.
    pub(crate) resource: Option<usize>,
}

thread_local! {
    /// The functions that this thread is in, the last one behind; each with its device, if it is
    /// called for one: who calls back with its handle need not look it up.
    static FRAMES: RefCell<Vec<(Frame, Option<Arc<Inner>>)>> = const { RefCell::new(Vec::new()) };
}

/// While it lives, this thread is in a function of a driver.
pub(crate) struct InFunction(());

impl InFunction {
    pub(crate) fn enter(frame: Frame, device: Option<Arc<Inner>>) -> Self {
        FRAMES.with_borrow_mut(|it| it.push((frame, device)));
        Self(())
    }
}

impl Drop for InFunction {
    fn drop(&mut self) {
        FRAMES.with_borrow_mut(Vec::pop);
    }
}

/// The function that this thread is in.
pub(crate) fn frame() -> Option<Frame> {
    FRAMES.with_borrow(|it| it.last().map(|(frame, _)| *frame))
}

/// The device that a handle means, if this thread is in a function of the driver for it.
pub(crate) fn within(handle: usize) -> Option<Arc<Inner>> {
    FRAMES.with_borrow(|it| {
        let (frame, device) = it.last()?;
        let device = device.as_ref().filter(|it| frame.of == handle && !it.is_forgotten())?;
        Some(device.clone())
    })
}

/// The device that this thread is in a function of the driver for.
pub(crate) fn inside() -> Option<Arc<Inner>> {
    FRAMES.with_borrow(|it| it.last().and_then(|(_, device)| device.clone()))
}

/// A handle that was never given.
pub(crate) fn handle() -> usize {
    LAST.fetch_add(STEP, Ordering::Relaxed)
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn keep_adapter(handle: usize, adapter: &Arc<Opened>) {
    known().adapters.insert(handle, Arc::downgrade(adapter));
}

pub(crate) fn forget_adapter(handle: usize) {
    known().adapters.remove(&handle);
}

pub(crate) fn adapter(handle: usize) -> Option<Arc<Opened>> {
    known().adapters.get(&handle).and_then(Weak::upgrade)
}

pub(crate) fn keep_device(handle: usize, device: &Arc<Inner>) {
    known().devices.insert(handle, Arc::downgrade(device));
}

/// The handle means nothing from now on.
pub(crate) fn forget_device(device: &Inner) {
    let (handle, log, subject) = (device.handle, device.log(), device.subject);
    let known = &mut *known();
    device.forget();
    known.devices.remove(&handle);
    if known.gone.len() == REMEMBERED {
        known.gone.pop_front();
    }
    known.gone.push_back(Gone { handle, log: Arc::downgrade(log), subject });
}

pub(crate) fn device(handle: usize) -> Option<Arc<Inner>> {
    known().devices.get(&handle).and_then(Weak::upgrade)
}

/// Every device that there is.
pub(crate) fn devices() -> Vec<Arc<Inner>> {
    known().devices.values().filter_map(Weak::upgrade).collect()
}

/// A device that there was.
pub(crate) fn gone(handle: usize) -> Option<Gone> {
    known().gone.iter().rev().find(|it| it.handle == handle).cloned()
}
