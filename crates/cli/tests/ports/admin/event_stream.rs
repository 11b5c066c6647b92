//! The live event stream.

use outflow_cli::ListenAddr;
use outflow_mock::MockApi;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::support::{PATIENCE, QUIET, TestProgram};

/// A reader of the event stream, block by block.
pub struct EventReader {
    wire: TcpStream,
    text: String,
}

impl EventReader {
    /// Opens the stream and waits for the head of its response.
    pub async fn open(running: &TestProgram, target: &str) -> Self {
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

    /// Returns the next event: its name, its number and its fields; `None` at the end. Skips comments.
    pub async fn next(&mut self) -> Option<(String, Option<u64>, Value)> {
        loop {
            let block = self.until("\n\n").await?;
            let field = |name: &str| {
                let mut lines = block.lines();
                lines.find_map(|line| line.strip_prefix(name)).map(str::to_owned)
            };
            if let (Some(name), Some(data)) = (field("event: "), field("data: ")) {
                let number = field("id: ").and_then(|id| id.parse().ok());
                return Some((name, number, serde_json::from_str(&data).expect("JSON")));
            }
        }
    }

    /// Returns the next event of this name.
    pub async fn next_named(&mut self, wanted: &str) -> Value {
        loop {
            let (name, _, facts) = self.next().await.expect("the stream goes on");
            if name == wanted {
                return facts;
            }
        }
    }

    /// Reads up to and including this mark. Chunk lengths between blocks do not look like a block.
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
            self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
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

/// Acquires and refunds this number of permits: two events each, emitted on this thread.
fn pass(running: &TestProgram, api: &str, calls: usize) {
    let upstream = running.program.state().client().upstream(api).expect("known");
    for _ in 0..calls {
        let target = upstream.route(&http::Method::GET, "/");
        drop(upstream.try_acquire(target).expect("nothing is limited"));
    }
}

#[tokio::test]
async fn events_arrive_in_order_with_numbers() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events").await;
    pass(&running, "stock", 3);
    let (mut numbers, mut permits) = (Vec::new(), Vec::new());
    for wanted in ["admitted", "refunded"].repeat(3) {
        let (name, number, facts) = stream.next().await.expect("an event");
        assert_eq!(name, wanted);
        assert_eq!((&facts["event"], &facts["api"]), (&json!(wanted), &json!("stock")));
        numbers.push(number.expect("a number"));
        permits.push(facts["permit"].as_u64().expect("a permit"));
    }
    let first = numbers[0];
    assert_eq!(numbers, (first..first + 6).collect::<Vec<_>>());
    assert!(permits.is_sorted() && permits[0] == permits[1], "{permits:?}");
}

#[tokio::test]
async fn the_event_stream_filters_by_api() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events?api=books").await;
    pass(&running, "stock", 5);
    pass(&running, "books", 1);
    let (name, _, facts) = stream.next().await.expect("an event");
    assert_eq!((name.as_str(), &facts["api"]), ("admitted", &json!("books")));
}

// 1,500 calls are 3,000 events on a thread that blocks the stream. The buffer keeps 1,024, and the reader
// first receives the number of lost ones.
#[tokio::test]
async fn a_slow_reader_learns_how_many_events_it_missed() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events").await;
    pass(&running, "stock", 1_500);
    let (name, _, facts) = stream.next().await.expect("an event");
    assert_eq!((name.as_str(), &facts["missed"]), ("lagged", &json!(3_000 - 1_024)));
    let (_, first, _) = stream.next().await.expect("an event");
    for more in 1..1_024 {
        let (_, number, _) = stream.next().await.expect("an event");
        assert_eq!(number, first.map(|first| first + more));
    }
}

#[tokio::test]
async fn the_event_stream_sends_requested_snapshots() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events?snapshot_ms=100").await;
    for _ in 0..2 {
        let snapshot = stream.next_named("snapshot").await;
        assert_eq!(snapshot["apis"][1]["name"], "stock");
    }
}

#[tokio::test]
async fn the_event_stream_reports_state_changes_and_operators() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events?api=stock").await;
    let hold = r#"{"state":"offline","reason":"a move"}"#;
    running.post("/v1/apis/stock/health", hold).await;
    let moved = stream.next_named("state_transition").await;
    assert_eq!((&moved["to"], &moved["reason"]), (&json!("Sleep"), &json!("forced")));
    let operated = stream.next_named("operated").await;
    assert_eq!(
        (&operated["action"], &operated["who"]),
        (&json!("hold_offline"), &json!("127.0.0.1: a move"))
    );
}

// The call has a key in its query and a text that resembles a key in its path.
#[tokio::test]
async fn the_event_stream_redacts_calls() {
    let api = MockApi::builder().build().expect("valid");
    let server = api.listen().await.expect("a port");
    let text = format!("[apis.stock]\nbase_url = \"{}\"\n", server.url());
    let running = TestProgram::with_config(&format!("{QUIET}{text}")).await;
    let mut stream = EventReader::open(&running, "/v1/events?snapshot_ms=100").await;
    let ListenAddr::Tcp(sidecar) = running.program.sidecar() else {
        panic!("a port was asked for");
    };
    let mut wire = TcpStream::connect(sidecar).await.expect("a connection");
    let call = "GET /stock/bot8123:AAHk0vT3xPqL9sWz2mRbYc/films?key=CANARY HTTP/1.1\r\n\
                host: localhost\r\nconnection: close\r\n\r\n";
    wire.write_all(call.as_bytes()).await.expect("sent");
    let event = stream.next_named("request").await;
    assert_eq!((&event["method"], &event["group"]), (&json!("GET"), &json!("default")));
    assert_eq!(event["path"], "/…/films");
    let snapshot = stream.next_named("snapshot").await.to_string();
    for secret in ["CANARY", "AAHk0vT3xPqL9sWz2mRbYc"] {
        assert!(
            !event.to_string().contains(secret) && !snapshot.contains(secret),
            "{secret}"
        );
    }
}

#[tokio::test]
async fn event_streams_end_with_the_program() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut stream = EventReader::open(&running, "/v1/events").await;
    assert!(running.stop().await, "an open stream holds nothing up");
    while stream.next().await.is_some() {}
}

// More events than any buffer holds, to a reader that reads nothing: the program does not wait for the grace
// of half a minute.
#[tokio::test]
async fn a_stalled_reader_does_not_delay_shutdown() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let stream = EventReader::open(&running, "/v1/events").await;
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

// Each reader costs a copy of every event, so the 65th is refused.
#[tokio::test]
async fn the_event_stream_bounds_its_readers() {
    let running = TestProgram::with_config(&format!("{QUIET}{TWO}")).await;
    let mut streams = Vec::new();
    for _ in 0..64 {
        streams.push(EventReader::open(&running, "/v1/events").await);
    }
    let refused = running.get("/v1/events").await;
    assert_eq!((refused.status, refused.problem().as_str()), (503, "too_many_readers"));
}
