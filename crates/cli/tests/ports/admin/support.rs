//! A running program, and a client that sends exact bytes.

use std::net::SocketAddr;
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow_cli::{ConfigSources, ConfigWatch, ListenAddr, Program};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::document::ApiDocument;

/// Far longer than anything here takes, and short enough to fail a test that hangs.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Configuration of all tests; more lines follow.
pub const QUIET: &str = r#"
    [server]
    listen = "127.0.0.1:0"
    [admin]
    listen = "127.0.0.1:0"
    [log]
    level = "off"
"#;

/// An API without a server, for tests that send nothing.
pub const STOCK: &str = r#"
    [apis.stock]
    base_url = "http://localhost:9"
    limits = [{ rate = "3/min", accounting = "send" }]
    routes = [{ methods = ["POST"], path = "/orders/**", group = "orders", cost = 2 }]
    [apis.stock.groups.orders]
    limits = ["100/min"]
    aliases = ["trading"]
"#;

/// A program that runs until it is stopped or dropped.
pub struct TestProgram {
    pub program: Program,
    /// Directory of its jobs, if the bulk engine runs.
    pub jobs: Option<TempDir>,
    document: ApiDocument,
}

impl TestProgram {
    /// Starts with the default API.
    pub async fn start() -> Self {
        Self::with_config(&format!("{QUIET}{STOCK}")).await
    }

    /// Starts with this configuration.
    pub async fn with_config(text: &str) -> Self {
        Self::with_environment(text, Environment::empty()).await
    }

    /// Starts with this configuration in this environment.
    pub async fn with_environment(text: &str, environment: Environment) -> Self {
        let sources = ConfigSources::new(Vec::new())
            .with_text(Source::new("test.toml", text))
            .in_environment(environment);
        Self::with_sources(sources).await
    }

    /// Starts with these sources.
    pub async fn with_sources(sources: ConfigSources) -> Self {
        let program = Program::start_watching(sources, ConfigWatch::Nothing).await;
        let program = program.unwrap_or_else(|error| panic!("{error}"));
        let document = include_str!("../../../../admin/src/page/openapi.json");
        Self {
            program,
            jobs: None,
            document: ApiDocument::parse(document),
        }
    }

    /// Starts with this configuration and a bulk engine.
    pub async fn with_bulk(text: &str) -> Self {
        let jobs = tempfile::tempdir().expect("a folder");
        let dir = jobs.path().display().to_string();
        let text = format!("{text}\n[bulk]\ndir = {dir:?}\n");
        let sources = ConfigSources::new(Vec::new())
            .with_text(Source::new("test.toml", text))
            .in_environment(Environment::empty())
            .bulk();
        Self {
            jobs: Some(jobs),
            ..Self::with_sources(sources).await
        }
    }

    /// Returns the address of the admin API.
    pub fn address(&self) -> SocketAddr {
        match self.program.admin() {
            ListenAddr::Tcp(address) => *address,
            ListenAddr::Unix(path) => panic!("a port was asked for, not {}", path.display()),
        }
    }

    pub async fn get(&self, target: &str) -> AdminResponse {
        self.send("GET", target, &[], "").await
    }

    pub async fn delete(&self, target: &str) -> AdminResponse {
        self.send("DELETE", target, &[], "").await
    }

    pub async fn post(&self, target: &str, body: &str) -> AdminResponse {
        let json = [("content-type", "application/json")];
        self.send("POST", target, &json, body).await
    }

    /// Sends one request with these headers, and `Host` unless they name one.
    pub async fn send(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> AdminResponse {
        let mut wire = self.open(method, target, headers, body).await;
        let mut bytes = Vec::new();
        let read = tokio::time::timeout(PATIENCE, wire.read_to_end(&mut bytes)).await;
        // A server that refuses a body may reset the connection after its response.
        let _reset = read.expect("an answer in time");
        let answer = AdminResponse::parse(&bytes);
        self.document.check_response(method, target, &answer);
        answer
    }

    /// Sends one request without waiting for the response.
    pub async fn open(&self, method: &str, target: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let own = ("host", &*self.address().to_string());
        let length = ("content-length", &*body.len().to_string());
        let names = |wanted: &str| headers.iter().any(|(name, _)| *name == wanted);
        let more = [own, length].into_iter().filter(|(name, _)| !names(name));
        let all = more.chain(headers.iter().copied());
        let lines: Vec<_> = all.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = lines.concat();
        let mut wire = TcpStream::connect(self.address()).await.expect("a connection");
        let request = format!("{method} {target} HTTP/1.1\r\nconnection: close\r\n{head}\r\n{body}");
        // A server that refuses a body need not read it.
        let _refused = wire.write_all(request.as_bytes()).await;
        wire
    }

    /// Stops the program and returns whether everything ended in time.
    pub async fn stop(self) -> bool {
        let stopped = tokio::time::timeout(PATIENCE, self.program.stop()).await;
        stopped.expect("the program stops")
    }
}

/// A response of the admin API.
#[derive(Debug)]
pub struct AdminResponse {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl AdminResponse {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no head in {:?}", String::from_utf8_lossy(bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let headers = lines.filter_map(|line| line.split_once(": "));
        Self {
            status: status.and_then(|code| code.parse().ok()).expect("a status"),
            headers: headers
                .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
                .collect(),
            body: bytes[end + 4..].to_vec(),
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// Returns the last part of a problem's type.
    pub fn problem(&self) -> String {
        let kind = self.json()["type"].as_str().unwrap_or_default().to_owned();
        kind.rsplit(':').next().unwrap_or_default().to_owned()
    }
}
