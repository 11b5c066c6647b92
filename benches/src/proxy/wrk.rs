//! The load generator.

use std::process::{Command, Stdio};
use std::time::Duration;

/// How it is run.
#[derive(Clone, Copy)]
pub(super) struct Load {
    connections: u32,
}

/// What it saw.
pub(super) struct Seen {
    pub(super) requests: f64,
    pub(super) rate: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// The share of answers that were not good.
    pub(super) strays: f64,
}

/// Whether it can be run here.
pub(super) fn is_installed() -> bool {
    let mut command = Command::new("wrk");
    command.arg("--version").stdout(Stdio::null());
    // Asked for its version it prints it and fails.
    command.stderr(Stdio::null()).status().is_ok()
}

impl Load {
    pub(super) const fn of(connections: u32) -> Self {
        Self { connections }
    }

    /// Two seconds of it, or one where a single connection is enough to see.
    pub(super) fn run(self, url: &str) -> Option<Seen> {
        let seconds = if self.connections == 1 { "1s" } else { "2s" };
        let output = Command::new("wrk")
            .args(["-t1", "--latency", "-d", seconds, "-c"])
            .arg(self.connections.to_string())
            .arg(url)
            .output()
            .ok()?;
        read(&String::from_utf8_lossy(&output.stdout))
    }
}

fn read(text: &str) -> Option<Seen> {
    let line = |begin: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(begin).map(str::trim))
    };
    let requests = text.lines().find(|line| line.contains(" requests in "))?;
    let requests: f64 = requests.split_whitespace().next()?.parse().ok()?;
    let bad = line("Non-2xx or 3xx responses:").and_then(|count| count.parse().ok());
    let bad: f64 = bad.unwrap_or(0.0);
    Some(Seen {
        requests,
        rate: line("Requests/sec:")?.parse().ok()?,
        p50: span(line("50%")?)?,
        p99: span(line("99%")?)?,
        strays: bad / requests,
    })
}

fn span(text: &str) -> Option<Duration> {
    let units = [("us", 1e-6), ("ms", 1e-3), ("s", 1.0)];
    units.iter().find_map(|(unit, seconds)| {
        let number: f64 = text.strip_suffix(unit)?.parse().ok()?;
        Some(Duration::from_secs_f64(number * seconds))
    })
}
