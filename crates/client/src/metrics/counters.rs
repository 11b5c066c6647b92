//! Counters of one API, complete before the first event.
//!
//! The set of series is closed: each is a slot of an array built when the API is registered. No
//! path, method or header can add one, and counting is one atomic addition. Only status codes
//! appear as they occur, because five hundred zeros are noise.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outflow_core::AttemptEnd;
use smol_str::SmolStr;

use super::OTHER;
use super::groups::GroupTable;
use super::histogram::Histogram;
use crate::event::{CacheLabel, FailureLabel, StatusLabel};
use crate::http::ResolveError;

/// Counters of one API and its groups.
#[derive(Debug)]
pub(super) struct ApiCounters {
    pub(super) name: SmolStr,
    pub(super) api_wide: Arc<GlobalCounters>,
    pub(super) groups: GroupTable,
}

/// Counters of one API that are not split by group.
#[derive(Debug)]
pub(super) struct GlobalCounters {
    pub(super) calls: LabelCounter<1>,
    pub(super) durations: [Histogram; TIMED_LABELS],
    pub(super) abandoned: LabelCounter<1>,
    pub(super) failures: LabelCounter<{ FailureLabel::ALL.len() }>,
    pub(super) waits: Histogram,
    pub(super) codes: AttemptCounters,
    pub(super) lookups: LabelCounter<{ CacheLabel::ALL.len() }>,
    pub(super) latency: Histogram,
    pub(super) sleep: Histogram,
    pub(super) retries: LabelCounter<{ FailureLabel::ALL.len() }>,
    pub(super) unresolved: LabelCounter<{ ResolveError::ALL.len() }>,
    pub(super) transitions: LabelCounter<{ TRANSITION_REASONS.len() }>,
    pub(super) malformed: LabelCounter<1>,
    pub(super) warnings: LabelCounter<{ WARNINGS.len() }>,
}

impl ApiCounters {
    /// Returns counters at zero.
    pub(super) fn new(name: SmolStr) -> Self {
        Self {
            name,
            api_wide: Arc::new(GlobalCounters::new()),
            groups: GroupTable::new(),
        }
    }

    /// Returns these counters without the batches of groups that contain none of these.
    pub(super) fn only_groups<'a>(&self, names: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        Self {
            name: self.name.clone(),
            api_wide: Arc::clone(&self.api_wide),
            groups: self.groups.only(names),
        }
    }

    /// Returns these counters with more groups.
    pub(super) fn with_groups<'a>(&self, names: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        Self {
            name: self.name.clone(),
            api_wide: Arc::clone(&self.api_wide),
            groups: self.groups.with(names),
        }
    }
}

impl GlobalCounters {
    fn new() -> Self {
        Self {
            calls: LabelCounter::new([""]),
            durations: [const { Histogram::new() }; TIMED_LABELS],
            abandoned: LabelCounter::new([""]),
            failures: LabelCounter::new(FailureLabel::ALL.map(FailureLabel::name)),
            waits: Histogram::new(),
            codes: AttemptCounters::new(),
            lookups: LabelCounter::new(CacheLabel::ALL.map(CacheLabel::name)),
            latency: Histogram::new(),
            sleep: Histogram::new(),
            retries: LabelCounter::new(FailureLabel::ALL.map(FailureLabel::name)),
            unresolved: LabelCounter::new(ResolveError::ALL.map(ResolveError::name)),
            transitions: LabelCounter::new(TRANSITION_REASONS),
            malformed: LabelCounter::new([""]),
            warnings: LabelCounter::new(WARNINGS),
        }
    }

    /// Returns the calls that needed no request.
    pub(super) fn cache_hits(&self) -> u64 {
        self.count_lookups(CacheLabel::is_hit)
    }

    /// Returns the calls that missed the cache.
    pub(super) fn cache_misses(&self) -> u64 {
        self.count_lookups(|lookup| !lookup.is_hit())
    }

    fn count_lookups(&self, counts: impl Fn(CacheLabel) -> bool) -> u64 {
        let found = CacheLabel::ALL.into_iter().zip(self.lookups.iter());
        found
            .filter(|(lookup, _)| counts(*lookup))
            .map(|(_, (_, count))| count)
            .sum()
    }
}

/// Counter per value of a closed set. An unknown value counts as the last one.
#[derive(Debug)]
pub(super) struct LabelCounter<const N: usize> {
    values: [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> LabelCounter<N> {
    pub(super) const fn new(values: [&'static str; N]) -> Self {
        Self {
            values,
            counts: [const { AtomicU64::new(0) }; N],
        }
    }

    /// Counts one for a value.
    pub(super) fn count(&self, value: &str) {
        let index = self.values.iter().position(|one| *one == value);
        self.add(index.unwrap_or(N.saturating_sub(1)), 1);
    }

    fn add(&self, index: usize, by: u64) {
        if let Some(count) = self.counts.get(index) {
            count.fetch_add(by, Ordering::Relaxed);
        }
    }

    /// Returns every value with its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        self.values.iter().copied().zip(counts)
    }

    /// Returns the sum of all counts.
    pub(super) fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

impl LabelCounter<1> {
    pub(super) fn increase(&self, by: u64) {
        self.add(0, by);
    }
}

/// Attempts by status code, or by a word if there was none.
#[derive(Debug)]
pub(super) struct AttemptCounters {
    /// Codes 100 to 599, the range of HTTP.
    by_code: Box<[AtomicU64]>,
    by_word: LabelCounter<3>,
}

impl AttemptCounters {
    fn new() -> Self {
        let by_code = (FIRST_CODE..600).map(|_| AtomicU64::new(0)).collect();
        Self {
            by_code,
            by_word: LabelCounter::new(["cancelled", "none", OTHER]),
        }
    }

    pub(super) fn count(&self, ended: AttemptEnd) {
        match ended {
            AttemptEnd::Cancelled => self.by_word.count("cancelled"),
            AttemptEnd::Fault(_) => self.by_word.count("none"),
            AttemptEnd::Status(code) => match self.get(code) {
                Some(count) => _ = count.fetch_add(1, Ordering::Relaxed),
                None => self.by_word.count(OTHER),
            },
        }
    }

    fn get(&self, code: u16) -> Option<&AtomicU64> {
        self.by_code.get(usize::from(code.checked_sub(FIRST_CODE)?))
    }

    /// Returns the counts above zero.
    pub(super) fn nonzero(&self) -> impl Iterator<Item = (SmolStr, u64)> {
        let by_code = (FIRST_CODE..)
            .zip(&self.by_code)
            .map(|(code, count)| (smol_str::format_smolstr!("{code}"), count))
            .map(|(code, count)| (code, count.load(Ordering::Relaxed)));
        let by_word = self
            .by_word
            .iter()
            .map(|(value, count)| (SmolStr::new_static(value), count));
        by_code.chain(by_word).filter(|(_, count)| *count > 0)
    }
}

const FIRST_CODE: u16 = 100;

/// All labels but the last, `Cancelled`: the stay of a caller who left says nothing about the duration of
/// calls.
const TIMED_LABELS: usize = StatusLabel::ALL.len() - 1;

/// Reasons of health transitions, and a slot for future ones.
const TRANSITION_REASONS: [&str; 16] = [
    "error_ratio",
    "streak",
    "retry_after",
    "banned",
    "error_ratio_held",
    "success_window_ok",
    "sleep_over",
    "probes_ok",
    "probes_answered",
    "probe_failed",
    "probe_timed_out",
    "recoveries_exhausted",
    "auto_recover",
    "forced",
    "released",
    OTHER,
];

/// Warnings of a meter.
pub(super) const WARNINGS: [&str; 2] = ["low", "pacing_capped"];

#[cfg(test)]
mod tests {
    use super::*;

    // 99 and 600 are the first codes outside HTTP; 65535 is the largest u16.
    #[test]
    fn a_code_outside_http_is_other() {
        let codes = AttemptCounters::new();
        for code in [0, 99, 600, u16::MAX] {
            codes.count(AttemptEnd::Status(code));
        }
        codes.count(AttemptEnd::Status(100));
        codes.count(AttemptEnd::Status(599));
        let nonzero: Vec<_> = codes.nonzero().collect();
        assert_eq!(nonzero, [("100".into(), 1), ("599".into(), 1), (OTHER.into(), 4)]);
    }

    #[test]
    fn a_value_outside_the_set_counts_as_its_last() {
        let counter = LabelCounter::new(["a", OTHER]);
        counter.count("a");
        counter.count("unknown");
        assert_eq!(counter.iter().collect::<Vec<_>>(), [("a", 1), (OTHER, 1)]);
    }
}
