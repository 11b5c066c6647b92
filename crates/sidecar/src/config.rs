//! The section `[server]`: address and limits of the sidecar.

use std::time::Duration;

use outflow_config::value_readers::{read_choice, read_integer, read_positive_duration, read_size};
use outflow_config::{Environment, FieldValue, Section, SectionChanges, TableReader, ValueError};
use secrecy::SecretString;

use outflow_listener::{ListenTarget, read_listener};

/// Configuration of the sidecar: its address and its limits for callers.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Address for the calls of programs.
    pub listen: ListenTarget,
    /// Token that a caller must send; `None` asks for none.
    pub token: Option<SecretString>,
    /// Number of threads; `None` is the number of cores.
    pub workers: Option<u16>,
    /// Timeout for the head of a request.
    pub header_timeout: Duration,
    /// Longest pause while the body of a request arrives.
    pub body_timeout: Duration,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Duration,
    /// Largest number of connections; fewer if the system allows fewer open files.
    pub max_connections: u32,
    /// Largest number of connections of one address.
    pub max_connections_per_client: u32,
    /// Largest number of headers of a request.
    pub max_headers: u16,
    /// Largest size of all headers, in bytes.
    pub max_header_size: u64,
    /// Largest body of a request, in bytes.
    pub max_body: u64,
    /// Memory for connections, requests and their bodies, in bytes.
    pub max_memory: u64,
    /// Header names with an underscore.
    pub underscore_headers: UnderscoreHeaders,
    /// Time that a shutdown waits for running calls.
    pub grace: Duration,
}

/// Treatment of header names with an underscore. Many servers read `a_b` as `a-b`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnderscoreHeaders {
    /// Forwarded, unless the name with a hyphen is one that Outflow or the framing relies on.
    Pass,
    /// Rejected.
    Reject,
}

impl Default for ServerConfig {
    /// This machine only, and limits that contain a careless or hostile caller.
    fn default() -> Self {
        Self {
            listen: ListenTarget::local(7070),
            token: None,
            workers: None,
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_mins(1),
            max_connections: DEFAULT_CONNECTIONS,
            max_connections_per_client: DEFAULT_CONNECTIONS,
            max_headers: 100,
            max_header_size: 32 * 1024,
            max_body: 10 * 1024 * 1024,
            max_memory: 256 * 1024 * 1024,
            underscore_headers: UnderscoreHeaders::Pass,
            grace: Duration::from_secs(30),
        }
    }
}

impl Section for ServerConfig {
    const NAME: &'static str = "server";

    fn read(table: &TableReader<'_>, environment: &Environment) -> Self {
        let default = Self::default();
        let (listen, token) = read_listener(table, environment, default.listen);
        let duration = |key, default| table.read(key, read_positive_duration).unwrap_or(default);
        let workers = table.read("workers", |item| read_integer(item, 1..=MAX_WORKERS));
        let header_timeout = duration("header_timeout", default.header_timeout);
        let body_timeout = duration("body_timeout", default.body_timeout);
        let idle_timeout = duration("idle_timeout", default.idle_timeout);
        let max_connections = table.read("max_connections", read_connections);
        let max_connections = max_connections.unwrap_or(default.max_connections);
        // On this machine one program is often the only caller, and all programs have one address.
        let default_per_client = if listen.is_local() {
            max_connections
        } else {
            REMOTE_CONNECTIONS
        };
        let per_client = table.read("max_connections_per_client", read_connections);
        let max_headers = table.read("max_headers", |item| read_integer(item, 1..=MAX_HEADERS));
        let max_header_size = table.read("max_header_size", read_header_size);
        let max_body = table.read("max_body", read_size);
        let max_memory = table.read("max_memory", read_memory);
        let underscore_headers = table.read("underscore_headers", read_choice(&UNDERSCORE_WORDS));
        Self {
            listen,
            token,
            workers: workers.and_then(|count| u16::try_from(count).ok()),
            header_timeout,
            body_timeout,
            idle_timeout,
            max_connections,
            max_connections_per_client: per_client.unwrap_or(default_per_client),
            max_headers: max_headers
                .and_then(|count| u16::try_from(count).ok())
                .unwrap_or(default.max_headers),
            max_header_size: max_header_size.unwrap_or(default.max_header_size),
            max_body: max_body.unwrap_or(default.max_body),
            max_memory: max_memory.unwrap_or(default.max_memory),
            underscore_headers: underscore_headers.unwrap_or(default.underscore_headers),
            grace: duration("grace", default.grace),
        }
    }

    /// The port and the threads exist since the start.
    fn restart_keys(&self, new: &Self) -> Vec<String> {
        SectionChanges::differing([
            ("server.listen", self.listen != new.listen),
            ("server.workers", self.workers != new.workers),
        ])
    }
}

fn read_connections(item: &FieldValue<'_>) -> Result<u32, ValueError> {
    read_integer(item, 1..=MAX_CONNECTIONS).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// Reads the size of all headers. An ordinary browser needs 8 KiB; more than 1 MiB is an attack on memory.
fn read_header_size(item: &FieldValue<'_>) -> Result<u64, ValueError> {
    match read_size(item)? {
        bytes @ 8_192..=1_048_576 => Ok(bytes),
        _ => Err(ValueError::new("this must be from 8KiB to 1MiB").help("write it like \"32KiB\"")),
    }
}

/// Reads the memory for requests. Less than 4 MiB would refuse even a few callers.
fn read_memory(item: &FieldValue<'_>) -> Result<u64, ValueError> {
    match read_size(item)? {
        bytes @ 4_194_304.. => Ok(bytes),
        _ => Err(ValueError::new("this must be at least 4MiB").help("write it like \"256MiB\"")),
    }
}

const UNDERSCORE_WORDS: [(&str, UnderscoreHeaders); 2] =
    [("pass", UnderscoreHeaders::Pass), ("reject", UnderscoreHeaders::Reject)];

/// More than the calls that wait for one API by default, so that they leave places for other APIs.
const DEFAULT_CONNECTIONS: u32 = 16_384;

/// Enough for one remote address that reuses its connections.
const REMOTE_CONNECTIONS: u32 = 64;

/// More threads only wait for each other.
const MAX_WORKERS: u64 = 1_024;

/// More than the open files that a process may have.
const MAX_CONNECTIONS: u64 = 1_000_000;

/// Limit of the parser.
const MAX_HEADERS: u64 = 10_000;
