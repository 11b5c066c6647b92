//! A real Redis or Valkey for one test.
//!
//! Each test has a server of its own in a directory of its own, so that none sees another's keys and
//! each may be killed, frozen and restarted. It never touches a server that runs already.

mod certs;
mod command;
mod flavor;

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use self::command::send;
pub use self::flavor::ServerFlavor;
use crate::deadline::Deadline;
use crate::process::Process;

/// A server that ends, and whose data goes, when this is dropped.
///
/// ```no_run
/// use outflow_testkit::{RedisOptions, RedisServer};
///
/// # fn main() -> std::io::Result<()> {
/// let server = RedisServer::start(RedisOptions::default())?;
/// assert_eq!(server.ask(&["ECHO", "hello"])?, "hello");
/// println!("connect to {}", server.url());
/// # Ok(())
/// # }
/// ```
pub struct RedisServer {
    options: RedisOptions,
    place: Place,
    process: Process,
    directory: TempDir,
}

/// How a server is started.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// Which one.
    pub brand: ServerFlavor,
    /// Where it listens.
    pub listen: Listen,
    /// What outlives a crash.
    pub keep: Keep,
    /// More of its own settings, as name and value: `("maxmemory", "2mb")`.
    pub settings: Vec<(String, String)>,
}

/// Where a server listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Listen {
    /// On a free port of loopback, where a [`FaultProxy`](crate::FaultProxy) can stand in front.
    #[default]
    Port,
    /// On a free port of loopback, over TLS and for the name `localhost` alone; an authority of its own
    /// vouches for it.
    Tls,
    /// On a socket in its directory.
    Socket,
}

/// What outlives a crash of the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keep {
    /// Nothing: a restart finds it empty.
    #[default]
    Nothing,
    /// Every write that was answered.
    EveryWrite,
    /// What was answered more than a second before a power cut; a crash of the server loses nothing.
    EverySecond,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Place {
    Port(SocketAddr),
    /// Tests look at what it holds through the socket.
    Tls(SocketAddr, PathBuf),
    Socket(PathBuf),
}

impl RedisServer {
    /// Starts one and waits until it answers.
    ///
    /// # Errors
    /// If no server is installed, or it does not answer within ten seconds.
    pub fn start(options: RedisOptions) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut tries = 0;
        loop {
            let place = Place::free(options.listen, &directory)?;
            match run(&options, &place, &directory) {
                Ok(process) => {
                    return Ok(Self {
                        options,
                        place,
                        process,
                        directory,
                    });
                }
                // Between choosing a free port and listening on it, another test may take it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < MOST_TRIES => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// True if a server can be started on this machine.
    pub fn is_installed() -> bool {
        ServerFlavor::Either.is_installed()
    }

    /// Its address in the form that clients take.
    pub fn url(&self) -> String {
        match &self.place {
            Place::Port(address) => format!("redis://{address}/"),
            Place::Tls(address, _) => format!("rediss://localhost:{}/", address.port()),
            Place::Socket(path) => format!("redis+unix://{}", path.display()),
        }
    }

    /// Its port on loopback, unless it listens on a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.place {
            Place::Port(address) | Place::Tls(address, _) => Some(*address),
            Place::Socket(_) => None,
        }
    }

    /// The certificate of the authority that vouches for it, if it speaks TLS.
    pub fn ca_file(&self) -> Option<PathBuf> {
        let papers = self.directory.path().join(certs::AUTHORITY);
        matches!(self.place, Place::Tls(..)).then_some(papers)
    }

    /// Sends one command on a connection of its own, and gives the answer as text.
    ///
    /// # Errors
    /// If it does not answer within two seconds, or answers with an error.
    pub fn command(&self, command: &[&str]) -> io::Result<String> {
        send(&self.place, command)
    }

    /// Kills it as a crash does.
    ///
    /// # Errors
    /// If it does not die.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait(PATIENCE).map(drop)
    }

    /// Has it stand still: connections stay open and nothing answers.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.process.freeze()
    }

    /// Has it go on.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn thaw(&mut self) -> io::Result<()> {
        self.process.thaw()
    }

    /// Lets its files grow to so many bytes and no further, as a full disk does, or as far as they will.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn limit_files(&self, bytes: Option<u64>) -> io::Result<()> {
        self.process.limit_files(bytes)
    }

    /// Starts it again at the same place, with the data that was kept. Kills it first if it runs.
    ///
    /// # Errors
    /// As with [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.process = run(&self.options, &self.place, &self.directory)?;
        Ok(())
    }
}

impl fmt::Debug for RedisServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisServer")
            .field("url", &self.url())
            .field("process", &self.process)
            .finish_non_exhaustive()
    }
}

impl Place {
    fn free(listen: Listen, directory: &TempDir) -> io::Result<Self> {
        match listen {
            Listen::Socket => Ok(Self::Socket(socket(directory))),
            Listen::Port => Ok(Self::Port(free_port()?)),
            Listen::Tls => {
                certs::issue(directory.path())?;
                Ok(Self::Tls(free_port()?, socket(directory)))
            }
        }
    }

    fn settings(&self) -> Vec<(&str, String)> {
        let shown = |path: &Path| path.display().to_string();
        match self {
            Self::Port(address) => vec![
                ("port", address.port().to_string()),
                ("bind", address.ip().to_string()),
            ],
            Self::Tls(address, path) => [
                ("port", "0".to_owned()),
                ("tls-port", address.port().to_string()),
                ("bind", address.ip().to_string()),
                ("unixsocket", shown(path)),
            ]
            .into_iter()
            .chain(certs::SETTINGS.map(|(name, value)| (name, value.to_owned())))
            .collect(),
            Self::Socket(path) => vec![("port", "0".to_owned()), ("unixsocket", shown(path))],
        }
    }
}

fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("redis.sock")
}

fn free_port() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

fn run(options: &RedisOptions, place: &Place, directory: &TempDir) -> io::Result<Process> {
    let Some(program) = options.brand.program() else {
        let advice = options.brand.advice();
        return Err(io::Error::new(io::ErrorKind::NotFound, advice));
    };
    // The signal about a file that may grow no more ends a program that does not ignore it.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(program);
    command.current_dir(directory.path()).args(["--save", ""]);
    for (name, value) in place.settings() {
        command.arg(format!("--{name}")).arg(value);
    }
    let sync = match options.keep {
        Keep::Nothing => None,
        Keep::EveryWrite => Some("always"),
        Keep::EverySecond => Some("everysec"),
    };
    if let Some(sync) = sync {
        command.args(["--appendonly", "yes", "--appendfsync", sync]);
    }
    for (name, value) in &options.settings {
        command.arg(format!("--{name}")).arg(value);
    }
    let mut process = Process::start(command)?;
    wait_until_it_answers(place, &mut process)?;
    Ok(process)
}

fn wait_until_it_answers(place: &Place, process: &mut Process) -> io::Result<()> {
    let answers = Deadline::within(PATIENCE).poll(|| {
        if process.status()?.is_some() {
            return Err(why_it_ended(process));
        }
        let ready = is_ready(&send(place, &["PING"])) && is_ours(place, process.id());
        Ok(ready.then_some(()))
    })?;
    answers.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))
}

/// One that asks for a password is up; one that loads its data is not.
fn is_ready(answer: &io::Result<String>) -> bool {
    match answer {
        Ok(answer) => answer == "PONG",
        Err(error) => error.to_string().starts_with("NOAUTH"),
    }
}

/// Where another server took the port first, it answers too, until ours has noticed and ended. One
/// that asks for a password does not say who it is, and is believed.
fn is_ours(place: &Place, id: u32) -> bool {
    send(place, &["INFO", "server"]).map_or_else(
        |error| error.to_string().starts_with("NOAUTH"),
        |about| about.lines().any(|line| line == format!("process_id:{id}")),
    )
}

fn why_it_ended(process: &mut Process) -> io::Error {
    let lines: Vec<_> = process
        .last_lines(PATIENCE)
        .iter()
        .map(|line| line.text.as_str())
        .collect();
    let printed = lines.join("\n");
    let kind = if printed.contains("Address already in use") {
        io::ErrorKind::AddrInUse
    } else {
        io::ErrorKind::Other
    };
    io::Error::new(kind, format!("the server ended; it printed:\n{printed}"))
}

/// Starting takes a few milliseconds; on a machine that is busy with other tests, perhaps a second.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two tests that choose the same port twice are unlikely; five times is something else.
const MOST_TRIES: u32 = 5;
