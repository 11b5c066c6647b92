//! Several threads that run the same operation at the same time.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;
use crate::measure::{Slice, approx};

/// Runs `ops` operations on `threads` threads and measures from the first start to the last end. A turn in
/// which other programs had the cores shows no contention: of two turns the one with more processor time
/// counts.
pub(crate) fn run_threads(threads: u64, ops: u64, op: &(impl Fn() -> bool + Sync)) -> Slice {
    let wanted = approx(threads.min(cores())) * ENOUGH_CORES;
    let mut best = ThreadTurn::run(threads, ops, op);
    for _ in 1..TRIES {
        if best.cores >= wanted {
            break;
        }
        let turn = ThreadTurn::run(threads, ops, op);
        if turn.cores > best.cores {
            best = turn;
        }
    }
    best.slice
}

struct ThreadTurn {
    slice: Slice,
    /// Average number of cores that the threads had.
    cores: f64,
}

impl ThreadTurn {
    fn run(threads: u64, ops: u64, op: &(impl Fn() -> bool + Sync)) -> Self {
        let share = (ops / threads).max(1);
        let start = &StartLine::new(threads);
        let runs: Vec<ThreadRun> = std::thread::scope(|scope| {
            let spawn = |index| scope.spawn(move || run_share(share, index, start, op));
            let workers: Vec<_> = (0..threads).map(spawn).collect();
            workers.into_iter().filter_map(|w| w.join().ok()).collect()
        });
        let first = runs.iter().map(|run| run.start).min();
        let last = runs.iter().map(|run| run.end).max();
        let wall = last
            .zip(first)
            .map_or(Duration::ZERO, |(last, first)| last.duration_since(first));
        let processor_time: Duration = runs.iter().map(|run| run.processor_time).sum();
        Self {
            slice: Slice {
                ops: share * threads,
                time: wall,
                strays: runs.iter().map(|run| run.strays).sum(),
            },
            cores: processor_time.as_secs_f64() / wall.as_secs_f64(),
        }
    }
}

struct ThreadRun {
    start: Instant,
    end: Instant,
    /// Processor time of the turn.
    processor_time: Duration,
    strays: u64,
}

fn run_share(ops: u64, index: u64, start_line: &StartLine, op: &impl Fn() -> bool) -> ThreadRun {
    start_line.wait_together(index);
    let mut strays = 0;
    let (start, before) = (clock::read(), clock::processor_time());
    for _ in 0..ops {
        strays += u64::from(!black_box(op()));
    }
    ThreadRun {
        start,
        end: clock::read(),
        processor_time: clock::processor_time().saturating_sub(before),
        strays,
    }
}

/// A start line that holds the threads until all of them run.
///
/// Threads that just woke often share a core for a while, and two threads on one core do not contend. With
/// enough cores, the start is repeated until all threads cross it within [`TOGETHER`], which takes a core each.
struct StartLine {
    threads: u64,
    crossed: AtomicU64,
    last: AtomicU64,
    parked: Barrier,
}

impl StartLine {
    fn new(threads: u64) -> Self {
        Self {
            threads,
            crossed: AtomicU64::new(0),
            last: AtomicU64::new(0),
            parked: Barrier::new(usize::try_from(threads).unwrap_or(1)),
        }
    }

    fn wait_together(&self, index: u64) {
        self.parked.wait();
        if self.threads > cores() {
            return;
        }
        let asked = clock::read();
        for round in 1.. {
            let arrived = clock::read();
            self.crossed.fetch_add(1, Ordering::AcqRel);
            while self.crossed.load(Ordering::Acquire) < round * self.threads {
                std::hint::spin_loop();
            }
            if round == self.last.load(Ordering::Acquire) {
                return;
            }
            let now = clock::read();
            let quick = now.duration_since(arrived) < TOGETHER;
            // Every thread reads this before it crosses again, and stops there.
            if index == 0 && (quick || now.duration_since(asked) > WAIT_LIMIT) {
                self.last.store(round + 1, Ordering::Release);
            }
        }
    }
}

fn cores() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u64::try_from(cores).unwrap_or(1)
}

/// Attempts to find a quiet moment.
const TRIES: usize = 2;
/// Share of the usable cores; the rest belongs to the system.
const ENOUGH_CORES: f64 = 0.85;
/// Far less than a time slice of the scheduler, far more than a message between two cores.
const TOGETHER: Duration = Duration::from_micros(10);
/// About two time slices of the scheduler. A busier machine is measured as it is.
const WAIT_LIMIT: Duration = Duration::from_millis(6);
