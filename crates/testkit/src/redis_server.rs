//! A real Redis or Valkey for one test.
//!
//! Each test has its own server in its own directory, so that no test sees another's keys and each
//! server may be killed, frozen and restarted. It never touches a server that runs already.

mod certs;
mod command;
mod flavor;
mod sentinel;
mod server_clock;

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use self::command::send;
pub use self::flavor::ServerFlavor;
pub use self::sentinel::RedisSentinel;
pub use self::server_clock::ServerClock;
use crate::deadline::Deadline;
use crate::process::Process;

/// Server that ends, with its data, when this is dropped.
///
/// ```no_run
/// use outflow_testkit::{RedisOptions, RedisServer};
///
/// # fn main() -> std::io::Result<()> {
/// let server = RedisServer::start(RedisOptions::default())?;
/// assert_eq!(server.command(&["ECHO", "hello"])?, "hello");
/// println!("connect to {}", server.url());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct RedisServer {
    options: RedisOptions,
    server_address: ServerAddress,
    process: Process,
    directory: TempDir,
}

/// Options of a server.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// Kind of server.
    pub flavor: ServerFlavor,
    /// Address on which it listens.
    pub listen: Listen,
    /// Durability of its data.
    pub keep: Keep,
    /// Further settings as name and value: `("maxmemory", "2mb")`.
    pub settings: Vec<(String, String)>,
    /// Clock of its own; otherwise it has the system's.
    pub clock: Option<ServerClock>,
}

/// Address on which a server listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Listen {
    /// On a free port of loopback, where a [`FaultProxy`](crate::FaultProxy) can stand in front.
    #[default]
    Port,
    /// A free port of loopback, over TLS and for the name `localhost` only, with its own authority.
    Tls,
    /// On a socket in its directory.
    Socket,
}

/// Durability of the server's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Keep {
    /// None: a restart finds it empty.
    #[default]
    Nothing,
    /// Every confirmed write.
    EveryWrite,
    /// Every confirmed write, unless the machine loses power: no command waits for the disk.
    UntilPowerLoss,
    /// Writes confirmed more than a second before a power cut; a crash of the server loses nothing.
    EverySecond,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum ServerAddress {
    Port(SocketAddr),
    /// Tests inspect its data through the socket.
    Tls(SocketAddr, PathBuf),
    Socket(PathBuf),
}

impl RedisServer {
    /// Starts a server and waits until it responds.
    ///
    /// # Errors
    /// If no server is installed, or it does not respond within ten seconds.
    pub fn start(options: RedisOptions) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let mut tries = 0;
        loop {
            let server_address = ServerAddress::free(options.listen, &directory)?;
            match run(&options, &server_address, &directory) {
                Ok(process) => {
                    return Ok(Self {
                        options,
                        server_address,
                        process,
                        directory,
                    });
                }
                // Another test may take a free port before this server listens on it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries < MAX_TRIES => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns true if a server can be started on this machine.
    pub fn is_installed() -> bool {
        ServerFlavor::Either.is_installed()
    }

    /// Returns its URL for clients.
    pub fn url(&self) -> String {
        match &self.server_address {
            ServerAddress::Port(address) => format!("redis://{address}/"),
            ServerAddress::Tls(address, _) => format!("rediss://localhost:{}/", address.port()),
            ServerAddress::Socket(path) => format!("redis+unix://{}", path.display()),
        }
    }

    /// Returns its port on loopback, unless it listens on a socket.
    pub fn address(&self) -> Option<SocketAddr> {
        match &self.server_address {
            ServerAddress::Port(address) | ServerAddress::Tls(address, _) => Some(*address),
            ServerAddress::Socket(_) => None,
        }
    }

    /// Returns the certificate of its authority, if it uses TLS.
    pub fn ca_file(&self) -> Option<PathBuf> {
        let ca_file = self.directory.path().join(certs::AUTHORITY);
        matches!(self.server_address, ServerAddress::Tls(..)).then_some(ca_file)
    }

    /// Sends one command on a new connection, and returns the reply as text.
    ///
    /// # Errors
    /// If it does not reply within two seconds, or replies with an error.
    pub fn command(&self, command: &[&str]) -> io::Result<String> {
        send(&self.server_address, command)
    }

    /// Kills it like a crash.
    ///
    /// # Errors
    /// If it does not end.
    pub fn kill(&mut self) -> io::Result<()> {
        self.process.kill()?;
        self.process.wait(TIMEOUT).map(drop)
    }

    /// Stops it: connections stay open without replies.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn freeze(&mut self) -> io::Result<()> {
        self.process.freeze()
    }

    /// Continues it.
    ///
    /// # Errors
    /// If the signal cannot be sent.
    pub fn thaw(&mut self) -> io::Result<()> {
        self.process.thaw()
    }

    /// Limits the size of its files, like a full disk; `None` removes the limit.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn limit_files(&self, bytes: Option<u64>) -> io::Result<()> {
        self.process.limit_files(bytes)
    }

    /// Restarts it at the same address, with the durable data. Kills it first if it runs.
    ///
    /// # Errors
    /// As with [`start`](Self::start).
    pub fn restart(&mut self) -> io::Result<()> {
        self.kill()?;
        self.process = run(&self.options, &self.server_address, &self.directory)?;
        Ok(())
    }
}

impl ServerAddress {
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
            Self::Port(address) => vec![("port", address.port().to_string()), ("bind", address.ip().to_string())],
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

fn run(options: &RedisOptions, server_address: &ServerAddress, directory: &TempDir) -> io::Result<Process> {
    let Some(program) = options.flavor.program() else {
        let advice = options.flavor.advice();
        return Err(io::Error::new(io::ErrorKind::NotFound, advice));
    };
    // The signal about a file size limit ends a program that does not ignore it.
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(program);
    if let Some(clock) = &options.clock {
        clock.apply(&mut command);
    }
    command.current_dir(directory.path()).args(["--save", ""]);
    for (name, value) in server_address.settings() {
        command.arg(format!("--{name}")).arg(value);
    }
    let sync = match options.keep {
        Keep::Nothing => None,
        Keep::EveryWrite => Some("always"),
        Keep::UntilPowerLoss => Some("no"),
        Keep::EverySecond => Some("everysec"),
    };
    if let Some(sync) = sync {
        command.args(["--appendonly", "yes", "--appendfsync", sync]);
    }
    for (name, value) in &options.settings {
        command.arg(format!("--{name}")).arg(value);
    }
    let mut process = Process::start(command)?;
    wait_until_it_answers(server_address, &mut process)?;
    Ok(process)
}

fn wait_until_it_answers(server_address: &ServerAddress, process: &mut Process) -> io::Result<()> {
    let answers = Deadline::within(TIMEOUT).poll(|| {
        if process.status()?.is_some() {
            return Err(why_it_ended(process));
        }
        let ready = is_ready(&send(server_address, &["PING"])) && is_ours(server_address, process.id());
        Ok(ready.then_some(()))
    })?;
    answers.ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "the server does not answer"))
}

/// A server that asks for a password is up; one that loads its data is not.
fn is_ready(answer: &io::Result<String>) -> bool {
    match answer {
        Ok(answer) => answer == "PONG",
        Err(error) => error.to_string().starts_with("NOAUTH"),
    }
}

/// Another server that took the port first replies too, until ours has noticed and ended. A server
/// that asks for a password does not identify itself and is trusted.
fn is_ours(server_address: &ServerAddress, id: u32) -> bool {
    send(server_address, &["INFO", "server"]).map_or_else(
        |error| error.to_string().starts_with("NOAUTH"),
        |about| about.lines().any(|line| line == format!("process_id:{id}")),
    )
}

fn why_it_ended(process: &mut Process) -> io::Error {
    let lines: Vec<_> = process
        .last_lines(TIMEOUT)
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
const TIMEOUT: Duration = Duration::from_secs(10);

/// Two tests that choose one port twice are unlikely; five times has another cause.
const MAX_TRIES: u32 = 5;
