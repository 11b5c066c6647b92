//! The memory of a wave of connections returns to the system, where the program has its own allocator.

use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use super::stress::SidecarProcess;
use super::support::{echo, until};

// 700 clients with a body of 16 KiB take more than 10 MiB and stay below the usual limit of 1,024 open files.
// Half of it is back within a minute: the allocator waits ten seconds before it returns a page, and a busy
// machine takes longer. Without an allocator of its own the program keeps all of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_memory_of_a_wave_returns_to_the_system() {
    // Other systems keep their own allocator.
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return;
    }
    let (_, server) = echo().await;
    let sidecar = SidecarProcess::start(&server.url(), "");
    drop(answered_client(&sidecar).await);
    let before = sidecar.resident();
    let mut clients = Vec::new();
    for _ in 0..700 {
        clients.push(answered_client(&sidecar).await);
    }
    let during = sidecar.resident();
    assert!(during > before + 10 * 1_024, "{before} KiB, then {during} KiB");
    drop(clients);
    let begun = Instant::now();
    while sidecar.resident() > before.midpoint(during) {
        let now = sidecar.resident();
        assert!(
            begun.elapsed() < Duration::from_mins(1),
            "{before} KiB, {during} KiB, {now} KiB"
        );
        sleep(Duration::from_millis(100)).await;
    }
}

/// Returns a client that has its response and keeps its connection.
async fn answered_client(sidecar: &SidecarProcess) -> TcpStream {
    let mut stream = TcpStream::connect(&sidecar.address).await.expect("it listens");
    let (host, body) = (&sidecar.address, "b".repeat(BODY));
    let request = format!("POST /strict/x HTTP/1.1\r\nhost: {host}\r\ncontent-length: {BODY}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.expect("written");
    until(&mut stream, "\"path\":\"/x\"").await;
    stream
}

const BODY: usize = 16 * 1_024;
