//! Limit of open files.
//!
//! Every connection is an open file, and most systems start a process with a soft limit of 1,024, far below the
//! hard one. A process that reaches its limit cannot accept a connection, not even to say that it is full. So
//! the program raises the soft limit at its start and divides what it got: callers get three quarters, and the
//! rest is for connections to APIs, after a reserve for operators, rejections and files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Number of files that this process may have open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DescriptorLimit(u64);

impl DescriptorLimit {
    /// Raises the soft limit to the hard one and returns it.
    pub fn raise() -> Self {
        let limit = getrlimit(Resource::Nofile);
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        // A system may refuse it; then the soft limit holds.
        let granted = match setrlimit(Resource::Nofile, raised) {
            Ok(()) => limit.maximum,
            Err(_) => limit.current,
        };
        Self::from_files(granted.unwrap_or(u64::MAX))
    }

    /// Returns a limit of this many open files.
    pub const fn from_files(files: u64) -> Self {
        Self(files)
    }

    /// Returns the number of open files.
    pub const fn files(self) -> u64 {
        self.0
    }

    /// Returns the number of connections that callers may open.
    pub fn max_connections(self) -> u32 {
        let shared = self.0.saturating_sub(RESERVE).max(self.0 / 4);
        u32::try_from(shared - shared / 4).unwrap_or(u32::MAX).max(1)
    }
}

/// 128 connections of operators, 64 rejections, and the files of stores, logs and caches.
const RESERVE: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    // 1,024 files are the usual soft limit; 32 are fewer than the reserve.
    #[test]
    fn callers_leave_files_for_operators_and_apis() {
        for (files, connections) in [(1_024, 576), (20_000, 14_808), (32, 6), (0, 1), (u64::MAX, u32::MAX)] {
            assert_eq!(
                DescriptorLimit::from_files(files).max_connections(),
                connections,
                "{files}"
            );
        }
    }
}
