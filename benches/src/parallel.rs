//! Several threads that ask for the same thing at the same time.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;
use crate::measure::{Slice, approx};

/// Does `ops` operations, shared by `threads`, and takes the time from the first start to the last
/// end. A turn in which other programs had the cores says nothing about contention: of two turns
/// the one counts in which the threads had more of them.
pub(crate) fn crowd(threads: u64, ops: u64, op: &(impl Fn() -> bool + Sync)) -> Slice {
    let wanted = approx(threads.min(cores())) * ENOUGH;
    let mut best = Turn::run(threads, ops, op);
    for _ in 1..TURNS {
        if best.cores >= wanted {
            break;
        }
        let turn = Turn::run(threads, ops, op);
        if turn.cores > best.cores {
            best = turn;
        }
    }
    best.slice
}

struct Turn {
    slice: Slice,
    /// How many cores the threads had on average.
    cores: f64,
}

impl Turn {
    fn run(threads: u64, ops: u64, op: &(impl Fn() -> bool + Sync)) -> Self {
        let share = (ops / threads).max(1);
        let start = &Start::of(threads);
        let runs: Vec<Run> = std::thread::scope(|scope| {
            let spawn = |seat| scope.spawn(move || one_of_many(share, seat, start, op));
            let workers: Vec<_> = (0..threads).map(spawn).collect();
            workers.into_iter().filter_map(|w| w.join().ok()).collect()
        });
        let first = runs.iter().map(|run| run.start).min();
        let last = runs.iter().map(|run| run.end).max();
        let wall = last
            .zip(first)
            .map_or(Duration::ZERO, |(last, first)| last.duration_since(first));
        let had: Duration = runs.iter().map(|run| run.had).sum();
        Self {
            slice: Slice {
                ops: share * threads,
                time: wall,
                strays: runs.iter().map(|run| run.strays).sum(),
            },
            cores: had.as_secs_f64() / wall.as_secs_f64(),
        }
    }
}

struct Run {
    start: Instant,
    end: Instant,
    /// Processor time in between.
    had: Duration,
    strays: u64,
}

fn one_of_many(ops: u64, seat: u64, line: &Start, op: &impl Fn() -> bool) -> Run {
    line.together(seat);
    let mut strays = 0;
    let (start, before) = (clock::read(), clock::processor_time());
    for _ in 0..ops {
        strays += u64::from(!black_box(op()));
    }
    Run {
        start,
        end: clock::read(),
        had: clock::processor_time().saturating_sub(before),
        strays,
    }
}

/// A starting line that holds the runners until all of them are truly running.
///
/// Threads that were just woken often share a core for a while, and two threads on one core do not
/// contend. Where there are cores enough, the line is drawn again until everybody crosses it within
/// [`TOGETHER`], which takes a core each.
struct Start {
    threads: u64,
    crossed: AtomicU64,
    last: AtomicU64,
    parked: Barrier,
}

impl Start {
    fn of(threads: u64) -> Self {
        Self {
            threads,
            crossed: AtomicU64::new(0),
            last: AtomicU64::new(0),
            parked: Barrier::new(usize::try_from(threads).unwrap_or(1)),
        }
    }

    fn together(&self, seat: u64) {
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
            // Everybody sees this before crossing once more, and stops there.
            if seat == 0 && (quick || now.duration_since(asked) > PATIENCE) {
                self.last.store(round + 1, Ordering::Release);
            }
        }
    }
}

fn cores() -> u64 {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    u64::try_from(cores).unwrap_or(1)
}

/// Turns to find a quiet moment.
const TURNS: usize = 2;
/// Of the cores that the threads could use: the rest is the system's own.
const ENOUGH: f64 = 0.85;
/// Far less than a turn of the scheduler, far more than a message between two cores.
const TOGETHER: Duration = Duration::from_micros(10);
/// About two turns of the scheduler. A machine that is busier than that is measured as it is.
const PATIENCE: Duration = Duration::from_millis(6);
