//! How the hardware preempts and resets engines.

use crate::driver::SoftGpu;
use crate::engine::{Engine, Work};
use crate::format::Command;
use crate::gpu::{Gpu, NODES};
use flight::{CallGuard, Fence, Passive};
use kernel::miniport::{DriverError, DriverResult};

impl Work {
    fn fence(&self) -> Fence {
        match self {
            Work::Packet(it) => it.fence,
            Work::Render(it) => it.fence,
            Work::Stream(it) => it.fence,
            Work::Paging(it) => it.fence,
        }
    }

    fn hangs(&self) -> bool {
        match self {
            Work::Packet(it) => matches!(it.commands.front(), Some(Command::Hang)),
            Work::Render(it) => matches!(it.commands.front(), Some(Command::Hang)),
            Work::Stream(it) => it.hung,
            Work::Paging(_) => false,
        }
    }
}

impl Engine {
    pub(crate) fn take(&mut self, work: Work) {
        // Paging work that was given back is resubmitted with the fence it had.
        if !self.last_submitted.covers(work.fence()) {
            self.last_submitted = work.fence();
        }
        self.queue.push_back(work);
    }

    /// Whether the engine has work, even if it makes no progress.
    pub(crate) fn holds_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Gives back the work behind the first packet, which may be running.
    fn preempt(&mut self, preemption: Fence) {
        self.queue.truncate(1);
        self.preemption = Some(preemption);
    }

    /// Drops all work; `over` becomes the last completed fence.
    fn reset(&mut self, over: Fence) {
        self.queue.clear();
        self.completions.clear();
        (self.current, self.preemption, self.done) = (None, None, over);
    }
}

impl Gpu {
    /// Preempts a node: it gives back the work it has not started, and interrupts when that is
    /// done.
    pub fn preempt(&self, node: u32, preemption: Fence) {
        CallGuard::touch();
        if let Some(engine) = self.state().engine(node) {
            engine.preempt(preemption);
        }
    }

    /// The last completed fence of a node.
    pub fn done(&self, node: u32) -> Fence {
        CallGuard::touch();
        self.state().engine(node).map(|engine| engine.done).unwrap_or_default()
    }

    /// The last fence that was submitted to a node.
    pub fn last_submitted(&self, node: u32) -> Fence {
        CallGuard::touch();
        self.state().engine(node).map(|engine| engine.last_submitted).unwrap_or_default()
    }

    /// Whether a node's engine makes progress.
    pub fn is_responsive(&self, node: u32) -> bool {
        CallGuard::touch();
        self.state()
            .engine(node)
            .is_none_or(|engine| !engine.queue.front().is_some_and(Work::hangs))
    }

    /// Resets a node. Returns the last fence that is completed by the reset.
    pub fn reset_node(&self, node: u32) -> Fence {
        CallGuard::touch();
        let mut state = self.state();
        let Some(engine) = state.engine(node) else { return Fence::default() };
        let over = engine.queue.front().map_or(engine.done, Work::fence);
        engine.reset(over);
        over
    }

    /// Resets a node, which completes everything submitted to it. Returns the last fence.
    pub fn reset_whole_node(&self, node: u32) -> Fence {
        CallGuard::touch();
        let mut state = self.state();
        let Some(engine) = state.engine(node) else { return Fence::default() };
        let over = if engine.holds_work() { engine.last_submitted } else { engine.done };
        engine.reset(over);
        over
    }

    /// Resets all nodes: everything submitted to them is over.
    pub fn reset_nodes(&self) {
        CallGuard::touch();
        for engine in &mut self.state().engines {
            let over = engine.last_submitted;
            engine.reset(over);
        }
    }
}

impl SoftGpu {
    /// Reports what has ended and was not reported, then reports the completed fence.
    pub(crate) fn report_progress(&self, at: &mut Passive, node: u32) -> DriverResult<Fence> {
        let callbacks = self.callbacks()?;
        if at.raised(|at| self.report(at, &callbacks, node)) {
            callbacks.queue_dpc();
        }
        if node < NODES { Ok(self.gpu.done(node)) } else { Err(DriverError::Invalid) }
    }
}
