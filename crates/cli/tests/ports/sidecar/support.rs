//! A running sidecar, and a client that writes raw bytes which no library would send.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outflow::config::{Environment, Source};
use outflow_cli::{ConfigSources, ListenAddr, Program};
use outflow_mock::{MockApi, MockResponse, Server};
use outflow_testkit::Background;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Longer than anything here takes, short enough to wait for once.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A sidecar in front of an API.
pub(crate) struct TestSidecar {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
}

/// Configuration lines of a test.
#[derive(Clone, Copy, Default)]
pub(crate) struct TestConfig<'a> {
    /// Lines of `[server]`.
    pub(crate) server: &'a str,
    /// Lines of the API.
    pub(crate) api: &'a str,
    /// Lines before all others.
    pub(crate) rest: &'a str,
}

impl TestSidecar {
    /// Starts in front of the API at this URL, named `strict`.
    pub(crate) async fn for_api(url: &str, config: TestConfig<'_>) -> Self {
        let TestConfig { server, api, rest } = config;
        let limits = if api.contains("limits") {
            ""
        } else {
            "limits = [\"100000/s\"]\nconcurrency = 1000"
        };
        let text = format!(
            "{rest}\n[log]\nlevel = \"error\"\n[server]\nlisten = \"127.0.0.1:0\"\n{server}\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n\
             [apis.strict]\nbase_url = \"{url}\"\naddresses = \"any\"\n{limits}\n{api}\n"
        );
        let environment = Environment::from_iter([("SIDECAR_TOKEN", "open sesame, please")]);
        let sources = ConfigSources::new(Vec::new())
            .with_text(Source::new("test.toml", text))
            .in_environment(environment);
        let program = Program::start(sources).await.expect("it starts");
        let address = match program.sidecar() {
            ListenAddr::Tcp(address) => Some(*address),
            ListenAddr::Unix(_) => None,
        };
        Self {
            program,
            address: address.expect("a port"),
        }
    }

    /// Sends bytes on their own connection and parses the response.
    pub(crate) async fn exchange(&self, bytes: impl AsRef<[u8]>) -> RawResponse {
        RawResponse::parse(&self.raw(bytes.as_ref()).await)
    }

    /// Sends bytes on their own connection and returns all bytes that come back.
    pub(crate) async fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        // A refusal may arrive before everything is written.
        let _refused = stream.write_all(bytes).await;
        rest(&mut stream).await
    }

    /// Sends a GET with these header lines.
    pub(crate) async fn get(&self, path: &str, headers: &str) -> RawResponse {
        self.exchange(self.request("GET", path, headers)).await
    }

    /// Renders a request without a body.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str) -> String {
        let host = self.address;
        format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n")
    }

    pub(crate) async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }
}

/// Starts an API that echoes requests.
pub(crate) async fn echo() -> (MockApi, Server) {
    let api = MockApi::builder().answer("/**", MockResponse::echo()).build();
    let api = api.expect("valid");
    let server = api.listen().await.expect("a port");
    (api, server)
}

/// Reads until the other side closes.
pub(crate) async fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let read = timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    // A reset ends the response too; the bytes before it count.
    let _ended = read.expect("an end in time");
    all
}

/// Reads until this text has arrived.
pub(crate) async fn until(stream: &mut TcpStream, end: &str) -> String {
    let mut all = Vec::new();
    while !String::from_utf8_lossy(&all).contains(end) {
        let read = timeout(PATIENCE, stream.read_buf(&mut all)).await;
        let count = read.expect("in time").expect("no reset");
        assert!(count > 0, "no {end:?} in {:?}", String::from_utf8_lossy(&all));
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// A parsed response.
#[derive(Debug)]
pub(crate) struct RawResponse {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
    pub(crate) body: String,
    /// Bytes that follow the response.
    pub(crate) more: String,
}

impl RawResponse {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let mut lines = head.split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut headers = BTreeMap::<String, Vec<String>>::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            let values = headers.entry(name.to_ascii_lowercase()).or_default();
            values.push(value.trim().to_owned());
        }
        let chunked = headers.contains_key("transfer-encoding");
        let length = headers
            .get("content-length")
            .and_then(|values| values.first()?.parse().ok());
        let (body, more) = match (chunked, length) {
            (true, _) => (dechunked(body), ""),
            (false, Some(length)) if body.len() >= length => {
                let (body, more) = body.split_at(length);
                (body.to_owned(), more)
            }
            _ => (body.to_owned(), ""),
        };
        Self {
            status: status.unwrap_or(0),
            headers,
            body,
            more: more.to_owned(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.first().map(String::as_str)
    }

    pub(crate) fn json(&self) -> Value {
        let read = serde_json::from_str(&self.body);
        assert!(read.is_ok(), "{self:?}");
        read.unwrap_or_default()
    }

    /// Returns the value of this header as the echoing API received it.
    pub(crate) fn echoed(&self, name: &str) -> Option<String> {
        let seen = self.json();
        let headers = seen.get("headers").and_then(Value::as_array).expect("headers");
        let is_it = |pair: &&Value| pair.get(0).is_some_and(|given| given == name);
        let value = headers.iter().find(is_it)?.get(1).and_then(Value::as_str);
        value.map(str::to_owned)
    }

    /// Returns the problem document after a check of its marks.
    pub(crate) fn problem(&self) -> Value {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        assert!(
            self.header("proxy-status")
                .expect("a mark")
                .starts_with("outflow; error=")
        );
        let problem = self.json();
        let member = |name| problem.get(name).cloned().unwrap_or_default();
        assert_eq!(member("status"), self.status, "{self:?}");
        assert!(member("type").is_string() && member("title").is_string(), "{self:?}");
        problem
    }
}

fn dechunked(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap_or(0);
        let Some((piece, after)) = rest.split_at_checked(size).filter(|_| size > 0) else {
            break;
        };
        body.push_str(piece);
        text = after.trim_start_matches("\r\n");
    }
    body
}

/// An API for one connection: it records the request and answers with fixed bytes once the end of the request
/// has arrived.
pub(crate) struct RecordingApi {
    pub(crate) url: String,
    got: Arc<Mutex<Vec<u8>>>,
    _work: Background<()>,
}

impl RecordingApi {
    pub(crate) async fn answering(end_of_request: &'static str, answer: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let got = Arc::new(Mutex::new(Vec::new()));
        let tape = Arc::clone(&got);
        let work = Background::start(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            loop {
                let mut piece = Vec::new();
                let count = stream.read_buf(&mut piece).await.unwrap_or(0);
                let whole = {
                    let mut got = tape.lock().expect("no panic");
                    got.extend_from_slice(&piece);
                    String::from_utf8_lossy(&got).contains(end_of_request)
                };
                if whole || count == 0 {
                    break;
                }
            }
            stream.write_all(answer.as_bytes()).await.expect("a reader");
        });
        Self { url, got, _work: work }
    }

    pub(crate) fn got(&self) -> String {
        String::from_utf8_lossy(&self.got.lock().expect("no panic")).into_owned()
    }
}
