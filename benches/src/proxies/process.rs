//! A program that serves on a port, and what it takes of the machine.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::clock;

/// A proxy while it runs.
pub(crate) struct Proxy {
    pub(crate) name: &'static str,
    /// Where it takes calls.
    pub(crate) address: SocketAddr,
    /// What stands before every path.
    pub(crate) prefix: &'static str,
    /// What stands in the head of every call.
    pub(crate) headers: Vec<(&'static str, String)>,
    /// From its start to its first connection.
    pub(crate) ready_after: Duration,
    child: Child,
    home: PathBuf,
}

/// Processor time and memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    pub(crate) processor: Duration,
    pub(crate) resident_mib: f64,
}

impl Proxy {
    /// Writes the configuration, starts the program and waits until it takes connections.
    ///
    /// # Errors
    /// If it is not installed, or ends before it listens, or does not listen in two minutes.
    pub(crate) fn start(
        port: u16,
        config: (&str, &str),
        command: impl FnOnce(&Path) -> Command,
    ) -> io::Result<Self> {
        let home =
            std::env::temp_dir().join(format!("outflow-bench-{}-{port}", std::process::id()));
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

    /// The same, called so in the table.
    pub(crate) fn named(mut self, name: &'static str) -> Self {
        self.name = name;
        self
    }

    /// The same, with this in the head of every call.
    pub(crate) fn told(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same, with this before every path.
    pub(crate) fn under(mut self, prefix: &'static str) -> Self {
        self.prefix = prefix;
        self
    }

    /// The address of a path of its upstream.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{}{path}", self.address, self.prefix)
    }

    /// What it has taken so far.
    ///
    /// # Errors
    /// If it has ended.
    pub(crate) fn spent(&self) -> io::Result<Spent> {
        let process = Path::new("/proc").join(self.child.id().to_string());
        let status = fs::read_to_string(process.join("status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = resident.and_then(|line| line.split_whitespace().next());
        Ok(Spent {
            processor: processor_of(&process)?,
            resident_mib: number(kib) / 1024.0,
        })
    }

    /// What it holds of the memory now, in MiB; no number once it has ended.
    pub(crate) fn resident(&self) -> f64 {
        self.spent().map_or(f64::NAN, |spent| spent.resident_mib)
    }

    fn wait_until_ready(&mut self) -> io::Result<()> {
        let begun = clock::read();
        while TcpStream::connect(self.address).is_err() {
            let late = clock::read().duration_since(begun) > PATIENCE;
            if late || self.child.try_wait()?.is_some() {
                return Err(io::Error::other("it does not listen"));
            }
            clock::nap();
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // One that ended by itself needs no killing.
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
        let _removed = fs::remove_dir_all(&self.home);
    }
}

/// The processor time that a process has had, by its directory in `/proc`.
///
/// # Errors
/// If it has ended.
pub(crate) fn processor_of(process: &Path) -> io::Result<Duration> {
    let stat = fs::read_to_string(process.join("stat"))?;
    // The name in brackets may hold blanks; what follows it does not.
    let fields: Vec<&str> = match stat.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace().collect(),
        None => Vec::new(),
    };
    let ticks = |place: usize| number(fields.get(place).copied());
    let spent = (ticks(UTIME) + ticks(STIME)) / TICKS_PER_SECOND;
    Ok(Duration::from_secs_f64(spent))
}

fn number(text: Option<&str>) -> f64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// The 14th and 15th field of `/proc/PID/stat`, counted from behind the name.
const UTIME: usize = 11;
const STIME: usize = 12;

/// `USER_HZ`, which Linux has kept at this on every machine that we measure on.
const TICKS_PER_SECOND: f64 = 100.0;

/// On a busy machine a gateway in Python reads its own code for half a minute.
const PATIENCE: Duration = Duration::from_mins(2);
