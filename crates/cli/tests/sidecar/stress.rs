//! Many at once who want nothing, or want it slowly, beside a few who want an answer.

use std::process::Command;
use std::time::Duration;

use outflow_testkit::Process;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::support::{PATIENCE, echo};

/// A sidecar in a process of its own, so that its memory is its own too.
struct Alone {
    process: Process,
    address: String,
    _dir: tempfile::TempDir,
}

impl Alone {
    fn before(url: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("outflow.toml");
        let text = format!(
            "[log]\nlevel = \"error\"\n[server]\nlisten = \"127.0.0.1:0\"\n\
             max_connections = 20000\nmax_connections_per_client = 20000\n\
             header_timeout = \"5m\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [apis.strict]\nbase_url = \"{url}\"\naddresses = \"any\"\n\
             limits = [\"100000/s\"]\nconcurrency = 100\n"
        );
        std::fs::write(&file, text).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_outflow"));
        command.arg("serve").arg("--config").arg(&file);
        let mut process = Process::start(command).expect("it starts");
        let line = process.wait_for_line("calls", PATIENCE).expect("a banner");
        let address = line.split("http://").nth(1).expect("an address");
        let address = address.split('/').next().expect("an address").to_owned();
        Self {
            process,
            address,
            _dir: dir,
        }
    }

    /// In KiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.expect("it runs");
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let figure = line.and_then(|line| line.split_whitespace().nth(1));
        figure
            .and_then(|figure| figure.parse().ok())
            .expect("a figure")
    }

    /// How long the slowest but one in a hundred of so many calls takes.
    async fn p99(&self, calls: usize) -> Duration {
        let mut stream = TcpStream::connect(&self.address).await.expect("it listens");
        let request = format!("GET /strict/x HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        let mut times = Vec::with_capacity(calls);
        for _ in 0..calls {
            let begun = Instant::now();
            stream.write_all(request.as_bytes()).await.expect("written");
            let mut answer = Vec::new();
            while !answer.ends_with(b"}") {
                let count = stream.read_buf(&mut answer).await.expect("an answer");
                assert!(count > 0, "closed");
            }
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        let place = calls * 99 / 100;
        *times.get(place).expect("so many were made")
    }
}

// The promise: 10,000 idle, 1,000 slow and 64 with huge heads take no more than 256 MiB, and others
// are answered in at most twice the time. A test build is slow, so twice is given a floor of 20 ms.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes more open files than most machines allow without asking"]
async fn stress_ten_thousand_idle_and_a_thousand_slow_clients() {
    let (_, server) = echo().await;
    let alone = Alone::before(&server.url());
    let (before, rss_before) = (alone.p99(1_000).await, alone.resident());
    let mut guests = Vec::new();
    for number in 0..11_064 {
        let mut stream = TcpStream::connect(&alone.address).await.expect("a place");
        match number {
            0..10_000 => {}
            10_000..11_000 => {
                stream
                    .write_all(b"GET /strict/x HTTP/1.1\r\nhost:")
                    .await
                    .expect("written");
            }
            _ => {
                let huge = format!("GET /strict/x HTTP/1.1\r\nx: {}", "a".repeat(32_000));
                stream.write_all(huge.as_bytes()).await.expect("written");
            }
        }
        guests.push(stream);
    }
    let (after, rss) = (alone.p99(1_000).await, alone.resident());
    println!("resident {rss_before} KiB, then {rss} KiB; p99 {before:?}, then {after:?}");
    assert!(rss <= 256 * 1_024, "{rss} KiB");
    assert!(
        after <= (before * 2).max(Duration::from_millis(20)),
        "{after:?}"
    );
    drop(guests);
}
