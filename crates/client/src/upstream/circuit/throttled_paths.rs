//! Paths that an API throttles while it lets other calls pass.
//!
//! A resource with a limit of its own is throttled at any rate. Its first throttle may be about the rate of
//! all calls. Later ones, while other calls pass and none for this path, are about the path: they lower no
//! limit and say nothing about the health of the API.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use outflow_core::Nanos;

/// Throttled paths without a success since.
#[derive(Debug, Default)]
pub(in crate::upstream) struct ThrottledPaths {
    paths: Vec<ThrottledPath>,
    /// Time of the last success of any call.
    last_pass: Nanos,
}

#[derive(Clone, Copy, Debug)]
struct ThrottledPath {
    hash: u64,
    first: Nanos,
    last: Nanos,
    /// True if the first throttle lowered a limit.
    lowered: bool,
}

/// Cause of a throttle, as far as its path shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::upstream) enum PathThrottle {
    /// Perhaps the rate.
    Unknown,
    /// The path. A limit that its first throttle lowered at this instant was right.
    AboutPath { lowered_at: Option<Nanos> },
}

impl ThrottledPaths {
    /// Records a success.
    pub(in crate::upstream) fn record_pass(&mut self, now: Nanos, path: Option<&str>) {
        self.last_pass = now;
        // Without throttles, no path is hashed.
        if let Some(path) = path.filter(|_| !self.paths.is_empty()) {
            let hash = hash(path);
            self.paths.retain(|known| known.hash != hash);
        }
    }

    /// Records that the first throttle of a path lowered a limit.
    pub(in crate::upstream) fn mark_lowered(&mut self, now: Nanos) {
        if let Some(known) = self.paths.iter_mut().find(|known| known.first == now) {
            known.lowered = true;
        }
    }

    /// Records a throttle and returns its cause.
    pub(in crate::upstream) fn record_throttle(&mut self, now: Nanos, path: Option<&str>) -> PathThrottle {
        let Some(path) = path else {
            return PathThrottle::Unknown;
        };
        self.paths.retain(|known| now.since(known.last) < REMEMBERED);
        let hash = hash(path);
        if let Some(known) = self.paths.iter_mut().find(|known| known.hash == hash) {
            known.last = now;
            let is_about_path = self.last_pass > known.first && now.since(self.last_pass) < RECENT;
            if !is_about_path {
                return PathThrottle::Unknown;
            }
            let lowered = std::mem::take(&mut known.lowered);
            return PathThrottle::AboutPath {
                lowered_at: lowered.then_some(known.first),
            };
        }
        if self.paths.len() >= MAX_PATHS {
            self.paths.remove(0);
        }
        self.paths.push(ThrottledPath {
            hash,
            first: now,
            last: now,
            lowered: false,
        });
        PathThrottle::Unknown
    }
}

fn hash(path: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    path.hash(&mut hasher);
    hasher.finish()
}

/// A program that throttles more resources at once has a problem with its rate.
const MAX_PATHS: usize = 32;
/// Where nothing has passed for longer, all calls are throttled.
const RECENT: Duration = Duration::from_secs(2);
/// Longer than the wait between two attempts of a call.
const REMEMBERED: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: Option<&str> = Some("/search");

    fn is_about_path(paths: &mut ThrottledPaths, secs: u64) -> bool {
        let cause = paths.record_throttle(Nanos::from_secs(secs), SEARCH);
        matches!(cause, PathThrottle::AboutPath { .. })
    }

    // Another path passed after the first throttle, and has not for two seconds at the last.
    #[test]
    fn a_path_that_is_throttled_again_while_others_pass_is_the_cause() {
        let mut paths = ThrottledPaths::default();
        let at = Nanos::from_secs;
        assert!(!is_about_path(&mut paths, 1));
        paths.record_pass(at(2), Some("/items"));
        assert!(is_about_path(&mut paths, 3));
        assert!(!is_about_path(&mut paths, 4), "nothing passes any more");
    }

    #[test]
    fn a_path_that_passed_is_forgotten() {
        let mut paths = ThrottledPaths::default();
        let at = Nanos::from_secs;
        assert!(!is_about_path(&mut paths, 1));
        paths.record_pass(at(2), SEARCH);
        assert!(!is_about_path(&mut paths, 3));
        paths.record_pass(at(4), Some("/items"));
        assert!(!is_about_path(&mut paths, 63), "a minute ago");
    }

    // The limit that the first throttle lowered is restored once.
    #[test]
    fn a_path_that_is_the_cause_names_the_shrink_of_its_first_throttle() {
        let mut paths = ThrottledPaths::default();
        let at = Nanos::from_secs;
        paths.record_throttle(at(1), SEARCH);
        paths.mark_lowered(at(1));
        paths.record_pass(at(2), Some("/items"));
        for lowered_at in [Some(at(1)), None] {
            assert_eq!(
                paths.record_throttle(at(3), SEARCH),
                PathThrottle::AboutPath { lowered_at }
            );
        }
    }

    #[test]
    fn paths_are_bounded() {
        let mut paths = ThrottledPaths::default();
        for number in 0..3 * MAX_PATHS {
            paths.record_throttle(Nanos::from_secs(1), Some(&number.to_string()));
        }
        assert_eq!(paths.paths.len(), MAX_PATHS);
        assert_eq!(paths.record_throttle(Nanos::from_secs(2), None), PathThrottle::Unknown);
    }
}
