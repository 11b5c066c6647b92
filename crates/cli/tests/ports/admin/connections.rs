//! Places of the admin port: idle clients keep no operator out.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::support::TestProgram;

/// Less than any timeout of the port.
const PATIENCE: Duration = Duration::from_secs(5);

/// Places of the admin port.
const PLACES: usize = 128;

async fn clients(program: &TestProgram, bytes: &str) -> Vec<TcpStream> {
    let mut clients = Vec::new();
    for _ in 0..PLACES {
        let mut client = TcpStream::connect(program.address()).await.expect("it listens");
        // A rejected client cannot write.
        let _rejected = client.write_all(bytes.as_bytes()).await;
        clients.push(client);
    }
    clients
}

// A client is idle after a moment without a request. The timeout for their heads is ten seconds, and that for
// idle connections a minute: both are too long for the patience of this test.
#[tokio::test]
async fn idle_clients_leave_the_admin_port_to_operators() {
    let program = TestProgram::start().await;
    for begun in [
        "",
        "GET /healthz HTTP/1.1\r\n",
        "GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n",
    ] {
        let _idle = clients(&program, begun).await;
        let served = async {
            loop {
                let mut probe = program.open("GET", "/healthz", &[], "").await;
                let mut answer = String::new();
                // A rejection may arrive as a reset.
                let _reset = probe.read_to_string(&mut answer).await;
                if answer.starts_with("HTTP/1.1 200") {
                    return;
                }
            }
        };
        let served = tokio::time::timeout(PATIENCE, served).await;
        assert!(served.is_ok(), "{begun}");
    }
}

// Requests without their bodies take all places, and twice as many silent clients as the reserve has places come
// before the check.
#[tokio::test]
async fn silent_clients_of_a_full_port_delay_no_health_check() {
    let program = TestProgram::start().await;
    let begun = "POST /v1/apis/stock/health HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n\
                 content-length: 2\r\n\r\n";
    let _busy = clients(&program, begun).await;
    let mut operator = program.open("GET", "/v1/apis", &[], "").await;
    let mut rejection = [0; 12];
    operator.read_exact(&mut rejection).await.expect("a response");
    assert_eq!(&rejection, b"HTTP/1.1 503", "the port is full");
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(program.address()).await.expect("it listens"));
    }
    let mut probe = program.open("GET", "/healthz", &[], "").await;
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, probe.read_to_string(&mut answer)).await;
    read.expect("in time").expect("no reset");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
