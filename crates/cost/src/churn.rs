//! A load on the C library: threads create and destroy allocations while many are alive, and the
//! resident memory must stay the same.

use crate::MeasureError;
use crate::c_library::CLibraryClient;
use crate::ring::{Ring, TwoPassDriver as _};
use abi::D3DKMT_HANDLE;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// The time between two lines, and the time after which memory must not grow.
const INTERVAL: Duration = Duration::from_secs(10);

/// The pairs between two looks at the clock.
const SOME: usize = 256;

/// How much the resident memory may grow after the first interval, in percent.
const GROWTH: u64 = 3;

/// The size of a load.
#[derive(Clone, Copy, Debug)]
pub struct ChurnSize {
    /// The allocations that are alive, of all threads.
    pub alive: usize,
    /// The number of threads, each with its own device.
    pub threads: usize,
    /// When the threads stop.
    pub until: ChurnEnd,
}

/// When the threads of a load stop.
#[derive(Clone, Copy, Debug)]
pub enum ChurnEnd {
    /// After this time.
    Time(Duration),
    /// After this number of pairs of each thread. The memory is printed and not judged.
    Pairs(usize),
}

/// Creates the live allocations, runs pairs on all threads, and destroys everything. Fails if a
/// call fails, if the memory grows, or if an object of the kernel is alive at the end that was not
/// before.
pub fn churn(size: ChurnSize, say: &mut dyn FnMut(&str)) -> Result<(), MeasureError> {
    let objects_before = live_objects()?;
    let load = Load {
        size,
        filled: Barrier::new(size.threads + 1),
        stop: AtomicBool::new(false),
        pairs: AtomicU64::new(0),
    };
    let began = Instant::now();
    let memory = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..size.threads).map(|_| scope.spawn(|| load.thread())).collect();
        load.filled.wait();
        say(&format!(
            "{} alive after {:.1} s, {}\n",
            size.alive,
            began.elapsed().as_secs_f64(),
            megabytes(resident())
        ));
        let memory = load.watch(&threads, say);
        let failed = |_| Err(MeasureError("a thread that does not panic".to_owned()));
        for thread in threads {
            thread.join().unwrap_or_else(failed)?;
        }
        Ok::<_, MeasureError>(memory)
    })?;
    let left = live_objects()?.abs_diff(objects_before);
    let pairs = load.pairs.load(Ordering::Relaxed);
    say(&format!("{pairs} pairs; everything destroyed; {left} objects alive\n"));
    if left > 0 {
        return Err(MeasureError(format!("no live object at the end; there are {left}")));
    }
    check_memory(&memory)
}

/// What the threads share.
struct Load {
    size: ChurnSize,
    /// All threads have created their live allocations.
    filled: Barrier,
    stop: AtomicBool,
    /// The pairs of all threads.
    pairs: AtomicU64,
}

impl Load {
    /// The work of a thread.
    fn thread(&self) -> Result<(), MeasureError> {
        let opened = CLibraryClient::open().and_then(|mut client| {
            let mut ring = Ring::with_room(self.size.alive / self.size.threads);
            ring.fill(&mut client, &mut ())?;
            Ok((client, ring))
        });
        // Also a thread that failed comes here: the others wait for it.
        self.filled.wait();
        let (mut client, mut ring) = opened?;
        let mut left = match self.size.until {
            ChurnEnd::Time(_) => usize::MAX,
            ChurnEnd::Pairs(pairs) => pairs,
        };
        while left > 0 && !self.stop.load(Ordering::Relaxed) {
            let some = SOME.min(left);
            left -= some;
            ring.pairs(&mut client, &mut (), true, some)?;
            self.pairs.fetch_add(some as u64, Ordering::Relaxed);
        }
        let last = ring.into_live();
        for handle in &last {
            client.destroy(&mut (), *handle)?;
        }
        refuses_destroyed(&mut client, &last)?;
        client.close()
    }

    /// Prints the resident memory until the threads stop, and returns it at each interval.
    fn watch<T>(&self, threads: &[ScopedJoinHandle<'_, T>], say: &mut dyn FnMut(&str)) -> Vec<u64> {
        let began = Instant::now();
        let mut memory = Vec::new();
        let end = match self.size.until {
            ChurnEnd::Time(end) => end,
            ChurnEnd::Pairs(_) => return memory,
        };
        while began.elapsed() < end && !threads.iter().any(ScopedJoinHandle::is_finished) {
            let next = INTERVAL * u32::try_from(memory.len() + 1).unwrap_or(u32::MAX);
            std::thread::sleep(next.min(end).saturating_sub(began.elapsed()));
            let (resident, pairs) = (resident(), self.pairs.load(Ordering::Relaxed));
            let seconds = began.elapsed().as_secs();
            say(&format!("{seconds:>3} s: {}, {pairs} pairs\n", megabytes(resident)));
            memory.push(resident);
        }
        self.stop.store(true, Ordering::Relaxed);
        memory
    }
}

/// Fails if a handle of a destroyed allocation is taken for one.
fn refuses_destroyed(
    client: &mut CLibraryClient,
    destroyed: &[D3DKMT_HANDLE],
) -> Result<(), MeasureError> {
    // With a report, each refusal is a finding.
    if std::env::var_os("WINDTUNNEL_REPORT").is_some() {
        return Ok(());
    }
    match destroyed.first().map(|handle| client.destroy(&mut (), *handle)) {
        Some(Ok(())) => Err(MeasureError("a destroyed handle to be refused".to_owned())),
        _ => Ok(()),
    }
}

/// Fails if the memory after the first interval has grown at the end.
fn check_memory(memory: &[u64]) -> Result<(), MeasureError> {
    let (Some(first), Some(most)) = (memory.first(), memory.iter().max()) else { return Ok(()) };
    if most * 100 <= first * (100 + GROWTH) {
        return Ok(());
    }
    let (first, most) = (megabytes(*first), megabytes(*most));
    Err(MeasureError(format!("memory that grows by at most {GROWTH} %; {first} became {most}")))
}

/// The number of live objects of the C library's kernel.
fn live_objects() -> Result<usize, MeasureError> {
    // The first call starts the kernel.
    CLibraryClient::open()?.close()?;
    d3dkmt::live_objects().ok_or(MeasureError("the kernel of the C library to run".to_owned()))
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    const PAGE: u64 = 4096;
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: Option<u64> = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    pages.unwrap_or(0) * PAGE
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB resident", bytes / 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_after_the_first_interval_fails() {
        assert_eq!(check_memory(&[]), Ok(()));
        assert_eq!(check_memory(&[1000, 1030, 1010]), Ok(()));
        assert!(check_memory(&[1000, 1031, 1010]).is_err());
    }

    #[test]
    fn a_load_ends_with_nothing_alive() {
        let (mut text, until) = (String::new(), ChurnEnd::Pairs(500));
        let size = ChurnSize { alive: 400, threads: 4, until };
        churn(size, &mut |line| text.push_str(line)).unwrap();
        assert!(text.ends_with("2000 pairs; everything destroyed; 0 objects alive\n"), "{text}");
    }
}
