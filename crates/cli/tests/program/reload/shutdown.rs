//! The end of a program: calls in flight finish, and no wait is endless.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use outflow_testkit::{Background, Process};

use super::support::{ConfigFile, NAME, ReloadProcess, command, slow_server};
use crate::support::PATIENCE;

// Fifty calls of two seconds each are in flight when the program receives the signal. An idle connection is
// open too.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_program_finishes_its_calls() {
    let server = slow_server(Duration::from_secs(2)).await;
    let file = ConfigFile::for_server(&server);
    let mut running = ReloadProcess::start(&file);
    let client = running.caller();
    let mut idle = idle(&running.calls);
    let calls: Vec<_> = (0..50)
        .map(|_| {
            let client = client.clone();
            Background::start(async move { client.get(NAME, "/a").send().await })
        })
        .collect();
    while !running.metrics().await.contains("outflow_in_flight{api=\"strict\"} 50") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.process.terminate().expect("sent");
    running.says("finishing calls in flight");
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).expect("closed");
    assert_eq!(rest, Vec::<u8>::new(), "closed without a word");
    for call in calls {
        assert_eq!(call.join().await.expect("an answer").status(), 200);
    }
    let status = running.process.wait(PATIENCE).expect("its end");
    assert_eq!(status.code(), Some(0));
    assert_eq!(server.api().totals().seen, 50);
    let refused = client.get(NAME, "/a").send().await;
    assert!(refused.expect_err("gone").is_connect());
}

/// Opens a connection that has had one response and stays idle.
fn idle(url: &str) -> TcpStream {
    let address = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = "GET /nothing/here HTTP/1.1\r\nhost: x\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("an answer");
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let length = head.split("content-length:").nth(1).expect("a length");
    let length: usize = length.lines().next().expect("a line").trim().parse().expect("a number");
    stream.read_exact(&mut vec![0; length]).expect("a body");
    stream
}

// The call takes a minute and grace is twenty seconds: a second signal overrides grace.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_signal_ends_the_program_at_once() {
    let server = slow_server(Duration::from_mins(1)).await;
    let file = ConfigFile::for_server(&server);
    let mut running = ReloadProcess::start(&file);
    let client = running.caller();
    let call = Background::start(async move { client.get(NAME, "/a").send().await });
    while !running.metrics().await.contains("outflow_in_flight{api=\"strict\"} 1") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.process.terminate().expect("sent");
    running.says("finishing calls in flight");
    running.process.terminate().expect("sent");
    let status = running.process.wait(Duration::from_secs(10)).expect("its end");
    assert_eq!(status.code(), Some(130));
    assert!(call.join().await.is_err());
}

// The second program finds the directory locked, names it, and does not disturb the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_second_program_reports_a_locked_directory() {
    let server = slow_server(Duration::ZERO).await;
    let file = ConfigFile::for_server(&server);
    let kept = file.dir.path().join("kept");
    file.write(&format!("[cache]\ndir = \"{}\"", kept.display()));
    let first = ReloadProcess::start(&file);
    let mut second = Process::start(command(&file)).expect("it starts");
    let status = second.wait(PATIENCE).expect("its end");
    assert_eq!(status.code(), Some(1));
    let said: Vec<_> = second.lines().iter().map(|line| line.text.clone()).collect();
    let said = said.join("\n");
    assert!(said.contains(&kept.display().to_string()), "{said}");
    let answer = first.caller().get(NAME, "/a").send().await;
    assert_eq!(answer.expect("an answer").status(), 200);
    assert_eq!(server.api().totals().seen, 1);
}
