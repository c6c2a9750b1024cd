//! Measures times, also on several threads.

use crate::MeasureError;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Start and end of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span(Instant, Instant);

impl Span {
    pub(crate) fn duration(self) -> Duration {
        self.1 - self.0
    }

    /// From the first start to the last end.
    pub(crate) fn union(spans: &[Span]) -> Duration {
        let start = spans.iter().map(|span| span.0).min();
        let end = spans.iter().map(|span| span.1).max();
        start.zip(end).map(|(start, end)| end - start).unwrap_or_default()
    }
}

pub(crate) fn timed(body: impl FnOnce() -> Result<(), MeasureError>) -> Result<Span, MeasureError> {
    let start = Instant::now();
    body()?;
    Ok(Span(start, Instant::now()))
}

/// Runs the body for each element on its own thread. Thread start is not measured: the threads
/// wait for each other first.
pub(crate) fn run_in_parallel<T: Send>(
    clients: &mut [T],
    body: impl Fn(&mut T) -> Result<(), MeasureError> + Sync,
) -> Result<Duration, MeasureError> {
    let together = Barrier::new(clients.len());
    let (together, body) = (&together, &body);
    let spans: Result<Vec<Span>, MeasureError> = std::thread::scope(|scope| {
        let spawn = |part| {
            scope.spawn(move || {
                together.wait();
                timed(|| body(part))
            })
        };
        let threads: Vec<_> = clients.iter_mut().map(spawn).collect();
        let panicked = |_| Err(MeasureError("a thread that does not panic".to_owned()));
        threads
            .into_iter()
            .map(|scoped_join_handle| scoped_join_handle.join().unwrap_or_else(panicked))
            .collect()
    });
    Ok(Span::union(&spans?))
}
