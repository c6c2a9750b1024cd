//! Following resets, and work that a node gives back.

use crate::shadow::tdr::{PagingCommands, Recovery, TDR_LIMIT_TIME};
use crate::shadow::{Adapter, Key, Node, Serial, Shadows};
use flight::{Event, EventKind, Fence};

impl Shadows {
    /// Follows the reset of an adapter.
    pub(crate) fn follow_recovery(&mut self, event: &Event) {
        if let EventKind::PagingDropped { operation, of, .. } = &event.kind {
            let place = self.memory(*of).and_then(|memory| memory.location);
            self.with_memory(*of, |memory| memory.location = None);
            if let Some(place) = place {
                self.note_moved(*of, operation, place.segment, false);
            }
            return;
        }
        self.with_adapter(event.subject, |it| {
            let it = &mut it.recovery;
            match event.kind {
                EventKind::AdapterReset { now, .. } => {
                    it.reset_times.retain(|value| now.saturating_sub(*value) < TDR_LIMIT_TIME);
                    it.reset_times.push(now);
                    (it.resetting, it.must_reset, it.overtaken) = (true, None, None);
                }
                EventKind::AdapterRestarted {} | EventKind::AdapterFatal { .. } => {
                    it.resetting = false;
                }
                // The limit of resets in a minute holds across a restart.
                EventKind::AdapterStopped {} => {
                    let reset_times = std::mem::take(&mut it.reset_times);
                    *it = Recovery { reset_times, ..Recovery::default() };
                }
                _ => (),
            }
        });
    }

    /// Follows the paging commands of a node.
    pub(crate) fn follow_pages(&mut self, event: &Event) {
        let adapter = self.node(event.subject).and_then(|node| node.adapter);
        let resetting = adapter
            .and_then(|adapter| self.adapter(adapter))
            .is_some_and(|adapter| adapter.recovery.resetting);
        let Some(node) = self.node_mut(event.subject) else { return };
        match event.kind {
            EventKind::PagingSubmitted { fence, .. } => node.pages.submit(fence),
            EventKind::FencePassed { fence } => node.pages.done(fence),
            EventKind::NodePreempted { last, .. } => {
                // An impossible report of a driver does not count.
                let last =
                    if node.fences.is_in_order(last) { Some(last) } else { node.fences.last_done };
                if let Some(last) = last {
                    node.pages.end(last);
                }
            }
            // The reset of the adapter also ends what the node gave back before.
            EventKind::NodeReset { .. } if resetting => node.pages = PagingCommands::default(),
            EventKind::NodeReset { aborted, .. } => {
                let lost = node.pages.end(aborted);
                if let Some(adapter) = adapter.filter(|_| lost) {
                    self.must_reset(adapter, "a reset of an engine has ended paging commands");
                }
            }
            _ => (),
        }
    }

    /// Only a reset of the whole adapter helps, unless one is running.
    pub(crate) fn must_reset(&mut self, adapter: impl Key<Adapter>, why: &'static str) {
        self.with_adapter(adapter, |adapter| {
            if !adapter.recovery.resetting {
                adapter.recovery.must_reset = Some(why);
            }
        });
    }

    /// A client's packet was submitted to a node.
    pub(crate) fn note_overtaken(&mut self, node: Serial<Node>, fence: Fence) {
        let Some(it) = self.node(node) else { return };
        if let Some(adapter) = it.adapter.filter(|_| !it.pages.returned.is_empty()) {
            self.with_adapter(adapter, |adapter| adapter.recovery.overtaken = Some((node, fence)));
        }
    }
}
