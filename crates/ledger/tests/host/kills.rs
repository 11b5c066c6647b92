//! Processes that are killed at every system call of a renewal.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::sharing::Host;

/// System calls that change files. The account must be intact after a kill at each of them.
const CALLS: [&str; 9] = [
    "openat",
    "pwrite64",
    "flock",
    "rename",
    "ftruncate",
    "fdatasync",
    "linkat,link",
    "unlink",
    "mkdir",
];

fn example() -> PathBuf {
    let tests = std::env::current_exe().expect("a test runs");
    let target = tests.ancestors().nth(2).expect("a target folder");
    target.join("examples").join("renewals")
}

/// Runs five renewals of one call each under 20/min, killed at the given entry of a system call.
fn run_killed(dir: &Path, call: &str, entry: u32) -> Output {
    Command::new("strace")
        .args(["-f", "-o", "/dev/null", "-e"])
        .arg(format!("trace={call}"))
        .arg("-e")
        .arg(format!("inject={call}:signal=KILL:when={entry}"))
        .arg(example())
        .arg(dir)
        .args(["20/min", "5"])
        .output()
        .expect("strace is installed")
}

// About a hundred kills. What was granted and what the next process gets are never more than the limit together, and
// the next process is served at once.
#[test]
fn a_kill_at_any_system_call_keeps_the_limit_as_strace_sees_it() {
    let mut kills = 0;
    for call in CALLS {
        for entry in 1..200 {
            let host = Host::new();
            let killed = run_killed(host.path(), call, entry);
            if killed.status.success() {
                break;
            }
            kills += 1;
            let granted = String::from_utf8_lossy(&killed.stdout).lines().count();
            let granted = u64::try_from(granted).expect("five at most");
            let answer = host.process(1).lease("20/min", 20);
            let answer = answer.unwrap_or_else(|error| panic!("{call} {entry}: {error}"));
            let sum = granted + answer.granted.calls;
            assert!(sum <= 20, "{call} {entry}: {granted} and {}", answer.granted.calls);
            // At most the call that was in the air is lost, or a lease of a quarter if the copy was torn.
            assert!(sum >= 14, "{call} {entry}: {granted} and {}", answer.granted.calls);
        }
    }
    assert!(kills > 40, "{kills}");
}
