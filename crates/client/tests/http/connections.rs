//! Connections: kept while they are of use, and never one that somebody may have closed.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use outflow::{Outflow, Stream};
use outflow_testkit::{Background, VirtualTime};
use outflow_upstream::Script;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

use super::support::{eager, scripted};

/// A client in the runtime's own time that counts the connections it makes.
fn counting() -> (Outflow, Arc<AtomicUsize>) {
    let server = Arc::new(scripted(Script::new()).in_memory());
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let client = Outflow::builder()
        .api(eager(&server.url()))
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            counted.fetch_add(1, Ordering::Relaxed);
            let pipe: Box<dyn Stream> = Box::new(server.connect());
            Box::pin(async move { Ok(pipe) })
        }))
        .build();
    (client.expect("valid"), made)
}

async fn call(client: &Outflow) {
    let answer = client.get("strict", "/").send().await.expect("an answer");
    assert_eq!(answer.status(), 200);
}

// Three one after the other need one; two at once need one more, and two at once again no more.
#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_as_soon_as_it_is_free() {
    let (client, made) = counting();
    for _ in 0..3 {
        call(&client).await;
    }
    assert_eq!(made.load(Ordering::Relaxed), 1);
    for _ in 0..2 {
        tokio::join!(call(&client), call(&client));
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}

// Servers hang up after 15 seconds of silence at the earliest: 14 are fine, 16 are not.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_silent_for_long_is_not_used() {
    let (client, made) = counting();
    call(&client).await;
    tokio::time::sleep(Duration::from_secs(14)).await;
    call(&client).await;
    assert_eq!(made.load(Ordering::Relaxed), 1);
    tokio::time::sleep(Duration::from_secs(16)).await;
    call(&client).await;
    assert_eq!(made.load(Ordering::Relaxed), 2);
}

/// A client whose server says nothing of it and hangs up after every answer.
fn rude() -> (Outflow, Background<()>) {
    let (knock, mut doors) = mpsc::unbounded_channel::<DuplexStream>();
    let work = async move {
        while let Some(stream) = doors.recv().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while line != "\r\n" {
                line.clear();
                stream.read_line(&mut line).await.expect("a line");
            }
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
            stream.write_all(answer).await.expect("heard");
        }
    };
    let client = Outflow::builder()
        .api(eager("http://rude.example"))
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let (ours, theirs) = tokio::io::duplex(1_024);
            knock.send(theirs).expect("somebody serves");
            let ours: Box<dyn Stream> = Box::new(ours);
            Box::pin(async move { Ok(ours) })
        }))
        .build();
    (client.expect("valid"), Background::start(work))
}

// A POST is not repeated once it may have left, so each of these must have met a living connection.
// The pause is the runtime's own time: it ends when everybody has seen the end of the connection.
#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_costs_no_attempt() {
    let (client, _running) = rude();
    for _ in 0..5 {
        let answer = client.post("strict", "/").send().await.expect("an answer");
        assert_eq!(answer.attempts(), 1);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
