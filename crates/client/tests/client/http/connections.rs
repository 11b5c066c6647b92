//! Connections: kept while they are of use, and never one that somebody may have closed.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use outflow::{IoStream, Outflow};
use outflow_mock::Script;
use outflow_testkit::{Background, VirtualTime};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::mpsc;

use super::support::{eager, scripted, together};

/// A client in the runtime's own time that counts the connections it makes.
fn counting() -> (Outflow, Arc<AtomicUsize>) {
    counting_up_to(4)
}

/// The same with so many calls at a time.
fn counting_up_to(most: u32) -> (Outflow, Arc<AtomicUsize>) {
    let server = Arc::new(scripted(Script::new()).in_memory());
    let mut api = eager(&server.url());
    api.rules.health = together(most);
    let made = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&made);
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            counted.fetch_add(1, Ordering::Relaxed);
            let pipe: Box<dyn IoStream> = Box::new(server.connect());
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

/// So many calls at once.
async fn burst(client: &Outflow, count: usize) {
    let calls = (0..count).map(|_| Some(Box::pin(call(client))));
    let mut calls: Vec<_> = calls.collect();
    poll_fn(|cx| {
        for place in &mut calls {
            place.take_if(|call| call.as_mut().poll(cx).is_ready());
        }
        let over = calls.iter().all(Option::is_none);
        if over { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

// Fifty may run at once: the connections of one burst serve the next, all of them.
#[tokio::test(start_paused = true)]
async fn as_many_connections_are_kept_as_calls_may_run_at_once() {
    let (client, made) = counting_up_to(50);
    burst(&client, 50).await;
    let first = made.load(Ordering::Relaxed);
    assert!(first > 32, "{first} of fifty at once");
    burst(&client, 50).await;
    assert_eq!(made.load(Ordering::Relaxed), first);
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
            let ours: Box<dyn IoStream> = Box::new(ours);
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

/// A client whose connections the test answers itself. The third takes two seconds to make.
fn played() -> (Outflow, mpsc::UnboundedReceiver<BufReader<DuplexStream>>) {
    let (knock, doors) = mpsc::unbounded_channel();
    let made = AtomicUsize::new(0);
    let mut api = eager("http://played.example");
    api.retry.count = 0;
    let client = Outflow::builder()
        .api(api)
        .timer(Arc::new(VirtualTime::new()))
        .connector(Arc::new(move |_: &str, _: u16| -> outflow::Connecting {
            let (ours, theirs) = tokio::io::duplex(1_024);
            knock.send(BufReader::new(theirs)).expect("a listener");
            let slow = made.fetch_add(1, Ordering::Relaxed) == 2;
            let ours: Box<dyn IoStream> = Box::new(ours);
            Box::pin(async move {
                tokio::time::sleep(Duration::from_secs(if slow { 2 } else { 0 })).await;
                Ok(ours)
            })
        }))
        .build();
    (client.expect("valid"), doors)
}

/// The head of the next request, which has no body; nothing if the connection ends.
async fn asked(stream: &mut BufReader<DuplexStream>) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    Some(head)
}

async fn answers(stream: &mut BufReader<DuplexStream>, head: &str) {
    let head = format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("heard");
}

// The connection is closed in the very moment in which a POST is handed to it, before anybody has seen
// its end: nothing of it has left, so it goes over another one and was sent once.
#[tokio::test(start_paused = true)]
async fn a_post_that_a_closed_connection_gave_back_is_sent_once() {
    let (client, mut doors) = played();
    let serve = async {
        let mut first = doors.recv().await.expect("a connection");
        asked(&mut first).await.expect("a request");
        answers(&mut first, "200 OK").await;
        first
    };
    let ((), first) = tokio::join!(call(&client), serve);
    tokio::time::sleep(Duration::from_millis(1)).await;
    drop(first);
    let serve = async {
        let mut next = doors.recv().await.expect("another");
        let head = asked(&mut next).await.expect("the request");
        answers(&mut next, "201 Created").await;
        (head, next)
    };
    let (posted, (head, _next)) = tokio::join!(client.post("strict", "/order").send(), serve);
    let posted = posted.expect("an answer");
    assert!(head.starts_with("POST /order "), "{head}");
    assert_eq!((posted.status().as_u16(), posted.attempts()), (201, 1));
    assert!(doors.try_recv().is_err(), "no third connection");
}

// The same while making another connection takes two seconds, and after one of them the server asks
// everybody to stay away for a minute: nothing of the POST had left, and nothing leaves.
#[tokio::test(start_paused = true)]
async fn a_request_that_a_closed_connection_gave_back_can_still_be_called_off() {
    let (client, mut doors) = played();
    let serve = async {
        let mut first = doors.recv().await.expect("a connection");
        let mut second = doors.recv().await.expect("another");
        for stream in [&mut first, &mut second] {
            asked(stream).await.expect("a request");
            answers(stream, "200 OK").await;
        }
        (first, second)
    };
    let ((), (), (mut busy, mut idle)) = tokio::join!(call(&client), call(&client), serve);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut refused = Box::pin(client.get("strict", "/").send());
    tokio::select! {
        _ = &mut refused => unreachable!("nobody answered"),
        _ = asked(&mut busy) => {}
        _ = asked(&mut idle) => std::mem::swap(&mut busy, &mut idle),
    }
    // Nobody runs between these two, so nobody sees the end of the connection before the POST is on it.
    drop(idle);
    let post = client.post("strict", "/order").send();
    let refuse = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        answers(&mut busy, "429 Too Many\r\nretry-after: 60").await;
        drop(busy);
    };
    let (posted, refused, ()) = tokio::join!(post, refused, refuse);
    assert_eq!(refused.expect("an answer").status(), 429);
    let error = posted.expect_err("called off");
    assert!(
        error.refusal().is_some() && error.attempts() == 0,
        "{error:?}"
    );
    drop(client);
    let mut third = doors.recv().await.expect("it was made");
    assert_eq!(asked(&mut third).await, None);
}
