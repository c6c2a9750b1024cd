//! A bug on purpose, which a test plants to see that it is found: in builds for shuttle alone.

use crate::base::id_list::Id;
use crate::base::id_list::IdList;
use crate::kernel::Kernel;
use crate::lifetime::destroy::DestroyScope;
use crate::objects::allocation::Allocation;
use crate::objects::view::View;
use flight::Passive;

impl Kernel {
    /// From here on, what the system's worker ends is destroyed before its views are closed. (A
    /// client's own thread keeps the order, so it takes a certain race to see the bug.)
    pub fn plant_reversal(&self) {
        self.state.lock().planted_reversal = true;
    }

    /// Destroys, if the bug is planted, what these views are the last views of.
    pub(crate) fn destroy_too_early(
        &self,
        at: &mut Passive,
        component: &DestroyScope<'_>,
        views: &[Id<View>],
    ) {
        let state = self.state.lock();
        if !state.planted_reversal || component.process.is_some() {
            return;
        }
        let last = |it: &Id<View>| {
            let number = state.views.get(*it)?.allocation;
            let all = &state.allocations.get(number)?.views;
            all.iter().all(|it| views.contains(it)).then_some(number)
        };
        let orphans: IdList<Allocation> = views.iter().filter_map(last).collect();
        drop(self.destroy_orphans(at, component, state, &orphans, None));
    }
}
