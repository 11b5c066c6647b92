//! The timeline of accounts on one host.
//!
//! Processes of one host read one monotonic clock, which starts again with the host. A stored account keeps
//! its own time: the host's plus a shift. After another start of the host the civil clock gives the time that
//! passed; a civil clock that was set back gives none, so that nothing is forgotten early.

use std::fs;

use outflow_core::{ClockPair, Nanos};

/// Identity of one start of the host, and the distance of this process's clock from the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HostTimeline {
    /// 0 if the system has none.
    pub(crate) boot: u128,
    /// Nanoseconds by which the clock of this process's time namespace is ahead.
    ahead: i64,
}

/// An instant as it is stored with an account.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StoredMoment {
    pub(crate) boot: u128,
    /// Civil time in nanoseconds since 1970.
    pub(crate) wall: u64,
    /// Time of the account minus the host's, modulo 2⁶⁴.
    pub(crate) shift: u64,
}

impl HostTimeline {
    /// Reads the identity of this start.
    pub(crate) fn of_host() -> Self {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let offsets = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        Self {
            boot: parse_boot_id(&boot).unwrap_or(0),
            ahead: parse_offset(&offsets).unwrap_or(0),
        }
    }

    /// Returns the moment of a new account, whose time is the host's.
    pub(crate) fn first_moment(self, now: ClockPair) -> StoredMoment {
        StoredMoment {
            boot: self.boot,
            wall: wall_nanos(now),
            shift: 0,
        }
    }

    /// Returns the account's time, and the shift that continues it.
    pub(crate) fn resume(self, stored: StoredMoment, latest: u64, now: ClockPair) -> (Nanos, StoredMoment) {
        let host = self.host_nanos(now);
        let continued = host.wrapping_add(stored.shift);
        let is_same_start = stored.boot == self.boot && continued.saturating_add(LONGEST_STEP) >= latest;
        let wall = wall_nanos(now);
        let (time, shift) = if is_same_start {
            (continued.max(latest), stored.shift)
        } else {
            let time = latest.saturating_add(wall.saturating_sub(stored.wall));
            (time, time.wrapping_sub(host))
        };
        let moment = StoredMoment {
            boot: self.boot,
            wall,
            shift,
        };
        (Nanos::from_nanos(time), moment)
    }

    /// Returns true if an account of this moment was written in this start of the host.
    pub(crate) const fn is_same_start(self, stored: StoredMoment) -> bool {
        stored.boot == self.boot
    }

    #[cfg(test)]
    pub(crate) const fn after_restart(self) -> Self {
        Self {
            boot: self.boot ^ 1,
            ahead: self.ahead,
        }
    }

    #[cfg(unix)]
    fn host_nanos(self, now: ClockPair) -> u64 {
        now.now.as_nanos().wrapping_add_signed(self.ahead.wrapping_neg())
    }

    /// Here each process has a monotonic clock of its own, so the civil clock serves all.
    #[cfg(not(unix))]
    fn host_nanos(self, now: ClockPair) -> u64 {
        wall_nanos(now)
    }
}

fn wall_nanos(now: ClockPair) -> u64 {
    u64::try_from(now.wall.as_duration().as_nanos()).unwrap_or(u64::MAX)
}

fn parse_boot_id(text: &str) -> Option<u128> {
    let digits: String = text.trim().chars().filter(|digit| *digit != '-').collect();
    u128::from_str_radix(&digits, 16).ok()
}

/// Reads the distance from the line `monotonic SECONDS NANOSECONDS`.
fn parse_offset(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_whitespace().map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// A clock that seems to step back by more than this belongs to another start of the host, where the system has no
/// identity of its starts.
const LONGEST_STEP: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use outflow_core::WallTime;

    use super::*;

    const BOOT: HostTimeline = HostTimeline { boot: 7, ahead: 0 };

    fn at(now: u64, wall: u64) -> ClockPair {
        ClockPair {
            now: Nanos::from_secs(now),
            wall: WallTime::since_epoch(Duration::from_secs(wall)),
        }
    }

    fn secs(secs: u64) -> u64 {
        secs * 1_000_000_000
    }

    #[test]
    fn within_one_start_the_monotonic_clock_counts() {
        let stored = BOOT.first_moment(at(100, 5_000));
        // The civil clock was set by a day.
        let (time, moment) = BOOT.resume(stored, secs(100), at(130, 5_000 + 86_400));
        assert_eq!(time, Nanos::from_secs(130));
        assert_eq!(moment.shift, 0);
    }

    #[test]
    fn after_another_start_the_civil_clock_counts() {
        let stored = BOOT.first_moment(at(100, 5_000));
        let next = HostTimeline { boot: 8, ..BOOT };
        let (time, moment) = next.resume(stored, secs(100), at(3, 5_060));
        assert_eq!(time, Nanos::from_secs(160));
        let (later, _) = next.resume(moment, time.as_nanos(), at(13, 0));
        assert_eq!(later, Nanos::from_secs(170));
    }

    #[test]
    fn a_civil_clock_that_went_back_forgets_nothing() {
        let stored = BOOT.first_moment(at(100, 5_000));
        let next = HostTimeline { boot: 8, ..BOOT };
        let (time, _) = next.resume(stored, secs(100), at(3, 10));
        assert_eq!(time, Nanos::from_secs(100));
    }

    // Without an identity a clock that starts again is known by its step back.
    #[test]
    fn a_start_without_identity_is_seen_by_the_clock() {
        let unknown = HostTimeline { boot: 0, ahead: 0 };
        let stored = unknown.first_moment(at(100, 5_000));
        let (time, _) = unknown.resume(stored, secs(100), at(3, 5_060));
        assert_eq!(time, Nanos::from_secs(160));
    }

    #[test]
    fn a_time_namespace_has_the_host_time() {
        let inside = HostTimeline {
            boot: 7,
            ahead: 50_000_000_000,
        };
        let stored = BOOT.first_moment(at(100, 5_000));
        let (time, _) = inside.resume(stored, secs(100), at(180, 5_030));
        assert_eq!(time, Nanos::from_secs(130));
    }

    #[test]
    fn files_of_the_system_are_read() {
        assert_eq!(parse_boot_id("00000000-0000-0000-0000-00000000000a\n"), Some(10));
        assert_eq!(parse_boot_id("none"), None);
        let offsets = "monotonic           5       -3\nboottime            0         0\n";
        assert_eq!(parse_offset(offsets), Some(4_999_999_997));
        assert_eq!(parse_offset(""), None);
    }
}
