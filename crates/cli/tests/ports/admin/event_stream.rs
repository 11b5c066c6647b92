//! The live stream.

use outflow_cli::ListenAddr;
use outflow_mock::MockApi;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{PATIENCE, QUIET, Running};

/// One who listens, block by block.
pub struct Stream {
    wire: TcpStream,
    text: String,
}

impl Stream {
    /// Listens, and returns when the server says that it does.
    pub async fn open(running: &Running, target: &str) -> Self {
        let wire = running.open("GET", target, &[], "").await;
        let mut stream = Self {
            wire,
            text: String::new(),
        };
        let head = stream.until("\r\n\r\n").await.expect("a head");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        stream
    }

    /// The next event: its name, its number and what it says; `None` at the end. Comments are passed
    /// over.
    pub async fn next(&mut self) -> Option<(String, Option<u64>, Value)> {
        loop {
            let block = self.until("\n\n").await?;
            let field = |name: &str| {
                let mut lines = block.lines();
                lines
                    .find_map(|line| line.strip_prefix(name))
                    .map(str::to_owned)
            };
            if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                let number = field("id: ").and_then(|id| id.parse().ok());
                return Some((name, number, serde_json::from_str(&data).expect("JSON")));
            }
        }
    }

    /// The next event of this name.
    pub async fn next_named(&mut self, wanted: &str) -> Value {
        loop {
            let (name, _, facts) = self.next().await.expect("the stream goes on");
            if name == wanted {
                return facts;
            }
        }
    }

    /// All up to and with this mark. Chunks have lengths between them, which no block of ours looks
    /// like.
    async fn until(&mut self, mark: &str) -> Option<String> {
        loop {
            if let Some(end) = self.text.find(mark) {
                let rest = self.text.split_off(end + mark.len());
                return Some(std::mem::replace(&mut self.text, rest));
            }
            let mut bytes = [0; 4096];
            let read = timeout(PATIENCE, self.wire.read(&mut bytes)).await;
            let count = read.expect("something in time").unwrap_or(0);
            if count == 0 {
                return None;
            }
            self.text
                .push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
    }
}

const TWO: &str = r#"
    [apis.stock]
    base_url = "http://localhost:9"
    limits = []
    concurrency = 1000
    [apis.books]
    base_url = "http://localhost:9"
    limits = []
"#;

/// So many calls that are let through and given back: two events each, told on this thread.
fn pass(running: &Running, api: &str, calls: usize) {
    let door = running
        .program
        .station()
        .client()
        .upstream(api)
        .expect("known");
    for _ in 0..calls {
        let target = door.route(&http::Method::GET, "/");
        drop(door.try_acquire(target).expect("nothing is limited"));
    }
}

#[tokio::test]
async fn events_come_in_their_order_with_their_numbers() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events").await;
    pass(&running, "stock", 3);
    let (mut numbers, mut permits) = (Vec::new(), Vec::new());
    for wanted in ["admitted", "refunded"].repeat(3) {
        let (name, number, facts) = stream.next().await.expect("an event");
        assert_eq!(name, wanted);
        assert_eq!(
            (&facts["event"], &facts["api"]),
            (&json!(wanted), &json!("stock"))
        );
        numbers.push(number.expect("a number"));
        permits.push(facts["permit"].as_u64().expect("a permit"));
    }
    let first = numbers[0];
    assert_eq!(numbers, (first..first + 6).collect::<Vec<_>>());
    assert!(
        permits.is_sorted() && permits[0] == permits[1],
        "{permits:?}"
    );
}

#[tokio::test]
async fn a_reader_hears_of_the_api_it_asked_for_and_no_other() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events?api=books").await;
    pass(&running, "stock", 5);
    pass(&running, "books", 1);
    let (name, _, facts) = stream.next().await.expect("an event");
    assert_eq!(
        (name.as_str(), &facts["api"]),
        ("admitted", &json!("books"))
    );
}

// 1,500 calls are 3,000 events on a thread on which the stream cannot run meanwhile: 1,024 are kept,
// and the reader is told of the rest before it hears them.
#[tokio::test]
async fn whoever_is_too_slow_is_told_how_much_it_missed() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events").await;
    pass(&running, "stock", 1_500);
    let (name, _, facts) = stream.next().await.expect("an event");
    assert_eq!(
        (name.as_str(), &facts["missed"]),
        ("lagged", &json!(3_000 - 1_024))
    );
    let (_, first, _) = stream.next().await.expect("an event");
    for more in 1..1_024 {
        let (_, number, _) = stream.next().await.expect("an event");
        assert_eq!(number, first.map(|first| first + more));
    }
}

#[tokio::test]
async fn snapshots_come_with_the_events_if_they_are_asked_for() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events?snapshot_ms=100").await;
    for _ in 0..2 {
        let snapshot = stream.next_named("snapshot").await;
        assert_eq!(snapshot["apis"][1]["name"], "stock");
    }
}

#[tokio::test]
async fn a_change_of_state_and_who_made_it_are_told() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events?api=stock").await;
    let hold = r#"{"state":"offline","reason":"a move"}"#;
    running.post("/v1/apis/stock/health", hold).await;
    let moved = stream.next_named("state_transition").await;
    assert_eq!(
        (&moved["to"], &moved["reason"]),
        (&json!("Sleep"), &json!("forced"))
    );
    let operated = stream.next_named("operated").await;
    assert_eq!(
        (&operated["action"], &operated["who"]),
        (&json!("hold_offline"), &json!("127.0.0.1: a move"))
    );
}

// A call through the sidecar with a key in its query and one that looks like one in its path.
#[tokio::test]
async fn a_call_is_told_without_its_secrets() {
    let api = MockApi::builder().build().expect("valid");
    let server = api.listen().await.expect("a port");
    let text = format!("[apis.stock]\nbase_url = \"{}\"\n", server.url());
    let running = Running::with(&format!("{QUIET}{text}")).await;
    let mut stream = Stream::open(&running, "/v1/events?snapshot_ms=100").await;
    let ListenAddr::Tcp(sidecar) = running.program.sidecar() else {
        panic!("a port was asked for");
    };
    let mut wire = TcpStream::connect(sidecar).await.expect("a connection");
    let call = "GET /stock/bot8123:AAHk0vT3xPqL9sWz2mRbYc/films?key=CANARY HTTP/1.1\r\n\
                host: localhost\r\nconnection: close\r\n\r\n";
    wire.write_all(call.as_bytes()).await.expect("sent");
    let told = stream.next_named("request").await;
    assert_eq!(
        (&told["method"], &told["group"]),
        (&json!("GET"), &json!("default"))
    );
    assert_eq!(told["path"], "/…/films");
    let snapshot = stream.next_named("snapshot").await.to_string();
    for secret in ["CANARY", "AAHk0vT3xPqL9sWz2mRbYc"] {
        assert!(
            !told.to_string().contains(secret) && !snapshot.contains(secret),
            "{secret}"
        );
    }
}

#[tokio::test]
async fn streams_end_with_the_program() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut stream = Stream::open(&running, "/v1/events").await;
    assert!(running.stop().await, "an open stream holds nothing up");
    while stream.next().await.is_some() {}
}

// So much that no buffer on the way holds it, to a reader who reads nothing: the grace of half a
// minute is not waited for.
#[tokio::test]
async fn a_reader_who_does_not_read_holds_nothing_up() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let stream = Stream::open(&running, "/v1/events").await;
    for _ in 0..200 {
        pass(&running, "stock", 500);
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }
    let stopped = timeout(PATIENCE, running.program.stop()).await;
    stopped.expect("the program stops in time");
    drop(stream);
}

// The 65th is refused: each reader costs a copy of everything.
#[tokio::test]
async fn readers_are_bounded() {
    let running = Running::with(&format!("{QUIET}{TWO}")).await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(Stream::open(&running, "/v1/events").await);
    }
    let refused = running.get("/v1/events").await;
    assert_eq!(
        (refused.status, refused.problem().as_str()),
        (503, "too_many_readers")
    );
}
