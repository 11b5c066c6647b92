//! The load generator.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::proxies::{Proxy, RequestForm};

/// Options of one run.
#[derive(Clone, Copy)]
pub(super) struct Load {
    connections: u32,
    seconds: u32,
}

/// Request, and its form.
pub(super) struct Way {
    url: String,
    headers: Vec<String>,
    ask: RequestForm,
}

/// Measurements of a run.
pub(super) struct Seen {
    pub(super) requests: f64,
    pub(super) rate: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// Share of failed responses.
    pub(super) strays: f64,
}

/// Returns true if it runs here.
pub(super) fn is_installed() -> bool {
    let mut command = Command::new("wrk");
    command.arg("--version").stdout(Stdio::null());
    // With the version flag it prints its version and fails.
    command.stderr(Stdio::null()).status().is_ok()
}

impl Way {
    pub(super) fn to(url: String, ask: RequestForm) -> Self {
        Self {
            url,
            headers: Vec::new(),
            ask,
        }
    }

    pub(super) fn through(proxy: &Proxy, ask: RequestForm) -> Self {
        let headers = proxy.headers.iter();
        Self {
            url: proxy.url(ask.path()),
            headers: headers.map(|(name, value)| format!("{name}: {value}")).collect(),
            ask,
        }
    }

    /// Returns the script that sends a body, for which it has no flag.
    fn script(&self) -> Option<PathBuf> {
        if self.ask == RequestForm::Plain {
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
    /// Returns a run of two seconds, or of one with a single connection.
    pub(super) const fn with_connections(connections: u32) -> Self {
        let seconds = if connections == 1 { 1 } else { 2 };
        Self { connections, seconds }
    }

    /// Sets the duration.
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
        // The temporary directory removes the rest.
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
