//! Recent throughput of lanes.
//!
//! An ETA follows the lane, because all its tenants and actions share one speed and fair order divides it. A lane
//! that slept, was paused or had no work was slow for a while. That says nothing about the rest, so this time is left
//! out, or the measurement restarts.

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

/// A lane with work, as this process sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LaneActivity {
    pub(crate) lane: Name,
    /// Number of its jobs that ended in this process.
    pub(crate) ended_here: u64,
    /// True if its API serves calls.
    pub(crate) is_served: bool,
}

/// Measurements of all lanes with work.
#[derive(Debug, Default)]
pub(crate) struct LaneSpeeds {
    table: Mutex<SpeedTable>,
}

#[derive(Debug, Default)]
struct SpeedTable {
    /// Number of ended jobs of all machines at the last record.
    ended: Option<u64>,
    /// Instant of the last record.
    recorded: Nanos,
    lanes: BTreeMap<Name, LaneSpeed>,
}

#[derive(Debug)]
struct LaneSpeed {
    ended_here: u64,
    /// Number of its ended jobs on all machines, since the first record.
    ended: u64,
    is_served: bool,
    /// Time of the present outage in which the API served no call.
    unserved: Duration,
    marks: EndMarks,
}

/// Number of ended jobs at an instant.
#[derive(Clone, Copy, Debug)]
struct EndMark {
    at: Nanos,
    ended: u64,
}

#[derive(Clone, Debug)]
struct EndMarks {
    /// Begin of the measurement.
    first: EndMark,
    /// Marks of the last minutes, the oldest first.
    recent: VecDeque<EndMark>,
    /// First record of the current number.
    last: EndMark,
}

impl EndMarks {
    fn new(mark: EndMark) -> Self {
        Self {
            first: mark,
            recent: VecDeque::from([mark]),
            last: mark,
        }
    }

    fn add(&mut self, mark: EndMark) {
        if self.ends_stall(mark) {
            *self = Self::new(mark);
        }
        let newest = self.recent.back().map(|newest| mark.at.since(newest.at));
        if newest.is_none_or(|age| age >= MARK_DISTANCE) {
            self.recent.push_back(mark);
        }
        while self.recent.len() > 1
            && self
                .recent
                .front()
                .is_some_and(|oldest| mark.at.since(oldest.at) > MAX_SPAN)
        {
            self.recent.pop_front();
        }
        if mark.ended != self.last.ended {
            self.last = mark;
        }
    }

    /// Forgets the begin of trouble, before the API slept for it.
    fn forget_trouble(&mut self, now: Nanos) {
        while self.recent.len() > 1
            && self
                .recent
                .back()
                .is_some_and(|mark| now.since(mark.at) < MEASURED_SPAN)
        {
            self.recent.pop_back();
        }
    }

    /// Leaves the time and the ends since the last mark out of the measurement.
    fn skip_to(&mut self, mark: EndMark) {
        let Some(newest) = self.recent.back().copied() else {
            return;
        };
        let (time, ended) = (mark.at.since(newest.at), mark.ended.saturating_sub(newest.ended));
        for kept in self.recent.iter_mut().chain([&mut self.first]) {
            (kept.at, kept.ended) = (kept.at.saturating_add(time), kept.ended.saturating_add(ended));
        }
        self.last = mark;
    }

    /// Returns true if jobs end again after a gap that their speed before does not explain, such as a pause.
    fn ends_stall(&self, mark: EndMark) -> bool {
        let ended = self.last.ended.saturating_sub(self.first.ended);
        let usual = self.last.at.since(self.first.at) / u32::try_from(ended).unwrap_or(u32::MAX).max(1);
        let gap = mark.at.since(self.last.at);
        ended > 0 && mark.ended != self.last.ended && gap > MAX_SPAN && gap > usual * UNUSUAL
    }

    /// Returns the throughput of the last minute. If too few jobs ended in it, a longer span counts. If a span is much
    /// faster, it counts: a window that has only begun, or trouble before, makes the others look slow.
    fn throughput(&self, now: Nanos) -> Option<Throughput> {
        let since = |from: &EndMark| Throughput {
            ended: self.last.ended.saturating_sub(from.ended),
            span: now.since(from.at),
            idle: now.since(self.last.at),
        };
        let long = self.recent.iter().filter(|from| now.since(from.at) >= MEASURED_SPAN);
        let long: Vec<_> = long.map(since).filter(|measured| measured.ended >= ENOUGH).collect();
        let oldest = self.recent.front().filter(|from| now.since(from.at) >= MIN_SPAN);
        let mut spans = oldest.into_iter().chain([&self.first]).map(since);
        let oldest = spans.find(|measured| measured.ended > 0 && measured.span >= MIN_SPAN);
        let usual = long
            .iter()
            .rfind(|measured| measured.span >= USUAL_SPAN)
            .copied()
            .or(oldest)?;
        let fastest = long.into_iter().min_by_key(Throughput::pace);
        Some(
            fastest
                .filter(|fastest| fastest.pace() * 5 < usual.pace() * 4)
                .unwrap_or(usual),
        )
    }
}

impl Throughput {
    /// Returns the time of many jobs, without the idle end.
    fn pace(&self) -> Duration {
        self.scale(self.span.saturating_sub(self.idle), MANY)
    }

    /// Returns the time of `jobs` at a speed of all ended jobs in this span.
    pub(crate) fn scale(self, span: Duration, jobs: u64) -> Duration {
        let nanos = span.as_nanos() * u128::from(jobs) / u128::from(self.ended.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl SpeedTable {
    /// Returns the jobs of a lane that ended on all machines since the last record: the part of all ends that this
    /// process saw in the lane, or all of them if no other lane has work.
    fn count_ends(&self, lanes: &[LaneActivity], ended: u64) -> Vec<u64> {
        let all = ended.saturating_sub(self.ended.unwrap_or(ended));
        let here = |activity: &LaneActivity| {
            let known = self.lanes.get(&activity.lane);
            activity.ended_here - known.map_or(activity.ended_here, |known| known.ended_here.min(activity.ended_here))
        };
        let sum: u64 = lanes.iter().map(here).sum();
        let part = |activity: &LaneActivity| match (lanes.len(), sum) {
            (1, _) => all,
            (_, 0) => 0,
            _ => scale(here(activity), all, sum),
        };
        lanes.iter().map(part).collect()
    }
}

fn scale(number: u64, times: u64, of: u64) -> u64 {
    u64::try_from(u128::from(number) * u128::from(times) / u128::from(of)).unwrap_or(u64::MAX)
}

impl LaneSpeeds {
    /// Records the number of jobs that ended on all machines, with the lanes that have work. Others are forgotten.
    pub(crate) fn record(&self, now: Nanos, ended: u64, lanes: &[LaneActivity]) {
        let mut table = self.table.lock();
        let ends = table.count_ends(lanes, ended);
        table.ended = Some(ended);
        let elapsed = now.since(std::mem::replace(&mut table.recorded, now));
        let mut before = std::mem::take(&mut table.lanes);
        for (activity, ends) in lanes.iter().zip(ends) {
            let known = before.remove(&activity.lane);
            let ended = known.as_ref().map_or(0, |known| known.ended).saturating_add(ends);
            let mark = EndMark { at: now, ended };
            let unserved = known.as_ref().map_or(Duration::ZERO, |known| known.unserved);
            let unserved = match ends {
                _ if !activity.is_served => unserved.saturating_add(elapsed),
                0 => unserved,
                _ => Duration::ZERO,
            };
            let was_served = known.as_ref().is_none_or(|known| known.is_served);
            let mut marks = known.map_or_else(|| EndMarks::new(mark), |known| known.marks);
            if unserved > USUAL_SPAN {
                marks = EndMarks::new(mark);
            } else if activity.is_served {
                marks.add(mark);
            } else {
                if was_served {
                    marks.forget_trouble(now);
                }
                marks.skip_to(mark);
            }
            let speed = LaneSpeed {
                ended_here: activity.ended_here,
                ended,
                is_served: activity.is_served,
                unserved,
                marks,
            };
            table.lanes.insert(activity.lane.clone(), speed);
        }
    }

    /// Returns the recent throughput of a lane, and the age of its measurement.
    pub(crate) fn throughput(&self, lane: &Name, now: Nanos) -> Option<(Throughput, Duration)> {
        let table = self.table.lock();
        let marks = &table.lanes.get(lane)?.marks;
        Some((marks.throughput(now)?, now.since(marks.first.at)))
    }
}

/// Short enough to forget earlier speeds, and long enough for three windows of a minute.
pub(super) const MAX_SPAN: Duration = Duration::from_mins(3);

/// Long enough for some ends of a slow API.
pub(super) const MEASURED_SPAN: Duration = Duration::from_secs(20);

/// Long enough that the rhythm of calls in flight does not show.
pub(super) const USUAL_SPAN: Duration = Duration::from_mins(1);

/// Sixty marks in the longest span.
const MARK_DISTANCE: Duration = Duration::from_secs(3);

/// Fewer ends measure chance in a short span.
const ENOUGH: u64 = 25;

/// A gap of so many usual distances between two ends is no chance.
const UNUSUAL: u32 = 10;

/// Number of jobs by which speeds are compared.
const MANY: u64 = 1_000_000;

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
            is_served: true,
        }
    }

    fn record(speeds: &LaneSpeeds, second: u64, ended: u64) -> Option<Throughput> {
        let now = Nanos::from_secs(second);
        speeds.record(now, ended, &[activity("a", ended)]);
        speeds.throughput(&lane("a"), now).map(|(measured, _)| measured)
    }

    // Ten a second for ten minutes, then an hour of sleep, then ten a second again. Half a minute of sleep is left out, and
    // a longer one restarts the measurement.
    #[test]
    fn a_sleep_does_not_slow_the_measured_throughput() {
        let speeds = LaneSpeeds::default();
        let last = (0..=600).map(|second| record(&speeds, second, second * 10));
        let measured = last.last().flatten().expect("measured");
        assert_eq!(measured.ended, measured.span.as_secs() * 10);
        assert!(measured.span <= MAX_SPAN, "{measured:?}");
        let asleep = LaneActivity {
            is_served: false,
            ..activity("a", 6_000)
        };
        for second in 601..=630 {
            speeds.record(Nanos::from_secs(second), 6_000, std::slice::from_ref(&asleep));
        }
        let (measured, _) = speeds.throughput(&lane("a"), Nanos::from_secs(630)).expect("kept");
        assert_eq!(measured.ended, measured.span.as_secs() * 10, "{measured:?}");
        for second in 631..=4_200 {
            speeds.record(Nanos::from_secs(second), 6_000, std::slice::from_ref(&asleep));
        }
        assert_eq!(
            speeds.throughput(&lane("a"), Nanos::from_secs(4_200)),
            None,
            "too long ago"
        );
        for second in 4_201..4_240 {
            record(&speeds, second, 6_000 + (second - 4_200) * 10);
        }
        let measured = record(&speeds, 4_240, 6_400).expect("measured");
        assert_eq!(measured.ended, measured.span.as_secs() * 10, "{measured:?}");
    }

    // Ten a second, a pause of an hour that the lane does not know, then ten a second again.
    #[test]
    fn a_gap_that_the_speed_does_not_explain_restarts_the_measurement() {
        let speeds = LaneSpeeds::default();
        for second in 0..=3_660 {
            record(&speeds, second, second.min(60) * 10);
        }
        let last = (3_661..=3_685).map(|second| record(&speeds, second, 600 + (second - 3_660) * 10));
        let measured = last.last().flatten().expect("measured");
        assert_eq!(measured.ended, measured.span.as_secs() * 10, "{measured:?}");
    }

    // A lane without work is forgotten, so its earlier speed does not count.
    #[test]
    fn a_lane_that_gets_work_again_is_measured_from_then_on() {
        let speeds = LaneSpeeds::default();
        record(&speeds, 0, 0);
        record(&speeds, 60, 10);
        speeds.record(Nanos::from_secs(120), 10, &[]);
        assert_eq!(record(&speeds, 3_600, 10), None);
        let measured = record(&speeds, 3_605, 60);
        assert_eq!(measured.map(|measured| measured.ended), Some(50));
    }

    // 600 a minute, all in its first second. In the middle of the fourth burst the last minute has 300 of them, and
    // the last two 900.
    #[test]
    fn a_window_that_has_only_begun_is_no_slowness() {
        let speeds = LaneSpeeds::default();
        for second in 0..180 {
            record(&speeds, second, 600 * (1 + second / 60));
        }
        let measured = record(&speeds, 180, 2_100).expect("measured");
        let each_minute = measured.ended * 60 / measured.span.as_secs();
        assert!(each_minute >= 600, "{measured:?}");
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

    // Two lanes on three machines: this one ended 30 and 10 of the 120.
    #[test]
    fn ends_of_all_machines_are_divided_as_the_ends_of_this_one() {
        let speeds = LaneSpeeds::default();
        speeds.record(Nanos::ZERO, 0, &[activity("a", 0), activity("b", 0)]);
        let now = Nanos::from_secs(10);
        speeds.record(now, 120, &[activity("a", 30), activity("b", 10)]);
        let ended = |name| speeds.throughput(&lane(name), now).map(|(measured, _)| measured.ended);
        assert_eq!((ended("a"), ended("b")), (Some(90), Some(30)));
    }
}
