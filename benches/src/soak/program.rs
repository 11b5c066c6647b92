//! The soaked program: its directory, its process, and its state from outside.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use outflow_testkit::Process;

use super::reloads::Changes;
use super::samples::Sample;

/// A running `outflow serve`. Dropping it kills it and removes its directory.
pub(super) struct Program {
    process: Process,
    calls: String,
    admin: String,
    changes: Changes,
    home: PathBuf,
}

impl Program {
    /// Starts it with this API, which allows this many calls a second.
    ///
    /// # Errors
    /// If it was not built, or does not listen in time.
    pub(super) fn start(upstream: SocketAddr, limit: u32) -> io::Result<Self> {
        let program = std::env::var_os("OUTFLOW_PROGRAM")
            .ok_or_else(|| io::Error::other("run it by `cargo xtask soak`, which builds the program"))?;
        let home = std::env::temp_dir().join(format!("outflow-soak-{}", std::process::id()));
        fs::create_dir_all(home.join("log"))?;
        let changes = Changes::new(home.join("outflow.toml"), config(&home, upstream, limit)?);
        changes.write(0)?;
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(changes.file());
        let mut process = Process::start(command)?;
        let calls = announced(&mut process, "calls")?.replace("/NAME/PATH", "");
        let admin = announced(&mut process, "operation")?;
        Ok(Self {
            process,
            calls,
            admin: admin.trim_end_matches('/').to_owned(),
            changes,
            home,
        })
    }

    /// Returns the address of its listener.
    pub(super) fn calls(&self) -> &str {
        &self.calls
    }

    /// Returns the address of its admin API.
    pub(super) fn admin(&self) -> &str {
        &self.admin
    }

    /// Returns the changes of its configuration.
    pub(super) fn changes(&self) -> Changes {
        self.changes.clone()
    }

    /// Samples the process.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn sample(&mut self, at: Duration) -> io::Result<Sample> {
        if let Some(ended) = self.process.status()? {
            return Err(io::Error::other(format!("the program ended by itself: {ended}")));
        }
        let process = self.files();
        let status = fs::read_to_string(process.join("status"))?;
        Ok(Sample {
            at,
            rss_mib: field(&status, "VmRSS:") / 1024.0,
            anon_mib: field(&status, "RssAnon:") / 1024.0,
            fds: u64::try_from(fs::read_dir(process.join("fd"))?.count()).unwrap_or(u64::MAX),
            threads: whole(&status, "Threads:"),
            log_bytes: bytes_in(&self.home.join("log")),
            cache_bytes: bytes_in(&self.home.join("cache")),
        })
    }

    /// Returns its processor time.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn processor(&self) -> io::Result<Duration> {
        crate::proxies::processor_of(&self.files())
    }

    /// Stops it by a signal, as a supervisor does.
    ///
    /// # Errors
    /// If it does not end.
    pub(super) fn stop(&mut self) -> io::Result<ExitStatus> {
        self.process.terminate()?;
        self.process.wait(WAIT_LIMIT)
    }

    fn files(&self) -> PathBuf {
        Path::new("/proc").join(self.process.id().to_string())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The temporary directory removes the rest.
        let _removed = fs::remove_dir_all(&self.home);
    }
}

fn announced(process: &mut Process, word: &str) -> io::Result<String> {
    let line = process.wait_for_line(word, WAIT_LIMIT)?;
    let mut words = line.split_whitespace();
    let url = words.find(|word| word.starts_with("http"));
    url.map(str::to_owned)
        .ok_or_else(|| io::Error::other(format!("no address in {line:?}")))
}

fn field(status: &str, name: &str) -> f64 {
    crate::measure::approx(whole(status, name))
}

fn whole(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Returns the size of all files below a directory. A file that was removed meanwhile counts as empty.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    entries
        .filter_map(Result::ok)
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_in(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Returns all settings except the ones that reloads change. Pauses and steps are short, so that each fault is
/// over before the next.
fn config(home: &Path, upstream: SocketAddr, limit: u32) -> io::Result<String> {
    let closed = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let home = home.display();
    let routes: Vec<String> = (0..GROUPS)
        .map(|group| format!("{{ path = \"/groups/{group}/**\", group = \"g{group}\" }}"))
        .collect();
    let routes = routes.join(", ");
    Ok(format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nworkers = 2\n\
         [admin]\nlisten = \"127.0.0.1:0\"\n\
         [log]\nfile = \"{home}/log/outflow.log\"\nmax_size = \"1MiB\"\nmax_files = {LOG_FILES}\n\
         [cache]\ndir = \"{home}/cache\"\nsize = \"8MiB\"\n\
         [apis.dead]\nbase_url = \"http://{closed}\"\nmax_wait = \"1s\"\n\
         [apis.up]\nbase_url = \"http://{upstream}\"\nlimits = [\"{limit}/s\"]\n\
         concurrency = 200\nmax_wait = \"5s\"\ntimeout = \"2s\"\ncache = \"standard\"\n\
         routes = [{routes}]\n\
         health.sleep_min = \"1s\"\nhealth.sleep_max = \"4s\"\nhealth.cache_only_after = 3\n\
         health.auto_recover = \"5s\"\nhealth.ramp_every = \"1s\"\n"
    ))
}

/// Groups of the API with limits of their own.
pub(super) const GROUPS: u32 = 20;

const LOG_FILES: u32 = 3;

/// Maximum size of the log.
pub(super) const LOG_CAP: u64 = 3 * 1024 * 1024;

/// Maximum size of the cache directory.
pub(super) const CACHE_CAP: u64 = 8 * 1024 * 1024;

/// Longer than the grace period of a shutdown.
const WAIT_LIMIT: Duration = Duration::from_secs(40);
