//! Reads where the program listens, whom it lets in and what it bears.
//!
//! The library itself listens nowhere. These sections are read here because outflow_config::{Environment, FieldValue, TableReader, ValueError};
use std::path::PathBuf;
use std::time::Duration;

use one text configures both,
//! and a mistake in any line of it is told with all the others.

use std::net::SocketAddr;
use outflow_config::value_readers::{read_filled_text, read_integer, read_positive_duration, read_size};
use secrecy::SecretString;

use super::credential;

/// Where calls come in, and what a caller may ask of the program.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where programs send their calls.
    pub listen: ListenTarget,
    /// What a caller must know; nothing is asked without one.
    pub token: Option<SecretString>,
    /// How many threads serve; as many as there are cores if nothing is said.
    pub workers: Option<u16>,
    /// Until the head of a request is there.
    pub header_timeout: Duration,
    /// The longest silence while the body of a request comes in.
    pub body_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// The most connections at once.
    pub max_connections: u32,
    /// The most connections of one address at once.
    pub max_connections_per_client: u32,
    /// The most headers of a request.
    pub max_headers: u16,
    /// The most that they may take, in bytes.
    pub max_header_size: u64,
    /// The largest body of a request, in bytes.
    pub max_body: u64,
    /// How long a shutdown waits for calls under way.
    pub grace: Duration,
}

impl Default for ServerConfig {
    /// This machine alone, and limits that hold a single careless or hostile caller.
    fn default() -> Self {
        Self {
            listen: ListenTarget::local(7070),
            token: None,
            workers: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_mins(1),
            max_connections: 1_024,
            max_connections_per_client: 1_024,
            max_headers: 100,
            max_header_size: 32 * 1024,
            max_body: 10 * 1024 * 1024,
            grace: Duration::from_secs(30),
        }
    }
}

/// Where the program is watched and operated.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Where it listens.
    pub listen: ListenTarget,
    /// What an operator must know; nothing is asked without one.
    pub token: Option<SecretString>,
}

impl Default for AdminConfig {
    /// This machine alone.
    fn default() -> Self {
        Self {
            listen: ListenTarget::local(7071),
            token: None,
        }
    }
}

/// Where something listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ListenTarget {
    /// An address and a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// A socket in the file system, for its owner alone.
    Unix(PathBuf),
}

impl ListenTarget {
    /// This port of this machine, for programs on it.
    pub fn local(port: u16) -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], port)))
    }

    /// Whether only programs of this machine can come in.
    pub const fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl std::fmt::Display for ListenTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

pub(super) fn server(root: &TableReader<'_>, environment: &Environment) -> ServerConfig {
    let table = root.section("server");
    let usual = ServerConfig::default();
    let (listen, token) = read_listener(&table, environment, usual.listen);
    let workers = table.read("workers", |item| read_integer(item, 1..=MOST_WORKERS));
    let header_timeout = table.read("header_timeout", read_positive_duration);
    let body_timeout = table.read("body_timeout", read_positive_duration);
    let idle_timeout = table.read("idle_timeout", read_positive_duration);
    let max_connections = table.read("max_connections", connections);
    let per_client = table.read("max_connections_per_client", connections);
    let max_headers = table.read("max_headers", |item| read_integer(item, 1..=MOST_HEADERS));
    let max_header_size = table.read("max_header_size", header_size);
    let max_body = table.read("max_body", read_size);
    let grace = table.read("grace", read_positive_duration);
    table.finish();
    let max_connections = max_connections.unwrap_or(usual.max_connections);
    // On this machine one program is often the only caller, and all of them have one address.
    let usual_per_client = if listen.is_local() {
        max_connections
    } else {
        STRANGERS
    };
    ServerConfig {
        listen,
        token,
        workers: workers.and_then(|count| u16::try_from(count).ok()),
        header_timeout: header_timeout.unwrap_or(usual.header_timeout),
        body_timeout: body_timeout.unwrap_or(usual.body_timeout),
        idle_timeout: idle_timeout.unwrap_or(usual.idle_timeout),
        max_connections,
        max_connections_per_client: per_client.unwrap_or(usual_per_client),
        max_headers: max_headers
            .and_then(|count| u16::try_from(count).ok())
            .unwrap_or(usual.max_headers),
        max_header_size: max_header_size.unwrap_or(usual.max_header_size),
        max_body: max_body.unwrap_or(usual.max_body),
        grace: grace.unwrap_or(usual.grace),
    }
}

pub(super) fn admin(root: &TableReader<'_>, environment: &Environment) -> AdminConfig {
    let table = root.section("admin");
    let (listen, token) = read_listener(&table, environment, AdminConfig::default().listen);
    table.finish();
    AdminConfig { listen, token }
}

/// Where to listen and what to ask of those who come. Whoever can be reached from elsewhere asks.
fn read_listener(
    table: &TableReader<'_>,
    environment: &Environment,
    usual: ListenTarget,
) -> (ListenTarget, Option<SecretString>) {
    let listen = table.read("listen", listen).unwrap_or(usual);
    let token = credential::secret(table, environment, credential::TOKEN);
    let tokenless = !table.has("token_env") && !table.has("token_file");
    if tokenless && !listen.is_local() {
        let error = ValueError::new("whoever reaches this address could use your keys");
        let help = "name a secret that callers must send in `token_env` or `token_file`, or listen on \
                    127.0.0.1";
        table.report("listen", error.help(help));
    }
    (listen, token)
}

/// Reads `"127.0.0.1:7070"`, `":7070"` or `"unix:/run/outflow.sock"`.
fn listen(item: &FieldValue<'_>) -> Result<ListenTarget, ValueError> {
    let text = read_filled_text(item)?;
    if let Some(path) = text.strip_prefix("unix:") {
        return Ok(ListenTarget::Unix(PathBuf::from(path)));
    }
    if let Some(port) = text.strip_prefix(':').and_then(|port| port.parse().ok()) {
        return Ok(ListenTarget::local(port));
    }
    text.parse().map(ListenTarget::Tcp).map_err(|_| {
        ValueError::new("this is no address to listen on")
            .help("write it like \"127.0.0.1:7070\", \":7070\" or \"unix:/run/outflow.sock\"")
    })
}

fn connections(item: &FieldValue<'_>) -> Result<u32, ValueError> {
    read_integer(item, 1..=MOST_CONNECTIONS).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Less than this is too little for an ordinary browser; more than that is an attack on memory.
fn header_size(item: &FieldValue<'_>) -> Result<u64, ValueError> {
    match read_size(item)? {
        bytes @ 8_192..=1_048_576 => Ok(bytes),
        _ => Err(ValueError::new("this must be from 8KiB to 1MiB").help("write it like \"32KiB\"")),
    }
}

/// What one address elsewhere needs at most, if it reuses its connections.
const STRANGERS: u32 = 64;

/// Threads beyond this only wait for each other.
const MOST_WORKERS: u64 = 1_024;

/// More than a process may have open files.
const MOST_CONNECTIONS: u64 = 1_000_000;

/// What the parser can hold.
const MOST_HEADERS: u64 = 10_000;
