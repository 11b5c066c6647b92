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

    /// Records a throttle. Returns true if it is about its path.
    pub(in crate::upstream) fn record_throttle(&mut self, now: Nanos, path: Option<&str>) -> bool {
        let Some(path) = path else {
            return false;
        };
        self.paths.retain(|known| now.since(known.last) < REMEMBERED);
        let hash = hash(path);
        if let Some(known) = self.paths.iter_mut().find(|known| known.hash == hash) {
            known.last = now;
            return self.last_pass > known.first && now.since(self.last_pass) < RECENT;
        }
        if self.paths.len() >= MAX_PATHS {
            self.paths.remove(0);
        }
        self.paths.push(ThrottledPath {
            hash,
            first: now,
            last: now,
        });
        false
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

    // Another path passed after the first throttle, and has not for two seconds at the last.
    #[test]
    fn a_path_that_is_throttled_again_while_others_pass_is_the_cause() {
        let mut paths = ThrottledPaths::default();
        let at = Nanos::from_secs;
        assert!(!paths.record_throttle(at(1), SEARCH));
        paths.record_pass(at(2), Some("/items"));
        assert!(paths.record_throttle(at(3), SEARCH));
        assert!(!paths.record_throttle(at(4), SEARCH), "nothing passes any more");
    }

    #[test]
    fn a_path_that_passed_is_forgotten() {
        let mut paths = ThrottledPaths::default();
        let at = Nanos::from_secs;
        assert!(!paths.record_throttle(at(1), SEARCH));
        paths.record_pass(at(2), SEARCH);
        assert!(!paths.record_throttle(at(3), SEARCH));
        paths.record_pass(at(4), Some("/items"));
        assert!(!paths.record_throttle(at(63), SEARCH), "a minute ago");
    }

    #[test]
    fn paths_are_bounded() {
        let mut paths = ThrottledPaths::default();
        for number in 0..3 * MAX_PATHS {
            paths.record_throttle(Nanos::from_secs(1), Some(&number.to_string()));
        }
        assert_eq!(paths.paths.len(), MAX_PATHS);
        assert!(!paths.record_throttle(Nanos::from_secs(2), None));
    }
}
