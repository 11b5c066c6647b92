//! Recent throughput of lanes.
//!
//! An ETA follows the lane, because all its tenants and actions share one speed and fair order divides it. Only time in
//! which jobs waited counts, and no outage: that says nothing about the rest. Waits of some seconds that an API imposes
//! again and again are its speed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use outflow_core::Nanos;
use outflow_store::Name;
use outflow_sync::Mutex;

/// Number of jobs that ended in a span.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Throughput {
    /// Number of ended jobs.
    pub ended: u64,
    /// Span in which they ended.
    pub span: Duration,
    /// End of the span in which no job ended.
    pub idle: Duration,
}

impl Throughput {
    /// Returns the time of `jobs` if all ended jobs took this long.
    pub(crate) fn scale(self, span: Duration, jobs: u64) -> Duration {
        let nanos = span.as_nanos() * u128::from(jobs) / u128::from(self.ended.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// A lane with work, as this process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LaneActivity {
    pub(crate) lane: Name,
    /// Number of its jobs that ended in this process.
    pub(crate) ended_here: u64,
    /// True if jobs wait that no operator paused.
    pub(crate) has_work: bool,
    /// True if its API accepts no calls, or only probes.
    pub(crate) is_blocked: bool,
}

/// Number of ended jobs of all lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct EndedJobs {
    pub(crate) here: u64,
    pub(crate) on_all_machines: u64,
}

/// Measurements of all lanes with work.
#[derive(Debug, Default)]
pub(crate) struct LaneSpeeds {
    table: Mutex<SpeedTable>,
}

#[derive(Debug, Default)]
struct SpeedTable {
    /// Instant of the last record.
    recorded: Nanos,
    ended: EndedJobs,
    lanes: BTreeMap<Name, LaneSpeed>,
}

impl LaneSpeeds {
    /// Records the lanes that have work, with the ended jobs of all lanes. Other lanes are forgotten.
    pub(crate) fn record(&self, now: Nanos, ended: EndedJobs, lanes: &[LaneActivity]) {
        let mut table = self.table.lock();
        let elapsed = now.since(std::mem::replace(&mut table.recorded, now));
        let before = std::mem::replace(&mut table.ended, ended);
        let here = ended.here.saturating_sub(before.here);
        let everywhere = ended.on_all_machines.saturating_sub(before.on_all_machines);
        let mut known = std::mem::take(&mut table.lanes);
        for activity in lanes {
            let speed = known.remove(&activity.lane);
            let mut speed = speed.unwrap_or_else(|| LaneSpeed::new(activity));
            let own = activity.ended_here.saturating_sub(speed.ended_here);
            // Other machines serve the lanes as this one does.
            let own = match (lanes.len(), here) {
                (1, 0) => everywhere,
                (_, 0) => 0,
                _ => scale(own, everywhere, here),
            };
            speed.add(activity, elapsed, own);
            table.lanes.insert(activity.lane.clone(), speed);
        }
    }

    /// Returns the throughput of a lane in this last part of its served time, if a job ended in it.
    pub(crate) fn throughput(&self, lane: &Name, span: Duration) -> Option<Throughput> {
        self.table.lock().lanes.get(lane)?.throughput(span)
    }
}

fn scale(number: u64, times: u64, of: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(times) / u128::from(of)).unwrap_or(u64::MAX)
}

/// Served time of one lane.
#[derive(Debug)]
struct LaneSpeed {
    ended_here: u64,
    has_work: bool,
    /// Consecutive parts, the oldest first.
    parts: VecDeque<ServedPart>,
    /// Served time since the last end.
    idle: Duration,
    /// Time since the API accepts no calls, if no job has ended since.
    blocked: Duration,
    /// True if this is an outage.
    is_out: bool,
    /// Time since the last outage, if there was one.
    recovered: Option<Duration>,
}

/// A part of the served time, and the jobs that ended in it.
#[derive(Clone, Copy, Debug, Default)]
struct ServedPart {
    span: Duration,
    ended: u64,
}

impl ServedPart {
    fn add(&mut self, more: Self) {
        self.span = self.span.saturating_add(more.span);
        self.ended = self.ended.saturating_add(more.ended);
    }

    fn is_complete(&self) -> bool {
        self.span >= PART_SPAN && self.ended > 0
    }

    fn is_enough(&self, span: Duration) -> bool {
        self.span >= span && self.ended >= ENOUGH
    }
}

impl LaneSpeed {
    fn new(activity: &LaneActivity) -> Self {
        Self {
            ended_here: activity.ended_here,
            has_work: false,
            parts: VecDeque::new(),
            idle: Duration::ZERO,
            blocked: Duration::ZERO,
            is_out: false,
            recovered: None,
        }
    }

    fn add(&mut self, activity: &LaneActivity, span: Duration, ended: u64) {
        self.ended_here = activity.ended_here;
        let had_work = std::mem::replace(&mut self.has_work, activity.has_work);
        if !activity.has_work {
            self.idle = Duration::ZERO;
            return;
        }
        if !had_work {
            return;
        }
        if activity.is_blocked && ended == 0 {
            self.add_blocked(span);
            return;
        }
        self.end_block();
        self.recovered = self.recovered.map(|since| since.saturating_add(span));
        if self.recovered.is_none_or(|since| since > RECOVERY) {
            self.add_served(ServedPart { span, ended });
        }
    }

    /// Adds time without calls. A long one is an outage, which is left out with the failures before it. An API that
    /// fails again within a minute is slow.
    fn add_blocked(&mut self, span: Duration) {
        self.blocked = self.blocked.saturating_add(span);
        let is_first = self.recovered.is_none_or(|since| since > RECURRING);
        if self.blocked > SHORT_BLOCK && is_first {
            self.remove_trouble();
            self.is_out = true;
            self.recovered = Some(Duration::ZERO);
        }
    }

    fn end_block(&mut self) {
        let span = std::mem::take(&mut self.blocked);
        if !std::mem::take(&mut self.is_out) && !span.is_zero() {
            self.recovered = self.recovered.map(|_| RECOVERY);
            self.add_served(ServedPart { span, ended: 0 });
        }
    }

    fn add_served(&mut self, part: ServedPart) {
        self.idle = match part.ended {
            0 => self.idle.saturating_add(part.span),
            _ => Duration::ZERO,
        };
        match self.parts.back_mut() {
            Some(last) if !last.is_complete() => last.add(part),
            _ => self.parts.push_back(part),
        }
        let all = self.parts.iter().skip(1);
        if sum(all).is_enough(MAX_SPAN) {
            self.parts.pop_front();
        }
    }

    /// Removes the time in which the API failed already, before it slept for it.
    fn remove_trouble(&mut self) {
        let mut removed = Duration::ZERO;
        while removed < TROUBLE_SPAN
            && let Some(part) = self.parts.pop_back()
        {
            removed = removed.saturating_add(part.span);
        }
        self.idle = Duration::ZERO;
    }

    fn throughput(&self, span: Duration) -> Option<Throughput> {
        let mut last = ServedPart::default();
        for part in self.parts.iter().rev() {
            if last.is_enough(span) {
                break;
            }
            last.add(*part);
        }
        let ServedPart { span, ended } = last;
        let idle = self.idle;
        (ended > 0 && span >= MIN_SPAN).then_some(Throughput { ended, span, idle })
    }
}

fn sum<'a>(parts: impl Iterator<Item = &'a ServedPart>) -> ServedPart {
    let mut sum = ServedPart::default();
    parts.for_each(|part| sum.add(*part));
    sum
}

/// Long enough that the rhythm of calls in flight does not show.
pub(super) const USUAL_SPAN: Duration = Duration::from_mins(1);

/// Long enough for three windows of a minute.
pub(super) const MAX_SPAN: Duration = Duration::from_mins(3);

/// Fewer ends measure chance.
const ENOUGH: u64 = 25;

/// Twenty parts in the usual span.
const PART_SPAN: Duration = Duration::from_secs(3);

/// An API sleeps for failures of the last seconds.
const TROUBLE_SPAN: Duration = Duration::from_secs(20);

/// An API that allows less than configured asks for cooldowns of this length again and again.
const SHORT_BLOCK: Duration = Duration::from_secs(5);

/// After an outage the rate grows to the configured one for so long.
const RECOVERY: Duration = Duration::from_secs(10);

/// An API that fails again within this time fails for ever, as far as an estimate knows.
const RECURRING: Duration = Duration::from_mins(1);

/// A shorter span measures chance.
const MIN_SPAN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(name: &str) -> Name {
        Name::new(name).expect("a name")
    }

    fn activity(name: &str, ended_here: u64) -> LaneActivity {
        LaneActivity {
            lane: lane(name),
            ended_here,
            has_work: true,
            is_blocked: false,
        }
    }

    fn alone(here: u64) -> EndedJobs {
        EndedJobs {
            here,
            on_all_machines: here,
        }
    }

    fn record(speeds: &LaneSpeeds, second: u64, ended: u64) -> Option<Throughput> {
        let now = Nanos::from_secs(second);
        speeds.record(now, alone(ended), &[activity("a", ended)]);
        speeds.throughput(&lane("a"), USUAL_SPAN)
    }

    // Ten a second for ten minutes, then an hour of sleep, then ten a second again.
    #[test]
    fn an_outage_does_not_slow_the_measured_throughput() {
        let speeds = LaneSpeeds::default();
        let last = (0..=600).map(|second| record(&speeds, second, second * 10));
        let measured = last.last().flatten().expect("measured");
        assert_eq!(measured.ended, measured.span.as_secs() * 10);
        assert!(measured.span < USUAL_SPAN + 2 * PART_SPAN, "{measured:?}");
        let asleep = LaneActivity {
            is_blocked: true,
            ..activity("a", 6_000)
        };
        for second in 601..=4_200 {
            speeds.record(Nanos::from_secs(second), alone(6_000), std::slice::from_ref(&asleep));
        }
        for second in 4_201..4_240 {
            let measured = record(&speeds, second, 6_000 + (second - 4_201) * 10).expect("kept");
            assert_eq!(measured.ended, measured.span.as_secs() * 10, "{measured:?}");
        }
    }

    // Ten a second, half a minute without an end, and then the API sleeps.
    #[test]
    fn failures_before_a_sleep_are_no_slowness() {
        let speeds = LaneSpeeds::default();
        for second in 0..=90 {
            record(&speeds, second, second.min(60) * 10);
        }
        let asleep = LaneActivity {
            is_blocked: true,
            ..activity("a", 600)
        };
        for second in 91..100 {
            speeds.record(Nanos::from_secs(second), alone(600), std::slice::from_ref(&asleep));
        }
        let measured = speeds.throughput(&lane("a"), USUAL_SPAN).expect("kept");
        assert_eq!(measured.ended, measured.span.as_secs() * 10, "{measured:?}");
    }

    // The API is out for ten seconds of twenty, for ever: five a second. The first time says nothing about the rest.
    #[test]
    fn an_api_that_fails_again_and_again_is_slow() {
        let speeds = LaneSpeeds::default();
        let mut ended = 0;
        for second in 0..600 {
            let is_blocked = second % 20 >= 10;
            ended += if is_blocked { 0 } else { 10 };
            let now = LaneActivity {
                is_blocked,
                ..activity("a", ended)
            };
            speeds.record(Nanos::from_secs(second), alone(ended), &[now]);
        }
        let measured = speeds.throughput(&lane("a"), USUAL_SPAN).expect("measured");
        let in_ten_seconds = measured.ended * 10 / measured.span.as_secs();
        assert!((40..65).contains(&in_ten_seconds), "{measured:?}");
    }

    // A lane without work is forgotten, so its earlier speed does not count.
    #[test]
    fn a_lane_that_gets_work_again_is_measured_from_then_on() {
        let speeds = LaneSpeeds::default();
        record(&speeds, 0, 0);
        record(&speeds, 60, 10);
        speeds.record(Nanos::from_secs(120), alone(10), &[]);
        assert_eq!(record(&speeds, 3_600, 10), None);
        let measured = record(&speeds, 3_605, 60);
        assert_eq!(measured.map(|measured| measured.ended), Some(50));
    }

    // One job in five minutes: none in the last three.
    #[test]
    fn a_slow_lane_is_measured_since_its_begin() {
        let speeds = LaneSpeeds::default();
        for second in 0..600 {
            record(&speeds, second, second / 300);
        }
        let measured = record(&speeds, 599, 1).expect("measured");
        assert_eq!((measured.ended, measured.span.as_secs()), (1, 599));
    }

    #[test]
    fn nothing_is_measured_before_a_job_ended() {
        let speeds = LaneSpeeds::default();
        for second in 0..10 {
            assert_eq!(record(&speeds, second, 7), None);
        }
    }

    #[test]
    fn idle_time_begins_with_the_last_end() {
        let speeds = LaneSpeeds::default();
        record(&speeds, 0, 0);
        record(&speeds, 4, 8);
        let measured = record(&speeds, 10, 8).expect("measured");
        assert_eq!((measured.ended, measured.idle.as_secs()), (8, 6));
    }

    // Two lanes on three machines: this one ended 30 and 10 of the 120. Then the second lane has no work, and its last
    // ends do not count for the first.
    #[test]
    fn ends_of_all_machines_are_divided_as_the_ends_of_this_one() {
        let speeds = LaneSpeeds::default();
        let ended = |here, on_all_machines| EndedJobs { here, on_all_machines };
        speeds.record(Nanos::ZERO, ended(0, 0), &[activity("a", 0), activity("b", 0)]);
        let both = [activity("a", 30), activity("b", 10)];
        speeds.record(Nanos::from_secs(10), ended(40, 120), &both);
        let measured = |name| {
            speeds
                .throughput(&lane(name), USUAL_SPAN)
                .map(|measured| measured.ended)
        };
        assert_eq!((measured("a"), measured("b")), (Some(90), Some(30)));
        speeds.record(Nanos::from_secs(20), ended(60, 180), &[activity("a", 40)]);
        assert_eq!((measured("a"), measured("b")), (Some(120), None));
    }
}
