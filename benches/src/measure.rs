//! Compares contenders on a machine that is never quiet.
//!
//! Measuring one contender for a second and then the next compares two moments of the machine, not two
//! programs. Here every contender runs a slice of a few milliseconds in each round, and the order rotates. A
//! ratio is taken within a round, and the figure is the median over the rounds. Nothing is pinned and no
//! outlier is discarded: the spread shows them.
//!
//! One thread is measured by its processor time, which excludes other programs. Several threads are measured by
//! wall-clock time, because waiting for each other is part of their cost. Their turns are longer, so that a
//! preempted thread weighs less, and are repeated while other programs have the cores.
//!
//! A slice counts strays: answers that its figure does not measure, such as a refusal among allows. A thread
//! that sleeps between reading the clock and the call passes stale time, so a few are expected. A share above
//! [`MAX_STRAYS`] makes the figure void.

use std::hint::black_box;
use std::time::Duration;

use crate::clock;
use crate::parallel::run_threads;

/// Length and number of rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Rounds in which each contender runs once.
    pub(crate) rounds: usize,
    /// Length of one contender's turn.
    pub(crate) slice: Duration,
    /// After this total, three rounds suffice: a busy machine shares its time.
    pub(crate) budget: Duration,
}

impl Plan {
    /// Effort for published figures.
    pub(crate) const FULL: Self = Self {
        rounds: 21,
        slice: Duration::from_millis(10),
        budget: Duration::from_mins(10),
    };
    /// Effort for a check within a minute.
    pub(crate) const QUICK: Self = Self {
        rounds: 7,
        slice: Duration::from_millis(4),
        budget: Duration::from_secs(20),
    };

    /// Returns the rounds that fit the budget.
    pub(crate) fn turns(self) -> impl Iterator<Item = usize> {
        let in_time = move |round: &usize| *round < FEWEST || clock::since_begin() <= self.budget;
        (0..self.rounds).take_while(in_time)
    }

    /// Returns true if the budget allows figures without a goal.
    pub(crate) fn is_thorough(self) -> bool {
        self.rounds >= Self::FULL.rounds
    }
}

/// One turn of one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slice {
    pub(crate) ops: u64,
    pub(crate) time: Duration,
    /// Answers that this figure does not measure.
    pub(crate) strays: u64,
}

impl Slice {
    fn nanos_per_op(&self) -> f64 {
        self.time.as_secs_f64() * 1e9 / approx(self.ops)
    }
}

/// Factor of the turns of several threads.
const THREADS_FACTOR: u32 = 3;

/// A contender that runs a number of operations and measures them.
pub(crate) struct Contender<'a> {
    pub(crate) name: &'static str,
    turn: Box<dyn FnMut(u64) -> Slice + 'a>,
    stretch: u32,
}

impl<'a> Contender<'a> {
    /// Returns a contender on one thread; `op` returns true if it did the measured operation.
    pub(crate) fn alone(name: &'static str, mut op: impl FnMut() -> bool + 'a) -> Self {
        Self {
            name,
            turn: Box::new(move |ops| alone(ops, &mut op)),
            stretch: 1,
        }
    }

    /// Returns a contender on one thread; `take` is measured, `back` undoes it and is not.
    pub(crate) fn half<T: 'a>(
        name: &'static str,
        mut take: impl FnMut() -> Option<T> + 'a,
        mut back: impl FnMut(T) + 'a,
    ) -> Self {
        Self {
            name,
            turn: Box::new(move |ops| half(ops, &mut take, &mut back)),
            stretch: 1,
        }
    }

    /// Returns a contender that runs `op` on `threads` threads at once.
    pub(crate) fn on_threads(name: &'static str, threads: u64, op: impl Fn() -> bool + Sync + 'a) -> Self {
        Self {
            name,
            turn: Box::new(move |ops| run_threads(threads, ops, &op)),
            stretch: if threads > 1 { THREADS_FACTOR } else { 1 },
        }
    }
}

/// Measurements of one contender, round by round.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: &'static str,
    /// Nanoseconds per operation of each round.
    pub(crate) nanos: Vec<f64>,
    /// Share of answers that the figure does not measure.
    pub(crate) strays: f64,
}

/// Runs all contenders in rounds, ours first.
pub(crate) fn contest(plan: Plan, mut contenders: Vec<Contender<'_>>) -> Vec<Series> {
    let ops: Vec<u64> = contenders
        .iter_mut()
        .map(|contender| calibrate(plan, contender))
        .collect();
    let mut slices: Vec<Vec<Slice>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in plan.turns() {
        for turn in 0..contenders.len() {
            let index = (round + turn) % contenders.len();
            if let (Some(contender), Some(ops), Some(series)) =
                (contenders.get_mut(index), ops.get(index), slices.get_mut(index))
            {
                series.push((contender.turn)(*ops));
            }
        }
    }
    contenders
        .iter()
        .zip(slices)
        .map(|(contender, slices)| series(contender.name, &slices))
        .collect()
}

/// A median needs three.
const FEWEST: usize = 3;

/// Returns the value below which `share` of the values lie, interpolated between neighbours.
pub(crate) fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = share * approx(sorted.len().saturating_sub(1));
    let below = sorted.get(whole(place.floor())).copied();
    let above = sorted.get(whole(place.ceil())).copied();
    match (below, above) {
        (Some(below), Some(above)) => below + (above - below) * place.fract(),
        _ => f64::NAN,
    }
}

/// Returns the median.
pub(crate) fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

/// Converts a count to a float, for ratios shown to people.
pub(crate) fn approx(count: impl TryInto<u64>) -> f64 {
    #[expect(
        clippy::as_conversions,
        clippy::cast_precision_loss,
        reason = "a measured figure needs no more than 53 bits"
    )]
    let value = count.try_into().unwrap_or(u64::MAX) as f64;
    value
}

fn whole(place: f64) -> usize {
    #[expect(
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index of a list: integral, positive and small"
    )]
    let place = place as usize;
    place
}

fn series(name: &'static str, slices: &[Slice]) -> Series {
    let ops: u64 = slices.iter().map(|slice| slice.ops).sum();
    let strays: u64 = slices.iter().map(|slice| slice.strays).sum();
    Series {
        name,
        nanos: slices.iter().map(Slice::nanos_per_op).collect(),
        strays: approx(strays) / approx(ops.max(1)),
    }
}

/// Adds operations until a turn lasts long enough, which also warms caches and branch predictors. Of two turns
/// the shorter decides, so that a busy machine does not shorten the work.
fn calibrate(plan: Plan, contender: &mut Contender<'_>) -> u64 {
    let slice = plan.slice * contender.stretch;
    let mut ops = 1_024;
    loop {
        let shortest = |best: Duration, _| best.min((contender.turn)(ops).time);
        let time = (0..2).fold(Duration::MAX, shortest);
        if time >= slice / 8 {
            let scale = slice.as_secs_f64() / time.as_secs_f64();
            let fitted = u64::try_from(whole(approx(ops) * scale)).unwrap_or(ops);
            return fitted.max(1_024);
        }
        ops *= 4;
    }
}

fn alone(ops: u64, op: &mut impl FnMut() -> bool) -> Slice {
    let mut strays = 0;
    let start = clock::processor_time();
    for _ in 0..ops {
        strays += u64::from(!black_box(op()));
    }
    let time = clock::processor_time().saturating_sub(start);
    Slice { ops, time, strays }
}

/// Undoes the takes batch by batch, so that little is held at a time.
fn half<T>(ops: u64, take: &mut impl FnMut() -> Option<T>, back: &mut impl FnMut(T)) -> Slice {
    let mut slice = Slice {
        ops: 0,
        time: Duration::ZERO,
        strays: 0,
    };
    let mut held = Vec::with_capacity(HELD);
    while slice.ops < ops {
        let start = clock::processor_time();
        for _ in 0..HELD {
            match black_box(take()) {
                Some(one) => held.push(one),
                None => slice.strays += 1,
            }
        }
        slice.time += clock::processor_time().saturating_sub(start);
        slice.ops += u64::try_from(HELD).unwrap_or(u64::MAX);
        held.drain(..).for_each(&mut *back);
    }
    slice
}

/// Enough that reading the clock around them costs nothing each.
const HELD: usize = 1_024;

/// With more than one stray in a hundred the figure measures something else.
pub(crate) const MAX_STRAYS: f64 = 0.01;
