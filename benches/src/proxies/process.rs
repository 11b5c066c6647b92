//! A program that serves on a port, and its resource usage.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock;

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    /// Address of its listener.
    pub(crate) address: SocketAddr,
    /// Prefix of every path.
    pub(crate) prefix: &'static str,
    /// Headers of every call.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// Time from its start to its first connection.
    pub(crate) ready_after: Duration,
    child: Child,
    home: PathBuf,
}

/// Processor time and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ResourceUsage {
    pub(crate) processor: Duration,
    pub(crate) resident_mib: f64,
}

impl Proxy {
    /// Writes the configuration, starts the program and waits until it accepts connections.
    ///
    /// # Errors
    /// If it is not installed, or ends before it listens, or does not listen in two minutes.
    pub(crate) fn start(port: u16, config: (&str, &str), command: impl FnOnce(&Path) -> Command) -> io::Result<Self> {
        let home = std::env::temp_dir().join(format!("outflow-bench-{}-{port}", std::process::id()));
        fs::create_dir_all(&home)?;
        let (file, text) = config;
        let file = home.join(file);
        fs::write(&file, text.replace("HOME", &home.display().to_string()))?;
        let begun = clock::read();
        let child = command(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(home.join("stderr"))?)
            .spawn()?;
        let mut proxy = Self {
            name: "",
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            prefix: "",
            headers: Vec::new(),
            ready_after: Duration::ZERO,
            child,
            home,
        };
        proxy.wait_until_ready()?;
        proxy.ready_after = clock::read().duration_since(begun);
        Ok(proxy)
    }

    /// Sets its name in the table.
    pub(crate) fn with_name(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// Adds headers to every call.
    pub(crate) fn with_header(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Adds a prefix to every path.
    pub(crate) fn with_prefix(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// Returns the address of a path of its upstream.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{}{path}", self.address, self.prefix)
    }

    /// Returns its usage so far.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn usage(&self) -> io::Result<ResourceUsage> {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let status = fs::read_to_string(process.join("status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.split_whitespace().next());
        Ok(ResourceUsage {
            processor: processor_of(&process)?,
            resident_mib: number(kib) / 1024.0,
        })
    }

    /// Returns its memory in MiB; NaN if it has ended.
    pub(crate) fn resident(&self) -> f64 {
        self.usage().map_or(f64::NAN, |usage| usage.resident_mib)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let begun = clock::read();
        while TcpStream::connect(self.address).is_err() {
            let late = clock::read().duration_since(begun) > WAIT_LIMIT;
            if late || self.child.try_wait()?.is_some() {
                return Err(io::Error::other("it does not listen in time"));
            }
            clock::nap();
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _removed = fs::remove_dir_all(&self.home);
    }
}

/// Returns the processor time of a process, by its directory in `/proc`.
///
/// # Errors
/// If it has ended.
pub(crate) fn processor_of(process: &Path) -> io::Result<Duration> {
    let stat = fs::read_to_string(process.join("stat"))?;
    // The name in parentheses may contain spaces; the following fields do not.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace().collect(),
        None => Vec::new(),
    };
    let ticks = |place: usize| number(fields.get(place).copied());
    let usage = (ticks(UTIME) + ticks(STIME)) / TICKS_PER_SECOND;
    Ok(Duration::from_secs_f64(usage))
}

fn number(text: Option<&str>) -> f64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// The 14th and 15th field of `/proc/PID/stat`, counted after the name.
const UTIME: usize = 11;
const STIME: usize = 12;

/// `USER_HZ`, which is this on every Linux machine that we measure on.
const TICKS_PER_SECOND: f64 = 100.0;

/// On a busy machine a gateway in Python takes half a minute to load its code.
const WAIT_LIMIT: Duration = Duration::from_mins(2);
