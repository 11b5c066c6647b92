//! The counters of one API, all there before the first event.
//!
//! Closed by construction: every series is a place in an array that was made when the API became
//! known, so that no path, method or header can add one, and counting is one addition to one atomic.
//! Only the codes of answers appear as they are seen, because five hundred zeros help nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use outflow_core::AttemptEnd;
use smol_str::SmolStr;

use super::OTHER;
use super::groups::GroupTable;
use super::histogram::Histogram;
use crate::event::{CacheLabel, FailureLabel, StatusLabel};
use crate::http::ResolveError;

/// The counters of one API and its groups.
#[derive(Debug)]
pub(super) struct ApiCounters {
    pub(super) name: SmolStr,
    pub(super) whole: Arc<GlobalCounters>,
    pub(super) groups: GroupTable,
}

/// The counters of one API that are not told by group.
#[derive(Debug)]
pub(super) struct GlobalCounters {
    pub(super) calls: LabelCounter<1>,
    pub(super) durations: [Histogram; StatusLabel::ALL.len()],
    pub(super) abandoned: LabelCounter<1>,
    pub(super) failures: LabelCounter<{ FailureLabel::ALL.len() }>,
    pub(super) waits: Histogram,
    pub(super) codes: AttemptCounters,
    pub(super) lookups: LabelCounter<{ CacheLabel::ALL.len() }>,
    pub(super) latency: Histogram,
    pub(super) sleep: Histogram,
    pub(super) retries: LabelCounter<{ FailureLabel::ALL.len() }>,
    pub(super) unresolved: LabelCounter<{ ResolveError::ALL.len() }>,
    pub(super) transitions: LabelCounter<{ MOVES.len() }>,
    pub(super) malformed: LabelCounter<1>,
    pub(super) warnings: LabelCounter<{ WARNINGS.len() }>,
}

impl ApiCounters {
    /// An API of which nothing was counted yet.
    pub(super) fn new(name: SmolStr) -> Self {
        Self {
            name,
            whole: Arc::new(GlobalCounters::new()),
            groups: GroupTable::new(),
        }
    }

    /// The same counters, with those of more groups.
    pub(super) fn with_groups<'a>(&self, more: impl IntoIterator<Item = &'a SmolStr>) -> Self {
        Self {
            name: self.name.clone(),
            whole: Arc::clone(&self.whole),
            groups: self.groups.with(more),
        }
    }
}

impl GlobalCounters {
    fn new() -> Self {
        Self {
            calls: LabelCounter::new([""]),
            durations: [const { Histogram::new() }; StatusLabel::ALL.len()],
            abandoned: LabelCounter::new([""]),
            failures: LabelCounter::new(FailureLabel::ALL.map(FailureLabel::name)),
            waits: Histogram::new(),
            codes: AttemptCounters::new(),
            lookups: LabelCounter::new(CacheLabel::ALL.map(CacheLabel::name)),
            latency: Histogram::new(),
            sleep: Histogram::new(),
            retries: LabelCounter::new(FailureLabel::ALL.map(FailureLabel::name)),
            unresolved: LabelCounter::new(ResolveError::ALL.map(ResolveError::name)),
            transitions: LabelCounter::new(MOVES),
            malformed: LabelCounter::new([""]),
            warnings: LabelCounter::new(WARNINGS),
        }
    }

    /// Calls for which nothing had to be sent.
    pub(super) fn cache_hits(&self) -> u64 {
        self.looked_up(CacheLabel::is_hit)
    }

    /// Calls that asked the cache and had to be sent.
    pub(super) fn cache_misses(&self) -> u64 {
        self.looked_up(|lookup| !lookup.is_hit())
    }

    fn looked_up(&self, counts: impl Fn(CacheLabel) -> bool) -> u64 {
        let found = CacheLabel::ALL.into_iter().zip(self.lookups.iter());
        found
            .filter(|(lookup, _)| counts(*lookup))
            .map(|(_, (_, count))| count)
            .sum()
    }
}

/// One counter for each word of a closed set. A word that is not in it counts as the last.
#[derive(Debug)]
pub(super) struct LabelCounter<const N: usize> {
    words: [&'static str; N],
    counts: [AtomicU64; N],
}

impl<const N: usize> LabelCounter<N> {
    pub(super) const fn new(words: [&'static str; N]) -> Self {
        Self {
            words,
            counts: [const { AtomicU64::new(0) }; N],
        }
    }

    /// Counts one under a word.
    pub(super) fn count(&self, word: &str) {
        let known = self.words.iter().position(|one| *one == word);
        self.add(known.unwrap_or(N.saturating_sub(1)), 1);
    }

    fn add(&self, place: usize, more: u64) {
        if let Some(count) = self.counts.get(place) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Every word and its count.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = self
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed));
        self.words.iter().copied().zip(counts)
    }

    /// All of them together.
    pub(super) fn total(&self) -> u64 {
        self.iter().map(|(_, count)| count).sum()
    }
}

impl LabelCounter<1> {
    pub(super) fn increase(&self, more: u64) {
        self.add(0, more);
    }
}

/// Attempts by how they ended: by code, or in a word where no code came.
#[derive(Debug)]
pub(super) struct AttemptCounters {
    /// For 100 to 599, the codes that HTTP knows.
    numbered: Box<[AtomicU64]>,
    wordly: LabelCounter<3>,
}

impl AttemptCounters {
    fn new() -> Self {
        let numbered = (FIRST_CODE..600).map(|_| AtomicU64::new(0)).collect();
        Self {
            numbered,
            wordly: LabelCounter::new(["cancelled", "none", OTHER]),
        }
    }

    pub(super) fn count(&self, ended: AttemptEnd) {
        match ended {
            AttemptEnd::Cancelled => self.wordly.count("cancelled"),
            AttemptEnd::Fault(_) => self.wordly.count("none"),
            AttemptEnd::Status(code) => match self.get(code) {
                Some(count) => _ = count.fetch_add(1, Ordering::Relaxed),
                None => self.wordly.count(OTHER),
            },
        }
    }

    fn get(&self, code: u16) -> Option<&AtomicU64> {
        self.numbered
            .get(usize::from(code.checked_sub(FIRST_CODE)?))
    }

    /// What was seen so far.
    pub(super) fn seen(&self) -> impl Iterator<Item = (SmolStr, u64)> {
        let numbered = (FIRST_CODE..)
            .zip(&self.numbered)
            .map(|(code, count)| (smol_str::format_smolstr!("{code}"), count))
            .map(|(code, count)| (code, count.load(Ordering::Relaxed)));
        let wordly = self
            .wordly
            .iter()
            .map(|(word, count)| (SmolStr::new_static(word), count));
        numbered.chain(wordly).filter(|(_, count)| *count > 0)
    }
}

const FIRST_CODE: u16 = 100;

/// The names of what moves a state, and of what may come to.
const MOVES: [&str; 16] = [
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

/// What a meter warns of.
pub(super) const WARNINGS: [&str; 2] = ["low", "pacing_capped"];

#[cfg(test)]
mod tests {
    use super::*;

    // 99 and 600 are the first that HTTP does not know; 65535 is the last that a u16 can say.
    #[test]
    fn a_code_outside_http_is_other() {
        let codes = AttemptCounters::new();
        for code in [0, 99, 600, u16::MAX] {
            codes.count(AttemptEnd::Status(code));
        }
        codes.count(AttemptEnd::Status(100));
        codes.count(AttemptEnd::Status(599));
        let seen: Vec<_> = codes.seen().collect();
        assert_eq!(
            seen,
            [("100".into(), 1), ("599".into(), 1), (OTHER.into(), 4)]
        );
    }

    #[test]
    fn a_word_outside_the_set_counts_as_its_last() {
        let tally = LabelCounter::new(["a", OTHER]);
        tally.count("a");
        tally.count("never heard of");
        assert_eq!(tally.iter().collect::<Vec<_>>(), [("a", 1), (OTHER, 1)]);
    }
}
