//! The load generator.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::proxies::{Ask, Proxy};

/// How it is run.
#[derive(Clone, Copy)]
pub(super) struct Load {
    connections: u32,
    seconds: u32,
}

/// What is called, and how.
pub(super) struct Way {
    url: String,
    headers: Vec<String>,
    ask: Ask,
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

impl Way {
    pub(super) fn to(url: String, ask: Ask) -> Self {
        Self {
            url,
            headers: Vec::new(),
            ask,
        }
    }

    pub(super) fn through(proxy: &Proxy, ask: Ask) -> Self {
        let headers = proxy.headers.iter();
        Self {
            url: proxy.url(ask.path()),
            headers: headers
                .map(|(name, value)| format!("{name}: {value}"))
                .collect(),
            ask,
        }
    }

    /// What tells the generator to send a body, which no flag of it does.
    fn script(&self) -> Option<PathBuf> {
        if self.ask == Ask::Plain {
            return None;
        }
        let file = std::env::temp_dir().join(format!("outflow-bench-{}.lua", std::process::id()));
        let body = self.ask.body();
        let text = format!(
            "wrk.method = \"{}\"\nwrk.headers[\"content-type\"] = \"application/json\"\n\
             wrk.body = [[{}]]\n",
            self.ask.method(),
            String::from_utf8_lossy(&body)
        );
        fs::write(&file, text).ok()?;
        Some(file)
    }
}

impl Load {
    /// Two seconds of it, or one where a single connection is enough to see.
    pub(super) const fn of(connections: u32) -> Self {
        let seconds = if connections == 1 { 1 } else { 2 };
        Self {
            connections,
            seconds,
        }
    }

    /// The same for so long.
    pub(super) const fn lasting(self, seconds: u32) -> Self {
        Self { seconds, ..self }
    }

    pub(super) fn run(self, way: &Way) -> Option<Seen> {
        let mut command = Command::new("wrk");
        command.args(["-t1", "--latency", "--timeout", "10s"]);
        command.arg(format!("-d{}s", self.seconds));
        command.arg(format!("-c{}", self.connections));
        for header in &way.headers {
            command.arg("-H").arg(header);
        }
        let script = way.script();
        if let Some(file) = &script {
            command.arg("-s").arg(file);
        }
        let output = command.arg(&way.url).output();
        // What is left of it is in a directory for such things.
        let _removed = script.map(fs::remove_file);
        read(&String::from_utf8_lossy(&output.ok()?.stdout))
    }
}

fn read(text: &str) -> Option<Seen> {
    let line = |begin: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find_map(|line| line.strip_prefix(begin).map(str::trim))
    };
    let requests = text.lines().find(|line| line.contains(" requests in "))?;
    let requests: f64 = requests.split_whitespace().next()?.parse().ok()?;
    if requests <= 0.0 {
        return None;
    }
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
