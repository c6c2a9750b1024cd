//! Recovery: a node that does not move is asked, preempted, reset; else the whole adapter is.
//!
//! Time comes from outside ([`Kernel::tick`]). What is to be done is noted there and done as a
//! job, since a driver may be inside a call.
//!
//! # Invariants
//!
//! 1. A node is late when what is first on it has been first for [`DELAY`].
//! 2. After a reset nothing of before is on the nodes it hit: what is over is done, the rest is
//!    in line again.

use crate::ddi::Driver;
use crate::device::Device;
use crate::device::Loss;
use crate::gate::{Class, Pass};
use crate::kernel::Kernel;
use crate::memory::Owner;
use crate::miniport::{CollectReason, Refusal};
use crate::preempt::Why;
use crate::schedule::Flying;
use crate::start::{Adapter, AdapterId};
use crate::store::Id;
use crate::view::View;
use crate::world::World;
use flight::{Fence, Passive, RuleId, Subject, What, Who};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// How long a node may stand still, in units of 100 nanoseconds: two seconds.
///
/// WINDOWS: documented as the default of `TdrDelay`.
pub(crate) const DELAY: u64 = 20_000_000;

/// A minute.
const MINUTE: u64 = 600_000_000;

/// So many resets of the adapter within a minute stop the system, the last one included.
///
/// WINDOWS: documented as the default of `TdrLimitCount`: five are allowed.
const MOST_RESETS: usize = 5;

/// So many resets of an engine in a row that end nothing did not help.
const MOST_VAIN: u32 = 2;

/// How many bytes a driver may write down about a reset.
const NOTES: usize = 64 << 10;

/// What stands first on a node, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    front: Option<Fence>,
    since: u64,
    stage: Stage,
}

/// What was done about a node that is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Fresh,
    Preempting,
    Resetting,
}

/// What is to be done about a node that does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Late {
    /// Ask its driver, then have it preempted.
    Ask(Id<Adapter>, usize),
    /// Reset it.
    Reset(Id<Adapter>, usize),
    /// Reset its adapter; the node at fault is known or not.
    ResetAll(Id<Adapter>, Option<usize>),
}

impl crate::schedule::Node {
    /// What stands first there, if it has something to do. Another one than before is watched
    /// from now on.
    fn watched(&mut self, now: u64) -> Option<&mut Watch> {
        if !self.is_busy() {
            self.watch = None;
            return None;
        }
        let front = self.queue.front().map(|it| it.fence);
        let fresh = Watch { front, since: now, stage: Stage::Fresh };
        let watch = self.watch.get_or_insert(fresh);
        if watch.front != front {
            *watch = fresh;
        }
        Some(watch)
    }

    /// Whether what was first when it was last looked at is first still.
    fn stands(&self) -> bool {
        let front = self.queue.front().map(|it| it.fence);
        self.is_busy() && self.watch.is_some_and(|it| it.front == front)
    }
}

impl Adapter {
    /// Whether its nodes are to move.
    fn is_watched(&self) -> bool {
        self.runs() && self.power.is_there()
    }
}

impl Late {
    fn adapter(self) -> Id<Adapter> {
        match self {
            Late::Ask(it, _) | Late::Reset(it, _) | Late::ResetAll(it, _) => it,
        }
    }

    fn is_about(self, adapter: Id<Adapter>, node: usize) -> bool {
        matches!(self, Late::Ask(on, it) | Late::Reset(on, it) if (on, it) == (adapter, node))
    }
}

impl Kernel {
    /// Until when somebody has to look again, if a node of the adapter has something to do.
    pub fn deadline(&self, adapter: AdapterId, now: u64) -> Option<u64> {
        let world = &mut *self.world.hold();
        // Who is to be reset needs no more looking at: whoever holds that up may be stuck.
        if world.is_to_be_reset(adapter.0) {
            return None;
        }
        // Nor does a node about which something is to be done: time that passes does not help.
        let late = &world.late;
        let known = |node: usize| late.iter().any(|it| it.is_about(adapter.0, node));
        let it = world.adapters.get_mut(adapter.0).filter(|it| it.is_watched())?;
        let nodes = it.nodes.iter_mut().enumerate().filter(|(node, _)| !known(*node));
        let since = nodes.filter_map(|(_, it)| it.watched(now).map(|it| it.since));
        since.min().map(|it| it.saturating_add(DELAY))
    }

    /// Looks which nodes do not move.
    pub fn tick(&self, adapter: AdapterId, now: u64) {
        let world = &mut *self.world.hold();
        let Some(it) = world.adapters.get_mut(adapter.0).filter(|it| it.is_watched()) else {
            return;
        };
        let mut late = Vec::new();
        for (index, node) in it.nodes.iter_mut().enumerate() {
            let Some(watch) = node.watched(now) else { continue };
            if now.saturating_sub(watch.since) < DELAY {
                continue;
            }
            let front = watch.front;
            let (next, said) = match watch.stage {
                Stage::Fresh => (Late::Ask(adapter.0, index), "asked"),
                Stage::Preempting => (Late::Reset(adapter.0, index), "reset"),
                Stage::Resetting => (Late::ResetAll(adapter.0, Some(index)), "reset with all"),
            };
            watch.since = now;
            let fence = front.unwrap_or(node.reported);
            let stage = said.into();
            self.log.emit(node.subject(), What::NodeLate { fence, stage, now });
            late.push(next);
        }
        for next in late {
            self.want(world, next);
        }
    }

    /// Has something done about a node, once: a reset of the adapter is for all its nodes, and
    /// whoever waits for them inside a call looks again.
    fn want(&self, world: &mut World, late: Late) {
        let known = match late {
            Late::ResetAll(adapter, _) => world.is_to_be_reset(adapter),
            Late::Ask(..) | Late::Reset(..) => world.late.contains(&late),
        };
        if !known {
            world.late.push_back(late);
        }
        if matches!(late, Late::ResetAll(..)) {
            self.wake(world);
        }
        self.ring(&self.bell);
    }

    /// Does what is to be done about a node that does not move. Answers whether it did.
    pub(crate) fn try_recover(&self, at: &mut Passive) -> bool {
        let all = self.world.hold().late.clone();
        // One whose pass is held leaves the others alone.
        all.into_iter().any(|it| self.recover(at, it))
    }

    fn recover(&self, at: &mut Passive, late: Late) -> bool {
        let pass; // Before the world, so that it is dropped after it.
        let driver = {
            let world = &mut *self.world.hold();
            let Some(place) = world.late.iter().position(|it| *it == late) else { return false };
            let driver = world.adapters.get(late.adapter()).filter(|it| it.runs());
            let Some(driver) = driver.map(|it| it.driver.clone()) else {
                world.late.remove(place);
                return true;
            };
            let class = match late {
                Late::Ask(..) | Late::Reset(..) => Class::Scheduler,
                // WINDOWS: no other thread is inside the driver (documented).
                Late::ResetAll(..) => Class::Three,
            };
            let keys = class.keys(driver.adapter, driver.generation, None);
            let taken = self.try_enter_work(world, late.adapter(), keys);
            let Some(taken) = taken else { return false };
            pass = taken;
            world.late.remove(place);
            driver
        };
        match late {
            Late::Ask(_, node) => self.ask(at, &driver, &pass, node),
            Late::Reset(_, node) => self.reset_node(at, &driver, &pass, node),
            Late::ResetAll(_, node) => self.reset_late(at, &driver, &pass, node),
        }
        // Somebody looks at the time again.
        self.ring(&driver.bell);
        true
    }

    /// A driver may have missed an interrupt: it says what its node has done.
    fn ask(&self, at: &mut Passive, driver: &Arc<Driver>, pass: &Pass<'_>, index: usize) {
        let adapter = driver.adapter;
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        let offers = |name: &str| driver.miniport.offers().contains(&name);
        if offers("DxgkDdiQueryCurrentFence")
            && let Ok(said) = driver.current_fence(at, pass, node)
        {
            self.judge_current(driver.adapter, index, said);
        }
        let engines =
            self.world.hold().adapters.get(adapter).is_some_and(|it| it.scheduling.resets_engines);
        if engines {
            let answered = driver.engine_answers(at, pass, node);
            self.judge_answered(driver.adapter, "DxgkDdiQueryEngineStatus", answered.err());
        }
        let world = &mut *self.world.hold();
        let Some(it) = world.node_mut(adapter, index) else { return };
        let moved = it.reported != it.passed;
        let Some(watch) = it.watch.as_mut() else { return };
        watch.stage = Stage::Preempting;
        if moved {
            return; // The rest is the DPC's, if it comes.
        }
        let waits = it.preemption.is_some();
        let asks = world.adapters.get(adapter).is_some_and(|it| it.scheduling.preempts);
        if asks && !waits {
            self.want_preempted(world, adapter, index, Why::Late);
        } else {
            self.want(world, Late::Reset(adapter, index));
        }
    }

    /// Entry rule: what the hardware has done was reported before the driver says so.
    fn judge_current(&self, adapter: Id<Adapter>, index: usize, said: Fence) {
        let mut world = self.world.hold();
        let Some(it) = world.node_mut(adapter, index) else { return };
        let place = "DxgkDdiQueryCurrentFence";
        if it.fresh {
            self.judge_fresh(adapter, it, said, place);
        }
        // It may report more before this looks.
        let broken = (!it.fresh && !it.reported.covers(said)).then(|| {
            format!(
                "{} has done fence {said}, the driver says, and it has reported {}",
                it.subject(),
                it.reported
            )
        });
        self.log.judge(RuleId::KMD_PREEMPT_005, Who::Driver, adapter.subject(), place, broken);
    }

    /// Entry rule: a reset of the adapter ended everything that its nodes were given.
    pub(crate) fn judge_fresh(
        &self,
        adapter: Id<Adapter>,
        node: &crate::schedule::Node,
        said: Fence,
        place: &'static str,
    ) {
        let done = said == node.reported || node.queue.iter().any(|it| it.fence == said);
        let broken = (!done).then(|| {
            format!(
                "{} has done fence {said}, the driver says, but everything up to {} was over when \
                 its adapter was reset, and it has reported none since",
                node.subject(),
                node.reported
            )
        });
        self.log.judge(RuleId::KMD_TDR_010, Who::Driver, adapter.subject(), place, broken);
    }

    /// Entry rule: these always succeed.
    fn judge_answered(&self, adapter: Id<Adapter>, place: &'static str, refusal: Option<Refusal>) {
        let broken = refusal.map(|why| format!("the driver answered {}", why.name()));
        self.log.judge(RuleId::KMD_TDR_011, Who::Driver, adapter.subject(), place, broken);
    }

    /// Resets a node, and those that a reset of it hits.
    fn reset_node(&self, at: &mut Passive, driver: &Arc<Driver>, pass: &Pass<'_>, index: usize) {
        let adapter = driver.adapter;
        let count = {
            let world = &mut *self.world.hold();
            // The adapter may have stopped since this was queued.
            let Some(it) = world.adapters.get(adapter) else { return };
            // While this waited for its pass, the node may have moved on.
            if it.nodes.get(index).is_none_or(|it| !it.stands()) {
                return;
            }
            if !it.scheduling.resets_engines {
                return self.want(world, Late::ResetAll(adapter, Some(index)));
            }
            it.nodes.len()
        };
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        let mask = driver.dependent_nodes(at, pass, node);
        self.judge_dependent(driver.adapter, index, &mask);
        let mask = mask.unwrap_or(0) | 1_u64.checked_shl(node).unwrap_or(0);
        for index in (0..count.min(64)).filter(|it| mask >> it & 1 == 1) {
            if !self.reset_one(at, driver, pass, index) {
                return self.want(&mut self.world.hold(), Late::ResetAll(adapter, Some(index)));
            }
        }
    }

    /// Entry rule: the nodes that a reset of one hits are that one, at least.
    fn judge_dependent(&self, adapter: Id<Adapter>, index: usize, mask: &Result<u64, Refusal>) {
        let broken = match mask {
            Err(why) => Some(format!("the driver answered {}", why.name())),
            Ok(mask) if mask >> (index & 63) & 1 == 0 => Some(format!(
                "a reset of node {index} hits the nodes {mask:#x}, says the driver, and not itself"
            )),
            Ok(_) => None,
        };
        let place = "DxgkDdiQueryDependentEngineGroup";
        self.log.judge(RuleId::KMD_TDR_011, Who::Driver, adapter.subject(), place, broken);
    }

    /// Resets one engine. Answers whether that is all there is to do.
    fn reset_one(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        pass: &Pass<'_>,
        index: usize,
    ) -> bool {
        let adapter = driver.adapter;
        let node = u32::try_from(index).unwrap_or(u32::MAX);
        if let Some(it) = self.world.hold().node_mut(adapter, index) {
            it.watch = Some(Watch { front: None, since: 0, stage: Stage::Resetting });
        }
        self.judge_unreported(driver, index);
        let Ok(aborted) = driver.reset_engine(at, pass, node) else { return false };
        let left = driver.machine.holds(Some(node)) == Some(true);
        let world = &mut *self.world.hold();
        let Some(it) = world.node_mut(adapter, index) else { return true };
        let (subject, done, given) = (it.subject(), it.reported, it.given);
        let right = self.judge_aborted(driver.adapter, it, aborted, left);
        let aborted = if right { aborted } else { given };
        self.log.emit(subject, What::NodeReset { done, aborted, given });
        (it.reported, it.passed, it.watch, it.preemption) = (aborted, aborted, None, None);
        it.ghosts.clear();
        it.faults.clear();
        let (over, back): (VecDeque<Flying>, VecDeque<Flying>) =
            std::mem::take(&mut it.queue).into_iter().partition(|it| aborted.covers(it.fence));
        it.vain = if over.is_empty() && !back.is_empty() { it.vain + 1 } else { 0 };
        // What did not move comes back and will not move again: only more helps.
        let vain = it.vain >= MOST_VAIN;
        let paging = over.iter().any(|it| it.batch.is_some());
        let mut hit: Vec<Id<Device>> = Vec::new();
        for packet in over {
            if let Some(batch) = &packet.batch {
                for (device, of) in world.owners_of(batch) {
                    let paging = batch.paging.subject();
                    self.log.emit(device.subject(), What::DeviceHit { of, paging });
                    if !hit.contains(&device) {
                        hit.push(device);
                    }
                }
                // Whoever comes after it has to know: its adapter is reset.
                if let Some(it) = world.node_mut(adapter, index) {
                    it.again.push_back(packet);
                }
                continue;
            }
            // What the driver had reported done is done by itself.
            if !done.covers(packet.fence) && !hit.contains(&packet.client().1) {
                hit.push(packet.client().1);
            }
            self.finish_packet(world, subject, &packet);
        }
        self.switch(world, adapter, subject, None);
        self.line_up_again(world, adapter, index, back);
        for device in hit {
            self.lose(world, device, Loss::Hung);
        }
        let idle: BTreeSet<Id<Device>> = world.devices.iter().map(|it| it.0).collect();
        for device in idle {
            let ready = world.retire_ready(device);
            self.start_ending(world, ready);
        }
        self.wake(world);
        !paging && !vain
    }

    /// Entry rules: what the hardware has done or given back was reported. What it still has, it
    /// did not; that is nobody's fault here.
    fn judge_unreported(&self, driver: &Arc<Driver>, index: usize) {
        let holds = driver.machine.holds(Some(u32::try_from(index).unwrap_or(u32::MAX)));
        let mut world = self.world.hold();
        // The adapter may have stopped since this was queued.
        let Some(it) = world.adapters.get_mut(driver.adapter) else { return };
        // An interrupt routine that runs may be about to report.
        let quiet = it.interrupting == 0 && holds == Some(false);
        let Some(node) = it.nodes.get_mut(index) else { return };
        let subject = node.subject();
        if let Some(it) = &node.preemption {
            it.judge_unreported(&self.log, driver.adapter, subject);
        }
        let Some(first) = node.queue.iter().find(|it| !node.reported.covers(it.fence)) else {
            return;
        };
        let broken = quiet.then(|| {
            format!(
                "{subject} was given fence {} and its engine has nothing left to do, but its \
                 driver has reported it neither done nor given back",
                first.fence
            )
        });
        let place = "DxgkCbNotifyInterrupt";
        self.log.judge(
            RuleId::KMD_SUBMIT_008,
            Who::Driver,
            driver.adapter.subject(),
            place,
            broken,
        );
    }

    /// Resets an adapter though nobody is late.
    ///
    /// WINDOWS: what a debugger asks for (documented as `D3DKMT_TDRDBGCTRLTYPE_FORCETDR`).
    pub fn force_reset(&self, adapter: AdapterId) {
        let world = &mut *self.world.hold();
        if world.adapters.get(adapter.0).is_some_and(Adapter::runs) {
            self.want(world, Late::ResetAll(adapter.0, None));
        }
    }

    /// Entry rules: what a reset says it ended was there, and nothing is left after it.
    fn judge_aborted(
        &self,
        adapter: Id<Adapter>,
        node: &crate::schedule::Node,
        aborted: Fence,
        left: bool,
    ) -> bool {
        let (done, given) = (node.reported, node.given);
        let place = "DxgkDdiResetEngine.LastAbortedFenceId";
        // What a lost device had given counts as done, and the hardware has it still.
        if node.queue.iter().chain(&node.ghosts).all(|it| done.covers(it.fence)) {
            let broken = (aborted != done).then(|| {
                format!(
                    "{} was reset with nothing left to do, and fence {aborted} is said to be \
                     the last that is over; it has done {done}",
                    node.subject()
                )
            });
            self.log.judge(RuleId::KMD_TDR_008, Who::Driver, adapter.subject(), place, broken);
        }
        let right = aborted.after(done) <= given.after(done);
        let broken = (!right).then(|| {
            format!(
                "{} was reset, and fence {aborted} is said to be the last that is over; it has \
                 done {done} and was given up to {given}",
                node.subject()
            )
        });
        self.log.judge(RuleId::KMD_TDR_007, Who::Driver, adapter.subject(), place, broken);
        let broken = left.then(|| {
            format!("the reset of {} has returned, and its engine still has work", node.subject())
        });
        self.log.judge(
            RuleId::KMD_TDR_006,
            Who::Driver,
            adapter.subject(),
            "DxgkDdiResetEngine",
            broken,
        );
        right
    }

    /// Resets an adapter. Nobody else is inside its driver.
    fn reset_late(
        &self,
        at: &mut Passive,
        driver: &Arc<Driver>,
        pass: &Pass<'_>,
        fault: Option<usize>,
    ) {
        let (adapter, number) = (driver.adapter, driver.adapter);
        let (count, fatal) = {
            let world = &mut *self.world.hold();
            let now = self.host.now();
            // The adapter may have stopped since this was queued.
            let Some(it) = world.adapters.get_mut(number) else { return };
            it.resets.retain(|it| now.saturating_sub(*it) < MINUTE);
            it.resets.push(now);
            let count = it.resets.len();
            self.log.emit(
                adapter.subject(),
                What::AdapterReset { now, count: u32::try_from(count).unwrap_or(u32::MAX) },
            );
            (count, count > MOST_RESETS)
        };
        let reason = if fatal { CollectReason::Fails } else { CollectReason::Recovers };
        self.collect(at, driver, reason);
        if fatal {
            self.stop_for_good(number, &format!("its GPU was reset {count} times in a minute"));
            return;
        }
        let nodes = self.world.hold().adapters.get(number).map_or(0, |it| it.nodes.len());
        for node in 0..nodes {
            self.judge_unreported(driver, node);
        }
        let reset = driver.reset(at, pass);
        let left = driver.machine.holds(None) == Some(true);
        self.judge_reset(adapter, reset.err(), left);
        self.lose_all(number, fault);
        self.drop_places(at, driver, pass);
        let restarted = driver.restart(at, pass);
        let broken =
            restarted.as_ref().err().map(|why| format!("the driver answered {}", why.name()));
        let place = "DxgkDdiRestartFromTimeout";
        self.log.judge(RuleId::KMD_TDR_005, Who::Driver, adapter.subject(), place, broken);
        if reset.is_err() || restarted.is_err() {
            // WINDOWS: either stops the system (documented).
            self.stop_for_good(number, "its GPU could not be reset");
            return;
        }
        self.restore_tables(at, pass, driver);
        let world = &mut *self.world.hold();
        self.log.emit(adapter.subject(), What::AdapterRestarted {});
        for node in 0..nodes {
            self.reopen_node(world, number, node);
        }
        self.ring(&self.bell);
        self.wake(world);
    }

    /// Entry rule: when a reset has returned, the GPU touches no memory any more.
    fn judge_reset(&self, adapter: Id<Adapter>, refusal: Option<Refusal>, left: bool) {
        let broken = match refusal {
            Some(why) => Some(format!("the driver answered {}", why.name())),
            None if left => Some("the reset has returned, and engines still have work".to_owned()),
            None => None,
        };
        let place = "DxgkDdiResetFromTimeout";
        self.log.judge(RuleId::KMD_TDR_001, Who::Driver, adapter.subject(), place, broken);
    }

    /// Has a driver write down what it knows.
    fn collect(&self, at: &mut Passive, driver: &Arc<Driver>, reason: CollectReason) {
        if !driver.miniport.offers().contains(&"DxgkDdiCollectDbgInfo") {
            return;
        }
        let mut notes = vec![0; NOTES];
        let wrote = driver.collect(at, reason, &mut notes);
        let broken = wrote
            .ok()
            .filter(|it| *it > NOTES)
            .map(|it| format!("the driver wrote up to byte {it} where {NOTES} were free"));
        let place = "DxgkDdiCollectDbgInfo.BufferSize";
        self.log.judge(RuleId::KMD_TDR_012, Who::Driver, driver.adapter.subject(), place, broken);
    }

    /// Everything on an adapter was lost with its GPU.
    fn lose_all(&self, adapter: Id<Adapter>, fault: Option<usize>) {
        {
            let world = &mut *self.world.hold();
            // What else was to be done about its nodes is done with it.
            world.late.retain(|it| it.adapter() != adapter);
            let first = |node| world.node_mut(adapter, node)?.queue.front()?.device();
            let culprit = fault.and_then(first);
            let mine = world.devices.iter().filter(|(_, it)| it.adapter == adapter);
            let devices: Vec<Id<Device>> = mine.map(|(number, _)| number).collect();
            for device in devices {
                let why = if culprit == Some(device) { Loss::Hung } else { Loss::Reset };
                self.lose(world, device, why);
            }
        }
        self.lose_paging(adapter);
        let planned = {
            let world = &mut *self.world.hold();
            let mut again = Vec::new();
            for node in world.adapters.get_mut(adapter).into_iter().flat_map(|it| &mut it.nodes) {
                let (subject, done, given) = (node.subject(), node.reported, node.given);
                (node.reported, node.passed, node.fresh) = (given, given, true);
                (node.watch, node.preemption, node.vain) = (None, None, 0);
                node.ghosts.clear();
                node.faults.clear();
                again.extend(std::mem::take(&mut node.again).into_iter().filter_map(|it| it.batch));
                self.log.emit(subject, What::NodeReset { done, aborted: given, given });
            }
            for batch in again {
                self.finish_batch(world, adapter, batch, true);
            }
            let nodes = world
                .adapters
                .get(adapter)
                .map(|it| it.nodes.iter().map(crate::schedule::Node::subject).collect::<Vec<_>>());
            for node in nodes.unwrap_or_default() {
                self.switch(world, adapter, node, None);
            }
            let memory = world.adapters.get_mut(adapter).and_then(|it| it.memory.as_mut());
            memory.map(|it| std::mem::take(&mut it.planned)).unwrap_or_default()
        };
        for paging in planned {
            self.give_up_paging(paging);
        }
        self.settle_saved(&mut self.world.hold());
    }

    /// The system stops: nothing on the adapter works any more.
    fn stop_for_good(&self, adapter: Id<Adapter>, why: &str) {
        {
            let world = &mut *self.world.hold();
            let subject = adapter.subject();
            self.log.emit(subject, What::AdapterFatal { why: why.to_owned().into() });
            if let Some(it) = world.adapters.get_mut(adapter) {
                it.fatal = true;
            }
        }
        self.lose_all(adapter, None);
    }
}

impl World {
    /// Whether an adapter is about to be reset.
    pub(crate) fn is_to_be_reset(&self, adapter: Id<Adapter>) -> bool {
        self.late.iter().any(|it| matches!(it, Late::ResetAll(number, _) if *number == adapter))
    }

    /// The devices that have opened an allocation, or own a context, which paging commands name.
    fn owners_of(&self, batch: &crate::memory::Batch) -> BTreeSet<(Id<Device>, Subject)> {
        let mut owners = BTreeSet::new();
        for step in &batch.done {
            let Some(owner) = self.extents.get(step.extent).map(|it| it.owner) else { continue };
            match owner {
                Owner::Allocation(_) | Owner::Instance(_) => {
                    let of = self.allocation_of(owner).and_then(|it| self.allocations.get(it));
                    let views = of.map(|it| it.views.iter());
                    let device =
                        |it: &Id<View>| self.views.get(*it).map(|it| (it.device, owner.subject()));
                    owners.extend(views.into_iter().flatten().filter_map(device));
                }
                Owner::Saved(saved) => {
                    owners.insert((self.saved[saved].device, owner.subject()));
                }
                Owner::Table(_) => (),
            }
        }
        owners
    }

    /// Whether a job may be there to be done.
    pub(crate) fn has_work(&self) -> bool {
        !self.jobs.is_empty()
            || !self.pagings.is_empty()
            || !self.runnable.is_empty()
            || !self.late.is_empty()
            || !self.cancelled.is_empty()
            || self.held_back
    }
}
