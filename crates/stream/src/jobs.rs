//! The jobs of the class driver: work that cannot run where it arises.

use crate::types::{FilterId, FrameId, PinId};
use flight::Subject;
use std::collections::VecDeque;

/// A job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// A pin is to be processed.
    Pin(PinId),
    /// A filter is to be processed.
    Filter(FilterId),
    /// A frame that was to be cancelled is not locked any more.
    Cancel(FrameId),
}

impl Job {
    pub(crate) fn is_of_pin(self, pin: PinId) -> bool {
        self == Job::Pin(pin)
    }

    pub(crate) fn is_of_filter(self, filter: FilterId) -> bool {
        self == Job::Filter(filter)
    }

    /// The pin or filter that processes.
    #[inline]
    pub(crate) fn processor(self) -> Option<Subject> {
        match self {
            Job::Pin(it) => Some(it.subject()),
            Job::Filter(it) => Some(it.subject()),
            Job::Cancel(_) => None,
        }
    }
}

/// The queued jobs, each once, in order. Mostly there is one, which is not in the list.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    first: Option<Job>,
    /// The jobs after the first one. Empty if there is no first one.
    others: VecDeque<Job>,
}

impl JobQueue {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Adds a job at the end, unless it is queued. Returns whether it was added.
    ///
    /// The usual case makes the job in its place: a copy would wait until the parts of the job,
    /// written one by one, are in memory.
    #[expect(clippy::inline_always, reason = "a step of the path of one frame")]
    #[inline(always)]
    pub(crate) fn push(&mut self, job: impl Fn() -> Job) -> bool {
        if self.first.is_none() {
            self.first = Some(job());
            true
        } else {
            self.push_other(job())
        }
    }

    #[cold]
    #[inline(never)]
    fn push_other(&mut self, job: Job) -> bool {
        let added = self.first != Some(job) && !self.others.contains(&job);
        if added {
            self.others.push_back(job);
        }
        added
    }

    /// The job at a place, counted from zero.
    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<Job> {
        match place {
            0 => self.first,
            _ => self.others.get(place - 1).copied(),
        }
    }

    /// Removes the job at a place.
    #[inline]
    pub(crate) fn remove(&mut self, place: usize) {
        if place > 0 {
            self.others.remove(place - 1);
        } else if self.others.is_empty() {
            self.first = None;
        } else {
            self.first = self.others.pop_front();
        }
    }

    /// Keeps the jobs that satisfy a condition.
    pub(crate) fn retain(&mut self, condition: impl Fn(Job) -> bool) {
        self.others.retain(|job| condition(*job));
        if !self.first.is_some_and(condition) {
            self.first = self.others.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flight::Slab;

    fn jobs(queue: &JobQueue) -> Vec<Job> {
        (0..).map_while(|place| queue.get(place)).collect()
    }

    #[test]
    fn jobs_are_queued_once_and_leave_in_order() {
        let mut pins = Slab::default();
        let [a, b, c] = [(); 3].map(|()| Job::Pin(pins.reserve()));
        let mut queue = JobQueue::default();
        assert_eq!([a, b, a, b, c].map(|job| queue.push(|| job)), [true, true, false, false, true]);
        assert_eq!(jobs(&queue), [a, b, c]);
        queue.remove(1);
        assert_eq!(jobs(&queue), [a, c]);
        queue.remove(0);
        assert_eq!(jobs(&queue), [c]);
        queue.remove(0);
        assert!(queue.is_empty() && jobs(&queue).is_empty());
        // The first one goes, and the second one becomes the first.
        assert_eq!([a, b, c].map(|job| queue.push(|| job)), [true; 3]);
        queue.retain(|job| job != a);
        assert_eq!(jobs(&queue), [b, c]);
        queue.retain(|_| false);
        assert!(queue.is_empty() && queue.push(|| a));
    }
}
