//! Attacks on memory, against the real program: its resident memory stays within `server.max_memory`.

use std::fmt::Write as _;
use std::time::Duration;

use outflow_mock::{Content, MockApi, MockResponse, Script, ScriptMatch, ScriptedFault, Server};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::sleep;

use super::stress::SidecarProcess;

/// Resident memory that the budget allows, in KiB: 256 MiB, and a tenth for the allocator.
const MAX_GROWTH: u64 = 256 * 1_024 * 11 / 10;

async fn large_api() -> Server {
    let large = MockResponse::status(200).content(Content::Zeros(9 << 20));
    let late = ScriptedFault::Late(Duration::from_hours(1));
    let api = MockApi::builder()
        .answer("/large/**", large)
        .answer("/x", MockResponse::echo())
        .script(Script::new().rule(ScriptMatch::path("/late"), late))
        .build()
        .expect("valid");
    api.listen().await.expect("a port")
}

/// Samples the resident memory for this time and compares its peak with the budget.
async fn watch(sidecar: &SidecarProcess, what: &str, before: u64, time: Duration) {
    let mut peak = 0;
    for _ in 0..time.as_millis() / 250 {
        peak = peak.max(sidecar.resident());
        sleep(Duration::from_millis(250)).await;
    }
    println!("{what}: resident {before} KiB, then at most {peak} KiB");
    assert!(peak <= before + MAX_GROWTH, "{what}: {before} KiB, then {peak} KiB");
    let mut caller = sidecar.caller().await;
    caller.call().await;
}

/// One connection without a window and a hundred requests, 2 kB in all, for responses of 9 MiB.
async fn stalled_http_2(sidecar: &SidecarProcess) -> TcpStream {
    let frame = |kind: u8, flags: u8, stream: u32, payload: &[u8]| {
        let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
        let mut frame = length.get(1..).expect("four bytes").to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    };
    let field = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).expect("short")], text.as_bytes()].concat();
        [vec![0], text(name), text(value)].concat()
    };
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[0, 4, 0, 0, 0, 0]));
    for number in 0..100_u32 {
        let head = [
            field(":method", "GET"),
            field(":scheme", "http"),
            field(":authority", "127.0.0.1"),
            field(":path", &format!("/strict/large/{number}")),
        ];
        bytes.extend(frame(1, 5, 2 * number + 1, &head.concat()));
    }
    let mut stream = TcpStream::connect(&sidecar.address).await.expect("a place");
    stream.write_all(&bytes).await.expect("written");
    stream
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "moves gigabytes"]
async fn stress_memory_of_clients_that_do_not_read() {
    let server = large_api().await;
    let sidecar = SidecarProcess::start(&server.url(), "cache = \"standard\"");
    let before = sidecar.resident();
    let stalled = stalled_http_2(&sidecar).await;
    watch(&sidecar, "a connection without window", before, Duration::from_secs(20)).await;
    drop(stalled);
    let mut clients = Vec::new();
    for number in 0..300 {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(4_096).expect("settable");
        let address = sidecar.address.parse().expect("an address");
        let mut stream = socket.connect(address).await.expect("a place");
        let mut request = String::new();
        write!(
            request,
            "GET /strict/large/{number} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
        )
        .expect("a string");
        stream.write_all(request.as_bytes()).await.expect("written");
        clients.push(stream);
    }
    watch(
        &sidecar,
        "300 clients that do not read",
        before,
        Duration::from_secs(20),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more open files than most machines allow without asking"]
async fn stress_memory_of_eleven_thousand_waiting_bodies() {
    let server = large_api().await;
    let waiting = format!(
        "[apis.slow]\nbase_url = \"{}\"\naddresses = \"any\"\nlimits = []\nconcurrency = 1\nqueue = 20000\n\
         max_wait = \"1h\"\ntimeout = \"2h\"\nread_timeout = \"2h\"",
        server.url()
    );
    let sidecar = SidecarProcess::start(&server.url(), &waiting);
    let before = sidecar.resident();
    let body = "y".repeat(60_000);
    let request = format!("POST /slow/late HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 60000\r\n\r\n{body}");
    let mut clients = Vec::new();
    for _ in 0..11_000 {
        let mut stream = TcpStream::connect(&sidecar.address).await.expect("a place");
        // A rejection may come before all is written, and an unread body stays in the socket.
        let _rejected = tokio::time::timeout(Duration::from_millis(100), stream.write_all(request.as_bytes())).await;
        clients.push(stream);
    }
    watch(&sidecar, "11,000 waiting bodies", before, Duration::from_secs(5)).await;
}
