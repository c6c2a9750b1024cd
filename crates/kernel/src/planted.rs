//! Deliberate bugs, which tests plant to check that they are found. Only in builds for shuttle.

use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::kernel::Kernel;
use crate::lifetime::destroy::DestroyScope;
use crate::objects::allocation::Allocation;
use crate::objects::view::View;
use flight::Passive;

impl Kernel {
    /// From now on, the system's worker destroys objects before it closes their views. (A client's
    /// own thread keeps the order, so only a certain race shows the bug.)
    pub fn plant_reversal(&self) {
        self.state.lock().planted_reversal = true;
    }

    /// From now on, a lock uses the extent of its view after the state was not locked, even if the
    /// view has ended.
    pub fn plant_stale_extent(&self) {
        self.state.lock().planted_stale_extent = true;
    }

    /// If the bug is planted, destroys the objects whose last views these are.
    pub(crate) fn destroy_too_early(
        &self,
        at: &mut Passive,
        scope: &DestroyScope<'_>,
        views: &[Id<View>],
    ) {
        let state = self.state.lock();
        if !state.planted_reversal || scope.process.is_some() {
            return;
        }
        let last = |it: &Id<View>| {
            let number = state.views.get(*it)?.allocation;
            let all = &state.allocations.get(number)?.views;
            all.iter().all(|it| views.contains(it)).then_some(number)
        };
        let orphans: IdList<Allocation> = views.iter().filter_map(last).collect();
        drop(self.destroy_orphans(at, scope, state, &orphans, None));
    }
}
