//! Figures of a run.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::call_log::RunRecord;
use super::load::DEADLINE;
use super::other_client;
use super::plan::RecoveryPlan;

/// How well a client came through a bad day.
#[derive(Clone, Debug)]
pub struct RecoveryFigures {
    /// Seconds after healing until 95 % of what the server allows is used and stays so; infinite if that
    /// was not seen.
    pub to_full: f64,
    /// Seconds after healing until half of it is used and stays so.
    pub to_half: f64,
    /// Seconds after healing that the server itself had asked for.
    pub asked: f64,
    /// Calls a second during the trouble under the busy load.
    pub sent_busy: f64,
    /// Calls a second after the first 20 s of the trouble.
    pub sent_late: f64,
    /// Calls a second during the trouble under the open load.
    pub sent_open: f64,
    /// 429s in 10,000 calls under the busy load.
    pub refused: f64,
    /// 429s in all under the busy load.
    pub refusals: usize,
    /// Percentage of callers of the open load that failed without need.
    pub failed: f64,
    /// Times that Normal was left under the busy load.
    pub left_normal: usize,
    /// Times that a limit in effect changed to another than the configured one under the busy load.
    pub lowered: usize,
    /// Useful answers under the busy load as a percentage of what the server allowed.
    pub goodput: f64,
}

impl RecoveryFigures {
    /// Computes the figures of two runs.
    pub(super) fn new(plan: &RecoveryPlan, busy: &RunRecord, open: &RunRecord) -> Self {
        let scenario = &plan.scenario;
        let (begin, end) = (scenario.begin.as_secs_f64(), scenario.end().as_secs_f64());
        let heal = scenario.heal.map(|heal| heal.as_secs_f64());
        let view = GoodputView::new(plan, busy);
        let rate_until_heal = |times: &[f64], from: f64| heal.map_or(0.0, |heal| per_second(times, from, heal));
        let lost = unavoidable(plan, open);
        let failed = open.failed.len().saturating_sub(lost);
        Self {
            to_full: heal.map_or(0.0, |heal| view.settled(heal, end, view.window, 0.95)),
            to_half: heal.map_or(0.0, |heal| view.settled(heal, end, view.short_window, 0.5)),
            asked: heal.map_or(0.0, |heal| (busy.asked_until - heal).max(0.0)),
            sent_busy: rate_until_heal(&busy.sent, begin),
            sent_late: rate_until_heal(&busy.sent, begin + 20.0),
            sent_open: rate_until_heal(&open.sent, begin),
            refused: 1e4 * approx(busy.refused.len()) / approx(busy.sent.len().max(1)),
            refusals: busy.refused.len(),
            failed: 100.0 * approx(failed) / approx(open.offered.len().max(1)),
            left_normal: busy.times_left_normal(),
            lowered: busy.drifts.iter().filter(|(_, drift)| drift.is_some()).count(),
            goodput: 100.0 * approx(within(&busy.good, begin, end)) / allowed(plan).max(1.0),
        }
    }

    /// Returns the seconds to 95 % from the later of healing and the end of the server's own wait.
    pub fn to_full_after_wait(&self) -> f64 {
        (self.to_full - self.asked).max(0.0)
    }

    /// Returns the seconds below half from the later of healing and the end of the server's own wait.
    pub fn to_half_after_wait(&self) -> f64 {
        (self.to_half - self.asked).max(0.0)
    }
}

impl fmt::Display for RecoveryFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:6.1} s to 95 %, {:5.1} s to half, {:4.1} s asked | sent {:6.2}/s busy, {:5.2}/s late, {:6.2}/s open | \
             {:7.1} refused in 10,000 ({}) | {:5.2} % failed | Normal left {} | goodput {:5.1} %",
            self.to_full,
            self.to_half,
            self.asked,
            self.sent_busy,
            self.sent_late,
            self.sent_open,
            self.refused,
            self.refusals,
            self.failed,
            self.left_normal,
            self.goodput,
        )
    }
}

/// Useful answers, seen through windows.
struct GoodputView<'a> {
    good: &'a [f64],
    speed: f64,
    window: f64,
    short_window: f64,
    step: f64,
}

impl<'a> GoodputView<'a> {
    /// Limits by the second are seen through five seconds, longer ones through their own window.
    fn new(plan: &RecoveryPlan, record: &'a RunRecord) -> Self {
        let longest = plan.config.longest_window().as_secs_f64();
        let (window, short_window, step) = if longest > 1.0 {
            (longest, longest, 2.0)
        } else {
            (5.0, 2.0, 0.5)
        };
        Self {
            good: &record.good,
            speed: plan.speed(),
            window,
            short_window,
            step,
        }
    }

    /// Returns the seconds from healing on until the goodput is this share of the limit and keeps it for
    /// six windows.
    fn settled(&self, heal: f64, end: f64, window: f64, share: f64) -> f64 {
        let wanted = |span: f64| share * self.speed * span;
        let mut at = heal;
        while at + 6.0 * window <= end {
            let is_there = approx(within(self.good, at, at + window)) >= wanted(window) * 0.999;
            if is_there && approx(within(self.good, at, at + 6.0 * window)) >= wanted(6.0 * window) * 0.995 {
                return at - heal;
            }
            at += self.step;
        }
        f64::INFINITY
    }
}

/// Returns the number of sorted instants in a span.
fn within(times: &[f64], from: f64, to: f64) -> usize {
    let before = |end: f64| times.partition_point(|at| *at < end);
    before(to).saturating_sub(before(from))
}

fn per_second(times: &[f64], from: f64, to: f64) -> f64 {
    if to <= from {
        return 0.0;
    }
    approx(within(times, from, to)) / (to - from)
}

/// Returns the calls that the server allowed from the beginning of the trouble to the end.
fn allowed(plan: &RecoveryPlan) -> f64 {
    let (scenario, speed) = (&plan.scenario, plan.speed());
    let mut calls = 0.0;
    let mut at = scenario.begin;
    while at < scenario.end() {
        if scenario.is_up(at) {
            let taken = if scenario.shares_key && other_client::is_active(at) {
                0.5
            } else {
                0.0
            };
            calls += STEP.as_secs_f64() * speed * (capacity(plan, at) - taken);
        }
        at += STEP;
    }
    calls
}

/// Returns the number of callers that could not be served even with full knowledge: those with the
/// earliest deadline go first, at the rate that the server allows, and none before the end of a wait that
/// the server asked for.
fn unavoidable(plan: &RecoveryPlan, open: &RunRecord) -> usize {
    let speed = plan.speed();
    let burst = plan
        .config
        .rates()
        .iter()
        .map(|rate| rate.quantity())
        .min()
        .unwrap_or(1);
    let burst = u32::try_from(burst).map_or(f64::MAX, f64::from);
    let (mut lost, mut credit, mut at) = (0, 0.0, Duration::ZERO);
    let (mut waiting, mut coming) = (VecDeque::new(), open.offered.iter().copied().peekable());
    while at < plan.scenario.end() + DEADLINE {
        let now = at.as_secs_f64();
        waiting.extend(std::iter::from_fn(|| coming.next_if(|call| *call <= now)));
        let is_late = |call: &f64| call + DEADLINE.as_secs_f64() < now + plan.latency.as_secs_f64();
        while waiting.front().is_some_and(is_late) {
            waiting.pop_front();
            lost += 1;
        }
        let is_asked = plan.scenario.heal.is_some_and(|heal| at >= heal) && now < open.asked_until;
        if plan.scenario.is_up(at) && !is_asked {
            credit = f64::min(credit + STEP.as_secs_f64() * speed * capacity(plan, at), burst);
            while credit >= 1.0 && waiting.pop_front().is_some() {
                credit -= 1.0;
            }
        }
        at += STEP;
    }
    lost
}

fn capacity(plan: &RecoveryPlan, at: Duration) -> f64 {
    f64::from(plan.scenario.capacity(at).as_parts_per_million()) / 1e6
}

fn approx(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::MAX, f64::from)
}

/// Resolution of what the server allows.
const STEP: Duration = Duration::from_millis(50);
