//! Rules on the page table root with which an engine runs a packet.

use crate::adapter::start::Adapter;
use crate::base::id_list::Id;
use crate::kernel::Kernel;
use flight::{Component, Fence, RuleId, TableRoot};

impl Kernel {
    /// Entry rules: an engine starts a packet with the root, and the number of root entries, that
    /// its driver was last given for the packet's context.
    pub(crate) fn judge_root(
        &self,
        adapter: Id<Adapter>,
        node: u32,
        fence: Fence,
        root: Option<TableRoot>,
    ) {
        let state = self.state.lock();
        let nodes = state.adapters.get(adapter).map(|adapter| adapter.nodes.as_slice());
        // The hardware may run a packet of an adapter that has stopped, or one that is lost.
        let Some(on) = nodes.and_then(|nodes| nodes.get(node as usize)) else { return };
        let Some(packet) = on.queue.iter().find(|in_flight_packet| in_flight_packet.fence == fence)
        else {
            return;
        };
        // Paging work runs without a context.
        let Some(context) = packet.context() else { return };
        // A context without GPU virtual addresses has no root.
        let Some(told) = state.contexts[context].root else { return };
        let place = "DxgkDdiSubmitCommandVirtual";
        let context = context.subject();
        let right = root.is_some_and(|table_root| {
            (table_root.segment, table_root.offset) == (told.segment, told.offset)
        });
        let broken = (!right).then(|| {
            let used = root.map_or("without a root page table".to_owned(), |table_root| {
                format!(
                    "with the root at {:#x} of segment {}",
                    table_root.offset, table_root.segment
                )
            });
            format!(
                "{} runs packet {} of {context} {used}, but the last root set for it is at {:#x} \
                 of segment {}",
                on.subject(),
                fence.0,
                told.offset,
                told.segment
            )
        });
        self.log.judge(RuleId::KMD_SUBMIT_014, Component::Driver, context, place, broken);
        // Another root is judged above: its size says nothing about this context.
        let Some(root) = root.filter(|_| right) else { return };
        let more = root.entries > told.entries;
        let broken = more.then(|| {
            format!(
                "{} uses the root of {context} with {} entries, but it has {}: an address beyond \
                 the last entry does not fault",
                on.subject(),
                root.entries,
                told.entries
            )
        });
        let place = "DxgkDdiSetRootPageTable";
        self.log.judge(RuleId::KMD_PT_003, Component::Driver, context, place, broken);
    }
}
